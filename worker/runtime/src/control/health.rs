//! Whether the worker lives and whether it is ready. Decisions only.

use std::fmt::Write as _;
use std::time::Duration;

use turbine_crds::control::{TaskState, TaskStatus};

use super::status::Step;

/// How long a task may stand in one step before the process counts as dead. Every step either has
/// a shorter limit of its own or reports progress while it works.
pub const STILL_LIMIT: Duration = Duration::from_mins(10);

/// One task, as the checks see it.
#[derive(Debug, Clone)]
pub struct TaskView {
    /// Its status.
    pub status: TaskStatus,
    /// The step it is in.
    pub step: Step,
    /// For how long nothing moved.
    pub still: Duration,
    /// Whether its thread runs.
    pub thread: bool,
}

/// What a check answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether all is well.
    pub good: bool,
    /// Why, for people.
    pub body: String,
}

fn answer(faults: Vec<String>, good: &str) -> Answer {
    if faults.is_empty() {
        Answer {
            good: true,
            body: format!("{good}\n"),
        }
    } else {
        let mut body = faults.join("\n");
        body.push('\n');
        Answer { good: false, body }
    }
}

/// Dead: a task's thread is gone though nobody ended it, or a task hangs. What a restart cannot
/// cure (a halted task, a broker that is away) is no death.
#[must_use]
pub fn liveness(tasks: &[TaskView]) -> Answer {
    let faults = tasks
        .iter()
        .filter_map(|task| {
            let status = &task.status;
            let ended = matches!(status.state, TaskState::Halted | TaskState::Stopped);
            let name = format!("task {}/{}", status.subscription, status.partition);
            if ended {
                None
            } else if !task.thread {
                Some(format!("{name}: its thread is gone"))
            } else if task.still > STILL_LIMIT {
                let mut fault = format!(
                    "{name}: {} for {} s without progress",
                    task.step,
                    task.still.as_secs()
                );
                if let Some(position) = status.position {
                    let _ = write!(fault, ", position {position}");
                }
                Some(fault)
            } else {
                None
            }
        })
        .collect();
    answer(faults, "alive")
}

/// Ready: an assignment is there and every task of it runs, without trouble that lasts.
#[must_use]
pub fn readiness(epoch: Option<i64>, draining: bool, tasks: &[TaskView]) -> Answer {
    let mut faults = Vec::new();
    if draining {
        faults.push("draining: the worker was told to stop".to_owned());
    }
    if epoch.is_none() {
        faults.push("no assignment yet".to_owned());
    }
    for task in tasks {
        let status = &task.status;
        let name = format!("task {}/{}", status.subscription, status.partition);
        match (status.state, &status.halt) {
            (TaskState::Running, None) => {}
            (state, Some(halt)) => {
                faults.push(format!(
                    "{name} is {state}: {}: {}",
                    halt.reason, halt.message
                ));
            }
            (state, None) => faults.push(format!("{name} is {state}")),
        }
    }
    answer(faults, "ready")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use turbine_crds::control::{TaskHalt, Verdict};

    use super::*;

    fn view(state: TaskState) -> TaskView {
        let halt = (state == TaskState::Halted).then(|| TaskHalt {
            reason: "BadRecord".to_owned(),
            message: "in/3 at offset 7: cut off".to_owned(),
            person_must_act: true,
            offset: Some(7),
        });
        TaskView {
            status: TaskStatus {
                subscription: "s".to_owned(),
                partition: 3,
                store_epoch: 1,
                state,
                position: Some(7),
                end_offset: Some(9),
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
                halt,
            },
            step: Step::Acknowledging,
            still: Duration::ZERO,
            thread: true,
        }
    }

    #[rstest]
    #[case(TaskState::Running, true)]
    #[case(TaskState::Starting, false)]
    #[case(TaskState::Restoring, false)]
    #[case(TaskState::Halted, false)]
    #[case(TaskState::Stopped, false)]
    fn ready_means_that_every_task_runs(#[case] state: TaskState, #[case] ready: bool) {
        let tasks = [view(TaskState::Running), view(state)];
        assert_eq!(readiness(Some(1), false, &tasks).good, ready);
    }

    #[test]
    fn a_running_task_in_trouble_is_not_ready_and_not_dead() {
        let mut task = view(TaskState::Running);
        task.status.halt = view(TaskState::Halted).status.halt;
        assert!(!readiness(Some(1), false, &[task.clone()]).good);
        assert!(liveness(&[task]).good);
    }

    #[test]
    fn a_worker_without_tasks_is_ready_once_it_was_told_so() {
        assert!(readiness(Some(1), false, &[]).good);
        assert!(!readiness(None, false, &[]).good);
        assert!(!readiness(Some(1), true, &[]).good);
    }

    #[test]
    fn the_answer_says_why() {
        let body = readiness(Some(1), false, &[view(TaskState::Halted)]).body;
        assert_eq!(
            body,
            "task s/3 is halted: BadRecord: in/3 at offset 7: cut off\n"
        );
    }

    #[test]
    fn a_lost_thread_and_a_hanging_task_are_death_a_halted_one_is_not() {
        let lost = TaskView {
            thread: false,
            ..view(TaskState::Running)
        };
        let hangs = TaskView {
            still: STILL_LIMIT * 2,
            ..view(TaskState::Running)
        };
        let halted = TaskView {
            thread: false,
            still: STILL_LIMIT * 2,
            ..view(TaskState::Halted)
        };
        assert!(!liveness(&[lost]).good);
        let answer = liveness(&[hangs]);
        assert!(!answer.good);
        assert!(
            answer
                .body
                .contains("waiting for acknowledgements for 1200 s"),
            "{}",
            answer.body
        );
        assert!(liveness(&[halted, view(TaskState::Running)]).good);
    }
}
