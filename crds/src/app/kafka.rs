//! How to reach the broker.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::rules::{cel, limits};

pub(super) fn settings(_: &mut SchemaGenerator) -> Schema {
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
