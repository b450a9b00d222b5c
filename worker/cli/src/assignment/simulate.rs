//! What the assignors make of one situation, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;

use super::assignors::{Assignor, Impossible, Owners, Slot, Topic, slots};
use crate::table::Table;

#[derive(Debug)]
pub(super) struct Situation {
    /// By name.
    pub(super) topics: Vec<Topic>,
    /// By name.
    pub(super) members: Vec<String>,
    pub(super) leaves: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Outcomes {
    topics: BTreeMap<String, u32>,
    leaves: Option<String>,
    assignors: Vec<Outcome>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    assignor: &'static str,
    /// Partition numbers by member and topic.
    members: BTreeMap<String, BTreeMap<String, Vec<u32>>>,
    /// Partitions of the busiest member less those of the idlest.
    spread: usize,
    /// Indexes that topics of equal count share, and how many of them meet on one member.
    shared_indexes: usize,
    shared_indexes_together: usize,
    after_leave: Option<AfterLeave>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AfterLeave {
    members: BTreeMap<String, BTreeMap<String, Vec<u32>>>,
    spread: usize,
    moves: usize,
    /// Those of the member that left; the others had a reader that stayed.
    moves_that_must: usize,
}

pub(super) fn run(situation: &Situation) -> Result<Outcomes, Impossible> {
    let Situation {
        topics,
        members,
        leaves,
    } = situation;
    let assignors = Assignor::ALL
        .into_iter()
        .map(|assignor| {
            let before = assignor.assign(topics, members, &Owners::new())?;
            let (shared_indexes, shared_indexes_together) = together(topics, &before);
            let after_leave = match leaves {
                None => None,
                Some(gone) => {
                    let stay: Vec<String> = members
                        .iter()
                        .filter(|member| *member != gone)
                        .cloned()
                        .collect();
                    let after = assignor.assign(topics, &stay, &before)?;
                    Some(AfterLeave {
                        members: by_member(&stay, &after),
                        spread: spread(&stay, &after),
                        moves: slots(topics)
                            .filter(|slot| before.get(slot) != after.get(slot))
                            .count(),
                        moves_that_must: before.values().filter(|member| *member == gone).count(),
                    })
                }
            };
            Ok(Outcome {
                assignor: assignor.name(),
                members: by_member(members, &before),
                spread: spread(members, &before),
                shared_indexes,
                shared_indexes_together,
                after_leave,
            })
        })
        .collect::<Result<_, Impossible>>()?;
    Ok(Outcomes {
        topics: topics
            .iter()
            .map(|topic| (topic.name.clone(), topic.count))
            .collect(),
        leaves: leaves.clone(),
        assignors,
    })
}

fn by_member(members: &[String], owners: &Owners) -> BTreeMap<String, BTreeMap<String, Vec<u32>>> {
    let mut of: BTreeMap<String, BTreeMap<String, Vec<u32>>> = members
        .iter()
        .map(|member| (member.clone(), BTreeMap::new()))
        .collect();
    for (slot, member) in owners {
        of.entry(member.clone())
            .or_default()
            .entry(slot.topic.clone())
            .or_default()
            .push(slot.partition);
    }
    of
}

fn spread(members: &[String], owners: &Owners) -> usize {
    let mut held: BTreeMap<&str, usize> =
        members.iter().map(|member| (member.as_str(), 0)).collect();
    for member in owners.values() {
        *held.entry(member).or_default() += 1;
    }
    let most = held.values().max().copied().unwrap_or(0);
    most - held.values().min().copied().unwrap_or(0)
}

/// How many indexes topics of equal count share, and how many of those have one reader.
fn together(topics: &[Topic], owners: &Owners) -> (usize, usize) {
    let mut by_count: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for topic in topics {
        by_count.entry(topic.count).or_default().push(&topic.name);
    }
    let (mut shared, mut met) = (0, 0);
    for (count, names) in by_count.into_iter().filter(|(_, names)| names.len() > 1) {
        for partition in 0..count {
            let readers: BTreeSet<Option<&String>> = names
                .iter()
                .map(|name| {
                    owners.get(&Slot {
                        topic: (*name).to_owned(),
                        partition,
                    })
                })
                .collect();
            shared += 1;
            met += usize::from(readers.len() == 1);
        }
    }
    (shared, met)
}

/// `0-3,7` for 0, 1, 2, 3 and 7.
fn stretches(partitions: &[u32]) -> String {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for partition in partitions {
        match out.last_mut() {
            Some((_, last)) if *last + 1 == *partition => *last = *partition,
            _ => out.push((*partition, *partition)),
        }
    }
    let texts: Vec<String> = out
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    texts.join(",")
}

fn what(read: &BTreeMap<String, Vec<u32>>) -> String {
    if read.is_empty() {
        return "(idle)".to_owned();
    }
    let texts: Vec<String> = read
        .iter()
        .map(|(topic, partitions)| format!("{topic} {}", stretches(partitions)))
        .collect();
    texts.join("; ")
}

impl Outcomes {
    pub(super) fn write_json(&self, out: &mut impl Write) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)?;
        Ok(())
    }

    pub(super) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        self.comparison().write(out)?;
        for outcome in &self.assignors {
            writeln!(out)?;
            writeln!(out, "{}:", outcome.assignor)?;
            for (member, read) in &outcome.members {
                writeln!(out, "  {member}  {}", what(read))?;
            }
            if let (Some(after), Some(gone)) = (&outcome.after_leave, &self.leaves) {
                writeln!(out, "  without {gone}:")?;
                for (member, read) in &after.members {
                    writeln!(out, "  {member}  {}", what(read))?;
                }
            }
        }
        Ok(())
    }

    fn comparison(&self) -> Table {
        let mut headings = vec!["partitions of"];
        headings.extend(self.assignors.iter().map(|outcome| outcome.assignor));
        let mut table = Table::new(&headings);
        let mut row = |what: &str, cell: &dyn Fn(&Outcome) -> String| {
            table.row(
                [what.to_owned()]
                    .into_iter()
                    .chain(self.assignors.iter().map(cell)),
            );
        };
        let members: BTreeSet<&String> = self
            .assignors
            .iter()
            .flat_map(|outcome| outcome.members.keys())
            .collect();
        for member in members {
            row(member, &|outcome| {
                let read = outcome.members.get(member);
                read.map_or(0, |read| read.values().map(Vec::len).sum::<usize>())
                    .to_string()
            });
        }
        row("most less least", &|outcome| outcome.spread.to_string());
        if self
            .assignors
            .iter()
            .any(|outcome| outcome.shared_indexes > 0)
        {
            row("equal indexes that meet", &|outcome| {
                format!(
                    "{} of {}",
                    outcome.shared_indexes_together, outcome.shared_indexes
                )
            });
        }
        if let Some(gone) = &self.leaves {
            let after = |outcome: &Outcome, of: &dyn Fn(&AfterLeave) -> usize| {
                outcome
                    .after_leave
                    .as_ref()
                    .map_or_else(String::new, |after| of(after).to_string())
            };
            row(&format!("moves when {gone} leaves"), &|outcome| {
                after(outcome, &|after| after.moves)
            });
            row("of them its own", &|outcome| {
                after(outcome, &|after| after.moves_that_must)
            });
            row("most less least then", &|outcome| {
                after(outcome, &|after| after.spread)
            });
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(counts: &[(&str, u32)], members: &[&str], leaves: Option<&str>) -> Outcomes {
        run(&Situation {
            topics: counts
                .iter()
                .map(|(name, count)| Topic {
                    name: (*name).to_owned(),
                    count: *count,
                })
                .collect(),
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            leaves: leaves.map(str::to_owned),
        })
        .unwrap()
    }

    fn sizes(outcomes: &Outcomes) -> Vec<(&'static str, Vec<usize>)> {
        outcomes
            .assignors
            .iter()
            .map(|outcome| {
                let sizes = outcome
                    .members
                    .values()
                    .map(|read| read.values().map(Vec::len).sum())
                    .collect();
                (outcome.assignor, sizes)
            })
            .collect()
    }

    #[test]
    fn two_topics_of_three_for_two_members() {
        let outcomes = outcomes(&[("orders", 3), ("payments", 3)], &["a", "b"], Some("b"));
        assert_eq!(
            sizes(&outcomes),
            [
                ("range", vec![4, 2]),
                ("round-robin", vec![3, 3]),
                ("sticky", vec![3, 3]),
                ("turbine", vec![4, 2]),
            ]
        );
        let met: Vec<usize> = outcomes
            .assignors
            .iter()
            .map(|outcome| outcome.shared_indexes_together)
            .collect();
        assert_eq!(met, [3, 0, 0, 3]);
    }

    #[test]
    fn more_members_than_partitions_leave_some_idle() {
        let outcomes = outcomes(&[("orders", 2)], &["a", "b", "c"], None);
        for (assignor, sizes) in sizes(&outcomes) {
            assert_eq!(
                sizes.iter().filter(|size| **size == 0).count(),
                1,
                "{assignor}"
            );
        }
        let mut out = Vec::new();
        outcomes.write_text(&mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("c  (idle)"));
    }

    #[test]
    fn sticky_and_turbine_move_only_what_the_leaver_had() {
        let outcomes = outcomes(
            &[("a", 12), ("b", 12)],
            &["m0", "m1", "m2", "m3"],
            Some("m1"),
        );
        for outcome in outcomes.assignors {
            let after = outcome.after_leave.unwrap();
            let keeps = matches!(outcome.assignor, "sticky" | "turbine");
            assert_eq!(
                after.moves == after.moves_that_must,
                keeps,
                "{}",
                outcome.assignor
            );
        }
    }

    #[test]
    fn partitions_in_a_row_are_a_stretch() {
        assert_eq!(stretches(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(stretches(&[]), "");
    }
}
