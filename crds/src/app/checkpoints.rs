//! Checkpoints of the state: how often, how many, where.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{cel, limits};
use crate::text::DurationText;

/// Copies of the state from which a worker starts when its volume has none.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointsSpec {
    /// Time between two checkpoints of a task. Default: 60s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::CHECKPOINT_INTERVAL))]
    pub interval: Option<DurationText>,
    /// Checkpoints kept per task, 2 to 100. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::retain())]
    pub retain: Option<i32>,
    /// Where they are kept. Default: the worker's own volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<CheckpointStoreSpec>,
}

/// `s3` or `folder`.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[x_kube(validation = cel::one_checkpoint_store())]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointStoreSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3StoreSpec>,
    /// Where `podOverrides` mount a volume that every pod and node sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::FOLDER))]
    #[x_kube(validation = cel::checkpoint_folder())]
    pub folder: Option<String>,
}

/// A bucket of S3 or of what speaks like it.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct S3StoreSpec {
    #[schemars(length(max = limits::BUCKET))]
    #[x_kube(validation = cel::bucket())]
    pub bucket: String,
    /// Default: us-east-1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::REGION))]
    #[x_kube(validation = cel::region())]
    pub region: Option<String>,
    /// `https://host:port` of the service. Default: that of AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::ENDPOINT))]
    #[x_kube(validation = cel::endpoint())]
    pub endpoint: Option<String>,
    /// Put before the paths of all objects, which begin with the app's `appId`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PREFIX))]
    #[x_kube(validation = cel::prefix())]
    pub prefix: Option<String>,
    /// The bucket's name stands in the path, not in the host's name. Default: true where `endpoint` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_style: Option<bool>,
    /// Name of a Secret with the keys `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, where they end, `AWS_SESSION_TOKEN`. Default:
    /// what the pod's environment gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SECRET_NAME))]
    #[x_kube(validation = cel::secret_name())]
    pub credentials_secret: Option<String>,
}
