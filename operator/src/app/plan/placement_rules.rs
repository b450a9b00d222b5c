//! What the conditions say of the placement of records and of partition counts that do not divide 960.

use turbine_crds::validated::ValidatedApp;
use turbine_keygroups::{PartitionCount, divisor_warning};

use super::goal::{Goal, Run};
use super::pods::MisplacedTask;
use super::verdict::Standing;
use crate::app::conditions::{ConditionType, Conditions, Is};

/// Tasks that a message names; the workers' status and metrics name all.
const NAMED: usize = 3;

/// Reason of a wrong placement, in this condition and in `Degraded`.
pub(super) const MISPLACED: &str = "Misplaced";

pub(super) fn verdict(
    conditions: &mut Conditions,
    standing: &Standing,
    goal: &Goal<'_>,
    app_name: &str,
) {
    let (Some(workers), Some(run)) = (&standing.workers, &goal.run) else {
        return;
    };
    if standing.suspended {
        return;
    }
    let seen = &workers.placement;
    if !seen.misplaced.is_empty() {
        let message = format!(
            "{}. Once the producers are right: turbine-cli placement clear {app_name}",
            misplaced(run, &seen.misplaced)
        );
        conditions.set(
            ConditionType::PlacementVerified,
            Is::False,
            MISPLACED,
            message,
        );
    } else if seen.silent && conditions.stands(ConditionType::PlacementVerified) {
        // What is stored with the tasks' state is known again once they run; until then it is what it was.
    } else if seen.silent || seen.unknown {
        conditions.set(
            ConditionType::PlacementVerified,
            Is::Unknown,
            "TooFewKeys",
            "not every task has seen enough distinct keys to tell; that blocks nothing",
        );
    } else {
        conditions.set(
            ConditionType::PlacementVerified,
            Is::True,
            "Verified",
            "every task has seen enough distinct keys where murmur2 puts them",
        );
    }
}

/// The tasks that hold records of other partitions, with the first record of each.
pub(super) fn misplaced(run: &Run<'_>, tasks: &[MisplacedTask]) -> String {
    let mut words: Vec<String> = tasks
        .iter()
        .take(NAMED)
        .map(|task| one(run, task))
        .collect();
    if let Some(more) = tasks.len().checked_sub(NAMED).filter(|more| *more > 0) {
        words.push(format!("and in {more} further partitions"));
    }
    format!("records lie in the wrong partition: {}", words.join("; "))
}

fn one(run: &Run<'_>, task: &MisplacedTask) -> String {
    let topic = run
        .layout
        .subscriptions
        .iter()
        .find(|of| of.name == task.subscription)
        .map_or("", |of| of.topic.as_str());
    let what_becomes = if declared(run.app, &task.subscription) {
        "they follow onError and touch no state"
    } else {
        "partitionHash is not declared, so they are folded where they lie, and a key in two partitions has two results"
    };
    match &task.first {
        Some(first) => format!(
            "topic `{topic}` partition {} offset {}: the key (murmur2 hash {}) belongs to partition {}, {}; {what_becomes}",
            task.partition,
            first.offset,
            first.key_hash,
            first.belongs_to.get(),
            first.looks_like,
        ),
        None => format!(
            "topic `{topic}` partition {}; {what_becomes}",
            task.partition
        ),
    }
}

/// Whether the subscription says that its producers place by murmur2.
pub(super) fn declared(app: &ValidatedApp, subscription: &str) -> bool {
    app.compiled()
        .subscriptions
        .iter()
        .any(|of| of.name == subscription && of.partition_hash.is_some())
}

pub(super) fn counts(conditions: &mut Conditions, goal: &Goal<'_>) {
    let warnings: Vec<String> = goal
        .run
        .iter()
        .flat_map(|run| {
            let laid = run.layout.subscriptions.iter();
            laid.filter(|of| run.running.contains(&of.name))
        })
        .filter(|of| PartitionCount::try_from(of.partitions).is_err())
        .map(|of| divisor_warning(&of.topic, u32::try_from(of.partitions).unwrap_or(0)))
        .collect();
    if warnings.is_empty() {
        conditions.take_away(ConditionType::NonDivisorPartitions);
    } else {
        conditions.set(
            ConditionType::NonDivisorPartitions,
            Is::True,
            "AllowedBySpec",
            warnings.join("; "),
        );
    }
}
