//! The assignors: data in, data out. Members and topics come sorted by name, and every member is subscribed to every topic.

use std::collections::{BTreeMap, BTreeSet};

use turbine_keygroups::{NotAPartition, Partition};
use turbine_protocol::Task;
use turbine_protocol::layout::{self, PodName};
use turbine_protocol::names::NameError;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Topic {
    pub(super) name: String,
    pub(super) count: u32,
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) topic: String,
    pub(super) partition: u32,
}

/// Which member reads which partition.
pub(super) type Owners = BTreeMap<Slot, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignor {
    Range,
    RoundRobin,
    Sticky,
    Turbine,
}

/// The product's own names and numbers would have to be refused by itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum Impossible {
    #[error("a task has no name: {0}; this is a bug of turbine-cli, report it")]
    Name(#[from] NameError),
    #[error("{0}; this is a bug of turbine-cli, report it")]
    Partition(#[from] NotAPartition),
}

impl Assignor {
    pub(super) const ALL: [Self; 4] = [Self::Range, Self::RoundRobin, Self::Sticky, Self::Turbine];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "round-robin",
            Self::Sticky => "sticky",
            Self::Turbine => "turbine",
        }
    }

    /// Shares out all partitions. `before` is what the members read until now; range and round-robin have no memory.
    pub(super) fn assign(
        self,
        topics: &[Topic],
        members: &[String],
        before: &Owners,
    ) -> Result<Owners, Impossible> {
        match self {
            Self::Range => Ok(range(topics, members)),
            Self::RoundRobin => Ok(round_robin(topics, members)),
            Self::Sticky => Ok(sticky(topics, members, before)),
            Self::Turbine => turbine(topics, members, before),
        }
    }
}

pub(super) fn slots(topics: &[Topic]) -> impl Iterator<Item = Slot> {
    topics.iter().flat_map(|topic| {
        (0..topic.count).map(|partition| Slot {
            topic: topic.name.clone(),
            partition,
        })
    })
}

/// Per topic one stretch per member; the first members get one more.
fn range(topics: &[Topic], members: &[String]) -> Owners {
    let mut owners = Owners::new();
    for topic in topics {
        let (share, more) = (
            topic.count as usize / members.len(),
            topic.count as usize % members.len(),
        );
        let mut stretch = (0..topic.count).map(|partition| Slot {
            topic: topic.name.clone(),
            partition,
        });
        for (at, member) in members.iter().enumerate() {
            let length = share + usize::from(at < more);
            owners.extend(
                stretch
                    .by_ref()
                    .take(length)
                    .map(|slot| (slot, member.clone())),
            );
        }
    }
    owners
}

/// All partitions of all topics, dealt out one by one.
fn round_robin(topics: &[Topic], members: &[String]) -> Owners {
    slots(topics).zip(members.iter().cycle().cloned()).collect()
}

/// As even as can be, and everybody keeps as much as that allows; what is left is dealt out.
fn sticky(topics: &[Topic], members: &[String], before: &Owners) -> Owners {
    let all: Vec<Slot> = slots(topics).collect();
    let least = all.len() / members.len();
    // So many members may have one more than the others.
    let mut larger = all.len() % members.len();
    let mut held: Vec<usize> = vec![0; members.len()];
    let mut owners = Owners::new();
    for (at, member) in members.iter().enumerate() {
        let had: Vec<&Slot> = all
            .iter()
            .filter(|slot| before.get(*slot) == Some(member))
            .collect();
        let keeps_one_more = had.len() > least && larger > 0;
        larger -= usize::from(keeps_one_more);
        let keeps = least + usize::from(keeps_one_more);
        held[at] = had.len().min(keeps);
        owners.extend(
            had.into_iter()
                .take(keeps)
                .map(|slot| (slot.clone(), member.clone())),
        );
    }
    let mut homeless = all
        .iter()
        .filter(|slot| !owners.contains_key(*slot))
        .cloned()
        .collect::<Vec<_>>()
        .into_iter();
    let mut dealt: Vec<(Slot, String)> = Vec::new();
    // Round by round to those below the common share, then one each to as many as may have more.
    loop {
        let hungry: Vec<usize> = (0..members.len()).filter(|at| held[*at] < least).collect();
        if hungry.is_empty() || homeless.len() == 0 {
            break;
        }
        for at in hungry {
            if let Some(slot) = homeless.next() {
                held[at] += 1;
                dealt.push((slot, members[at].clone()));
            }
        }
    }
    let full: Vec<usize> = (0..members.len()).filter(|at| held[*at] == least).collect();
    dealt.extend(
        homeless
            .zip(full)
            .map(|(slot, at)| (slot, members[at].clone())),
    );
    owners.extend(dealt);
    owners
}

/// The operator's own assignment, of tasks: topics of one count are inputs of one subscription, whose task N reads
/// partition N of each.
fn turbine(topics: &[Topic], members: &[String], before: &Owners) -> Result<Owners, Impossible> {
    let task = |count: u32, partition: u32| -> Result<Task, Impossible> {
        Ok(Task {
            subscription: format!("of-{count}").parse()?,
            partition: Partition::try_from(i32::try_from(partition).unwrap_or(-1))?,
        })
    };
    let mut tasks = BTreeSet::new();
    let mut previous: BTreeMap<Task, PodName> = BTreeMap::new();
    for topic in topics {
        for partition in 0..topic.count {
            let task = task(topic.count, partition)?;
            let slot = Slot {
                topic: topic.name.clone(),
                partition,
            };
            if let Some(member) = before.get(&slot) {
                previous.insert(task.clone(), PodName(member.clone()));
            }
            tasks.insert(task);
        }
    }
    let pods: Vec<PodName> = members.iter().cloned().map(PodName).collect();
    let assigned = layout::assign(&tasks, &pods, &previous.into_iter().collect());
    let mut owners = Owners::new();
    for topic in topics {
        for partition in 0..topic.count {
            if let Some(pod) = assigned.pod_of(&task(topic.count, partition)?) {
                let slot = Slot {
                    topic: topic.name.clone(),
                    partition,
                };
                owners.insert(slot, pod.0.clone());
            }
        }
    }
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(counts: &[(&str, u32)]) -> Vec<Topic> {
        counts
            .iter()
            .map(|(name, count)| Topic {
                name: (*name).to_owned(),
                count: *count,
            })
            .collect()
    }

    fn members(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("m{at}")).collect()
    }

    /// `t/0-t/1,u/0` by member.
    fn shown(owners: &Owners) -> BTreeMap<&str, String> {
        let mut of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (slot, member) in owners {
            let slot = format!("{}{}", slot.topic, slot.partition);
            of.entry(member).or_default().push(slot);
        }
        of.into_iter()
            .map(|(member, slots)| (member, slots.join(" ")))
            .collect()
    }

    fn first(assignor: Assignor, counts: &[(&str, u32)], many: usize) -> Owners {
        assignor
            .assign(&topics(counts), &members(many), &Owners::new())
            .unwrap()
    }

    /// The documentation of Kafka's assignors has these: two members, two topics of three partitions.
    #[test]
    fn kafkas_own_examples_come_out() {
        let two = [("t0p", 3), ("t1p", 3)];
        let of = |assignor| {
            let owners = first(assignor, &two, 2);
            shown(&owners).into_values().collect::<Vec<_>>()
        };
        assert_eq!(of(Assignor::Range), ["t0p0 t0p1 t1p0 t1p1", "t0p2 t1p2"]);
        assert_eq!(
            of(Assignor::RoundRobin),
            ["t0p0 t0p2 t1p1", "t0p1 t1p0 t1p2"]
        );
    }

    /// The first example in the documentation of Kafka's `StickyAssignor`: three members, four topics of two partitions,
    /// the second member leaves.
    #[test]
    fn sticky_keeps_what_round_robin_moves() {
        let four = [("t0p", 2), ("t1p", 2), ("t2p", 2), ("t3p", 2)];
        let before = first(Assignor::Sticky, &four, 3);
        assert_eq!(
            shown(&before).into_values().collect::<Vec<_>>(),
            ["t0p0 t1p1 t3p0", "t0p1 t2p0 t3p1", "t1p0 t2p1"]
        );
        let stay = ["m0".to_owned(), "m2".to_owned()];
        let after = Assignor::Sticky
            .assign(&topics(&four), &stay, &before)
            .unwrap();
        let kept = before
            .iter()
            .filter(|(slot, member)| *member != "m1" && after.get(*slot) == Some(*member))
            .count();
        assert_eq!(kept, 5, "{:?}", shown(&after));
        let sizes: Vec<usize> = stay
            .iter()
            .map(|member| after.values().filter(|of| *of == member).count())
            .collect();
        assert_eq!(sizes, [4, 4]);
    }

    #[test]
    fn every_assignor_gives_every_partition_to_one_member_whoever_leaves() {
        for counts in [
            vec![("a", 3), ("b", 3)],
            vec![("a", 12), ("b", 7)],
            vec![("a", 1)],
        ] {
            for many in 1..8 {
                for assignor in Assignor::ALL {
                    let before = first(assignor, &counts, many);
                    let all: Vec<Slot> = slots(&topics(&counts)).collect();
                    assert!(before.keys().eq(&all), "{assignor:?}");
                    for gone in 0..many {
                        let mut stay = members(many);
                        stay.remove(gone);
                        if stay.is_empty() {
                            continue;
                        }
                        let after = assignor.assign(&topics(&counts), &stay, &before).unwrap();
                        assert!(after.keys().eq(&all), "{assignor:?}");
                        assert!(after.values().all(|member| stay.contains(member)));
                    }
                }
            }
        }
    }

    #[test]
    fn sticky_is_even_and_moves_only_what_it_has_to() {
        for (count, many) in [(12, 5), (7, 3), (3, 7), (100, 9)] {
            let before = first(Assignor::Sticky, &[("a", count), ("b", 3)], many);
            for gone in 0..many {
                let mut stay = members(many);
                let gone = stay.remove(gone);
                let after = Assignor::Sticky
                    .assign(&topics(&[("a", count), ("b", 3)]), &stay, &before)
                    .unwrap();
                let sizes = stay
                    .iter()
                    .map(|m| after.values().filter(|of| *of == m).count());
                let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
                assert!(most - least <= 1, "{count} {many}");
                let moved_by_others = before
                    .iter()
                    .filter(|(slot, member)| **member != gone && after.get(*slot) != Some(*member))
                    .count();
                assert_eq!(moved_by_others, 0, "{count} {many}");
            }
        }
    }

    #[test]
    fn equal_indexes_meet_in_turbine_before_and_after() {
        let two = [("a", 12), ("b", 12)];
        let before = first(Assignor::Turbine, &two, 5);
        let mut stay = members(5);
        stay.remove(1);
        let after = Assignor::Turbine
            .assign(&topics(&two), &stay, &before)
            .unwrap();
        for owners in [before, after] {
            for partition in 0..12 {
                let of = |topic: &str| {
                    owners.get(&Slot {
                        topic: topic.to_owned(),
                        partition,
                    })
                };
                assert_eq!(of("a"), of("b"));
            }
        }
    }
}
