//! The operator's way through the steps of a rescale, as far as the data side sees it. Its own crashes and its journal are the
//! plan's subject, not this one's: what it knows here it reads from what is durable elsewhere.

use std::collections::BTreeMap;

use rand::Rng;
use turbine_protocol::rescale::{Growth, Plan, Round};
use turbine_protocol::{LayoutEpoch, Offset};

use crate::task::Order;
use crate::world::World;

mod before;
mod closing;
mod stopping;

#[derive(Debug)]
enum Step {
    /// Waits for a moment, or for another hand.
    Idle {
        until: i64,
    },
    /// A plan that is given up before the topic grows.
    Undoing {
        until: i64,
    },
    Announced,
    /// Asks for the ends before the growth, one after the other.
    Ends {
        ends: Vec<Offset>,
    },
    Growing,
    Draining {
        since: i64,
    },
    Sealing {
        seals: BTreeMap<u32, Seal>,
    },
    Moving {
        until: i64,
    },
    Started,
    Closing {
        rounds: BTreeMap<u32, Option<Round>>,
    },
    Settled,
}

#[derive(Debug, Clone)]
enum Seal {
    Wanted { at: i64 },
    Sent(u64),
    Done,
}

#[derive(Debug)]
pub(crate) struct Operator {
    step: Step,
    /// Which of the scenario's counts is the present one.
    pub(crate) at: usize,
    epoch: i64,
    plan: Option<Plan>,
    will_undo: bool,
    late_seals: Vec<(i64, u32, LayoutEpoch)>,
}

impl Operator {
    pub(crate) fn new(begins: i64, will_undo: bool) -> Self {
        Self {
            step: Step::Idle { until: begins },
            at: 0,
            epoch: 1,
            plan: None,
            will_undo,
            late_seals: Vec::new(),
        }
    }

    pub(crate) fn is_done(&self, counts: &[u32]) -> bool {
        self.at + 1 >= counts.len()
    }

    pub(crate) fn describe(&self) -> String {
        format!("{:?} of plan {:?}", self.step, self.plan)
    }
}

fn epoch_of(number: i64) -> LayoutEpoch {
    number.try_into().unwrap()
}

impl World {
    fn old_count(&self) -> u32 {
        self.scenario.counts[self.operator.at]
    }

    fn new_count(&self) -> u32 {
        self.scenario.counts[self.operator.at + 1]
    }

    fn growth(&self) -> Growth {
        let (from, to) = (self.old_count(), self.new_count());
        Growth::new(from.try_into().unwrap(), to.try_into().unwrap()).unwrap()
    }

    /// The epoch of the lives that run the present count.
    fn running_epoch(&self) -> i64 {
        self.running_epoch
    }

    fn tell(&mut self, epoch: i64, task: u32, order: Order) {
        let at = self.now + self.rng.random_range(0..6);
        if let Some(life) = self.lives.get_mut(&(epoch, task)) {
            life.post(at, order);
        }
    }

    fn every_broker_knows(&self, count: u32) -> bool {
        let mut brokers = 0..self.metadata.brokers();
        brokers.all(|broker| self.metadata.count(broker, self.now) >= count)
    }

    fn some_broker_knows(&self, count: u32) -> bool {
        let mut brokers = 0..self.metadata.brokers();
        brokers.any(|broker| self.metadata.count(broker, self.now) >= count)
    }

    pub(crate) fn operate(&mut self) {
        self.seal_late();
        if self.operator.is_done(&self.scenario.counts) {
            return;
        }
        match std::mem::replace(&mut self.operator.step, Step::Settled) {
            Step::Idle { until } => self.idle(until),
            Step::Undoing { until } => self.undoing(until),
            Step::Announced => self.announced(),
            Step::Ends { ends } => self.ends(ends),
            Step::Growing => self.growing(),
            Step::Draining { since } => self.draining(since),
            Step::Sealing { seals } => self.sealing(seals),
            Step::Moving { until } => self.moving(until),
            Step::Started => self.started(),
            Step::Closing { rounds } => self.closing(rounds),
            Step::Settled => {}
        }
    }
}
