//! Decides: what is known in, the next status and the next acts out. Pure: time and chance are arguments.
//!
//! The status is a write-ahead journal. A plan whose journal is not stored yet has no acts: it is
//! stored first, the world is read again, and the next plan acts on what is on record.

mod claims;
mod condition_rules;
mod delete;
mod goal;
mod objects;
mod phase;
mod placement_rules;
mod pods;
pub mod rescale;
pub(crate) mod rescaling;
mod run;
mod topics;
mod verdict;

use jiff::Timestamp;
use serde_json::Value;
use turbine_crds::app::TurbineApp;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::status::{LayoutStatus, TurbineAppStatus};
use turbine_protocol::Lineage;

pub use phase::{next as next_phases, step as phase_step, table as phase_table};

use super::build::{BuildError, Built};
use super::conditions::{ConditionType, Conditions, Is};
use super::names;
use super::seen::{Asked, Seen, Specs};
use crate::cluster::Kind;
use crate::kafka::TopicWanted;
use crate::words::Trouble;
use crate::workers::WorkerTarget;

/// Everything a plan is made from.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub seen: &'a Seen,
    pub specs: &'a Specs,
    pub asked: &'a Asked,
    /// What the last try to act ran into, if it did.
    pub fault: Option<&'a Trouble>,
    pub now: Timestamp,
    /// Lineage of a life that may begin now.
    pub fresh: Lineage,
    /// Image of workers whose spec names none.
    pub default_image: Option<&'a str>,
}

/// One thing to do. Each can be repeated.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    CreateRevision(Built),
    DeleteRevision {
        name: String,
        uid: String,
    },
    CreateTopic(TopicWanted),
    /// Makes the Secret with the control API's token; the bytes are drawn when it is done.
    CreateToken,
    Apply {
        built: Built,
        why: Why,
    },
    /// Deletes the `StatefulSet` and leaves its pods, so that it can be made again with what cannot be changed in place.
    ReleaseStatefulSet {
        name: String,
        uid: String,
    },
    StopStatefulSet {
        name: String,
        uid: String,
    },
    MarkClaim {
        name: String,
        uid: String,
        marks: Value,
    },
    GrowClaim {
        name: String,
        uid: String,
        size: String,
    },
    DeleteClaim {
        name: String,
        uid: String,
        why: &'static str,
    },
    ReplacePod {
        name: String,
        uid: String,
        why: String,
    },
    DeleteOrphan {
        kind: Kind,
        name: String,
        uid: String,
    },
    Push {
        target: WorkerTarget,
        document: AssignmentDocument,
    },
    /// Sets the finalizers of the app, guarded by its resourceVersion.
    SetFinalizers(Vec<String>),
    DeleteTopic(String),
    /// Steps of a change of the layout, and what their orders to Kafka and workers need to know.
    Rescale(Vec<rescale::Act>),
    /// Something outside that should have been cleaned up is left, and why.
    LeaveBehind {
        what: String,
        why: String,
    },
}

/// Why an object is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Missing,
    Changed,
    /// Somebody scaled the workers beside the app.
    Scaled {
        from: i64,
        to: i64,
    },
}

/// When the next pass is due, if nothing happens before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// All is as it should be.
    Settled,
    /// Something is on its way.
    Moving,
    /// Tasks stand still until the next step of a plan.
    Paused,
    /// Something is in the way.
    Blocked,
}

/// What to write and what to do, in this order.
#[derive(Debug, Clone)]
pub struct Plan {
    pub status: TurbineAppStatus,
    pub acts: Vec<Act>,
    pub pace: Pace,
    /// The layout on kept volumes that this status puts on record.
    pub adopted: Option<LayoutStatus>,
}

/// The first write for a new generation, before anything else is looked at. `None` if this
/// generation was seen before.
pub fn acknowledge(app: &TurbineApp, now: Timestamp) -> Option<TurbineAppStatus> {
    let generation = app.metadata.generation?;
    let mut status = app.status.clone().unwrap_or_default();
    if status.observed_generation == Some(generation)
        || paused(app)
        || app.metadata.deletion_timestamp.is_some()
    {
        return None;
    }
    status.observed_generation = Some(generation);
    status.phase = status
        .phase
        .or_else(|| phase::step(None, turbine_crds::status::Phase::Pending));
    let mut conditions = Conditions::from(&status.conditions, generation, now);
    conditions.set(
        ConditionType::Ready,
        Is::Unknown,
        "NewGeneration",
        format!("generation {generation} was seen and is not judged yet"),
    );
    conditions.set(
        ConditionType::Reconciling,
        Is::True,
        "NewGeneration",
        format!("generation {generation} is being looked at"),
    );
    status.conditions = conditions.into_list();
    Some(status)
}

/// Whether the app carries the annotation that keeps the operator's hands off.
pub fn paused(app: &TurbineApp) -> bool {
    app.metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(names::PAUSED))
        .is_some_and(|value| value == "true")
}

/// The status of a paused app: what it was, and that it is paused.
pub fn pause(app: &TurbineApp, now: Timestamp) -> TurbineAppStatus {
    let mut status = app.status.clone().unwrap_or_default();
    // The generation is not marked as seen: nobody has looked at it.
    let generation = status.observed_generation.unwrap_or_default();
    let mut conditions = Conditions::from(&status.conditions, generation, now);
    conditions.set(
        ConditionType::Reconciling,
        Is::False,
        "Paused",
        format!(
            "the annotation {} keeps the operator's hands off; remove it to go on",
            names::PAUSED
        ),
    );
    status.conditions = conditions.into_list();
    status
}

/// The status of an app of which not everything could be read: what it was, and what is in the way.
pub fn blind(app: &TurbineApp, trouble: &Trouble, now: Timestamp) -> TurbineAppStatus {
    let mut status = app.status.clone().unwrap_or_default();
    let generation = app.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::from(&status.conditions, generation, now);
    let message = trouble.to_string();
    conditions.set(
        ConditionType::Ready,
        Is::Unknown,
        trouble.reason(),
        &*message,
    );
    conditions.set(
        ConditionType::Stalled,
        Is::True,
        trouble.reason(),
        &*message,
    );
    conditions.set(ConditionType::Degraded, Is::True, trouble.reason(), message);
    status.conditions = conditions.into_list();
    status
}

/// The next status and the next acts.
pub fn plan(known: &Known<'_>) -> Plan {
    if known.seen.app.metadata.deletion_timestamp.is_some() {
        delete::plan(known)
    } else {
        run::plan(known)
    }
}

fn defect(error: &BuildError) -> Trouble {
    Trouble::Act {
        reason: "OperatorDefect",
        message: error.to_string(),
        category: turbine_protocol::Category::Bug,
        person_must_act: true,
        about_topics: false,
    }
}
