//! What users are told when an app cannot be what its spec asks for: one entry per fault, with its
//! reason (a constant, for tools) and its words (for people), so that the same fault reads the same
//! in conditions, events and logs.

use std::fmt::Write as _;

use thiserror::Error;
use turbine_crds::rules::FieldError;
use turbine_protocol::{Category, Fault};

use crate::cluster::Kind;
use crate::kafka::KafkaFault;

/// Why a pass cannot go all the way.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Trouble {
    #[error("{}", list(.0))]
    InvalidSpec(Vec<FieldError>),
    #[error("{}", list(.0))]
    ChangeRefused(Vec<FieldError>),
    #[error(
        "the accepted spec in ControllerRevision {revision} cannot be read by this operator ({detail}); the workers run on unchanged, apply a spec that this operator accepts"
    )]
    AcceptedUnreadable { revision: String, detail: String },
    #[error("Secret {secret} {}: create it with the key {key}, as spec.kafka names it", if *.exists { "has no such key" } else { "does not exist" })]
    SecretMissing {
        secret: String,
        key: String,
        exists: bool,
    },
    #[error("{0}")]
    Kafka(KafkaFault),
    #[error(
        "input topic `{topic}` of subscription {subscription} does not exist; create it (Turbine never creates inputs), the app goes on by itself"
    )]
    InputTopicMissing { topic: String, subscription: String },
    #[error("{}", turbine_keygroups::divisor_refusal(.topic, *.count))]
    CountNotDivisor { topic: String, count: u32 },
    #[error(
        "input topic `{topic}` has {real} partitions and spec.subscriptions[{subscription}].input.partitions asks for {asked}: correct one of them (growing a topic comes with rescaling)"
    )]
    CountNotAsAsked {
        topic: String,
        subscription: String,
        asked: i32,
        real: i32,
    },
    #[error(
        "output topic `{topic}` exists with {real} partitions and spec.subscriptions[{subscription}].output.partitions asks for {asked}: write {real} there, leave it out, or name another topic (the operator never changes a topic that exists)"
    )]
    OutputCountNotAsAsked {
        topic: String,
        subscription: String,
        asked: i32,
        real: i32,
    },
    #[error(
        "TurbineApp {by} came first with appId `{app_id}` on the same Kafka cluster, and both would commit the same offsets: give one of them another spec.appId, or delete it"
    )]
    IdentityTaken { app_id: String, by: String },
    #[error(
        "volumes of an earlier app with appId `{app_id}` are in this namespace ({claims}) and spec.state.onRecreate is `refuse`: set it to `adopt` to resume from them, or to `discard` to delete them and start empty"
    )]
    KeptStateRefused { app_id: String, claims: String },
    #[error(
        "the kept volumes cannot be used: {detail}; nothing was started so that no state is lost. Restore what is missing, or recreate the app with spec.state.onRecreate: discard to start empty"
    )]
    KeptStateUnusable { detail: String },
    #[error(
        "{kind} {name} exists and is not this app's: rename it, delete it, or name the app differently (the operator never changes what it did not make)"
    )]
    ForeignObject { kind: Kind, name: String },
    #[error(
        "{kind} {name} of the deleted app of this name is still going away; the app goes on once it is gone"
    )]
    FormerObjectGoing { kind: Kind, name: String },
    #[error(
        "a rescale (epoch {epoch}) is at {step}: a spec with other subscriptions waits until its tasks run again, and goes on by itself"
    )]
    RescaleRuns { epoch: i64, step: String },
    #[error(
        "no worker image: set spec.worker.image, or give the operator a default with --worker-image"
    )]
    NoWorkerImage,
    #[error("{message}")]
    Act {
        reason: &'static str,
        message: String,
        category: Category,
        person_must_act: bool,
        about_topics: bool,
    },
}

fn list(errors: &[FieldError]) -> String {
    let mut text = String::new();
    for (at, error) in errors.iter().enumerate() {
        let separator = if at > 0 { "; " } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{error}");
    }
    text
}

impl Trouble {
    /// A fault met while acting.
    #[must_use]
    pub fn act(fault: &(impl Fault + ?Sized)) -> Self {
        Self::Act {
            reason: fault.reason(),
            message: fault.to_string(),
            category: fault.category(),
            person_must_act: !fault.passes_by_itself(),
            about_topics: fault.category() == Category::Kafka,
        }
    }

    /// A fault met while acting on the broker. Also where the user has to mend it, it is about topics.
    #[must_use]
    pub fn act_on_topics(fault: &KafkaFault) -> Self {
        Self::Act {
            reason: fault.reason,
            message: fault.to_string(),
            category: fault.category,
            person_must_act: !fault.passes_by_itself,
            about_topics: true,
        }
    }

    /// Whether waiting alone will not do: someone has to change the spec, the cluster or the broker.
    #[must_use]
    pub fn person_must_act(&self) -> bool {
        match self {
            Self::FormerObjectGoing { .. } | Self::RescaleRuns { .. } => false,
            Self::Kafka(fault) => !fault.passes_by_itself(),
            Self::Act {
                person_must_act, ..
            } => *person_must_act,
            Self::InvalidSpec(_)
            | Self::ChangeRefused(_)
            | Self::AcceptedUnreadable { .. }
            | Self::SecretMissing { .. }
            | Self::InputTopicMissing { .. }
            | Self::CountNotDivisor { .. }
            | Self::CountNotAsAsked { .. }
            | Self::OutputCountNotAsAsked { .. }
            | Self::IdentityTaken { .. }
            | Self::KeptStateRefused { .. }
            | Self::KeptStateUnusable { .. }
            | Self::ForeignObject { .. }
            | Self::NoWorkerImage => true,
        }
    }

    /// Whether the app goes on by itself once something outside of it is there.
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(
            self,
            Self::InputTopicMissing { .. }
                | Self::SecretMissing { .. }
                | Self::Kafka(_)
                | Self::FormerObjectGoing { .. }
                | Self::RescaleRuns { .. }
        )
    }

    /// Whether the fault is about the broker's topics or the way to them.
    #[must_use]
    pub fn about_topics(&self) -> bool {
        match self {
            Self::Kafka(_)
            | Self::SecretMissing { .. }
            | Self::InputTopicMissing { .. }
            | Self::CountNotDivisor { .. }
            | Self::CountNotAsAsked { .. }
            | Self::OutputCountNotAsAsked { .. } => true,
            Self::Act { about_topics, .. } => *about_topics,
            Self::InvalidSpec(_)
            | Self::ChangeRefused(_)
            | Self::AcceptedUnreadable { .. }
            | Self::IdentityTaken { .. }
            | Self::KeptStateRefused { .. }
            | Self::KeptStateUnusable { .. }
            | Self::ForeignObject { .. }
            | Self::FormerObjectGoing { .. }
            | Self::RescaleRuns { .. }
            | Self::NoWorkerImage => false,
        }
    }
}

impl Trouble {
    /// Who has to act.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Kafka(fault) => fault.category,
            Self::Act { category, .. } => *category,
            Self::InputTopicMissing { .. } | Self::CountNotDivisor { .. } => Category::Kafka,
            Self::KeptStateRefused { .. } | Self::KeptStateUnusable { .. } => Category::Storage,
            Self::ForeignObject { .. }
            | Self::FormerObjectGoing { .. }
            | Self::RescaleRuns { .. }
            | Self::SecretMissing { .. } => Category::Kubernetes,
            Self::InvalidSpec(_)
            | Self::ChangeRefused(_)
            | Self::AcceptedUnreadable { .. }
            | Self::CountNotAsAsked { .. }
            | Self::OutputCountNotAsAsked { .. }
            | Self::IdentityTaken { .. }
            | Self::NoWorkerImage => Category::User,
        }
    }

    /// Constant in CamelCase.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidSpec(_) => "InvalidSpec",
            Self::ChangeRefused(_) => "ChangeRefused",
            Self::AcceptedUnreadable { .. } => "AcceptedSpecUnreadable",
            Self::SecretMissing { .. } => "SecretMissing",
            Self::Kafka(fault) => fault.reason,
            Self::InputTopicMissing { .. } => "InputTopicMissing",
            Self::CountNotDivisor { .. } => "PartitionCountNotDivisor",
            Self::CountNotAsAsked { .. } | Self::OutputCountNotAsAsked { .. } => {
                "PartitionCountNotAsAsked"
            }
            Self::IdentityTaken { .. } => "IdentityTaken",
            Self::KeptStateRefused { .. } => "KeptStateFound",
            Self::KeptStateUnusable { .. } => "KeptStateUnusable",
            Self::ForeignObject { .. } => "ForeignObject",
            Self::FormerObjectGoing { .. } => "FormerObjectsGoing",
            Self::RescaleRuns { .. } => "RescaleRuns",
            Self::NoWorkerImage => "NoWorkerImage",
            Self::Act { reason, .. } => reason,
        }
    }
}
