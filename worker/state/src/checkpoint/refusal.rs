//! Why a checkpoint is not taken, in words that say what to do.

use thiserror::Error;
use turbine_protocol::Differences;

/// Why one checkpoint is not taken. It is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Its manifest is not what was written.
    #[error(
        "its manifest is damaged ({detail}): bring back a good copy of it, or let an older \
         checkpoint be taken"
    )]
    Damaged {
        /// What is wrong.
        detail: String,
    },
    /// It belongs to something else.
    #[error(
        "it is not of this store ({differences}): set `state.checkpoints.store` to the place of \
         this app, or give the other app a place of its own"
    )]
    Foreign {
        /// In what it differs.
        differences: Differences,
    },
    /// A newer program wrote it.
    #[error(
        "it has format {found}, this program reads up to {known}: run the version that wrote it, \
         or a newer one"
    )]
    NewerFormat {
        /// The version found.
        found: u64,
        /// The newest version that is read.
        known: u64,
    },
    /// A file is not there.
    #[error(
        "its file `{file}` is missing: bring it back, or let an older checkpoint be taken; if \
         something else cleans up this place, keep it away"
    )]
    MissingFile {
        /// Its name in the place of checkpoints.
        file: String,
    },
    /// A file has another length.
    #[error(
        "its file `{file}` has {found} bytes instead of {expected}: bring back a good copy of it, \
         or let an older checkpoint be taken"
    )]
    WrongSize {
        /// Its name in the place of checkpoints.
        file: String,
        /// Bytes there.
        found: u64,
        /// Bytes that were written.
        expected: u64,
    },
    /// A file has other content.
    #[error(
        "its file `{file}` is not what was written (SHA-256 does not fit): bring back a good copy \
         of it, or let an older checkpoint be taken"
    )]
    WrongContent {
        /// Its name in the place of checkpoints.
        file: String,
    },
}

impl Refusal {
    /// A constant in CamelCase, for conditions, events and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "Damaged",
            Self::Foreign { .. } => "Foreign",
            Self::NewerFormat { .. } => "NewerFormat",
            Self::MissingFile { .. } => "MissingFile",
            Self::WrongSize { .. } => "WrongSize",
            Self::WrongContent { .. } => "WrongContent",
        }
    }
}

/// A checkpoint that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("checkpoint {name} is not taken: {refusal}")]
pub struct Refused {
    /// The manifest's name in the place of checkpoints.
    pub name: String,
    /// Why.
    #[source]
    pub refusal: Refusal,
}
