//! The same question about each task, with one answer or the names of those without.

use turbine_crds::status::{RescaleStatus, RescaleSubscription};

use super::wait::Wait;
use super::world::{BrokerFacts, World};

pub(super) fn broker(world: &World) -> Result<&BrokerFacts, Wait> {
    world
        .broker
        .as_ref()
        .map_err(|why| Wait::Broker(why.clone()))
}

pub(super) type Arrays<T> = Vec<Vec<T>>;

/// What `get` finds of each old task, by subscription and partition; all of it or the names of those without.
pub(super) fn each_old<T>(
    plan: &RescaleStatus,
    wait: impl FnOnce(Vec<String>) -> Wait,
    get: impl Fn(&RescaleSubscription, i32, i32) -> Option<T>,
) -> Result<Arrays<T>, Wait> {
    each(plan, |of| &of.old_pods, wait, get)
}

pub(super) fn each_new<T>(
    plan: &RescaleStatus,
    wait: impl FnOnce(Vec<String>) -> Wait,
    get: impl Fn(&RescaleSubscription, i32, i32) -> Option<T>,
) -> Result<Arrays<T>, Wait> {
    each(plan, |of| &of.pods, wait, get)
}

fn each<T>(
    plan: &RescaleStatus,
    pods: impl Fn(&RescaleSubscription) -> &[i32],
    wait: impl FnOnce(Vec<String>) -> Wait,
    get: impl Fn(&RescaleSubscription, i32, i32) -> Option<T>,
) -> Result<Arrays<T>, Wait> {
    let mut without = Vec::new();
    let mut all = Vec::with_capacity(plan.subscriptions.len());
    for of in &plan.subscriptions {
        let mut found = Vec::new();
        for (partition, pod) in (0..).zip(pods(of)) {
            match get(of, partition, *pod) {
                Some(one) => found.push(one),
                None => without.push(format!("{}/{partition}", of.name)),
            }
        }
        all.push(found);
    }
    if without.is_empty() {
        Ok(all)
    } else {
        Err(wait(without))
    }
}

pub(super) fn with_arrays<T>(
    plan: &RescaleStatus,
    arrays: Arrays<T>,
    mut set: impl FnMut(&mut RescaleSubscription, Vec<T>),
) -> RescaleStatus {
    let mut plan = plan.clone();
    for (of, array) in plan.subscriptions.iter_mut().zip(arrays) {
        set(of, array);
    }
    plan
}
