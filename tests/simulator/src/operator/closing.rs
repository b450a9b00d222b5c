//! From the new tasks' first entries to one cursor each.

use std::collections::BTreeMap;

use rand::Rng;
use turbine_keygroups::Partition;
use turbine_protocol::rescale::{Closing, Layout, Moment, Proposal, Round};

use super::Step;
use crate::scenario::WAITS;
use crate::store::partition;
use crate::task::{Order, offset};
use crate::world::World;

impl World {
    pub(super) fn started(&mut self) {
        let epoch = self.running_epoch();
        let is_verified = |task: u32| self.lives[&(epoch, task)].store.committed.number.get() > 0;
        self.operator.step = if (0..self.new_count()).all(is_verified) {
            let rounds = (0..self.old_count()).map(|old| (old, None)).collect();
            Step::Closing { rounds }
        } else {
            Step::Started
        };
    }

    pub(super) fn closing(&mut self, mut rounds: BTreeMap<u32, Option<Round>>) {
        let epoch = self.running_epoch();
        let mut plan = self.operator.plan.take().unwrap();
        for (old, round) in &mut rounds {
            let readers: Vec<Partition> = plan.old_readers(partition(*old)).collect();
            let closing_of = |world: &Self, reader: &Partition| {
                world.lives[&(epoch, reader.index())]
                    .store
                    .committed
                    .said
                    .closing_of(partition(*old))
            };
            if let Some(end) = plan.closed()[*old as usize] {
                for reader in &readers {
                    let is_open = closing_of(self, reader)
                        .is_some_and(|closing| closing != Closing::Closed(end));
                    if is_open && self.rng.random_bool(0.3) {
                        self.tell(epoch, reader.index(), Order::Close(plan.epoch(), *old, end));
                    }
                }
                continue;
            }
            let is_stale = |round: &Round| self.now > round.proposal().asked_at.0 + 25;
            if round.as_ref().is_none_or(is_stale) {
                let proposal = Proposal {
                    epoch: plan.epoch(),
                    partition: partition(*old),
                    end: offset(self.logs[*old as usize].high()),
                    asked_at: Moment(self.now),
                };
                *round = Round::begin(
                    proposal,
                    plan.grown_at().unwrap(),
                    readers.iter().copied(),
                    WAITS,
                );
            }
            let Some(round) = round else { continue };
            for reader in &readers {
                if let Some(closing) = closing_of(self, reader) {
                    round.answered(*reader, closing);
                }
                if self.rng.random_bool(0.2) {
                    self.tell(epoch, reader.index(), Order::Propose(round.proposal()));
                }
            }
            if let Some(end) = round.end() {
                plan = plan.with_closed(partition(*old), end).unwrap();
            }
        }
        let is_settled = |task: u32| {
            let said = &self.lives[&(epoch, task)].store.committed.said;
            matches!(said.layout(), Layout::Steady { .. })
        };
        if (0..self.new_count()).all(is_settled) {
            self.operator.at += 1;
            self.operator.plan = None;
            self.operator.step = Step::Idle {
                until: self.now + self.rng.random_range(10..60),
            };
            return;
        }
        self.operator.plan = Some(plan);
        self.operator.step = Step::Closing { rounds };
    }
}
