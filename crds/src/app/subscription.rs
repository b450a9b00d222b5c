//! A subscription: what is read, by which key, into which windows, to where.

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::input::InputSpec;
use super::output::{OnCrashRecovery, OutputSpec, ProcessingGuarantee};
use super::windows::WindowSpec;
use crate::rules::{cel, limits};
use crate::text::DurationText;

/// One named reader: input, key, windows, output.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[x_kube(
    validation = cel::misplaced_needs_hash(),
    validation = cel::transaction_length(),
    validation = cel::dlq_there(),
    validation = cel::dlq_used(),
    validation = cel::output_is_not_input(),
    validation = cel::dlq_is_not_input(),
    validation = cel::dlq_is_not_output(),
    validation = cel::keys_declared(),
    validation = cel::keys_not_float(),
    validation = cel::aggregates_declared(),
    validation = cel::sums_numeric(),
    validation = cel::message_key_is_result(),
    validation = cel::message_key_type()
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscriptionSpec {
    /// DNS label of at most 40 characters, unique in the app.
    #[schemars(length(max = limits::LABEL_TEXT))]
    #[x_kube(validation = cel::label("subscription"))]
    pub name: String,
    pub input: InputSpec,
    /// What places a row: a column, a list of columns, or `{recordKey: true}`.
    #[schemars(schema_with = "partition_key")]
    pub partition_key: PartitionKeySpec,
    /// By which hash of the partition key producers place records. Declared, every record is checked and one in the
    /// wrong partition never touches state. Default: undeclared; placement is observed and shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_hash: Option<PartitionHash>,
    /// What becomes of rows whose partition key is null. Default: group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_null_key: Option<OnNullKey>,
    #[schemars(length(min = 1, max = limits::WINDOWS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub windows: Vec<WindowSpec>,
    pub output: OutputSpec,
    /// Default: atLeastOnce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processing_guarantee: Option<ProcessingGuarantee>,
    /// Longest time between two commits. Default: 1s, or 100ms exactly once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::COMMIT_INTERVAL))]
    pub commit_interval: Option<DurationText>,
    /// With processingGuarantee exactlyOnce, where state is older than what was committed. Default: replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_crash_recovery: Option<OnCrashRecovery>,
    /// Most offsets by which state may be older than what was committed; above it the task stops. Default: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub halt_if_gap_exceeds: Option<i64>,
}

// Structural schemas have no unions. Without a type any shape is let through, and each bound below binds one shape
// only, so a shape is asked for by what it must not be: `not: {maxLength: 0}` holds for texts that are not empty.
fn partition_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-preserve-unknown-fields": true,
        "maxLength": limits::COLUMN_NAME,
        "maxItems": limits::KEYS,
        "maxProperties": 1,
        "anyOf": [
            { "not": { "maxLength": 0 } },
            { "not": { "maxItems": 0 } },
            { "not": { "maxProperties": 0 }, "required": ["recordKey"] }
        ]
    })
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum PartitionHash {
    /// That of Kafka's default partitioner.
    Murmur2,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OnNullKey {
    /// Null keys have a group of their own, with a result per partition.
    Group,
    Dlq,
    Drop,
}

/// What places a row: a column, a list of columns, or the record's own key.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(
    untagged,
    expecting = "write a column, a list of columns, or {recordKey: true}"
)]
pub enum PartitionKeySpec {
    Column(String),
    Columns(Vec<String>),
    RecordKey(RecordKeySpec),
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordKeySpec {
    pub record_key: bool,
}
