//! One life of a task: from its start to its end or its first fault.

use std::cell::Cell;
use std::time::{Duration, Instant};

use turbine_crds::control::TaskState as Phase;
use turbine_engine::{PaneOwners, Pipeline};
use turbine_kafka::{
    KafkaError, OutputBatch, OutputProducer, OutputTopic, PartitionReader, Transactions,
};
use turbine_protocol::start::OnRetentionGap;
use turbine_protocol::{Fault, Offset, TopicName};
use turbine_state::TaskState;

use super::blocked::Blocked;
use super::error::TaskError;
use super::placement::Suspects;
use super::rates::Rates;
use super::recover::{Recovered, Recovery};
use super::setup::TaskSetup;
use super::stop::StopSignal;
use crate::commit::{Checkpoints, RENEW_RECEIPT, Saved};
use crate::control::metrics::TaskMetrics;
use crate::control::status::{Step, TaskCell};
use crate::decode::JsonDecoder;
use crate::sink::ResultEncoder;

/// How long a lost connection may last before the task says so: brokers restart.
pub(crate) const LINK_PATIENCE: Duration = Duration::from_secs(10);

/// The client tries again at least this often while a connection is lost, and reports each failure:
/// older trouble is over.
const LINK_SILENCE: Duration = Duration::from_secs(15);

/// Bytes of a record before one was seen.
const USUAL_RECORD: usize = 1 << 10;

/// How far a life came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Reached {
    /// It has not begun to run.
    #[default]
    Nothing,
    /// It ran. What it did after its last commit is lost.
    Running,
    /// It ran, and has committed all that it did.
    Committed,
}

/// What a life is built of.
pub(super) struct Parts {
    pub(super) topic: TopicName,
    pub(super) reader: PartitionReader,
    pub(super) producer: OutputProducer,
    /// None: at least once.
    pub(super) transactions: Option<Transactions>,
    pub(super) output: OutputTopic,
    pub(super) dead_letters: Option<OutputTopic>,
    pub(super) store: Box<dyn TaskState>,
    /// What has to be done with the store first.
    pub(super) recovery: Option<Recovery>,
    pub(super) pipeline: Pipeline,
    pub(super) owners: PaneOwners,
    pub(super) decoder: JsonDecoder,
    pub(super) encoders: Vec<ResultEncoder>,
    /// Where the log ended when the task started.
    pub(super) log_end: Offset,
}

/// A running task.
pub(crate) struct Life<'a> {
    pub(crate) setup: &'a TaskSetup,
    pub(crate) cell: &'a TaskCell,
    pub(crate) metrics: &'a TaskMetrics,
    pub(crate) topic: TopicName,
    pub(crate) reader: PartitionReader,
    pub(crate) producer: OutputProducer,
    pub(crate) transactions: Option<Transactions>,
    pub(crate) output: OutputTopic,
    pub(crate) dead_letters: Option<OutputTopic>,
    pub(crate) store: Box<dyn TaskState>,
    pub(super) recovery: Option<Recovery>,
    pub(crate) pipeline: Pipeline,
    pub(super) owners: PaneOwners,
    pub(super) suspects: Option<Suspects>,
    pub(crate) decoder: JsonDecoder,
    pub(crate) encoders: Vec<ResultEncoder>,
    pub(crate) results: OutputBatch,
    pub(crate) key: Vec<u8>,
    /// The offset of the record that is folded next.
    pub(crate) position: Offset,
    /// What is folded and not committed.
    pub(crate) open: Option<Interval>,
    /// Bytes of the records that were folded since the last commit.
    pub(crate) folded_bytes: usize,
    /// Bytes of a record, as the last batch had them.
    record_bytes: usize,
    /// Results since the last commit.
    pub(crate) handed_out: u64,
    /// Records of this life that could not be used.
    pub(crate) bad_records: u64,
    pub(super) rates: Rates,
    pub(crate) offset_committed: Duration,
    pub(crate) saved: Saved,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) bad_logged: Option<Duration>,
    pub(super) log_end: Offset,
    idle_since: Option<Duration>,
    pub(super) link_lost: Option<Instant>,
    pub(super) blocked: Blocked,
}

/// What was done since the last commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    since: Duration,
    records: u64,
}

impl<'a> Life<'a> {
    pub(super) fn new(
        setup: &'a TaskSetup,
        cell: &'a TaskCell,
        metrics: &'a TaskMetrics,
        parts: Parts,
    ) -> Self {
        // Tasks that start together do not save together.
        let partition = u32::try_from(setup.plan.task.partition.get()).unwrap_or_default();
        let ahead = setup.checkpoint_interval / 16 * (partition % 16);
        let saved = Saved {
            number: parts.store.progress().number,
            at: setup.clock.monotonic().saturating_sub(ahead),
        };
        Self {
            position: parts.reader.position(),
            setup,
            cell,
            metrics,
            topic: parts.topic,
            reader: parts.reader,
            producer: parts.producer,
            transactions: parts.transactions,
            output: parts.output,
            dead_letters: parts.dead_letters,
            store: parts.store,
            recovery: parts.recovery,
            pipeline: parts.pipeline,
            owners: parts.owners,
            suspects: None,
            decoder: parts.decoder,
            encoders: parts.encoders,
            results: OutputBatch::new(),
            key: Vec::new(),
            open: None,
            folded_bytes: 0,
            record_bytes: USUAL_RECORD,
            handed_out: 0,
            bad_records: 0,
            rates: Rates::new(),
            offset_committed: setup.clock.monotonic(),
            saved,
            checkpoints: Checkpoints::begin(saved.at),
            bad_logged: None,
            log_end: parts.log_end,
            idle_since: None,
            link_lost: None,
            blocked: Blocked::default(),
        }
    }

    /// Reads, folds and commits until told to stop; then commits once more and lets go. `reached` says how far it came.
    ///
    /// # Errors
    /// The first fault. What was not committed is done again by the next life.
    pub(super) fn run(
        mut self,
        stop: &StopSignal,
        reached: &Cell<Reached>,
    ) -> Result<(), TaskError> {
        match self.recover(stop) {
            Ok(Recovered::Whole) => {}
            // As if it had not begun.
            Ok(Recovered::Stopped) => return Ok(()),
            // The store is still the older one, whatever the fault is: its receipt must not become the last one.
            Err(error) => return Err(error),
        }
        reached.set(Reached::Running);
        match self.go_on(stop) {
            Ok(()) => {
                reached.set(Reached::Committed);
                Ok(self.store.close()?)
            }
            Err(error) if error.leaves_state_in_order() && self.open.is_none() => {
                reached.set(Reached::Committed);
                Err(self.stop_in_order(error))
            }
            Err(error) => {
                self.give_up_transaction();
                Err(error)
            }
        }
    }

    /// Everything in front of the fault is committed. The task may stand here for longer than the broker keeps offsets, as one
    /// that was told to stop; so it ends as that one does.
    fn stop_in_order(mut self, why: TaskError) -> TaskError {
        let ended = self.renew_receipt().and_then(|()| self.save());
        self.give_up_transaction();
        match ended.and_then(|()| Ok(self.store.close()?)) {
            Ok(()) => why,
            Err(error) if error.ends_process() => error,
            Err(error) => {
                tracing::warn!(
                    task = %self.cell.task(), %error, category = %error.category(), reason = error.reason(),
                    "the task halts without a last receipt: if it stands for longer than the broker keeps offsets, its next start asks what became of them"
                );
                why
            }
        }
    }

    fn go_on(&mut self, stop: &StopSignal) -> Result<(), TaskError> {
        stop.arm(self.producer.abandon_handle());
        self.cell.set_state(Phase::Running, None);
        self.metrics.running.set(1);
        self.publish();
        // The rest of a close that was committed in parts comes out before anything else closes.
        self.hand_out(stop)?;
        while !stop.given() {
            self.cell.enter(Step::Reading);
            let asked = Instant::now();
            let read = self.reader.read(self.batch_records(), self.wait());
            self.metrics.poll.observe(asked.elapsed().as_secs_f64());
            let batch = match read {
                Ok(batch) => batch,
                Err(error) => return Err(self.leave_reading(error, stop)),
            };
            if batch.is_empty() {
                self.tick(stop)?;
            } else {
                self.idle_since = None;
                self.record_bytes = (batch.bytes() / batch.len()).max(1);
                self.cell.enter(Step::Processing);
                let started = Instant::now();
                let stopped_at = self.take(&batch)?;
                drop(batch);
                if let Some(bad) = stopped_at {
                    self.hand_out_known(stop)?;
                    if self.open.is_some() {
                        self.commit(stop)?;
                    }
                    self.publish();
                    return Err(bad);
                }
                self.hand_out(stop)?;
                self.metrics.batch.observe(started.elapsed().as_secs_f64());
            }
            if self.commit_due() {
                self.look_for_growth()?;
                self.commit(stop)?;
            }
            self.spare_memory()?;
            self.save_if_due()?;
            self.checkpoint_if_due();
            self.publish();
            self.answer_asks(stop)?;
        }
        if self.open.is_some() {
            self.commit(stop)?;
        } else {
            self.renew_receipt()?;
        }
        self.save()?;
        self.last_checkpoint(stop);
        self.publish();
        Ok(())
    }

    /// Records that are taken at once. Large ones may follow small ones; then one batch is as large as the queue allows.
    fn batch_records(&self) -> usize {
        let limits = &self.setup.limits;
        (limits.batch_bytes / self.record_bytes).clamp(1, limits.batch_records.max(1))
    }

    /// Something was folded that has to be committed.
    pub(crate) fn touched(&mut self, records: usize) {
        let now = self.setup.clock.monotonic();
        let open = self.open.get_or_insert(Interval {
            since: now,
            records: 0,
        });
        open.records += records as u64;
    }

    fn commit_interval(&self) -> Duration {
        Duration::from_millis(self.setup.subscription.commit_interval_ms)
    }

    fn wait(&self) -> Duration {
        let longest = self.setup.limits.poll_wait;
        self.open.map_or(longest, |open| {
            let due = open.since + self.commit_interval();
            due.saturating_sub(self.setup.clock.monotonic())
                .min(longest)
        })
    }

    fn commit_due(&self) -> bool {
        self.open.is_some_and(|open| {
            let age = self.setup.clock.monotonic().saturating_sub(open.since);
            age >= self.commit_interval()
                || open.records >= self.setup.limits.commit_records
                || self.folded_bytes >= self.setup.limits.commit_bytes
                || self.memory_is_full()
        })
    }

    fn memory_is_full(&self) -> bool {
        self.pipeline.live_bytes() > self.setup.limits.live_bytes
    }

    /// Makes room: panes that the store has leave memory. All of them are saved first, so that the
    /// next save comes only after much has changed again.
    fn spare_memory(&mut self) -> Result<(), TaskError> {
        if self.open.is_some() || !self.memory_is_full() {
            return Ok(());
        }
        self.save()?;
        let evicted = self.pipeline.evict(self.setup.limits.live_bytes / 2);
        self.metrics.evicted.inc_by(evicted as u64);
        Ok(())
    }

    fn watch_link(&mut self) {
        match self.reader.link() {
            Some(link) if link.at.elapsed() < LINK_SILENCE => {
                self.link_lost.get_or_insert(link.at);
            }
            _ => self.link_lost = None,
        }
    }

    /// Nothing was read: at the end of the log time goes on by itself, elsewhere it waits.
    fn tick(&mut self, stop: &StopSignal) -> Result<(), TaskError> {
        let now = self.setup.clock.monotonic();
        self.watch_link();
        // Slow is not idle, nor is cut off: only a task that could read and has read everything
        // stands at the end.
        let idle = if self.reader.at_end() && self.link_lost.is_none() {
            now.saturating_sub(*self.idle_since.get_or_insert(now))
        } else {
            self.idle_since = None;
            Duration::ZERO
        };
        self.pipeline
            .on_idle(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
        self.hand_out(stop)?;
        if self.open.is_none() {
            self.look_for_growth()?;
            // Markers of transactions move the position without a record.
            self.position = self.reader.position();
            if now.saturating_sub(self.offset_committed) >= RENEW_RECEIPT {
                self.renew_receipt()?;
            }
        }
        Ok(())
    }

    /// The input cannot be read on; what was folded of it stands.
    fn leave_reading(&mut self, error: KafkaError, stop: &StopSignal) -> TaskError {
        if self.open.is_some()
            && let Err(second) = self.commit(stop)
        {
            tracing::error!(
                task = %self.cell.task(), error = %second, category = %second.category(),
                "the last commit failed as well; it is done again from the last one that held"
            );
            if second.ends_process() {
                return second;
            }
        }
        let outside = matches!(error, KafkaError::OffsetOutOfRange { .. });
        match self.setup.on_retention_gap() {
            OnRetentionGap::Accept if outside => self.outrun(error),
            OnRetentionGap::Accept | OnRetentionGap::Stop => error.into(),
        }
    }

    /// Retention took what comes next. A log that ends before it was cut off at its end: nobody has accepted that.
    fn outrun(&self, error: KafkaError) -> TaskError {
        let partition = self.setup.plan.task.partition;
        let wait = self.setup.limits.broker_wait;
        match self.setup.admin.watermarks(&self.topic, partition, wait) {
            Ok(log) if log.start() > self.position => TaskError::Outrun(error),
            Ok(_) => error.into(),
            Err(unanswered) => unanswered.into(),
        }
    }
}
