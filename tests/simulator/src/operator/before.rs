//! From the wish to the grown topic.

use rand::Rng;
use turbine_protocol::Offset;
use turbine_protocol::rescale::{Hold, Moment, Plan};

use super::{Step, epoch_of};
use crate::scenario::{Broken, WAITS};
use crate::task::{Order, offset};
use crate::world::World;

impl World {
    pub(super) fn idle(&mut self, until: i64) {
        let found = self.scenario.foreign && self.some_broker_knows(self.new_count());
        if self.now < until && !found {
            self.operator.step = Step::Idle { until };
            return;
        }
        self.operator.epoch += 1;
        self.operator.plan = Some(Plan::new(epoch_of(self.operator.epoch), self.growth()));
        self.operator.step = if std::mem::take(&mut self.operator.will_undo) && !found {
            Step::Undoing {
                until: self.now + self.rng.random_range(1..20),
            }
        } else {
            Step::Announced
        };
    }

    fn announce(&mut self) {
        let (epoch, growth) = (epoch_of(self.operator.epoch), self.growth());
        for task in 0..self.old_count() {
            if self.rng.random_bool(0.2) {
                self.tell(self.running_epoch(), task, Order::Announce(epoch, growth));
            }
        }
    }

    pub(super) fn undoing(&mut self, until: i64) {
        self.announce();
        if self.now < until {
            self.operator.step = Step::Undoing { until };
            return;
        }
        let epoch = epoch_of(self.operator.epoch);
        for task in 0..self.old_count() {
            self.tell(self.running_epoch(), task, Order::Undo(epoch));
        }
        self.operator.epoch += 1;
        self.operator.plan = Some(Plan::new(epoch_of(self.operator.epoch), self.growth()));
        self.operator.step = Step::Announced;
    }

    fn holds(&self) -> bool {
        let hold = Some(Hold::Plan(epoch_of(self.operator.epoch)));
        let epoch = self.running_epoch();
        (0..self.old_count())
            .all(|task| self.lives[&(epoch, task)].store.committed.said.hold() == hold)
    }

    pub(super) fn announced(&mut self) {
        self.announce();
        let breaks = self.scenario.breaks(Broken::GrowthBeforeHolds);
        self.operator.step = if !self.holds() && !breaks {
            Step::Announced
        } else if self.scenario.breaks(Broken::EndsAfterGrowth) {
            self.grow_topic();
            Step::Growing
        } else {
            Step::Ends { ends: Vec::new() }
        };
    }

    pub(super) fn ends(&mut self, mut ends: Vec<Offset>) {
        let asked = if self.rng.random_bool(0.5) {
            self.old_count() as usize
        } else {
            ends.len() + 1
        };
        while ends.len() < asked {
            ends.push(offset(self.logs[ends.len()].high()));
        }
        if ends.len() < self.old_count() as usize {
            self.operator.step = Step::Ends { ends };
            return;
        }
        // The ends first, then the count of every broker, then the call: whoever came before has made the ends void.
        let is_ours = !self.some_broker_knows(self.new_count()) && self.grow_topic();
        if is_ours {
            self.operator.plan = self
                .operator
                .plan
                .take()
                .map(|plan| plan.with_ends_before(ends).unwrap());
        }
        self.operator.step = Step::Growing;
    }

    /// Grows the topic, unless somebody has; says whether it did.
    pub(crate) fn grow_topic(&mut self) -> bool {
        let count = self.new_count();
        if self.logs.len() >= count as usize {
            return false;
        }
        self.logs.resize_with(count as usize, Default::default);
        let grace = i64::try_from(WAITS.metadata_grace.0).unwrap();
        // A growth that was announced is told by no broker's word: they may be as old as they like.
        let stale = if self.scenario.foreign {
            grace
        } else {
            8 * grace
        };
        for broker in 0..self.metadata.brokers() {
            let at = self.now + self.rng.random_range(0..=stale);
            self.metadata.learn(broker, at, count);
        }
        if !self.scenario.internal {
            let straggler = self.scenario.straggler.then_some(0);
            for (number, producer) in self.producers.iter_mut().enumerate() {
                producer.grown(self.now, count, straggler == Some(number), &mut self.rng);
            }
        }
        true
    }

    pub(super) fn growing(&mut self) {
        self.announce();
        if !self.every_broker_knows(self.new_count()) || !self.holds() {
            self.operator.step = Step::Growing;
            return;
        }
        let mut plan = self.operator.plan.take().unwrap();
        if self.scenario.breaks(Broken::EndsAfterGrowth) {
            let ends = (0..self.old_count() as usize).map(|old| offset(self.logs[old].high()));
            plan = plan.with_ends_before(ends.collect()).unwrap();
        }
        self.operator.plan = Some(plan.with_growth(Moment(self.now)).unwrap());
        self.operator.step = Step::Draining { since: self.now };
    }
}
