//! The journal of a pod: one log with the entries of all its tasks, so that one sync serves all
//! that wait for it.
//!
//! What was appended counts once it is synced. A segment goes when every store named in it has
//! absorbed what it says.

mod carry;
mod index;
mod reading;
mod record;
mod scan;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::FlockOperation;
use turbine_protocol::journal::Record;
use turbine_protocol::{EntryNumber, StoreEpoch, StoredEntry, Task};

pub(crate) use index::RecordRef;
pub(crate) use record::Life;

use self::index::{Damage, Index};
use self::record::{HEADER, Header, SEGMENT_HEADER, segment_header};
use self::scan::scan;
use crate::error::{StateError, io};
use crate::fault;
use crate::files::{FileLayer, LayerFile, SystemFiles, make_folders};

/// Name of the journal's folder on the volume. No subscription can have it.
pub(crate) const FOLDER: &str = "_journal";
const LOCK: &str = "lock";
const SUFFIX: &str = ".log";
/// What is left to do where a journal cannot be brought back.
pub(crate) const WAY_OUT: &str = "where there is no good copy, stop the worker and move the folder `_journal` aside: its \
     tasks go on from what they last saved, at least once writes the results since then again, exactly once does as \
     `onCrashRecovery` says";

/// How large a journal may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalLimits {
    /// A segment of this size is closed.
    pub(crate) segment: u64,
    /// From this size on the stores that hold the oldest segment back are asked to save.
    pub(crate) all: u64,
}

impl JournalLimits {
    /// The usual limits, or smaller ones that keep to about this many bytes.
    pub(crate) fn within(bytes: u64) -> Self {
        let usual = Self::default();
        let all = bytes.clamp(2 << 20, usual.all);
        Self {
            segment: usual.segment.min(all / 4),
            all,
        }
    }
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            segment: 32 << 20,
            all: 256 << 20,
        }
    }
}

/// Where an appended record ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    segment: u64,
    end: u64,
}

/// A record that is being put together: its payload stands behind room for the header.
#[derive(Debug, Default)]
pub(crate) struct Draft(Vec<u8>);

impl Draft {
    /// An empty payload, in the memory of an earlier draft.
    pub(crate) fn clear(&mut self) -> &mut Vec<u8> {
        self.0.clear();
        self.0.resize(HEADER, 0);
        &mut self.0
    }
}

/// The journal.
pub(crate) struct Journal {
    folder: PathBuf,
    files: Box<dyn FileLayer>,
    limits: JournalLimits,
    state: Mutex<State>,
    /// A sync has ended.
    synced: Condvar,
    /// Held as long as this lives: two processes must not append to one journal.
    _lock: Option<File>,
}

#[derive(Debug)]
struct State {
    index: Index,
    number: u64,
    file: Arc<dyn LayerFile>,
    written: u64,
    durable: u64,
    syncing: bool,
    /// A sync failed: what is durable is not known, and a second try may succeed falsely.
    failed: Option<StateError>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:020}{SUFFIX}"))
}

impl Journal {
    /// The journal of the volume at `root`, made if there is none.
    ///
    /// # Errors
    /// If another process has it, or it cannot be read or written.
    pub(crate) fn open(root: &Path, limits: JournalLimits) -> Result<Self, StateError> {
        let folder = root.join(FOLDER);
        make_folders(&SystemFiles, root, &folder).map_err(|error| io("make", &folder, &error))?;
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(|error| io("open", &path, &error))?;
        hold(&lock, &folder, FlockOperation::NonBlockingLockExclusive)?;
        Self::recover(folder, Box::new(SystemFiles), limits, Some(lock))
    }

    fn recover(
        folder: PathBuf,
        files: Box<dyn FileLayer>,
        limits: JournalLimits,
        lock: Option<File>,
    ) -> Result<Self, StateError> {
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |error: std::io::Error| io(what, &path, &error)
        };
        let (mut index, last) = read_segments(&*files, &folder)?;
        let (number, file, written) = match last {
            Some(Last {
                number,
                good,
                length,
            }) if good >= SEGMENT_HEADER as u64 => {
                let path = segment_path(&folder, number);
                let file = files.open(&path).map_err(failed("open", &path))?;
                if good < length {
                    tracing::info!(
                        path = %path.display(), bytes = length - good,
                        "the journal's torn end is cut off: it was never acknowledged"
                    );
                    file.truncate(good).map_err(failed("cut", &path))?;
                }
                // A killed process leaves what it wrote in the kernel's hands, not on the disk.
                file.sync().map_err(failed("sync", &path))?;
                (number, file, good)
            }
            Some(Last { number, .. }) => {
                let path = segment_path(&folder, number);
                files.remove(&path).map_err(failed("remove", &path))?;
                let file = create_segment(&*files, &folder, number)?;
                (number, file, SEGMENT_HEADER as u64)
            }
            None => {
                let file = create_segment(&*files, &folder, 1)?;
                (1, file, SEGMENT_HEADER as u64)
            }
        };
        index.begin_segment(number, written);
        Ok(Self {
            folder,
            files,
            limits,
            state: Mutex::new(State {
                index,
                number,
                file: file.into(),
                written,
                durable: written,
                syncing: false,
                failed: None,
            }),
            synced: Condvar::new(),
            _lock: lock,
        })
    }

    /// Where it lies.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is kept here is whole between any two statements that hold it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.synced
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a record; it counts once [`Self::sync`] has returned for its place.
    ///
    /// # Errors
    /// If it cannot be written; then nothing of it is there.
    pub(crate) fn append(
        &self,
        life: Life,
        owner: Option<(Task, StoreEpoch)>,
        record: Record,
        payload_checksum: u32,
        draft: &mut Draft,
    ) -> Result<Place, StateError> {
        let payload = u32::try_from(draft.0.len() - HEADER).map_err(|_| StateError::Io {
            what: "write an entry to",
            path: self.folder.clone(),
            detail: "it has 4 GiB or more".to_owned(),
        })?;
        let mut state = self.lock();
        while state.written >= self.limits.segment && state.syncing {
            state = self.wait(state);
        }
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        if state.written >= self.limits.segment {
            self.roll(&mut state)?;
        }
        let header = Header {
            life,
            record,
            payload,
            payload_checksum,
            durable: state.durable,
        };
        if let Some(room) = draft.0.first_chunk_mut::<HEADER>() {
            header.write(room);
        }
        let path = segment_path(&self.folder, state.number);
        if let Err(error) = fault::write(&draft.0, |bytes| state.file.append(bytes)) {
            let error = io("write to", &path, &error);
            // Behind a part of a record the next one would not be found.
            if let Err(second) = state.file.truncate(state.written) {
                let second = io("cut", &path, &second);
                state.failed = Some(StateError::SyncFailed {
                    path,
                    detail: second.to_string(),
                });
            }
            return Err(error);
        }
        let payload_at = state.written + HEADER as u64;
        state.written += draft.0.len() as u64;
        let (segment, end) = (state.number, state.written);
        let found = RecordRef {
            record,
            segment,
            payload_at,
            payload,
            checksum: payload_checksum,
        };
        state.index.add(life, owner, found, end);
        Ok(Place { segment, end })
    }

    /// Closes the segment and begins the next one.
    fn roll(&self, state: &mut State) -> Result<(), StateError> {
        let path = segment_path(&self.folder, state.number);
        if let Err(error) = state.file.sync() {
            return Err(fail(state, path, &error));
        }
        state.durable = state.written;
        let number = state.number + 1;
        state.file = create_segment(&*self.files, &self.folder, number)?.into();
        state.number = number;
        state.written = SEGMENT_HEADER as u64;
        state.durable = state.written;
        state.index.begin_segment(number, state.written);
        self.synced.notify_all();
        Ok(())
    }

    /// Waits until everything up to a place is durable. One sync serves all that wait.
    ///
    /// # Errors
    /// If a sync failed. Then the process has to end: what is durable shows when the journal is
    /// read anew.
    pub(crate) fn sync(&self, place: Place) -> Result<(), StateError> {
        let mut state = self.lock();
        loop {
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if place.segment < state.number || place.end <= state.durable {
                return Ok(());
            }
            if state.syncing {
                state = self.wait(state);
                continue;
            }
            state.syncing = true;
            let (number, written, file) = (state.number, state.written, Arc::clone(&state.file));
            drop(state);
            let synced = file.sync();
            state = self.lock();
            state.syncing = false;
            match synced {
                Ok(()) => state.durable = state.durable.max(written),
                Err(error) => {
                    fail(&mut state, segment_path(&self.folder, number), &error);
                }
            }
            self.synced.notify_all();
        }
    }

    /// A store begins a life of its own: what was damaged before is not of it.
    pub(crate) fn begin_life(&self, life: Life) {
        self.lock().index.begin_life(life);
    }

    /// The records that a store may not have absorbed, in their order.
    ///
    /// # Errors
    /// If damage may have taken some of them.
    pub(crate) fn records(&self, life: Life) -> Result<Vec<RecordRef>, StateError> {
        let state = self.lock();
        match state.index.doubt(life) {
            Some(damage) => Err(StateError::Damaged {
                path: segment_path(&self.folder, damage.segment),
                detail: format!(
                    "at byte {} it holds no record any more, and entries of this task may have \
                     been there; {WAY_OUT}",
                    damage.offset
                ),
            }),
            None => Ok(state.index.records(life)),
        }
    }

    /// The records that go on from a copy of a store that reaches to an entry, if the journal is known to have all of them.
    pub(crate) fn records_behind(&self, life: Life, number: EntryNumber) -> Option<Vec<RecordRef>> {
        let state = self.lock();
        let whole = state.index.doubt(life).is_none() && !state.index.released_behind(life, number);
        whole.then(|| state.index.records(life))
    }

    /// The stored form of an entry.
    ///
    /// # Errors
    /// If it cannot be read or is not what was written.
    pub(crate) fn read(&self, record: &RecordRef) -> Result<Vec<u8>, StateError> {
        let path = segment_path(&self.folder, record.segment);
        let mut bytes = vec![0; record.payload as usize];
        self.files
            .read_at(&path, record.payload_at, &mut bytes)
            .map_err(|error| io("read", &path, &error))?;
        if crc32c::crc32c(&bytes) != record.checksum {
            return Err(StateError::Damaged {
                path,
                detail: format!(
                    "the entry at byte {} has changed; {WAY_OUT}",
                    record.payload_at
                ),
            });
        }
        Ok(bytes)
    }

    /// A store has everything up to an entry in its own files, durably. Segments that nobody needs
    /// any more go.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub(crate) fn release(&self, life: Life, number: EntryNumber) -> Result<(), StateError> {
        let mut state = self.lock();
        state.index.release(life, number);
        self.remove_released(&mut state)
    }

    /// Some stores are gone, and what the journal has of them with them.
    ///
    /// # Errors
    /// If a segment cannot be removed.
    pub(crate) fn forget(
        &self,
        gone: impl Fn(Life, &Task, StoreEpoch) -> bool,
    ) -> Result<(), StateError> {
        let mut state = self.lock();
        state.index.forget(gone);
        self.remove_released(&mut state)
    }

    fn remove_released(&self, state: &mut State) -> Result<(), StateError> {
        let active = state.number;
        for number in state.index.take_released(active) {
            let path = segment_path(&self.folder, number);
            // One by one: a power loss must not bring back an old one without those behind it.
            self.files
                .remove(&path)
                .and_then(|()| self.files.sync_folder(&self.folder))
                .map_err(|error| io("remove", &path, &error))?;
        }
        Ok(())
    }

    /// Whether the journal has reached its bound and this store keeps it from shrinking.
    pub(crate) fn wants_saved(&self, life: Life) -> bool {
        let state = self.lock();
        state.index.bytes() >= self.limits.all && state.index.holds_back(life)
    }

    /// Whether it has reached its bound.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= self.limits.all
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().index.bytes()
    }
}

/// Takes the journal's lock, in one of the two ways.
fn hold(lock: &File, folder: &Path, how: FlockOperation) -> Result<(), StateError> {
    rustix::fs::flock(lock, how).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => StateError::InUse {
            path: folder.to_owned(),
            detail: "another process holds the lock of its journal".to_owned(),
        },
        other => io("lock", &folder.join(LOCK), &other.into()),
    })
}

/// The newest segment.
struct Last {
    number: u64,
    /// How much of it is worth keeping.
    good: u64,
    length: u64,
}

/// Reads all segments of a folder.
fn read_segments(
    files: &dyn FileLayer,
    folder: &Path,
) -> Result<(Index, Option<Last>), StateError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| io("read", &path, &error)
    };
    let mut numbers: Vec<u64> = files
        .list(folder)
        .map_err(failed(folder))?
        .iter()
        .filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut index = Index::default();
    let mut last = None;
    for (at, number) in numbers.iter().enumerate() {
        let path = segment_path(folder, *number);
        let bytes = files.read(&path).map_err(failed(&path))?;
        let closed = at + 1 < numbers.len();
        if at > 0 && numbers[at - 1] + 1 != *number {
            index.damaged(Damage {
                segment: *number,
                offset: 0,
            });
        }
        let good = take_segment(&mut index, &bytes, *number, closed);
        last = Some(Last {
            number: *number,
            good,
            length: bytes.len() as u64,
        });
    }
    Ok((index, last))
}

fn fail(state: &mut State, path: PathBuf, error: &std::io::Error) -> StateError {
    let failed = StateError::SyncFailed {
        path,
        detail: error.to_string(),
    };
    state.failed = Some(failed.clone());
    failed
}

/// Puts a segment's records into the index, and says how much of it is worth keeping.
fn take_segment(index: &mut Index, bytes: &[u8], number: u64, closed: bool) -> u64 {
    let scan = scan(bytes, number, closed);
    index.begin_segment(number, scan.good);
    let damage = |offset| Damage {
        segment: number,
        offset,
    };
    let mut read_to = if scan.damaged_at == Some(0) {
        0
    } else {
        SEGMENT_HEADER as u64
    };
    for found in &scan.records {
        if found.after_damage {
            index.damaged(damage(read_to));
        }
        let header = found.header;
        let payload = usize::try_from(found.payload_at)
            .ok()
            .and_then(|at| bytes.get(at..)?.get(..header.payload as usize))
            .unwrap_or_default();
        let owner = StoredEntry::decode(payload).map(|entry| (entry.task, entry.store_epoch));
        let record = RecordRef {
            record: header.record,
            segment: number,
            payload_at: found.payload_at,
            payload: header.payload,
            checksum: header.payload_checksum,
        };
        let end = found.payload_at + u64::from(header.payload);
        index.add(header.life, owner, record, end);
        read_to = end;
    }
    if scan.good > read_to {
        index.damaged(damage(read_to));
    }
    index.begin_segment(number, scan.good);
    scan.good
}

fn create_segment(
    files: &dyn FileLayer,
    folder: &Path,
    number: u64,
) -> Result<Box<dyn LayerFile>, StateError> {
    let path = segment_path(folder, number);
    let make = || -> std::io::Result<Box<dyn LayerFile>> {
        let file = match files.create(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A segment whose making failed half way; nothing was appended to it.
                files.remove(&path)?;
                files.create(&path)?
            }
            made => made?,
        };
        file.append(&segment_header(number))?;
        file.sync()?;
        files.sync_folder(folder)?;
        Ok(file)
    };
    make().map_err(|error| io("make", &path, &error))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
