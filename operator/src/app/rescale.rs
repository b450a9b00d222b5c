//! Carries out the steps of a change of the layout.

use futures::future::join_all;
use serde_json::json;
use turbine_crds::app::TurbineApp;
use turbine_crds::control::RescaleDocument;
use turbine_crds::status::{RescaleStatus, TurbineAppStatus};

use super::apply::{ActError, Done, signal};
use super::plan::Known;
use super::plan::rescale::{Act, Journal};
use super::{World, names};
use crate::cluster::Kind;
use crate::kafka::{Grew, KafkaAccess, SealDone, SealOrder};
use crate::signals::Signal;
use crate::workers::WorkerTarget;

/// Does steps that follow from one record: what is told and sealed all at once, since tasks may stand still.
///
/// # Errors
/// The first of what the API server or Kafka refused or did not answer. The others were tried all the same.
pub(super) async fn perform(
    world: &World,
    known: &Known<'_>,
    steps: &[Act],
) -> Result<Done, ActError> {
    let results = join_all(steps.iter().map(|step| one(world, known, step))).await;
    let mut done = Done::Same;
    for result in results {
        if result? == Done::Changed {
            done = Done::Changed;
        }
    }
    Ok(done)
}

async fn one(world: &World, known: &Known<'_>, step: &Act) -> Result<Done, ActError> {
    let seen = known.seen;
    let namespace = seen.namespace();
    match step {
        Act::Mark {
            claim,
            uid,
            resource_version,
            mark,
        } => {
            let patch = json!({"metadata": {
                "uid": uid,
                "resourceVersion": resource_version,
                "annotations": { names::RESCALE: written(mark)? },
            }});
            world
                .cluster
                .merge(Kind::PersistentVolumeClaim, &namespace, claim, &patch)
                .await?;
            Ok(Done::Changed)
        }
        Act::Tell { pod, plan } => Ok(tell(world, known, *pod, plan).await),
        Act::Grow { topic, to, .. } => match world.kafka.grow(access(known)?, topic, *to).await? {
            Grew::Now => {
                signal(world, seen, Signal::TopicGrown { topic, to: *to }).await;
                Ok(Done::Changed)
            }
            Grew::Before => Ok(Done::Same),
        },
        Act::Seal { task, epoch } => {
            let order = order(known, task, *epoch)?;
            match world.kafka.seal(access(known)?, &order).await? {
                SealDone::Sealed => {
                    let epoch = *epoch;
                    signal(world, seen, Signal::TaskFenced { task, epoch }).await;
                    Ok(Done::Changed)
                }
                SealDone::Before => Ok(Done::Same),
                SealDone::TooLate { found } => {
                    signal(world, seen, Signal::FencedBefore { task, by: found }).await;
                    Ok(Done::Same)
                }
            }
        }
        Act::Resize {
            uid,
            resource_version,
            replicas,
            ..
        } => {
            let patch = json!({
                "metadata": { "uid": uid, "resourceVersion": resource_version },
                "spec": { "replicas": replicas },
            });
            let name = names::stateful_set(&seen.name());
            world
                .cluster
                .merge(Kind::StatefulSet, &namespace, &name, &patch)
                .await?;
            Ok(Done::Changed)
        }
        Act::DeleteClaim {
            claim,
            uid,
            resource_version,
        } => {
            let kind = Kind::PersistentVolumeClaim;
            world
                .cluster
                .delete_unchanged(kind, &namespace, claim, uid, resource_version)
                .await?;
            let why = "its pod has gone, it was empty, and spec.state.volume.onScaleDown is delete";
            signal(world, seen, Signal::VolumeDeleted { claim, why }).await;
            Ok(Done::Changed)
        }
    }
}

fn written(mark: &Journal) -> Result<String, ActError> {
    serde_json::to_string(mark)
        .map_err(|error| ActError::Defect(format!("a plan cannot be written as JSON ({error})")))
}

fn access<'a>(known: &'a Known<'_>) -> Result<&'a KafkaAccess, ActError> {
    known.asked.access.as_ref().ok_or_else(|| {
        ActError::Defect("a plan is to go on at Kafka and the way there is unknown".to_owned())
    })
}

fn order(
    known: &Known<'_>,
    task: &turbine_protocol::layout::Task,
    epoch: i64,
) -> Result<SealOrder, ActError> {
    let defect = |what: &str| ActError::Defect(format!("task {task} cannot be sealed: {what}"));
    let status = known.seen.status();
    let topic = status
        .rescale
        .iter()
        .flat_map(|plan| &plan.subscriptions)
        .find(|of| of.name == task.subscription.as_str())
        .map(|of| of.topic.parse());
    let app_id = known.specs.first().map(|app| app.app_id().as_str().parse());
    match (topic, app_id) {
        (Some(Ok(topic)), Some(Ok(app_id))) => Ok(SealOrder {
            app_id,
            task: task.clone(),
            topic,
            epoch,
        }),
        (_, _) => Err(defect("its topic or its app's id is unknown")),
    }
}

/// Not taken is no failure of the pass: the next one sees what the worker follows.
async fn tell(world: &World, known: &Known<'_>, pod: i32, plan: &RescaleStatus) -> Done {
    let seen = known.seen;
    let name = format!("{}-{pod}", names::stateful_set(&seen.name()));
    let target: Option<&WorkerTarget> = known.asked.workers.get(&name).map(|(target, _)| target);
    let lineage = seen.status().layout.map(|layout| layout.lineage);
    let (Some(token), Some(target), Some(app), Some(lineage)) =
        (&known.asked.token, target, known.specs.first(), lineage)
    else {
        return Done::Same;
    };
    let document = RescaleDocument {
        app_id: app.app_id().to_string(),
        lineage,
        producer_refresh_ms: app.rescale().producer_refresh_ms(),
        order_grace_ms: app.rescale().order_grace_ms(),
        plan: plan.clone(),
    };
    if let Err(why) = world.workers.tell(target, token, &document).await {
        let (pod, why) = (name.as_str(), why.as_str());
        signal(world, seen, Signal::PlanNotTaken { pod, why }).await;
        return Done::Same;
    }
    // A worker that took a record and does not say that it follows it is asked again by the next pass, not by this one.
    let (namespace, app) = (seen.namespace(), seen.name());
    let before = world
        .memory
        .with(&namespace, &app, |of| of.told.insert(name, plan.number()));
    if before == Some(plan.number()) {
        Done::Same
    } else {
        Done::Changed
    }
}

/// Says that a step was put on record.
pub(super) async fn told_of_step(world: &World, app: &TurbineApp, before: &TurbineAppStatus) {
    let now = app
        .status
        .as_ref()
        .and_then(|status| status.rescale.as_ref());
    let step = |plan: &RescaleStatus| (plan.epoch, plan.step);
    if let Some(plan) = now
        && before.rescale.as_ref().map(step) != Some(step(plan))
    {
        world.signals.give(app, &Signal::RescaleStep { plan }).await;
    }
}
