//! Carries out acts, one API call each, in the order in which they were planned.

use rand::Rng as _;
use serde_json::{Value, json};
use turbine_crds::app::TurbineApp;
use turbine_protocol::{Category, Fault};

use super::plan::{Act, Known, Why};
use super::rescale;
use super::seen::Seen;
use super::{World, build, names};
use crate::cluster::{ClusterError, Kind, Propagation};
use crate::kafka::{Created, KafkaFault};
use crate::signals::Signal;

/// An act that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Kafka(#[from] KafkaFault),
    #[error("{0}: this is a defect of the operator")]
    Defect(String),
}

impl Fault for ActError {
    fn category(&self) -> Category {
        match self {
            Self::Cluster(error) => error.category(),
            Self::Kafka(error) => error.category(),
            Self::Defect(_) => Category::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Cluster(error) => error.reason(),
            Self::Kafka(error) => error.reason(),
            Self::Defect(_) => "OperatorDefect",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            Self::Cluster(error) => error.passes_by_itself(),
            Self::Kafka(error) => error.passes_by_itself(),
            Self::Defect(_) => false,
        }
    }
}

/// What an act changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// Something that the next look will show.
    Changed,
    /// Nothing that another look would show at once.
    Same,
}

/// Does one act.
///
/// # Errors
/// If the API server or Kafka refuses, or does not answer.
///
/// `app` is the app as stored last: the status may have been written since `known` was read.
pub(crate) async fn perform(
    world: &World,
    known: &Known<'_>,
    app: &TurbineApp,
    act: &Act,
) -> Result<Done, ActError> {
    let seen = known.seen;
    let namespace = seen.namespace();
    match act {
        Act::CreateRevision(built) => {
            match world
                .cluster
                .create(built.kind, &namespace, &built.object)
                .await
            {
                Ok(()) | Err(ClusterError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            signal(
                world,
                seen,
                Signal::SpecAccepted {
                    revision: &built.name,
                },
            )
            .await;
        }
        Act::DeleteRevision { name, uid } => {
            delete(world, seen, Kind::ControllerRevision, name, uid).await?;
        }
        Act::CreateTopic(topic) => {
            let access = known.asked.access.as_ref().ok_or_else(|| {
                ActError::Defect("a topic is to be made and the way to Kafka is unknown".to_owned())
            })?;
            let created = world.kafka.create(access, topic).await?;
            match created {
                Created::Now => signal(world, seen, Signal::TopicCreated { topic }).await,
                Created::Existed => disown(world, app, &topic.name).await?,
            }
        }
        Act::CreateToken => create_token(world, seen).await?,
        Act::Apply { built, why } => {
            world
                .cluster
                .apply(built.kind, &namespace, &built.object)
                .await?;
            if let Why::Scaled { from, to } = why {
                signal(
                    world,
                    seen,
                    Signal::ScaledBack {
                        from: *from,
                        to: *to,
                    },
                )
                .await;
            }
            signal(
                world,
                seen,
                Signal::Applied {
                    kind: built.kind,
                    name: &built.name,
                },
            )
            .await;
        }
        Act::ReleaseStatefulSet { name, uid } => {
            world
                .cluster
                .delete(
                    Kind::StatefulSet,
                    &namespace,
                    name,
                    uid,
                    Propagation::Orphan,
                )
                .await?;
            signal(world, seen, Signal::StatefulSetReleased { name }).await;
        }
        Act::StopStatefulSet { name, uid } => {
            delete(world, seen, Kind::StatefulSet, name, uid).await?
        }
        Act::MarkClaim { name, uid, marks } => {
            claim(world, seen, name, uid, marks.clone()).await?;
            return Ok(Done::Changed);
        }
        Act::GrowClaim { name, uid, size } => {
            let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
            claim(world, seen, name, uid, patch).await?;
            signal(world, seen, Signal::VolumeGrown { claim: name, size }).await;
        }
        Act::DeleteClaim { name, uid, why } => {
            delete(world, seen, Kind::PersistentVolumeClaim, name, uid).await?;
            signal(world, seen, Signal::VolumeDeleted { claim: name, why }).await;
        }
        Act::ReplacePod { name, uid, why } => {
            delete(world, seen, Kind::Pod, name, uid).await?;
            signal(world, seen, Signal::StuckPodReplaced { pod: name, why }).await;
        }
        Act::DeleteOrphan { kind, name, uid } => delete(world, seen, *kind, name, uid).await?,
        Act::Push { target, document } => {
            let Some(token) = &known.asked.token else {
                return Ok(Done::Same);
            };
            // Not taken is no failure of the pass: the worker also reads the mounted document, and
            // the next pass compares again.
            if let Err(why) = world.workers.push(target, token, document).await {
                signal(
                    world,
                    seen,
                    Signal::PushRefused {
                        pod: &target.pod,
                        why: &why,
                    },
                )
                .await;
            }
            return Ok(Done::Same);
        }
        Act::SetFinalizers(finalizers) => {
            let patch = json!({"metadata": {
                "finalizers": finalizers,
                "resourceVersion": app.metadata.resource_version,
            }});
            match world
                .cluster
                .merge(Kind::TurbineApp, &namespace, &seen.name(), &patch)
                .await
            {
                Ok(()) | Err(ClusterError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Act::DeleteTopic(topic) => {
            if let Some(access) = &known.asked.access {
                world.kafka.delete(access, topic).await?;
                signal(world, seen, Signal::TopicDeleted { topic }).await;
            }
        }
        Act::Rescale(steps) => return rescale::perform(world, known, steps).await,
        Act::LeaveBehind { what, why } => {
            signal(world, seen, Signal::LeftBehind { what, why }).await;
            return Ok(Done::Same);
        }
    }
    Ok(Done::Changed)
}

pub(super) async fn signal(world: &World, seen: &Seen, signal: Signal<'_>) {
    world.signals.give(&seen.app, &signal).await;
}

async fn delete(
    world: &World,
    seen: &Seen,
    kind: Kind,
    name: &str,
    uid: &str,
) -> Result<(), ActError> {
    world
        .cluster
        .delete(kind, &seen.namespace(), name, uid, Propagation::Background)
        .await
        .map_err(ActError::from)
}

async fn claim(
    world: &World,
    seen: &Seen,
    name: &str,
    uid: &str,
    mut patch: Value,
) -> Result<(), ActError> {
    // The claim that was read, and not one that took its name since.
    patch["metadata"]["uid"] = json!(uid);
    world
        .cluster
        .merge(Kind::PersistentVolumeClaim, &seen.namespace(), name, &patch)
        .await
        .map_err(ActError::from)
}

/// The topic was there when we came to make it: it is on record as ours, and may be somebody's who
/// came in between. It is not deleted with the app then.
async fn disown(world: &World, app: &TurbineApp, topic: &str) -> Result<(), ActError> {
    let mut app = app.clone();
    if let Some(status) = &mut app.status {
        for record in status
            .topics
            .iter_mut()
            .filter(|record| record.name == topic)
        {
            record.created = false;
        }
    }
    world.cluster.replace_status(&app).await?;
    Ok(())
}

async fn create_token(world: &World, seen: &Seen) -> Result<(), ActError> {
    let mut random = [0_u8; 32];
    rand::rng().fill(&mut random);
    let name = seen.name();
    let built = build::token_secret(&seen.namespace(), &name, &seen.uid(), random)
        .map_err(|error| ActError::Defect(error.to_string()))?;
    debug_assert_eq!(built.name, format!("{name}{}", names::TOKEN_SUFFIX));
    match world
        .cluster
        .create(Kind::Secret, &seen.namespace(), &built.object)
        .await
    {
        Ok(()) | Err(ClusterError::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
