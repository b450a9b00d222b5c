//! The end of tasks, and of a worker.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use turbine_protocol::Task;

use super::{Worker, lock};
use crate::control::status::TaskCell;
use crate::task::{Ended, StopSignal};

/// The thread that carries out what a worker was told, one order after the other.
#[derive(Debug)]
pub struct Manager(JoinHandle<Drained>);

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drained {
    /// Every task committed and let go, but for those that had halted before.
    Whole,
    /// Every task let go, and one of them had done something that is not committed: outputs that no broker acknowledged within
    /// their time or the stop's, a commit that was refused or not answered. Nothing is lost: its next start does it again.
    Unfinished,
    /// A task did not end in time. Nothing is lost: its next start goes on from its last commit.
    Overdue,
}

impl Manager {
    pub(super) fn of(thread: JoinHandle<Drained>) -> Self {
        Self(thread)
    }

    /// Waits until the worker was drained.
    #[must_use]
    pub fn wait(self) -> Drained {
        self.0.join().unwrap_or(Drained::Overdue)
    }

    /// Whether it has ended. It ends after a drain and never by itself.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl Worker {
    /// Stops tasks, all at once, and waits for their ends.
    pub(super) fn stop(&self, tasks: &[Task]) -> Drained {
        for running in tasks.iter().filter_map(|task| self.handle(task)) {
            running.1.give();
        }
        let deadline = Instant::now() + self.config.stop_patience;
        let mut drained = Drained::Whole;
        for task in tasks {
            if !self.await_end(task, deadline) {
                tracing::warn!(%task, "the task does not stop in time: its outputs are given up");
                if let Some((_, stop)) = self.handle(task) {
                    stop.abandon();
                }
                if !self.await_end(task, Instant::now() + Duration::from_secs(2)) {
                    drained = Drained::Overdue;
                    tracing::error!(%task, "the task hangs");
                    continue;
                }
            }
            let ended = lock(&self.running).remove(task);
            self.metrics.forget(task);
            if let Some(thread) = ended.and_then(|running| running.thread) {
                drained = drained.max(match thread.join() {
                    Ok(Ended::Committed) => Drained::Whole,
                    Ok(Ended::Undone) => Drained::Unfinished,
                    Err(_) => {
                        tracing::error!(%task, "the task's thread panicked");
                        Drained::Unfinished
                    }
                });
            }
        }
        drained
    }

    fn handle(&self, task: &Task) -> Option<(Arc<TaskCell>, Arc<StopSignal>)> {
        lock(&self.running)
            .get(task)
            .map(|running| (Arc::clone(&running.cell), Arc::clone(&running.stop)))
    }

    fn await_end(&self, task: &Task, deadline: Instant) -> bool {
        loop {
            let ended = lock(&self.running)
                .get(task)
                .and_then(|running| running.thread.as_ref())
                .is_none_or(JoinHandle::is_finished);
            if ended || Instant::now() >= deadline {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
