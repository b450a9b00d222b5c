//! When the tails of old partitions close.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use turbine_crds::status::{RescaleStatus, RescaleSubscription, RescaleTopic};

use super::movement::{at, parts, word};
use super::world::{BrokerFacts, World};

pub(super) fn open_tails(world: &World, plan: &RescaleStatus) -> Vec<String> {
    let closed: BTreeMap<&str, bool> = plan
        .topics
        .iter()
        .map(|of| {
            let known = !of.closes.is_empty() && of.closes.iter().all(|close| *close >= 0);
            (of.name.as_str(), known)
        })
        .collect();
    let mut open = Vec::new();
    for of in &plan.subscriptions {
        let Some(known) = closed.get(of.topic.as_str()) else {
            continue;
        };
        for (partition, pod) in (0..).zip(&of.pods) {
            let done = *known
                && word(world, of, partition, *pod).is_some_and(|word| {
                    !word.moved_in_open
                        && readers_tails(of, partition)
                            .all(|old| word.tails.get(&old).is_some_and(|tail| tail.closed))
                });
            if !done {
                open.push(format!("{}/{partition}", of.name));
            }
        }
    }
    open
}

/// Old partitions of which a new task reads a tail.
fn readers_tails(of: &RescaleSubscription, partition: i32) -> impl Iterator<Item = i32> {
    let old = parts(of.from, of.to, partition).into_keys();
    old.filter(move |old| *old != partition)
}

/// The topic with the ends of those tails that all their readers found quiet for as long as a producer may use
/// the old count, and then for as long as it may try a record again.
pub(super) fn with_closes(
    world: &World,
    broker: &BrokerFacts,
    plan: &RescaleStatus,
    topic: &RescaleTopic,
) -> RescaleTopic {
    let ends = broker.ends.get(&topic.name);
    let mut closes: Vec<i64> = (0..topic.from)
        .map(|partition| {
            at(&topic.closes, partition)
                .filter(|close| *close >= 0)
                .or_else(|| {
                    quiet(world, plan, topic, partition).then_some(())?;
                    at(ends?, partition)
                })
                .unwrap_or(-1)
        })
        .collect();
    if closes.iter().all(|close| *close < 0) {
        closes.clear();
    }
    RescaleTopic {
        closes,
        ..topic.clone()
    }
}

fn quiet(world: &World, plan: &RescaleStatus, topic: &RescaleTopic, partition: i32) -> bool {
    let Some(grown_at) = topic.grown_at else {
        return false;
    };
    let mut last = grown_at;
    let mut read: Option<Timestamp> = Some(world.now);
    let subscriptions = plan
        .subscriptions
        .iter()
        .filter(|of| of.topic == topic.name);
    for of in subscriptions {
        for (new, pod) in (0..).zip(&of.pods) {
            if !readers_tails(of, new).any(|old| old == partition) {
                continue;
            }
            let tail = word(world, of, new, *pod).and_then(|word| word.tails.get(&partition));
            last = tail
                .and_then(|tail| tail.old_seen_at)
                .map_or(last, |seen| seen.max(last));
            // A reader that has not come to the end knows nothing of what lies behind.
            read = read.min(tail.and_then(|tail| tail.read_to_end_of));
        }
    }
    let wait_ms = world
        .wanted
        .producer_refresh_ms
        .saturating_add(world.wanted.order_grace_ms);
    let wait = SignedDuration::from_millis(i64::try_from(wait_ms).unwrap_or(i64::MAX));
    let since = last.checked_add(wait);
    matches!((read, since), (Some(read), Ok(since)) if read >= since)
}
