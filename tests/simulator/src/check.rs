//! What must hold after a schedule, computed from the log alone.

use std::collections::{BTreeMap, BTreeSet};

use turbine_protocol::rescale::RecordKey;

use crate::log::{Log, Record, Slot};
use crate::scenario::{OUT_OF_ORDERNESS, Scenario};
use crate::store::{Delta, PaneKey, window_end, window_of};

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A record was applied another number of times than once.
    Applied {
        /// The record.
        record: usize,
        /// How often.
        times: usize,
    },
    /// A record was applied by a task that does not own its key.
    NotTheOwner {
        /// The record.
        record: usize,
        /// The task.
        task: u32,
    },
    /// A producer's records of one key were applied in another order than sent.
    Order {
        /// The record that came too late.
        record: usize,
    },
    /// A row that is late neither by its own partition's log nor by what had been sent before it was judged late.
    Late {
        /// The record.
        record: usize,
    },
    /// A row of the first layout was judged otherwise than by the running maximum of its partition's log.
    Judged {
        /// The record.
        record: usize,
    },
    /// A window's result came twice.
    ClosedTwice {
        /// The key's records in it.
        records: Vec<usize>,
    },
    /// A window's result lacks records that were taken for it, or has others.
    Result {
        /// The window's number.
        window: i64,
    },
    /// A task's store and the receipt that it must answer to differ.
    ForeignReceipt(String),
    /// A task or the plan stopped, in the rule's own words.
    Stopped(String),
    /// Faults have ended, and so has all movement.
    NoProgress(String),
}

struct Fact<'a> {
    record: &'a Record,
    partition: u32,
    visible_at: i64,
    /// The highest event time before it in its log.
    max_before: Option<i64>,
}

fn facts(logs: &[Log]) -> BTreeMap<usize, Fact<'_>> {
    let mut facts = BTreeMap::new();
    for (partition, log) in (0..).zip(logs) {
        let mut max_before = None;
        for at in 0..log.slots.len() {
            if let Some(record) = log.committed(at) {
                let visible_at = log.visible_at.get(at).copied().unwrap_or(i64::MAX);
                facts.insert(
                    record.id,
                    Fact {
                        record,
                        partition,
                        visible_at,
                        max_before,
                    },
                );
                max_before = max_before.max(Some(record.event_time));
            }
        }
    }
    facts
}

impl Fact<'_> {
    fn is_on_time(&self, coasts: bool) -> bool {
        let reaches = |max: Option<i64>| {
            max.is_none_or(|max| self.record.event_time >= max - OUT_OF_ORDERNESS)
        };
        // The clock may close what an idle partition does not show in time.
        let clock = coasts.then_some(self.visible_at);
        reaches(self.max_before) && reaches(self.record.sent_before) && reaches(clock)
    }

    fn is_late_by_its_log(&self) -> bool {
        let line = self.max_before.map(|max| max - OUT_OF_ORDERNESS);
        line.is_some_and(|line| window_end(window_of(self.record.event_time)) <= line)
    }

    fn pane(&self) -> (PaneKey, i64) {
        let own = match self.record.key {
            RecordKey::Null => Some(self.partition),
            RecordKey::Hash(_) => None,
        };
        ((self.record.key, own), window_of(self.record.event_time))
    }
}

/// Judges all that was committed. `all`: everything in the log must have been applied.
pub(crate) fn check(
    logs: &[Log],
    outputs: &[(u32, Delta)],
    scenario: &Scenario,
    all: bool,
) -> Vec<Violation> {
    let facts = facts(logs);
    let mut found = Vec::new();
    let mut times: BTreeMap<usize, usize> = BTreeMap::new();
    let mut sequences: BTreeMap<(usize, RecordKey), u64> = BTreeMap::new();
    let mut taken: BTreeMap<(PaneKey, i64), BTreeSet<usize>> = BTreeMap::new();
    for (task, delta) in outputs {
        for (id, late) in &delta.applied {
            *times.entry(*id).or_default() += 1;
            let Some(fact) = facts.get(id) else {
                found.push(Violation::Applied {
                    record: *id,
                    times: 1,
                });
                continue;
            };
            let count = turbine_keygroups::RawPartitionCount::try_from(delta.count).unwrap();
            let owner = fact
                .record
                .key
                .placed_by(count)
                .map_or(fact.partition, turbine_keygroups::Partition::index);
            if owner != *task {
                found.push(Violation::NotTheOwner {
                    record: *id,
                    task: *task,
                });
            }
            if fact.record.key != RecordKey::Null {
                let last = sequences
                    .entry((fact.record.producer, fact.record.key))
                    .or_default();
                if fact.record.sequence <= *last && times[id] == 1 {
                    found.push(Violation::Order { record: *id });
                }
                *last = fact.record.sequence.max(*last);
            }
            if *late && fact.is_on_time(scenario.coasts) {
                found.push(Violation::Late { record: *id });
            }
            if delta.generation == 0 && !scenario.coasts && *late != fact.is_late_by_its_log() {
                found.push(Violation::Judged { record: *id });
            }
            if !late {
                taken.entry(fact.pane()).or_default().insert(*id);
            }
        }
    }
    let mut closed = BTreeSet::new();
    for (_, delta) in outputs {
        for (pane, records) in &delta.closed {
            if !closed.insert(*pane) {
                found.push(Violation::ClosedTwice {
                    records: records.clone(),
                });
            } else if taken.get(pane) != Some(&records.iter().copied().collect()) {
                found.push(Violation::Result { window: pane.1 });
            }
        }
    }
    for id in facts.keys() {
        let times = times.get(id).copied().unwrap_or(0);
        if times > 1 || (all && times == 0) {
            found.push(Violation::Applied { record: *id, times });
        }
    }
    found
}

/// How many records a log has, for reports.
pub(crate) fn records(logs: &[Log]) -> usize {
    let slots = logs.iter().flat_map(|log| &log.slots);
    slots.filter(|slot| matches!(slot, Slot::Record(_))).count()
}
