//! From the order to stop to the new tasks.

use std::collections::BTreeMap;

use rand::Rng;
use turbine_keygroups::Partition;
use turbine_protocol::rescale::seal::{self, GroupReceipt, Sealing};
use turbine_protocol::rescale::{Layout, OldStop, StoredReading};
use turbine_protocol::{LayoutEpoch, Offset};

use super::{Seal, Step, epoch_of};
use crate::broker::{Answer, Commit};
use crate::check::Violation;
use crate::log::Log;
use crate::producer::Producer;
use crate::scenario::Broken;
use crate::store::{Delta, Panes, Store, partition};
use crate::task::{Life, Order, offset};
use crate::world::World;

impl World {
    pub(super) fn draining(&mut self, since: i64) {
        let epoch = self.running_epoch();
        let mut stopped = 0;
        for task in 0..self.old_count() {
            if self.lives[&(epoch, task)].has_ended() {
                stopped += 1;
            } else if self.rng.random_bool(0.2) {
                self.tell(epoch, task, Order::Drain);
            }
        }
        // Who cannot answer is fenced.
        if stopped < self.old_count() && self.now < since + 40 {
            self.operator.step = Step::Draining { since };
            return;
        }
        let wanted = |world: &mut Self| Seal::Wanted {
            at: world.now + world.rng.random_range(0..10),
        };
        let seals = (0..self.old_count())
            .map(|task| (task, wanted(self)))
            .collect();
        self.operator.step = Step::Sealing { seals };
    }

    fn seal_one(&mut self, task: u32, epoch: LayoutEpoch) -> Seal {
        let fence = self.coordinator.init(task);
        let Some((at, text)) = self.coordinator.committed(task) else {
            return Seal::Wanted { at: self.now + 5 };
        };
        match seal::seal(text.parse().unwrap(), epoch) {
            Sealing::Commit(sealed) => Seal::Sent(self.coordinator.send(
                self.now + self.rng.random_range(0..4),
                Commit {
                    id: task,
                    fence,
                    offset: at,
                    receipt: sealed.to_string(),
                    delta: Delta::default(),
                },
            )),
            Sealing::Done | Sealing::TooLate { .. } => Seal::Done,
        }
    }

    /// An operator that was deposed wakes up and seals once more.
    pub(super) fn seal_late(&mut self) {
        let now = self.now;
        let due: Vec<_> = self
            .operator
            .late_seals
            .extract_if(.., |(at, ..)| *at <= now)
            .collect();
        for (_, task, epoch) in due {
            self.seal_one(task, epoch);
        }
    }

    pub(super) fn sealing(&mut self, mut seals: BTreeMap<u32, Seal>) {
        let epoch = epoch_of(self.operator.epoch);
        for (task, seal) in &mut seals {
            let is_skipped = self.scenario.breaks(Broken::NoSeal);
            *seal = match seal.clone() {
                Seal::Wanted { at } if at > self.now => Seal::Wanted { at },
                Seal::Wanted { at } if is_skipped => match self.coordinator.committed(*task) {
                    Some(_) => Seal::Done,
                    None => Seal::Wanted { at },
                },
                Seal::Wanted { .. } => self.seal_one(*task, epoch),
                Seal::Sent(sent) => match self.coordinator.answer(sent) {
                    Answer::Pending => Seal::Sent(sent),
                    Answer::Committed => Seal::Done,
                    // The old task came back in between.
                    Answer::Fenced => Seal::Wanted { at: self.now + 2 },
                },
                Seal::Done => Seal::Done,
            };
        }
        if !seals.values().all(|seal| matches!(seal, Seal::Done)) {
            self.operator.step = Step::Sealing { seals };
            return;
        }
        let mut stops = Vec::new();
        for task in 0..self.old_count() {
            let (at, text) = self.coordinator.committed(task).unwrap();
            let found: GroupReceipt = text.parse().unwrap();
            let mut copy = self.lives[&(self.running_epoch, task)].store.clone();
            let by_number =
                self.scenario.breaks(Broken::BareNumber) || self.scenario.breaks(Broken::NoSeal);
            settle_copy(&mut copy, found, at);
            if copy.committed.next != at && !by_number {
                self.violations.push(Violation::ForeignReceipt(text));
            }
            let left_from = match copy.committed.said.layout() {
                Layout::Ahead { left_from, .. } => left_from,
                Layout::Steady { .. } | Layout::Through { .. } => None,
            };
            stops.push(OldStop {
                next: Offset::try_from(copy.committed.next).unwrap(),
                left_from,
            });
            self.moved.insert(task, copy);
        }
        match self.operator.plan.take().unwrap().with_stops(stops) {
            Ok(plan) => self.operator.plan = Some(plan),
            Err(unfit) => {
                self.violations.push(Violation::Stopped(unfit.to_string()));
                return;
            }
        }
        self.operator.step = Step::Moving {
            until: self.now + self.rng.random_range(1..20),
        };
    }

    pub(super) fn moving(&mut self, until: i64) {
        if self.scenario.internal {
            // The producers are the old tasks of the stage before: they stop, and all they sent has landed.
            self.upstream_stopped = true;
            let is_quiet = self.producers.iter().all(Producer::is_quiet)
                && self.logs.iter().all(Log::is_quiet);
            if !is_quiet {
                self.operator.step = Step::Moving { until };
                return;
            }
            let mut plan = self.operator.plan.take().unwrap();
            for old in 0..self.old_count() {
                let end = offset(self.logs[old as usize].high());
                if plan.closed()[old as usize].is_none() {
                    plan = plan.with_closed(partition(old), end).unwrap();
                }
            }
            self.operator.plan = Some(plan);
        }
        if self.now < until {
            self.operator.step = Step::Moving { until };
            return;
        }
        if self.scenario.internal {
            let count = self.new_count();
            for producer in &mut self.producers {
                producer.use_count(count);
            }
            self.upstream_stopped = false;
        }
        self.start_new_tasks();
        self.operator.step = Step::Started;
    }

    fn start_new_tasks(&mut self) {
        let plan = self.operator.plan.clone().unwrap();
        let moved = std::mem::take(&mut self.moved);
        let epoch = self.operator.epoch;
        for task in 0..self.new_count() {
            let old = |source: Partition| {
                moved
                    .get(&source.index())
                    .map(|store| &store.committed.said)
            };
            let begun = plan.begin(partition(task), old).unwrap();
            let begun = self.broken_start(&begun);
            let mut panes = Panes::new();
            for store in moved.values() {
                for ((key, window), records) in &store.committed.panes {
                    let owner = key
                        .0
                        .placed_by(plan.growth().to())
                        .map_or(key.1, |owner| Some(owner.index()));
                    if owner == Some(task) {
                        panes.entry((*key, *window)).or_default().extend(records);
                    }
                }
            }
            let store = Store::new(&begun, &panes, epoch_of(epoch).into());
            let life = Life::new(
                store,
                self.new_count(),
                self.operator.at + 1,
                self.now,
                &mut self.rng,
            );
            self.lives.insert((epoch, task), life);
        }
        self.running_epoch = epoch;
        if self.scenario.crashes {
            let task = self.rng.random_range(0..self.old_count());
            let at = self.now + self.rng.random_range(0..100);
            self.operator.late_seals.push((at, task, epoch_of(epoch)));
        }
    }

    fn broken_start(&self, begun: &StoredReading) -> StoredReading {
        let mut text = serde_json::to_value(begun).unwrap();
        if self.scenario.breaks(Broken::ClosedToForgotten) {
            text["closedTo"] = serde_json::json!([]);
        }
        if self.scenario.breaks(Broken::NoInternalTails) {
            text["cursors"]
                .as_array_mut()
                .unwrap()
                .retain(|cursor| cursor["kind"] != "Tail");
        }
        serde_json::from_value(text).unwrap()
    }
}

fn settle_copy(store: &mut Store, found: GroupReceipt, at: i64) {
    let at = Offset::try_from(at).unwrap();
    if let Some(prepared) = store.prepared.take() {
        let next = Offset::try_from(prepared.next).unwrap();
        if seal::prepared_counts(found, at, &prepared.receipt, next) {
            store.committed = prepared;
        }
    }
}
