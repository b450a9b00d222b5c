//! When the tails of old partitions close: an end is proposed to all that read the partition, and is on record once all have agreed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use turbine_crds::status::{RescaleStatus, RescaleSubscription, RescaleTopic};
use turbine_keygroups::Partition;
use turbine_protocol::epochs::LayoutEpoch;
use turbine_protocol::rescale::{Closing, Millis, Moment, Proposal, Round, Waits};

use super::movement::{at, parts, word};
use super::world::{BrokerFacts, World};

/// A reader that cannot agree is not asked again sooner: each proposal takes the place of the one before, also of one that others are
/// about to agree on.
const LEAST_BETWEEN_MS: u64 = 1_000;

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
                        && old_partitions(of, partition)
                            .into_iter()
                            .all(|old| matches!(word.closing.get(&old), Some(Closing::Closed(_))))
                });
            if !done {
                open.push(format!("{}/{partition}", of.name));
            }
        }
    }
    open
}

/// Old partitions that a new task reads: its own, and those of which it has a tail.
fn old_partitions(of: &RescaleSubscription, partition: i32) -> Vec<i32> {
    let mut old: Vec<i32> = parts(of.from, of.to, partition).into_keys().collect();
    if partition < of.from && !old.contains(&partition) {
        old.push(partition);
    }
    old
}

/// The topic with the ends that were agreed on since, and with new proposals where it is time for them.
pub(super) fn with_closes(
    world: &World,
    broker: &BrokerFacts,
    plan: &RescaleStatus,
    topic: &RescaleTopic,
) -> RescaleTopic {
    let mut closes: Vec<i64> = (0..topic.from)
        .map(|partition| {
            at(&topic.closes, partition)
                .filter(|close| *close >= 0)
                .or_else(|| agreed(world, plan, topic, partition))
                .unwrap_or(-1)
        })
        .collect();
    let open = closes.iter().any(|close| *close < 0);
    if closes.iter().all(|close| *close < 0) {
        closes.clear();
    }
    let proposals = if open {
        proposals(world, broker, topic)
    } else {
        None
    };
    match proposals {
        Some((proposed, asked_at)) => RescaleTopic {
            closes,
            proposed,
            proposed_at: Some(asked_at),
            ..topic.clone()
        },
        None => RescaleTopic {
            closes,
            ..topic.clone()
        },
    }
}

fn moment(time: Timestamp) -> Moment {
    Moment(time.as_millisecond())
}

fn waits(world: &World) -> Waits {
    Waits {
        order_grace: Millis(world.wanted.order_grace_ms),
        producer_refresh: Millis(world.wanted.producer_refresh_ms),
        // Of no account here: it is about answers that workers get.
        metadata_grace: Millis(0),
    }
}

/// What is proposed for an old partition.
fn proposal(plan: &RescaleStatus, topic: &RescaleTopic, partition: i32) -> Option<Proposal> {
    Some(Proposal {
        epoch: LayoutEpoch::try_from(plan.epoch).ok()?,
        partition: Partition::try_from(partition).ok()?,
        end: at(&topic.proposed, partition)?.try_into().ok()?,
        asked_at: moment(topic.proposed_at?),
    })
}

/// The proposed end, if every reader of every subscription has agreed to it.
fn agreed(
    world: &World,
    plan: &RescaleStatus,
    topic: &RescaleTopic,
    partition: i32,
) -> Option<i64> {
    let proposal = proposal(plan, topic, partition)?;
    let grown_at = moment(topic.grown_at?);
    let subscriptions = plan
        .subscriptions
        .iter()
        .filter(|of| of.topic == topic.name);
    for of in subscriptions {
        let readers: Vec<(i32, i32)> = (0..)
            .zip(of.pods.iter().copied())
            .filter(|(new, _)| old_partitions(of, *new).contains(&partition))
            .collect();
        let names = readers
            .iter()
            .filter_map(|(new, _)| Partition::try_from(*new).ok());
        let mut round = Round::begin(proposal, grown_at, names, waits(world))?;
        for (new, pod) in readers {
            let said = word(world, of, new, pod).and_then(|word| word.closing.get(&partition));
            if let (Some(said), Ok(new)) = (said, Partition::try_from(new)) {
                round.answered(new, *said);
            }
        }
        round.end()?;
    }
    Some(proposal.end.get())
}

/// Whether ends that are asked for now may be proposed: producers have had their time since the growth, and readers theirs since the
/// last proposal.
#[must_use]
pub fn proposal_due(topic: &RescaleTopic, now: Timestamp, refresh_ms: u64, grace_ms: u64) -> bool {
    let open = topic.closes.is_empty() || topic.closes.iter().any(|close| *close < 0);
    let Some(grown_at) = topic.grown_at else {
        return false;
    };
    let earliest = moment(grown_at)
        .after(Millis(refresh_ms))
        .after(Millis(grace_ms));
    let again = topic
        .proposed_at
        .map(|last| moment(last).after(Millis(grace_ms.max(LEAST_BETWEEN_MS))));
    open && moment(now) >= earliest && again.is_none_or(|again| moment(now) >= again)
}

/// The ends as they are now, as proposals; none if it is too early, or an earlier proposal has to be given its time.
fn proposals(
    world: &World,
    broker: &BrokerFacts,
    topic: &RescaleTopic,
) -> Option<(Vec<i64>, Timestamp)> {
    let waits = waits(world);
    let asked = broker.ends_asked_at?;
    proposal_due(topic, asked, waits.producer_refresh.0, waits.order_grace.0).then_some(())?;
    let ends = broker.ends.get(&topic.name)?;
    let old = (0..topic.from).map(|partition| at(ends, partition));
    Some((old.collect::<Option<_>>()?, asked))
}
