//! Who has the transactional id of a task that was fenced, as far as the group's newest commit tells.

use crate::epochs::{Lineage, StoreEpoch};
use crate::receipt::{NotAReceipt, Receipt};
use crate::start::BrokerEvidence;

/// What the fenced task itself has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnCommits {
    /// Lineage of its state.
    pub lineage: Lineage,
    /// Life of its store.
    pub store_epoch: StoreEpoch,
    /// Its last commit; `None` if its store does not say.
    pub last: Option<Receipt>,
    /// The commit that it had begun, and of which it does not know whether it counts.
    pub prepared: Option<Receipt>,
}

impl OwnCommits {
    fn has(&self, receipt: &Receipt) -> bool {
        [self.last, self.prepared].into_iter().flatten().any(|own| {
            own.lineage == receipt.lineage
                && own.store_epoch == receipt.store_epoch
                && own.number == receipt.number
                && own.checksum == receipt.checksum
        })
    }

    fn shown(&self) -> String {
        let of = format!("lineage {}, store epoch {}", self.lineage, self.store_epoch);
        match self.last {
            Some(last) => format!("{of}, entry {}", last.number),
            None => of,
        }
    }
}

/// What is known of the one that has the id now, as the end of a sentence.
#[must_use]
pub fn holder(own: &OwnCommits, newest: &BrokerEvidence) -> String {
    let (offset, receipt) = match newest {
        BrokerEvidence::Nothing => {
            return "nothing is committed for this partition, so nothing says who took the id over"
                .to_owned();
        }
        BrokerEvidence::Committed { offset, receipt } => (offset, receipt),
    };
    match receipt {
        Err(NotAReceipt::Version(version)) => format!(
            "the newest commit, at offset {offset}, has a receipt of version `{version}`: a later version of Turbine runs this task"
        ),
        Err(NotAReceipt::Form(_)) => format!(
            "the newest commit, at offset {offset}, has no receipt: another program commits offsets of this group"
        ),
        Ok(receipt) if own.has(receipt) => format!(
            "nobody has committed since entry {}, which is ours: its holder has only taken the id over",
            receipt.number
        ),
        Ok(receipt) => format!(
            "the newest commit, at offset {offset}, is of lineage {}, store epoch {}, entry {}, where ours is {}: {}",
            receipt.lineage,
            receipt.store_epoch,
            receipt.number,
            own.shown(),
            stranger(own, receipt)
        ),
    }
}

/// Who makes commits with a receipt that is none of ours.
fn stranger(own: &OwnCommits, receipt: &Receipt) -> &'static str {
    if receipt.lineage != own.lineage {
        return "another life of the app, or another app with the same `appId`, has the id";
    }
    match receipt.store_epoch.cmp(&own.store_epoch) {
        std::cmp::Ordering::Greater => "a worker with a newer assignment has the id",
        std::cmp::Ordering::Less => "a worker with an older assignment has committed",
        std::cmp::Ordering::Equal => match own.last {
            None => "our store does not say whether that is our own commit",
            Some(last) if receipt.number < last.number => {
                "nobody has committed more than we, or the group's offset was set back"
            }
            Some(_) => "another worker with a copy of this task's state has the id",
        },
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use uuid::Uuid;

    use super::*;
    use crate::entry::{EntryChecksum, Frontier};
    use crate::offset::Offset;

    fn receipt(lineage: u128, epoch: i64, number: i64, checksum: u32) -> Receipt {
        Receipt {
            lineage: Lineage::new(Uuid::from_u128(lineage)),
            store_epoch: epoch.try_into().unwrap(),
            number: number.try_into().unwrap(),
            checksum: EntryChecksum(checksum),
            frontier: Frontier(None),
            retrace: None,
        }
    }

    fn says(own: &OwnCommits, metadata: Option<&str>) -> String {
        let offset = Offset::try_from(70).unwrap();
        holder(
            own,
            &BrokerEvidence::of(metadata.map(|text| (offset, text))),
        )
    }

    fn of(lineage: u128, epoch: i64, number: i64, checksum: u32) -> String {
        receipt(lineage, epoch, number, checksum).to_string()
    }

    const ONE: &str = "00000000-0000-0000-0000-000000000001";
    const TWO: &str = "00000000-0000-0000-0000-000000000002";

    /// Entry 5 is committed, entry 6 prepared.
    #[rstest]
    #[case::ours(of(1, 3, 5, 50), "nobody has committed since entry 5, which is ours")]
    #[case::in_doubt(of(1, 3, 6, 60), "nobody has committed since entry 6, which is ours")]
    #[case::other_lineage(of(2, 3, 5, 50), "another life of the app, or another app")]
    #[case::newer_assignment(of(1, 4, 0, 0), "newer assignment")]
    #[case::older_assignment(of(1, 2, 9, 90), "older assignment")]
    #[case::copy_ahead(of(1, 3, 7, 70), "a copy of this task's state")]
    #[case::copy_beside(of(1, 3, 6, 61), "a copy of this task's state")]
    #[case::behind(of(1, 3, 4, 40), "or the group's offset was set back")]
    #[case::later_version("v2:x".to_owned(), "a receipt of version `v2`")]
    #[case::no_receipt("some tool".to_owned(), "another program commits offsets")]
    fn the_newest_commit_says_who_has_the_id(#[case] metadata: String, #[case] words: &str) {
        let own = OwnCommits {
            lineage: Lineage::new(Uuid::from_u128(1)),
            store_epoch: 3.try_into().unwrap(),
            last: Some(receipt(1, 3, 5, 50)),
            prepared: Some(receipt(1, 3, 6, 60)),
        };
        let said = says(&own, Some(&metadata));
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn both_sides_are_named_with_lineage_store_epoch_and_entry() {
        let own = OwnCommits {
            lineage: Lineage::new(Uuid::from_u128(1)),
            store_epoch: 3.try_into().unwrap(),
            last: Some(receipt(1, 3, 5, 50)),
            prepared: None,
        };
        assert_eq!(
            says(&own, Some(&of(2, 8, 41, 1))),
            format!(
                "the newest commit, at offset 70, is of lineage {TWO}, store epoch 8, entry 41, where ours is lineage {ONE}, \
                 store epoch 3, entry 5: another life of the app, or another app with the same `appId`, has the id"
            )
        );
    }

    #[test]
    fn what_is_not_known_is_said_to_be_so() {
        let own = OwnCommits {
            lineage: Lineage::new(Uuid::from_u128(1)),
            store_epoch: 3.try_into().unwrap(),
            last: None,
            prepared: None,
        };
        assert!(says(&own, None).contains("nothing says who"));
        let said = says(&own, Some(&of(1, 3, 5, 50)));
        assert!(said.contains("does not say whether"), "{said}");
    }
}
