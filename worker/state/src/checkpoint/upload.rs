//! One checkpoint: files that are not there yet, then the manifest, then what is too old goes.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use turbine_protocol::StoreIdentity;

use super::choice::{Found, Objects};
use super::error::CheckpointError;
use super::manifest::{Manifest, ManifestFile, Sequence};
use super::place::{Meter, Place, StoreFolder};
use super::prune::{self, PrunePlan};
use super::snapshot::Snapshot;
use super::sums::KnownSums;
use crate::error::StateError;
use crate::fault::{self, FaultPoint};
use crate::task_state::Progress;

/// Files that are put or fetched at a time.
pub(crate) const AT_A_TIME: usize = 2;
/// Manifests are small; reading them is waiting.
const READS_AT_A_TIME: usize = 8;

/// What a checkpoint says besides its files.
#[derive(Debug, Clone)]
pub struct CheckpointMeta {
    /// Whose state it is.
    pub identity: StoreIdentity,
    /// How far the state in it came: what the store itself says.
    pub progress: Progress,
    /// When it is made, in milliseconds since the Unix epoch.
    pub made_at_ms: i64,
}

/// What a checkpoint became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Its manifest.
    pub manifest: Manifest,
    /// Bytes that were not there yet.
    pub new_bytes: u64,
    /// What went after it. A fault of the deletion leaves the checkpoint as good as it is.
    pub pruned: Result<PrunePlan, CheckpointError>,
}

/// `None` if it went meanwhile: it was pruned.
async fn manifest(
    place: &dyn Place,
    store: &StoreFolder,
    sequence: Sequence,
) -> Result<Option<Found>, CheckpointError> {
    let stored = place.read(&store.manifest(sequence)).await?;
    Ok(stored.map(|stored| Found {
        sequence,
        read: Manifest::from_json(sequence, &stored),
    }))
}

/// All manifests of a store, as far as they can be read.
pub(crate) async fn manifests(
    place: &dyn Place,
    store: &StoreFolder,
) -> Result<Vec<Found>, CheckpointError> {
    let listed = place.list(&store.manifests()).await?;
    let reads: Vec<_> = listed
        .iter()
        .filter_map(|(name, _)| Sequence::of_manifest(name))
        .map(|sequence| manifest(place, store, sequence))
        .collect();
    let found: Vec<Option<Found>> = stream::iter(reads)
        .buffered(READS_AT_A_TIME)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

pub(crate) async fn objects(
    place: &dyn Place,
    store: &StoreFolder,
) -> Result<Objects, CheckpointError> {
    Ok(place.list(&store.files()).await?.into_iter().collect())
}

async fn put(
    place: &dyn Place,
    store: &StoreFolder,
    snapshot: &Snapshot,
    file: &ManifestFile,
    meter: &Meter,
) -> Result<(), CheckpointError> {
    let from = snapshot.folder().join(file.name.as_str());
    let to = store.file(&file.object_name());
    place.put(&to, &from, meter).await?;
    fault::pass(FaultPoint::InUpload);
    Ok(())
}

/// Writes a checkpoint. Only its manifest makes it one: broken off at any step before, it is as if it had never begun.
pub(crate) async fn save(
    place: &dyn Place,
    known: &KnownSums,
    snapshot: &Snapshot,
    meta: &CheckpointMeta,
    meter: &Meter,
) -> Result<(Manifest, u64), CheckpointError> {
    let store = StoreFolder::of(&meta.identity);
    let files = known.of(&store, snapshot)?;
    let there = objects(place, &store).await?;
    let new: Vec<_> = files
        .iter()
        .filter(|file| there.get(&file.object_name()) != Some(&file.size))
        .collect();
    let new_bytes = new.iter().map(|file| file.size).sum();
    meter.start(new_bytes);
    let puts: Vec<_> = new
        .iter()
        .map(|file| put(place, &store, snapshot, file, meter))
        .collect();
    stream::iter(puts)
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;
    place.settle(&store.files()).await?;
    let last = place
        .list(&store.manifests())
        .await?
        .iter()
        .filter_map(|(name, _)| Sequence::of_manifest(name))
        .max();
    let Progress {
        number,
        checksum,
        positions,
        frontier,
        by_transaction,
        cleanly_stopped: _,
        clocks: _,
    } = &meta.progress;
    let manifest = Manifest {
        sequence: last.unwrap_or(Sequence(0)).next(),
        identity: meta.identity.clone(),
        entry: *number,
        entry_checksum: *checksum,
        positions: positions.clone(),
        frontier: *frontier,
        by_transaction: *by_transaction,
        made_at_ms: meta.made_at_ms,
        files,
    };
    let document = manifest.to_json().map_err(|error| StateError::Io {
        what: "write the manifest of",
        path: snapshot.folder().to_owned(),
        detail: error.to_string(),
    })?;
    fault::pass(FaultPoint::InCheckpoint);
    place
        .write(&store.manifest(manifest.sequence), &document)
        .await?;
    // From here on no clean-up takes its files. One that had begun before may have.
    let there = objects(place, &store).await?;
    match manifest
        .files
        .iter()
        .find(|file| there.get(&file.object_name()) != Some(&file.size))
    {
        Some(gone) => Err(CheckpointError::Overtaken {
            file: store.file(&gone.object_name()),
        }),
        None => Ok((manifest, new_bytes)),
    }
}

/// Deletes what is too old.
pub(crate) async fn prune(
    place: &dyn Place,
    identity: &StoreIdentity,
    retain: usize,
    reading: impl Fn() -> BTreeSet<Sequence>,
) -> Result<PrunePlan, CheckpointError> {
    let store = StoreFolder::of(identity);
    let found = manifests(place, &store).await?;
    let files = objects(place, &store).await?.into_keys().collect();
    let plan = prune::plan(&found, &files, identity, retain, &reading());
    let manifests: Vec<_> = plan
        .manifests
        .iter()
        .map(|one| one.manifest_name())
        .collect();
    if !manifests.is_empty() {
        place.remove(&store.manifests(), &manifests).await?;
        fault::pass(FaultPoint::InPrune);
    }
    if !plan.files.is_empty() {
        // Manifests that a killed process removed may not be gone for good, and would lack these files.
        place.settle(&store.manifests()).await?;
        place.remove(&store.files(), &plan.files).await?;
    }
    Ok(plan)
}
