//! The topic that is read, its columns and its times.

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::rules::{cel, limits};
use crate::text::DurationText;

fn start_from(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-preserve-unknown-fields": true,
        "maxProperties": 1,
        "anyOf": [
            { "enum": ["earliest", "latest"] },
            { "not": { "maxProperties": 0 }, "required": ["timestamp"] }
        ]
    })
}

/// The topic to read and how.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[x_kube(
    validation = cel::divisor(),
    validation = cel::no_repartition(),
    validation = cel::event_time_column(),
    validation = cel::event_time_unit()
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputSpec {
    /// Never created by Turbine.
    #[schemars(length(max = limits::TOPIC))]
    #[x_kube(validation = cel::topic())]
    pub topic: String,
    /// Partition count that the topic must have. Must divide 960. Default: whatever the broker says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::PARTITIONS))]
    pub partitions: Option<i32>,
    pub format: InputFormat,
    /// Declared columns: what keys, times and aggregates use. Other fields of the records are ignored.
    #[schemars(length(min = 1, max = limits::COLUMNS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub columns: Vec<ColumnSpec>,
    pub event_time: EventTimeSpec,
    /// How far rows may be out of order in event time. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::LATENESS))]
    pub out_of_orderness: Option<DurationText>,
    /// A row further ahead of the wall clock goes to the error policy and never moves the frontier. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::MAX_FUTURE))]
    pub max_future: Option<DurationText>,
    /// Where to start when there is neither state nor a committed offset: `earliest`, `latest`, or
    /// `{timestamp: "2026-01-01T00:00:00Z"}`. Default: earliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "start_from")]
    pub start_from: Option<StartFrom>,
    /// What a task does when retention has removed records that it has not read. Default: stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_retention_gap: Option<OnRetentionGap>,
    /// What becomes of records that cannot be decoded or folded. Default: fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// What becomes of records whose key belongs to another partition; needs `partitionHash`. Default: followOnError.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_misplaced: Option<OnMisplaced>,
    /// Dead-letter topic; needed by, and only with, `onError: dlq` or `onNullKey: dlq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TOPIC))]
    #[x_kube(validation = cel::topic())]
    pub dlq: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleSpec>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum InputFormat {
    Json,
}

/// A column: a top-level field of the record and its type.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ColumnSpec {
    #[schemars(length(min = 1, max = limits::COLUMN_NAME))]
    pub name: String,
    #[serde(rename = "type")]
    pub type_: ColumnType,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub enum ColumnType {
    String,
    Int64,
    Float64,
    Bool,
    /// Text of RFC 3339 with an offset.
    Timestamp,
}

/// Which column holds the event time. Numbers need a unit, `timestamp` columns take none.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventTimeSpec {
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub field: String,
    /// Default: ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<TimeUnit>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum TimeUnit {
    S,
    Ms,
    Us,
    Ns,
}

/// `earliest`, `latest`, or `{timestamp: "2026-01-01T00:00:00Z"}`.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(
    untagged,
    expecting = "write earliest, latest, or {timestamp: \"2026-01-01T00:00:00Z\"}"
)]
pub enum StartFrom {
    Edge(LogEdge),
    Timestamp(StartTimestamp),
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum LogEdge {
    Earliest,
    Latest,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartTimestamp {
    /// RFC 3339 with an offset.
    pub timestamp: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub enum OnRetentionGap {
    /// The task stops and says which offsets are gone.
    #[default]
    Stop,
    /// The task goes on at the first record that is still there, and says what its state lacks.
    Accept,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OnError {
    /// The partition stops in front of the record; a condition names it.
    Fail,
    /// The record is dropped and counted.
    Skip,
    /// The raw record goes to the dead-letter topic.
    Dlq,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OnMisplaced {
    /// They go the way of `onError`.
    FollowOnError,
    /// They go through an internal topic to where they belong. Not in this version.
    Repartition,
}

/// What happens to event time when a partition is read to its end and stays silent.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IdleSpec {
    /// Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::IDLE_TIMEOUT))]
    pub timeout: Option<DurationText>,
    /// Default: coast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<IdlePolicy>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum IdlePolicy {
    /// After the timeout the frontier moves with the wall clock, so windows close.
    Coast,
    /// Only data moves the frontier: the same log gives the same results.
    Hold,
}
