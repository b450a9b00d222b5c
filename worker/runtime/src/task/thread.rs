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
use super::halted::{let_journal_go, settle};
use super::life::Reached;
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

/// How a task's thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All that the task had done is committed, or it had halted before it was told to stop and its halt says what is not.
    Committed,
    /// Something that the task had done is not committed: it failed when the task was told to stop, or the task was waiting for
    /// a new try. Its next start does it again.
    Undone,
}

/// Runs a task until it is told to stop. A halted task waits for that as well: its thread stays, so
/// that a thread that ends by itself is always a fault.
pub fn run(
    setup: &TaskSetup,
    cell: &TaskCell,
    metrics: &TaskMetrics,
    stop: &Arc<StopSignal>,
) -> Ended {
    let mut faults = Faults::default();
    // This process has gone on with the task's store: if that is then older than what was committed, somebody else has it.
    let mut has_run = false;
    // The last life that ran had done something that is not committed.
    let mut undone = false;
    while !stop.given() {
        let before = cell.status().position;
        let reached = Cell::new(Reached::default());
        let ended = caught(|| {
            begin(setup, cell, metrics, has_run)
                .and_then(|life| life.run(stop, &reached))
                .map_err(|error| fenced::told(setup, cell, error))
        });
        let reached = reached.get();
        match reached {
            // What an earlier life has left is as it was.
            Reached::Nothing => {}
            Reached::Running => (has_run, undone) = (true, true),
            Reached::Committed => (has_run, undone) = (true, false),
        }
        metrics.running.set(0);
        metrics.stopped_at.set(setup.clock.wall_ms());
        // Nobody waits any more.
        metrics.open_transaction.set(0);
        cell.update(|status| status.open_transaction = None);
        // Nobody answers until the next life reads again.
        drop(cell.take_asks());
        let error = match ended {
            Ok(()) => break,
            Err(error) => error,
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
                    has_run = false;
                    metrics.restarts.inc();
                    cell.set_state(TaskState::Starting, None);
                    continue;
                }
            }
        } else {
            error
        };
        let after = faults.after(&error, &setup.limits);
        tell(cell, &error, after, stop.given());
        match after {
            After::Again(wait) => {
                if !stop.given() {
                    metrics.restarts.inc();
                }
                cell.set_state(TaskState::Starting, Some(error.halt()));
                cell.enter(Step::Waiting);
                stop.wait(wait);
            }
            After::Halt => {
                metrics.fatal.inc();
                // Before the order to stop it is the halt that says so.
                undone &= stop.given();
                let settles = reached != Reached::Nothing && error.can_be_settled();
                stand_halted(
                    setup,
                    cell,
                    metrics,
                    stop,
                    &error,
                    settles.then_some(has_run),
                );
            }
        }
    }
    let halt = cell.status().halt;
    cell.set_state(TaskState::Stopped, halt);
    cell.enter(Step::Ended);
    if undone {
        tracing::error!(
            task = %cell.task(),
            "stopped with something that is not committed; the next start goes on from the last commit and does it again"
        );
        Ended::Undone
    } else {
        Ended::Committed
    }
}

/// Until it is told to stop. `unsettled`: the task has to be stopped in order first, and whether this process has run it.
fn stand_halted(
    setup: &TaskSetup,
    cell: &TaskCell,
    metrics: &TaskMetrics,
    stop: &StopSignal,
    error: &TaskError,
    mut unsettled: Option<bool>,
) {
    let_journal_go(setup, cell);
    cell.set_state(TaskState::Halted, Some(error.halt()));
    loop {
        if let Some(has_run) = unsettled {
            let mut halt = error.halt();
            match settle(setup, cell, metrics, has_run) {
                Ok(()) => {
                    unsettled = None;
                    let_journal_go(setup, cell);
                }
                Err(why) => {
                    if !why.passes_by_itself() {
                        unsettled = None;
                    }
                    halt.message = format!(
                        "{}. It could not be stopped in order yet ({why}): what counts of its last commit is the broker's to \
                         say, which forgets that after some days",
                        halt.message
                    );
                }
            }
            cell.set_state(TaskState::Halted, Some(halt));
        }
        cell.enter(Step::Waiting);
        if stop.wait(setup.limits.retry_most) {
            return;
        }
        // What is undecided stays, however long this stands; the entries of all other tasks must not stay with it.
        if setup.volume.journal_is_full() {
            let_journal_go(setup, cell);
        }
    }
}

/// A panic as an error.
pub(super) fn caught<T>(act: impl FnOnce() -> Result<T, TaskError>) -> Result<T, TaskError> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        Err(TaskError::Panicked {
            message: words(&*panic),
        })
    })
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

fn tell(cell: &TaskCell, error: &TaskError, after: After, told_to_stop: bool) {
    let (category, reason) = (error.category(), error.reason());
    match after {
        After::Again(_) if told_to_stop => tracing::warn!(
            task = %cell.task(), %error, %category, reason, "the task ends: it was told to stop"
        ),
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
