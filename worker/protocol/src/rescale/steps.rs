//! The steps of a task through a rescale: of the old one to its seal, of the new one to where it is a task like any other.

use crate::edges;

/// How far an old task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OldStep {
    /// Knows of no plan, or of one that was undone.
    Running,
    /// Holds its frontier, in memory only: a crash would let it move again.
    Holding,
    /// An entry with the hold of this plan is durable. It reads and commits on, and closes nothing.
    Held,
    /// Was told to stop.
    Draining,
    /// Has committed for the last time and said its position, or was fenced.
    Stopped,
    /// Its receipt carries the plan's epoch: no life of it commits any more.
    Sealed,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OldEvent {
    /// The plan is announced.
    Announced,
    /// An entry with the hold is durable.
    HoldSynced,
    /// The plan was given up before the topic grew.
    Undone,
    /// The order to stop.
    Drain,
    /// The last commit is done.
    Committed,
    /// The operator has taken its transactional id.
    Fenced,
    /// The sealed receipt is committed.
    SealCommitted,
    /// It has crashed and starts again from its last entry.
    Restarted,
}

/// What a step asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OldAct {
    /// Process and commit.
    Process,
    /// Commit an entry with the hold, and answer with its plan's epoch.
    CommitHold,
    /// Process and commit with the frontier held.
    ProcessHeld,
    /// Read nothing more, commit what was read, say the position.
    CommitLast,
    /// Wait for the seal; never take the transactional id again.
    AwaitSeal,
    /// Nothing: the state can be moved.
    GiveAway,
}

/// An event that cannot follow a step.
pub type NoSuchOldEdge = edges::NoSuchEdge<OldStep, OldEvent>;

impl OldStep {
    /// Every step, in order.
    pub const ALL: [Self; 6] = [
        Self::Running,
        Self::Holding,
        Self::Held,
        Self::Draining,
        Self::Stopped,
        Self::Sealed,
    ];

    /// What this step asks for.
    #[must_use]
    pub fn act(self) -> OldAct {
        match self {
            Self::Running => OldAct::Process,
            Self::Holding => OldAct::CommitHold,
            Self::Held => OldAct::ProcessHeld,
            Self::Draining => OldAct::CommitLast,
            Self::Stopped => OldAct::AwaitSeal,
            Self::Sealed => OldAct::GiveAway,
        }
    }

    /// The step that follows.
    ///
    /// # Errors
    /// If the event cannot follow this step.
    pub fn after(self, event: OldEvent) -> Result<Self, NoSuchOldEdge> {
        use OldEvent as Event;
        let next = match (self, event) {
            (Self::Running, Event::Announced) => Self::Holding,
            (Self::Holding, Event::HoldSynced) => Self::Held,
            (Self::Holding | Self::Held, Event::Undone) => Self::Running,
            (Self::Held, Event::Drain) => Self::Draining,
            (Self::Draining, Event::Committed) => Self::Stopped,
            // One that cannot answer is fenced; what it had not committed was never done.
            (Self::Held | Self::Draining, Event::Fenced) => Self::Stopped,
            (Self::Stopped, Event::SealCommitted) => Self::Sealed,
            (Self::Running | Self::Holding, Event::Restarted) => Self::Running,
            // The hold is in its entry.
            (Self::Held | Self::Draining, Event::Restarted) => Self::Held,
            (
                Self::Running
                | Self::Holding
                | Self::Held
                | Self::Draining
                | Self::Stopped
                | Self::Sealed,
                Event::Announced
                | Event::HoldSynced
                | Event::Undone
                | Event::Drain
                | Event::Committed
                | Event::Fenced
                | Event::SealCommitted
                | Event::Restarted,
            ) => return Err(NoSuchOldEdge { step: self, event }),
        };
        Ok(next)
    }
}

impl OldEvent {
    /// Every event.
    pub const ALL: [Self; 8] = [
        Self::Announced,
        Self::HoldSynced,
        Self::Undone,
        Self::Drain,
        Self::Committed,
        Self::Fenced,
        Self::SealCommitted,
        Self::Restarted,
    ];
}

/// How far a new task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NewStep {
    /// Its state is there, whole.
    Moved,
    /// Its receipt of `(store epoch, 0)` is committed: it alone commits under its id.
    Begun,
    /// It has committed an entry of its own; the old state may go.
    Verified,
    /// It reads through one cursor.
    Settled,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NewEvent {
    /// The first receipt is committed.
    FirstCommitted,
    /// An entry is committed; an empty one counts.
    Committed,
    /// All tails have ended and moved-in has met kept, in an entry.
    CursorsMet,
    /// Its store was lost and pulled again: it was not verified, so the old one is still there.
    PulledAgain,
}

/// What a step asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NewAct {
    /// Commit the first receipt.
    CommitFirst,
    /// Process and commit.
    ProcessThrough,
    /// The same, and agree on the ends of tails.
    CloseTails,
    /// Process like any task.
    Process,
}

/// An event that cannot follow a step.
pub type NoSuchNewEdge = edges::NoSuchEdge<NewStep, NewEvent>;

impl NewStep {
    /// Every step, in order.
    pub const ALL: [Self; 4] = [Self::Moved, Self::Begun, Self::Verified, Self::Settled];

    /// What this step asks for.
    #[must_use]
    pub fn act(self) -> NewAct {
        match self {
            Self::Moved => NewAct::CommitFirst,
            Self::Begun => NewAct::ProcessThrough,
            Self::Verified => NewAct::CloseTails,
            Self::Settled => NewAct::Process,
        }
    }

    /// The step that follows.
    ///
    /// # Errors
    /// If the event cannot follow this step.
    pub fn after(self, event: NewEvent) -> Result<Self, NoSuchNewEdge> {
        use NewEvent as Event;
        let next = match (self, event) {
            (Self::Moved, Event::FirstCommitted) => Self::Begun,
            (Self::Begun | Self::Verified, Event::Committed) => Self::Verified,
            (Self::Verified, Event::CursorsMet) => Self::Settled,
            (Self::Settled, Event::Committed) => Self::Settled,
            (Self::Moved | Self::Begun, Event::PulledAgain) => Self::Moved,
            (
                Self::Moved | Self::Begun | Self::Verified | Self::Settled,
                Event::FirstCommitted | Event::Committed | Event::CursorsMet | Event::PulledAgain,
            ) => return Err(NoSuchNewEdge { step: self, event }),
        };
        Ok(next)
    }
}

impl NewEvent {
    /// Every event.
    pub const ALL: [Self; 4] = [
        Self::FirstCommitted,
        Self::Committed,
        Self::CursorsMet,
        Self::PulledAgain,
    ];
}

/// The edges of an old task as a table, for documents.
#[must_use]
pub fn old_edge_table() -> String {
    edges::table(&OldStep::ALL, &OldEvent::ALL, OldStep::act, OldStep::after)
}

/// The edges of a new task as a table, for documents.
#[must_use]
pub fn new_edge_table() -> String {
    edges::table(&NewStep::ALL, &NewEvent::ALL, NewStep::act, NewStep::after)
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
