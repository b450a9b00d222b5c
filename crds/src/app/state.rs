//! The volumes that hold the state.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checkpoints::CheckpointsSpec;
use crate::rules::{cel, limits};

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StateSpec {
    pub volume: VolumeSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<CheckpointsSpec>,
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
    /// What becomes of the volumes of pods that go when `replicas` is lowered, once their state was given away. Default: retain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_scale_down: Option<OnDelete>,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OnDelete {
    Retain,
    Delete,
}

#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub enum OnRecreate {
    /// Resume from the kept state.
    #[default]
    Adopt,
    /// Stop and show the choice.
    Refuse,
    /// Delete the kept volumes and start empty.
    Discard,
}
