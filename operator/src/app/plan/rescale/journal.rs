//! What a record has to hold at its step. One that does not was not written by an operator.

use thiserror::Error;
use turbine_crds::status::{RescaleStatus, RescaleStep, RescaleSubscription, RescaleTopic};
use turbine_keygroups::PartitionCount;

use super::movement::task;

/// A plan in the journal that no operator could have written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
#[error(
    "the plan in status.rescale is damaged ({0}): restore it, or delete status.rescale to have it made again from the volumes"
)]
pub struct DamagedPlan(pub String);

/// Checks that the record holds what its step rests on.
///
/// # Errors
/// What is missing or out of range.
pub fn check(plan: &RescaleStatus) -> Result<(), DamagedPlan> {
    let damaged = |what: String| Err(DamagedPlan(what));
    if plan.epoch < 1 || plan.version < 1 {
        return damaged(format!(
            "epoch {} and version {} are to be 1 or more",
            plan.epoch, plan.version
        ));
    }
    if plan.from_replicas < 1 || plan.to_replicas < 1 {
        return damaged(format!(
            "fromReplicas {} and toReplicas {} are to be 1 or more",
            plan.from_replicas, plan.to_replicas
        ));
    }
    for of in &plan.topics {
        check_topic(plan, of)?;
    }
    for of in &plan.subscriptions {
        check_subscription(plan, of)?;
    }
    Ok(())
}

fn check_topic(plan: &RescaleStatus, of: &RescaleTopic) -> Result<(), DamagedPlan> {
    let name = &of.name;
    if of.from < 1 || PartitionCount::try_from(of.to).is_err() || of.to <= of.from {
        return Err(DamagedPlan(format!(
            "topic `{name}` from {} to {}",
            of.from, of.to
        )));
    }
    // A plan that was given up holds what it had come to.
    let at = |step| plan.step >= step && plan.step != RescaleStep::Undone;
    let ends = if of.foreign {
        RescaleStep::Stopped
    } else {
        RescaleStep::Growing
    };
    length(
        &format!("ends of topic `{name}`"),
        of.ends.len(),
        of.from,
        at(ends),
    )?;
    length(
        &format!("proposed of topic `{name}`"),
        of.proposed.len(),
        of.from,
        false,
    )?;
    length(
        &format!("closes of topic `{name}`"),
        of.closes.len(),
        of.from,
        at(RescaleStep::Settled),
    )?;
    if at(RescaleStep::Draining) && of.grown_at.is_none() {
        return Err(DamagedPlan(format!("grownAt of topic `{name}` is missing")));
    }
    Ok(())
}

fn check_subscription(plan: &RescaleStatus, of: &RescaleSubscription) -> Result<(), DamagedPlan> {
    let name = &of.name;
    if of.from < 1 || of.to < of.from || task(of, of.to - 1).is_none() {
        return Err(DamagedPlan(format!(
            "subscription `{name}` from {} to {}",
            of.from, of.to
        )));
    }
    let at = |step| plan.step >= step && plan.step != RescaleStep::Undone;
    let array = |what: &str| format!("{what} of subscription `{name}`");
    length(&array("oldPods"), of.old_pods.len(), of.from, true)?;
    length(&array("pods"), of.pods.len(), of.to, true)?;
    length(
        &array("holds"),
        of.holds.len(),
        of.from,
        at(RescaleStep::Growing),
    )?;
    length(
        &array("stops"),
        of.stops.len(),
        of.from,
        at(RescaleStep::Stopped),
    )?;
    length(
        &array("manifests"),
        of.manifests.len(),
        of.to,
        at(RescaleStep::StateMoved),
    )
}

/// An array is whole, or not there yet.
fn length(what: &str, length: usize, expected: i32, due: bool) -> Result<(), DamagedPlan> {
    let whole = i32::try_from(length).is_ok_and(|length| length == expected);
    if whole || (length == 0 && !due) {
        return Ok(());
    }
    Err(DamagedPlan(format!(
        "{what} are {length} and not {expected}"
    )))
}
