//! One task's state in `RocksDB`.

use std::fmt;
use std::path::{Path, PathBuf};

use rocksdb::{
    BlockBasedOptions, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode,
    IteratorMode, LogLevel, Options, WriteBatch, WriteOptions,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use turbine_protocol::{Entry, EntryChecksum, EntryNumber, Frontier, Position, StoreIdentity};

use crate::budget::StateBudget;
use crate::error::{StateError, rocks};
use crate::prepared::{self, Prepared};
use crate::task_state::{Progress, StateSizes, TaskState, Visit};

/// The store's own records stand apart from keys, so that a range of keys never holds one.
const OWN: &str = "turbine";
const KEYS: &str = "default";
const IDENTITY: &[u8] = b"identity";
const PROGRESS: &[u8] = b"progress";
const CLOCKS: &[u8] = b"clocks";
const PREPARED: Record = Record {
    progress: b"prepared",
    clocks: b"prepared clocks",
};
const PREPARED_CHANGES: &[u8] = b"prepared changes";
const DONE: Record = Record {
    progress: PROGRESS,
    clocks: CLOCKS,
};

/// Under which keys a progress is stored.
#[derive(Debug, Clone, Copy)]
struct Record {
    progress: &'static [u8],
    clocks: &'static [u8],
}

/// The stored form of [`Progress`], without the clocks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProgressRecord {
    number: EntryNumber,
    checksum: EntryChecksum,
    positions: Vec<Position>,
    frontier: Frontier,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_transaction: bool,
}

/// A task's state in a `RocksDB` of its own.
pub struct RocksStore {
    db: DB,
    path: PathBuf,
    identity: StoreIdentity,
    progress: Progress,
    prepared: Option<Prepared>,
    broken: bool,
}

impl fmt::Debug for RocksStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksStore")
            .field("path", &self.path)
            .field("progress", &self.progress)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

fn options(budget: &StateBudget) -> Options {
    let mut options = Options::default();
    options.set_write_buffer_manager(&budget.write_buffers);
    options.set_max_background_jobs(2);
    options.set_atomic_flush(true);
    // A commit that was acknowledged is synced, so only the last record of the log may be torn.
    // Damage anywhere else is shown instead of being cut off with all that follows it.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_max_total_wal_size(u64::try_from(budget.write_buffer() * 2).unwrap_or(u64::MAX));
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(1 << 20);
    options.set_log_level(LogLevel::Warn);
    options
}

fn family_options(budget: &StateBudget) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&budget.cache);
    table.set_format_version(5);
    table.set_bloom_filter(10.0, false);
    // Otherwise index and filters grow outside the cache, with the number of files.
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_write_buffer_size(budget.write_buffer());
    options
}

impl RocksStore {
    /// Opens the store at `path`; `None` if there is none, or one whose making never ended.
    pub(crate) fn open(path: &Path, budget: &StateBudget) -> Result<Option<Self>, StateError> {
        if !path.join("CURRENT").exists() {
            return Ok(None);
        }
        let db = open_db(path, budget, false)?;
        let own = own_family(&db, path)?;
        let Some(identity) = read::<StoreIdentity>(&db, own, path, IDENTITY)? else {
            // The identity goes in with the first batch. Without it nothing else was written.
            let empty = db.iterator(IteratorMode::Start).next().is_none();
            return if empty {
                Ok(None)
            } else {
                Err(damaged(path, "it has keys and no identity"))
            };
        };
        let progress = read_progress(&db, own, path, DONE)?
            .ok_or_else(|| damaged(path, "it does not say how far it came"))?;
        let prepared = match read_progress(&db, own, path, PREPARED)? {
            None => None,
            Some(progress) => Some(Prepared {
                progress,
                changes: db
                    .get_cf(own, PREPARED_CHANGES)
                    .map_err(|error| rocks("read", path, &error))?
                    .ok_or_else(|| damaged(path, "its prepared entry has no changes"))?,
            }),
        };
        Ok(Some(Self {
            path: path.to_owned(),
            identity,
            progress,
            prepared,
            broken: false,
            db,
        }))
    }

    /// Makes a store that stands at `positions` and has committed nothing.
    pub(crate) fn create(
        path: &Path,
        identity: &StoreIdentity,
        positions: &[Position],
        budget: &StateBudget,
    ) -> Result<Self, StateError> {
        if Self::open(path, budget)?.is_some() {
            return Err(StateError::AlreadyThere {
                path: path.to_owned(),
            });
        }
        let db = open_db(path, budget, true)?;
        let progress = Progress {
            number: EntryNumber::ZERO,
            checksum: EntryChecksum(0),
            positions: positions.to_vec(),
            frontier: Frontier::default(),
            by_transaction: false,
            clocks: Vec::new(),
        };
        let mut batch = WriteBatch::default();
        let own = own_family(&db, path)?;
        batch.put_cf(own, IDENTITY, encode(path, identity)?);
        put_progress(&mut batch, own, path, DONE, &progress)?;
        write_synced(&db, path, &batch)?;
        Ok(Self {
            path: path.to_owned(),
            identity: identity.clone(),
            progress,
            prepared: None,
            broken: false,
            db,
        })
    }

    /// The store's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// About how many keys it holds, for showing progress.
    #[must_use]
    pub fn estimated_keys(&self) -> u64 {
        self.db
            .property_int_value("rocksdb.estimate-num-keys")
            .ok()
            .flatten()
            .unwrap_or(0)
    }

    fn keys(&self) -> Result<&ColumnFamily, StateError> {
        self.db
            .cf_handle(KEYS)
            .ok_or_else(|| damaged(&self.path, "it has no family for keys"))
    }

    fn write(&self, entry: &Entry<'_>, progress: &Progress) -> Result<(), StateError> {
        let keys = self.keys()?;
        let own = own_family(&self.db, &self.path)?;
        let mut batch = WriteBatch::default();
        for change in entry.changes {
            match change.value {
                Some(value) => batch.put_cf(keys, change.key, value),
                None => batch.delete_cf(keys, change.key),
            }
        }
        put_progress(&mut batch, own, &self.path, DONE, progress)?;
        write_synced(&self.db, &self.path, &batch)
    }

    /// What an entry makes of the progress, if the entry can follow what is stored.
    fn next(&self, entry: &Entry<'_>) -> Result<Progress, StateError> {
        if self.broken {
            return Err(StateError::Broken {
                path: self.path.clone(),
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
        Ok(Progress {
            number: entry.number,
            checksum: entry.checksum(),
            positions: entry.positions.to_vec(),
            frontier: entry.frontier,
            by_transaction: false,
            clocks: entry.clocks.to_vec(),
        })
    }

    fn write_prepared(&self, prepared: &Prepared) -> Result<(), StateError> {
        let own = own_family(&self.db, &self.path)?;
        let mut batch = WriteBatch::default();
        put_progress(&mut batch, own, &self.path, PREPARED, &prepared.progress)?;
        batch.put_cf(own, PREPARED_CHANGES, &prepared.changes);
        write_synced(&self.db, &self.path, &batch)
    }

    /// Not synced: the log keeps the order, so whatever is synced later makes this durable too.
    fn write_done(&self, prepared: &Prepared) -> Result<(), StateError> {
        let (keys, own) = (self.keys()?, own_family(&self.db, &self.path)?);
        let mut batch = WriteBatch::default();
        prepared::decode(&prepared.changes, |key, value| match value {
            Some(value) => batch.put_cf(keys, key, value),
            None => batch.delete_cf(keys, key),
        })
        .ok_or_else(|| damaged(&self.path, "the changes of its prepared entry"))?;
        put_progress(&mut batch, own, &self.path, DONE, &prepared.progress)?;
        delete_prepared(&mut batch, own);
        self.db
            .write(&batch)
            .map_err(|error| rocks("write", &self.path, &error))
    }

    fn take_prepared(&mut self) -> Result<Prepared, StateError> {
        let last = self.progress.number;
        self.prepared.take().ok_or(StateError::OutOfOrder {
            last,
            given: last.next(),
        })
    }
}

fn delete_prepared(batch: &mut WriteBatch, own: &ColumnFamily) {
    for key in [PREPARED.progress, PREPARED.clocks, PREPARED_CHANGES] {
        batch.delete_cf(own, key);
    }
}

fn read_progress(
    db: &DB,
    own: &ColumnFamily,
    path: &Path,
    at: Record,
) -> Result<Option<Progress>, StateError> {
    let Some(record) = read::<ProgressRecord>(db, own, path, at.progress)? else {
        return Ok(None);
    };
    let clocks = db
        .get_cf(own, at.clocks)
        .map_err(|error| rocks("read", path, &error))?
        .unwrap_or_default();
    Ok(Some(Progress {
        number: record.number,
        checksum: record.checksum,
        positions: record.positions,
        frontier: record.frontier,
        by_transaction: record.by_transaction,
        clocks,
    }))
}

fn open_db(path: &Path, budget: &StateBudget, create: bool) -> Result<DB, StateError> {
    let mut options = options(budget);
    options.create_if_missing(create);
    options.create_missing_column_families(true);
    // Families of another version are opened as well, and so kept: a store is never opened
    // without one of its families.
    let mut families = if path.join("CURRENT").exists() {
        DB::list_cf(&options, path).map_err(|error| rocks("open", path, &error))?
    } else {
        Vec::new()
    };
    for needed in [KEYS, OWN] {
        if !families.iter().any(|family| family == needed) {
            families.push(needed.to_owned());
        }
    }
    let families = families
        .into_iter()
        .map(|name| ColumnFamilyDescriptor::new(name, family_options(budget)));
    DB::open_cf_descriptors(&options, path, families).map_err(|error| rocks("open", path, &error))
}

fn own_family<'a>(db: &'a DB, path: &Path) -> Result<&'a ColumnFamily, StateError> {
    db.cf_handle(OWN)
        .ok_or_else(|| damaged(path, "it has no records of its own"))
}

fn damaged(path: &Path, detail: &str) -> StateError {
    StateError::Damaged {
        path: path.to_owned(),
        detail: detail.to_owned(),
    }
}

fn read<T: DeserializeOwned>(
    db: &DB,
    own: &ColumnFamily,
    path: &Path,
    key: &[u8],
) -> Result<Option<T>, StateError> {
    let stored = db
        .get_cf(own, key)
        .map_err(|error| rocks("read", path, &error))?;
    stored
        .map(|stored| {
            serde_json::from_slice(&stored).map_err(|error| {
                damaged(path, &format!("{}: {error}", String::from_utf8_lossy(key)))
            })
        })
        .transpose()
}

fn encode<T: Serialize>(path: &Path, record: &T) -> Result<Vec<u8>, StateError> {
    serde_json::to_vec(record).map_err(|error| StateError::Io {
        what: "write a record of",
        path: path.to_owned(),
        detail: error.to_string(),
    })
}

fn put_progress(
    batch: &mut WriteBatch,
    own: &ColumnFamily,
    path: &Path,
    at: Record,
    progress: &Progress,
) -> Result<(), StateError> {
    let record = ProgressRecord {
        number: progress.number,
        checksum: progress.checksum,
        positions: progress.positions.clone(),
        frontier: progress.frontier,
        by_transaction: progress.by_transaction,
    };
    batch.put_cf(own, at.progress, encode(path, &record)?);
    batch.put_cf(own, at.clocks, &progress.clocks);
    Ok(())
}

fn write_synced(db: &DB, path: &Path, batch: &WriteBatch) -> Result<(), StateError> {
    let mut how = WriteOptions::default();
    how.set_sync(true);
    db.write_opt(batch, &how)
        .map_err(|error| rocks("write", path, &error))
}

impl TaskState for RocksStore {
    fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn scan(&self, visit: &mut Visit<'_>) -> Result<(), StateError> {
        for item in self.db.iterator_cf(self.keys()?, IteratorMode::Start) {
            let (key, value) = item.map_err(|error| rocks("read", &self.path, &error))?;
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, StateError> {
        let family = self.keys()?;
        self.db
            .multi_get_cf(keys.iter().map(|key| (family, *key)))
            .into_iter()
            .map(|found| found.map_err(|error| rocks("read", &self.path, &error)))
            .collect()
    }

    fn sizes(&self) -> StateSizes {
        let sum = |property: &str| {
            [KEYS, OWN]
                .iter()
                .filter_map(|name| self.db.cf_handle(name))
                .filter_map(|family| self.db.property_int_value_cf(family, property).ok()?)
                .sum()
        };
        StateSizes {
            files: sum("rocksdb.total-sst-files-size"),
            memtables: sum("rocksdb.cur-size-all-mem-tables"),
            pending_compaction: sum("rocksdb.estimate-pending-compaction-bytes"),
        }
    }

    fn commit(&mut self, entry: &Entry<'_>) -> Result<EntryChecksum, StateError> {
        let progress = self.next(entry)?;
        let checksum = progress.checksum;
        // A second try after a failed sync may succeed without the data being there.
        if let Err(error) = self.write(entry, &progress) {
            self.broken = true;
            return Err(error);
        }
        self.progress = progress;
        Ok(checksum)
    }

    fn prepared(&self) -> Option<&Progress> {
        self.prepared.as_ref().map(|prepared| &prepared.progress)
    }

    fn prepare(&mut self, entry: &Entry<'_>) -> Result<EntryChecksum, StateError> {
        let progress = Progress {
            by_transaction: true,
            ..self.next(entry)?
        };
        let checksum = progress.checksum;
        let changes = prepared::encode(entry.changes).ok_or_else(|| StateError::Io {
            what: "write an entry of",
            path: self.path.clone(),
            detail: "a key or value of 4 GiB or more".to_owned(),
        })?;
        let prepared = Prepared { progress, changes };
        if let Err(error) = self.write_prepared(&prepared) {
            self.broken = true;
            return Err(error);
        }
        self.prepared = Some(prepared);
        Ok(checksum)
    }

    fn apply_prepared(&mut self) -> Result<(), StateError> {
        let prepared = self.take_prepared()?;
        if let Err(error) = self.write_done(&prepared) {
            self.broken = true;
            return Err(error);
        }
        self.progress = prepared.progress;
        Ok(())
    }

    fn cancel_prepared(&mut self) -> Result<(), StateError> {
        self.take_prepared()?;
        let mut batch = WriteBatch::default();
        delete_prepared(&mut batch, own_family(&self.db, &self.path)?);
        if let Err(error) = write_synced(&self.db, &self.path, &batch) {
            self.broken = true;
            return Err(error);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), StateError> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
