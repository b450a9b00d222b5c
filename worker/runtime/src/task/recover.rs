//! A store that is older than what was committed exactly once: what it lacks is read again without results, or gone behind.

use turbine_crds::control::{MissingRecords, TaskState as Phase};
use turbine_protocol::start::{Gap, NotRecovered, OlderStore, Settled, StartRefusal};
use turbine_protocol::{Frontier, Offset, Position};
use turbine_state::Progress;

use super::cold::Cold;
use super::error::TaskError;
use super::life::Life;
use super::receipt::{fresh_history, handed_out, stored};
use super::stop::StopSignal;
use crate::commit::{Saved, ranges};
use crate::control::metrics::TaskMetrics;
use crate::control::status::{Step, TaskCell};

/// What has to be done with an older store before the task runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Recovery {
    /// Read again what lies between.
    Replay(OlderStore),
    /// Go on behind it.
    Accept(OlderStore),
}

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovered {
    /// The store agrees with the broker.
    Whole,
    /// The task was told to stop before that. The next start begins again.
    Stopped,
}

/// Says what the state lacks, for as long as the process runs.
pub(super) fn tell_missing(cell: &TaskCell, metrics: &TaskMetrics, gap: Gap) {
    let missing = MissingRecords {
        from: gap.from.get(),
        to: gap.to.get(),
        count: gap.count(),
    };
    metrics
        .missing
        .set(i64::try_from(missing.count).unwrap_or(i64::MAX));
    cell.update(|status| status.missing = Some(missing));
}

impl Life<'_> {
    /// Brings the store to where the broker's receipt stands, if it is older. Nothing is written to the broker meanwhile.
    ///
    /// # Errors
    /// If that is not possible. The store is then as it was, or reaches further and is still older.
    pub(super) fn recover(&mut self, stop: &StopSignal) -> Result<Recovered, TaskError> {
        match self.recovery.take() {
            None => Ok(Recovered::Whole),
            Some(Recovery::Replay(older)) => self.replay(&older, stop),
            Some(Recovery::Accept(older)) => self.accept(&older).map(|()| Recovered::Whole),
        }
    }

    fn replay(&mut self, older: &OlderStore, stop: &StopSignal) -> Result<Recovered, TaskError> {
        let (from, to) = (older.position, older.committed.offset);
        let receipt = older.committed.receipt;
        let Some(retrace) = receipt.retrace else {
            return Err(older.refusal(NotRecovered::NotSaid).into());
        };
        tracing::warn!(
            task = %self.cell.task(), %from, %to, offsets = older.gap(),
            store = %older.number, receipt = %receipt.number,
            "the store is older than what was committed; what lies between is read again, without results"
        );
        let handed_out = handed_out(retrace.closed);
        let due = handed_out.map_or(receipt.frontier.0, |of| of.due);
        self.pipeline.retrace(handed_out);
        self.show_replayed(from, to);
        while self.position < to {
            if stop.given() {
                tracing::info!(
                    task = %self.cell.task(), position = %self.position,
                    "stopped while it was reading again; the next start goes on with that"
                );
                return Ok(Recovered::Stopped);
            }
            self.cell.enter(Step::Replaying);
            let limits = &self.setup.limits;
            let mut batch = self.reader.read(limits.batch_records, limits.poll_wait)?;
            batch.cut_at(to);
            if batch.is_empty() && self.reader.at_end() && self.reader.position() < to {
                return Err(StartRefusal::BeyondEnd {
                    place: "the group's offset",
                    position: to,
                    end: self.reader.position(),
                }
                .into());
            }
            if !batch.is_empty() {
                if !self.take_again(&batch)? {
                    return Err(self.differs(older, retrace.rows));
                }
                self.pipeline.forget_due(due);
                self.metrics.replayed.inc_by(batch.len() as u64);
            }
            self.position = self.reader.position().min(to);
            self.show_replayed(from, to);
            self.spare_memory_between(older)?;
        }
        if self.reader.position() != to {
            self.reader.seek(to, self.setup.limits.broker_wait)?;
        }
        let cold = Cold(&*self.store);
        let same = self.pipeline.clocks().trail.rows == retrace.rows
            && self
                .pipeline
                .catch_up(receipt.frontier.0, handed_out, &cold)?;
        if !same {
            return Err(self.differs(older, retrace.rows));
        }
        self.settle(older.settled())?;
        tracing::info!(task = %self.cell.task(), position = %to, "the store is what was committed");
        self.cell.update(|status| status.restored_percent = None);
        Ok(Recovered::Whole)
    }

    fn differs(&self, older: &OlderStore, rows: u64) -> TaskError {
        let again = self.pipeline.clocks().trail.rows;
        older.refusal(NotRecovered::Differs { rows, again }).into()
    }

    fn show_replayed(&self, from: Offset, to: Offset) {
        let (done, all) = (self.position.since(from), to.since(from));
        let percent = (u128::from(done) * 100).checked_div(u128::from(all));
        let percent = percent.map_or(0, |percent| u8::try_from(percent).unwrap_or(100));
        self.metrics.checkpoint_restored.set(percent.into());
        self.cell.update(|status| {
            status.state = Phase::Restoring;
            status.restored_percent = Some(percent);
        });
    }

    /// What was read again so far is saved, so that it can leave memory. The store says that it is still the older one.
    fn spare_memory_between(&mut self, older: &OlderStore) -> Result<(), TaskError> {
        if self.pipeline.live_bytes() <= self.setup.limits.live_bytes {
            return Ok(());
        }
        let progress = self.store.progress();
        let between = Settled {
            number: older.number,
            checksum: progress.checksum,
            position: self.position,
            by_transaction: progress.by_transaction,
        };
        self.settle(between)?;
        let evicted = self.pipeline.evict(self.setup.limits.live_bytes / 2);
        self.metrics.evicted.inc_by(evicted as u64);
        Ok(())
    }

    fn accept(&mut self, older: &OlderStore) -> Result<(), TaskError> {
        let (from, to) = (older.position, older.committed.offset);
        // A store from before the gap must not be taken for an older one of this.
        self.pipeline.begin_history(fresh_history());
        self.pipeline.skip_to(older.committed.receipt.frontier.0);
        self.settle(older.settled())?;
        tracing::warn!(
            task = %self.cell.task(), %from, %to, offsets = older.gap(),
            store = %older.number, receipt = %older.committed.receipt.number,
            "the store is older than what was committed; the task goes on behind it, and the state of windows that are open \
             lacks the records between (`onCrashRecovery: accept`)"
        );
        tell_missing(self.cell, self.metrics, Gap { from, to });
        Ok(())
    }

    /// The store takes what is folded as one act with where it then stands.
    fn settle(&mut self, at: Settled) -> Result<(), TaskError> {
        self.cell.enter(Step::Writing);
        // They go into the store at once, not by way of the journal.
        drop(self.pipeline.take_changes());
        let unsaved = self.pipeline.take_unsaved();
        let clocks = self.pipeline.clocks();
        let progress = Progress {
            number: at.number,
            checksum: at.checksum,
            positions: vec![Position {
                topic: self.topic.clone(),
                partition: self.setup.plan.task.partition,
                next: at.position,
            }],
            frontier: Frontier(clocks.frontier),
            by_transaction: at.by_transaction,
            cleanly_stopped: false,
            clocks: stored(&clocks)?,
        };
        let mut puts = unsaved.puts.iter().map(|put| (put.key, put.value));
        self.store
            .rebase(&progress, &ranges(&unsaved.dead), &mut puts)?;
        self.saved = Saved {
            number: at.number,
            at: self.setup.clock.monotonic(),
        };
        Ok(())
    }
}
