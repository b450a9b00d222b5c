//! From the order to stop to the first commits of the new tasks.

use turbine_crds::status::{RescaleStatus, RescaleStep, RescaleTopic};

use super::advance::after;
use super::checks::exactly_once;
use super::each::{broker, each_new, each_old, with_arrays};
use super::movement::{at, parts, task, word};
use super::wait::Wait;
use super::world::World;

pub(super) fn draining(world: &World, plan: &RescaleStatus) -> Result<RescaleStatus, Wait> {
    let broker = broker(world)?;
    let stops = each_old(plan, Wait::Stops, |of, partition, pod| {
        let said = word(world, of, partition, pod)
            .and_then(|word| word.stopped)
            .filter(|stop| stop.epoch == plan.epoch);
        let offset = if exactly_once(world, &of.name) {
            // What counts is what was sealed: a task that cannot be asked may have committed after its last word.
            let receipt = broker.receipts.get(&task(of, partition)?)?;
            (receipt.sealed && receipt.epoch == plan.epoch).then_some(receipt.offset)?
        } else {
            // Nothing fences it but itself. That its pod is gone is no proof: the StatefulSet makes it again.
            said?.offset
        };
        let topic = plan.topics.iter().find(|topic| topic.name == of.topic);
        if topic.is_some_and(|topic| topic.foreign) {
            // Only the task knows where the new placement begins.
            said?;
        }
        Some(offset)
    })?;
    let stopped = with_arrays(plan, stops, |of, stops| of.stops = stops);
    let topics = stopped
        .topics
        .iter()
        .map(|of| found_ends(world, &stopped, of));
    Ok(RescaleStatus {
        topics: topics.collect(),
        ..after(world, &stopped, RescaleStep::Stopped)
    })
}

/// The ends of a topic that another hand grew: in front of the first record of the new placement that a reader met, and of all that no
/// reader has read.
fn found_ends(world: &World, plan: &RescaleStatus, topic: &RescaleTopic) -> RescaleTopic {
    if !topic.foreign {
        return topic.clone();
    }
    let ends = (0..topic.from).map(|partition| {
        let readers = plan
            .subscriptions
            .iter()
            .filter(|of| of.topic == topic.name);
        readers
            .filter_map(|of| {
                let pod = at(&of.old_pods, partition)?;
                let said = word(world, of, partition, pod).and_then(|word| word.stopped);
                let stop = at(&of.stops, partition)?;
                Some(
                    said.and_then(|said| said.first_new)
                        .map_or(stop, |new| new.min(stop)),
                )
            })
            .min()
            .unwrap_or_default()
    });
    RescaleTopic {
        ends: ends.collect(),
        ..topic.clone()
    }
}

pub(super) fn stopped(world: &World, plan: &RescaleStatus) -> Result<RescaleStatus, Wait> {
    each_new(plan, Wait::Stores, |of, partition, pod| {
        let manifest = word(world, of, partition, pod)?.manifest.as_ref()?;
        let whole =
            manifest.epoch == plan.epoch && manifest.parts == parts(of.from, of.to, partition);
        whole.then(|| manifest.checksum.clone())
    })
    .map(|manifests| {
        let moved = with_arrays(plan, manifests, |of, manifests| of.manifests = manifests);
        after(world, &moved, RescaleStep::StateMoved)
    })
}

pub(super) fn started(world: &World, plan: &RescaleStatus) -> Result<RescaleStatus, Wait> {
    let broker = broker(world)?;
    each_new(plan, Wait::Commits, |of, partition, _| {
        let receipt = broker.receipts.get(&task(of, partition)?)?;
        (receipt.epoch == plan.epoch && !receipt.sealed && receipt.number >= 1).then_some(())
    })?;
    Ok(RescaleStatus {
        resumed_at: Some(world.now),
        ..after(world, plan, RescaleStep::Verified)
    })
}
