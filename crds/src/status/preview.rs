//! What a change of the layout would do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Annotation of a `TurbineApp` that asks for a preview: a [`PreviewRequest`] as JSON. The preview goes with it.
pub const PREVIEW: &str = "turbine.dev/rescale-preview";

/// A change that is asked about, on top of the spec.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreviewRequest {
    /// Told back, so that the answer to this question is known from one to another.
    pub id: String,
    /// By subscription.
    #[serde(default)]
    pub partitions: std::collections::BTreeMap<String, i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// What a change would do. Nothing of it was done.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct RescalePreview {
    /// Of the request.
    pub id: String,
    /// Topics that would be grown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<PreviewTopic>,
    /// State that would change its pod, by pods; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<PreviewMove>,
    /// Bytes that change their pod, estimated.
    pub bytes_to_move: i64,
    /// Milliseconds in which no task would run, if nothing was copied ahead; estimated.
    pub pause_ms: i64,
    /// Why it would not begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// What it may cost beyond the pause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Other apps that read the topics which would be grown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_apps: Vec<String>,
}

/// A topic that would be grown.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PreviewTopic {
    pub name: String,
    pub from: i32,
    pub to: i32,
}

/// State of a subscription that would go from one pod to another.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PreviewMove {
    pub subscription: String,
    /// Ordinals.
    pub from_pod: i32,
    pub to_pod: i32,
    pub key_groups: i32,
    pub bytes: i64,
}
