//! Old stores, as copies in a folder of the move: links where they can be.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rocksdb::DB;
use turbine_keygroups::{GROUP_COUNT, Group, Partition, RawPartitionCount};
use turbine_protocol::{Differences, FORMAT_VERSION, StoreIdentity};

use super::cut::path_of;
use super::error::MoveError;
use super::manifest::PieceFile;
use super::plan::{Draw, MovePlan};
use crate::budget::StateBudget;
use crate::checkpoint::Manifest;
use crate::checkpoint::local::copy;
use crate::checkpoint::manifest::{FileName, KeyRange, is_table};
use crate::error::{StateError, io as io_error, rocks};
use crate::files::{FileLayer, SystemFiles, remove_folder};
use crate::rows::{KEYS, OWN, Rows};
use crate::task_state::Progress;

/// A copy of an old store that was looked at.
#[derive(Debug, Clone)]
pub struct OldStore {
    folder: PathBuf,
    identity: StoreIdentity,
    progress: Progress,
    tables: Vec<Table>,
}

/// A table of an old store.
#[derive(Debug, Clone)]
struct Table {
    file: PieceFile,
    keys: Option<KeyRange>,
}

impl OldStore {
    /// Looks at the copy that lies in `folder`. With the manifest of the checkpoint that it is of, if it is of one: its files
    /// have been compared with it.
    ///
    /// # Errors
    /// If it is not a store that can be moved by the plan.
    pub(crate) fn open(
        folder: &Path,
        partition: Partition,
        plan: &MovePlan,
        manifest: Option<&Manifest>,
        budget: &StateBudget,
    ) -> Result<Self, MoveError> {
        let no_store = || MoveError::NoStore { partition };
        if !folder.join("CURRENT").exists() {
            return Err(no_store());
        }
        let families = DB::list_cf(&rocksdb::Options::default(), folder)
            .map_err(|error| rocks("open", folder, &error))?;
        if let Some(family) = families
            .into_iter()
            .find(|name| name != OWN && name != KEYS)
        {
            return Err(MoveError::UnknownFamily { partition, family });
        }
        let (rows, header) = Rows::open_to_read(folder, budget)?.ok_or_else(no_store)?;
        if rows.is_moved()? {
            return Err(MoveError::NotSettled { partition });
        }
        let own = plan.ranges_of_old(partition);
        if let Some(key) = rows.first_outside(&own, true)? {
            let group = key.first_chunk().copied().and_then(Group::from_prefix);
            return Err(MoveError::Misplaced {
                partition,
                group: group.map_or_else(
                    || "no key group".to_owned(),
                    |group| format!("key group {group}"),
                ),
            });
        }
        let tables = tables(&rows, folder, manifest)?;
        Ok(Self {
            folder: folder.to_owned(),
            identity: header.identity,
            progress: header.progress,
            tables,
        })
    }

    /// Its folder, in that of the move.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it says it is.
    #[must_use]
    pub fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    /// How far it had come.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Bytes of its tables with keys.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.file.size).sum()
    }

    /// The tables that may have keys of what is drawn.
    pub(crate) fn tables_of(&self, draw: &Draw) -> Vec<PieceFile> {
        self.tables
            .iter()
            .filter(|table| table.keys.as_ref().is_none_or(|keys| meets(keys, draw)))
            .map(|table| table.file.clone())
            .collect()
    }
}

/// Whether a store is that of a partition in the app and layout that `first` is of.
pub(crate) fn belongs(
    found: &StoreIdentity,
    partition: Partition,
    first: &StoreIdentity,
    from: RawPartitionCount,
) -> Result<(), MoveError> {
    let expected = StoreIdentity {
        partition,
        partitions: from,
        format: FORMAT_VERSION,
        // Tasks that were moved between pods have stores of different epochs.
        store_epoch: found.store_epoch,
        key_groups: GROUP_COUNT,
        ..first.clone()
    };
    let differences = found.differences(&expected);
    if differences.is_empty() {
        Ok(())
    } else {
        Err(MoveError::Other {
            partition,
            differences: Differences(differences),
        })
    }
}

fn tables(
    rows: &Rows,
    folder: &Path,
    manifest: Option<&Manifest>,
) -> Result<Vec<Table>, StateError> {
    rows.tables()?
        .into_iter()
        .map(|live| {
            let path = path_of(folder, &live);
            let name = live.name.trim_start_matches('/').to_owned();
            let sha256 = manifest
                .and_then(|manifest| {
                    manifest
                        .files
                        .iter()
                        .find(|file| file.name.as_str() == name)
                })
                .map(|file| file.sha256);
            let size = path
                .metadata()
                .map_err(|error| io_error("read", &path, &error))?
                .len();
            let name =
                FileName::try_from(name).map_err(|detail| StateError::Damaged { path, detail })?;
            let keys = match (live.start_key, live.end_key) {
                (Some(smallest), Some(largest)) => Some(KeyRange { smallest, largest }),
                _ => None,
            };
            Ok(Table {
                file: PieceFile { name, size, sha256 },
                keys,
            })
        })
        .collect()
}

/// Whether keys of what is drawn can lie between the first and the last key of a file.
fn meets(keys: &KeyRange, draw: &Draw) -> bool {
    let null = draw.null().then(|| {
        let null = Group::Null.prefix();
        (null, (u16::from_be_bytes(null) + 1).to_be_bytes())
    });
    draw.ranges()
        .iter()
        .map(|range| range.prefixes())
        .chain(null)
        .any(|(first, behind)| {
            keys.smallest.as_slice() < behind.as_slice()
                && first.as_slice() <= keys.largest.as_slice()
        })
}

/// Copies the files of a store that nobody has open: tables by links where both folders are on one volume, the rest, which
/// whoever opens the copy goes on writing, byte by byte. What lies in `to` is removed first.
pub(crate) fn copy_store(from: &Path, to: &Path) -> Result<(), StateError> {
    let files = &SystemFiles;
    let work = || -> io::Result<()> {
        remove_folder(files, to)?;
        fs::create_dir_all(to)?;
        for name in files.list(from)? {
            let (old, new) = (from.join(&name), to.join(&name));
            if !old.is_file() || is_own_file(&name) {
                continue;
            }
            if !is_table(&old) || files.hard_link(&old, &new).is_err() {
                copy(files, &old, &new)?;
            }
        }
        files.sync_folder(to)
    };
    work().map_err(|error| io_error("copy", from, &error))
}

/// Whether a file is of the process that had the store open, and not of the store: its lock, and what it told of its work.
pub(crate) fn is_own_file(name: &str) -> bool {
    name == "LOCK" || name.starts_with("LOG")
}
