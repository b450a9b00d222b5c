//! What is known of the tasks at every moment: written by their threads once per batch, read by
//! the control API.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turbine_crds::control::{TaskHalt, TaskPlacement, TaskState, TaskStatus, Verdict};
use turbine_protocol::Task;

use crate::clock::Clock;

/// What a task is doing, for whoever has to find out where it hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Step {
    /// Asking broker and volume where to begin.
    #[strum(serialize = "starting")]
    Starting,
    /// Waiting for records.
    #[strum(serialize = "reading")]
    Reading,
    /// Decoding and folding a batch.
    #[strum(serialize = "processing")]
    Processing,
    /// Waiting until outputs are acknowledged.
    #[strum(serialize = "waiting for acknowledgements")]
    Acknowledging,
    /// Writing state.
    #[strum(serialize = "writing state")]
    Writing,
    /// Committing the group's offset.
    #[strum(serialize = "committing offsets")]
    Committing,
    /// Bringing back a checkpoint.
    #[strum(serialize = "restoring a checkpoint")]
    Restoring,
    /// Reading again what an older store lacks.
    #[strum(serialize = "reading again what the store lacks")]
    Replaying,
    /// Waiting until the last checkpoint is there.
    #[strum(serialize = "waiting for the last checkpoint")]
    Checkpointing,
    /// Looking through the store for keys of other partitions.
    #[strum(serialize = "looking through the store")]
    Looking,
    /// Waiting before the next try.
    #[strum(serialize = "waiting before the next try")]
    Waiting,
    /// Over.
    #[strum(serialize = "ended")]
    Ended,
}

/// Somebody asks a task to look through its store.
#[derive(Debug)]
pub struct Ask {
    /// The verdict stays.
    pub dry_run: bool,
    /// Where the answer goes. Dropped without one if the task's life ends before.
    pub answer: Sender<TaskPlacement>,
}

#[derive(Debug)]
struct Inner {
    status: TaskStatus,
    step: Step,
    moved: Duration,
}

/// One task's state, shared between its thread and the control API.
#[derive(Debug)]
pub struct TaskCell {
    task: Task,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    asks: Mutex<Vec<Ask>>,
}

impl TaskCell {
    /// A task that is about to start.
    #[must_use]
    pub fn new(task: Task, store_epoch: i64, clock: Arc<dyn Clock>) -> Self {
        let status = TaskStatus {
            subscription: task.subscription.to_string(),
            partition: task.partition.get(),
            store_epoch,
            state: TaskState::Starting,
            position: None,
            end_offset: None,
            frontier_ms: None,
            records: 0,
            dead_letters: 0,
            late_rows: 0,
            placement: Verdict::Unknown,
            misplaced: 0,
            misplaced_first: None,
            restored_percent: None,
            missing: None,
            open_transaction: None,
            checkpoint: None,
            halt: None,
        };
        let moved = clock.monotonic();
        Self {
            task,
            clock,
            inner: Mutex::new(Inner {
                status,
                step: Step::Starting,
                moved,
            }),
            asks: Mutex::new(Vec::new()),
        }
    }

    fn asks(&self) -> MutexGuard<'_, Vec<Ask>> {
        // A list, whole at every moment.
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the task to look through its store between two batches.
    pub fn ask(&self, dry_run: bool) -> Receiver<TaskPlacement> {
        let (answer, receiver) = channel();
        self.asks().push(Ask { dry_run, answer });
        receiver
    }

    /// What the task was asked since the last call. To take without answering tells the askers that there will be none.
    #[must_use]
    pub fn take_asks(&self) -> Vec<Ask> {
        std::mem::take(&mut *self.asks())
    }

    /// The task.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Plain data, whole at every moment, whatever its holder did.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the status.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        self.lock().status.clone()
    }

    /// Changes the status; counts as progress.
    pub fn update(&self, change: impl FnOnce(&mut TaskStatus)) {
        let moved = self.clock.monotonic();
        let mut inner = self.lock();
        change(&mut inner.status);
        inner.moved = moved;
    }

    /// The task goes into a step; counts as progress.
    pub fn enter(&self, step: Step) {
        let moved = self.clock.monotonic();
        let mut inner = self.lock();
        inner.step = step;
        inner.moved = moved;
    }

    /// The task goes into a state.
    pub fn set_state(&self, state: TaskState, halt: Option<TaskHalt>) {
        self.update(|status| {
            status.state = state;
            status.halt = halt;
        });
    }

    /// The step the task is in, and for how long nothing moved.
    #[must_use]
    pub fn stillness(&self) -> (Step, Duration) {
        let now = self.clock.monotonic();
        let inner = self.lock();
        (inner.step, now.saturating_sub(inner.moved))
    }
}
