//! What a reading is judged to be, and how that is said: the same for people and for programs.

use serde::Serialize;
use turbine_keygroups::{PartitionCount, divisor_refusal};

use super::tally::{Load, Placement, Tally, Undecided};
use super::verify::Found;

impl Placement {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Refuted => "refuted",
            Self::Undecided(_) => "undecided",
        }
    }
}

/// Why it is judged so, and what to do.
pub(super) fn reason(tally: &Tally) -> String {
    let count = tally.count();
    match tally.placement() {
        Placement::Proved => format!(
            "all {} records with a key lie where murmur2 puts them, {} distinct keys",
            tally.records_in_place(),
            at_least(tally.keys(), tally.is_full())
        ),
        Placement::Refuted => {
            let elsewhere = tally.records() - tally.without_key() - tally.records_in_place();
            format!(
                "{elsewhere} of {} records with a key lie elsewhere than murmur2 puts them: state by key would be split; \
                 what they look like tells where to begin",
                tally.records() - tally.without_key()
            )
        }
        Placement::Undecided(Undecided::NoKeys) => {
            "no record with a key was read: write some, or read more with --all".to_owned()
        }
        Placement::Undecided(Undecided::OnePartition) => {
            "with one partition every key is in place, whoever placed it: nothing to prove until it grows".to_owned()
        }
        Placement::Undecided(Undecided::TooFewKeys { needed }) => format!(
            "all keys lie where murmur2 puts them, but {} distinct keys prove nothing on {count} partitions, {needed} do: \
             read more with --sample or --all",
            tally.keys()
        ),
    }
}

pub(super) fn at_least(number: u64, full: bool) -> String {
    if full {
        format!("at least {number}")
    } else {
        number.to_string()
    }
}

/// How unevenly records are spread.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Skew {
    partitions: u32,
    /// Of one partition.
    pub(super) most_records: u64,
    /// The fullest partition's records over the mean.
    ratio: Option<f64>,
    empty: usize,
}

impl Skew {
    pub(super) fn of(loads: &[Load]) -> Self {
        let records: u64 = loads.iter().map(|load| load.records).sum();
        let most_records = loads.iter().map(|load| load.records).max().unwrap_or(0);
        // Counts of records are far below 2^52.
        #[allow(clippy::cast_precision_loss)]
        let ratio = (records > 0)
            .then(|| most_records as f64 * loads.len() as f64 / records as f64)
            .map(|ratio| (ratio * 100.0).round() / 100.0);
        Self {
            partitions: u32::try_from(loads.len()).unwrap_or(u32::MAX),
            most_records,
            ratio,
            empty: loads.iter().filter(|load| load.records == 0).count(),
        }
    }

    pub(super) fn words(&self) -> String {
        let ratio = self
            .ratio
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        format!(
            "{} partitions: the fullest has {} records, {ratio} times the mean; empty: {}",
            self.partitions, self.most_records, self.empty
        )
    }
}

pub(super) fn notes(found: &Found) -> Vec<String> {
    let tally = &found.tally;
    let mut notes = Vec::new();
    if PartitionCount::try_from(tally.count()).is_err() {
        notes.push(divisor_refusal(found.topic.as_str(), tally.count().get()));
    }
    if tally.has_binary_integers() {
        notes.push(
            "the keys look like integers in binary form; a subscription that keys by a column of type int64 hashes the \
             decimal text, for which these records are misplaced: key by `{recordKey: true}`, or write keys as text"
                .to_owned(),
        );
    }
    notes
}
