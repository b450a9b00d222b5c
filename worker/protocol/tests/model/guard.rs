//! The rules that the protocol stands on, each of which can be broken to see that the model notices.

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// Offsets are sent before the prepared entry is synced.
    PreparedNotSynced,
    /// A prepared entry that does not count is not cancelled in the journal before its number is given anew.
    CancelNotWritten,
    /// It is written, and not synced before that.
    CancelNotSynced,
    /// A closed segment is not synced.
    RollNotSynced,
    /// A segment goes before the store's files have what it says.
    ReleasedTooEarly,
    /// A checkpoint takes the live values while their entry is undecided.
    CheckpointTakesUndecided,
    /// Journal records of a store that was discarded are played back into its successor.
    RecordsOfAnotherLife,
    /// The start takes a receipt of the right number for its own, whatever it says.
    ReceiptByNumber,
    /// The start does not compare the offset with that of the receipt.
    OffsetNotCompared,
    /// The start takes a store for the last word where the broker has no receipt.
    NoReceiptNeeded,
    /// The start runs an assignment that is older than what has committed.
    OldAssignmentRuns,
    /// The start takes a prepared entry for done without asking.
    DoneWithoutReceipt,
    /// The start asks for the receipt before it takes the id over.
    ReadBeforeTakeOver,
    /// The start does not take the id over.
    NoTakeOver,
    /// The start takes an offset while a committed one is still pending.
    ReadNotStable,
    /// The start makes an empty store where the broker knows of state.
    EmptyForLost,
    /// A commit that did not answer is aborted and its interval is done again.
    AbortAfterCommit,
    /// The interval goes on after a commit that did not answer, as if it had.
    UnknownTakenForCommitted,
    /// What is read again for an older store is written again.
    ReplayWritesOutputs,
    /// The store takes the receipt's number and offset, and the state not as one with it.
    ReplayNotAsOne,
    /// The store goes on with its own number behind what was read again.
    ReplayTakesNoNumber,
    /// A store that was recovered is not durable before more is committed.
    RecoveredNotDurable,
    /// A store that was brought further still takes in what the journal has of it from before.
    FormerRecordsKept,
    /// What lies between is not read again, and nobody asked for that.
    AcceptedUnasked,
    /// A task that goes on without what lies between reads on from its store's position.
    AcceptedFromTheStore,
    /// The start does not compare the history of what was committed with that of an older store.
    HistoryNotCompared,
    /// The start does not count what an older store lacks.
    GapNotBounded,
    /// A process does not know any more that it has run the task.
    OvertakenForgotten,
    /// At least once: the group's offset goes before the entry is synced.
    OffsetBeforeSync,
    /// At least once: the entry is written before the outputs are acknowledged.
    OutputsNotAwaited,
}
