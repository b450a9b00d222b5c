//! The receipt: an entry's shadow at the broker, in the metadata of the committed offset.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::entry::{EntryChecksum, Frontier};
use crate::epochs::{EntryNumber, Lineage, StoreEpoch};
use crate::offset::Offset;

/// Most bytes of metadata that a broker stores with an offset, unless set otherwise there.
pub const MAX_METADATA: usize = 4096;

const VERSION: &str = "v1";

/// `v1:<lineage>:<storeEpoch>:<n>:<checksum of the entry>:<frontier>`, then what a [`Retrace`] says: `:<history>:<rows>`, and
/// `:<due>:<panes>` where results were handed out in part. Compared whole: a bare number is no identity, as two lives of a
/// task can both have made an entry 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Receipt {
    /// Lineage of the state.
    pub lineage: Lineage,
    /// Life of the store.
    pub store_epoch: StoreEpoch,
    /// Number of the entry; 0 says that the store was made and has committed nothing.
    pub number: EntryNumber,
    /// Checksum of the entry.
    pub checksum: EntryChecksum,
    /// How far event time had closed.
    pub frontier: Frontier,
    /// How to come to the same state again by reading the log; none where nobody could.
    pub retrace: Option<Retrace>,
}

/// Which course of commits a state belongs to: a random number, drawn anew where what follows does not come from the log and
/// the same rules alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct History(pub u64);

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a task needs to come to the state of a receipt from an older one, and to notice if it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Retrace {
    /// The history of the state.
    pub history: History,
    /// Rows that were taken since the store was made, those in error not counted.
    pub rows: u64,
    /// What of the windows that had closed was handed out.
    pub closed: HandedOut,
}

/// How far results were handed out when a commit was made: a large close is committed in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandedOut {
    /// All that had closed.
    All,
    /// A part of it.
    Part {
        /// All that was due at this frontier.
        due: Frontier,
        /// And of what was due after it so many panes, in their order.
        panes: u64,
    },
}

/// A receipt with the offset it was committed with; the two belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommittedReceipt {
    /// The committed offset: that of the record read next.
    pub offset: Offset,
    /// The receipt in its metadata.
    pub receipt: Receipt,
}

/// Metadata of a committed offset that is no receipt.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAReceipt {
    /// A receipt of a version that this program does not know.
    #[error("receipt version `{0}` is not known to this worker; run the version that wrote it")]
    Version(String),
    /// Anything else.
    #[error("`{0}` is no receipt")]
    Form(String),
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{VERSION}:{}:{}:{}:{}:{}",
            self.lineage, self.store_epoch, self.number, self.checksum, self.frontier
        )?;
        let Some(retrace) = &self.retrace else {
            return Ok(());
        };
        write!(f, ":{}:{}", retrace.history, retrace.rows)?;
        match retrace.closed {
            HandedOut::All => Ok(()),
            HandedOut::Part { due, panes } => write!(f, ":{due}:{panes}"),
        }
    }
}

impl From<Receipt> for String {
    fn from(receipt: Receipt) -> Self {
        receipt.to_string()
    }
}

impl TryFrom<String> for Receipt {
    type Error = NotAReceipt;

    fn try_from(text: String) -> Result<Self, NotAReceipt> {
        text.parse()
    }
}

fn version_of_receipt(text: &str) -> Option<&str> {
    let version = text.split(':').next()?;
    let digits = version.strip_prefix('v')?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(version)
}

impl FromStr for Receipt {
    type Err = NotAReceipt;

    fn from_str(text: &str) -> Result<Self, NotAReceipt> {
        let form = || NotAReceipt::Form(text.chars().take(100).collect());
        match version_of_receipt(text) {
            Some(VERSION) => {}
            Some(other) => return Err(NotAReceipt::Version(other.to_owned())),
            None => return Err(form()),
        }
        let mut fields = text.split(':').skip(1);
        let mut field = || fields.next().ok_or_else(form);
        let mut receipt = Self {
            lineage: field()?.parse().map_err(|_| form())?,
            store_epoch: number(field()?).ok_or_else(form)?,
            number: number(field()?).ok_or_else(form)?,
            checksum: EntryChecksum(u32::from_str_radix(field()?, 16).map_err(|_| form())?),
            frontier: field()?.parse().map_err(|_| form())?,
            retrace: None,
        };
        if let Ok(history) = field() {
            receipt.retrace = Some(Retrace {
                history: History(u64::from_str_radix(history, 16).map_err(|_| form())?),
                rows: field()?.parse().map_err(|_| form())?,
                closed: match field() {
                    Err(_) => HandedOut::All,
                    Ok(due) => HandedOut::Part {
                        due: due.parse().map_err(|_| form())?,
                        panes: field()?.parse().map_err(|_| form())?,
                    },
                },
            });
        }
        // One receipt has one text: what reads back in another form was not written by us.
        if receipt.to_string() == text {
            Ok(receipt)
        } else {
            Err(form())
        }
    }
}

fn number<T: TryFrom<i64>>(text: &str) -> Option<T> {
    text.parse::<i64>()
        .ok()
        .and_then(|number| T::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use uuid::Uuid;

    use super::*;

    prop_compose! {
        fn any_receipt()(
            id in any::<u128>(),
            epoch in 0..=i64::MAX,
            number in 0..=i64::MAX,
            checksum in any::<u32>(),
            frontier in any::<Option<i64>>(),
            retrace in any::<Option<(u64, u64, Option<(Option<i64>, u64)>)>>(),
        ) -> Receipt {
            Receipt {
                lineage: Lineage::new(Uuid::from_u128(id)),
                store_epoch: epoch.try_into().unwrap(),
                number: number.try_into().unwrap(),
                checksum: EntryChecksum(checksum),
                frontier: Frontier(frontier),
                retrace: retrace.map(|(history, rows, part)| Retrace {
                    history: History(history),
                    rows,
                    closed: part.map_or(HandedOut::All, |(due, panes)| HandedOut::Part {
                        due: Frontier(due),
                        panes,
                    }),
                }),
            }
        }
    }

    proptest! {
        #[test]
        fn a_receipt_reads_back_as_itself_and_fits_the_broker(receipt in any_receipt()) {
            let text = receipt.to_string();
            prop_assert!(text.len() < MAX_METADATA);
            prop_assert_eq!(text.parse::<Receipt>().unwrap(), receipt);
        }

        #[test]
        fn a_changed_character_never_reads_as_the_same_receipt(
            receipt in any_receipt(),
            at in any::<prop::sample::Index>(),
            put in "[ -~]",
        ) {
            let text = receipt.to_string();
            let at = at.index(text.len());
            let mut changed = text.clone();
            changed.replace_range(at..=at, &put);
            prop_assume!(changed != text);
            prop_assert_ne!(changed.parse::<Receipt>().ok(), Some(receipt));
        }
    }

    #[test]
    fn the_text_has_the_documented_form() {
        let of = |closed: Option<HandedOut>| {
            let receipt = Receipt {
                lineage: "6f9619ff-8b86-4d01-b42d-00cf4fc964ff".parse().unwrap(),
                store_epoch: 3.try_into().unwrap(),
                number: 42.try_into().unwrap(),
                checksum: EntryChecksum(0xab),
                frontier: Frontier(Some(-1)),
                retrace: closed.map(|closed| Retrace {
                    history: History(0xcd),
                    rows: 7,
                    closed,
                }),
            };
            receipt.to_string()
        };
        let short = "v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:42:000000ab:-1";
        assert_eq!(of(None), short);
        let whole = format!("{short}:00000000000000cd:7");
        assert_eq!(of(Some(HandedOut::All)), whole);
        let due = Frontier(None);
        let part = of(Some(HandedOut::Part { due, panes: 9 }));
        assert_eq!(part, format!("{whole}:-:9"));
    }

    #[rstest]
    #[case("")]
    #[case("some tool")]
    #[case("v1")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:42:000000ab")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:-3:42:000000ab:1")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:+42:000000ab:1")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:42:ab:1")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:42:000000ab:1:more")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:42:000000ab:1:00000000000000cd")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:42:000000ab:1:cd:7")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:42:000000ab:1:00000000000000cd:7:5")]
    #[case("v1:6f9619ff-8b86-4d01-b42d-00cf4fc964ff:3:42:000000ab:1:00000000000000cd:7:5:9:more")]
    #[case("v1:6F9619FF-8b86-4d01-b42d-00cf4fc964ff:3:42:000000ab:1")]
    fn what_is_no_receipt_is_refused(#[case] text: &str) {
        assert!(matches!(text.parse::<Receipt>(), Err(NotAReceipt::Form(_))));
    }

    #[test]
    fn a_later_version_is_named() {
        assert_eq!(
            "v2:anything".parse::<Receipt>(),
            Err(NotAReceipt::Version("v2".to_owned()))
        );
    }
}
