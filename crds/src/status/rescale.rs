//! The journal of a rescale: what is on record before anything follows from it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change of the layout, from its request to its end. What it names is journalled before it is acted on.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct RescaleStatus {
    /// Layout epoch that the plan makes. Never used twice, also not by a plan that was undone.
    pub epoch: i64,
    /// Grows with each record of the plan. What is told carries both numbers; the higher ones hold.
    pub version: i64,
    /// Random id of this record. Two records of one number can come about when a status is restored while two operators run; by
    /// their ids they are told apart, and a record of a higher number is made.
    pub id: String,
    /// Generation of the spec that it came from.
    pub generation: i64,
    pub step: RescaleStep,
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub step_since: Timestamp,
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: Timestamp,
    pub from_replicas: i32,
    pub to_replicas: i32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub topics: Vec<RescaleTopic>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub subscriptions: Vec<RescaleSubscription>,
    /// Volumes whose pods go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["claim"]))]
    pub release: Vec<ReleasedClaim>,
    /// When the order to stop was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub paused_at: Option<Timestamp>,
    /// When every task had committed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub resumed_at: Option<Timestamp>,
    /// A newer generation that waits for the end of this plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_generation: Option<i64>,
    /// What keeps the step from ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// Tasks with something left to do; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<RescaleTask>,
}

/// Where a rescale is.
#[derive(
    JsonSchema,
    Serialize,
    Deserialize,
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    strum::EnumIter,
)]
pub enum RescaleStep {
    Requested,
    Announced,
    Growing,
    TopicGrown,
    Draining,
    Stopped,
    StateMoved,
    Started,
    Verified,
    OldStateReleased,
    Settled,
    /// Given up before a topic grew; the old layout goes on.
    Undone,
}

/// The partition count of a topic, before and after. Arrays are by old partition.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct RescaleTopic {
    pub name: String,
    pub from: i32,
    pub to: i32,
    /// Grown by another hand, so `ends` are what the readers found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// Offsets in front of which no record has the new placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<i64>,
    /// When every broker answered with the new count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub grown_at: Option<Timestamp>,
    /// By old partition: the end of the old placement that its readers were asked last to agree on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<i64>,
    /// When these were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub proposed_at: Option<Timestamp>,
    /// Offsets behind which no record has the old placement, as all readers agreed; -1 while not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closes: Vec<i64>,
}

/// What becomes of the tasks of a subscription.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct RescaleSubscription {
    pub name: String,
    pub topic: String,
    pub from: i32,
    pub to: i32,
    /// Of the old stores. The new ones have the plan's epoch.
    pub store_epoch: i64,
    /// Ordinal of the pod of each old task.
    pub old_pods: Vec<i32>,
    /// Ordinal of the pod of each new task.
    pub pods: Vec<i32>,
    /// By old task: the commit with which it held its frontier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<i64>,
    /// By old task: the offset that it was stopped at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<i64>,
    /// By new task: checksum of the manifest of its store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
}

/// A volume whose pod goes.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct ReleasedClaim {
    pub claim: String,
    pub uid: String,
    /// Its worker said that no state is on it.
    pub empty: bool,
}

/// How far a task is.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct RescaleTask {
    pub subscription: String,
    pub partition: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_to_move: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_moved: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_tails: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
}

impl RescaleStatus {
    /// Whether the plan has ended.
    #[must_use]
    pub fn over(&self) -> bool {
        matches!(self.step, RescaleStep::Settled | RescaleStep::Undone)
    }

    /// Whether tasks hold or stand for it, or their state is on its way: what runs may not change otherwise.
    #[must_use]
    pub fn in_motion(&self) -> bool {
        self.step < RescaleStep::Verified
    }

    /// Epoch and version, by which an older record is known.
    #[must_use]
    pub fn number(&self) -> (i64, i64) {
        (self.epoch, self.version)
    }

    /// What later steps rest on: all but what is only shown.
    #[must_use]
    pub fn durable(&self) -> Self {
        Self {
            waiting_generation: None,
            blocked_by: None,
            tasks: Vec::new(),
            ..self.clone()
        }
    }
}
