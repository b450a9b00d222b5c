//! What can go wrong with state on a volume.

use std::path::{Path, PathBuf};

use thiserror::Error;
use turbine_protocol::{Category, Differences, EntryNumber, Fault};

/// A fault of the volume or of what lies on it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    /// The folder cannot be written. Nothing in it is damaged.
    #[error(
        "cannot write to {} ({detail}): this process runs as user {uid}, the folder belongs to \
         user {owner} with mode {mode:o}; set the pod's `fsGroup` or change the folder's owner",
        path.display()
    )]
    NotWritable {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        detail: String,
        /// The user of this process.
        uid: u32,
        /// The owner of the folder, or of the nearest one above it that exists.
        owner: u32,
        /// Its mode bits.
        mode: u32,
    },
    /// Another process, or this one, has the store open.
    #[error(
        "the store at {} is in use ({detail}): wait until the other pod or tool has ended; never \
         remove its lock",
        path.display()
    )]
    InUse {
        /// The store's folder.
        path: PathBuf,
        /// What the store says.
        detail: String,
    },
    /// No room on the volume.
    #[error(
        "no space left on the volume of {} ({free} bytes free): enlarge it with \
         `state.volume.size`; nothing was committed that is not stored",
        path.display()
    )]
    Full {
        /// The folder.
        path: PathBuf,
        /// Bytes free for this user; 0 if it cannot be told.
        free: u64,
    },
    /// What lies there is not what was written.
    #[error(
        "the state at {} is damaged ({detail}): keep it for inspection and bring back a good copy \
         of the volume",
        path.display()
    )]
    Damaged {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The store belongs to something else.
    #[error(
        "the store at {} is not the one expected ({differences}): it is left as it is",
        path.display()
    )]
    OtherStore {
        /// The store's folder.
        path: PathBuf,
        /// In what it differs.
        differences: Differences,
    },
    /// The store was made of others by a change of the partition count, and this program cannot run on such a one.
    #[error(
        "the store at {} was made for a new partition count: records of the old count are still to \
         be read for it, which this worker does not do yet; it is left as it is: run the app on \
         the stores of the old count, or a worker that can start on moved stores",
        path.display()
    )]
    Moved {
        /// The store's folder.
        path: PathBuf,
    },
    /// A store was to be made where one is.
    #[error("there is already a store at {}", path.display())]
    AlreadyThere {
        /// The store's folder.
        path: PathBuf,
    },
    /// A commit failed before; the store has to be opened anew, which shows what it holds.
    #[error("the store at {} failed before and takes no commits: open it anew", path.display())]
    Broken {
        /// The store's folder.
        path: PathBuf,
    },
    /// The journal or a store's files could not be made durable. A second try may succeed without the data being
    /// there, so the process has to end and read anew what is.
    #[error(
        "{} could not be synced ({detail}): the worker ends and goes on from what is on the volume; \
         if this comes again, the volume is failing or full",
        path.display()
    )]
    SyncFailed {
        /// The segment, or the store's folder.
        path: PathBuf,
        /// What the system says.
        detail: String,
    },
    /// A commit that does not follow the one before.
    #[error("commit {given} does not follow commit {last}: this is a fault of the worker")]
    OutOfOrder {
        /// Number of the last commit.
        last: EntryNumber,
        /// Number of the commit given.
        given: EntryNumber,
    },
    /// Any other answer of the system.
    #[error("cannot {what} {}: {detail}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        detail: String,
    },
}

impl Fault for StateError {
    fn category(&self) -> Category {
        match self {
            Self::NotWritable { .. }
            | Self::InUse { .. }
            | Self::Full { .. }
            | Self::Damaged { .. }
            | Self::OtherStore { .. }
            | Self::Moved { .. }
            | Self::Broken { .. }
            | Self::SyncFailed { .. }
            | Self::Io { .. } => Category::Storage,
            Self::AlreadyThere { .. } | Self::OutOfOrder { .. } => Category::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::NotWritable { .. } => "StateNotWritable",
            Self::InUse { .. } => "StateInUse",
            Self::Full { .. } => "StorageFull",
            Self::Damaged { .. } => "StateDamaged",
            Self::OtherStore { .. } => "OtherStore",
            Self::Moved { .. } => "StateMoved",
            Self::AlreadyThere { .. } => "StateAlreadyThere",
            Self::Broken { .. } => "StateBroken",
            Self::SyncFailed { .. } => "StateSyncFailed",
            Self::OutOfOrder { .. } => "CommitOutOfOrder",
            Self::Io { .. } => "StateIoFailed",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            // The other user ends, the volume grows, the owner is changed; a store opened anew
            // is whole again.
            Self::NotWritable { .. }
            | Self::InUse { .. }
            | Self::Full { .. }
            | Self::Broken { .. }
            | Self::Io { .. } => true,
            Self::Damaged { .. }
            | Self::SyncFailed { .. }
            | Self::OtherStore { .. }
            | Self::Moved { .. }
            | Self::AlreadyThere { .. }
            | Self::OutOfOrder { .. } => false,
        }
    }
}

const NO_SPACE: &str = "No space left on device";

fn full(path: &Path) -> StateError {
    StateError::Full {
        path: path.to_owned(),
        free: free_and_size(path).map_or(0, |(free, _)| free),
    }
}

/// Bytes of the volume under `path` that this user may still fill, and of all of it.
pub(crate) fn free_and_size(path: &Path) -> Option<(u64, u64)> {
    let existing = path.ancestors().find(|path| path.exists())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some((bytes(stat.f_bavail), bytes(stat.f_blocks)))
}

pub(crate) fn io(what: &'static str, path: &Path, error: &std::io::Error) -> StateError {
    if matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    ) {
        return full(path);
    }
    StateError::Io {
        what,
        path: path.to_owned(),
        detail: error.to_string(),
    }
}

/// `RocksDB` tells a lock and a full disk from damage only in its text.
pub(crate) fn rocks(what: &'static str, path: &Path, error: &rocksdb::Error) -> StateError {
    told(what, path, error, Act::Reading)
}

/// As [`rocks`], of what makes rows durable: a write answers for a flush in the background as well.
pub(crate) fn rocks_writing(what: &'static str, path: &Path, error: &rocksdb::Error) -> StateError {
    told(what, path, error, Act::Writing)
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Reading,
    Writing,
}

/// Faults of reading, and of files that could not be opened for want of descriptors.
fn passes(lower: &str) -> bool {
    [
        "while pread",
        "random read",
        "sequential read",
        "too many open files",
    ]
    .iter()
    .any(|text| lower.contains(text))
}

fn told(what: &'static str, path: &Path, error: &rocksdb::Error, act: Act) -> StateError {
    let detail = error.to_string();
    let lower = detail.to_lowercase();
    let lock = lower.contains("lock hold by current process")
        || lower.contains("/lock: resource temporarily unavailable");
    let path = path.to_owned();
    if lock {
        return StateError::InUse { path, detail };
    }
    if detail.contains(NO_SPACE) || detail.contains("Disk quota exceeded") {
        return full(&path);
    }
    match error.kind() {
        // A file that the store names is gone.
        rocksdb::ErrorKind::IOError if lower.contains("no such file or directory") => {
            StateError::Damaged { path, detail }
        }
        rocksdb::ErrorKind::Corruption => StateError::Damaged { path, detail },
        // A compaction that could not read says so to whoever writes next; what is written is not in doubt.
        rocksdb::ErrorKind::IOError if passes(&lower) => StateError::Io { what, path, detail },
        // Opened anew after a failed sync the store may call durable what is not, and the journal would let it go.
        rocksdb::ErrorKind::IOError if matches!(act, Act::Writing) => {
            StateError::SyncFailed { path, detail }
        }
        _ => StateError::Io { what, path, detail },
    }
}
