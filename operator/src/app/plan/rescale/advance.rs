//! When a step ends, and what the next one puts on record.

use turbine_crds::status::{LayoutStatus, RescaleStatus, RescaleStep};

use super::growth::{announced, growing, requested, topic_grown};
use super::movement::named;
use super::moving::{draining, started, stopped};
use super::next::Journal;
use super::release::{old_state_released, verified};
use super::wait::Wait;
use super::world::World;

/// The next record, or why there is none yet.
pub(super) fn advance(
    world: &World,
    layout: &LayoutStatus,
    plan: &RescaleStatus,
) -> Result<Journal, Wait> {
    let with = |rescale: RescaleStatus| Journal {
        layout: layout.clone(),
        rescale,
    };
    match plan.step {
        RescaleStep::Requested => requested(world, layout, plan).map(with),
        RescaleStep::Announced => announced(world, layout, plan).map(with),
        RescaleStep::Growing => growing(world, plan).map(with),
        RescaleStep::TopicGrown => topic_grown(world, plan).map(with),
        RescaleStep::Draining => draining(world, plan).map(with),
        RescaleStep::Stopped => stopped(world, plan).map(with),
        RescaleStep::StateMoved => Ok(Journal {
            layout: new_layout(world, layout, plan),
            rescale: after(world, plan, RescaleStep::Started),
        }),
        RescaleStep::Started => started(world, plan).map(with),
        RescaleStep::Verified => verified(world, plan).map(with),
        RescaleStep::OldStateReleased => old_state_released(world, plan).map(with),
        RescaleStep::Settled | RescaleStep::Undone => Err(Wait::Over),
    }
}

/// The same plan, one record on.
pub(super) fn again(plan: &RescaleStatus) -> RescaleStatus {
    RescaleStatus {
        version: plan.version.saturating_add(1),
        ..plan.clone()
    }
}

pub(super) fn after(world: &World, plan: &RescaleStatus, step: RescaleStep) -> RescaleStatus {
    RescaleStatus {
        step,
        step_since: world.now,
        ..again(plan)
    }
}

/// The layout that the plan makes. Every store of it is a new one, also where its pod stays: a sealed receipt is
/// followed only by one of a later store epoch. What the plan does not move stays on its pods, however many there are now.
fn new_layout(world: &World, layout: &LayoutStatus, plan: &RescaleStatus) -> LayoutStatus {
    let mut layout = layout.clone();
    layout.epoch = plan.epoch;
    layout.replicas = plan.to_replicas;
    for laid in &mut layout.subscriptions {
        match plan.subscriptions.iter().find(|of| of.name == laid.name) {
            Some(of) => {
                laid.partitions = of.to;
                laid.store_epoch = plan.epoch;
                laid.pods.clone_from(&of.pods);
            }
            None => laid.pods = placed(world, &laid.name, laid.partitions),
        }
    }
    layout
}

/// Pods of the tasks of a subscription by the layout that still is.
pub(super) fn placed(world: &World, subscription: &str, partitions: i32) -> Vec<i32> {
    let pods = (0..partitions).filter_map(|partition| {
        let task = named(subscription, partition)?;
        world.placement.get(&task).copied()
    });
    pods.collect()
}
