//! The commit of a task, exactly once: the entry prepared and synced, its receipt with the offset
//! into the transaction that holds the outputs, the transaction committed, the entry marked done.
//!
//! The broker decides: an entry counts if, and only if, its receipt was committed. So from the
//! moment the commit was called there is no abort, whatever the answer: the next start asks for
//! the receipt.

use crate::edges;

/// How far a commit came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransactionStep {
    /// Outputs are produced into an open transaction.
    Open,
    /// The entry is durable and does not count yet.
    Prepared,
    /// The offset with the receipt is in the transaction.
    OffsetSent,
    /// The commit was called and has not answered with an end. It may have happened.
    Committing,
    /// The broker has committed: the entry counts.
    Committed,
    /// The entry is marked done. The next interval may be committed.
    Done,
    /// The task gives up this life and starts again: the receipt decides what counts.
    Abandoned,
}

/// What came of the act that a step asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransactionEvent {
    /// The store's sync returned.
    Prepared,
    /// The store's write or sync failed.
    PrepareFailed,
    /// The offset is in the transaction.
    OffsetSent,
    /// It is not, or that is not known.
    OffsetFailed,
    /// The broker says that the transaction is committed.
    Committed,
    /// The broker did not answer in time, or asks to try again.
    CommitUnknown,
    /// Any other end of the call: aborted, fenced, or not known.
    CommitFailed,
    /// The entry is marked done.
    MarkedDone,
    /// The store's write failed.
    MarkFailed,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransactionAct {
    /// Write and sync the entry as prepared.
    Prepare,
    /// Put the offset with the receipt into the transaction.
    SendOffset,
    /// Commit the transaction, and again if that is not answered.
    Commit,
    /// Mark the entry done; this needs no sync, since the receipt says the same.
    MarkDone,
    /// Nothing: the interval is committed.
    Finished,
    /// Drop live state and producer, and start the task again from its store.
    Rebuild,
}

/// An event that cannot follow a step.
pub type NoSuchTransactionEdge = edges::NoSuchEdge<TransactionStep, TransactionEvent>;

impl TransactionStep {
    /// Every step, in order.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Prepared,
        Self::OffsetSent,
        Self::Committing,
        Self::Committed,
        Self::Done,
        Self::Abandoned,
    ];

    /// What this step asks for.
    #[must_use]
    pub fn act(self) -> TransactionAct {
        match self {
            Self::Open => TransactionAct::Prepare,
            Self::Prepared => TransactionAct::SendOffset,
            Self::OffsetSent | Self::Committing => TransactionAct::Commit,
            Self::Committed => TransactionAct::MarkDone,
            Self::Done => TransactionAct::Finished,
            Self::Abandoned => TransactionAct::Rebuild,
        }
    }

    /// The step that follows.
    ///
    /// # Errors
    /// If the event cannot follow this step.
    pub fn after(self, event: TransactionEvent) -> Result<Self, NoSuchTransactionEdge> {
        use TransactionEvent as Event;
        let next = match (self, event) {
            (Self::Open, Event::Prepared) => Self::Prepared,
            (Self::Prepared, Event::OffsetSent) => Self::OffsetSent,
            (Self::Open, Event::PrepareFailed)
            | (Self::Prepared, Event::OffsetFailed)
            | (Self::OffsetSent | Self::Committing, Event::CommitFailed)
            | (Self::Committed, Event::MarkFailed) => Self::Abandoned,
            (Self::OffsetSent | Self::Committing, Event::Committed) => Self::Committed,
            (Self::OffsetSent | Self::Committing, Event::CommitUnknown) => Self::Committing,
            (Self::Committed, Event::MarkedDone) => Self::Done,
            (
                Self::Open
                | Self::Prepared
                | Self::OffsetSent
                | Self::Committing
                | Self::Committed
                | Self::Done
                | Self::Abandoned,
                Event::Prepared
                | Event::PrepareFailed
                | Event::OffsetSent
                | Event::OffsetFailed
                | Event::Committed
                | Event::CommitUnknown
                | Event::CommitFailed
                | Event::MarkedDone
                | Event::MarkFailed,
            ) => return Err(NoSuchTransactionEdge { step: self, event }),
        };
        Ok(next)
    }
}

impl TransactionEvent {
    /// Every event.
    pub const ALL: [Self; 9] = [
        Self::Prepared,
        Self::PrepareFailed,
        Self::OffsetSent,
        Self::OffsetFailed,
        Self::Committed,
        Self::CommitUnknown,
        Self::CommitFailed,
        Self::MarkedDone,
        Self::MarkFailed,
    ];
}

/// The edges as a table, for documents.
#[must_use]
pub fn edge_table() -> String {
    edges::table(
        &TransactionStep::ALL,
        &TransactionEvent::ALL,
        TransactionStep::act,
        TransactionStep::after,
    )
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
