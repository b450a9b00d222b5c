//! State that is read as it lies there: nothing is written, so that a volume that is full or cannot be written can be looked at.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::fmt;
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use turbine_protocol::{EntryNumber, StoreEpoch, StoreIdentity, Task, VolumeMarker};

use crate::budget::StateBudget;
use crate::error::StateError;
use crate::journal::Journal;
use crate::playback::{Played, Tape};
use crate::rows::{Rows, TABLE_BYTES};
use crate::task_state::{Progress, Visit};
use crate::volume::StateVolume;

/// Keys that only the journal has, with their values; none for those that it removes.
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A volume that is read and never written.
#[derive(Debug)]
pub struct VolumeReader {
    volume: StateVolume,
    /// Read when the first store is opened: checkpoints and the marker can be seen while a worker runs.
    journal: Option<Arc<Journal>>,
}

/// A store, or a copy of one, that is read and never written.
pub struct StoreReader {
    rows: Rows,
    /// None: it is a copy, and no journal goes on from it here.
    journal: Option<Arc<Journal>>,
    identity: StoreIdentity,
    saved: EntryNumber,
    progress: Progress,
    prepared: Option<Progress>,
    changes: Changes,
}

impl fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreReader")
            .field("path", &self.rows.path())
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

impl VolumeReader {
    /// The volume at `root`.
    #[must_use]
    pub fn new(root: &Path, budget: StateBudget) -> Self {
        Self {
            volume: StateVolume::untried(root, budget),
            journal: None,
        }
    }

    /// The volume's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.volume.root()
    }

    /// As [`StateVolume::marker`].
    ///
    /// # Errors
    /// The same.
    pub fn marker(&self) -> Result<Option<VolumeMarker>, StateError> {
        self.volume.marker()
    }

    /// As [`StateVolume::tasks`].
    ///
    /// # Errors
    /// The same.
    pub fn tasks(&self) -> Result<Vec<(Task, StoreEpoch)>, StateError> {
        self.volume.tasks()
    }

    /// The store of a task, whatever it says it is, with what the journal has behind its files; `None` if there is none.
    /// What the journal has is held in memory.
    ///
    /// # Errors
    /// If it is in use, damaged or cannot be read.
    pub fn open_store(
        &mut self,
        task: &Task,
        epoch: StoreEpoch,
    ) -> Result<Option<StoreReader>, StateError> {
        let journal = if let Some(journal) = &self.journal {
            Arc::clone(journal)
        } else {
            let opened = Arc::new(Journal::open_to_read(self.root())?);
            self.journal = Some(Arc::clone(&opened));
            opened
        };
        let path = self.volume.store_path(task, epoch);
        StoreReader::open(&path, Some(journal), &self.volume.budget)
    }

    /// The store whose files lie in `folder` under their own names, as those of a checkpoint; `None` if there is none.
    ///
    /// # Errors
    /// If it is damaged or cannot be read.
    pub fn open_copy(&self, folder: &Path) -> Result<Option<StoreReader>, StateError> {
        StoreReader::open(folder, None, &self.volume.budget)
    }
}

impl StoreReader {
    fn open(
        path: &Path,
        journal: Option<Arc<Journal>>,
        budget: &StateBudget,
    ) -> Result<Option<Self>, StateError> {
        let Some((rows, header)) = Rows::open_to_read(path, budget)? else {
            return Ok(None);
        };
        let saved = header.progress.number;
        let mut changes = Changes::new();
        // As when it is opened to run: whoever was stopped in order has everything in its files.
        let played = if let Some(journal) = &journal
            && !header.progress.cleanly_stopped
        {
            let tape = Tape {
                journal,
                identity: &header.identity,
                life: header.life,
                store: path,
            };
            tape.play(saved, &mut |key, value| {
                changes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                Ok(())
            })?
        } else {
            Played::default()
        };
        Ok(Some(Self {
            rows,
            journal,
            identity: header.identity,
            saved,
            progress: played.progress.unwrap_or(header.progress),
            prepared: played.held.map(|(_, progress)| progress),
            changes,
        }))
    }

    /// What it says it is.
    #[must_use]
    pub fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.rows.path()
    }

    /// How far it came, with what the journal has.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// How far it would come by the entry that is prepared, if one is.
    #[must_use]
    pub fn prepared(&self) -> Option<&Progress> {
        self.prepared.as_ref()
    }

    /// The last entry that its own files have.
    #[must_use]
    pub fn saved(&self) -> EntryNumber {
        self.saved
    }

    /// How many keys have values, or are removed, in the journal only.
    #[must_use]
    pub fn unsaved_keys(&self) -> usize {
        self.changes.len()
    }

    /// About how many keys its own files hold.
    #[must_use]
    pub fn estimated_keys(&self) -> u64 {
        self.rows.estimated_keys()
    }

    /// Bytes of its tables.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.rows.sum(TABLE_BYTES)
    }

    /// Bytes of the journal that all stores of the volume share; none for a copy.
    #[must_use]
    pub fn journal_bytes(&self) -> Option<u64> {
        self.journal.as_ref().map(|journal| journal.bytes())
    }

    /// Calls `visit` with keys and values from `from` on, in the order of the keys, until it breaks.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn scan(&self, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StateError> {
        let mut changes = self
            .changes
            .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
            .peekable();
        let mut flow = ControlFlow::Continue(());
        self.rows.scan(from, None, &mut |key, value| {
            flow = show_below(&mut changes, Some(key), visit);
            if flow.is_continue() {
                flow = match changes.next_if(|(changed, _)| changed.as_slice() == key) {
                    None => visit(key, value),
                    Some((_, Some(value))) => visit(key, value),
                    Some((_, None)) => ControlFlow::Continue(()),
                };
            }
            flow
        })?;
        if flow.is_continue() {
            // The last of them: whether it broke makes no difference.
            let _ended = show_below(&mut changes, None, visit);
        }
        Ok(())
    }

    /// The value of a key.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        if let Some(changed) = self.changes.get(key) {
            return Ok(changed.clone());
        }
        let mut found = None;
        self.rows
            .get_many(&[key], &mut |_, value| found = Some(value.to_vec()))?;
        Ok(found)
    }
}

/// Shows what was changed below a key, or all that is left.
fn show_below(
    changes: &mut Peekable<Range<'_, Vec<u8>, Option<Vec<u8>>>>,
    key: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> ControlFlow<()> {
    let below = |changed: &[u8]| key.is_none_or(|key| changed < key);
    while let Some((changed, value)) = changes.next_if(|(changed, _)| below(changed)) {
        if let Some(value) = value {
            visit(changed, value)?;
        }
    }
    ControlFlow::Continue(())
}
