//! What the decision about a start looks at.

use crate::entry::EntryChecksum;
use crate::epochs::{EntryNumber, LayoutEpoch};
use crate::identity::{StoreIdentity, VolumeMarker};
use crate::offset::{LogBounds, Offset};
use crate::receipt::{History, NotAReceipt, Receipt};

/// How often a record may count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// Outputs of the last interval may come again after a crash.
    AtLeastOnce,
    /// Outputs, state and offset count as one, once.
    ExactlyOnce,
}

/// What to do where the store is older than what was committed exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCrashRecovery {
    /// Read what lies between again, without output, so that state becomes what it was.
    #[default]
    Replay,
    /// Go on behind it, with state that lacks it.
    Accept,
    /// Stop.
    Stop,
}

/// How a task deals with a store that is older than what was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Exactly once only. At least once the store counts, and what lies between is written again.
    pub policy: OnCrashRecovery,
    /// Most offsets that may lie between, with either guarantee; none is no bound.
    pub halt_if_gap_exceeds: Option<u64>,
    /// The same records give the same state and results as when the store was written: built-in computations do, by the
    /// same rules. Nothing else is replayed.
    pub deterministic: bool,
    /// This process has run the task before. Whoever is ahead of its store has taken the task over and may be running it.
    pub has_run: bool,
}

/// What to do with state and offsets of another lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnForeign {
    /// Stop and say what was found.
    Refuse,
    /// Treat them as if they were not there: the owner asked for a start without them.
    Discard,
}

/// What to do where retention removed records that the task was to read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRetentionGap {
    /// Stop and say which.
    #[default]
    Stop,
    /// Go on at the first record that is still there, with state that lacks them.
    Accept,
}

/// Records that were to be read and are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first one.
    pub from: Offset,
    /// The one behind the last, which is there.
    pub to: Offset,
}

impl Gap {
    /// The offsets of it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.to.since(self.from)
    }
}

/// Where a task without state and without a committed offset begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFrom {
    /// The first record that is still there.
    Earliest,
    /// The end of the log as it is now.
    Latest,
    /// The first record of a time or later; `None` if there is none yet, which means the end.
    Timestamp {
        /// What the broker answered for the time.
        found: Option<Offset>,
    },
}

/// What the task's store on the volume says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreEvidence {
    /// There is no store in the task's place.
    Absent,
    /// There is one.
    Present(StoreProgress),
}

/// Which store was found and how far it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreProgress {
    /// What the store says it is.
    pub identity: StoreIdentity,
    /// Number of its last commit.
    pub number: EntryNumber,
    /// Checksum of its last commit.
    pub checksum: EntryChecksum,
    /// The offset of the own partition that it reads next.
    pub position: Offset,
    /// Its last commit was made exactly once: the broker had its receipt before the store let it count.
    pub by_transaction: bool,
    /// The task was stopped, and its last commit ended, with this number.
    pub cleanly_stopped: bool,
    /// The history of its state, if it says so.
    pub history: Option<History>,
    /// A commit that was prepared and of which the store does not know whether it counts. It has
    /// the next number.
    pub prepared: Option<Box<StoreProgress>>,
}

/// What the group's offset for the task's partition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokerEvidence {
    /// No offset is committed.
    Nothing,
    /// An offset is committed, with this metadata.
    Committed {
        /// The committed offset.
        offset: Offset,
        /// The receipt, or why the metadata is none.
        receipt: Result<Receipt, NotAReceipt>,
    },
}

impl BrokerEvidence {
    /// Reads what the broker returned for the group and partition.
    #[must_use]
    pub fn of(committed: Option<(Offset, &str)>) -> Self {
        match committed {
            None => Self::Nothing,
            Some((offset, metadata)) => Self::Committed {
                offset,
                receipt: metadata.parse(),
            },
        }
    }
}

/// All that the decision looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartInputs {
    /// The store that the assignment says this task has.
    pub assigned: StoreIdentity,
    /// The layout epoch of the assignment.
    pub layout_epoch: LayoutEpoch,
    /// What to do with another lineage's leavings.
    pub on_foreign: OnForeign,
    /// What the task promises.
    pub guarantee: Guarantee,
    /// What to do with a store that is older than what was committed.
    pub recovery: Recovery,
    /// What to do where records are gone that were not read.
    pub on_retention_gap: OnRetentionGap,
    /// What the volume says about itself; `None` if it was never used.
    pub volume: Option<VolumeMarker>,
    /// The task's store.
    pub store: StoreEvidence,
    /// The group's offset.
    pub broker: BrokerEvidence,
    /// The partition's log.
    pub log: LogBounds,
    /// Used only where neither state nor a committed offset exists.
    pub start_from: StartFrom,
}
