//! Tasks, and which pod runs which.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use turbine_keygroups::Partition;

use crate::names::SubscriptionName;

/// One partition of one subscription: the unit of state, of assignment and of failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Task {
    /// The subscription.
    pub subscription: SubscriptionName,
    /// The partition of its input, and of its state.
    pub partition: Partition,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.subscription, self.partition.get())
    }
}

/// Name of a pod that can run tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodName(pub String);

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which pod runs which task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    pods: BTreeMap<Task, PodName>,
}

impl FromIterator<(Task, PodName)> for Assignment {
    fn from_iter<I: IntoIterator<Item = (Task, PodName)>>(pairs: I) -> Self {
        Self {
            pods: pairs.into_iter().collect(),
        }
    }
}

impl Assignment {
    /// The pod that runs a task, if one does.
    #[must_use]
    pub fn pod_of(&self, task: &Task) -> Option<&PodName> {
        self.pods.get(task)
    }

    /// All tasks with their pods, by subscription and partition.
    pub fn iter(&self) -> impl Iterator<Item = (&Task, &PodName)> {
        self.pods.iter()
    }

    /// How many tasks are assigned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether no task is assigned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The tasks of one pod, by subscription and partition.
    pub fn tasks_of<'a>(&'a self, pod: &'a PodName) -> impl Iterator<Item = &'a Task> {
        self.pods
            .iter()
            .filter(move |(_, of)| *of == pod)
            .map(|(task, _)| task)
    }
}

/// What one pod holds while an assignment is made.
struct Load<'a> {
    tasks: BTreeSet<&'a Task>,
    of_subscription: BTreeMap<&'a SubscriptionName, usize>,
}

impl<'a> Load<'a> {
    fn put(&mut self, task: &'a Task) {
        if self.tasks.insert(task) {
            *self.of_subscription.entry(&task.subscription).or_default() += 1;
        }
    }

    fn take(&mut self, task: &'a Task) {
        if self.tasks.remove(task)
            && let Some(count) = self.of_subscription.get_mut(&task.subscription)
        {
            *count -= 1;
        }
    }

    fn count_of(&self, subscription: &SubscriptionName) -> usize {
        self.of_subscription.get(subscription).copied().unwrap_or(0)
    }

    /// The task that leaves first: one of the subscription this pod holds most of.
    fn spare(&self) -> Option<&'a Task> {
        self.tasks
            .iter()
            .copied()
            .max_by_key(|task| (self.count_of(&task.subscription), *task))
    }
}

/// Spreads `tasks` over `pods`: no two pods differ by more than one task, as few tasks as that
/// allows leave the pod they had in `previous`, and what is placed anew goes where its
/// subscription has fewest tasks. The same arguments give the same assignment. Without pods
/// nothing is assigned.
#[must_use]
pub fn assign(tasks: &BTreeSet<Task>, pods: &[PodName], previous: &Assignment) -> Assignment {
    let mut loads: Vec<Load<'_>> = pods
        .iter()
        .map(|_| Load {
            tasks: BTreeSet::new(),
            of_subscription: BTreeMap::new(),
        })
        .collect();
    if loads.is_empty() {
        return Assignment::default();
    }
    let index: BTreeMap<&PodName, usize> =
        pods.iter().enumerate().map(|(at, pod)| (pod, at)).collect();

    let mut homeless: Vec<&Task> = Vec::new();
    for task in tasks {
        match previous.pod_of(task).and_then(|pod| index.get(pod)) {
            Some(at) => loads[*at].put(task),
            None => homeless.push(task),
        }
    }

    // The pods that hold most already get the larger share: that moves fewest.
    let share = tasks.len() / loads.len();
    let larger = tasks.len() % loads.len();
    let mut by_held: Vec<usize> = (0..loads.len()).collect();
    by_held.sort_by_key(|at| std::cmp::Reverse(loads[*at].tasks.len()));
    let mut quota = vec![share; loads.len()];
    for at in by_held.into_iter().take(larger) {
        quota[at] += 1;
    }

    for (load, quota) in loads.iter_mut().zip(&quota) {
        while load.tasks.len() > *quota {
            let Some(task) = load.spare() else { break };
            load.take(task);
            homeless.push(task);
        }
    }

    homeless.sort();
    for task in homeless {
        let place = (0..loads.len())
            .filter(|at| loads[*at].tasks.len() < quota[*at])
            .min_by_key(|at| {
                let load = &loads[*at];
                (load.count_of(&task.subscription), load.tasks.len(), *at)
            });
        if let Some(at) = place {
            loads[at].put(task);
        }
    }

    loads
        .iter()
        .zip(pods)
        .flat_map(|(load, pod)| load.tasks.iter().map(|task| ((*task).clone(), pod.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tasks(counts: &[usize]) -> BTreeSet<Task> {
        counts
            .iter()
            .enumerate()
            .flat_map(|(subscription, count)| {
                (0..*count).map(move |partition| Task {
                    subscription: format!("s{subscription}").parse().unwrap(),
                    partition: i32::try_from(partition).unwrap().try_into().unwrap(),
                })
            })
            .collect()
    }

    fn pods(count: usize) -> Vec<PodName> {
        (0..count).map(|at| PodName(format!("app-{at}"))).collect()
    }

    fn loads(assignment: &Assignment, pods: &[PodName]) -> Vec<usize> {
        pods.iter()
            .map(|pod| assignment.tasks_of(pod).count())
            .collect()
    }

    /// The fewest tasks that can keep their place: each pod keeps at most its share, and the
    /// larger shares go to the pods that hold most.
    fn most_that_can_stay(held: &[usize], total: usize) -> usize {
        let mut held = held.to_vec();
        held.sort_unstable();
        held.reverse();
        let (share, larger) = (total / held.len(), total % held.len());
        held.iter()
            .enumerate()
            .map(|(at, held)| (*held).min(share + usize::from(at < larger)))
            .sum()
    }

    proptest! {
        #[test]
        fn balanced_complete_sticky_and_repeatable(
            before in prop::collection::vec(0_usize..40, 1..4),
            after in prop::collection::vec(0_usize..40, 1..4),
            pods_before in 1_usize..9,
            pods_after in 1_usize..9,
        ) {
            let old = assign(&tasks(&before), &pods(pods_before), &Assignment::default());
            let (tasks, pods) = (tasks(&after), pods(pods_after));
            let new = assign(&tasks, &pods, &old);

            prop_assert_eq!(new.iter().map(|(task, _)| task.clone()).collect::<BTreeSet<_>>(), tasks.clone());

            let loads = loads(&new, &pods);
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);

            let held: Vec<usize> = pods
                .iter()
                .map(|pod| old.tasks_of(pod).filter(|task| tasks.contains(*task)).count())
                .collect();
            let stayed = tasks.iter().filter(|task| {
                old.pod_of(task).is_some() && new.pod_of(task) == old.pod_of(task)
            }).count();
            prop_assert_eq!(stayed, most_that_can_stay(&held, tasks.len()));

            prop_assert_eq!(assign(&tasks, &pods, &old), new.clone());
            prop_assert_eq!(assign(&tasks, &pods, &new), new);
        }

        #[test]
        fn a_first_assignment_spreads_every_subscription(
            counts in prop::collection::vec(1_usize..40, 1..4),
            pod_count in 1_usize..9,
        ) {
            let pods = pods(pod_count);
            let all = tasks(&counts);
            let new = assign(&all, &pods, &Assignment::default());
            // The first subscription is placed while all pods are empty, so it is spread evenly
            // to within what the totals allow.
            let first: Vec<usize> = pods
                .iter()
                .map(|pod| new.tasks_of(pod).filter(|task| task.subscription.as_str() == "s0").count())
                .collect();
            prop_assert!(first.iter().max().unwrap() - first.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_lost_pod_moves_only_its_own_tasks() {
        let all = tasks(&[12]);
        let before = assign(&all, &pods(4), &Assignment::default());
        let after = assign(&all, &pods(3), &before);
        for (task, pod) in before.iter().filter(|(_, pod)| pod.0 != "app-3") {
            assert_eq!(after.pod_of(task), Some(pod));
        }
    }

    #[test]
    fn without_pods_nothing_is_assigned() {
        assert!(assign(&tasks(&[3]), &[], &Assignment::default()).is_empty());
    }
}
