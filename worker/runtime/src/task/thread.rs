//! The thread of a task: one life after another until it is told to stop or must not go on.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use turbine_crds::control::TaskState;
use turbine_protocol::Fault;

use super::begin::begin;
use super::error::TaskError;
use super::fenced;
use super::restore::{Rescue, rescue};
use super::setup::{Limits, TaskSetup};
use super::stop::StopSignal;
use crate::control::metrics::TaskMetrics;
use crate::control::status::{Step, TaskCell};

/// Exit code of a process whose journal could not be synced.
const SYNC_FAILED: i32 = 74;

/// Panics in a row, without a commit in between, after which a task is left alone.
const MOST_PANICS: u32 = 5;

/// Stores in a row that are replaced by a checkpoint, without a commit in between.
const MOST_RESCUES: u32 = 2;

/// What comes after a life that ended with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// Another life, after this wait.
    Again(Duration),
    /// None: a person or the world has to act.
    Halt,
}

/// Faults since the last commit.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    all: u32,
    panics: u32,
    /// Stores that were replaced by a checkpoint.
    rescues: u32,
}

impl Faults {
    fn after(&mut self, error: &TaskError, limits: &Limits) -> After {
        self.all += 1;
        if matches!(error, TaskError::Panicked { .. }) {
            self.panics += 1;
        }
        if !error.passes_by_itself() || self.panics >= MOST_PANICS {
            return After::Halt;
        }
        let doubled = limits
            .retry_first
            .saturating_mul(1 << (self.all - 1).min(16));
        After::Again(doubled.min(limits.retry_most))
    }
}

/// Runs a task until it is told to stop. A halted task waits for that as well: its thread stays, so
/// that a thread that ends by itself is always a fault.
pub fn run(setup: &TaskSetup, cell: &TaskCell, metrics: &TaskMetrics, stop: &Arc<StopSignal>) {
    let mut faults = Faults::default();
    // This process has gone on with the task's store: if that is then older than what was committed, somebody else has it.
    let has_run = Cell::new(false);
    while !stop.given() {
        let before = cell.status().position;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            begin(setup, cell, metrics, has_run.get())
                .and_then(|life| life.run(stop, &has_run))
                .map_err(|error| fenced::told(setup, cell, error))
        }));
        metrics.running.set(0);
        metrics.stopped_at.set(setup.clock.wall_ms());
        // Nobody waits any more.
        metrics.open_transaction.set(0);
        cell.update(|status| status.open_transaction = None);
        // Nobody answers until the next life reads again.
        drop(cell.take_asks());
        let error = match ended {
            Ok(Ok(())) => break,
            Ok(Err(error)) => error,
            Err(panic) => TaskError::Panicked {
                message: words(&*panic),
            },
        };
        end_if_unsynced(cell, &error);
        if cell.status().position > before {
            faults = Faults::default();
        }
        // A checkpoint in which the same fault shows is not tried for ever.
        let error = if faults.rescues < MOST_RESCUES {
            match rescue(setup, cell, metrics, error) {
                Rescue::None(error) => error,
                Rescue::Replaced => {
                    faults.rescues += 1;
                    has_run.set(false);
                    metrics.restarts.inc();
                    cell.set_state(TaskState::Starting, None);
                    continue;
                }
            }
        } else {
            error
        };
        let after = faults.after(&error, &setup.limits);
        tell(cell, &error, after);
        match after {
            After::Again(wait) => {
                metrics.restarts.inc();
                cell.set_state(TaskState::Starting, Some(error.halt()));
                cell.enter(Step::Waiting);
                stop.wait(wait);
            }
            After::Halt => {
                metrics.fatal.inc();
                let_journal_go(setup, cell);
                cell.set_state(TaskState::Halted, Some(error.halt()));
                cell.enter(Step::Waiting);
                while !stop.wait(setup.limits.retry_most) {
                    // What is undecided stays, however long this stands; the entries of all other tasks must not stay with it.
                    if setup.volume.journal_is_full() {
                        let_journal_go(setup, cell);
                    }
                }
            }
        }
    }
    let halt = cell.status().halt;
    cell.set_state(TaskState::Stopped, halt);
    cell.enter(Step::Ended);
}

/// Nobody is left to save this task's state: what only the journal has of it goes to its files, as whenever a store is opened.
/// Else its last entries would keep the journal of all other tasks until the volume is full. What is prepared and undecided
/// stays.
fn let_journal_go(setup: &TaskSetup, cell: &TaskCell) {
    // What halted the task may be a panic in the opening of its store.
    let opened = catch_unwind(AssertUnwindSafe(|| setup.volume.find(&setup.identity())));
    let error = match opened {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => TaskError::from(error),
        Err(panic) => TaskError::Panicked {
            message: words(&*panic),
        },
    };
    end_if_unsynced(cell, &error);
    tracing::warn!(
        task = %cell.task(), %error, category = %error.category(), reason = error.reason(),
        "the journal keeps what it has of this halted task"
    );
}

/// After a failed sync nothing in this process may open the files again: they may look durable and not be.
pub(super) fn end_if_unsynced(cell: &TaskCell, error: &TaskError) {
    if error.ends_process() {
        tracing::error!(
            task = %cell.task(), %error, category = %error.category(), reason = error.reason(),
            "the process ends"
        );
        std::process::exit(SYNC_FAILED);
    }
}

fn tell(cell: &TaskCell, error: &TaskError, after: After) {
    let (category, reason) = (error.category(), error.reason());
    match after {
        After::Again(wait) => tracing::warn!(
            task = %cell.task(), %error, %category, reason, ?wait, "the task starts again"
        ),
        After::Halt => tracing::error!(
            task = %cell.task(), %error, %category, reason, "the task halts"
        ),
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|words| (*words).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no words".to_owned())
}

#[cfg(test)]
mod tests {
    use turbine_kafka::KafkaError;

    use super::*;

    fn passing() -> TaskError {
        KafkaError::Unreachable {
            bootstrap: "kafka:9999".to_owned(),
            detail: String::new(),
        }
        .into()
    }

    fn panicked() -> TaskError {
        TaskError::Panicked {
            message: "boom".to_owned(),
        }
    }

    #[test]
    fn passing_faults_are_tried_again_with_a_growing_wait_up_to_a_limit() {
        let mut faults = Faults::default();
        let waits: Vec<After> = (0..40)
            .map(|_| faults.after(&passing(), &Limits::default()))
            .collect();
        let seconds = |s| After::Again(Duration::from_secs(s));
        assert_eq!(waits[..7], [1, 2, 4, 8, 16, 32, 60].map(seconds));
        assert!(waits[7..].iter().all(|wait| *wait == seconds(60)));
    }

    #[test]
    fn a_fault_of_the_data_halts_at_once_and_panics_halt_in_the_end() {
        let limits = Limits::default();
        let bad = TaskError::Count("7 partitions".to_owned());
        assert_eq!(Faults::default().after(&bad, &limits), After::Halt);
        let mut faults = Faults::default();
        let after: Vec<After> = (0..5).map(|_| faults.after(&panicked(), &limits)).collect();
        assert!(
            after[..4]
                .iter()
                .all(|after| matches!(after, After::Again(_)))
        );
        assert_eq!(after[4], After::Halt);
    }
}
