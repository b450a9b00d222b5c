//! The `TurbineApp` resource as users write it.

// KubeSchema copies each struct into a private scope, where `pub` reaches nobody.
#![allow(unreachable_pub)]

mod checkpoints;
mod input;
mod kafka;
mod output;
mod rescale;
mod state;
mod subscription;
mod topics;
mod windows;
mod worker;

use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use checkpoints::{CheckpointStoreSpec, CheckpointsSpec, S3StoreSpec};
pub use input::{
    ColumnSpec, ColumnType, EventTimeSpec, IdlePolicy, IdleSpec, InputFormat, InputSpec, LogEdge,
    OnError, OnMisplaced, OnRetentionGap, StartFrom, StartTimestamp, TimeUnit,
};
pub use kafka::{KafkaSpec, SaslMechanism, SaslSpec, SecretKeyRef, TlsSpec};
pub use output::{OnCrashRecovery, OutputSpec, ProcessingGuarantee};
pub use rescale::RescaleSpec;
pub use state::{OnDelete, OnRecreate, StateSpec, VolumeSpec};
pub use subscription::{
    OnNullKey, PartitionHash, PartitionKeySpec, RecordKeySpec, SubscriptionSpec,
};
pub use topics::TopicsSpec;
pub use windows::{AggregateSpec, CountSpec, TumblingSpec, WindowSpec};
pub use worker::{LogFormat, LogLevel, WorkerSpec};

use crate::rules::{cel, limits};
use crate::status::TurbineAppStatus;

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
        name = "Rescale",
        type_ = "string",
        description = "Step of the last change of the layout",
        json_path = ".status.rescale.step"
    ),
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
    validation = cel::app_id_stays(),
    validation = cel::properties_beside_transactions()
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
    /// Run keyed state on input topics whose partition count does not divide 960. Such an app warns at every start and
    /// never rescales but to a valid count. `input.partitions` cannot ask for such a count: leave it out. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_non_divisor_partitions: Option<bool>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescale: Option<RescaleSpec>,
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
