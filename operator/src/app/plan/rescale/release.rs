//! What goes once the new tasks have committed.

use std::collections::BTreeSet;

use turbine_crds::app::OnDelete;
use turbine_crds::status::{ReleasedClaim, RescaleStatus, RescaleStep};

use super::advance::{after, again};
use super::closing::{open_tails, with_closes};
use super::wait::Wait;
use super::world::{PodFacts, World};

pub(super) fn verified(world: &World, plan: &RescaleStatus) -> Result<RescaleStatus, Wait> {
    let mut release = Vec::new();
    let mut unseen = Vec::new();
    for pod in plan.to_replicas..plan.from_replicas {
        match world.claims.get(&pod) {
            Some(claim) => release.push(ReleasedClaim {
                claim: claim.name.clone(),
                uid: claim.uid.clone(),
                empty: false,
            }),
            None => unseen.push(pod.to_string()),
        }
    }
    if !unseen.is_empty() {
        return Err(Wait::Claims(unseen));
    }
    Ok(RescaleStatus {
        release,
        ..after(world, plan, RescaleStep::OldStateReleased)
    })
}

pub(super) fn old_state_released(
    world: &World,
    plan: &RescaleStatus,
) -> Result<RescaleStatus, Wait> {
    let mut more = again(plan);
    for (pod, of) in (plan.to_replicas..).zip(&mut more.release) {
        of.empty |= match world.pods.get(&pod) {
            Some(PodFacts::Answers(word)) => word.heard >= plan.number() && word.stores.is_empty(),
            Some(PodFacts::Silent(_)) | None => false,
        };
    }
    if let Ok(broker) = &world.broker {
        more.topics = plan
            .topics
            .iter()
            .map(|of| with_closes(world, broker, plan, of))
            .collect();
    }
    if more.release != plan.release || more.topics != plan.topics {
        return Ok(more);
    }
    let left = old_state(world, plan);
    if !left.is_empty() {
        return Err(Wait::OldState(left));
    }
    let open = open_tails(world, plan);
    if !open.is_empty() {
        return Err(Wait::Tails(open));
    }
    Ok(after(world, plan, RescaleStep::Settled))
}

/// What is still to be removed.
fn old_state(world: &World, plan: &RescaleStatus) -> Vec<String> {
    let old: BTreeSet<(String, i64)> = plan
        .subscriptions
        .iter()
        .map(|of| (of.name.clone(), of.store_epoch))
        .collect();
    let mut left: Vec<String> = (0..plan.to_replicas)
        .filter(|pod| match world.pods.get(pod) {
            Some(PodFacts::Answers(word)) => !word.stores.is_disjoint(&old),
            Some(PodFacts::Silent(_)) | None => true,
        })
        .map(|pod| format!("pod {pod}"))
        .collect();
    left.extend(
        (plan.to_replicas..plan.from_replicas)
            .filter(|pod| world.pods.contains_key(pod))
            .map(|pod| format!("pod {pod}")),
    );
    let delete = world.wanted.on_scale_down == OnDelete::Delete;
    left.extend(plan.release.iter().filter_map(|of| {
        let there = world.claims.values().any(|claim| claim.uid == of.uid);
        ((delete && there) || !of.empty).then(|| format!("claim {}", of.claim))
    }));
    if world
        .set
        .as_ref()
        .is_none_or(|set| set.replicas != plan.to_replicas)
    {
        left.push("the StatefulSet's former size".to_owned());
    }
    left
}
