//! Why state is not moved, in words that say what to do.

use std::path::PathBuf;

use thiserror::Error;
use turbine_keygroups::Partition;
use turbine_protocol::{Category, Differences, EntryNumber, Fault};

use super::manifest::Uncovered;
use crate::checkpoint::{CheckpointError, Refusal};
use crate::error::StateError;

/// Why state is not moved. Old stores are as they were.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MoveError {
    /// A folder of this machine.
    #[error(transparent)]
    State(#[from] StateError),
    /// The place of checkpoints.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// There is no store in a folder that should have one.
    #[error(
        "the state of old partition {partition} is no whole store: its making never ended, or files are gone"
    )]
    NoStore {
        /// The old partition.
        partition: Partition,
    },
    /// A file of a checkpoint is not what was written.
    #[error("the checkpoint of old partition {partition} cannot be taken: {refusal}")]
    Piece {
        /// The old partition.
        partition: Partition,
        /// Which file, and what is wrong with it.
        refusal: Refusal,
    },
    /// Old stores are not those of one app before the change.
    #[error("the state of old partition {partition} is not what it should be ({differences})")]
    Other {
        /// The old partition.
        partition: Partition,
        /// In what it differs.
        differences: Differences,
    },
    /// The old store was itself made by a change of the count.
    #[error(
        "the state of old partition {partition} is from an earlier change of the count that has not \
         settled: run the app until it has, then stop it and try again"
    )]
    NotSettled {
        /// The old partition.
        partition: Partition,
    },
    /// The last entries are in the journal only.
    #[error(
        "the state of old partition {partition} reaches to entry {saved}, and {last} was committed: \
         start the app once more and stop it in order, so that its stores hold all"
    )]
    NotSaved {
        /// The old partition.
        partition: Partition,
        /// What the files reach to.
        saved: EntryNumber,
        /// The last entry in the journal, decided or not.
        last: EntryNumber,
    },
    /// The old store has keys that its partition does not own: they would be lost.
    #[error(
        "the state of old partition {partition} has keys of {group}, which that partition cannot \
         have: producers have put keys elsewhere than murmur2 does; see `turbine-cli store verify` \
         and `turbine-cli placement verify`"
    )]
    Misplaced {
        /// The old partition.
        partition: Partition,
        /// The key group, in words.
        group: String,
    },
    /// The old store has families of columns that this program does not know.
    #[error(
        "the state of old partition {partition} has a family `{family}` that this program does not \
         know, and would lose: use the version that wrote it, or a newer one"
    )]
    UnknownFamily {
        /// The old partition.
        partition: Partition,
        /// The family's name.
        family: String,
    },
    /// An old task whose state is needed was not given.
    #[error("there is no state of old partition {partition}: give the volume or place that has it")]
    Missing {
        /// The old partition.
        partition: Partition,
    },
    /// The new store is not made of what it should be made of.
    #[error(
        "the new store of partition {task} is not whole ({uncovered}): this is a fault of the program"
    )]
    Uncovered {
        /// The new partition.
        task: Partition,
        /// What is wrong.
        uncovered: Uncovered,
    },
    /// Another move was begun in the same folder.
    #[error("{} is from another move: remove it, or name another folder", path.display())]
    OtherMove {
        /// The folder.
        path: PathBuf,
    },
}

impl Fault for MoveError {
    fn category(&self) -> Category {
        match self {
            Self::State(error) => error.category(),
            Self::Checkpoint(error) => error.category(),
            Self::NoStore { .. } | Self::Piece { .. } | Self::Missing { .. } => Category::Storage,
            Self::Other { .. }
            | Self::NotSettled { .. }
            | Self::NotSaved { .. }
            | Self::Misplaced { .. }
            | Self::UnknownFamily { .. }
            | Self::OtherMove { .. } => Category::User,
            Self::Uncovered { .. } => Category::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::State(error) => error.reason(),
            Self::Checkpoint(error) => error.reason(),
            Self::NoStore { .. } => "MoveNoStore",
            Self::Piece { .. } => "MovePieceDamaged",
            Self::Other { .. } => "MoveOtherStore",
            Self::NotSettled { .. } => "MoveNotSettled",
            Self::NotSaved { .. } => "MoveNotSaved",
            Self::Misplaced { .. } => "MoveMisplaced",
            Self::UnknownFamily { .. } => "MoveUnknownFamily",
            Self::Missing { .. } => "MoveMissing",
            Self::Uncovered { .. } => "MoveUncovered",
            Self::OtherMove { .. } => "MoveOther",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            Self::State(error) => error.passes_by_itself(),
            Self::Checkpoint(error) => error.passes_by_itself(),
            Self::NoStore { .. }
            | Self::Piece { .. }
            | Self::Other { .. }
            | Self::NotSettled { .. }
            | Self::NotSaved { .. }
            | Self::Misplaced { .. }
            | Self::UnknownFamily { .. }
            | Self::Missing { .. }
            | Self::Uncovered { .. }
            | Self::OtherMove { .. } => false,
        }
    }
}
