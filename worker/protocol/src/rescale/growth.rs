//! One growth of a topic, and whom a record is for while it lasts.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use turbine_keygroups::{Partition, PartitionCount, RawPartitionCount, partition_of_hash};

/// The key of a record, as far as its placement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RecordKey {
    /// The positive hash of the key's bytes.
    Hash(u32),
    /// There is no key: the record belongs to where it lies.
    Null,
}

impl RecordKey {
    /// Where a partitioner that knows this count puts the record; nothing for a null key, which may lie anywhere.
    #[must_use]
    pub fn placed_by(self, count: impl Into<RawPartitionCount>) -> Option<Partition> {
        match self {
            Self::Hash(hash) => Some(partition_of_hash(hash, count)),
            Self::Null => None,
        }
    }
}

/// For whom a record is, by where it lies and by both counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// For the partition's own task, whichever count placed it: both counts say so, or there is no key.
    Kept,
    /// Placed by the old count; its key's state is with this task now.
    Tail(Partition),
    /// Placed by the new count, which alone puts it here: for the partition's own task.
    MovedIn,
    /// Neither count puts the record here.
    Unexplained,
}

/// From how many partitions to how many a topic grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawGrowth", into = "RawGrowth")]
pub struct Growth {
    from: RawPartitionCount,
    to: PartitionCount,
}

#[derive(Serialize, Deserialize)]
struct RawGrowth {
    from: RawPartitionCount,
    to: PartitionCount,
}

/// A growth that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a topic of {from} partitions cannot become one of {to}: name a count above {from} that divides 960"
)]
pub struct NotAGrowth {
    /// The count there is.
    pub from: u32,
    /// The count asked for.
    pub to: u32,
}

impl Growth {
    /// A growth from any count to a valid one.
    ///
    /// # Errors
    /// If the new count is not the larger one.
    pub fn new(from: RawPartitionCount, to: PartitionCount) -> Result<Self, NotAGrowth> {
        if to.get() > from.get() {
            Ok(Self { from, to })
        } else {
            Err(NotAGrowth {
                from: from.get(),
                to: to.get(),
            })
        }
    }

    /// The count before.
    #[must_use]
    pub fn from(self) -> RawPartitionCount {
        self.from
    }

    /// The count after.
    #[must_use]
    pub fn to(self) -> PartitionCount {
        self.to
    }

    /// Whether a partition was there before.
    #[must_use]
    pub fn is_old(self, partition: Partition) -> bool {
        partition.index() < self.from.get()
    }

    /// For whom a record is that lies in `partition`.
    #[must_use]
    pub fn claim(self, key: RecordKey, partition: Partition) -> Claim {
        let (Some(old), Some(new)) = (key.placed_by(self.from), key.placed_by(self.to)) else {
            return Claim::Kept;
        };
        match (old == partition, new == partition) {
            (true, true) => Claim::Kept,
            (true, false) => Claim::Tail(new),
            (false, true) => Claim::MovedIn,
            (false, false) => Claim::Unexplained,
        }
    }

    /// The old partitions whose keys can be with `task` afterwards, ascending: `h % N == p` and `h % N' == q` have a common
    /// solution if, and only if, `p` and `q` agree modulo what both counts are multiples of.
    pub fn sources(self, task: Partition) -> impl Iterator<Item = Partition> {
        let common = gcd(self.from.get(), self.to.get());
        Partition::all(self.from).filter(move |old| old.index() % common == task.index() % common)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl TryFrom<RawGrowth> for Growth {
    type Error = NotAGrowth;

    fn try_from(raw: RawGrowth) -> Result<Self, NotAGrowth> {
        Self::new(raw.from, raw.to)
    }
}

impl From<Growth> for RawGrowth {
    fn from(growth: Growth) -> Self {
        Self {
            from: growth.from,
            to: growth.to,
        }
    }
}

#[cfg(test)]
#[path = "growth_tests.rs"]
pub(crate) mod tests;
