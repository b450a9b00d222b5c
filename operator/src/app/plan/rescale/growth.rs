//! From the request to the moment from which every broker has the new count.

use std::collections::BTreeSet;

use turbine_crds::status::{LayoutStatus, RescaleStatus, RescaleStep, RescaleTopic};

use super::advance::after;
use super::checks::refusals;
use super::each::{broker, each_old, with_arrays};
use super::movement::word;
use super::refusal::Refusal;
use super::target::target;
use super::wait::Wait;
use super::world::{BrokerFacts, CopyAhead, PodFacts, WorkerWord, World};

/// Whether the plan is what is asked for. Else it is given up, which is clean until a topic grows.
fn wanted(world: &World, layout: &LayoutStatus, plan: &RescaleStatus) -> Result<bool, Wait> {
    if let (Err(why), true) = (&world.broker, plan.topics.iter().any(|of| of.foreign)) {
        // It was asked for by the topic itself.
        return Err(Wait::Broker(why.clone()));
    }
    match target(world, layout) {
        Ok(Some(target)) => {
            let counts = plan.topics.iter().map(|of| (of.name.clone(), of.to));
            Ok(target.replicas == plan.to_replicas && target.counts.into_iter().eq(counts))
        }
        Ok(None) => Ok(false),
        Err(refusals) if refusals.iter().all(Refusal::passes_by_itself) => {
            Err(Wait::Refused(refusals))
        }
        Err(_) => Ok(false),
    }
}

pub(super) fn requested(
    world: &World,
    layout: &LayoutStatus,
    plan: &RescaleStatus,
) -> Result<RescaleStatus, Wait> {
    if !wanted(world, layout, plan)? {
        return Ok(after(world, plan, RescaleStep::Undone));
    }
    let refusals = refusals(world, plan);
    if !refusals.is_empty() {
        return Err(Wait::Refused(refusals));
    }
    let copying = pods_without(world, plan, |word| {
        word.heard >= plan.number() && word.copied == CopyAhead::Done
    });
    if copying.is_empty() {
        Ok(after(world, plan, RescaleStep::Announced))
    } else {
        Err(Wait::Copies(copying))
    }
}

pub(super) fn announced(
    world: &World,
    layout: &LayoutStatus,
    plan: &RescaleStatus,
) -> Result<RescaleStatus, Wait> {
    if !wanted(world, layout, plan)? {
        return Ok(after(world, plan, RescaleStep::Undone));
    }
    let held = with_holds(world, plan)?;
    // Between the request and now a right may have gone, a volume filled, a task been lost.
    let refusals = refusals(world, plan);
    if !refusals.is_empty() {
        return Err(Wait::Refused(refusals));
    }
    let broker = broker(world)?;
    let mut topics = Vec::with_capacity(held.topics.len());
    for of in &held.topics {
        topics.push(before_growth(broker, of)?);
    }
    let step = if topics.iter().all(|of| of.foreign) {
        RescaleStep::TopicGrown
    } else {
        RescaleStep::Growing
    };
    Ok(RescaleStatus {
        topics,
        ..after(world, &held, step)
    })
}

/// The topic with its ends, if they were read before any growth; or as one that another hand grew.
fn before_growth(broker: &BrokerFacts, of: &RescaleTopic) -> Result<RescaleTopic, Wait> {
    if let Some(found) = broker.third(&of.name, of.from, of.to) {
        return Err(Wait::ThirdCount {
            topic: of.name.clone(),
            from: of.from,
            to: of.to,
            found,
            cure: "Take the change back, or ask for the new count",
        });
    }
    if broker.any_answers(&of.name, of.to) {
        // Records of the new placement may lie in front of the ends that were read, so these say nothing.
        return Ok(RescaleTopic {
            foreign: true,
            ends: Vec::new(),
            ..of.clone()
        });
    }
    let ends = broker.ends.get(&of.name).filter(|ends| {
        i32::try_from(ends.len()).is_ok_and(|length| length == of.from)
            && broker.all_answer(&of.name, of.from)
    });
    match ends {
        Some(ends) => Ok(RescaleTopic {
            foreign: false,
            ends: ends.clone(),
            ..of.clone()
        }),
        None => Err(Wait::Ends(of.name.clone())),
    }
}

/// The plan with the commit by which each old task held its frontier.
fn with_holds(world: &World, plan: &RescaleStatus) -> Result<RescaleStatus, Wait> {
    each_old(plan, Wait::Holds, |of, partition, pod| {
        let hold = word(world, of, partition, pod)?.hold?;
        (hold.epoch == plan.epoch && hold.count == of.to).then_some(hold.number)
    })
    .map(|holds| with_arrays(plan, holds, |of, holds| of.holds = holds))
}

pub(super) fn growing(world: &World, plan: &RescaleStatus) -> Result<RescaleStatus, Wait> {
    let broker = broker(world)?;
    for of in &plan.topics {
        third_count(broker, of)?;
        if !broker.any_answers(&of.name, of.to) {
            return Err(Wait::Count {
                topic: of.name.clone(),
                to: of.to,
            });
        }
    }
    Ok(after(world, plan, RescaleStep::TopicGrown))
}

fn third_count(broker: &BrokerFacts, of: &RescaleTopic) -> Result<(), Wait> {
    match broker.third(&of.name, of.from, of.to) {
        None => Ok(()),
        Some(found) => Err(Wait::ThirdCount {
            topic: of.name.clone(),
            from: of.from,
            to: of.to,
            found,
            cure: "State and records are kept; restore the app beside a topic with one of the two counts",
        }),
    }
}

pub(super) fn topic_grown(world: &World, plan: &RescaleStatus) -> Result<RescaleStatus, Wait> {
    let broker = broker(world)?;
    for of in &plan.topics {
        third_count(broker, of)?;
        if !broker.all_answer(&of.name, of.to) {
            return Err(Wait::Count {
                topic: of.name.clone(),
                to: of.to,
            });
        }
    }
    let silent: Vec<String> = (0..plan.to_replicas)
        .filter(|pod| !matches!(world.pods.get(pod), Some(PodFacts::Answers(_))))
        .map(|pod| pod.to_string())
        .collect();
    if !silent.is_empty() {
        return Err(Wait::Pods(silent));
    }
    // A broker that did not know the new count before now may have given a producer the old one, so producers refresh from now on.
    let topics = plan.topics.iter().cloned().map(|of| RescaleTopic {
        grown_at: Some(world.now),
        ..of
    });
    Ok(RescaleStatus {
        topics: topics.collect(),
        paused_at: Some(world.now),
        ..after(world, plan, RescaleStep::Draining)
    })
}

/// Pods with old tasks that do not answer or of whose answer something does not hold.
fn pods_without(
    world: &World,
    plan: &RescaleStatus,
    holds: impl Fn(&WorkerWord) -> bool,
) -> Vec<String> {
    let pods: BTreeSet<i32> = plan
        .subscriptions
        .iter()
        .flat_map(|of| of.old_pods.iter().copied())
        .collect();
    pods.into_iter()
        .filter(|pod| match world.pods.get(pod) {
            Some(PodFacts::Answers(word)) => !holds(word),
            Some(PodFacts::Silent(_)) | None => true,
        })
        .map(|pod| format!("pod {pod}"))
        .collect()
}
