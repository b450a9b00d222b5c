//! The files of one store: a `RocksDB` with its keys, what it says it is, and how far it came. Its
//! own log is off; what is not in its files is in the journal.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use rocksdb::{
    BlockBasedOptions, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, FlushOptions,
    IteratorMode, LogLevel, Options, ReadOptions, WriteBatch, WriteOptions,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use turbine_protocol::{EntryChecksum, EntryNumber, Frontier, Position, StoreIdentity};

use crate::budget::StateBudget;
use crate::checkpoint::{Checkpointer, Snapshot};
use crate::error::{StateError, rocks, rocks_writing};
use crate::journal::Life;
use crate::task_state::{Progress, Show, Visit};

/// The store's own records stand apart from keys, so that a range of keys never holds one.
pub(crate) const OWN: &str = "turbine";
pub(crate) const KEYS: &str = "default";
pub(crate) const IDENTITY: &[u8] = b"identity";
pub(crate) const LIFE: &[u8] = b"life";
const PROGRESS: &[u8] = b"progress";
const CLOCKS: &[u8] = b"clocks";
/// The property with the bytes of all tables.
pub(crate) const TABLE_BYTES: &str = "rocksdb.total-sst-files-size";
/// Rows of one write: enough that the cost of a write does not show, little enough to copy.
const BATCH_ROWS: usize = 10_000;
const BATCH_BYTES: usize = 1 << 20;

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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cleanly_stopped: bool,
}

/// The files of one store.
pub(crate) struct Rows {
    pub(crate) db: DB,
    path: PathBuf,
}

/// How files are opened that are written to.
#[derive(Debug, Clone, Copy)]
enum Making {
    New,
    Found,
    FoundAtRest,
}

/// What a store's files say of it.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) identity: StoreIdentity,
    pub(crate) life: Life,
    pub(crate) progress: Progress,
}

/// Rows on their way into a store. What was put counts once [`Filling::finish`] has said how far
/// it reaches; before that a crash leaves rows that the same journal entries write again.
pub(crate) struct Filling<'a> {
    rows: &'a Rows,
    batch: WriteBatch,
    /// One write, however large: nothing else could write the rows again after a crash.
    whole: bool,
}

impl Rows {
    /// Opens the files at `path`; `None` if there are none, or of a store whose making never ended.
    pub(crate) fn open(
        path: &Path,
        budget: &StateBudget,
    ) -> Result<Option<(Self, Header)>, StateError> {
        if !path.join("CURRENT").exists() {
            return Ok(None);
        }
        Self::open_db(path, budget, Making::Found)?.with_header()
    }

    /// As [`Self::open`], of files that nothing compacts unless it is asked to: what only takes a part of them would pay for
    /// all.
    pub(crate) fn open_at_rest(
        path: &Path,
        budget: &StateBudget,
    ) -> Result<Option<(Self, Header)>, StateError> {
        if !path.join("CURRENT").exists() {
            return Ok(None);
        }
        Self::open_db(path, budget, Making::FoundAtRest)?.with_header()
    }

    /// As [`Self::open`], without writing anything, locking anything, or leaving a file.
    pub(crate) fn open_to_read(
        path: &Path,
        budget: &StateBudget,
    ) -> Result<Option<(Self, Header)>, StateError> {
        if !path.join("CURRENT").exists() {
            return Ok(None);
        }
        let options = options(budget);
        let families = DB::list_cf(&options, path).map_err(|error| rocks("open", path, &error))?;
        // Where the making of a store ended before its second family there is nothing to read.
        if !families.iter().any(|family| family == OWN) {
            return Ok(None);
        }
        let families =
            [KEYS, OWN].map(|name| ColumnFamilyDescriptor::new(name, family_options(budget)));
        // A log of RocksDB's own is always there, and always empty: nobody writes to it.
        let db = DB::open_cf_descriptors_read_only(&options, path, families, false)
            .map_err(|error| rocks("open", path, &error))?;
        let path = path.to_owned();
        Self { db, path }.with_header()
    }

    /// Reads what the files say of the store; `None` if its making never ended.
    fn with_header(self) -> Result<Option<(Self, Header)>, StateError> {
        let Some(identity) = self.read_own::<StoreIdentity>(IDENTITY)? else {
            // The identity goes in with the first batch. Without it nothing else was written.
            let empty = self.db.iterator(IteratorMode::Start).next().is_none();
            return if empty {
                Ok(None)
            } else {
                Err(self.damaged("it has keys and no identity"))
            };
        };
        let life = self
            .read_own::<u64>(LIFE)?
            .ok_or_else(|| self.damaged("it does not say which records of the journal are its"))?;
        let progress = self.reach()?;
        let header = Header {
            identity,
            life: Life(life),
            progress,
        };
        Ok(Some((self, header)))
    }

    /// Makes the files of a store.
    pub(crate) fn create(
        path: &Path,
        header: &Header,
        budget: &StateBudget,
    ) -> Result<Self, StateError> {
        if Self::open(path, budget)?.is_some() {
            return Err(StateError::AlreadyThere {
                path: path.to_owned(),
            });
        }
        let rows = Self::open_db(path, budget, Making::New)?;
        let mut batch = WriteBatch::default();
        let own = rows.own()?;
        batch.put_cf(own, IDENTITY, rows.encode(&header.identity)?);
        batch.put_cf(own, LIFE, rows.encode(&header.life.0)?);
        rows.put_progress(&mut batch, &header.progress)?;
        rows.write(&batch)?;
        rows.flush()?;
        Ok(rows)
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn open_db(path: &Path, budget: &StateBudget, making: Making) -> Result<Self, StateError> {
        let mut options = options(budget);
        options.create_if_missing(matches!(making, Making::New));
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
        let families = families.into_iter().map(|name| {
            let mut options = family_options(budget);
            options.set_disable_auto_compactions(matches!(making, Making::FoundAtRest));
            ColumnFamilyDescriptor::new(name, options)
        });
        let db = DB::open_cf_descriptors(&options, path, families)
            .map_err(|error| rocks("open", path, &error))?;
        Ok(Self {
            db,
            path: path.to_owned(),
        })
    }

    pub(crate) fn damaged(&self, detail: &str) -> StateError {
        StateError::Damaged {
            path: self.path.clone(),
            detail: detail.to_owned(),
        }
    }

    pub(crate) fn own(&self) -> Result<&ColumnFamily, StateError> {
        self.db
            .cf_handle(OWN)
            .ok_or_else(|| self.damaged("it has no records of its own"))
    }

    pub(crate) fn keys(&self) -> Result<&ColumnFamily, StateError> {
        self.db
            .cf_handle(KEYS)
            .ok_or_else(|| self.damaged("it has no family for keys"))
    }

    pub(crate) fn read_own<T: DeserializeOwned>(
        &self,
        key: &[u8],
    ) -> Result<Option<T>, StateError> {
        let stored = self
            .db
            .get_cf(self.own()?, key)
            .map_err(|error| rocks("read", &self.path, &error))?;
        stored
            .map(|stored| {
                serde_json::from_slice(&stored).map_err(|error| {
                    self.damaged(&format!("{}: {error}", String::from_utf8_lossy(key)))
                })
            })
            .transpose()
    }

    fn progress(&self) -> Result<Option<Progress>, StateError> {
        let Some(record) = self.read_own::<ProgressRecord>(PROGRESS)? else {
            return Ok(None);
        };
        let clocks = self
            .db
            .get_cf(self.own()?, CLOCKS)
            .map_err(|error| rocks("read", &self.path, &error))?
            .unwrap_or_default();
        Ok(Some(Progress {
            number: record.number,
            checksum: record.checksum,
            positions: record.positions,
            frontier: record.frontier,
            by_transaction: record.by_transaction,
            cleanly_stopped: record.cleanly_stopped,
            clocks,
        }))
    }

    pub(crate) fn encode<T: Serialize>(&self, record: &T) -> Result<Vec<u8>, StateError> {
        serde_json::to_vec(record).map_err(|error| StateError::Io {
            what: "write a record of",
            path: self.path.clone(),
            detail: error.to_string(),
        })
    }

    pub(crate) fn put_progress(
        &self,
        batch: &mut WriteBatch,
        progress: &Progress,
    ) -> Result<(), StateError> {
        let own = self.own()?;
        let record = ProgressRecord {
            number: progress.number,
            checksum: progress.checksum,
            positions: progress.positions.clone(),
            frontier: progress.frontier,
            by_transaction: progress.by_transaction,
            cleanly_stopped: progress.cleanly_stopped,
        };
        batch.put_cf(own, PROGRESS, self.encode(&record)?);
        batch.put_cf(own, CLOCKS, &progress.clocks);
        Ok(())
    }

    pub(crate) fn write(&self, batch: &WriteBatch) -> Result<(), StateError> {
        let mut how = WriteOptions::default();
        how.disable_wal(true);
        self.db
            .write_opt(batch, &how)
            .map_err(|error| rocks_writing("write", &self.path, &error))
    }

    pub(crate) fn flush(&self) -> Result<(), StateError> {
        let mut how = FlushOptions::default();
        how.set_wait(true);
        self.db
            .flush_cfs_opt(&[self.keys()?, self.own()?], &how)
            .map_err(|error| rocks_writing("flush", &self.path, &error))
    }

    /// Begins to put rows in.
    pub(crate) fn fill(&self) -> Filling<'_> {
        Filling {
            rows: self,
            batch: WriteBatch::default(),
            whole: false,
        }
    }

    /// As [`Self::fill`], all or nothing.
    pub(crate) fn fill_whole(&self) -> Filling<'_> {
        Filling {
            whole: true,
            ..self.fill()
        }
    }

    /// How far the rows in the files reach.
    pub(crate) fn reach(&self) -> Result<Progress, StateError> {
        self.progress()?
            .ok_or_else(|| self.damaged("it does not say how far it came"))
    }

    /// Takes a moment of the files.
    pub(crate) fn snapshot(&self, checkpointer: &Checkpointer) -> Result<Snapshot, StateError> {
        checkpointer.snapshot(&self.db)
    }

    /// Keys and values of a range, in the order of the keys, until `visit` breaks.
    pub(crate) fn scan(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StateError> {
        let mut how = ReadOptions::default();
        if let Some(to) = to {
            how.set_iterate_upper_bound(to);
        }
        let mut rows = self.db.raw_iterator_cf_opt(self.keys()?, how);
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if visit(key, value) == ControlFlow::Break(()) {
                return Ok(());
            }
            rows.next();
        }
        rows.status()
            .map_err(|error| rocks("read", &self.path, &error))
    }

    /// Shows the values of `keys`, which ascend.
    pub(crate) fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), StateError> {
        let found = self.db.batched_multi_get_cf(self.keys()?, keys, true);
        for (at, value) in found.into_iter().enumerate() {
            let value = value.map_err(|error| rocks("read", &self.path, &error))?;
            if let Some(value) = value {
                show(at, &value);
            }
        }
        Ok(())
    }

    /// About how many keys there are.
    pub(crate) fn estimated_keys(&self) -> u64 {
        self.db
            .property_int_value("rocksdb.estimate-num-keys")
            .ok()
            .flatten()
            .unwrap_or(0)
    }

    /// The sum of a property over both families.
    pub(crate) fn sum(&self, property: &str) -> u64 {
        [KEYS, OWN]
            .iter()
            .filter_map(|name| self.db.cf_handle(name))
            .filter_map(|family| self.db.property_int_value_cf(family, property).ok()?)
            .sum()
    }

    /// Ends work in the background.
    pub(crate) fn end_work(&self) {
        self.db.cancel_all_background_work(true);
    }
}

impl Filling<'_> {
    /// Puts a row in, or removes it.
    pub(crate) fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StateError> {
        let keys = self.rows.keys()?;
        match value {
            Some(value) => self.batch.put_cf(keys, key, value),
            None => self.batch.delete_cf(keys, key),
        }
        self.write_if_full()
    }

    /// Removes all rows of a range.
    pub(crate) fn remove(&mut self, range: &Range<&[u8]>) -> Result<(), StateError> {
        let keys = self.rows.keys()?;
        self.batch.delete_range_cf(keys, range.start, range.end);
        self.write_if_full()
    }

    fn write_if_full(&mut self) -> Result<(), StateError> {
        let full = self.batch.len() >= BATCH_ROWS || self.batch.size_in_bytes() >= BATCH_BYTES;
        if full && !self.whole {
            self.rows.write(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    /// Records of the journal belong to the store by this from now on.
    pub(crate) fn begin_life(&mut self, life: Life) -> Result<(), StateError> {
        let own = self.rows.own()?;
        self.batch.put_cf(own, LIFE, self.rows.encode(&life.0)?);
        Ok(())
    }

    /// Says how far all rows reach, and makes it all durable.
    pub(crate) fn finish(mut self, progress: &Progress) -> Result<(), StateError> {
        self.rows.put_progress(&mut self.batch, progress)?;
        self.rows.write(&self.batch)?;
        self.rows.flush()
    }
}

fn options(budget: &StateBudget) -> Options {
    let mut options = Options::default();
    options.set_write_buffer_manager(&budget.write_buffers);
    options.set_max_background_jobs(2);
    // The rows and how far they reach must not reach the disk apart.
    options.set_atomic_flush(true);
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
    // The only call of RocksDB's from the middle of a compaction.
    #[cfg(feature = "fault-points")]
    options.set_compaction_filter("fault-points", |_: u32, _: &[u8], _: &[u8]| {
        crate::fault::pass(crate::fault::FaultPoint::InCompaction);
        rocksdb::compaction_filter::Decision::Keep
    });
    options
}
