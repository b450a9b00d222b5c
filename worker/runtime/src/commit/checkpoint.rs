//! Checkpoints: copies of what was saved, made on the side.

use std::time::{Duration, Instant};

use turbine_crds::control::{LastCheckpoint, TaskCheckpoint};
use turbine_protocol::{EntryNumber, Fault as _};
use turbine_state::checkpoint::{CheckpointError, Saved, Saving};

use crate::control::status::Step;
use crate::task::{Life, StopSignal};

/// The last checkpoint is waited for in slices, so that the wait shows as alive.
const SLICE: Duration = Duration::from_millis(500);

/// The checkpoints that a life makes.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    under_way: Option<Saving>,
    /// Up to where the newest one reaches that is made or under way; 0 after one that failed.
    number: EntryNumber,
    /// When the last one was begun.
    begun: Duration,
    started: Duration,
}

impl Checkpoints {
    /// The first one is due an interval after `at`.
    pub(crate) fn begin(at: Duration) -> Self {
        Self {
            under_way: None,
            number: EntryNumber::ZERO,
            begun: at,
            started: at,
        }
    }
}

impl Life<'_> {
    /// Begins a checkpoint of what was saved, if it is time and none is under way. One that fails is tried again after the
    /// interval; it never stops the task, whose state lies on its volume.
    pub(crate) fn checkpoint_if_due(&mut self) {
        if let Some(outcome) = self.checkpoints.under_way.as_ref().and_then(Saving::poll) {
            self.checkpoint_ended(outcome);
        }
        let age = self
            .setup
            .clock
            .monotonic()
            .saturating_sub(self.checkpoints.begun);
        let due = age >= self.setup.checkpoint_interval
            && self.checkpoints.number != self.saved.number
            && self.checkpoints.under_way.is_none();
        if due {
            self.begin_checkpoint();
        }
    }

    fn begin_checkpoint(&mut self) {
        self.checkpoints.begun = self.setup.clock.monotonic();
        let checkpointer = &self.setup.checkpointer;
        match self
            .store
            .snapshot(checkpointer, self.setup.clock.wall_ms())
        {
            Ok((snapshot, meta)) => {
                self.checkpoints.number = meta.progress.number;
                self.checkpoints.under_way = Some(checkpointer.save(snapshot, meta));
            }
            Err(error) => self.checkpoint_ended(Err(error.into())),
        }
    }

    fn checkpoint_ended(&mut self, outcome: Result<Saved, CheckpointError>) {
        self.checkpoints.under_way = None;
        match outcome {
            Ok(saved) => tracing::debug!(
                task = %self.cell.task(), number = %saved.manifest.sequence,
                bytes = saved.manifest.bytes(), new_bytes = saved.new_bytes, "checkpoint made"
            ),
            Err(error) => {
                self.checkpoints.number = EntryNumber::ZERO;
                self.metrics.checkpoint_failures.inc();
                tracing::warn!(
                    task = %self.cell.task(), %error, category = %error.category(),
                    reason = error.reason(), "no checkpoint was made; it is tried again"
                );
            }
        }
    }

    /// The checkpoint of a task that stops, as far as it is done in the time that it has for that. What it would have held lies
    /// on the volume in any case.
    pub(crate) fn last_checkpoint(&mut self, stop: &StopSignal) {
        // The rest is for whoever waits for the task.
        let patience = self.setup.stop_patience / 4 * 3;
        let until = stop.given_at().unwrap_or_else(Instant::now) + patience;
        self.await_checkpoint(until);
        if self.checkpoints.number != self.saved.number && self.checkpoints.under_way.is_none() {
            self.begin_checkpoint();
            self.await_checkpoint(until);
        }
        if self.checkpoints.under_way.is_some() {
            tracing::warn!(
                task = %self.cell.task(),
                "the last checkpoint was not made in time; the volume has everything"
            );
        }
    }

    fn await_checkpoint(&mut self, until: Instant) {
        while let Some(saving) = &self.checkpoints.under_way {
            let left = until.saturating_duration_since(Instant::now());
            self.cell.enter(Step::Checkpointing);
            match saving.wait_for(left.min(SLICE)) {
                Some(outcome) => self.checkpoint_ended(outcome),
                None if left.is_zero() => return,
                None => {}
            }
        }
    }

    /// Shows how the checkpoints stand.
    pub(crate) fn publish_checkpoint(&self) {
        let level = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let status = self.setup.checkpointer.status(self.store.identity());
        let age = match &status.last {
            Some(last) => {
                self.metrics
                    .checkpoint_number
                    .set(level(last.sequence.get()));
                self.metrics.checkpoint_bytes.set(level(last.bytes));
                last.age(self.setup.clock.wall_ms())
            }
            None => self
                .setup
                .clock
                .monotonic()
                .saturating_sub(self.checkpoints.started),
        };
        self.metrics.checkpoint_age.set(level(age.as_secs()));
        self.metrics
            .checkpoint_failing
            .set(i64::from(status.error.is_some()));
        let shown = TaskCheckpoint {
            last: status.last.map(|last| LastCheckpoint {
                number: last.sequence.get(),
                made_at_ms: last.made_at_ms,
                bytes: last.bytes,
            }),
            error: status.error.map(|error| error.to_string()),
        };
        self.cell.update(|status| status.checkpoint = Some(shown));
    }
}
