//! Checkpoints of tiny stores, through everything that can happen to them.

mod crashes;
mod damage;
mod folder;
mod killed;
mod objects;
mod power;
mod pulled;
mod rules;
mod together;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rocksdb::{DB, IteratorMode, Options, WriteOptions};
use tempfile::TempDir;
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{
    EntryChecksum, EntryNumber, Frontier, Lineage, Offset, Position, StoreEpoch, StoreIdentity,
    Task,
};
use uuid::Uuid;

use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::local::LocalFolder;
use super::manifest::{self, ManifestFile};
use super::place::{Fetched, Meter, Place};
use super::restore::Restored;
use super::upload::{CheckpointMeta, Saved};
use crate::task_state::Progress;

pub(super) type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn is_table(file: &ManifestFile) -> bool {
    manifest::is_table(Path::new(file.name.as_str()))
}

pub(super) fn identity(app: &str) -> StoreIdentity {
    StoreIdentity::new(
        app.parse().unwrap(),
        Lineage::new(Uuid::from_u128(7)),
        &Task {
            subscription: "per-tenant".parse().unwrap(),
            partition: Partition::try_from(3).unwrap(),
        },
        StoreEpoch::try_from(2).unwrap(),
        RawPartitionCount::try_from(12).unwrap(),
        "tenant".to_owned(),
    )
}

pub(super) fn meta(entry: i64) -> CheckpointMeta {
    CheckpointMeta {
        identity: identity("fraud"),
        progress: Progress {
            number: EntryNumber::try_from(entry).unwrap(),
            checksum: EntryChecksum(u32::try_from(entry).unwrap()),
            positions: vec![Position {
                topic: "events".parse().unwrap(),
                partition: Partition::try_from(3).unwrap(),
                next: Offset::try_from(entry * 100).unwrap(),
            }],
            frontier: Frontier(Some(entry * 1000)),
            by_transaction: false,
            cleanly_stopped: false,
            clocks: Vec::new(),
        },
        made_at_ms: entry * 60_000,
    }
}

/// A store with its log off, whose files grow in number: nothing is compacted.
pub(super) struct Tiny {
    pub(super) db: DB,
    pub(super) keys: Keys,
}

impl Tiny {
    pub(super) fn new(path: &Path) -> Self {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_disable_auto_compactions(true);
        Self {
            db: DB::open(&options, path).unwrap(),
            keys: Keys::new(),
        }
    }

    /// Writes 20 keys that say `round`, of which some are new, and makes a file of them.
    pub(super) fn write(&mut self, round: i64) {
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        for number in 0..20 {
            let key = format!("{:04}", number + round * 5).into_bytes();
            let value = format!("value {number} of round {round}").into_bytes();
            self.db.put_opt(&key, &value, &unlogged).unwrap();
            self.keys.insert(key, value);
        }
        self.db.flush().unwrap();
    }
}

/// What a store at `path` holds.
pub(super) fn keys_at(path: &Path) -> Keys {
    let db = DB::open_for_read_only(&Options::default(), path, false).unwrap();
    db.iterator(IteratorMode::Start)
        .map(|item| item.unwrap())
        .map(|(key, value)| (key.into_vec(), value.into_vec()))
        .collect()
}

/// A volume with one store, whose checkpoints go to a folder.
pub(super) struct Bench {
    pub(super) folder: TempDir,
    pub(super) tiny: Tiny,
    /// What the store held at each entry.
    pub(super) at: BTreeMap<i64, Keys>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let tiny = Tiny::new(&folder.path().join("store"));
        Self {
            folder,
            tiny,
            at: BTreeMap::new(),
        }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().join("_checkpoints")
    }

    pub(super) fn place(&self) -> Arc<dyn Place> {
        Arc::new(LocalFolder::new(self.root()))
    }

    pub(super) fn over(&self, place: Arc<dyn Place>) -> Checkpointer {
        Checkpointer::over(place, 2, self.root().join(".taking")).unwrap()
    }

    pub(super) fn checkpointer(&self) -> Checkpointer {
        self.over(self.place())
    }

    /// Writes keys and saves them as `entry`.
    pub(super) fn save(
        &mut self,
        checkpointer: &Checkpointer,
        entry: i64,
    ) -> Result<Saved, CheckpointError> {
        self.tiny.write(entry);
        self.at.insert(entry, self.tiny.keys.clone());
        let snapshot = checkpointer.snapshot(&self.tiny.db).unwrap();
        checkpointer.save(snapshot, meta(entry)).wait()
    }

    pub(super) fn target(&self) -> PathBuf {
        self.folder.path().join("restored")
    }

    /// Restores, and holds what was restored against what the store held at that entry.
    pub(super) fn restore(&self, checkpointer: &Checkpointer) -> Restored {
        let target = self.target();
        let _ = fs::remove_dir_all(&target);
        let restored = checkpointer
            .restore(&identity("fraud"), &target, |_| {})
            .unwrap()
            .expect("there are checkpoints");
        assert_eq!(keys_at(&target), self.at[&restored.manifest.entry.get()]);
        restored
    }

    pub(super) fn store_folder(&self) -> PathBuf {
        self.root().join("per-tenant/3/2")
    }

    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        names(&self.store_folder().join(kind))
    }
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Write,
    Put,
    Fetch,
    Remove,
}

type Hook = dyn Fn(Act, &str, Option<&Path>) -> Result<(), CheckpointError> + Send + Sync;

/// A place that asks before each act whether it may.
pub(super) struct Hooked {
    inner: Arc<dyn Place>,
    hook: Box<Hook>,
}

impl Hooked {
    pub(super) fn over(
        inner: Arc<dyn Place>,
        hook: impl Fn(Act, &str, Option<&Path>) -> Result<(), CheckpointError> + Send + Sync + 'static,
    ) -> Arc<dyn Place> {
        Arc::new(Self {
            inner,
            hook: Box::new(hook),
        })
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

#[async_trait]
impl Place for Hooked {
    async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, CheckpointError> {
        self.inner.list(folder).await
    }

    async fn folders(&self, folder: &str) -> Result<Vec<String>, CheckpointError> {
        self.inner.folders(folder).await
    }

    async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        self.inner.read(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<(), CheckpointError> {
        (self.hook)(Act::Write, path, None)?;
        self.inner.write(path, content).await
    }

    async fn put(&self, path: &str, from: &Path, meter: &Meter) -> Result<(), CheckpointError> {
        (self.hook)(Act::Put, path, None)?;
        self.inner.put(path, from, meter).await
    }

    async fn settle(&self, folder: &str) -> Result<(), CheckpointError> {
        self.inner.settle(folder).await
    }

    async fn fetch(
        &self,
        path: &str,
        size: u64,
        to: &Path,
        meter: &Meter,
    ) -> Result<Option<Fetched>, CheckpointError> {
        (self.hook)(Act::Fetch, path, Some(to))?;
        self.inner.fetch(path, size, to, meter).await
    }

    async fn remove(&self, folder: &str, names: &[String]) -> Result<(), CheckpointError> {
        for name in names {
            (self.hook)(Act::Remove, &format!("{folder}/{name}"), None)?;
            self.inner
                .remove(folder, std::slice::from_ref(name))
                .await?;
        }
        Ok(())
    }
}
