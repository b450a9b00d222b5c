//! Which key groups go from which old task to which new one. Nothing is read or written here.

use std::collections::BTreeMap;

use thiserror::Error;
use turbine_keygroups::{
    GROUP_COUNT, Group, InvalidPartitionCount, KeyGroup, Partition, PartitionCount, RankRange,
    RawPartitionCount, groups_owned, nearest_valid,
};

/// A change of the partition count: what each new task takes of which old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovePlan {
    from: RawPartitionCount,
    to: PartitionCount,
    tasks: Vec<TaskPlan>,
}

/// What one new task takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlan {
    task: Partition,
    draws: Vec<Draw>,
}

/// What one new task takes of one old task; never nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw {
    from: Partition,
    ranges: Vec<RankRange>,
    null: bool,
}

/// How a new store is made of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It draws from one old store: that one's files by links, with what is not its own hidden by range deletes.
    Clip,
    /// It draws from several: of each, what it takes is written once more, so that no file has rows or deletes of other
    /// groups, and the files are taken in together.
    Merge,
}

/// Bytes that a move is about, as far as that can be told before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Of groups whose task keeps its number.
    pub kept: u64,
    /// Of groups that go to a task of another number.
    pub moved: u64,
    /// Of new stores that draw from several old ones: so much is written on a volume that is also that of the old stores.
    pub rewritten: u64,
}

/// Why no state can be moved from one count to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PlanRefusal {
    /// The new count is no divisor of 960.
    #[error(
        "cannot rescale to {0}: state is kept by key in 960 groups and can follow keys only to counts that divide 960"
    )]
    Invalid(InvalidPartitionCount),
    /// The new count is not larger: a topic cannot shrink.
    #[error(
        "cannot rescale from {from} to {to} partitions: a topic cannot shrink, so the new count has \
         to be larger{}", larger(*above)
    )]
    NotLarger {
        /// The old count.
        from: u32,
        /// The new count.
        to: u32,
        /// The least valid count above the old one, if there is one.
        above: Option<u32>,
    },
}

fn larger(above: Option<u32>) -> String {
    above.map_or_else(
        || "; there is no valid count above it".to_owned(),
        |above| format!("; the next valid one is {above}"),
    )
}

impl MovePlan {
    /// The plan from a count, which may be any, to a valid one that is larger.
    ///
    /// # Errors
    /// If there is no such change.
    pub fn new(from: RawPartitionCount, to: u32) -> Result<Self, PlanRefusal> {
        let to = PartitionCount::try_from(to).map_err(PlanRefusal::Invalid)?;
        if to.get() <= from.get() {
            return Err(PlanRefusal::NotLarger {
                from: from.get(),
                to: to.get(),
                above: nearest_valid(from.get()).1,
            });
        }
        let tasks = Partition::all(to)
            .map(|task| TaskPlan::new(task, from, to))
            .collect();
        Ok(Self { from, to, tasks })
    }

    /// The old count.
    #[must_use]
    pub fn from(&self) -> RawPartitionCount {
        self.from
    }

    /// The new count.
    #[must_use]
    pub fn to(&self) -> PartitionCount {
        self.to
    }

    /// The new tasks, by number.
    #[must_use]
    pub fn tasks(&self) -> &[TaskPlan] {
        &self.tasks
    }

    /// Estimates bytes from those of each old task, as if keys lay evenly over the groups it can have.
    #[must_use]
    pub fn estimate(&self, bytes: &BTreeMap<Partition, u64>) -> Estimate {
        let mut sum = Estimate::default();
        for task in &self.tasks {
            for draw in &task.draws {
                let of_old = bytes.get(&draw.from).copied().unwrap_or(0);
                let share = share(of_old, draw.size(), self.groups_of_old(draw.from));
                if draw.from == task.task {
                    sum.kept += share;
                } else {
                    sum.moved += share;
                }
                if task.way() == Way::Merge {
                    sum.rewritten += share;
                }
            }
        }
        sum
    }

    /// The key groups that an old task can have keys of, as pieces of the stored order.
    #[must_use]
    pub fn ranges_of_old(&self, old: Partition) -> Vec<RankRange> {
        RankRange::of_groups(KeyGroup::all().filter(|group| can_have(old, *group, self.from)))
    }

    /// How often groups of an old task are taken, over all new tasks: each (group, old task) once.
    fn groups_of_old(&self, old: Partition) -> u32 {
        self.ranges_of_old(old)
            .iter()
            .map(|range| u32::from(range.size()))
            .sum()
    }
}

fn share(bytes: u64, part: u32, of: u32) -> u64 {
    let share = u128::from(bytes) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

impl TaskPlan {
    fn new(task: Partition, from: RawPartitionCount, to: PartitionCount) -> Self {
        // The caller goes through the partitions of `to`: there is none that it has not.
        let owned: Vec<KeyGroup> = groups_owned(task, to).into_iter().flatten().collect();
        let draws = Partition::all(from)
            .map(|old| Draw {
                from: old,
                ranges: RankRange::of_groups(
                    owned
                        .iter()
                        .copied()
                        .filter(|group| can_have(old, *group, from)),
                ),
                null: old == task,
            })
            .filter(|draw| !draw.ranges.is_empty() || draw.null)
            .collect();
        Self { task, draws }
    }

    /// The new task's partition.
    #[must_use]
    pub fn task(&self) -> Partition {
        self.task
    }

    /// What it takes, by old partition.
    #[must_use]
    pub fn draws(&self) -> &[Draw] {
        &self.draws
    }

    /// How its store is made.
    #[must_use]
    pub fn way(&self) -> Way {
        if self.draws.len() == 1 {
            Way::Clip
        } else {
            Way::Merge
        }
    }
}

impl Draw {
    /// The old task's partition.
    #[must_use]
    pub fn from(&self) -> Partition {
        self.from
    }

    /// The key groups taken, as pieces of the stored order, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[RankRange] {
        &self.ranges
    }

    /// Whether the null group is taken as well: it stays with the partition of the same number.
    #[must_use]
    pub fn null(&self) -> bool {
        self.null
    }

    /// How many key groups; the null group does not count.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.ranges
            .iter()
            .map(|range| u32::from(range.size()))
            .sum()
    }

    /// Whether keys of a group are taken.
    #[must_use]
    pub fn takes(&self, group: Group) -> bool {
        match group {
            Group::Null => self.null,
            Group::Keyed(group) => {
                let rank = turbine_keygroups::rank(group);
                self.ranges
                    .iter()
                    .any(|range| range.first() <= rank && rank <= range.last())
            }
        }
    }
}

/// Whether some hash is put into partition `old` of `count` and into `group`: `h % count` and `h % 960` fix each other as
/// far as the two counts have divisors in common. For a count that divides 960 the one group's one owner is left.
fn can_have(old: Partition, group: KeyGroup, count: RawPartitionCount) -> bool {
    let common = gcd(count.get(), u32::from(GROUP_COUNT));
    old.index() % common == u32::from(group.number()) % common
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use turbine_keygroups::{Share, VALID_COUNTS, movement, partition_of_hash};

    use super::*;

    fn plan(from: u32, to: u32) -> MovePlan {
        MovePlan::new(from.try_into().unwrap(), to).unwrap()
    }

    fn partition(number: u32) -> Partition {
        i32::try_from(number).unwrap().try_into().unwrap()
    }

    #[test]
    fn between_valid_counts_it_is_the_movement_of_key_groups() {
        for from in VALID_COUNTS {
            for to in VALID_COUNTS.into_iter().filter(|to| *to > from) {
                let planned: Vec<_> = plan(from, to)
                    .tasks()
                    .iter()
                    .flat_map(|task| {
                        task.draws()
                            .iter()
                            .map(|draw| (draw.from(), task.task(), draw.ranges().to_vec()))
                    })
                    .collect();
                let known: Vec<_> = movement(from.try_into().unwrap(), to.try_into().unwrap())
                    .map(|share: Share| (share.from, share.to, share.ranges()))
                    .collect();
                assert_eq!(planned, known, "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_doubling_links_and_what_draws_from_several_is_written_again() {
        let ways = |from, to| -> BTreeSet<_> {
            let plan = plan(from, to);
            plan.tasks()
                .iter()
                .map(|task| format!("{:?}", task.way()))
                .collect()
        };
        assert_eq!(ways(12, 24), BTreeSet::from(["Clip".to_owned()]));
        assert_eq!(ways(5, 15), BTreeSet::from(["Clip".to_owned()]));
        assert_eq!(ways(4, 6), BTreeSet::from(["Merge".to_owned()]));
        assert_eq!(ways(7, 8), BTreeSet::from(["Merge".to_owned()]));
    }

    #[test]
    fn counts_that_cannot_be_are_refused_with_the_nearest() {
        let refusal = |from: u32, to| {
            MovePlan::new(from.try_into().unwrap(), to)
                .unwrap_err()
                .to_string()
        };
        assert!(refusal(12, 12).contains("the next valid one is 15"));
        assert!(refusal(7, 6).contains("the next valid one is 8"));
        assert!(refusal(960, 480).contains("no valid count above"));
        assert!(refusal(6, 7).contains("nearest valid counts are 6 and 8"));
    }

    #[test]
    fn bytes_are_shared_by_groups() {
        let bytes = (0..12).map(|old| (partition(old), 8000)).collect();
        let doubled = plan(12, 24).estimate(&bytes);
        assert_eq!((doubled.kept, doubled.moved), (48_000, 48_000));
        assert_eq!(doubled.rewritten, 0);
        let bytes = (0..4).map(|old| (partition(old), 12_000)).collect();
        let third = plan(4, 6).estimate(&bytes);
        assert_eq!(third.kept + third.moved, 48_000);
        assert_eq!(third.rewritten, 48_000);
    }

    proptest! {
        // A plan to 960 partitions is large.
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever the counts: a key's state goes to the owner of the key, and to nobody else.
        #[test]
        fn every_hash_is_taken_by_its_new_owner_alone(
            from in 1_u32..60,
            to in prop::sample::select(VALID_COUNTS.to_vec()),
            hash in 0_u32..0x8000_0000,
        ) {
            prop_assume!(to > from);
            let plan = plan(from, to);
            let group = Group::Keyed(KeyGroup::of_hash(hash));
            let old = partition_of_hash(hash, plan.from());
            let takers: Vec<_> = plan
                .tasks()
                .iter()
                .filter(|task| task.draws().iter().any(|draw| draw.from() == old && draw.takes(group)))
                .map(TaskPlan::task)
                .collect();
            prop_assert_eq!(takers, vec![partition_of_hash(hash, plan.to())]);
        }

        #[test]
        fn the_null_group_stays_with_its_number(
            from in 1_u32..40,
            to in prop::sample::select(VALID_COUNTS.to_vec()),
        ) {
            prop_assume!(to > from);
            for task in plan(from, to).tasks() {
                let givers: Vec<_> = task.draws().iter().filter(|draw| draw.takes(Group::Null)).map(Draw::from).collect();
                let own = (task.task().index() < from).then_some(task.task());
                prop_assert_eq!(givers, Vec::from_iter(own));
            }
        }
    }
}
