use std::fmt;

use serde::{Deserialize, Serialize};

use crate::counts::{PartitionCount, RawPartitionCount};
use crate::groups::{GROUP_COUNT, KeyGroup, RANK_STRIDE, rank};
use crate::murmur2::positive_hash;

/// A partition's number, from 0; at most `i32::MAX`, as in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub struct Partition(i32);

/// A number that is no partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAPartition {
    /// What was given.
    pub partition: i32,
    /// The topic's count, where it is known.
    pub count: Option<u32>,
}

impl fmt::Display for NotAPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            Some(count) => {
                let last = count.saturating_sub(1);
                write!(f, "partition {} is not one of 0 to {last}", self.partition)
            }
            None => write!(f, "partition {} is negative", self.partition),
        }
    }
}

impl std::error::Error for NotAPartition {}

impl Partition {
    /// The number as Kafka's protocol has it; never negative.
    #[must_use]
    pub fn get(self) -> i32 {
        self.0
    }

    /// The number, unsigned.
    #[must_use]
    pub fn index(self) -> u32 {
        self.0.unsigned_abs()
    }

    /// All partitions of a topic, in order.
    pub fn all(count: impl Into<RawPartitionCount>) -> impl Iterator<Item = Self> {
        let count: RawPartitionCount = count.into();
        (0..count.get()).map(Self::of_remainder)
    }

    pub(crate) fn of_remainder(remainder: u32) -> Self {
        // A remainder of a hash below 2^31 is below 2^31, whatever the count.
        Self((remainder & 0x7fff_ffff).cast_signed())
    }
}

impl TryFrom<i32> for Partition {
    type Error = NotAPartition;

    fn try_from(partition: i32) -> Result<Self, NotAPartition> {
        if partition >= 0 {
            Ok(Self(partition))
        } else {
            Err(NotAPartition {
                partition,
                count: None,
            })
        }
    }
}

impl From<Partition> for i32 {
    fn from(partition: Partition) -> i32 {
        partition.0
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where Kafka's default partitioner puts a key, for any count.
#[must_use]
pub fn partition_of(key: &[u8], count: impl Into<RawPartitionCount>) -> Partition {
    partition_of_hash(positive_hash(key), count)
}

/// [`partition_of`] for a hash that was taken already, its sign bit cleared.
#[must_use]
pub fn partition_of_hash(positive_hash: u32, count: impl Into<RawPartitionCount>) -> Partition {
    let count: RawPartitionCount = count.into();
    Partition::of_remainder((positive_hash & 0x7fff_ffff) % count.get())
}

/// The key groups that `partition` of `count` owns, ascending: `p, p + N, p + 2N, ...`.
///
/// # Errors
/// If `count` has no such partition.
pub fn groups_owned(
    partition: Partition,
    count: PartitionCount,
) -> Result<impl Iterator<Item = KeyGroup>, NotAPartition> {
    if partition.index() >= count.get() {
        return Err(NotAPartition {
            partition: partition.get(),
            count: Some(count.get()),
        });
    }
    let (first, step) = (partition.index(), count.get());
    Ok((first..u32::from(GROUP_COUNT))
        .step_by(step as usize)
        .map(KeyGroup::of_hash))
}

impl KeyGroup {
    /// The partition of `count` that owns the group. For a valid count this is where Kafka's
    /// default partitioner puts each of its keys.
    #[must_use]
    pub fn owner(self, count: PartitionCount) -> Partition {
        Partition::of_remainder(u32::from(self.number()) % count.get())
    }
}

/// A piece of the stored order: the key groups whose [`rank`] is in it, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Ends")]
pub struct RankRange {
    first: u16,
    last: u16,
}

/// The ends as they were written, before they are looked at.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ends {
    first: u16,
    last: u16,
}

/// Two ranks that are not the ends of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotARankRange {
    /// The first rank as given.
    pub first: u16,
    /// The last rank as given.
    pub last: u16,
}

impl fmt::Display for NotARankRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        let highest = GROUP_COUNT - 1;
        write!(
            f,
            "ranks {first} to {last} are no range: the first is at most the last, and that at most {highest}"
        )
    }
}

impl std::error::Error for NotARankRange {}

impl TryFrom<Ends> for RankRange {
    type Error = NotARankRange;

    fn try_from(ends: Ends) -> Result<Self, NotARankRange> {
        let Ends { first, last } = ends;
        if first <= last && last < GROUP_COUNT {
            Ok(Self { first, last })
        } else {
            Err(NotARankRange { first, last })
        }
    }
}

impl RankRange {
    /// The fewest ranges that hold these groups and no others, ascending.
    #[must_use]
    pub fn of_groups(groups: impl IntoIterator<Item = KeyGroup>) -> Vec<Self> {
        Self::covering(groups.into_iter().map(rank))
    }

    /// The groups of the range, in stored order.
    pub fn groups(self) -> impl Iterator<Item = KeyGroup> {
        (self.first..=self.last).filter_map(|rank| KeyGroup::at_rank(rank).ok())
    }

    /// The fewest ranges that hold the given ranks and no others, ascending.
    pub(crate) fn covering(ranks: impl Iterator<Item = u16>) -> Vec<Self> {
        let mut ranks: Vec<u16> = ranks.collect();
        ranks.sort_unstable();
        let mut ranges: Vec<Self> = Vec::new();
        for rank in ranks {
            match ranges.last_mut() {
                Some(range) if range.last + 1 >= rank => range.last = rank,
                _ => ranges.push(Self {
                    first: rank,
                    last: rank,
                }),
            }
        }
        ranges
    }

    /// The lowest rank.
    #[must_use]
    pub fn first(self) -> u16 {
        self.first
    }

    /// The highest rank.
    #[must_use]
    pub fn last(self) -> u16 {
        self.last
    }

    /// How many key groups.
    #[must_use]
    pub fn size(self) -> u16 {
        self.last - self.first + 1
    }

    /// The stored keys of these groups: those at or above the first prefix and below the second.
    #[must_use]
    pub fn prefixes(self) -> ([u8; 2], [u8; 2]) {
        let bound = |rank: u16| (rank * RANK_STRIDE).to_be_bytes();
        (bound(self.first), bound(self.last + 1))
    }
}

/// What `partition` of `count` owns, as pieces of the stored order, ascending, as few as there can
/// be: one for counts that divide 64, since groups are stored with their lowest digits first.
///
/// # Errors
/// If `count` has no such partition.
pub fn ranges_owned(
    partition: Partition,
    count: PartitionCount,
) -> Result<Vec<RankRange>, NotAPartition> {
    Ok(RankRange::covering(
        groups_owned(partition, count)?.map(rank),
    ))
}
