//! Checksums of a snapshot's files, without reading again what was read before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::CheckpointError;
use super::local::summed;
use super::manifest::{Checksum, FileName, ManifestFile, is_table};
use super::place::{Meter, StoreFolder};
use super::snapshot::Snapshot;
use crate::error::{StateError, io};
use crate::files::SystemFiles;

/// Checksums of table files that were read through before.
#[derive(Debug, Default)]
pub(crate) struct KnownSums(Mutex<Known>);

type Known = BTreeMap<(StoreFolder, String), (Stamp, Checksum)>;

/// Tells a table file from another one of its name. Such a file never changes; a store that is made anew in the place of one
/// that was discarded gives names and inodes again, but not at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    written: (i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Self {
        Self {
            inode: about.ino(),
            size: about.len(),
            written: (about.mtime(), about.mtime_nsec()),
        }
    }
}

impl KnownSums {
    /// The sums of all files of a snapshot; forgets those of files that are no more.
    pub(crate) fn of(
        &self,
        store: &StoreFolder,
        snapshot: &Snapshot,
    ) -> Result<Vec<ManifestFile>, CheckpointError> {
        let mut files = Vec::new();
        for name in snapshot.files()? {
            let path = snapshot.folder().join(&name);
            let fault = |error| io("read", &path, &error);
            let about = path.metadata().map_err(fault)?;
            let key = (store.clone(), name.clone());
            let stamp = Stamp::of(&about);
            let known = self.lock().get(&key).copied();
            let sha256 = match known {
                Some((of, sha256)) if of == stamp => sha256,
                _ => {
                    summed(&SystemFiles, &path, &Meter::default())
                        .map_err(fault)?
                        .sha256
                }
            };
            if is_table(Path::new(&name)) {
                self.lock().insert(key, (stamp, sha256));
            }
            files.push(ManifestFile {
                keys: snapshot.keys_of(&name),
                name: FileName::try_from(name).map_err(|detail| StateError::Damaged {
                    path: path.clone(),
                    detail,
                })?,
                size: about.len(),
                sha256,
            });
        }
        let names: BTreeSet<_> = files.iter().map(|file| file.name.as_str()).collect();
        self.lock()
            .retain(|(of, name), _| of != store || names.contains(name.as_str()));
        Ok(files)
    }

    /// Forgets those of a store.
    pub(crate) fn forget(&self, store: &StoreFolder) {
        self.lock().retain(|(of, _), _| of != store);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
