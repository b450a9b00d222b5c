//! What a step waits for, in words.

use thiserror::Error;

use super::journal::DamagedPlan;
use super::refusal::Refusal;

/// Why a plan does not go on right now.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
pub enum Wait {
    #[error("the plan is over: another one begins when something else is asked for")]
    Over,
    #[error(transparent)]
    Damaged(DamagedPlan),
    #[error("{}", super::refusal::list(.0))]
    Refused(Vec<Refusal>),
    #[error("copies are made ahead by {}", names(.0))]
    Copies(Vec<String>),
    #[error("tasks have not said that they hold their frontier: {}", names(.0))]
    Holds(Vec<String>),
    #[error("the ends of topic `{0}` are not known: a broker did not answer, it is asked again")]
    Ends(String),
    #[error("not every broker answers that topic `{topic}` has {to} partitions")]
    Count { topic: String, to: i32 },
    #[error(
        "topic `{topic}` was planned from {from} to {to} partitions and a broker answers {found}: another hand grew it on the way. \
         Records of three counts cannot be told apart by this version; nothing more is done. {cure}"
    )]
    ThirdCount {
        topic: String,
        from: i32,
        to: i32,
        found: i32,
        cure: &'static str,
    },
    #[error("Kafka cannot be asked ({0}); the plan goes on by itself once it can")]
    Broker(String),
    #[error("pods of the new layout do not answer: {}", names(.0))]
    Pods(Vec<String>),
    #[error("old tasks have neither stopped nor been fenced: {}", names(.0))]
    Stops(Vec<String>),
    #[error("stores are being pulled: {}", names(.0))]
    Stores(Vec<String>),
    #[error("tasks have not made a commit of their own yet: {}", names(.0))]
    Commits(Vec<String>),
    #[error("the claims of pods that go cannot be seen: {}", names(.0))]
    Claims(Vec<String>),
    #[error("old state is still there: {}", names(.0))]
    OldState(Vec<String>),
    #[error("tails are open: {}", names(.0))]
    Tails(Vec<String>),
    #[error("spec.suspend is true and topics have grown: set it to false, the plan goes on then")]
    Suspended,
}

impl Wait {
    /// Constant in CamelCase.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Over => "Over",
            Self::Damaged(_) => "RescaleDamaged",
            Self::Refused(_) => "Refused",
            Self::Copies(_) => "CopyingAhead",
            Self::Holds(_) => "HoldsMissing",
            Self::Ends(_) => "EndsUnknown",
            Self::Count { .. } => "CountNotEverywhere",
            Self::ThirdCount { .. } => "TopicGrownOtherwise",
            Self::Broker(_) => "KafkaUnreachable",
            Self::Pods(_) => "PodsMissing",
            Self::Stops(_) => "TasksStopping",
            Self::Stores(_) => "StateMoving",
            Self::Commits(_) => "TasksStarting",
            Self::Claims(_) => "ClaimsMissing",
            Self::OldState(_) => "OldStateThere",
            Self::Tails(_) => "TailsOpen",
            Self::Suspended => "Suspended",
        }
    }

    /// Whether waiting alone will not do.
    #[must_use]
    pub fn person_must_act(&self) -> bool {
        match self {
            Self::Damaged(_) | Self::ThirdCount { .. } | Self::Suspended => true,
            Self::Refused(refusals) => refusals.iter().any(|of| !of.passes_by_itself()),
            Self::Over
            | Self::Copies(_)
            | Self::Holds(_)
            | Self::Ends(_)
            | Self::Count { .. }
            | Self::Broker(_)
            | Self::Pods(_)
            | Self::Stops(_)
            | Self::Stores(_)
            | Self::Commits(_)
            | Self::Claims(_)
            | Self::OldState(_)
            | Self::Tails(_) => false,
        }
    }
}

/// Names that a message takes before it says how many more there are.
const MOST_NAMES: usize = 8;

fn names(names: &[String]) -> String {
    let shown = names[..names.len().min(MOST_NAMES)].join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
