//! What a pass knows: the objects as read, what the specs come to, and the answers of Kafka and the workers.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::Value;
use turbine_crds::app::TurbineApp;
use turbine_crds::status::TurbineAppStatus;
use turbine_crds::validated::ValidatedApp;

use super::layout::Counts;
use crate::cluster::Kind;
use crate::kafka::{BrokerFacts, KafkaAccess, KafkaSeen};
use crate::words::Trouble;
use crate::workers::{ControlToken, WorkerAnswer, WorkerTarget};

/// An app and everything of the cluster that concerns it, read within one pass.
#[derive(Debug, Clone)]
pub struct Seen {
    pub app: TurbineApp,
    /// Objects of the owned kinds that carry the app's label or one of its names.
    pub children: BTreeMap<(Kind, String), Value>,
    pub revisions: Vec<Value>,
    pub pods: Vec<Value>,
    /// Claims that carry the `appId`'s label or one of the app's claim names.
    pub claims: Vec<Value>,
    /// Lineages that other apps of the namespace live in: their volumes are not ours to take.
    pub other_lineages: BTreeSet<String>,
}

impl Seen {
    pub fn namespace(&self) -> String {
        self.app.namespace().unwrap_or_default()
    }

    pub fn name(&self) -> String {
        self.app.name_any()
    }

    pub fn uid(&self) -> String {
        self.app.uid().unwrap_or_default()
    }

    pub fn generation(&self) -> i64 {
        self.app.metadata.generation.unwrap_or_default()
    }

    pub fn status(&self) -> TurbineAppStatus {
        self.app.status.clone().unwrap_or_default()
    }

    pub fn child(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.children.get(&(kind, name.to_owned()))
    }
}

/// A spec that was accepted before, and what it comes to.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Name of the `ControllerRevision`.
    pub revision: String,
    /// The app as of then, with today's metadata.
    pub app: TurbineApp,
    pub validated: ValidatedApp,
}

/// What the current spec and the accepted one come to.
#[derive(Debug, Clone)]
pub struct Specs {
    pub current: Result<ValidatedApp, Trouble>,
    /// `None`: nothing was accepted yet, or the record is gone.
    pub accepted: Option<Accepted>,
    /// Why the accepted spec cannot be read.
    pub unreadable: Option<Trouble>,
}

impl Specs {
    /// Specs in the order of what should be asked about: the current one, else the accepted one.
    pub fn first(&self) -> Option<&ValidatedApp> {
        self.current
            .as_ref()
            .ok()
            .or_else(|| self.accepted.as_ref().map(|accepted| &accepted.validated))
    }
}

/// Answers of Kafka and of the workers.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `None`: there was no spec to ask for.
    pub kafka: Option<Result<KafkaSeen, Trouble>>,
    /// The way to Kafka, if all secrets are there.
    pub access: Option<KafkaAccess>,
    /// The app that came first with our identity, if one did.
    pub taken_by: Option<String>,
    pub token: Option<ControlToken>,
    /// What a change of the layout rests on; `None` if none is on its way or asked for.
    pub layout: Option<Result<BrokerFacts, Trouble>>,
    /// Other apps that read an input topic of this one; looked for when a preview is asked for.
    pub other_readers: Vec<String>,
    pub workers: BTreeMap<String, (WorkerTarget, WorkerAnswer)>,
}

impl Asked {
    /// Partition counts, as far as known.
    pub fn counts(&self) -> Counts {
        match &self.kafka {
            Some(Ok(seen)) => seen.counts.clone(),
            Some(Err(_)) | None => Counts::new(),
        }
    }
}

/// Text of a field of a plain object.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// Name of a plain object.
pub fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

/// Uid of a plain object.
pub fn uid_of(object: &Value) -> &str {
    text(object, "/metadata/uid").unwrap_or_default()
}

/// Whether a plain object is going away.
pub fn going(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(Value::is_string)
}

/// A time of a plain object.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer)?.parse().ok()
}

/// Uid and kind of the controlling owner.
pub fn controller_of(object: &Value) -> Option<(&str, &str, &str)> {
    object
        .pointer("/metadata/ownerReferences")?
        .as_array()?
        .iter()
        .find(|owner| owner["controller"] == true)
        .and_then(|owner| {
            Some((
                owner["kind"].as_str()?,
                owner["name"].as_str()?,
                owner["uid"].as_str()?,
            ))
        })
}

/// A label of a plain object.
pub fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(name)?.as_str()
}
