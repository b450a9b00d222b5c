//! The first record of a plan.

use std::collections::{BTreeMap, BTreeSet};

use turbine_crds::status::{
    LayoutStatus, LayoutSubscription, RescaleStatus, RescaleStep, RescaleSubscription, RescaleTopic,
};
use turbine_protocol::layout::{Assignment, PodName, Task, assign};

use super::checks::refusals;
use super::movement::task;
use super::next::{Journal, Next};
use super::target::{Target, laid, readers, target};
use super::world::{PodFacts, World};

/// The first record of a plan, if something is asked for and nothing refused.
pub(super) fn request(world: &World, layout: &LayoutStatus) -> Next {
    let target = match target(world, layout) {
        Ok(Some(target)) => target,
        Ok(None) => return Next::Rest,
        Err(refusals) => return Next::Refuse(refusals),
    };
    let plan = plan(world, layout, &target);
    let refusals = refusals(world, &plan);
    if refusals.is_empty() {
        Next::Record(Box::new(Journal {
            layout: layout.clone(),
            rescale: plan,
        }))
    } else {
        Next::Refuse(refusals)
    }
}

/// The plan that leads from the layout to the target, at its first step.
pub(super) fn plan(world: &World, layout: &LayoutStatus, target: &Target) -> RescaleStatus {
    let laid = laid(layout, &world.wanted);
    let topics = target.counts.iter().filter_map(|(name, to)| {
        Some(RescaleTopic {
            name: name.clone(),
            from: *laid.get(name)?,
            to: *to,
            foreign: target.grown.contains(name),
            ends: Vec::new(),
            grown_at: None,
            proposed: Vec::new(),
            proposed_at: None,
            closes: Vec::new(),
        })
    });
    let replicas_change = target.replicas != layout.replicas;
    let takes_part = |of: &&LayoutSubscription| {
        let runs = readers(&world.wanted, &of.topic).any(|wanted| wanted.name == of.name);
        runs && (replicas_change || target.counts.contains_key(&of.topic))
    };
    let mut subscriptions: Vec<RescaleSubscription> = layout
        .subscriptions
        .iter()
        .filter(takes_part)
        .map(|of| RescaleSubscription {
            name: of.name.clone(),
            topic: of.topic.clone(),
            from: of.partitions,
            to: target
                .counts
                .get(&of.topic)
                .copied()
                .unwrap_or(of.partitions),
            store_epoch: of.store_epoch,
            old_pods: Vec::new(),
            pods: Vec::new(),
            holds: Vec::new(),
            stops: Vec::new(),
            manifests: Vec::new(),
        })
        .collect();
    place(world, target, &mut subscriptions);
    RescaleStatus {
        epoch: highest_epoch(world, layout).saturating_add(1),
        version: 1,
        id: world.fresh.clone(),
        generation: world.wanted.generation,
        step: RescaleStep::Requested,
        step_since: world.now,
        started_at: world.now,
        from_replicas: layout.replicas,
        to_replicas: target.replicas,
        topics: topics.collect(),
        subscriptions,
        release: Vec::new(),
        paused_at: None,
        resumed_at: None,
        waiting_generation: None,
        blocked_by: None,
        tasks: Vec::new(),
    }
}

/// Which pods run the old and the new tasks. A task stays where the one of its number is, if balance allows.
fn place(world: &World, target: &Target, subscriptions: &mut [RescaleSubscription]) {
    let pod_name = |pod: i32| PodName(pod.to_string());
    let pods: Vec<PodName> = (0..target.replicas).map(pod_name).collect();
    let previous: Assignment = world
        .placement
        .iter()
        .map(|(task, pod)| (task.clone(), pod_name(*pod)))
        .collect();
    let tasks: BTreeSet<Task> = subscriptions
        .iter()
        .flat_map(|of| (0..of.to).filter_map(|partition| task(of, partition)))
        .collect();
    let ordinals: BTreeMap<&PodName, i32> = pods.iter().zip(0..).collect();
    let placed = assign(&tasks, &pods, &previous);
    for of in subscriptions {
        let one: &RescaleSubscription = of;
        let tasks = |count: i32| (0..count).filter_map(move |partition| task(one, partition));
        let old_pods = tasks(one.from).filter_map(|task| world.placement.get(&task).copied());
        let new_pods =
            tasks(one.to).filter_map(|task| ordinals.get(placed.pod_of(&task)?).copied());
        let (old_pods, new_pods): (Vec<i32>, Vec<i32>) = (old_pods.collect(), new_pods.collect());
        (of.old_pods, of.pods) = (old_pods, new_pods);
    }
}

/// No epoch is used twice, also not that of a plan that was undone or is on record at the broker alone.
fn highest_epoch(world: &World, layout: &LayoutStatus) -> i64 {
    let marks = world
        .claims
        .values()
        .filter_map(|claim| claim.mark.as_ref());
    let receipts = world
        .broker
        .iter()
        .flat_map(|broker| broker.receipts.values().map(|of| of.epoch));
    let heard = world.pods.values().filter_map(|facts| match facts {
        PodFacts::Answers(word) => Some(word.heard.0),
        PodFacts::Silent(_) => None,
    });
    marks
        .flat_map(|mark| [mark.rescale.epoch, mark.layout.epoch])
        .chain(receipts)
        .chain(heard)
        .chain(world.rescale.iter().map(|of| of.epoch))
        .fold(layout.epoch, i64::max)
}
