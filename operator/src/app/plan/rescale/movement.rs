//! Which key groups move from where to where.

use std::collections::BTreeMap;

use turbine_crds::status::{RescaleStatus, RescaleSubscription};
use turbine_keygroups::{GROUP_COUNT, Partition, PartitionCount, draws};
use turbine_protocol::layout::Task;

use super::world::{PodFacts, TaskWord, World};

/// Key groups that a new task takes from an old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub subscription: String,
    pub old_partition: i32,
    pub old_pod: i32,
    pub new_partition: i32,
    pub new_pod: i32,
    pub groups: u32,
    /// Estimated from the size of the old task's state, groups being alike.
    pub bytes: u64,
}

/// Key groups that the new task takes, by old partition. Each pair of a group and an old task is in the parts of one new task:
/// a count that does not divide 960 spreads each group over all old tasks.
pub(super) fn parts(from: i32, to: i32, new: i32) -> BTreeMap<i32, u32> {
    let Ok(new_count) = PartitionCount::try_from(to) else {
        return BTreeMap::new();
    };
    match (PartitionCount::try_from(from), Partition::try_from(new)) {
        (Ok(old_count), Ok(new)) => draws(new, old_count, new_count)
            .unwrap_or_default()
            .into_iter()
            .map(|share| (i32::from(share.from), share.size()))
            .collect(),
        (Err(_), Ok(_)) => (0..from)
            .map(|old| (old, u32::from(GROUP_COUNT) / new_count.get()))
            .collect(),
        (Ok(_) | Err(_), Err(_)) => BTreeMap::new(),
    }
}

/// What moves, and what stays under another number, by subscription and new partition.
#[must_use]
pub fn moves(world: &World, plan: &RescaleStatus) -> Vec<Move> {
    let mut moves = Vec::new();
    for of in &plan.subscriptions {
        let groups_of_old = groups_of_old(of);
        for (new_partition, new_pod) in (0..).zip(&of.pods) {
            for (old_partition, groups) in parts(of.from, of.to, new_partition) {
                let Some(old_pod) = at(&of.old_pods, old_partition) else {
                    continue;
                };
                let state = word(world, of, old_partition, old_pod).map_or(0, |of| of.state_bytes);
                moves.push(Move {
                    subscription: of.name.clone(),
                    old_partition,
                    old_pod,
                    new_partition,
                    new_pod: *new_pod,
                    groups,
                    bytes: state.saturating_mul(groups.into()) / groups_of_old.max(1),
                });
            }
        }
    }
    moves
}

/// Groups of which an old task has something.
fn groups_of_old(of: &RescaleSubscription) -> u64 {
    let all = u64::from(GROUP_COUNT);
    match PartitionCount::try_from(of.from) {
        Ok(count) => all / u64::from(count.get()),
        Err(_) => all,
    }
}

pub(super) fn at<T: Copy>(array: &[T], partition: i32) -> Option<T> {
    array.get(usize::try_from(partition).ok()?).copied()
}

/// What the pod says of a task.
pub(super) fn word<'a>(
    world: &'a World,
    of: &RescaleSubscription,
    partition: i32,
    pod: i32,
) -> Option<&'a TaskWord> {
    match world.pods.get(&pod)? {
        PodFacts::Answers(word) => word.tasks.get(&task(of, partition)?),
        PodFacts::Silent(_) => None,
    }
}

/// The name of a task; none of a subscription or partition that no layout can hold.
pub(super) fn task(of: &RescaleSubscription, partition: i32) -> Option<Task> {
    named(&of.name, partition)
}

pub(super) fn named(subscription: &str, partition: i32) -> Option<Task> {
    Some(Task {
        subscription: subscription.parse().ok()?,
        partition: Partition::try_from(partition).ok()?,
    })
}
