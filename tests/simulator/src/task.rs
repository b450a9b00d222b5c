//! The lives of a task: it starts from its store and the receipt, reads, closes windows, commits, crashes, stalls and comes back.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::StdRng;
use turbine_protocol::rescale::seal::{self, Beginning, GroupReceipt};
use turbine_protocol::rescale::{Growth, Moment, Proposal, Reading, StoredReading};
use turbine_protocol::{EntryNumber, LayoutEpoch, Offset};

use crate::broker::{Answer, Commit, Coordinator, Metadata};
use crate::check::Violation;
use crate::log::Log;
use crate::scenario::{Broken, OUT_OF_ORDERNESS, Scenario, WAITS};
use crate::store::{Delta, Snapshot, Store};

mod running;

use running::Running;

/// What the operator tells a task.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    Announce(LayoutEpoch, Growth),
    Undo(LayoutEpoch),
    Drain,
    Propose(Proposal),
    Close(LayoutEpoch, u32, Offset),
}

/// What a task can reach.
pub(crate) struct Around<'a> {
    pub(crate) now: i64,
    pub(crate) scenario: &'a Scenario,
    pub(crate) faults: bool,
    pub(crate) logs: &'a [Log],
    pub(crate) coordinator: &'a mut Coordinator,
    pub(crate) metadata: &'a Metadata,
    pub(crate) rng: &'a mut StdRng,
    pub(crate) violations: &'a mut Vec<Violation>,
    pub(crate) blocked: &'a mut bool,
    /// Where a full buffer stops the shared fetch of a partition.
    pub(crate) buffers: &'a BTreeMap<u32, usize>,
}

#[derive(Debug)]
enum State {
    Down {
        until: i64,
    },
    Beginning {
        fence: u64,
        sent: u64,
    },
    Running(Box<Running>),
    /// Said its position, or was refused: it never takes its id again.
    Ended,
}

/// A task under one assignment, with its volume.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) store: Store,
    count: u32,
    generation: usize,
    state: State,
    mail: Vec<(i64, Order)>,
    stalled_until: i64,
    /// The operator cannot reach it; it works on.
    deaf_until: i64,
    has_begun: bool,
    slow: bool,
}

pub(crate) fn offset(number: usize) -> Offset {
    i64::try_from(number).unwrap().try_into().unwrap()
}

impl Life {
    pub(crate) fn new(
        store: Store,
        count: u32,
        generation: usize,
        now: i64,
        rng: &mut StdRng,
    ) -> Self {
        Self {
            store,
            count,
            generation,
            state: State::Down {
                until: now + rng.random_range(0..5),
            },
            mail: Vec::new(),
            stalled_until: 0,
            deaf_until: 0,
            has_begun: false,
            slow: rng.random_bool(0.2),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// The reading in memory, whatever is durable.
    pub(crate) fn reading(&self) -> Option<&StoredReading> {
        match &self.state {
            State::Running(running) => Some(running.reading.stored()),
            State::Down { .. } | State::Beginning { .. } | State::Ended => None,
        }
    }

    pub(crate) fn post(&mut self, at: i64, order: Order) {
        self.mail.push((at, order));
    }

    fn delta(&self) -> Delta {
        Delta {
            count: self.count,
            generation: self.generation,
            ..Delta::default()
        }
    }

    fn fall(&mut self, around: &mut Around<'_>) {
        let until = around.now + around.rng.random_range(1..25);
        self.state = State::Down { until };
    }

    pub(crate) fn tick(&mut self, around: &mut Around<'_>) {
        let faults = around.faults && around.scenario.crashes;
        if around.now < self.stalled_until && around.faults {
            return;
        }
        if faults && around.rng.random_bool(0.002) {
            self.stalled_until = around.now + around.rng.random_range(20..150);
            return;
        }
        if faults && around.rng.random_bool(0.004) {
            self.deaf_until = around.now + around.rng.random_range(20..100);
        }
        if faults && around.rng.random_bool(0.006) && !self.has_ended() {
            self.fall(around);
        }
        match &mut self.state {
            State::Down { until } if *until <= around.now => self.start(around),
            State::Down { .. } | State::Ended => {}
            State::Beginning { fence, sent } => {
                let (fence, answer) = (*fence, around.coordinator.answer(*sent));
                match answer {
                    Answer::Pending => {}
                    Answer::Committed => self.run(fence, around),
                    Answer::Fenced => self.fall(around),
                }
            }
            State::Running(_) => self.running(around),
        }
    }

    fn start(&mut self, around: &mut Around<'_>) {
        let id = self.store.partition;
        let fence = around.coordinator.init(id);
        let found = around.coordinator.committed(id);
        let receipt = found
            .as_ref()
            .map(|(_, text)| text.parse::<GroupReceipt>().unwrap());
        if around.scenario.breaks(Broken::BareNumber) {
            self.start_by_number(receipt, fence, around);
            return;
        }
        let beginning = match seal::begin(receipt, self.store.epoch.layout(), self.store.epoch) {
            Err(_)
                if around.scenario.breaks(Broken::NoSeal)
                    && !self.has_begun
                    && self.generation > 0 =>
            {
                Beginning::CommitFirst
            }
            Err(seal::MayNotBegin::Overtaken { .. }) => {
                self.state = State::Ended;
                return;
            }
            Err(error @ seal::MayNotBegin::NotSealed { .. }) => {
                around
                    .violations
                    .push(Violation::Stopped(error.to_string()));
                self.state = State::Ended;
                return;
            }
            Ok(beginning) => beginning,
        };
        match beginning {
            Beginning::CommitFirst => self.commit_first(fence, around),
            Beginning::GoOn(receipt) => {
                let (at, found) = (found.unwrap().0, GroupReceipt::Open(receipt));
                self.settle_prepared(Some((found, at)));
                if self.store.committed.receipt != receipt {
                    around
                        .violations
                        .push(Violation::ForeignReceipt(receipt.to_string()));
                }
                self.run(fence, around);
            }
        }
    }

    fn start_by_number(
        &mut self,
        found: Option<GroupReceipt>,
        fence: u64,
        around: &mut Around<'_>,
    ) {
        let number = match found {
            None => EntryNumber::ZERO,
            Some(GroupReceipt::Open(receipt)) => receipt.number,
            Some(GroupReceipt::Sealed(sealed)) => sealed.last.number,
        };
        if !self.has_begun {
            self.commit_first(fence, around);
            return;
        }
        if let Some(prepared) = self.store.prepared.take()
            && prepared.number == number
        {
            self.store.committed = prepared;
        }
        self.run(fence, around);
    }

    fn commit_first(&mut self, fence: u64, around: &mut Around<'_>) {
        let lands = around.now + around.rng.random_range(0..3);
        let sent = around.coordinator.send(
            lands,
            Commit {
                id: self.store.partition,
                fence,
                offset: self.store.committed.next,
                receipt: self.store.committed.receipt.to_string(),
                delta: self.delta(),
            },
        );
        self.has_begun = true;
        self.state = State::Beginning { fence, sent };
    }

    /// Decides over what was prepared by the receipt found.
    pub(crate) fn settle_prepared(&mut self, found: Option<(GroupReceipt, i64)>) {
        let Some(prepared) = self.store.prepared.take() else {
            return;
        };
        let at = |number: i64| Offset::try_from(number).unwrap();
        if found.is_some_and(|(found, offset)| {
            seal::prepared_counts(found, at(offset), &prepared.receipt, at(prepared.next))
        }) {
            self.store.committed = prepared;
        }
    }

    fn run(&mut self, fence: u64, around: &mut Around<'_>) {
        let stored = self.store.committed.stored();
        let now = Moment(around.now);
        self.state = State::Running(Box::new(Running {
            reading: Reading::resume(stored, OUT_OF_ORDERNESS, WAITS, now),
            panes: self.store.committed.panes.clone(),
            delta: self.delta(),
            fence,
            committing: None,
            commits_at: around.now + around.rng.random_range(1..8),
            asked: Vec::new(),
            drains: false,
        }));
    }

    fn running(&mut self, around: &mut Around<'_>) {
        let slow = self.slow && around.faults;
        let State::Running(running) = &mut self.state else {
            return;
        };
        if let Some(sent) = running.committing {
            match around.coordinator.answer(sent) {
                Answer::Pending => return,
                Answer::Fenced => {
                    self.fall(around);
                    return;
                }
                Answer::Committed => {
                    self.store.committed = self.store.prepared.take().unwrap();
                    running.committing = None;
                    if running.drains {
                        self.state = State::Ended;
                        return;
                    }
                }
            }
        }
        let is_deaf = around.faults && around.now < self.deaf_until;
        let arrived = |(at, _): &mut (i64, Order)| !is_deaf && *at <= around.now;
        for (_, order) in self.mail.extract_if(.., arrived) {
            running.obey(order);
        }
        if !running.drains {
            running.ask(around);
            if !slow || around.rng.random_bool(0.3) {
                running.read(around);
            }
            running.close(around);
            running.reading.settle();
        }
        if running.drains || running.commits_at <= around.now {
            let number = self.store.committed.number.next();
            let snapshot = Snapshot::of(
                running.reading.stored(),
                &running.panes,
                self.store.epoch,
                number,
            );
            let (count, generation) = (running.delta.count, running.delta.generation);
            let fresh = Delta {
                count,
                generation,
                ..Delta::default()
            };
            let commit = Commit {
                id: self.store.partition,
                fence: running.fence,
                offset: snapshot.next,
                receipt: snapshot.receipt.to_string(),
                delta: std::mem::replace(&mut running.delta, fresh),
            };
            self.store.prepared = Some(snapshot);
            running.commits_at = around.now + around.rng.random_range(3..9);
            running.committing = Some(
                around
                    .coordinator
                    .send(around.now + around.rng.random_range(0..3), commit),
            );
        }
    }
}
