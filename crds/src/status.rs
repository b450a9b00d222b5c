//! Status: the operator's write-ahead journal, and what people and tools read.

mod preview;
mod rescale;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use preview::{PREVIEW, PreviewMove, PreviewRequest, PreviewTopic, RescalePreview};
pub use rescale::{
    ReleasedClaim, RescaleStatus, RescaleStep, RescaleSubscription, RescaleTask, RescaleTopic,
};

/// Written only by the operator, only with `replace_status` under the resourceVersion that it read.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
pub struct TurbineAppStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Worker pods that exist. Read by the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Label selector of the worker pods, as text. Read by the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What is on disk now. Absent until the first layout was decided; once there it is never dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutStatus>,
    /// The last change of the layout. Kept after its end: its epoch is not used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescale: Option<RescaleStatus>,
    /// What the change would do that the annotation `turbine.dev/rescale-preview` asks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescale_preview: Option<RescalePreview>,
    /// Name of the `ControllerRevision` that holds the last accepted spec: what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_revision: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub subscriptions: Vec<SubscriptionStatus>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub topics: Vec<TopicStatus>,
    /// Partition counts of the inputs, for `kubectl get`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_version: Option<String>,
}

/// Where the app is. Computed from journal and world; never the truth itself.
#[derive(
    JsonSchema,
    Serialize,
    Deserialize,
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    strum::Display,
    strum::EnumIter,
)]
pub enum Phase {
    Pending,
    Provisioning,
    Starting,
    Running,
    /// The layout is being changed.
    Rescaling,
    Stopping,
    Suspended,
    Failed,
    Deleting,
}

/// Partition counts, pods and stores under one growing number.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct LayoutStatus {
    /// Random id of the app's state, made once.
    pub lineage: String,
    /// Number of the layout. Grows with each change of it.
    pub epoch: i64,
    /// Worker pods of this layout.
    pub replicas: i32,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub subscriptions: Vec<LayoutSubscription>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct LayoutSubscription {
    pub name: String,
    pub topic: String,
    pub partitions: i32,
    /// Layout epoch in which the stores of this subscription were made.
    pub store_epoch: i64,
    /// Ordinal of the pod of each task, since the layout was changed; before, it follows from the layout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<i32>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStatus {
    pub name: String,
    pub partitions: i32,
    pub running_tasks: i32,
    /// Partitions whose task stopped by itself, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub halted: Vec<HaltedTask>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HaltedTask {
    pub partition: i32,
    pub reason: String,
    pub message: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TopicStatus {
    pub name: String,
    pub role: TopicRole,
    pub partitions: i32,
    /// True if Turbine made the topic.
    pub created: bool,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum TopicRole {
    Input,
    Output,
    DeadLetter,
    Internal,
}
