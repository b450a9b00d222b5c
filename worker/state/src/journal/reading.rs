//! A journal that is read and never written: for those who look at the state of a worker that stopped.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use rustix::fs::FlockOperation;

use super::index::Index;
use super::{FOLDER, Journal, JournalLimits, LOCK, State, hold, read_segments};
use crate::error::{StateError, io as io_error};
use crate::files::{LayerFile, SystemFiles};

/// Stands where a journal has the file that it appends to.
#[derive(Debug)]
struct NoFile;

fn refused<T>() -> io::Result<T> {
    Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem))
}

impl LayerFile for NoFile {
    fn append(&self, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        refused()
    }
}

impl Journal {
    /// The journal of the volume at `root` as it lies there, its torn end left out; an empty one if there is none. Many may read
    /// it at a time, and nobody writes it meanwhile.
    ///
    /// # Errors
    /// If a process that writes has it, or it cannot be read.
    pub(crate) fn open_to_read(root: &Path) -> Result<Self, StateError> {
        let folder = root.join(FOLDER);
        let path = folder.join(LOCK);
        let lock = match File::open(&path) {
            Ok(lock) => {
                hold(&lock, &folder, FlockOperation::NonBlockingLockShared)?;
                Some(lock)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error("open", &path, &error)),
        };
        let files = Box::new(SystemFiles);
        let (index, last) = if folder.is_dir() {
            read_segments(&*files, &folder)?
        } else {
            (Index::default(), None)
        };
        let (number, written) = last.map_or((0, 0), |last| (last.number, last.good));
        Ok(Self {
            state: Mutex::new(State {
                index,
                number,
                file: std::sync::Arc::new(NoFile),
                written,
                durable: written,
                syncing: false,
                failed: Some(StateError::SyncFailed {
                    path: folder.clone(),
                    detail: "it was opened to be read".to_owned(),
                }),
            }),
            folder,
            files,
            limits: JournalLimits::default(),
            synced: Condvar::new(),
            _lock: lock,
        })
    }
}
