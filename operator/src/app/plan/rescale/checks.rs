//! The checks before anything irreversible.

use std::collections::BTreeMap;

use turbine_crds::status::RescaleStatus;

use super::movement::{moves, task, word};
use super::refusal::{Refusal, Warning};
use super::target::readers;
use super::world::{BrokerFacts, PodFacts, World};

/// Why a plan does not begin, or does not go on to grow a topic. Counts were judged when the plan was made.
#[must_use]
pub fn refusals(world: &World, plan: &RescaleStatus) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if world.wanted.suspended {
        refusals.push(Refusal::Suspended);
    }
    silent_tasks(world, plan, &mut refusals);
    match &world.broker {
        Err(why) => refusals.push(Refusal::BrokerUnreachable { why: why.clone() }),
        Ok(broker) => {
            if broker.silent > 0 || broker.counts.is_empty() {
                let why = format!("{} brokers did not answer", broker.silent);
                refusals.push(Refusal::BrokerUnreachable { why });
            }
            topics(world, plan, broker, &mut refusals);
            seals(world, plan, broker, &mut refusals);
        }
    }
    growing_subscriptions(world, plan, &mut refusals);
    disks(world, plan, &mut refusals);
    refusals
}

fn silent_tasks(world: &World, plan: &RescaleStatus, refusals: &mut Vec<Refusal>) {
    for of in &plan.subscriptions {
        for (partition, pod) in (0..).zip(&of.old_pods) {
            if word(world, of, partition, *pod).is_some() {
                continue;
            }
            let why = match world.pods.get(pod) {
                Some(PodFacts::Silent(why)) => why.clone(),
                Some(PodFacts::Answers(_)) => format!("pod {pod} does not run it"),
                None => format!("pod {pod} is not there"),
            };
            let task = format!("{}/{partition}", of.name);
            refusals.push(Refusal::TaskSilent { task, why });
        }
    }
}

fn topics(world: &World, plan: &RescaleStatus, broker: &BrokerFacts, refusals: &mut Vec<Refusal>) {
    let refresh_ms = world.wanted.producer_refresh_ms;
    for of in &plan.topics {
        let topic = of.name.clone();
        if !of.foreign && broker.rights.no_alter.contains(&topic) {
            refusals.push(Refusal::NoRightToGrow {
                topic: topic.clone(),
            });
        }
        if let (Some(grown), false) = (broker.grown_at.get(&topic), of.foreign) {
            let ago_ms = millis_since(world, *grown);
            if ago_ms < refresh_ms {
                refusals.push(Refusal::RecentGrowth {
                    topic: topic.clone(),
                    ago_ms,
                    refresh_ms,
                });
            }
        }
        let needed_ms = refresh_ms.saturating_add(world.wanted.order_grace_ms);
        match broker.retention_ms.get(&topic) {
            Some(retention_ms) if *retention_ms < needed_ms => {
                refusals.push(Refusal::RetentionShort {
                    topic,
                    retention_ms: *retention_ms,
                    needed_ms,
                });
            }
            Some(_) | None => {}
        }
    }
}

/// Tasks that are fenced by a transaction need the right to one; those of other subscriptions do not.
fn seals(world: &World, plan: &RescaleStatus, broker: &BrokerFacts, refusals: &mut Vec<Refusal>) {
    for of in plan
        .subscriptions
        .iter()
        .filter(|of| exactly_once(world, &of.name))
    {
        let unable = (0..of.from)
            .filter_map(|partition| task(of, partition))
            .find(|task| broker.rights.no_seal.contains(task));
        if let Some(task) = unable {
            let task = task.to_string();
            refusals.push(Refusal::NoRightToSeal { task });
        }
    }
}

pub(super) fn exactly_once(world: &World, subscription: &str) -> bool {
    let of = world.wanted.subscriptions.iter();
    // Of one that left the spec nobody can say that it does without.
    of.filter(|of| of.name == subscription)
        .all(|of| of.exactly_once)
}

fn growing_subscriptions(world: &World, plan: &RescaleStatus, refusals: &mut Vec<Refusal>) {
    for topic in &plan.topics {
        for of in readers(&world.wanted, &topic.name) {
            let subscription = of.name.clone();
            if !of.keyed {
                refusals.push(Refusal::Unkeyed { subscription });
            } else if !of.hash_declared {
                refusals.push(Refusal::HashUndeclared { subscription });
            }
        }
    }
    for of in plan.subscriptions.iter().filter(|of| of.from != of.to) {
        for (partition, pod) in (0..).zip(&of.old_pods) {
            if word(world, of, partition, *pod).is_some_and(|word| word.misplaced) {
                let task = format!("{}/{partition}", of.name);
                refusals.push(Refusal::Misplaced { task });
            }
        }
    }
}

/// What comes to a volume from others; what is there already is linked.
fn disks(world: &World, plan: &RescaleStatus, refusals: &mut Vec<Refusal>) {
    let mut needed: BTreeMap<i32, u64> = BTreeMap::new();
    for of in moves(world, plan) {
        if of.old_pod != of.new_pod {
            let sum = needed.entry(of.new_pod).or_default();
            *sum = sum.saturating_add(of.bytes);
        }
    }
    for (pod, needed) in needed {
        match world.pods.get(&pod) {
            Some(PodFacts::Answers(word)) => match word.free_bytes {
                Some(free) if free < needed => {
                    refusals.push(Refusal::DiskShort { pod, free, needed });
                }
                Some(_) => {}
                None => refusals.push(Refusal::DiskUnknown { pod }),
            },
            // A pod that is still to be made brings a volume as large as the others; one that is silent is named elsewhere.
            Some(PodFacts::Silent(_)) | None => {}
        }
    }
}

/// What a plan may cost beyond the pause.
#[must_use]
pub fn warnings(world: &World, plan: &RescaleStatus) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for of in plan.subscriptions.iter().filter(|of| of.from != of.to) {
        let frontiers: Vec<i64> = (0..)
            .zip(&of.old_pods)
            .filter_map(|(partition, pod)| word(world, of, partition, *pod)?.frontier_ms)
            .collect();
        let (Some(least), Some(most)) = (frontiers.iter().min(), frontiers.iter().max()) else {
            continue;
        };
        let spread_ms = most.abs_diff(*least);
        let wanted = world.wanted.subscriptions.iter();
        let out_of_orderness_ms = wanted
            .filter(|wanted| wanted.name == of.name)
            .map(|wanted| wanted.out_of_orderness_ms)
            .max()
            .unwrap_or_default();
        if spread_ms > out_of_orderness_ms {
            warnings.push(Warning::SpreadOfFrontiers {
                subscription: of.name.clone(),
                spread_ms,
                out_of_orderness_ms,
            });
        }
    }
    warnings
}

/// Milliseconds since a time; 0 of one that is still to come.
fn millis_since(world: &World, then: jiff::Timestamp) -> u64 {
    let millis = world
        .now
        .as_millisecond()
        .saturating_sub(then.as_millisecond());
    u64::try_from(millis).unwrap_or(0)
}
