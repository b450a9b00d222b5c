//! The `TurbineApp` resource as users write it.

// KubeSchema copies each struct into a private scope, where `pub` reaches nobody.
#![allow(unreachable_pub)]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::rules::{cel, limits};
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
    doc = "A stateful stream-processing app over Kafka.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Partitions",
        type_ = "string",
        description = "Partition counts of the inputs",
        json_path = ".status.partitions"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        description = "Worker pods that exist",
        json_path = ".status.replicas"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type=='Ready')].message"
    ),
    validation = cel::resource_name(),
    validation = cel::app_id_stays()
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurbineAppSpec {
    /// Identity of the app at the broker and of its state. Cannot be changed. Default: the resource's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::LABEL_TEXT))]
    #[x_kube(validation = cel::label("appId"))]
    pub app_id: Option<String>,
    /// Worker pods (not tasks): useful up to the number of tasks. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::REPLICAS))]
    #[x_kube(validation = cel::replicas())]
    pub replicas: Option<i32>,
    /// Stop all workers and keep state and topics. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    pub kafka: KafkaSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerSpec>,
    /// Named readers. Order means nothing; the name is the identity of state, group and metrics.
    #[schemars(length(min = 1, max = limits::SUBSCRIPTIONS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]), validation = cel::no_loop())]
    pub subscriptions: Vec<SubscriptionSpec>,
    pub state: StateSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<TopicsSpec>,
    /// Any change of this text restarts the workers, pod by pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NONCE))]
    pub restart_nonce: Option<String>,
    /// Patch of the worker pods' `PodTemplateSpec`, merged as JSON; lists of objects with a `name` merge by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_object")]
    pub pod_overrides: Option<serde_json::Value>,
}

impl TurbineApp {
    /// Identity at the broker and of the state: `spec.appId`, or the resource's name. Not checked.
    pub fn app_id(&self) -> &str {
        match (&self.spec.app_id, &self.metadata.name) {
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => "",
        }
    }
}

fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

fn settings(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": limits::PROPERTIES,
        "additionalProperties": { "type": "string", "maxLength": limits::SETTING }
    })
}

fn kafka_properties(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = settings(generator);
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        serde_json::json!(cel::kafka_properties()),
    );
    schema
}

/// The Kafka cluster of the app. One per app.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaSpec {
    /// Comma-separated `host:port` list.
    #[schemars(length(max = limits::BOOTSTRAP))]
    #[x_kube(validation = cel::bootstrap())]
    pub bootstrap_servers: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<SaslSpec>,
    /// librdkafka settings. Those that would break guarantees are refused by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "kafka_properties")]
    pub properties: Option<BTreeMap<String, String>>,
}

/// TLS to the brokers. Present (even empty) means on.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[x_kube(validation = cel::tls_pair())]
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
    /// Name of the Secret.
    #[schemars(length(max = limits::SECRET_NAME))]
    #[x_kube(validation = cel::secret_name())]
    pub secret: String,
    /// Key in the Secret.
    #[schemars(length(max = limits::SECRET_NAME))]
    #[x_kube(validation = cel::secret_key())]
    pub key: String,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerSpec {
    /// Image of the worker. Default: the one that the operator's chart names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::IMAGE))]
    #[x_kube(validation = cel::image())]
    pub image: Option<String>,
    /// Requests and limits of the worker container. Memory budgets follow the memory limit. Default: 250m and 512Mi, limit 1Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resources")]
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

/// The two parts that a worker container has a use for; quantities as Kubernetes writes them.
fn resources(_: &mut SchemaGenerator) -> Schema {
    let quantities = json_schema!({
        "type": "object",
        "maxProperties": limits::PROPERTIES,
        "additionalProperties": { "x-kubernetes-int-or-string": true }
    });
    json_schema!({ "type": "object", "properties": { "limits": quantities, "requests": quantities } })
}

/// One named reader: input, key, windows, output.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[x_kube(
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
    /// Longest time between two commits. Default: 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::COMMIT_INTERVAL))]
    pub commit_interval: Option<DurationText>,
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
    #[schemars(range(min = 1, max = limits::PARTITIONS))]
    #[x_kube(validation = cel::at_least_one_partition())]
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
    /// What becomes of records that cannot be decoded or folded. Default: fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
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

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[x_kube(
    validation = cel::results_are_no_keys(),
    validation = cel::results_are_no_bounds(),
    validation = cel::keys_are_no_bounds()
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WindowSpec {
    /// DNS label, unique in the subscription; the identity of the window's state.
    #[schemars(length(max = limits::LABEL_TEXT))]
    #[x_kube(validation = cel::label("window"))]
    pub name: String,
    pub tumbling: TumblingSpec,
    /// Columns that group the rows. Contains the partition key's columns; with `recordKey`, the record's key groups
    /// the rows before them.
    #[schemars(length(max = limits::KEYS), inner(length(min = 1, max = limits::COLUMN_NAME)))]
    #[x_kube(validation = cel::keys_once())]
    pub keys: Vec<String>,
    #[schemars(length(min = 1, max = limits::AGGREGATES))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["as".into()]))]
    pub aggregates: Vec<AggregateSpec>,
    /// How long a window stays open after its end, in event time. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::LATENESS))]
    pub allowed_lateness: Option<DurationText>,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TumblingSpec {
    #[x_kube(validation = cel::duration_in(limits::WINDOW_SIZE))]
    pub size: DurationText,
}

/// One aggregate: exactly one of `count`, `sum`, `min`, `max`, `mean`, and the name of the result.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[x_kube(validation = cel::one_function())]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AggregateSpec {
    /// `{}` counts rows, `{column: c}` counts rows in which `c` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<CountSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub sum: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub min: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub max: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub mean: Option<String>,
    /// Name of the result field.
    #[schemars(length(min = 1, max = limits::COLUMN_NAME))]
    #[serde(rename = "as")]
    pub as_: String,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CountSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub column: Option<String>,
}

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
#[x_kube(validation = cel::storage_class_stays())]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeSpec {
    /// Default: the cluster's default class. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::STORAGE_CLASS))]
    pub storage_class_name: Option<String>,
    /// Quantity, for example 10Gi. May grow, never shrink.
    #[schemars(length(max = limits::QUANTITY))]
    #[x_kube(validation = cel::size(), validation = cel::size_grows())]
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
    #[schemars(range(min = 1, max = limits::REPLICATION))]
    #[x_kube(validation = cel::replication())]
    pub replication_factor: Option<i32>,
    /// Topic settings, for example `retention.ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "settings")]
    pub config: Option<BTreeMap<String, String>>,
    /// What becomes of topics that Turbine created when the app is deleted. Default: retain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDelete>,
}
