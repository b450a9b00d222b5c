//! The checkpoints of all stores of a process: taken on the side, one per store at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rocksdb::DB;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use turbine_protocol::{AppId, StoreEpoch, StoreIdentity, Task};

use super::choice::Choice;
use super::error::CheckpointError;
use super::local::LocalFolder;
use super::manifest::Sequence;
use super::object;
use super::place::{Bytes, Meter, Place, StoreFolder};
use super::prune::PrunePlan;
use super::restore::{self, Restored};
use super::settings::{CheckpointSettings, Destination};
use super::snapshot::Snapshot;
use super::status::{CheckpointStatus, LastCheckpoint};
use super::sums::KnownSums;
use super::upload::{self, CheckpointMeta, Saved};
use crate::error::StateError;
use crate::files::SystemFiles;

/// Name of the folder for checkpoints at the root of a volume. No subscription has such a name.
pub const CHECKPOINTS_FOLDER: &str = "_checkpoints";
/// In it, snapshots that are being written. No subscription has such a name either.
const TAKING: &str = ".taking";
/// Stores whose checkpoints are written at a time; the others wait.
const STORES_AT_A_TIME: usize = 2;
/// How often a caller that waits is told how far it came.
const TELL: Duration = Duration::from_millis(200);

/// The checkpoints of all stores of a process. Clones share the work; the work ends when the last one is dropped.
#[derive(Clone)]
pub struct Checkpointer {
    shared: Arc<Shared>,
    runtime: Arc<OwnRuntime>,
}

struct Shared {
    place: Arc<dyn Place>,
    retain: usize,
    taking: PathBuf,
    swept: Once,
    snapshots: AtomicU64,
    known: KnownSums,
    permits: Semaphore,
    stores: Mutex<BTreeMap<StoreFolder, Arc<Store>>>,
}

/// What is known of one store.
#[derive(Default)]
struct Store {
    /// One checkpoint, restore of the list or clean-up at a time.
    turn: tokio::sync::Mutex<()>,
    meter: Arc<Meter>,
    /// Counts the checkpoints asked for: one that is not the last one asked for gives way while it still waits.
    asked: AtomicU64,
    told: Mutex<CheckpointStatus>,
    reading: Mutex<BTreeMap<Sequence, usize>>,
}

/// A runtime that may be dropped anywhere, also within another one.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Checkpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpointer")
            .field("place", &self.shared.place)
            .field("retain", &self.shared.retain)
            .finish_non_exhaustive()
    }
}

/// A checkpoint that is being written.
#[derive(Debug)]
pub struct Saving {
    outcome: Receiver<Result<Saved, CheckpointError>>,
    meter: Arc<Meter>,
}

impl Saving {
    /// How far it came: bytes of files that were not there yet.
    #[must_use]
    pub fn progress(&self) -> Bytes {
        self.meter.read()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Why there is no checkpoint. Those before are untouched.
    pub fn wait(self) -> Result<Saved, CheckpointError> {
        self.outcome.recv().unwrap_or(Err(CheckpointError::Ended))
    }

    /// Waits for the end for at most this long; `None` if it has not come by then.
    #[must_use]
    pub fn wait_for(&self, limit: Duration) -> Option<Result<Saved, CheckpointError>> {
        match self.outcome.recv_timeout(limit) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(CheckpointError::Ended)),
        }
    }

    /// The outcome, if there is one by now.
    #[must_use]
    pub fn poll(&self) -> Option<Result<Saved, CheckpointError>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(std::sync::mpsc::TryRecvError::Empty) => None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Some(Err(CheckpointError::Ended)),
        }
    }
}

/// Keeps a checkpoint from being deleted by this process while it is read.
struct Reading {
    store: Arc<Store>,
    sequence: Sequence,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut reading = lock(&self.store.reading);
        if let Some(readers) = reading.get_mut(&self.sequence) {
            *readers -= 1;
            if *readers == 0 {
                reading.remove(&self.sequence);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    fn read(self: &Arc<Self>, sequence: Sequence) -> Reading {
        *lock(&self.reading).entry(sequence).or_default() += 1;
        Reading {
            store: Arc::clone(self),
            sequence,
        }
    }

    fn being_read(&self) -> BTreeSet<Sequence> {
        lock(&self.reading).keys().copied().collect()
    }
}

impl Shared {
    fn store(&self, folder: &StoreFolder) -> Arc<Store> {
        Arc::clone(lock(&self.stores).entry(folder.clone()).or_default())
    }

    async fn save(
        &self,
        store: &Arc<Store>,
        number: u64,
        snapshot: Snapshot,
        meta: &CheckpointMeta,
    ) -> Result<Saved, CheckpointError> {
        let _turn = store.turn.lock().await;
        let _permit = self.permits.acquire().await;
        if store.asked.load(Ordering::SeqCst) != number {
            return Err(CheckpointError::Superseded);
        }
        let place = &*self.place;
        let (manifest, new_bytes) =
            upload::save(place, &self.known, &snapshot, meta, &store.meter).await?;
        lock(&store.told).last = Some(LastCheckpoint::of(&manifest, Some(new_bytes)));
        let pruned = upload::prune(place, &meta.identity, self.retain, || store.being_read()).await;
        Ok(Saved {
            manifest,
            new_bytes,
            pruned,
        })
    }
}

/// A folder on another volume than that of the stores.
fn elsewhere(folder: &Path, app: &AppId, volume: &Path) -> Result<LocalFolder, CheckpointError> {
    let inside = match (std::path::absolute(folder), std::path::absolute(volume)) {
        // Its own folder in there may be the volume's, if that lies in there as well.
        (Ok(folder), Ok(volume)) => {
            folder.starts_with(&volume) || folder.join(app.as_str()).starts_with(&volume)
        }
        (Err(_), _) | (_, Err(_)) => false,
    };
    if inside || !folder.is_absolute() {
        return Err(CheckpointError::Settings {
            detail: format!(
                "{} has to be an absolute path outside {}, whose loss checkpoints have to outlive; \
                 correct `state.checkpoints.store.folder`",
                folder.display(),
                volume.display()
            ),
        });
    }
    Ok(LocalFolder::elsewhere(folder, app))
}

impl Checkpointer {
    /// The checkpoints that `settings` describe. `volume` is the root of the volume with the stores. Nothing is written.
    ///
    /// # Errors
    /// If the settings cannot be used.
    pub fn open(settings: &CheckpointSettings, volume: &Path) -> Result<Self, CheckpointError> {
        let own = volume.join(CHECKPOINTS_FOLDER);
        let place: Arc<dyn Place> = match &settings.destination {
            Destination::Volume => Arc::new(LocalFolder::new(own.clone())),
            Destination::Folder { folder, app } => Arc::new(elsewhere(folder, app, volume)?),
            Destination::S3 { bucket, app } => Arc::new(object::s3(bucket, app)?),
        };
        Self::over(place, settings.retain.get(), own.join(TAKING))
    }

    pub(crate) fn over(
        place: Arc<dyn Place>,
        retain: usize,
        taking: PathBuf,
    ) -> Result<Self, CheckpointError> {
        let runtime = Builder::new_multi_thread()
            // One is free for who restores or looks while checkpoints are summed.
            .worker_threads(STORES_AT_A_TIME + 1)
            .thread_name("checkpoints")
            .enable_all()
            .build()
            .map_err(|error| CheckpointError::Settings {
                detail: format!("no threads for them: {error}"),
            })?;
        Ok(Self {
            shared: Arc::new(Shared {
                place,
                retain,
                taking,
                swept: Once::new(),
                snapshots: AtomicU64::new(0),
                known: KnownSums::default(),
                permits: Semaphore::new(STORES_AT_A_TIME),
                stores: Mutex::default(),
            }),
            runtime: Arc::new(OwnRuntime(Some(runtime))),
        })
    }

    /// A snapshot of an open store, for [`Checkpointer::save`]: a folder of links on the store's own volume.
    ///
    /// # Errors
    /// If the store cannot be flushed, or the folder cannot be made.
    pub fn snapshot(&self, db: &DB) -> Result<Snapshot, StateError> {
        let shared = &self.shared;
        // Only who takes snapshots here clears those of a life before.
        shared.swept.call_once(|| {
            let _ = fs::remove_dir_all(&shared.taking);
        });
        let number = shared.snapshots.fetch_add(1, Ordering::Relaxed);
        Snapshot::take(db, shared.taking.join(number.to_string()))
    }

    /// Begins to write a checkpoint, and returns at once. Checkpoints of one store are written one after the other; one
    /// that still waits gives way to a newer one ([`CheckpointError::Superseded`]).
    #[must_use]
    pub fn save(&self, snapshot: Snapshot, meta: CheckpointMeta) -> Saving {
        let store = self.shared.store(&StoreFolder::of(&meta.identity));
        let number = store.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let (tell, outcome) = sync_channel(1);
        let meter = Arc::clone(&store.meter);
        let shared = Arc::clone(&self.shared);
        self.spawn(async move {
            lock(&store.told).running += 1;
            let outcome = shared.save(&store, number, snapshot, &meta).await;
            {
                let mut told = lock(&store.told);
                told.running -= 1;
                match &outcome {
                    Ok(saved) => told.error = saved.pruned.as_ref().err().cloned(),
                    Err(CheckpointError::Superseded) => {}
                    Err(error) => told.error = Some(error.clone()),
                }
            }
            // Nobody has to wait for it.
            let _ = tell.send(outcome);
        });
        Saving { outcome, meter }
    }

    /// What can be taken of a store's checkpoints, newest first, and what cannot. Sizes are looked at, content is not.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub fn look(&self, expected: &StoreIdentity) -> Result<Choice, CheckpointError> {
        let shared = Arc::clone(&self.shared);
        let identity = expected.clone();
        let choice = self.wait(|_| {}, &Meter::default(), async move {
            restore::look(&*shared.place, &identity).await
        })?;
        if let Some(newest) = choice.intact.first() {
            let store = self.shared.store(&StoreFolder::of(expected));
            let mut told = lock(&store.told);
            told.last
                .get_or_insert_with(|| LastCheckpoint::of(newest, None));
        }
        Ok(choice)
    }

    /// Restores the newest checkpoint that turns out whole into `target`, which is not there yet; `None` if there is no
    /// checkpoint at all. Every file's size and checksum is verified before `target` appears, whole and durable.
    /// `progress` is called from time to time, from this thread.
    ///
    /// # Errors
    /// [`CheckpointError::NoneIntact`] if there are checkpoints and none can be taken; otherwise if the place cannot be
    /// read or the folder cannot be written.
    pub fn restore(
        &self,
        expected: &StoreIdentity,
        target: &Path,
        progress: impl FnMut(Bytes),
    ) -> Result<Option<Restored>, CheckpointError> {
        let shared = Arc::clone(&self.shared);
        let store = shared.store(&StoreFolder::of(expected));
        let meter = Arc::new(Meter::default());
        let (identity, target, shown) = (expected.clone(), target.to_owned(), Arc::clone(&meter));
        let restored = self.wait(progress, &meter, {
            let store = Arc::clone(&store);
            async move {
                let reading = |sequence| store.read(sequence);
                restore::restore(
                    &SystemFiles,
                    &*shared.place,
                    &identity,
                    &target,
                    &shown,
                    reading,
                )
                .await
            }
        })?;
        if let Some(restored) = &restored {
            lock(&store.told).last = Some(LastCheckpoint::of(&restored.manifest, None));
        }
        Ok(restored)
    }

    /// Deletes what is older than the newest `retain` checkpoints, as every [`Checkpointer::save`] does at its end.
    ///
    /// # Errors
    /// If the place cannot be read, or nothing can be deleted there.
    pub fn prune(
        &self,
        identity: &StoreIdentity,
        retain: usize,
    ) -> Result<PrunePlan, CheckpointError> {
        let shared = Arc::clone(&self.shared);
        let identity = identity.clone();
        self.wait(|_| {}, &Meter::default(), async move {
            let store = shared.store(&StoreFolder::of(&identity));
            let _turn = store.turn.lock().await;
            upload::prune(&*shared.place, &identity, retain, || store.being_read()).await
        })
    }

    /// Deletes all checkpoints of a task's store, whatever they are. For good: for state that is to be forgotten.
    ///
    /// # Errors
    /// If the place cannot be read, or nothing can be deleted there.
    pub fn discard(&self, task: &Task, epoch: StoreEpoch) -> Result<(), CheckpointError> {
        let shared = Arc::clone(&self.shared);
        let folder = StoreFolder::new(task, epoch);
        self.wait(|_| {}, &Meter::default(), async move {
            let store = shared.store(&folder);
            let _turn = store.turn.lock().await;
            for part in [folder.manifests(), folder.files()] {
                let listed = shared.place.list(&part).await?;
                let names: Vec<_> = listed.into_iter().map(|(name, _)| name).collect();
                shared.place.remove(&part, &names).await?;
            }
            shared.known.forget(&folder);
            *lock(&store.told) = CheckpointStatus::default();
            Ok(())
        })
    }

    /// Tries every right that checkpoints need, with a small object of its own: to list, write, read and delete.
    ///
    /// # Errors
    /// The first that fails.
    pub fn check(&self) -> Result<(), CheckpointError> {
        let shared = Arc::clone(&self.shared);
        self.wait(|_| {}, &Meter::default(), async move {
            let folder = ".check";
            // Workers of one app check at the same time.
            let name = format!("{}-{:p}", std::process::id(), Arc::as_ptr(&shared));
            let path = format!("{folder}/{name}");
            shared.place.list(folder).await?;
            shared.place.write(&path, b"turbine").await?;
            shared.place.read(&path).await?;
            shared.place.remove(folder, &[name]).await
        })
    }

    /// How the checkpoints of a store stand, as far as this process knows.
    #[must_use]
    pub fn status(&self, identity: &StoreIdentity) -> CheckpointStatus {
        let store = self.shared.store(&StoreFolder::of(identity));
        let mut status = lock(&store.told).clone();
        status.progress = store.meter.read();
        status
    }

    fn handle(&self) -> Option<&Handle> {
        self.runtime.0.as_ref().map(Runtime::handle)
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(handle) = self.handle() {
            handle.spawn(work);
        }
    }

    pub(super) fn place(&self) -> Arc<dyn Place> {
        Arc::clone(&self.shared.place)
    }

    /// Waits without entering the runtime: the caller may be within another one.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        mut tell: impl FnMut(Bytes),
        meter: &Meter,
        work: impl Future<Output = Result<T, CheckpointError>> + Send + 'static,
    ) -> Result<T, CheckpointError> {
        let (done, outcome) = sync_channel(1);
        self.spawn(async move {
            let _ = done.send(work.await);
        });
        loop {
            match outcome.recv_timeout(TELL) {
                Ok(outcome) => {
                    tell(meter.read());
                    return outcome;
                }
                Err(RecvTimeoutError::Timeout) => tell(meter.read()),
                Err(RecvTimeoutError::Disconnected) => return Err(CheckpointError::Ended),
            }
        }
    }
}
