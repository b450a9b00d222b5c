//! Where results go.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{cel, limits};

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputSpec {
    /// Created if missing.
    #[schemars(length(max = limits::TOPIC))]
    #[x_kube(validation = cel::topic())]
    pub topic: String,
    /// Partition count if the topic is created. Default: that of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::OUTPUT_PARTITIONS))]
    #[x_kube(validation = cel::at_least_one_partition(), validation = cel::output_partitions())]
    pub partitions: Option<i32>,
    /// Result field that becomes the record key. Default: records without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub message_key: Option<String>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum ProcessingGuarantee {
    /// A crash can write results of the last interval a second time; state is never lost or doubled.
    AtLeastOnce,
    /// Results, state and offset count as one, once. Readers must read committed records only.
    ExactlyOnce,
}

/// What becomes of a task whose store is older than what was committed exactly once.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub enum OnCrashRecovery {
    /// What lies between is read again, without output.
    #[default]
    Replay,
    /// The task goes on behind it, and says what its state lacks.
    Accept,
    /// The task stops and says so.
    Stop,
}
