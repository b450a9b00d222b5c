use serde::Serialize;

use crate::counts::PartitionCount;
use crate::groups::{GROUP_COUNT, KeyGroup, rank};
use crate::ownership::{NotAPartition, Partition, RankRange, groups_owned};

/// The key groups that one partition of a new count takes from one partition of the old count:
/// `first, first + step, first + 2 * step, ...`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The partition of the old count that owned the groups.
    pub from: Partition,
    /// The partition of the new count that owns them.
    pub to: Partition,
    first: KeyGroup,
    step: u32,
}

impl Share {
    /// The groups, ascending; never none.
    pub fn groups(self) -> impl Iterator<Item = KeyGroup> {
        (u32::from(self.first.number())..u32::from(GROUP_COUNT))
            .step_by(self.step as usize)
            .map(KeyGroup::of_hash)
    }

    /// How many groups.
    #[must_use]
    pub fn size(self) -> u32 {
        u32::from(GROUP_COUNT) / self.step
    }

    /// The groups as pieces of the stored order, ascending, as few as there can be.
    #[must_use]
    pub fn ranges(self) -> Vec<RankRange> {
        RankRange::covering(self.groups().map(rank))
    }
}

/// Which partitions of the count `from` the partition `new` of the count `to` draws its key
/// groups from, and which groups, by old partition. Together the shares are what `new` owns.
///
/// # Errors
/// If `to` has no such partition.
pub fn draws(
    new: Partition,
    from: PartitionCount,
    to: PartitionCount,
) -> Result<Vec<Share>, NotAPartition> {
    // Both counts divide 960, so their least common multiple does: groups that lie that far apart
    // have the same owner before and the same owner after.
    let step = from.get() / gcd(from.get(), to.get()) * to.get();
    let mut shares: Vec<Share> = groups_owned(new, to)?
        .take_while(|group| u32::from(group.number()) < step)
        .map(|first| Share {
            from: first.owner(from),
            to: new,
            first,
            step,
        })
        .collect();
    shares.sort_by_key(|share| share.from);
    Ok(shares)
}

/// Every share of a change of the count, by new partition and then by old: each of the 960 key
/// groups is in one of them, once. A share whose two partitions are the same moves nowhere.
pub fn movement(from: PartitionCount, to: PartitionCount) -> impl Iterator<Item = Share> {
    Partition::all(to).flat_map(move |new| draws(new, from, to).unwrap_or_default())
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
