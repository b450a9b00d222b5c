//! What happens, said once: each happening knows its words, and is a log line, a count and an event.

mod live;

use async_trait::async_trait;
use turbine_crds::app::TurbineApp;
use turbine_crds::status::{LayoutStatus, RescaleStatus, RescaleStep, TurbineAppStatus};
use turbine_protocol::layout::Task;

pub use live::LiveSignals;

use crate::app::ActError;
use crate::cluster::Kind;
use crate::kafka::TopicWanted;

/// Something the operator did or found while acting on an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal<'a> {
    SpecAccepted { revision: &'a str },
    StateAdopted { layout: &'a LayoutStatus },
    TopicCreated { topic: &'a TopicWanted },
    TopicDeleted { topic: &'a str },
    Applied { kind: Kind, name: &'a str },
    ScaledBack { from: i64, to: i64 },
    StatefulSetReleased { name: &'a str },
    VolumeGrown { claim: &'a str, size: &'a str },
    VolumeDeleted { claim: &'a str, why: &'a str },
    StuckPodReplaced { pod: &'a str, why: &'a str },
    PushRefused { pod: &'a str, why: &'a str },
    LeftBehind { what: &'a str, why: &'a str },
    RescaleStep { plan: &'a RescaleStatus },
    TopicGrown { topic: &'a str, to: i32 },
    TaskFenced { task: &'a Task, epoch: i64 },
    FencedBefore { task: &'a Task, by: i64 },
    PlanNotTaken { pod: &'a str, why: &'a str },
}

/// How an event is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// In the log only: it happens often, and its effect can be seen elsewhere.
    Quiet,
    Normal,
    Warning,
}

impl Signal<'_> {
    /// Constant, for tools.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SpecAccepted { .. } => "SpecAccepted",
            Self::StateAdopted { .. } => "StateAdopted",
            Self::TopicCreated { .. } => "TopicCreated",
            Self::TopicDeleted { .. } => "TopicDeleted",
            Self::Applied { .. } => "Applied",
            Self::ScaledBack { .. } => "ScaledBack",
            Self::StatefulSetReleased { .. } => "StatefulSetMadeAgain",
            Self::VolumeGrown { .. } => "VolumeGrown",
            Self::VolumeDeleted { .. } => "VolumeDeleted",
            Self::StuckPodReplaced { .. } => "StuckPodReplaced",
            Self::PushRefused { .. } => "AssignmentNotTaken",
            Self::LeftBehind { .. } => "LeftBehind",
            Self::RescaleStep { .. } => "RescaleStep",
            Self::TopicGrown { .. } => "TopicGrown",
            Self::TaskFenced { .. } => "TaskFenced",
            Self::FencedBefore { .. } => "OperatorDeposed",
            Self::PlanNotTaken { .. } => "PlanNotTaken",
        }
    }

    /// What was being done, for the event.
    pub fn action(&self) -> &'static str {
        match self {
            Self::SpecAccepted { .. } => "Accept",
            Self::StateAdopted { .. } => "Adopt",
            Self::TopicCreated { .. } => "CreateTopic",
            Self::TopicDeleted { .. } | Self::VolumeDeleted { .. } | Self::LeftBehind { .. } => {
                "CleanUp"
            }
            Self::Applied { .. } => "Apply",
            Self::ScaledBack { .. } => "Scale",
            Self::StatefulSetReleased { .. } | Self::VolumeGrown { .. } => "GrowVolumes",
            Self::StuckPodReplaced { .. } => "ReplacePod",
            Self::PushRefused { .. } => "Assign",
            Self::RescaleStep { .. }
            | Self::TopicGrown { .. }
            | Self::TaskFenced { .. }
            | Self::FencedBefore { .. }
            | Self::PlanNotTaken { .. } => "Rescale",
        }
    }

    pub fn weight(&self) -> Weight {
        match self {
            Self::Applied { .. }
            | Self::PushRefused { .. }
            | Self::PlanNotTaken { .. }
            | Self::TaskFenced { .. }
            | Self::FencedBefore { .. } => Weight::Quiet,
            Self::SpecAccepted { .. }
            | Self::StateAdopted { .. }
            | Self::TopicCreated { .. }
            | Self::TopicDeleted { .. }
            | Self::StatefulSetReleased { .. }
            | Self::RescaleStep { .. }
            | Self::TopicGrown { .. }
            | Self::VolumeGrown { .. } => Weight::Normal,
            Self::ScaledBack { .. }
            | Self::VolumeDeleted { .. }
            | Self::StuckPodReplaced { .. }
            | Self::LeftBehind { .. } => Weight::Warning,
        }
    }

    /// For people.
    pub fn note(&self) -> String {
        match self {
            Self::SpecAccepted { revision } => {
                format!(
                    "the spec is valid and runs from now on (kept as ControllerRevision {revision})"
                )
            }
            Self::StateAdopted { layout } => {
                format!(
                    "adopted the kept volumes of {} workers: the app resumes from the state of lineage {}, epoch {}",
                    layout.replicas, layout.lineage, layout.epoch
                )
            }
            Self::TopicCreated { topic } => {
                format!(
                    "created topic `{}` with {} partitions",
                    topic.name, topic.partitions
                )
            }
            Self::TopicDeleted { topic } => {
                format!("deleted topic `{topic}`, as spec.topics.onDelete asks")
            }
            Self::Applied { kind, name } => format!("applied {kind} {name}"),
            Self::ScaledBack { from, to } => format!(
                "the StatefulSet was scaled to {from} beside the app and is set back to {to}: change spec.replicas of the TurbineApp, or point the autoscaler at it"
            ),
            Self::StatefulSetReleased { name } => {
                format!(
                    "StatefulSet {name} is made again around its running pods, since its volume template changed"
                )
            }
            Self::VolumeGrown { claim, size } => {
                format!("PersistentVolumeClaim {claim} grows to {size}")
            }
            Self::VolumeDeleted { claim, why } => {
                format!("deleted PersistentVolumeClaim {claim}: {why}")
            }
            Self::StuckPodReplaced { pod, why } => format!(
                "pod {pod} is of an old revision and cannot start ({why}): it was deleted so that the new revision can take its place; its volume is kept"
            ),
            Self::PushRefused { pod, why } => {
                format!("worker {pod} did not take its assignment: {why}")
            }
            Self::RescaleStep { plan } => {
                let pause = match (plan.step, plan.paused_at, plan.resumed_at) {
                    (RescaleStep::Verified, Some(from), Some(to)) => format!(
                        "; tasks stood still for {} ms",
                        to.as_millisecond().saturating_sub(from.as_millisecond())
                    ),
                    (_, _, _) => String::new(),
                };
                format!(
                    "the rescale of epoch {} is at {}{pause}",
                    plan.epoch, plan.step
                )
            }
            Self::TopicGrown { topic, to } => {
                format!("grew topic `{topic}` to {to} partitions, as input.partitions asks")
            }
            Self::TaskFenced { task, epoch } => {
                format!("task {task} was fenced and its receipt sealed for epoch {epoch}")
            }
            Self::FencedBefore { task, by } => format!(
                "task {task} was not sealed: epoch {by} has been there, so another operator leads"
            ),
            Self::PlanNotTaken { pod, why } => {
                format!("worker {pod} did not take the plan of the rescale: {why}")
            }
            Self::LeftBehind { what, why } => {
                format!("{what} could not be deleted with the app and are left: {why}")
            }
        }
    }
}

/// Where signals go. Giving one never fails a pass.
#[async_trait]
pub trait Signals: Send + Sync + std::fmt::Debug {
    /// Something was done to, or for, an app.
    async fn give(&self, app: &TurbineApp, signal: &Signal<'_>);

    /// An act failed in a way that it did not fail in the pass before.
    async fn failed(&self, app: &TurbineApp, error: &ActError);

    /// The status was written; what it was before is given.
    async fn status_changed(&self, app: &TurbineApp, before: &TurbineAppStatus);
}
