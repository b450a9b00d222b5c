//! Why a task does not start: the words, each with what to do.

use thiserror::Error;

use crate::entry::EntryChecksum;
use crate::epochs::{EntryNumber, LayoutEpoch, Lineage};
use crate::fault::{Category, Fault};
use crate::identity::Differences;
use crate::offset::Offset;

/// Why a task does not go on from a store that is older than the receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotRecovered {
    /// The spec says so.
    #[error(
        "`onCrashRecovery` is `stop`, where `replay` would read what lies between once more and write none of it again"
    )]
    Asked,
    /// The process had the task, and somebody has gone on with it since.
    #[error("another worker has taken the task over since this one ran it, and may be running it")]
    Overtaken,
    /// The store is not an earlier one of what was committed.
    #[error(
        "what was committed does not come from this store by the log alone: another life of the task has begun anew \
         since, or the subscription was changed"
    )]
    OtherHistory,
    /// The receipt does not say how to come to it.
    #[error("the receipt does not say how to come to its state from the log")]
    NotSaid,
    /// The spec has other rules than the store was written by.
    #[error("the subscription computes otherwise than when the store was written")]
    OtherRules,
    /// It was read again and gave something else.
    #[error(
        "what lies between does not give the same again: {rows} rows were taken then, {again} now. Records were refused \
         by the clock (`maxFuture`), or the topic does not hold the same records any more"
    )]
    Differs {
        /// Rows up to the receipt.
        rows: u64,
        /// Rows that the store comes to there.
        again: u64,
    },
}

/// How a task goes on without records that retention removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WithoutThem {
    /// It has read all that was committed.
    #[error("set `input.onRetentionGap: accept`")]
    OnRetentionGap,
    /// Its store is older than what was committed, and they lie between.
    #[error("set `onCrashRecovery: accept`")]
    OnCrashRecovery,
    /// It goes on behind what its store lacks, and not even that is there.
    #[error("delete state and group offsets and start fresh")]
    Fresh,
}

/// Why a task does not start, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StartRefusal {
    /// The volume belongs to another app.
    #[error(
        "the volume holds state of app `{found}`, this task belongs to `{expected}`: attach the \
         volume of `{expected}`, or empty this one if its state is not wanted"
    )]
    ForeignApp {
        /// App named on the volume.
        found: String,
        /// App of the task.
        expected: String,
    },
    /// State or offsets come from another life of the app.
    #[error(
        "{place} is of lineage {found}, the assignment says {expected}: bring back the volume of lineage {expected}, or, where \
         a worker was started by hand, the `assignment.json` that belongs to this state; `state.onRecreate: discard` removes \
         the state of lineage {found} for good and starts without it"
    )]
    ForeignLineage {
        /// Where the other lineage was found.
        place: &'static str,
        /// The lineage found.
        found: Lineage,
        /// The lineage assigned.
        expected: Lineage,
    },
    /// The assignment is older than what already ran.
    #[error(
        "the assignment is of layout epoch {assigned}, {place} has seen {found}: an old \
         assignment never runs again; wait for the current one"
    )]
    OldAssignment {
        /// Where the newer epoch was found.
        place: &'static str,
        /// The epoch found.
        found: LayoutEpoch,
        /// The epoch assigned.
        assigned: LayoutEpoch,
    },
    /// The store is not the one the assignment names.
    #[error(
        "the store is not the one assigned ({differences}): it is kept as it is; undo the change \
         of the spec, or move the store away to start without it"
    )]
    OtherStore {
        /// In what it differs.
        differences: Differences,
    },
    /// State existed and is not there.
    #[error(
        "the broker holds a receipt for commit {number} at offset {offset}, but the volume holds \
         no state for this task: bring the volume back, or delete the group's offsets to start \
         without the lost state"
    )]
    StateMissing {
        /// The commit the receipt names.
        number: EntryNumber,
        /// The committed offset.
        offset: Offset,
    },
    /// Store and receipt have the same number and different content.
    #[error(
        "store and broker disagree on commit {number} (store: {store} at {store_offset}, \
         broker: {receipt} at {receipt_offset}): two lives of this task have run; bring back the \
         volume that belongs to the receipt, or go on `processingGuarantee: atLeastOnce` from this store"
    )]
    OtherHistory {
        /// The commit both name.
        number: EntryNumber,
        /// Checksum in the store.
        store: EntryChecksum,
        /// Position of the store.
        store_offset: Offset,
        /// Checksum in the receipt.
        receipt: EntryChecksum,
        /// Offset of the receipt.
        receipt_offset: Offset,
    },
    /// Exactly once, and the store is older than what was committed.
    #[error(
        "the store stands at commit {store} (offset {store_offset}), the broker holds a receipt \
         for commit {receipt} (offset {receipt_offset}): it is an older copy of the volume, and \
         exactly once it does not go on from there: {why}. Bring back the newer volume, or set \
         `onCrashRecovery: accept`, which goes on from the receipt's offset without what lies \
         between, or `processingGuarantee: atLeastOnce`, which reads from the store's offset and \
         writes results a second time"
    )]
    StoreBehind {
        /// Last commit of the store.
        store: EntryNumber,
        /// Where the store stands.
        store_offset: Offset,
        /// The commit the receipt names.
        receipt: EntryNumber,
        /// Offset of the receipt.
        receipt_offset: Offset,
        /// Why it does not go on.
        why: NotRecovered,
    },
    /// The store is older than what was committed, by more than was allowed.
    #[error(
        "the store stands at offset {store_offset}, the broker's receipt at {receipt_offset}: {gap} offsets lie \
         between, and `haltIfGapExceeds` is {bound}. Bring back the newer volume, or raise `haltIfGapExceeds`"
    )]
    GapExceeds {
        /// Where the store stands.
        store_offset: Offset,
        /// Offset of the receipt.
        receipt_offset: Offset,
        /// Offsets between.
        gap: u64,
        /// The bound.
        bound: u64,
    },
    /// Exactly once, and what was committed is of another life.
    #[error(
        "the store stands at commit {store} (offset {store_offset}), and the broker's receipt is of \
         commit {receipt} (offset {receipt_offset}), which this store has left behind: another life \
         of this task has committed since, or the group's offsets were set back. Going on would \
         write results a second time. Bring back the volume that belongs to the receipt, or set \
         `processingGuarantee: atLeastOnce` to go on from this store"
    )]
    ReceiptBehind {
        /// Last commit of the store.
        store: EntryNumber,
        /// Where the store stands.
        store_offset: Offset,
        /// The commit the receipt names.
        receipt: EntryNumber,
        /// Offset of the receipt.
        receipt_offset: Offset,
    },
    /// Exactly once, and nothing at the broker says what counted.
    #[error(
        "the store has commits up to {number} (offset {position}), and the broker holds no \
         receipt for this task: the group's offsets were deleted, reset by hand, or expired. \
         Whether the last commit's results were written cannot be told; set \
         `processingGuarantee: atLeastOnce` to go on from the store"
    )]
    ReceiptMissing {
        /// Last commit of the store.
        number: EntryNumber,
        /// Where the store stands.
        position: Offset,
    },
    /// The receipt was written by a newer program.
    #[error(
        "the receipt at the broker has version `{version}`: run the worker version that wrote it"
    )]
    NewerReceipt {
        /// The version found.
        version: String,
    },
    /// Retention removed records that were not read.
    #[error(
        "offsets {from} to {last} are gone: retention removed them before they were read ({count} \
         offsets): lengthen the topic's retention, so that it does not come again; to go on without them, {way}"
    )]
    RetentionGap {
        /// The offset that was to be read next.
        from: Offset,
        /// The last offset that is gone.
        last: i64,
        /// How many are gone.
        count: u64,
        /// What is to be done to go on without them.
        way: WithoutThem,
    },
    /// The log is shorter than what was read of it.
    #[error(
        "{place} stands at offset {position}, but the log ends at {end}: the topic was deleted \
         and made again, or lost records; restore it, or delete state and group offsets to start \
         fresh"
    )]
    BeyondEnd {
        /// Who stands there.
        place: &'static str,
        /// The offset that was to be read next.
        position: Offset,
        /// The end of the log.
        end: Offset,
    },
}

impl Fault for StartRefusal {
    fn category(&self) -> Category {
        match self {
            Self::ForeignApp { .. }
            | Self::ForeignLineage { .. }
            | Self::OtherStore { .. }
            | Self::NewerReceipt { .. } => Category::User,
            Self::OldAssignment { .. } => Category::Kubernetes,
            Self::StateMissing { .. }
            | Self::OtherHistory { .. }
            | Self::StoreBehind { .. }
            | Self::GapExceeds { .. }
            | Self::ReceiptBehind { .. } => Category::Storage,
            Self::ReceiptMissing { .. } | Self::RetentionGap { .. } | Self::BeyondEnd { .. } => {
                Category::Kafka
            }
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::ForeignApp { .. } => "ForeignApp",
            Self::ForeignLineage { .. } => "ForeignLineage",
            Self::OldAssignment { .. } => "OldAssignment",
            Self::OtherStore { .. } => "OtherStore",
            Self::StateMissing { .. } => "StateMissing",
            Self::OtherHistory { .. } => "OtherHistory",
            Self::StoreBehind { .. } => "StoreBehindReceipt",
            Self::GapExceeds { .. } => "GapExceedsBound",
            Self::ReceiptBehind { .. } => "ReceiptBehindStore",
            Self::ReceiptMissing { .. } => "ReceiptMissing",
            Self::NewerReceipt { .. } => "NewerReceipt",
            Self::RetentionGap { .. } => "RetentionGap",
            Self::BeyondEnd { .. } => "PositionBeyondEnd",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            Self::OldAssignment { .. } => true,
            Self::ForeignApp { .. }
            | Self::ForeignLineage { .. }
            | Self::OtherStore { .. }
            | Self::StateMissing { .. }
            | Self::OtherHistory { .. }
            | Self::StoreBehind { .. }
            | Self::GapExceeds { .. }
            | Self::ReceiptBehind { .. }
            | Self::ReceiptMissing { .. }
            | Self::NewerReceipt { .. }
            | Self::RetentionGap { .. }
            | Self::BeyondEnd { .. } => false,
        }
    }
}
