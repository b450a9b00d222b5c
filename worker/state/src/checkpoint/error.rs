//! What can go wrong with the place of checkpoints.

use std::fmt;

use thiserror::Error;
use turbine_protocol::{Category, Fault};

use super::refusal::{Refusal, Refused};
use crate::error::StateError;

/// A right at an object store, by the name that its policies use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// To see which objects are there.
    List,
    /// To read objects.
    Get,
    /// To write objects.
    Put,
    /// To delete objects.
    Delete,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "s3:ListBucket",
            Self::Get => "s3:GetObject",
            Self::Put => "s3:PutObject",
            Self::Delete => "s3:DeleteObject",
        })
    }
}

/// A fault of the place of checkpoints, or of the way to it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckpointError {
    /// The settings cannot be used.
    #[error("checkpoints cannot be stored: {detail}")]
    Settings {
        /// What is wrong.
        detail: String,
    },
    /// A right is lacking.
    #[error(
        "the object store refuses {right} on {place}: give the credentials of \
         `state.checkpoints.store` this right ({detail})"
    )]
    Denied {
        /// The right.
        right: Right,
        /// Bucket and path.
        place: String,
        /// What the store says.
        detail: String,
    },
    /// The credentials are not taken.
    #[error(
        "the object store does not take the credentials for {place} ({detail}): renew them in the \
         Secret of `state.checkpoints.store`; they are read again by themselves"
    )]
    Credentials {
        /// Bucket and path.
        place: String,
        /// What the store says.
        detail: String,
    },
    /// The clocks of this machine and of the store differ by too much.
    #[error(
        "the clock of this machine and that of the object store differ by too much ({detail}): \
         set the clock of the node"
    )]
    Clock {
        /// What the store says.
        detail: String,
    },
    /// There is no such bucket, or it lies in another region.
    #[error(
        "{place} cannot be used ({detail}): correct bucket, region or endpoint of `state.checkpoints.store`"
    )]
    NoBucket {
        /// Bucket and path.
        place: String,
        /// What the store says.
        detail: String,
    },
    /// The folder of checkpoints is not there.
    #[error(
        "{place} is no folder: mount the volume of `state.checkpoints.store.folder` there in every pod"
    )]
    NoFolder {
        /// The folder.
        place: String,
    },
    /// The store does not answer, or not as it should.
    #[error("the object store does not do its work at {place} ({detail}): it is tried again")]
    Unreachable {
        /// Bucket and path.
        place: String,
        /// What went wrong.
        detail: String,
    },
    /// A folder of this machine.
    #[error(transparent)]
    Local(#[from] StateError),
    /// A newer state of the same store is written instead.
    #[error("a newer checkpoint of the same store is written instead")]
    Superseded,
    /// A file that was to be in the checkpoint went while it was written.
    #[error(
        "the file {file} went while a checkpoint that needs it was written: is another worker or \
         tool at work on the same place?"
    )]
    Overtaken {
        /// Its name in the place of checkpoints.
        file: String,
    },
    /// There are checkpoints and none can be taken.
    #[error("no checkpoint of {store} can be taken: {}", list(refused))]
    NoneIntact {
        /// The store.
        store: String,
        /// Each one with its reason, newest first.
        refused: Vec<Refused>,
    },
    /// The program ends.
    #[error("checkpoints have ended with the program")]
    Ended,
}

impl CheckpointError {
    /// True if all checkpoints that were found are of other stores: of this one there is none.
    #[must_use]
    pub fn found_only_others(&self) -> bool {
        let other = |one: &Refused| matches!(one.refusal, Refusal::Foreign { .. });
        matches!(self, Self::NoneIntact { refused, .. } if refused.iter().all(other))
    }
}

fn list(refused: &[Refused]) -> String {
    let all: Vec<_> = refused.iter().map(ToString::to_string).collect();
    all.join("; ")
}

impl Fault for CheckpointError {
    fn category(&self) -> Category {
        match self {
            Self::Settings { .. }
            | Self::Denied { .. }
            | Self::Credentials { .. }
            | Self::NoBucket { .. }
            | Self::NoFolder { .. } => Category::User,
            Self::Clock { .. } => Category::Kubernetes,
            Self::Unreachable { .. }
            | Self::Superseded
            | Self::Overtaken { .. }
            | Self::NoneIntact { .. }
            | Self::Ended => Category::Storage,
            Self::Local(error) => error.category(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Settings { .. } => "CheckpointSettings",
            Self::Denied { .. } => "CheckpointDenied",
            Self::Credentials { .. } => "CheckpointCredentials",
            Self::Clock { .. } => "ClockSkew",
            Self::NoBucket { .. } => "CheckpointBucket",
            Self::NoFolder { .. } => "CheckpointFolder",
            Self::Unreachable { .. } => "CheckpointStoreUnreachable",
            Self::Local(error) => error.reason(),
            Self::Superseded => "CheckpointSuperseded",
            Self::Overtaken { .. } => "CheckpointOvertaken",
            Self::NoneIntact { .. } => "NoIntactCheckpoint",
            Self::Ended => "CheckpointsEnded",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            // Someone gives the right, renews the secret, sets the clock, makes the bucket, mounts the folder; the next checkpoint shows it.
            Self::Denied { .. }
            | Self::Credentials { .. }
            | Self::Clock { .. }
            | Self::NoBucket { .. }
            | Self::NoFolder { .. }
            | Self::Unreachable { .. }
            | Self::Superseded
            | Self::Overtaken { .. } => true,
            Self::Settings { .. } | Self::NoneIntact { .. } | Self::Ended => false,
            Self::Local(error) => error.passes_by_itself(),
        }
    }
}
