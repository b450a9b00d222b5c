//! The commit of a task, at least once: outputs acknowledged, then state synced, then the group's
//! offset. The order is held by the types of this machine; the act behind each step is the
//! caller's.
//!
//! A crash repeats the outputs of the last interval. State is never lost or doubled: it carries
//! the position it belongs to, and both become durable as one.

use crate::edges;

/// How far a commit came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommitStep {
    /// Outputs are produced and not yet all acknowledged.
    Open,
    /// Every output, side output and dead letter of the interval is acknowledged.
    OutputsAcked,
    /// State with its positions is durable. From here the commit has happened.
    StateSynced,
    /// The group's offset with the receipt is at the broker. The next interval may be committed.
    OffsetCommitted,
    /// The task gives up this life: it drops its live state and starts again from its store.
    Abandoned,
}

/// What came of the act that a step asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommitEvent {
    /// All outputs are acknowledged.
    OutputsAcked,
    /// An output failed for good, or it is not known what became of it.
    OutputsFailed,
    /// The store's sync returned.
    StateSynced,
    /// The store's write or sync failed.
    StateFailed,
    /// The broker took the offset.
    OffsetCommitted,
    /// The broker did not take the offset, or it is not known whether it did.
    OffsetFailed,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitAct {
    /// Flush the producer and wait until everything is acknowledged.
    FlushOutputs,
    /// Write and sync the entry.
    SyncState,
    /// Commit the group's offset with the receipt.
    CommitOffset,
    /// Nothing: the interval is committed.
    Done,
    /// Drop live state and producer, and start the task again from its store. Retrying the same
    /// act is no option: after a failed sync a second one may succeed falsely, and after a lost
    /// output the producer's order is broken.
    Rebuild,
}

/// An event that cannot follow a step.
pub type NoSuchEdge = edges::NoSuchEdge<CommitStep, CommitEvent>;

impl CommitStep {
    /// Every step, in order.
    pub const ALL: [Self; 5] = [
        Self::Open,
        Self::OutputsAcked,
        Self::StateSynced,
        Self::OffsetCommitted,
        Self::Abandoned,
    ];

    /// What this step asks for.
    #[must_use]
    pub fn act(self) -> CommitAct {
        match self {
            Self::Open => CommitAct::FlushOutputs,
            Self::OutputsAcked => CommitAct::SyncState,
            Self::StateSynced => CommitAct::CommitOffset,
            Self::OffsetCommitted => CommitAct::Done,
            Self::Abandoned => CommitAct::Rebuild,
        }
    }

    /// The step that follows.
    ///
    /// # Errors
    /// If the event cannot follow this step.
    pub fn after(self, event: CommitEvent) -> Result<Self, NoSuchEdge> {
        use CommitEvent as Event;
        let next = match self {
            Self::Open => match event {
                Event::OutputsAcked => Some(Self::OutputsAcked),
                Event::OutputsFailed => Some(Self::Abandoned),
                Event::StateSynced
                | Event::StateFailed
                | Event::OffsetCommitted
                | Event::OffsetFailed => None,
            },
            Self::OutputsAcked => match event {
                Event::StateSynced => Some(Self::StateSynced),
                Event::StateFailed => Some(Self::Abandoned),
                Event::OutputsAcked
                | Event::OutputsFailed
                | Event::OffsetCommitted
                | Event::OffsetFailed => None,
            },
            Self::StateSynced => match event {
                Event::OffsetCommitted => Some(Self::OffsetCommitted),
                // The store's own position counts at the next start, so the task stays as it is
                // and asks again.
                Event::OffsetFailed => Some(Self::StateSynced),
                Event::OutputsAcked
                | Event::OutputsFailed
                | Event::StateSynced
                | Event::StateFailed => None,
            },
            Self::OffsetCommitted | Self::Abandoned => None,
        };
        next.ok_or(NoSuchEdge { step: self, event })
    }
}

impl CommitEvent {
    /// Every event.
    pub const ALL: [Self; 6] = [
        Self::OutputsAcked,
        Self::OutputsFailed,
        Self::StateSynced,
        Self::StateFailed,
        Self::OffsetCommitted,
        Self::OffsetFailed,
    ];
}

/// The edges as a table, for documents.
#[must_use]
pub fn edge_table() -> String {
    edges::table(
        &CommitStep::ALL,
        &CommitEvent::ALL,
        CommitStep::act,
        CommitStep::after,
    )
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
