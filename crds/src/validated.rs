//! The app after its rules: what can be run. Only [`crate::rules::validate`] makes one.

use std::fmt;

use k8s_openapi::api::core::v1::{PodTemplateSpec, ResourceRequirements};
use serde_json::Value;
use turbine_protocol::AppId;

use crate::app::{OnDelete, OnRecreate};
use crate::compiled::{CompiledApp, KafkaSecretFile};

/// Namespace of an app whose file names none, as `kubectl` has it.
pub const DEFAULT_NAMESPACE: &str = "default";

/// An app that passed every rule. Nothing in it is left to default and nothing in it can be wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidatedApp {
    pub(crate) namespace: String,
    pub(crate) name: AppName,
    pub(crate) app_id: AppId,
    pub(crate) replicas: Replicas,
    pub(crate) suspended: bool,
    pub(crate) compiled: CompiledApp,
    pub(crate) worker: Worker,
    pub(crate) volume: Volume,
    pub(crate) on_recreate: OnRecreate,
    pub(crate) topics_on_delete: OnDelete,
    pub(crate) rescale: Rescale,
    pub(crate) restart_nonce: Option<String>,
    pub(crate) pod_overrides: Option<PodOverrides>,
    pub(crate) secrets: Vec<SecretFile>,
    pub(crate) checkpoint_secret: Option<String>,
}

impl ValidatedApp {
    /// Namespace of the resource.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the resource.
    pub fn name(&self) -> &AppName {
        &self.name
    }

    /// Identity at the broker and of the state.
    pub fn app_id(&self) -> &AppId {
        &self.app_id
    }

    /// Worker pods that are asked for, whether suspended or not.
    pub fn replicas(&self) -> Replicas {
        self.replicas
    }

    /// True if all workers are to stop and state and topics to stay.
    pub fn suspended(&self) -> bool {
        self.suspended
    }

    /// What the workers read.
    pub fn compiled(&self) -> &CompiledApp {
        &self.compiled
    }

    /// The worker container.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The volume of each pod.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// What becomes of kept state of an earlier app of this namespace and `appId`.
    pub fn on_recreate(&self) -> OnRecreate {
        self.on_recreate
    }

    /// What becomes of topics that Turbine made, when the app is deleted.
    pub fn topics_on_delete(&self) -> OnDelete {
        self.topics_on_delete
    }

    /// What a change of a partition count waits for.
    pub fn rescale(&self) -> Rescale {
        self.rescale
    }

    /// Text whose change restarts the workers.
    pub fn restart_nonce(&self) -> Option<&str> {
        self.restart_nonce.as_deref()
    }

    /// Patch of the pods' template.
    pub fn pod_overrides(&self) -> Option<&PodOverrides> {
        self.pod_overrides.as_ref()
    }

    /// Keys of Secrets that the pods mount in [`crate::compiled::KAFKA_SECRET_DIR`].
    pub fn secrets(&self) -> &[SecretFile] {
        &self.secrets
    }

    /// Secret that the pods mount in [`crate::compiled::CHECKPOINT_SECRET_DIR`].
    pub fn checkpoint_secret(&self) -> Option<&str> {
        self.checkpoint_secret.as_deref()
    }
}

/// Name of a `TurbineApp`: a DNS label of at most 40 characters, so that the names of all its children fit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppName(pub(crate) String);

impl AppName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for AppName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Number of worker pods: 1 to 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replicas(pub(crate) u16);

impl Replicas {
    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl From<Replicas> for i32 {
    fn from(replicas: Replicas) -> Self {
        Self::from(replicas.0)
    }
}

/// The worker container.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    pub(crate) image: Option<String>,
    pub(crate) resources: ResourceRequirements,
}

impl Worker {
    /// Image; none: the one that the operator's chart names.
    pub fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// Requests and limits. A memory limit is always there.
    pub fn resources(&self) -> &ResourceRequirements {
        &self.resources
    }
}

/// The volume of each pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub(crate) storage_class: Option<String>,
    pub(crate) size: VolumeSize,
    pub(crate) on_delete: OnDelete,
    pub(crate) on_scale_down: OnDelete,
}

impl Volume {
    /// Storage class; none: the cluster's default.
    pub fn storage_class(&self) -> Option<&str> {
        self.storage_class.as_deref()
    }

    /// Size that is asked for.
    pub fn size(&self) -> &VolumeSize {
        &self.size
    }

    /// What becomes of the volumes when the app is deleted.
    pub fn on_delete(&self) -> OnDelete {
        self.on_delete
    }

    /// What becomes of the volumes of pods that go when `replicas` is lowered, once their state was given away.
    pub fn on_scale_down(&self) -> OnDelete {
        self.on_scale_down
    }
}

/// A quantity of at least one byte, with the text in which it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSize {
    pub(crate) text: String,
    pub(crate) bytes: u64,
}

impl VolumeSize {
    /// As written, for example `10Gi`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Bytes, rounded up.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What is known of the producers when a partition count changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rescale {
    pub(crate) producer_refresh_ms: u64,
    pub(crate) order_grace_ms: u64,
}

impl Rescale {
    /// Milliseconds after which every producer has seen a new count.
    pub fn producer_refresh_ms(self) -> u64 {
        self.producer_refresh_ms
    }

    /// Milliseconds for which a producer tries a record again.
    pub fn order_grace_ms(self) -> u64 {
        self.order_grace_ms
    }
}

/// A patch that reads as a `PodTemplateSpec` and leaves alone what the operator owns.
#[derive(Debug, Clone, PartialEq)]
pub struct PodOverrides {
    pub(crate) patch: Value,
    pub(crate) template: PodTemplateSpec,
}

impl PodOverrides {
    /// The patch as the user wrote it: what is merged.
    pub fn patch(&self) -> &Value {
        &self.patch
    }

    /// The patch, read as a template.
    pub fn template(&self) -> &PodTemplateSpec {
        &self.template
    }
}

/// A key of a Secret and the file in the pod that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    pub(crate) file: KafkaSecretFile,
    pub(crate) secret: String,
    pub(crate) key: String,
}

impl SecretFile {
    /// The file in [`crate::compiled::KAFKA_SECRET_DIR`].
    pub fn file(&self) -> KafkaSecretFile {
        self.file
    }

    /// Name of the Secret in the app's namespace.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Key in the Secret.
    pub fn key(&self) -> &str {
        &self.key
    }
}
