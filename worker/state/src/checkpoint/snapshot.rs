//! A moment of a store, as a folder of links to its files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rocksdb::DB;
use rocksdb::checkpoint::Checkpoint;

use super::manifest::KeyRange;
use crate::error::{StateError, io as io_error, rocks};

/// A moment of a store, as a folder of links to its files. The folder goes when this is dropped.
#[derive(Debug)]
pub struct Snapshot {
    folder: PathBuf,
    keys: BTreeMap<String, KeyRange>,
}

impl Snapshot {
    /// Takes the moment that `db` shows now, into a folder that is not there yet, on the same volume. Write buffers are
    /// flushed; that apart it takes some 0.03 ms per file, whatever their size.
    ///
    /// # Errors
    /// If the store cannot be flushed or the folder cannot be made.
    pub fn take(db: &DB, folder: PathBuf) -> Result<Self, StateError> {
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(|error| io_error("make", parent, &error))?;
        }
        Checkpoint::new(db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(&folder))
            .map_err(|error| rocks("take a snapshot into", &folder, &error))?;
        let mut snapshot = Self::of_folder(folder);
        // The store works on meanwhile: a file that a compaction replaced has no range then, which only costs a reader time.
        for file in db.live_files().unwrap_or_default() {
            if let (Some(smallest), Some(largest)) = (file.start_key, file.end_key) {
                let name = file.name.trim_start_matches('/').to_owned();
                snapshot.keys.insert(name, KeyRange { smallest, largest });
            }
        }
        Ok(snapshot)
    }

    /// The snapshot that lies in a folder already.
    #[must_use]
    pub fn of_folder(folder: PathBuf) -> Self {
        Self {
            folder,
            keys: BTreeMap::new(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn keys_of(&self, file: &str) -> Option<KeyRange> {
        self.keys.get(file).cloned()
    }

    /// Names of the files, in order.
    pub(crate) fn files(&self) -> Result<Vec<String>, StateError> {
        let read = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.folder)? {
                let name = entry?.file_name().into_string();
                names.push(name.map_err(|_| io::Error::other("a name that is not text"))?);
            }
            names.sort_unstable();
            Ok(names)
        };
        read().map_err(|error| io_error("read", &self.folder, &error))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // What stays is swept away at the next start of the program.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
