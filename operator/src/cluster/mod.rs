//! The API server as a pass sees it: a few verbs over plain JSON, so that the same pass runs
//! against the real one and against a world in memory.

mod live;

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;
use thiserror::Error;
use turbine_crds::app::TurbineApp;
use turbine_protocol::{Category, Fault};

pub use live::LiveCluster;

/// The kinds that a pass reads or writes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumIter,
)]
pub enum Kind {
    ControllerRevision,
    ServiceAccount,
    Secret,
    ConfigMap,
    Service,
    PodDisruptionBudget,
    StatefulSet,
    PersistentVolumeClaim,
    Pod,
    TurbineApp,
}

impl Kind {
    /// Group and version as written in `apiVersion`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::ControllerRevision | Self::StatefulSet => "apps/v1",
            Self::ServiceAccount
            | Self::Secret
            | Self::ConfigMap
            | Self::Service
            | Self::PersistentVolumeClaim
            | Self::Pod => "v1",
            Self::PodDisruptionBudget => "policy/v1",
            Self::TurbineApp => "turbine.dev/v1alpha1",
        }
    }

    /// Name of the kind in paths.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::ControllerRevision => "controllerrevisions",
            Self::ServiceAccount => "serviceaccounts",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Service => "services",
            Self::PodDisruptionBudget => "poddisruptionbudgets",
            Self::StatefulSet => "statefulsets",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::Pod => "pods",
            Self::TurbineApp => "turbineapps",
        }
    }

    /// The kinds that an app owns and that are looked for by label. Secrets are not: they are read by
    /// name alone, so that the operator needs no right to list the Secrets of others.
    #[must_use]
    pub fn owned() -> &'static [Self] {
        &[
            Self::ServiceAccount,
            Self::ConfigMap,
            Self::Service,
            Self::PodDisruptionBudget,
            Self::StatefulSet,
        ]
    }
}

/// What happens to the pods of a deleted `StatefulSet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The children are left as they are.
    Orphan,
    /// The children go after it.
    Background,
}

/// An answer of the API server that is not the one hoped for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    /// The object changed since it was read; read again and go on.
    #[error("{object} changed in the meantime")]
    Conflict {
        /// Kind, namespace and name.
        object: String,
    },
    /// The object, or its namespace, is not there.
    #[error("{object} does not exist")]
    NotFound {
        /// Kind, namespace and name.
        object: String,
    },
    /// There is one already.
    #[error("{object} exists already")]
    AlreadyExists {
        /// Kind, namespace and name.
        object: String,
    },
    /// A right is missing, a quota is used up, or the namespace is going away.
    #[error(
        "the API server does not allow the operator to {verb} {object} ({message}): check the operator's role and the namespace's quotas"
    )]
    Forbidden {
        /// What was tried.
        verb: &'static str,
        /// Kind, namespace and name.
        object: String,
        /// The server's words.
        message: String,
    },
    /// The server refuses the object.
    #[error(
        "the API server refuses {object} ({message}): correct the part of the spec that it comes from, usually `podOverrides` or `worker.resources`"
    )]
    Invalid {
        /// Kind, namespace and name.
        object: String,
        /// The server's words.
        message: String,
    },
    /// No answer, or one that says to try again.
    #[error("the API server did not answer a {verb} of {object} ({message})")]
    Unavailable {
        /// What was tried.
        verb: &'static str,
        /// Kind, namespace and name.
        object: String,
        /// The client's words.
        message: String,
    },
    /// An answer that cannot be read.
    #[error("{object} cannot be read ({message}): is the installed CRD older than the operator?")]
    Unreadable {
        /// Kind, namespace and name.
        object: String,
        /// What does not fit.
        message: String,
    },
}

impl Fault for ClusterError {
    fn category(&self) -> Category {
        match self {
            Self::Invalid { .. } => Category::User,
            Self::Unreadable { .. } => Category::Bug,
            Self::Conflict { .. }
            | Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::Forbidden { .. }
            | Self::Unavailable { .. } => Category::Kubernetes,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "Conflict",
            Self::NotFound { .. } => "NotFound",
            Self::AlreadyExists { .. } => "AlreadyExists",
            Self::Forbidden { .. } => "Forbidden",
            Self::Invalid { .. } => "ObjectRefused",
            Self::Unavailable { .. } => "ApiServerUnavailable",
            Self::Unreadable { .. } => "Unreadable",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            Self::Conflict { .. } | Self::AlreadyExists { .. } | Self::Unavailable { .. } => true,
            Self::NotFound { .. }
            | Self::Forbidden { .. }
            | Self::Invalid { .. }
            | Self::Unreadable { .. } => false,
        }
    }
}

/// Kind, namespace and name, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'a>(pub(crate) Kind, pub(crate) &'a str, pub(crate) &'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.0, self.1, self.2)
    }
}

/// The verbs of a pass. Every one is an API call; none is repeated inside.
#[async_trait]
pub trait Cluster: Send + Sync + fmt::Debug {
    /// The object, without `managedFields`; `None` if there is none.
    async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ClusterError>;

    /// All objects of a namespace that carry the labels, without `managedFields`.
    async fn list(
        &self,
        kind: Kind,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Value>, ClusterError>;

    /// Makes an object that must not exist yet.
    async fn create(&self, kind: Kind, namespace: &str, object: &Value)
    -> Result<(), ClusterError>;

    /// Server-side apply as the operator's one field manager. Fields given are taken over; if the
    /// object carries a resourceVersion, a newer one at the server is a conflict.
    async fn apply(&self, kind: Kind, namespace: &str, object: &Value) -> Result<(), ClusterError>;

    /// JSON merge patch. A uid or resourceVersion in its metadata guards it.
    async fn merge(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), ClusterError>;

    /// Deletes the object if it still has this uid. One that is gone already is no error.
    async fn delete(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        propagation: Propagation,
    ) -> Result<(), ClusterError>;

    /// The same, and only if nobody wrote to it since it was read.
    async fn delete_unchanged(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: &str,
    ) -> Result<(), ClusterError>;

    /// Writes the status under the resourceVersion that `app` carries; the app as stored comes back.
    async fn replace_status(&self, app: &TurbineApp) -> Result<TurbineApp, ClusterError>;
}
