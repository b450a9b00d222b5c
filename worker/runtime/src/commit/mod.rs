//! The commit of a task: each act of the protocol's machines, in its order.

mod checkpoint;
mod transaction;

use std::ops::Range;
use std::time::{Duration, Instant};

use turbine_engine::KeyRange;
use turbine_kafka::KafkaError;
use turbine_protocol::commit::{CommitAct, CommitEvent, CommitStep};
use turbine_protocol::{
    Change, CommittedReceipt, Entry, EntryChecksum, EntryNumber, Fault, Frontier, Position,
};
use turbine_state::fault::{self, FaultPoint};
use turbine_state::{StateError, TaskState};

pub(crate) use self::checkpoint::Checkpoints;
use crate::control::metrics::Level;
use crate::control::status::Step;
use crate::task::{LINK_PATIENCE, Life, StopSignal, TaskError, receipt_of, stored};

/// Acknowledgements are waited for in slices, so that the wait shows as alive.
const FLUSH_SLICE: Duration = Duration::from_secs(1);
/// Wait before an offset commit is tried again.
const OFFSET_RETRY: Duration = Duration::from_millis(500);
/// How often an offset that does not move is committed anew: the broker forgets offsets of groups
/// without members after 7 days.
pub(crate) const RENEW_RECEIPT: Duration = Duration::from_hours(24);
/// Wait before that is tried again.
const RENEW_AGAIN: Duration = Duration::from_mins(1);

/// The last save.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saved {
    pub(crate) number: EntryNumber,
    pub(crate) at: Duration,
}

impl Life<'_> {
    /// Commits everything folded so far.
    ///
    /// # Errors
    /// If outputs are lost or state cannot be written: then this life is over, and the next one
    /// starts from the last commit. An offset that the broker does not take is tried again until
    /// the task is told to stop: what counts at the next start is the store's own.
    pub(crate) fn commit(&mut self, stop: &StopSignal) -> Result<(), TaskError> {
        let started = Instant::now();
        match self.transactions.take() {
            None => self.commit_at_least_once(stop)?,
            Some(transactions) => {
                let committed = self.commit_exactly_once(&transactions, stop);
                self.transactions = Some(transactions);
                committed?;
            }
        }
        self.open = None;
        self.folded_bytes = 0;
        self.handed_out = 0;
        self.metrics.commit.observe(started.elapsed().as_secs_f64());
        Ok(())
    }

    fn commit_at_least_once(&mut self, stop: &StopSignal) -> Result<(), TaskError> {
        let mut step = CommitStep::Open;
        let mut failed = None;
        loop {
            let event = match step.act() {
                CommitAct::FlushOutputs => outcome(
                    self.flush(),
                    &mut failed,
                    CommitEvent::OutputsAcked,
                    CommitEvent::OutputsFailed,
                ),
                CommitAct::SyncState => outcome(
                    self.sync(),
                    &mut failed,
                    CommitEvent::StateSynced,
                    CommitEvent::StateFailed,
                ),
                CommitAct::CommitOffset => match self.commit_offset() {
                    Ok(()) => {
                        fault::pass(FaultPoint::AfterOffsetsSent);
                        CommitEvent::OffsetCommitted
                    }
                    Err(error) if stop.wait(OFFSET_RETRY) => {
                        tracing::warn!(
                            task = %self.cell.task(), %error,
                            "stopped with the group's offset behind the state; the state counts"
                        );
                        break;
                    }
                    Err(error) => {
                        let halt = error.halt();
                        self.cell.update(|status| status.halt = Some(halt));
                        CommitEvent::OffsetFailed
                    }
                },
                CommitAct::Done => {
                    fault::pass(FaultPoint::AfterCommit);
                    break;
                }
                CommitAct::Rebuild => {
                    return Err(failed.unwrap_or_else(|| TaskError::Panicked {
                        message: "a commit failed without a fault".to_owned(),
                    }));
                }
            };
            step = step.after(event)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TaskError> {
        self.cell.enter(Step::Acknowledging);
        let started = Instant::now();
        loop {
            match self.producer.flush_acked(Instant::now() + FLUSH_SLICE) {
                Ok(()) => {
                    self.pass_produced();
                    return Ok(());
                }
                // The producer itself gives a record up after its own time-out, so this ends.
                Err(late @ KafkaError::TimedOut { .. }) => {
                    self.cell.enter(Step::Acknowledging);
                    if started.elapsed() >= LINK_PATIENCE {
                        let halt = TaskError::from(late).halt();
                        self.cell.update(|status| status.halt = Some(halt));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Without results it is no point of its own.
    fn pass_produced(&self) {
        if self.handed_out > 0 {
            fault::pass(FaultPoint::AfterProduce);
        }
    }

    fn sync(&mut self) -> Result<(), TaskError> {
        self.write(|store, entry| store.commit(entry))
    }

    /// Gives the store the entry of the interval that ends here.
    fn write(
        &mut self,
        how: impl FnOnce(&mut dyn TaskState, &Entry<'_>) -> Result<EntryChecksum, StateError>,
    ) -> Result<(), TaskError> {
        self.cell.enter(Step::Writing);
        let changes = self.pipeline.take_changes();
        let clocks = self.pipeline.clocks();
        let stored_clocks = stored(&clocks)?;
        let changes: Vec<Change<'_>> = changes
            .iter()
            .map(|change| Change {
                key: change.key,
                value: Some(change.value),
            })
            .collect();
        let task = &self.setup.plan.task;
        let position = Position {
            topic: self.topic.clone(),
            partition: task.partition,
            next: self.position,
        };
        let number = self.store.progress().number.next();
        let entry = Entry {
            task,
            store_epoch: self.setup.plan.store_epoch,
            number,
            positions: &[position],
            frontier: Frontier(clocks.frontier),
            clocks: &stored_clocks,
            changes: &changes,
        };
        how(&mut *self.store, &entry)?;
        self.metrics.state_ops.inc_by(changes.len() as u64);
        Ok(())
    }

    /// Takes what was committed into the store's own files, so that a start need not read it from
    /// the journal. Call it only when everything is committed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn save(&mut self) -> Result<(), TaskError> {
        self.cell.enter(Step::Writing);
        let started = Instant::now();
        let store = &mut self.store;
        self.pipeline.save_unsaved(|dead, panes| {
            store.save_each(&ranges(dead), &mut |take| panes.try_for_each(&mut *take))
        })?;
        self.saved = Saved {
            number: self.store.progress().number,
            at: self.setup.clock.monotonic(),
        };
        self.metrics.save.observe(started.elapsed().as_secs_f64());
        let sizes = self.store.sizes();
        let set = |level: &Level, bytes: u64| {
            level.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        };
        set(&self.metrics.state_files, sizes.files);
        set(&self.metrics.state_memtables, sizes.memtables);
        set(&self.metrics.state_compaction, sizes.pending_compaction);
        set(&self.metrics.state_journal, sizes.journal);
        Ok(())
    }

    /// As [`Self::save`], if it is time: a crash reads from the journal what was committed since,
    /// and the journal is kept for as long.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub(crate) fn save_if_due(&mut self) -> Result<(), TaskError> {
        if self.open.is_some() || self.saved.number == self.store.progress().number {
            return Ok(());
        }
        let age = self.setup.clock.monotonic().saturating_sub(self.saved.at);
        if age >= self.setup.checkpoint_interval || self.store.wants_saved() {
            self.save()?;
        }
        Ok(())
    }

    fn commit_offset(&mut self) -> Result<(), TaskError> {
        self.cell.enter(Step::Committing);
        let receipt = receipt_of(self.store.progress(), self.store.identity())?;
        let committed = CommittedReceipt {
            offset: self.position,
            receipt,
        };
        self.reader
            .commit(&committed, self.setup.limits.broker_wait)?;
        self.offset_committed = self.setup.clock.monotonic();
        Ok(())
    }

    /// Commits the last receipt anew, so that the broker does not forget it while nothing moves.
    ///
    /// # Errors
    /// Exactly once, if it cannot be: the transaction is then in no state to go on.
    pub(crate) fn renew_receipt(&mut self) -> Result<(), TaskError> {
        // The receipt stands for the store's position, which markers may have left behind.
        let own = self.setup.plan.task.partition;
        let stored = self
            .store
            .progress()
            .positions
            .iter()
            .find(|at| at.partition == own);
        let Some(offset) = stored.map(|at| at.next) else {
            return Ok(());
        };
        let receipt = receipt_of(self.store.progress(), self.store.identity())?;
        let last = CommittedReceipt { offset, receipt };
        if let Some(transactions) = &self.transactions {
            self.renew_by_transaction(transactions, &last)?;
            self.offset_committed = self.setup.clock.monotonic();
            return Ok(());
        }
        match self.reader.commit(&last, self.setup.limits.broker_wait) {
            Ok(()) => self.offset_committed = self.setup.clock.monotonic(),
            Err(error) => {
                tracing::warn!(
                    task = %self.cell.task(), %error, category = %error.category(),
                    "the group's offset could not be renewed; the state's own offset counts"
                );
                let now = self.setup.clock.monotonic();
                let early = RENEW_RECEIPT.saturating_sub(RENEW_AGAIN);
                self.offset_committed = now.saturating_sub(early);
            }
        }
        Ok(())
    }
}

/// The ranges of keys that hold nothing any more.
pub(crate) fn ranges(dead: &[KeyRange]) -> Vec<Range<&[u8]>> {
    dead.iter()
        .map(|range| &range.from[..]..&range.to[..])
        .collect()
}

fn outcome<E>(result: Result<(), TaskError>, failed: &mut Option<TaskError>, good: E, bad: E) -> E {
    match result {
        Ok(()) => good,
        Err(error) => {
            *failed = Some(error);
            bad
        }
    }
}
