//! What is asked for: by the spec, or by a topic that another hand grew.

use std::collections::{BTreeMap, BTreeSet};

use turbine_crds::status::LayoutStatus;
use turbine_keygroups::PartitionCount;

use super::advance::placed;
use super::refusal::Refusal;
use super::world::{Wanted, WantedSubscription, World};

/// Another layout than the one on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub replicas: i32,
    /// New counts of the topics that change.
    pub counts: BTreeMap<String, i32>,
    /// Those of them that have this count already.
    pub grown: BTreeSet<String>,
}

/// What the layout should become; `None`: it is what is asked for.
///
/// # Errors
/// What is asked for and cannot be, all of it.
pub fn target(world: &World, layout: &LayoutStatus) -> Result<Option<Target>, Vec<Refusal>> {
    let mut target = Target {
        replicas: world.wanted.replicas,
        counts: BTreeMap::new(),
        grown: BTreeSet::new(),
    };
    let mut refusals = Vec::new();
    for (topic, laid) in laid(layout, &world.wanted) {
        match count(world, &topic, laid) {
            Ok(None) => {}
            Ok(Some((count, grown))) => {
                if grown {
                    target.grown.insert(topic.clone());
                }
                target.counts.insert(topic, count);
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    if target.replicas < layout.replicas {
        refusals.extend(left_behind(world, layout, target.replicas));
    }
    if target.replicas != layout.replicas {
        // By the whole hash nothing moves between pods but to a valid count.
        let stays = laid(layout, &world.wanted)
            .into_iter()
            .filter(|(topic, laid)| {
                !target.counts.contains_key(topic) && PartitionCount::try_from(*laid).is_err()
            });
        refusals.extend(stays.map(|(topic, laid)| Refusal::LayoutNotDivisor {
            topic,
            laid,
            replicas: layout.replicas,
        }));
    }
    let changes = !target.counts.is_empty() || target.replicas != layout.replicas;
    if world.wanted.suspended && (changes || !refusals.is_empty()) {
        refusals.push(Refusal::Suspended);
    }
    match (refusals.is_empty(), changes) {
        (false, _) => Err(refusals),
        (true, false) => Ok(None),
        (true, true) => Ok(Some(target)),
    }
}

/// State of subscriptions that left the spec, on pods that would go: nobody runs that could give it away.
fn left_behind(world: &World, layout: &LayoutStatus, replicas: i32) -> Vec<Refusal> {
    let resting = layout.subscriptions.iter().filter(|of| {
        let mut wanted = world.wanted.subscriptions.iter();
        !wanted.any(|wanted| wanted.name == of.name)
    });
    resting
        .filter(|of| {
            let pods = placed(world, &of.name, of.partitions);
            pods.iter().any(|pod| *pod >= replicas)
        })
        .map(|of| Refusal::StateLeftBehind {
            subscription: of.name.clone(),
            replicas: layout.replicas,
        })
        .collect()
}

/// Topics of subscriptions that run, with the count of the layout.
pub(super) fn laid(layout: &LayoutStatus, wanted: &Wanted) -> BTreeMap<String, i32> {
    layout
        .subscriptions
        .iter()
        .filter(|of| readers(wanted, &of.topic).any(|wanted| wanted.name == of.name))
        .map(|of| (of.topic.clone(), of.partitions))
        .collect()
}

pub(super) fn readers<'a>(
    wanted: &'a Wanted,
    topic: &'a str,
) -> impl Iterator<Item = &'a WantedSubscription> {
    wanted
        .subscriptions
        .iter()
        .filter(move |of| of.topic == topic)
}

/// The count that the subscriptions of a topic ask for together.
///
/// # Errors
/// If they do not agree.
pub(super) fn asked(wanted: &Wanted, topic: &str) -> Result<Option<i32>, Refusal> {
    let mut first: Option<(&str, i32)> = None;
    for of in readers(wanted, topic) {
        match (first, of.partitions) {
            (Some((one, count)), Some(other)) if count != other => {
                return Err(Refusal::CountsDiffer {
                    topic: topic.to_owned(),
                    one: one.to_owned(),
                    asked_by_one: count,
                    other: of.name.clone(),
                    asked_by_other: other,
                });
            }
            (None, Some(count)) => first = Some((&of.name, count)),
            (Some(_) | None, Some(_) | None) => {}
        }
    }
    Ok(first.map(|(_, count)| count))
}

/// The new count of a topic, if it is to have one, and whether it has it.
fn count(world: &World, topic: &str, laid: i32) -> Result<Option<(i32, bool)>, Refusal> {
    let asked = asked(&world.wanted, topic)?;
    let broker = match &world.broker {
        Ok(broker) => broker,
        // Nothing is asked for, and what another hand did is seen later.
        Err(_) if asked.is_none_or(|asked| asked == laid) => return Ok(None),
        Err(why) => return Err(Refusal::BrokerUnreachable { why: why.clone() }),
    };
    let Some(real) = broker.count(topic) else {
        if broker.silent > 0 || broker.counts.is_empty() {
            let why = "no broker answered".to_owned();
            return match asked {
                Some(asked) if asked != laid => Err(Refusal::BrokerUnreachable { why }),
                Some(_) | None => Ok(None),
            };
        }
        let topic = topic.to_owned();
        return Err(Refusal::TopicGone { topic, laid });
    };
    let asked = asked.unwrap_or(real);
    if asked == laid && real == laid {
        return Ok(None);
    }
    let topic = topic.to_owned();
    if asked < real || asked < laid {
        let real = real.max(laid);
        return Err(Refusal::CountNotLarger { topic, asked, real });
    }
    if PartitionCount::try_from(asked).is_err() {
        let count = u32::try_from(asked).unwrap_or(0);
        return Err(Refusal::CountNotDivisor { topic, count });
    }
    if real != laid && real != asked {
        return Err(Refusal::GrownOtherwise {
            topic,
            laid,
            real,
            asked,
        });
    }
    Ok(Some((asked, real == asked)))
}
