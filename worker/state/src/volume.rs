//! A volume with the stores of many tasks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use turbine_keygroups::Partition;
use turbine_protocol::start::{StoreEvidence, StoreProgress};
use turbine_protocol::{
    Differences, Position, StoreEpoch, StoreIdentity, SubscriptionName, Task, VolumeMarker,
};

use crate::budget::StateBudget;
use crate::error::{StateError, free_and_size, io};
use crate::files::{FileLayer, SystemFiles, make_folders, remove_folder, replace};
use crate::journal::{Journal, JournalLimits};
use crate::store::TaskStore;
use crate::task_state::{Progress, TaskState};

/// Name of the file at the volume's root that says whose state lies on it.
pub const MARKER_FILE: &str = "turbine-volume.json";
const PROBE_FILE: &str = ".turbine-write-probe";

/// A folder that holds the stores of tasks, at `<subscription>/<partition>/<store epoch>/`.
#[derive(Debug, Clone)]
pub struct StateVolume {
    root: PathBuf,
    pub(crate) budget: StateBudget,
    /// Opened by the first who needs a store: whoever only reads the marker takes no lock.
    journal: Arc<Mutex<Option<Arc<Journal>>>>,
}

/// How much room a volume has, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What this user may still write.
    pub free: u64,
    /// The whole file system.
    pub size: u64,
}

/// What was found in the place of a task's store.
#[derive(Debug)]
pub enum FoundStore {
    /// Nothing.
    Absent,
    /// The store that was expected, open.
    Ours(Box<TaskStore>),
    /// Another one; it was closed again and is as it was.
    Other(StoreProgress),
}

impl FoundStore {
    /// What the decision about a start needs of it.
    ///
    /// # Errors
    /// If the store does not say where its own partition stands.
    pub fn evidence(&self) -> Result<StoreEvidence, StateError> {
        match self {
            Self::Absent => Ok(StoreEvidence::Absent),
            Self::Ours(store) => progress_of(store).map(StoreEvidence::Present),
            Self::Other(progress) => Ok(StoreEvidence::Present(progress.clone())),
        }
    }
}

fn progress_of(store: &TaskStore) -> Result<StoreProgress, StateError> {
    let own = store.identity().partition;
    let told = |progress: &Progress, prepared: Option<Box<StoreProgress>>| {
        let position = progress
            .positions
            .iter()
            .find(|position| position.partition == own)
            .ok_or_else(|| StateError::Damaged {
                path: store.path().to_owned(),
                detail: "it has no position for its own partition".to_owned(),
            })?;
        Ok::<_, StateError>(StoreProgress {
            identity: store.identity().clone(),
            number: progress.number,
            checksum: progress.checksum,
            position: position.next,
            by_transaction: progress.by_transaction,
            cleanly_stopped: progress.cleanly_stopped,
            // The engine's clocks say it, which are not read here.
            history: None,
            prepared,
        })
    };
    let prepared = store
        .prepared()
        .map(|progress| told(progress, None).map(Box::new))
        .transpose()?;
    told(store.progress(), prepared)
}

impl StateVolume {
    /// The volume at `root`, made if it is not there, after a trial write.
    ///
    /// # Errors
    /// [`StateError::NotWritable`] with path, user and mode if the trial fails; nothing on the
    /// volume is touched then.
    pub fn open(root: &Path, budget: StateBudget) -> Result<Self, StateError> {
        probe(root).map_err(|error| not_writable(root, &error))?;
        Ok(Self::untried(root, budget))
    }

    /// The volume at `root`, as it is.
    pub(crate) fn untried(root: &Path, budget: StateBudget) -> Self {
        Self {
            root: root.to_owned(),
            budget,
            journal: Arc::default(),
        }
    }

    /// The volume's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How much room the volume has now; `None` if it cannot be told.
    #[must_use]
    pub fn room(&self) -> Option<Room> {
        free_and_size(&self.root).map(|(free, size)| Room { free, size })
    }

    /// Bytes that can still be written; `None` if it cannot be told.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        self.room().map(|room| room.free)
    }

    /// What the volume says about itself; `None` if it was never used.
    ///
    /// # Errors
    /// If the marker cannot be read or is damaged.
    pub fn marker(&self) -> Result<Option<VolumeMarker>, StateError> {
        let path = self.root.join(MARKER_FILE);
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text)
                    .map(Some)
                    .map_err(|error| StateError::Damaged {
                        path,
                        detail: error.to_string(),
                    })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io("read", &path, &error)),
        }
    }

    /// Marks the volume, durably and as one. Do it before the first store of a layout is touched.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn mark(&self, marker: &VolumeMarker) -> Result<(), StateError> {
        let path = self.root.join(MARKER_FILE);
        let text = serde_json::to_vec_pretty(marker).map_err(|error| StateError::Io {
            what: "write",
            path: path.clone(),
            detail: error.to_string(),
        })?;
        replace(&SystemFiles, &path, &text).map_err(|error| io("write", &path, &error))
    }

    /// Where a task's store lies.
    #[must_use]
    pub fn store_path(&self, task: &Task, epoch: StoreEpoch) -> PathBuf {
        self.root
            .join(task.subscription.as_str())
            .join(task.partition.get().to_string())
            .join(epoch.to_string())
    }

    pub(crate) fn journal(&self) -> Result<Arc<Journal>, StateError> {
        // The lock is held while the journal is read: a second opening would find it in use.
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = &*journal {
            return Ok(Arc::clone(journal));
        }
        let opened = Arc::new(Journal::open(&self.root, self.journal_limits())?);
        // Records of stores that were removed would keep their segments for ever. A store that was lost is another matter:
        // they bring its checkpoint up to date.
        opened.forget(|_, task, epoch| {
            !self.store_path(task, epoch).exists() && !self.may_be_restored(task, epoch)
        })?;
        *journal = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Whether the journal has reached its bound, so that whoever holds its oldest entries back should save them.
    #[must_use]
    pub fn journal_is_full(&self) -> bool {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.as_ref().is_some_and(|journal| journal.is_full())
    }

    fn journal_limits(&self) -> JournalLimits {
        match self.free_bytes() {
            // A small volume is for state, not for a journal.
            Some(free) => JournalLimits::within(free / 8),
            None => JournalLimits::default(),
        }
    }

    pub(crate) fn path_of(&self, identity: &StoreIdentity) -> PathBuf {
        self.store_path(&identity.task(), identity.store_epoch)
    }

    /// Looks in the place of the store that is `expected`.
    ///
    /// # Errors
    /// If it is in use, damaged or cannot be read.
    pub fn find(&self, expected: &StoreIdentity) -> Result<FoundStore, StateError> {
        match TaskStore::open(&self.path_of(expected), &self.journal()?, &self.budget)? {
            None => Ok(FoundStore::Absent),
            Some(store) if store.identity() == expected => Ok(FoundStore::Ours(Box::new(store))),
            Some(store) => progress_of(&store).map(FoundStore::Other),
        }
    }

    /// The store that is `expected`; `None` if there is none.
    ///
    /// # Errors
    /// As [`StateVolume::find`], and [`StateError::OtherStore`] if another one lies in its place.
    pub fn open_store(&self, expected: &StoreIdentity) -> Result<Option<TaskStore>, StateError> {
        match self.find(expected)? {
            FoundStore::Absent => Ok(None),
            FoundStore::Ours(store) => Ok(Some(*store)),
            FoundStore::Other(found) => Err(StateError::OtherStore {
                path: self.path_of(expected),
                differences: Differences(found.identity.differences(expected)),
            }),
        }
    }

    /// The tasks that have stores here, each with the newest epoch of its stores.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn tasks(&self) -> Result<Vec<(Task, StoreEpoch)>, StateError> {
        let mut found: BTreeMap<Task, StoreEpoch> = BTreeMap::new();
        for subscription in folders::<SubscriptionName>(&self.root)? {
            let folder = self.root.join(subscription.as_str());
            for partition in folders::<i32>(&folder)? {
                let epochs = folders::<i64>(&folder.join(partition.to_string()))?;
                let newest = epochs
                    .into_iter()
                    .filter_map(|epoch| StoreEpoch::try_from(epoch).ok())
                    .max();
                let (Ok(partition), Some(epoch)) = (Partition::try_from(partition), newest) else {
                    continue;
                };
                let subscription = subscription.clone();
                let task = Task {
                    subscription,
                    partition,
                };
                found.insert(task, epoch);
            }
        }
        Ok(found.into_iter().collect())
    }

    /// The store of a task, whatever it says it is; `None` if there is none. For tools: what runs
    /// takes a store only if it is the one expected.
    ///
    /// # Errors
    /// If it is in use, damaged or cannot be read.
    pub fn open_any(
        &self,
        task: &Task,
        epoch: StoreEpoch,
    ) -> Result<Option<TaskStore>, StateError> {
        TaskStore::open(
            &self.store_path(task, epoch),
            &self.journal()?,
            &self.budget,
        )
    }

    /// Makes a store that has committed nothing and stands at `positions`.
    ///
    /// # Errors
    /// If one is there already, or it cannot be made.
    pub fn create_store(
        &self,
        identity: &StoreIdentity,
        positions: &[Position],
    ) -> Result<TaskStore, StateError> {
        let path = self.path_of(identity);
        make_folders(&SystemFiles, &self.root, &path).map_err(|error| io("make", &path, &error))?;
        TaskStore::create(&path, identity, positions, &self.journal()?, &self.budget)
    }

    /// Removes a task's store of one epoch, whatever it says it is. For good.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn discard_store(&self, task: &Task, epoch: StoreEpoch) -> Result<(), StateError> {
        let path = self.store_path(task, epoch);
        // Renamed first: half a removed store must not look like a whole one.
        let doomed = path.with_extension("discarded");
        let steps = || -> io::Result<()> {
            if path.exists() {
                remove_folder(&SystemFiles, &doomed)?;
                SystemFiles.rename(&path, &doomed)?;
                if let Some(parent) = path.parent() {
                    SystemFiles.sync_folder(parent)?;
                }
            }
            remove_folder(&SystemFiles, &doomed)
        };
        steps().map_err(|error| io("remove", &path, &error))?;
        self.journal()?
            .forget(|_, owner, of| owner == task && of == epoch)
    }
}

/// The names of the folders in `folder` that can be read as `T`; others are not of stores.
fn folders<T: FromStr>(folder: &Path) -> Result<Vec<T>, StateError> {
    let read = || -> io::Result<Vec<T>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| name.parse().ok());
            if entry.file_type()?.is_dir() {
                names.extend(name);
            }
        }
        Ok(names)
    };
    read().map_err(|error| io("read", folder, &error))
}

fn probe(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let path = root.join(PROBE_FILE);
    let mut file = File::create(&path)?;
    file.write_all(b"turbine")?;
    file.sync_all()?;
    fs::remove_file(&path)
}

fn not_writable(root: &Path, error: &io::Error) -> StateError {
    if error.kind() == io::ErrorKind::StorageFull {
        return io("write to", root, error);
    }
    let nearest = root
        .ancestors()
        .find_map(|folder| fs::metadata(folder).ok());
    StateError::NotWritable {
        path: root.to_owned(),
        detail: error.to_string(),
        uid: rustix::process::geteuid().as_raw(),
        owner: nearest.as_ref().map_or(0, MetadataExt::uid),
        mode: nearest.as_ref().map_or(0, |found| found.mode() & 0o7777),
    }
}
