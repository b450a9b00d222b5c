//! One task's state: its own files, and its entries in the journal since they were last saved.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use turbine_protocol::journal::{Record, RecordKind};
use turbine_protocol::{
    Entry, EntryChecksum, EntryNumber, Frontier, Position, StoreEpoch, StoreIdentity, Task,
};

use crate::budget::StateBudget;
use crate::checkpoint::{CheckpointMeta, Checkpointer, Snapshot};
use crate::error::StateError;
use crate::fault::{self, FaultPoint};
use crate::journal::{Draft, Journal, Life, RecordRef};
use crate::playback::Tape;
use crate::rows::{Header, Rows, TABLE_BYTES};
use crate::task_state::{GiveRows, Progress, Show, StateSizes, TaskState, Visit};

/// A task's state.
pub struct TaskStore {
    rows: Rows,
    journal: Arc<Journal>,
    identity: StoreIdentity,
    life: Life,
    progress: Progress,
    /// What the files reach to.
    saved: EntryNumber,
    prepared: Option<Prepared>,
    draft: Draft,
    broken: bool,
}

/// An entry that is durable and does not count yet.
#[derive(Debug, Clone)]
struct Prepared {
    /// What the progress is if it counts.
    progress: Progress,
    /// Where it lies, if an earlier life made it: nobody but the journal has its changes then.
    found: Option<RecordRef>,
}

impl fmt::Debug for TaskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskStore")
            .field("path", &self.rows.path())
            .field("progress", &self.progress)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl TaskStore {
    /// Opens the store at `path` and takes in what the journal has of it; `None` if there is no
    /// store, or one whose making never ended.
    pub(crate) fn open(
        path: &Path,
        journal: &Arc<Journal>,
        budget: &StateBudget,
    ) -> Result<Option<Self>, StateError> {
        let Some((rows, header)) = Rows::open(path, budget)? else {
            return Ok(None);
        };
        // Before the journal is touched: nothing of it may be taken in, or let go, for a store that does not run here.
        if rows.is_moved()? {
            return Err(StateError::Moved {
                path: path.to_owned(),
            });
        }
        let mut store = Self {
            rows,
            journal: Arc::clone(journal),
            identity: header.identity,
            life: header.life,
            saved: header.progress.number,
            progress: header.progress,
            prepared: None,
            draft: Draft::default(),
            broken: false,
        };
        store.take_in_journal()?;
        forget_former(journal, &store.identity, store.life)?;
        Ok(Some(store))
    }

    /// Makes a store that stands at `positions` and has committed nothing.
    pub(crate) fn create(
        path: &Path,
        identity: &StoreIdentity,
        positions: &[Position],
        journal: &Arc<Journal>,
        budget: &StateBudget,
    ) -> Result<Self, StateError> {
        let header = Header {
            identity: identity.clone(),
            life: Life(rand::random()),
            progress: Progress {
                number: EntryNumber::ZERO,
                checksum: EntryChecksum(0),
                positions: positions.to_vec(),
                frontier: Frontier::default(),
                by_transaction: false,
                cleanly_stopped: false,
                clocks: Vec::new(),
            },
        };
        let rows = Rows::create(path, &header, budget)?;
        journal.begin_life(header.life);
        forget_former(journal, identity, header.life)?;
        Ok(Self {
            rows,
            journal: Arc::clone(journal),
            identity: header.identity,
            life: header.life,
            saved: EntryNumber::ZERO,
            progress: header.progress,
            prepared: None,
            draft: Draft::default(),
            broken: false,
        })
    }

    /// The store's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.rows.path()
    }

    /// About how many keys it holds, for showing progress.
    #[must_use]
    pub fn estimated_keys(&self) -> u64 {
        self.rows.estimated_keys()
    }

    fn tape(&self) -> Tape<'_> {
        Tape {
            journal: &self.journal,
            identity: &self.identity,
            life: self.life,
            store: self.rows.path(),
        }
    }

    /// Plays back what the journal has and the files have not.
    fn take_in_journal(&mut self) -> Result<(), StateError> {
        // Whoever was stopped in order has everything in its files, whatever became of the journal.
        if self.progress.cleanly_stopped {
            self.journal.release(self.life, self.saved)?;
            return self.journal.let_go(self.life);
        }
        let mut filling = self.rows.fill();
        let played = self
            .tape()
            .play(self.saved, &mut |key, value| filling.put(key, value))?;
        if let Some(progress) = played.progress {
            filling.finish(&progress)?;
            self.progress = progress;
            self.saved = self.progress.number;
        }
        // Also where nothing was to be taken in: what a killed process had released is not known to this journal.
        self.journal.release(self.life, self.saved)?;
        let Some((found, progress)) = played.held else {
            return self.journal.let_go(self.life);
        };
        let found = if self.journal.wants_saved(self.life) {
            let owner = (self.identity.task(), self.identity.store_epoch);
            self.journal
                .carry(self.life, owner, &found, &mut self.draft)?
        } else {
            found
        };
        self.prepared = Some(Prepared {
            progress,
            found: Some(found),
        });
        Ok(())
    }

    /// Appends an entry, if it can follow what is stored, and makes it durable.
    fn append(&mut self, entry: &Entry<'_>, kind: RecordKind) -> Result<Progress, StateError> {
        if self.broken {
            return Err(StateError::Broken {
                path: self.rows.path().to_owned(),
            });
        }
        if self.prepared.is_some()
            || entry.number != self.progress.number.next()
            || entry.store_epoch != self.identity.store_epoch
            || *entry.task != self.identity.task()
        {
            return Err(StateError::OutOfOrder {
                last: self.progress.number,
                given: entry.number,
            });
        }
        self.begin_commits()?;
        let checksum = entry
            .encode(self.draft.clear())
            .map_err(|error| StateError::Io {
                what: "write an entry of",
                path: self.rows.path().to_owned(),
                detail: error.to_string(),
            })?;
        let record = Record {
            kind,
            number: entry.number,
        };
        self.log(record, checksum, true)?;
        Ok(Progress {
            number: entry.number,
            checksum,
            positions: entry.positions.to_vec(),
            frontier: entry.frontier,
            by_transaction: kind == RecordKind::Prepared,
            cleanly_stopped: false,
            clocks: entry.clocks.to_vec(),
        })
    }

    /// The files say no longer that the store was stopped in order: from the next entry on it needs the journal.
    fn begin_commits(&mut self) -> Result<(), StateError> {
        if self.progress.cleanly_stopped {
            let begun = Progress {
                cleanly_stopped: false,
                ..self.progress.clone()
            };
            self.rows.fill().finish(&begun)?;
            self.progress = begun;
        }
        Ok(())
    }

    /// Appends the drafted record.
    fn log(
        &mut self,
        record: Record,
        checksum: EntryChecksum,
        durable: bool,
    ) -> Result<(), StateError> {
        let owner: Option<(Task, StoreEpoch)> =
            Some((self.identity.task(), self.identity.store_epoch));
        let logged = self
            .journal
            .append(self.life, owner, record, checksum.0, &mut self.draft)
            .and_then(|place| {
                if durable {
                    fault::pass(FaultPoint::AfterJournalWrite);
                    self.journal.sync(place)?;
                    fault::pass(FaultPoint::AfterSync);
                }
                Ok(())
            });
        // What is stored is not known then; reading it anew shows it.
        self.broken |= logged.is_err();
        logged
    }

    /// Appends a record that decides over the prepared entry.
    fn decide(&mut self, number: EntryNumber, kind: RecordKind) -> Result<(), StateError> {
        self.draft.clear();
        let durable = kind == RecordKind::Cancelled;
        self.log(Record { kind, number }, EntryChecksum(0), durable)
    }

    fn take_prepared(&mut self) -> Result<Prepared, StateError> {
        let last = self.progress.number;
        self.prepared.take().ok_or(StateError::OutOfOrder {
            last,
            given: last.next(),
        })
    }
}

/// Of former stores in this place nothing is left that could be taken in.
fn forget_former(
    journal: &Journal,
    identity: &StoreIdentity,
    life: Life,
) -> Result<(), StateError> {
    let own = identity.task();
    journal
        .forget(|other, task, epoch| other != life && *task == own && epoch == identity.store_epoch)
}

impl TaskState for TaskStore {
    fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn scan(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StateError> {
        self.rows.scan(from, to, visit)
    }

    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), StateError> {
        self.rows.get_many(keys, show)
    }

    fn sizes(&self) -> StateSizes {
        StateSizes {
            files: self.rows.sum(TABLE_BYTES),
            memtables: self.rows.sum("rocksdb.cur-size-all-mem-tables"),
            pending_compaction: self.rows.sum("rocksdb.estimate-pending-compaction-bytes"),
            journal: self.journal.bytes(),
        }
    }

    fn commit(&mut self, entry: &Entry<'_>) -> Result<EntryChecksum, StateError> {
        self.progress = self.append(entry, RecordKind::Entry)?;
        Ok(self.progress.checksum)
    }

    fn prepared(&self) -> Option<&Progress> {
        self.prepared.as_ref().map(|prepared| &prepared.progress)
    }

    fn prepare(&mut self, entry: &Entry<'_>) -> Result<EntryChecksum, StateError> {
        let progress = self.append(entry, RecordKind::Prepared)?;
        let checksum = progress.checksum;
        self.prepared = Some(Prepared {
            progress,
            found: None,
        });
        Ok(checksum)
    }

    fn apply_prepared(&mut self) -> Result<(), StateError> {
        let prepared = self.take_prepared()?;
        if let Some(found) = &prepared.found {
            let mut filling = self.rows.fill();
            let progress = self
                .tape()
                .changes(found, &mut |key, value| filling.put(key, value))?;
            filling.finish(&progress)?;
            self.saved = progress.number;
        }
        fault::pass(FaultPoint::BeforeMarkingDone);
        self.decide(prepared.progress.number, RecordKind::Done)?;
        fault::pass(FaultPoint::AfterMarkingDone);
        self.progress = prepared.progress;
        if prepared.found.is_some() {
            self.journal.release(self.life, self.saved)?;
        }
        Ok(())
    }

    fn cancel_prepared(&mut self) -> Result<(), StateError> {
        let prepared = self.take_prepared()?;
        self.decide(prepared.progress.number, RecordKind::Cancelled)
    }

    fn save_each(
        &mut self,
        dead: &[Range<&[u8]>],
        puts: &mut GiveRows<'_>,
    ) -> Result<(), StateError> {
        if let Some(prepared) = &self.prepared {
            return Err(StateError::OutOfOrder {
                last: self.progress.number,
                given: prepared.progress.number,
            });
        }
        let mut filling = self.rows.fill();
        // Neither needs to be durable as one with the rest: a crash before the end plays back
        // entries of the journal up to one whose clocks call the same ranges dead.
        for range in dead {
            filling.remove(range)?;
        }
        puts(&mut |key, value| filling.put(key, Some(value)))?;
        fault::pass(FaultPoint::InSave);
        filling.finish(&self.progress)?;
        fault::pass(FaultPoint::AfterSave);
        self.saved = self.progress.number;
        self.journal.release(self.life, self.saved)
    }

    fn snapshot(
        &self,
        checkpointer: &Checkpointer,
        made_at_ms: i64,
    ) -> Result<(Snapshot, CheckpointMeta), StateError> {
        let snapshot = self.rows.snapshot(checkpointer)?;
        let meta = CheckpointMeta {
            identity: self.identity.clone(),
            progress: self.rows.reach()?,
            made_at_ms,
        };
        Ok((snapshot, meta))
    }

    fn branch(&mut self) -> Result<(), StateError> {
        if self.prepared.is_some() || self.saved != self.progress.number {
            return Err(StateError::OutOfOrder {
                last: self.saved,
                given: self.progress.number,
            });
        }
        let progress = self.progress.clone();
        self.rebase(&progress, &[], &mut std::iter::empty())
    }

    fn rebase(
        &mut self,
        progress: &Progress,
        dead: &[Range<&[u8]>],
        puts: &mut dyn Iterator<Item = (&[u8], &[u8])>,
    ) -> Result<(), StateError> {
        let progress = Progress {
            cleanly_stopped: false,
            ..progress.clone()
        };
        let life = Life(rand::random());
        let mut filling = self.rows.fill_whole();
        for range in dead {
            filling.remove(range)?;
        }
        for (key, value) in puts {
            filling.put(key, Some(value))?;
        }
        filling.begin_life(life)?;
        filling.finish(&progress)?;
        self.journal.begin_life(life);
        self.life = life;
        self.prepared = None;
        self.saved = progress.number;
        self.progress = progress;
        forget_former(&self.journal, &self.identity, life)
    }

    fn wants_saved(&self) -> bool {
        self.journal.wants_saved(self.life)
    }

    fn close(mut self: Box<Self>) -> Result<(), StateError> {
        let settled = self.prepared.is_none() && self.saved == self.progress.number;
        if settled && !self.broken && !self.progress.cleanly_stopped {
            self.progress.cleanly_stopped = true;
            self.rows.fill().finish(&self.progress)?;
        }
        self.rows.end_work();
        Ok(())
    }
}
