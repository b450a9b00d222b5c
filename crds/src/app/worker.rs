//! The worker pods.

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::rules::{cel, limits};

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
