//! The `TurbineApp` resource as users write it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::TurbineAppStatus;
use crate::text::DurationText;

/// A stateful stream-processing app over Kafka.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "turbine.dev",
    version = "v1alpha1",
    kind = "TurbineApp",
    plural = "turbineapps",
    shortname = "tapp",
    category = "all",
    namespaced,
    status = "TurbineAppStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurbineAppSpec {
    /// Identity of the app at the broker and of its state. Cannot be changed. Default: the resource's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// Worker pods (not tasks): useful up to the number of tasks. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Stop all workers and keep state and topics. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    pub kafka: KafkaSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerSpec>,
    /// Named readers. Order means nothing; the name is the identity of state, group and metrics.
    pub subscriptions: Vec<SubscriptionSpec>,
    pub state: StateSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<TopicsSpec>,
    /// Any change of this text restarts the workers, pod by pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_nonce: Option<String>,
    /// Patch of the worker pods' `PodTemplateSpec`, merged as JSON; lists of objects with a `name` merge by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_object")]
    pub pod_overrides: Option<serde_json::Value>,
}

fn free_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// The Kafka cluster of the app. One per app.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaSpec {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<SaslSpec>,
    /// librdkafka settings. Those that would break guarantees are refused by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, String>>,
}

/// TLS to the brokers. Present (even empty) means on.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsSpec {
    /// CA bundle (PEM) that signs the brokers' certificates. Default: the system's CAs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<SecretKeyRef>,
    /// Client certificate (PEM); needs `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SecretKeyRef>,
    /// Private key (PEM) of `certificate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretKeyRef>,
}

/// SASL login. The values stand in Secrets of the app's namespace.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SaslSpec {
    pub mechanism: SaslMechanism,
    pub username: SecretKeyRef,
    pub password: SecretKeyRef,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

/// One key of a Secret in the app's namespace.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyRef {
    pub secret: String,
    pub key: String,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerSpec {
    /// Image of the worker. Default: the one that the operator's chart names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Requests and limits of the worker container. Memory budgets follow the memory limit. Default: 250m and 512Mi, limit 1Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Default: info.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Default: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum LogFormat {
    Text,
    Json,
}

/// One named reader: input, key, windows, output.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscriptionSpec {
    /// DNS label of at most 40 characters, unique in the app.
    pub name: String,
    pub input: InputSpec,
    pub partition_key: PartitionKeySpec,
    /// What becomes of rows whose partition key is null. Default: group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_null_key: Option<OnNullKey>,
    pub windows: Vec<WindowSpec>,
    pub output: OutputSpec,
    /// Default: atLeastOnce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processing_guarantee: Option<ProcessingGuarantee>,
    /// Longest time between two commits. Default: 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_interval: Option<DurationText>,
}

/// The topic to read and how.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputSpec {
    /// Never created by Turbine.
    pub topic: String,
    /// Partition count that the topic must have. Must divide 960. Default: whatever the broker says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    pub format: InputFormat,
    /// Declared columns: what keys, times and aggregates use. Other fields of the records are ignored.
    pub columns: Vec<ColumnSpec>,
    pub event_time: EventTimeSpec,
    /// How far rows may be out of order in event time. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_orderness: Option<DurationText>,
    /// A row further ahead of the wall clock goes to the error policy and never moves the frontier. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_future: Option<DurationText>,
    /// Where to start when there is neither state nor a committed offset. Default: earliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_from: Option<StartFrom>,
    /// What becomes of records that cannot be decoded or folded. Default: fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Dead-letter topic; needed by, and only with, `onError: dlq` or `onNullKey: dlq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[serde(untagged)]
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
pub enum OnNullKey {
    /// Null keys have a group of their own, with a result per partition.
    Group,
    Dlq,
    Drop,
}

/// What happens to event time when a partition is read to its end and stays silent.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IdleSpec {
    /// Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// What places a row: a column, a list of columns, or the record's own key.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(untagged)]
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

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WindowSpec {
    /// DNS label, unique in the subscription; the identity of the window's state.
    pub name: String,
    pub tumbling: TumblingSpec,
    /// Columns that group the rows. Contains the partition key's columns.
    pub keys: Vec<String>,
    pub aggregates: Vec<AggregateSpec>,
    /// How long a window stays open after its end, in event time. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_lateness: Option<DurationText>,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TumblingSpec {
    pub size: DurationText,
}

/// One aggregate: exactly one of `count`, `sum`, `min`, `max`, `mean`, and the name of the result.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AggregateSpec {
    /// `{}` counts rows, `{column: c}` counts rows in which `c` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<CountSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<String>,
    /// Name of the result field.
    #[serde(rename = "as")]
    pub as_: String,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CountSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputSpec {
    /// Created if missing.
    pub topic: String,
    /// Partition count if the topic is created. Default: that of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    /// Result field that becomes the record key. Default: records without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_key: Option<String>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum ProcessingGuarantee {
    AtLeastOnce,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StateSpec {
    pub volume: VolumeSpec,
    /// What becomes of kept state of an earlier app of this namespace and `appId`. Default: adopt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_recreate: Option<OnRecreate>,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeSpec {
    /// Default: the cluster's default class. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Quantity, for example 10Gi. May grow, never shrink.
    pub size: String,
    /// What becomes of the volumes when the app is deleted. Default: retain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDelete>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OnDelete {
    Retain,
    Delete,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OnRecreate {
    /// Resume from the kept state.
    Adopt,
    /// Stop and show the choice.
    Refuse,
    /// Delete the kept volumes and start empty.
    Discard,
}

/// Topics that Turbine creates (outputs and dead letters).
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TopicsSpec {
    /// Default: the broker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_factor: Option<i32>,
    /// Topic settings, for example `retention.ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// What becomes of topics that Turbine created when the app is deleted. Default: retain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDelete>,
}
