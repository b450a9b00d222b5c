//! A task at work: it asks, reads, and closes windows.

use rand::Rng;
use turbine_protocol::Offset;
use turbine_protocol::rescale::{
    CountFound, Cursor, CursorKind, Ends, Growth, Layout, Millis, Moment, Open, Question, Reading,
    RecordKey, Row, Stop, Taken,
};

use super::{Around, Order, offset};
use crate::check::Violation;
use crate::log::Log;
use crate::scenario::{Broken, Scenario, WAITS};
use crate::store::{Delta, Panes, partition, window_end, window_of};

const IDLE_TIMEOUT: Millis = Millis(20);
const CATCH_UP: usize = 50;

#[derive(Debug)]
pub(super) struct Asked {
    question: Question,
    taken_at: i64,
    answered_at: i64,
    ends: Option<Ends>,
    count: u32,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) reading: Reading,
    pub(super) panes: Panes,
    pub(super) delta: Delta,
    pub(super) fence: u64,
    pub(super) committing: Option<u64>,
    pub(super) commits_at: i64,
    pub(super) asked: Vec<Asked>,
    pub(super) drains: bool,
}

fn index(offset: Offset) -> usize {
    usize::try_from(offset.get()).unwrap()
}

impl Running {
    pub(super) fn obey(&mut self, order: Order) {
        // What comes late or twice is refused by the reading itself.
        let _answer = match order {
            Order::Announce(epoch, growth) => self.reading.announce(epoch, growth).is_ok(),
            Order::Undo(epoch) => self.reading.undo(epoch).is_ok(),
            Order::Drain => {
                self.drains = true;
                true
            }
            Order::Propose(proposal) => self.reading.propose(&proposal),
            Order::Close(epoch, old, end) => {
                self.reading.close(epoch, partition(old), end);
                true
            }
        };
    }

    pub(super) fn ask(&mut self, around: &mut Around<'_>) {
        let now = around.now;
        if self.asked.len() < 3 && around.rng.random_bool(0.4) {
            let taken_at = now + around.rng.random_range(0..5);
            self.asked.push(Asked {
                question: self.reading.ask(Moment(now)),
                taken_at,
                answered_at: taken_at + around.rng.random_range(0..5),
                ends: None,
                count: 0,
            });
        }
        for asked in &mut self.asked {
            if asked.ends.is_none() && asked.taken_at <= now {
                let of_stable = around.scenario.breaks(Broken::LastStableOffset);
                let end = |log: &Log| if of_stable { log.stable() } else { log.high() };
                let read = self
                    .reading
                    .stored()
                    .cursors()
                    .iter()
                    .map(Cursor::partition);
                let ends =
                    read.map(|read| (read, offset(end(&around.logs[read.index() as usize]))));
                asked.ends = Some(ends.collect());
                asked.count = around
                    .metadata
                    .count(around.rng.random_range(0..around.metadata.brokers()), now);
            }
        }
        let answered: Vec<Asked> = self
            .asked
            .extract_if(.., |asked| asked.answered_at <= now)
            .collect();
        for asked in answered {
            let ends = asked.ends.unwrap();
            let grace = i64::try_from(WAITS.order_grace.0).unwrap();
            let by_ends = if around.scenario.breaks(Broken::VouchAtAnswer) {
                self.reading.ask(Moment(now + grace))
            } else {
                asked.question
            };
            self.reading.vouch_by_ends(&by_ends, &ends);
            self.reading
                .gate_by_ends(&asked.question, Moment(now), &ends);
            let count = asked.count.try_into().unwrap();
            if let CountFound::Grown(count) = self.reading.count_answered(&asked.question, count) {
                self.found(count.get());
            }
        }
    }

    fn found(&mut self, count: u32) {
        if let Layout::Steady { count: known, .. } = self.reading.stored().layout()
            && count > known.get()
        {
            let growth = Growth::new(known, count.try_into().unwrap()).unwrap();
            self.reading.found(growth).unwrap();
        }
    }

    fn opened(&mut self, scenario: &Scenario) -> Vec<Open> {
        if !scenario.breaks(Broken::NoGate) {
            return self.reading.open();
        }
        let cursors = self.reading.stored().cursors().to_vec();
        let kept = cursors[0].next();
        let is_moved_in = |at: usize| cursors[at].kind() == CursorKind::MovedIn;
        let mut open = self.reading.open();
        open.retain(|open| !is_moved_in(open.cursor));
        open.extend(
            (0..cursors.len())
                .filter(|at| is_moved_in(*at))
                .map(|at| Open {
                    cursor: at,
                    partition: cursors[at].partition(),
                    next: cursors[at].next(),
                    until: Some(kept),
                }),
        );
        open
    }

    pub(super) fn read(&mut self, around: &mut Around<'_>) {
        for open in self.opened(around.scenario) {
            if around.faults && around.rng.random_bool(0.3) {
                continue;
            }
            let own = open.partition.index();
            let log = &around.logs[own as usize];
            let kind = self.reading.stored().cursors()[open.cursor].kind();
            let buffer = around
                .buffers
                .get(&own)
                .filter(|_| kind != CursorKind::MovedIn);
            let until = open
                .until
                .map(index)
                .into_iter()
                .chain(buffer.copied())
                .min();
            let until = until.map_or(log.stable(), |until| until.min(log.stable()));
            // Under faults a task falls behind its producers; afterwards it reads faster than they write.
            let budget = if around.faults {
                around.scenario.reads
            } else {
                CATCH_UP
            };
            for at in (index(open.next)..until).take(budget) {
                let Some(record) = log.committed(at) else {
                    self.reading.pass(open.cursor, offset(at + 1));
                    continue;
                };
                let row = Row {
                    offset: offset(at),
                    key: record.key,
                    event_time: record.event_time,
                };
                match self.reading.take(open.cursor, &row, Moment(around.now)) {
                    Ok(Taken::Leave) => {}
                    Ok(Taken::Apply { line }) => {
                        let window = window_of(record.event_time);
                        let late = line.0.is_some_and(|line| window_end(window) <= line);
                        self.delta.applied.push((record.id, late));
                        if !late {
                            let pane = match record.key {
                                RecordKey::Null => (record.key, Some(own)),
                                RecordKey::Hash(_) => (record.key, None),
                            };
                            self.panes
                                .entry((pane, window))
                                .or_default()
                                .push(record.id);
                        }
                    }
                    Err(stop) => {
                        self.stopped(stop, around);
                        break;
                    }
                }
            }
        }
    }

    fn stopped(&mut self, stop: Stop, around: &mut Around<'_>) {
        match (stop, self.reading.stored().layout()) {
            (Stop::Unexplained { .. }, Layout::Steady { .. }) => {
                let broker = around.rng.random_range(0..around.metadata.brokers());
                self.found(around.metadata.count(broker, around.now));
            }
            (Stop::EndUndecided { .. }, _) => {}
            // After a second growth no count that is known explains a straggler's records.
            (Stop::ProducerNotRefreshed { .. } | Stop::Unexplained { .. }, _)
                if around.scenario.straggler =>
            {
                *around.blocked = true;
            }
            (
                Stop::ProducerNotRefreshed { .. }
                | Stop::BeforeGrowth { .. }
                | Stop::Unexplained { .. },
                _,
            ) => {
                around.violations.push(Violation::Stopped(stop.to_string()));
            }
        }
    }

    pub(super) fn close(&mut self, around: &Around<'_>) {
        let before = self.reading.stored().frontier();
        let mut frontier = self.reading.advance();
        if around.scenario.coasts {
            frontier = self.reading.coast(IDLE_TIMEOUT);
        }
        let Some(closed) = frontier.0.filter(|_| frontier != before) else {
            return;
        };
        let due = self
            .panes
            .extract_if(.., |(_, window), _| window_end(*window) <= closed);
        self.delta.closed.extend(due);
    }
}
