//! One schedule, tick by tick.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use turbine_protocol::rescale::{Claim, CursorKind, Layout, StoredReading};

use crate::broker::{Coordinator, Metadata};
use crate::check::{self, Violation};
use crate::log::Log;
use crate::operator::Operator;
use crate::producer::{Producer, Sent};
use crate::scenario::{Broken, STALL, Scenario};
use crate::store::{Panes, Store, partition};
use crate::task::{Around, Life, offset};

/// Ticks that a plan may take, faults included, and the end after it.
const PLAN: i64 = 1500;
const END: i64 = 600;
const FAULTS: i64 = 260;
const BUFFER: usize = 2;

pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) scenario: Scenario,
    pub(crate) rng: StdRng,
    pub(crate) logs: Vec<Log>,
    pub(crate) metadata: Metadata,
    pub(crate) coordinator: Coordinator,
    pub(crate) producers: Vec<Producer>,
    pub(crate) lives: BTreeMap<(i64, u32), Life>,
    pub(crate) running_epoch: i64,
    pub(crate) operator: Operator,
    /// The state that is on its way to the new tasks.
    pub(crate) moved: BTreeMap<u32, Store>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) upstream_stopped: bool,
    sent: Sent,
    blocked: bool,
    foreign_at: Option<i64>,
}

/// How a schedule went.
#[derive(Debug)]
pub struct Outcome {
    /// What was drawn.
    pub scenario: Scenario,
    /// What went wrong, the first few of it.
    pub violations: Vec<Violation>,
    /// A producer that was not refreshed in time stopped a task, as it must.
    pub blocked: bool,
    /// How long it took.
    pub ticks: i64,
    /// How many records were written.
    pub records: usize,
}

/// Runs the schedule of a seed.
#[must_use]
pub fn run(seed: u64, broken: Option<Broken>) -> Outcome {
    let mut world = World::new(seed, broken);
    world.run();
    let all = !world.blocked && world.violations.is_empty();
    let mut violations = world.violations;
    violations.extend(check::check(
        &world.logs,
        &world.coordinator.outputs,
        &world.scenario,
        all,
    ));
    violations.truncate(5);
    Outcome {
        violations,
        blocked: world.blocked,
        ticks: world.now,
        records: check::records(&world.logs),
        scenario: world.scenario,
    }
}

impl World {
    fn new(seed: u64, broken: Option<Broken>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let scenario = Scenario::draw(&mut rng, broken);
        let count = scenario.counts[0];
        let producers = (0..scenario.producers)
            .map(|number| Producer::new(number, count, &mut rng))
            .collect();
        let mut lives = BTreeMap::new();
        for task in 0..count {
            let reading =
                StoredReading::steady(partition(task), count.try_into().unwrap(), offset(0));
            let store = Store::new(&reading, &Panes::new(), 1.try_into().unwrap());
            lives.insert((1, task), Life::new(store, count, 0, 0, &mut rng));
        }
        let mut logs = Vec::new();
        logs.resize_with(count as usize, Log::default);
        Self {
            now: 0,
            logs,
            metadata: Metadata::new(count),
            coordinator: Coordinator::default(),
            producers,
            lives,
            running_epoch: 1,
            operator: Operator::new(rng.random_range(20..100), scenario.undone_first),
            moved: BTreeMap::new(),
            violations: Vec::new(),
            upstream_stopped: false,
            sent: Sent::default(),
            blocked: false,
            foreign_at: scenario.foreign.then(|| rng.random_range(10..150)),
            scenario,
            rng,
        }
    }

    fn run(&mut self) {
        let plans = i64::try_from(self.scenario.counts.len()).unwrap() - 1;
        let faults_until = FAULTS * plans;
        while !self.operator.is_done(&self.scenario.counts) {
            self.tick(true, self.now < faults_until);
            if self.now > PLAN * plans && !self.blocked {
                self.violations
                    .push(Violation::NoProgress(self.operator.describe()));
            }
            if !self.violations.is_empty() || (self.blocked && self.now > faults_until + 600) {
                return;
            }
        }
        let sends_until = self.now + 40;
        let end = sends_until + END;
        while self.now < sends_until || !self.is_drained() {
            self.tick(self.now < sends_until, false);
            if self.now > end && !self.blocked {
                self.violations
                    .push(Violation::NoProgress("records are left".to_owned()));
            }
            if !self.violations.is_empty() || self.now > end {
                return;
            }
        }
    }

    fn is_drained(&self) -> bool {
        self.producers.iter().all(Producer::is_quiet)
            && self.logs.iter().all(Log::is_quiet)
            && self
                .lives
                .iter()
                .filter(|((epoch, _), _)| *epoch == self.running_epoch)
                .all(|(_, life)| {
                    let read = &life.store.committed.said;
                    let at_end =
                        |partition: usize, next| offset(self.logs[partition].high()) == next;
                    read.cursors()
                        .iter()
                        .all(|cursor| at_end(cursor.partition().index() as usize, cursor.next()))
                })
    }

    fn tick(&mut self, sends: bool, faults: bool) {
        self.now += 1;
        for log in &mut self.logs {
            if faults && self.rng.random_bool(0.01) {
                log.stall(self.now, self.now + self.rng.random_range(1..=STALL));
            }
        }
        if self.foreign_at.is_some_and(|at| at <= self.now) {
            self.foreign_at = None;
            if self.operator.at == 0 {
                self.grow_topic();
            }
        }
        for producer in &mut self.producers {
            let sends = sends && !self.upstream_stopped;
            producer.tick(
                self.now,
                sends,
                &self.scenario,
                &mut self.logs,
                &mut self.sent,
                &mut self.rng,
            );
        }
        for log in &mut self.logs {
            log.tick(self.now);
        }
        self.coordinator.tick(self.now);
        let buffers = self.buffers();
        for life in self.lives.values_mut() {
            life.tick(&mut Around {
                now: self.now,
                scenario: &self.scenario,
                faults,
                logs: &self.logs,
                coordinator: &mut self.coordinator,
                metadata: &self.metadata,
                rng: &mut self.rng,
                violations: &mut self.violations,
                blocked: &mut self.blocked,
                buffers: &buffers,
            });
        }
        self.operate();
    }

    /// Where the fetch of a partition stops because what moved-in may not take yet fills its buffer.
    fn buffers(&self) -> BTreeMap<u32, usize> {
        let mut limits = BTreeMap::new();
        if !self.scenario.breaks(Broken::Buffers) {
            return limits;
        }
        for life in self.lives.values() {
            let Some(reading) = life.reading() else {
                continue;
            };
            let Layout::Through { growth, .. } = reading.layout() else {
                continue;
            };
            let moved_in = reading
                .cursors()
                .iter()
                .find(|cursor| cursor.kind() == CursorKind::MovedIn)
                .unwrap();
            let own = reading.task();
            let log = &self.logs[own.index() as usize];
            let from = usize::try_from(moved_in.next().get()).unwrap();
            let is_buffered = |at: &usize| {
                let record = log.committed(*at);
                record.is_some_and(|record| growth.claim(record.key, own) == Claim::MovedIn)
            };
            if let Some(full) = (from..log.stable()).filter(is_buffered).nth(BUFFER) {
                limits.insert(own.index(), full);
            }
        }
        limits
    }
}
