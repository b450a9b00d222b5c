//! What a task has seen of the placement of its records.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clients::{Partitioner, binary_forms};
use crate::counts::RawPartitionCount;
use crate::evidence::{Lookalike, keys_needed};
use crate::ownership::{Partition, partition_of};

/// What is known of the placement of a task's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Too few distinct keys were seen. With one partition it stays so, and blocks nothing.
    #[default]
    Unknown,
    /// Enough distinct keys lie where murmur2 puts them to rule out chance.
    Verified,
    /// A key lay where murmur2 does not put it, and the topic had not grown.
    Misplaced,
}

impl Verdict {
    /// 1 for right, 0 for unknown, -1 for misplaced, as metrics have it.
    #[must_use]
    pub fn number(self) -> i8 {
        match self {
            Self::Verified => 1,
            Self::Unknown => 0,
            Self::Misplaced => -1,
        }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unknown => "unknown",
            Self::Misplaced => "misplaced",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The first record that was found in the wrong partition: what a person has to look for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MisplacedRecord {
    /// Its offset in the partition that it lies in.
    pub offset: i64,
    /// Hash of its partition key, the sign bit cleared.
    pub key_hash: u32,
    /// The partition that it should have had.
    pub belongs_to: Partition,
    /// Which client it looks like, or what else is known of its cause.
    pub looks_like: String,
}

/// What a task has seen of the placement of its records: a verdict, and as long as there is none
/// the distinct keys on the way to it. It belongs to the task's state and is stored with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Evidence {
    verdict: Verdict,
    /// The partition count that the keys were judged by.
    count: Option<RawPartitionCount>,
    /// Hashes of distinct keys that lie right; at most as many as a verdict needs.
    seen: Vec<u32>,
    /// What the verdict `misplaced` rests on. Stores of earlier versions have the verdict alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    misplaced: Option<MisplacedRecord>,
}

impl Evidence {
    /// The verdict so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What of this holds on `count` partitions: right places at another count prove nothing,
    /// while a misplaced verdict is about the producers and stays until a person clears it.
    #[must_use]
    pub fn under(self, count: RawPartitionCount) -> Self {
        if self.count == Some(count) || self.verdict == Verdict::Misplaced {
            self
        } else {
            Self {
                count: Some(count),
                ..Self::default()
            }
        }
    }

    /// A key of this hash (its sign bit cleared) lies where murmur2 puts it. Keys that were seen
    /// before prove nothing more.
    pub fn saw_right(&mut self, hash: u32) {
        if self.verdict != Verdict::Unknown || self.seen.contains(&hash) {
            return;
        }
        let Some(needed) = self.count.and_then(keys_needed) else {
            return;
        };
        self.seen.push(hash);
        if self.seen.len() >= needed as usize {
            self.verdict = Verdict::Verified;
            self.seen = Vec::new();
        }
    }

    /// A record lies where murmur2 does not put its key, and the topic has not grown. The verdict
    /// stays until a person clears it; of several records the first is kept.
    pub fn saw_misplaced(&mut self, record: MisplacedRecord) {
        self.verdict = Verdict::Misplaced;
        self.seen = Vec::new();
        self.misplaced.get_or_insert(record);
    }

    /// What the verdict `misplaced` rests on.
    #[must_use]
    pub fn misplaced(&self) -> Option<&MisplacedRecord> {
        self.misplaced.as_ref()
    }

    /// More misplaced keys say better which client it was.
    pub fn looks_like(&mut self, cause: String) {
        if let Some(record) = &mut self.misplaced {
            record.looks_like = cause;
        }
    }

    /// Forgets the verdict and all evidence: a person says that the producers are right now.
    pub fn clear(&mut self) {
        *self = Self {
            count: self.count,
            ..Self::default()
        };
    }
}

/// Which ways to place a key would have put this one into `found`, where murmur2 does not put it;
/// [`Lookalike::Unknown`] alone if none. One key proves little: with few partitions several fit
/// by chance.
#[must_use]
pub fn who_places(key: &[u8], found: Partition, count: RawPartitionCount) -> Vec<Lookalike> {
    let mut fits: Vec<Lookalike> = Partitioner::ALL
        .into_iter()
        .filter(|client| client.partition(key, count) == Some(found))
        .map(Lookalike::Client)
        .collect();
    let (long, short) = binary_forms(key);
    let forms = [
        (8, long.as_ref().map(<[u8; 8]>::as_slice)),
        (4, short.as_ref().map(<[u8; 4]>::as_slice)),
    ];
    fits.extend(forms.into_iter().filter_map(|(bytes, form)| {
        (partition_of(form?, count) == found).then_some(Lookalike::BinaryInteger(bytes))
    }));
    if fits.is_empty() {
        fits.push(Lookalike::Unknown);
    }
    fits
}
