//! What the worker needs of a task's state, whatever keeps it.

use std::ops::{ControlFlow, Range};

use turbine_protocol::{
    Entry, EntryChecksum, EntryNumber, Frontier, Position, Receipt, StoreIdentity,
};

use crate::checkpoint::{CheckpointMeta, Checkpointer, Snapshot};
use crate::error::StateError;

/// How far a store came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Number of the last commit; 0 if there was none.
    pub number: EntryNumber,
    /// Checksum of the last commit; 0 if there was none.
    pub checksum: EntryChecksum,
    /// The positions of all cursors.
    pub positions: Vec<Position>,
    /// How far event time had closed.
    pub frontier: Frontier,
    /// The last commit was prepared first, and counted once the broker had its receipt.
    pub by_transaction: bool,
    /// The state was closed in order after this commit, which had ended.
    pub cleanly_stopped: bool,
    /// The engine's clocks and timers, in the engine's own form; empty if there was no commit.
    pub clocks: Vec<u8>,
}

impl Progress {
    /// The receipt that stands for this progress at the broker, without what only the engine's clocks say.
    #[must_use]
    pub fn receipt(&self, identity: &StoreIdentity) -> Receipt {
        Receipt {
            lineage: identity.lineage,
            store_epoch: identity.store_epoch,
            number: self.number,
            checksum: self.checksum,
            frontier: self.frontier,
            retrace: None,
        }
    }
}

/// How large a store is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateSizes {
    /// Bytes of its files.
    pub files: u64,
    /// Bytes of its write buffers, in memory.
    pub memtables: u64,
    /// Bytes that it has still to rewrite, estimated.
    pub pending_compaction: u64,
    /// Bytes of the journal that all stores of the volume share.
    pub journal: u64,
}

/// Takes one key and its value.
pub type TakeRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StateError> + 'a;

/// Gives rows, one after the other, in ascending order of their keys: nobody holds all of them.
pub type GiveRows<'a> = dyn FnMut(&mut TakeRow<'_>) -> Result<(), StateError> + 'a;

/// Shown one key and its value at a time; says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Shown a value with the index of its key.
pub type Show<'a> = dyn FnMut(usize, &[u8]) + 'a;

/// A task's state: what its engine keeps, with the positions it belongs to.
///
/// Stored keys begin with the two bytes of their key group; a scan gives them in their order.
pub trait TaskState: Send {
    /// What the state says it is.
    fn identity(&self) -> &StoreIdentity;

    /// How far it came.
    fn progress(&self) -> &Progress;

    /// How far it would come by the entry that is prepared, if one is.
    fn prepared(&self) -> Option<&Progress>;

    /// Calls `visit` with keys and values from `from` on and below `to` (none: to the end) as of the
    /// last [`TaskState::save`] or the opening, in the order of the keys, until it breaks.
    ///
    /// # Errors
    /// If state cannot be read.
    fn scan(&self, from: &[u8], to: Option<&[u8]>, visit: &mut Visit<'_>)
    -> Result<(), StateError>;

    /// Looks up `keys`, which ascend, as of the last [`TaskState::save`] or the opening, and shows
    /// each value that there is with the index of its key.
    ///
    /// # Errors
    /// If state cannot be read.
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), StateError>;

    /// How large it is, as far as the store says.
    fn sizes(&self) -> StateSizes;

    /// Makes an entry durable, changes and positions as one, before it returns. What it changes is
    /// in the journal and not seen by reads until it is saved; whoever commits keeps it until then.
    ///
    /// # Errors
    /// If it cannot be. What is stored is then not known, and no further commit is taken: the
    /// state has to be opened anew.
    fn commit(&mut self, entry: &Entry<'_>) -> Result<EntryChecksum, StateError>;

    /// Makes an entry durable without letting it count: where the state stands stays as it is. It is
    /// then marked done by [`TaskState::apply_prepared`], or taken back.
    ///
    /// # Errors
    /// As [`TaskState::commit`]; and if another one is prepared.
    fn prepare(&mut self, entry: &Entry<'_>) -> Result<EntryChecksum, StateError>;

    /// Lets the prepared entry count. Whether that is durable does not matter: it is prepared as long as it is not, and the
    /// same question gets the same answer.
    ///
    /// # Errors
    /// If it cannot be written, or none is prepared.
    fn apply_prepared(&mut self) -> Result<(), StateError>;

    /// Takes the prepared entry back, durably, so that its number can be given anew.
    ///
    /// # Errors
    /// If it cannot be written, or none is prepared.
    fn cancel_prepared(&mut self) -> Result<(), StateError>;

    /// Takes everything that was committed and not saved into the store's own files, so that a
    /// start need not read it from the journal. Keys of the ranges `dead` are removed; `puts` gives
    /// all keys that changed since the last save and are not dead, with their values as of the last
    /// commit.
    ///
    /// # Errors
    /// If they cannot be written, or an entry is prepared: its changes do not count.
    fn save_each(
        &mut self,
        dead: &[Range<&[u8]>],
        puts: &mut GiveRows<'_>,
    ) -> Result<(), StateError>;

    /// As [`TaskState::save_each`], of rows that are there already.
    ///
    /// # Errors
    /// The same.
    fn save(
        &mut self,
        dead: &[Range<&[u8]>],
        puts: &mut dyn Iterator<Item = (&[u8], &[u8])>,
    ) -> Result<(), StateError> {
        self.save_each(dead, &mut |take| {
            for (key, value) in &mut *puts {
                take(key, value)?;
            }
            Ok(())
        })
    }

    /// A moment of the store's own files, which is that of the last [`TaskState::save`], made at this time (milliseconds since
    /// the Unix epoch).
    ///
    /// # Errors
    /// If it cannot be taken.
    fn snapshot(
        &self,
        checkpointer: &Checkpointer,
        made_at_ms: i64,
    ) -> Result<(Snapshot, CheckpointMeta), StateError>;

    /// What is committed from here on is another history than the one that went on from here before: records of that one,
    /// wherever a journal still has them, are never taken in again.
    ///
    /// # Errors
    /// If it cannot be written, or an entry is prepared.
    fn branch(&mut self) -> Result<(), StateError>;

    /// As [`TaskState::save`] and [`TaskState::branch`], whole or not at all, of changes that were not committed: the state
    /// then stands where `progress` says. What was prepared is passed over.
    ///
    /// # Errors
    /// If it cannot be written. What is stored is then as it was.
    fn rebase(
        &mut self,
        progress: &Progress,
        dead: &[Range<&[u8]>],
        puts: &mut dyn Iterator<Item = (&[u8], &[u8])>,
    ) -> Result<(), StateError>;

    /// Whether the journal has become so large that this state has to be saved.
    fn wants_saved(&self) -> bool;

    /// Ends all work on the state and lets it go. If everything is committed and saved, the state
    /// remembers that it was stopped in order: then nothing is in doubt, whatever the broker
    /// forgets meanwhile.
    ///
    /// # Errors
    /// If that cannot be written.
    fn close(self: Box<Self>) -> Result<(), StateError>;
}
