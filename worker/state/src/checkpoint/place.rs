//! What a place of checkpoints can do, whatever it is made of.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use turbine_protocol::{StoreEpoch, StoreIdentity, Task};

use super::error::CheckpointError;
use super::manifest::{Checksum, Sequence};

/// The folder of one store's checkpoints, relative to the place: `<subscription>/<partition>/<store epoch>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreFolder(String);

impl StoreFolder {
    pub(crate) fn new(task: &Task, epoch: StoreEpoch) -> Self {
        Self(format!(
            "{}/{}/{epoch}",
            task.subscription,
            task.partition.get()
        ))
    }

    pub(crate) fn of(identity: &StoreIdentity) -> Self {
        Self::new(&identity.task(), identity.store_epoch)
    }

    pub(crate) fn manifests(&self) -> String {
        format!("{}/manifests", self.0)
    }

    pub(crate) fn files(&self) -> String {
        format!("{}/files", self.0)
    }

    pub(crate) fn manifest(&self, sequence: Sequence) -> String {
        format!("{}/{}", self.manifests(), sequence.manifest_name())
    }

    pub(crate) fn file(&self, object_name: &str) -> String {
        format!("{}/{object_name}", self.files())
    }
}

impl fmt::Display for StoreFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Bytes done of bytes in all; shared between who works and who shows it.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    done: AtomicU64,
    total: AtomicU64,
}

impl Meter {
    pub(crate) fn start(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Bytes {
        Bytes {
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
        }
    }
}

/// How far a checkpoint or a restore came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes done.
    pub done: u64,
    /// Bytes in all; 0 before that is known.
    pub total: u64,
}

/// What was fetched: the length and checksum of what now lies on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) size: u64,
    pub(crate) sha256: Checksum,
}

/// A place of checkpoints. Paths are relative to it, with `/` between their parts.
#[async_trait]
pub(crate) trait Place: fmt::Debug + Send + Sync {
    /// Names and sizes of what lies in a folder; nothing if there is no such folder.
    async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, CheckpointError>;

    /// Names of the folders in a folder, of which the empty one is the place itself; nothing if there is no such folder.
    async fn folders(&self, folder: &str) -> Result<Vec<String>, CheckpointError>;

    /// The content of a small object; `None` if it is not there.
    async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, CheckpointError>;

    /// Writes a small object, durably, whole or not at all.
    async fn write(&self, path: &str, content: &[u8]) -> Result<(), CheckpointError>;

    /// Puts a file there, whole or not at all.
    async fn put(&self, path: &str, from: &Path, meter: &Meter) -> Result<(), CheckpointError>;

    /// Makes durable what was put into a folder.
    async fn settle(&self, folder: &str) -> Result<(), CheckpointError>;

    /// Brings an object that should have `size` bytes into the file `to`, which is made and durable; `None` if it is not
    /// there. One of another size need not be brought whole.
    async fn fetch(
        &self,
        path: &str,
        size: u64,
        to: &Path,
        meter: &Meter,
    ) -> Result<Option<Fetched>, CheckpointError>;

    /// Removes objects of a folder, durably. None being there is as good.
    async fn remove(&self, folder: &str, names: &[String]) -> Result<(), CheckpointError>;
}
