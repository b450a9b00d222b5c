//! The compiled app: the accepted spec with every default filled in and every text parsed. Workers read nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::app::{
    ColumnType, IdlePolicy, LogFormat, LogLevel, OnCrashRecovery, OnError, OnNullKey, OnRecreate,
    OnRetentionGap, PartitionHash, ProcessingGuarantee, SaslMechanism, TimeUnit,
};

/// File name of the compiled app in its ConfigMap and in the pod.
pub const COMPILED_APP_FILE: &str = "app.json";
/// Folder of the pod in which the ConfigMap of the compiled app is mounted.
pub const COMPILED_APP_DIR: &str = "/etc/turbine/app";
/// Folder of the pod in which Kafka secrets are mounted, one file per entry of [`KafkaSecretFile`].
pub const KAFKA_SECRET_DIR: &str = "/etc/turbine/kafka";
/// Folder of the pod in which the control API's token is mounted, file `token`.
pub const CONTROL_TOKEN_DIR: &str = "/etc/turbine/control";
/// Folder of the pod in which the credentials of the checkpoints' store are mounted, one file per entry of
/// [`CheckpointSecretFile`].
pub const CHECKPOINT_SECRET_DIR: &str = "/etc/turbine/checkpoints";
/// Mount path of the state volume.
pub const STATE_DIR: &str = "/var/lib/turbine";
/// Port of the control API.
pub const CONTROL_PORT: u16 = 8400;

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledApp {
    pub app_id: String,
    pub kafka: CompiledKafka,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
    pub subscriptions: Vec<CompiledSubscription>,
    pub topics: CompiledTopics,
    /// What becomes of state and offsets of an earlier life.
    #[serde(default, skip_serializing_if = "is_adopt")]
    pub on_recreate: OnRecreate,
    /// Left out where all is as by default, so that workers of earlier versions read the rest.
    #[serde(default, skip_serializing_if = "CompiledCheckpoints::is_default")]
    pub checkpoints: CompiledCheckpoints,
    /// Partition counts that do not divide 960 carry keyed state all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_non_divisor_partitions: bool,
}

impl CompiledApp {
    /// Whether a subscription is exactly once.
    #[must_use]
    pub fn writes_transactions(&self) -> bool {
        self.subscriptions
            .iter()
            .any(|one| one.processing_guarantee == ProcessingGuarantee::ExactlyOnce)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_adopt(on_recreate: &OnRecreate) -> bool {
    *on_recreate == OnRecreate::Adopt
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledKafka {
    pub bootstrap_servers: String,
    /// TLS on; which PEM files exist in [`KAFKA_SECRET_DIR`].
    pub tls: Option<CompiledTls>,
    pub sasl: Option<SaslMechanism>,
    pub properties: BTreeMap<String, String>,
}

/// Which of the PEM files are given.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledTls {
    pub ca: bool,
    pub client_certificate: bool,
}

/// Files in [`KAFKA_SECRET_DIR`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::AsRefStr, strum::EnumIter)]
pub enum KafkaSecretFile {
    #[strum(serialize = "ca.crt")]
    Ca,
    #[strum(serialize = "tls.crt")]
    Certificate,
    #[strum(serialize = "tls.key")]
    Key,
    #[strum(serialize = "username")]
    Username,
    #[strum(serialize = "password")]
    Password,
}

/// How often checkpoints are made, how many are kept, and where.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledCheckpoints {
    /// Between two checkpoints of a task.
    pub interval_ms: u64,
    /// Checkpoints kept per task.
    pub retain: u32,
    /// None: the worker's own volume.
    pub store: Option<CompiledCheckpointStore>,
}

/// A place of checkpoints other than the worker's own volume.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum CompiledCheckpointStore {
    /// A bucket.
    S3(CompiledS3),
    /// A folder that is there already.
    Folder(String),
}

impl Default for CompiledCheckpoints {
    fn default() -> Self {
        Self {
            interval_ms: 60_000,
            retain: 3,
            store: None,
        }
    }
}

impl CompiledCheckpoints {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A bucket of S3 or of what speaks like it.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledS3 {
    pub bucket: String,
    pub region: String,
    /// None: that of AWS.
    pub endpoint: Option<String>,
    /// Empty for none.
    pub prefix: String,
    pub path_style: bool,
    /// The credentials stand in [`CHECKPOINT_SECRET_DIR`]; otherwise the environment gives them.
    pub credentials: bool,
}

/// Files in [`CHECKPOINT_SECRET_DIR`], and keys of the Secret that the spec names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::AsRefStr, strum::EnumIter)]
pub enum CheckpointSecretFile {
    #[strum(serialize = "AWS_ACCESS_KEY_ID")]
    AccessKeyId,
    #[strum(serialize = "AWS_SECRET_ACCESS_KEY")]
    SecretAccessKey,
    /// Of credentials that end; need not be there.
    #[strum(serialize = "AWS_SESSION_TOKEN")]
    SessionToken,
}

impl CheckpointSecretFile {
    /// Whether a Secret may lack it.
    #[must_use]
    pub fn is_optional(self) -> bool {
        self == Self::SessionToken
    }
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledTopics {
    /// None: the broker's default.
    pub replication_factor: Option<i32>,
    pub config: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledSubscription {
    pub name: String,
    pub topic: String,
    /// Count asked for in the spec, if any.
    pub partitions: Option<i32>,
    pub columns: Vec<CompiledColumn>,
    pub event_time: CompiledEventTime,
    pub out_of_orderness_ms: u64,
    pub max_future_ms: u64,
    pub start_from: CompiledStart,
    /// Left out at its default, so that workers of earlier versions read the rest.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_retention_gap: OnRetentionGap,
    pub on_error: OnError,
    pub dlq: Option<String>,
    pub idle_timeout_ms: u64,
    pub idle_policy: IdlePolicy,
    pub partition_key: CompiledPartitionKey,
    /// None: undeclared; placement is observed only. Left out then, so that workers of earlier versions read the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_hash: Option<PartitionHash>,
    pub on_null_key: OnNullKey,
    pub windows: Vec<CompiledWindow>,
    pub output: CompiledOutput,
    pub processing_guarantee: ProcessingGuarantee,
    pub commit_interval_ms: u64,
    // Left out at their defaults, so that workers of earlier versions read the rest.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_crash_recovery: OnCrashRecovery,
    /// None: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt_if_gap_exceeds: Option<u64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub type_: ColumnType,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledEventTime {
    /// Name of the column.
    pub column: String,
    pub unit: TimeUnit,
}

#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum CompiledStart {
    Earliest,
    Latest,
    /// Epoch milliseconds.
    Timestamp(i64),
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum CompiledPartitionKey {
    /// One column: its canonical bytes. Several: the composite form with lengths.
    Columns(Vec<String>),
    RecordKey,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledWindow {
    pub name: String,
    pub size_ms: u64,
    pub keys: Vec<String>,
    pub aggregates: Vec<CompiledAggregate>,
    pub allowed_lateness_ms: u64,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledAggregate {
    /// Name of the result field.
    #[serde(rename = "as")]
    pub as_: String,
    pub function: AggregateFunction,
    /// None: counts rows.
    pub column: Option<String>,
}

#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum AggregateFunction {
    Count,
    Sum,
    Min,
    Max,
    Mean,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledOutput {
    pub topic: String,
    /// None: that of the input.
    pub partitions: Option<i32>,
    pub message_key: Option<String>,
}
