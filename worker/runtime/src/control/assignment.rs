//! Which assignment holds, and what it changes. Decisions only.

use std::collections::BTreeMap;

use thiserror::Error;
use turbine_crds::assignment::{AssignedTask, AssignmentDocument};
use turbine_keygroups::{
    InvalidPartitionCount, NotAPartition, Partition, PartitionCount, RawPartitionCount,
    divisor_refusal, divisor_warning,
};
use turbine_protocol::epochs::{NotALineage, OutOfRange};
use turbine_protocol::names::NameError;
use turbine_protocol::{LayoutEpoch, Lineage, StoreEpoch, SubscriptionName, Task};

/// An assignment that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AssignmentRefusal {
    /// For another app.
    #[error("the assignment is for app `{found}`, this worker runs `{expected}`")]
    OtherApp {
        /// App of the document.
        found: String,
        /// App of the worker.
        expected: String,
    },
    /// Of another life of the app.
    #[error(
        "the assignment is of lineage {found}, this worker runs {current}: restart it to change the lineage"
    )]
    OtherLineage {
        /// Lineage of the document.
        found: Lineage,
        /// Lineage that runs.
        current: Lineage,
    },
    /// Older than what runs.
    #[error(
        "the assignment is of layout epoch {found}, this worker runs {current}: an old assignment never runs again"
    )]
    Old {
        /// Epoch of the document.
        found: LayoutEpoch,
        /// Epoch that runs.
        current: LayoutEpoch,
    },
    /// Two documents under one number.
    #[error(
        "the assignment differs from the one that runs under the same layout epoch {epoch}: a change needs a higher epoch"
    )]
    Conflict {
        /// The epoch of both.
        epoch: LayoutEpoch,
    },
    /// The document makes no sense.
    #[error("the assignment is malformed: {detail}")]
    Malformed {
        /// What is wrong.
        detail: String,
    },
}

/// What this pod runs under one task of the assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlan {
    /// The task.
    pub task: Task,
    /// Partition count of its input.
    pub partitions: RawPartitionCount,
    /// Layout epoch in which its store was made.
    pub store_epoch: StoreEpoch,
}

/// An assignment, read and checked, as one pod sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Which life of the app.
    pub lineage: Lineage,
    /// Its number.
    pub epoch: LayoutEpoch,
    /// The tasks of this pod.
    pub tasks: BTreeMap<Task, TaskPlan>,
    document: AssignmentDocument,
}

/// What becomes of a new assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is what runs.
    Same,
    /// It replaces what runs.
    Take,
}

impl Assignment {
    /// Reads a document.
    ///
    /// # Errors
    /// If it is for another app, or something in it cannot be.
    pub fn read(
        document: AssignmentDocument,
        app_id: &str,
        pod: &str,
    ) -> Result<Self, AssignmentRefusal> {
        if document.app_id != app_id {
            return Err(AssignmentRefusal::OtherApp {
                found: document.app_id,
                expected: app_id.to_owned(),
            });
        }
        let lineage = document
            .lineage
            .parse()
            .map_err(|e: NotALineage| malformed(&e))?;
        let epoch = document
            .epoch
            .try_into()
            .map_err(|e: OutOfRange| malformed(&e))?;
        let mut tasks = BTreeMap::new();
        for assigned in document.tasks.iter().filter(|task| task.pod == pod) {
            let plan = plan(assigned)?;
            if let Some(double) = tasks.insert(plan.task.clone(), plan) {
                return Err(malformed(&format!("task {} comes twice", double.task)));
            }
        }
        Ok(Self {
            lineage,
            epoch,
            tasks,
            document,
        })
    }

    /// Judges this assignment against the one that runs, if one does.
    ///
    /// # Errors
    /// If it must not replace it.
    pub fn against(&self, current: Option<&Self>) -> Result<Verdict, AssignmentRefusal> {
        let Some(current) = current else {
            return Ok(Verdict::Take);
        };
        if self.lineage != current.lineage {
            return Err(AssignmentRefusal::OtherLineage {
                found: self.lineage,
                current: current.lineage,
            });
        }
        match self.epoch.cmp(&current.epoch) {
            std::cmp::Ordering::Greater => Ok(Verdict::Take),
            std::cmp::Ordering::Less => Err(AssignmentRefusal::Old {
                found: self.epoch,
                current: current.epoch,
            }),
            std::cmp::Ordering::Equal if self.document == current.document => Ok(Verdict::Same),
            std::cmp::Ordering::Equal => Err(AssignmentRefusal::Conflict { epoch: self.epoch }),
        }
    }
}

fn malformed(detail: &impl std::fmt::Display) -> AssignmentRefusal {
    AssignmentRefusal::Malformed {
        detail: detail.to_string(),
    }
}

fn plan(assigned: &AssignedTask) -> Result<TaskPlan, AssignmentRefusal> {
    let subscription: SubscriptionName = assigned
        .subscription
        .parse()
        .map_err(|e: NameError| malformed(&e))?;
    let partition =
        Partition::try_from(assigned.partition).map_err(|e: NotAPartition| malformed(&e))?;
    let partitions = RawPartitionCount::try_from(assigned.partitions)
        .map_err(|e: InvalidPartitionCount| malformed(&e))?;
    let store_epoch = assigned
        .store_epoch
        .try_into()
        .map_err(|e: OutOfRange| malformed(&e))?;
    Ok(TaskPlan {
        task: Task {
            subscription,
            partition,
        },
        partitions,
        store_epoch,
    })
}

/// Whether a count can carry keyed state; if not, the words that say so.
#[must_use]
pub fn count_refusal(topic: &str, count: RawPartitionCount) -> Option<String> {
    PartitionCount::try_from(count)
        .err()
        .map(|_| divisor_refusal(topic, count.get()))
}

/// What is said at every start on a count that was allowed although it does not divide 960.
#[must_use]
pub fn count_warning(topic: &str, count: RawPartitionCount) -> Option<String> {
    PartitionCount::try_from(count)
        .err()
        .map(|_| divisor_warning(topic, count.get()))
}

/// What a worker has to do to come from what it runs to what it shall run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Stopped, in any order; all of them before anything starts.
    pub stop: Vec<Task>,
    /// Started.
    pub start: Vec<TaskPlan>,
}

/// Compares what runs with what shall run. A task whose plan is the same goes on untouched, unless
/// it stands still: a halted task is tried again.
#[must_use]
pub fn changes(
    running: &BTreeMap<Task, TaskPlan>,
    halted: &dyn Fn(&Task) -> bool,
    wanted: &BTreeMap<Task, TaskPlan>,
) -> Changes {
    let untouched = |task: &Task| running.get(task) == wanted.get(task) && !halted(task);
    Changes {
        stop: running
            .keys()
            .filter(|task| !untouched(task))
            .cloned()
            .collect(),
        start: wanted
            .iter()
            .filter(|(task, _)| !running.contains_key(*task) || !untouched(task))
            .map(|(_, plan)| plan.clone())
            .collect(),
    }
}

#[cfg(test)]
#[path = "assignment_tests.rs"]
mod tests;
