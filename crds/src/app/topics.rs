//! Topics that Turbine creates.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::kafka::settings;
use super::state::OnDelete;
use crate::rules::{cel, limits};

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
