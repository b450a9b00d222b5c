//! A checkpoint back into a store's folder.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt, stream};
use turbine_protocol::StoreIdentity;

use super::choice::{Choice, choose};
use super::error::CheckpointError;
use super::manifest::{Manifest, ManifestFile, Sequence};
use super::place::{Meter, Place, StoreFolder};
use super::refusal::{Refusal, Refused};
use super::upload::{AT_A_TIME, manifests, objects};
use crate::error::{StateError, io as io_error};
use crate::fault::{self, FaultPoint};
use crate::files::{About, FileLayer, exists, make_folders, remove_folder};

/// Ends the name of a folder that is being restored. No store has such a name.
pub const RESTORING: &str = "restoring";
/// A worker that still writes may take the chosen checkpoint away; by then it has made newer ones.
const LOOKS: usize = 3;

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The checkpoint.
    pub manifest: Manifest,
    /// Newer ones that were not taken, newest first.
    pub refused: Vec<Refused>,
}

/// What can be taken of a store's checkpoints.
pub(crate) async fn look(
    place: &dyn Place,
    expected: &StoreIdentity,
) -> Result<Choice, CheckpointError> {
    let store = StoreFolder::of(expected);
    let found = manifests(place, &store).await?;
    let objects = objects(place, &store).await?;
    Ok(choose(&found, &objects, expected))
}

/// Restores the newest checkpoint that turns out whole; `None` if there is none at all.
///
/// `reading` is told which one is read, for as long as what it returns lives.
pub(crate) async fn restore<Guard>(
    files: &dyn FileLayer,
    place: &dyn Place,
    expected: &StoreIdentity,
    target: &Path,
    meter: &Meter,
    reading: impl Fn(Sequence) -> Guard,
) -> Result<Option<Restored>, CheckpointError> {
    let store = StoreFolder::of(expected);
    let mut not_whole: Vec<Refused> = Vec::new();
    let mut refused = Vec::new();
    for _ in 0..LOOKS {
        let choice = look(place, expected).await?;
        if choice.is_empty() && not_whole.is_empty() {
            return Ok(None);
        }
        let failed: BTreeSet<_> = not_whole.iter().map(|one| one.name.clone()).collect();
        let mut found_other = false;
        for manifest in choice.intact {
            let name = manifest.sequence.manifest_name();
            if failed.contains(&name) {
                continue;
            }
            found_other = true;
            let _guard = reading(manifest.sequence);
            match fetch(files, place, &store, &manifest, target, meter).await? {
                Ok(()) => {
                    let mut refused = [not_whole, choice.refused].concat();
                    refused.retain(|one| one.name > name);
                    refused.sort_by(|a, b| b.name.cmp(&a.name));
                    refused.dedup_by(|a, b| a.name == b.name);
                    return Ok(Some(Restored { manifest, refused }));
                }
                Err(refusal) => not_whole.push(Refused { name, refusal }),
            }
        }
        refused = choice.refused;
        if !found_other {
            break;
        }
    }
    let mut refused = [not_whole, refused].concat();
    refused.sort_by(|a, b| b.name.cmp(&a.name));
    refused.dedup_by(|a, b| a.name == b.name);
    Err(CheckpointError::NoneIntact {
        store: store.to_string(),
        refused,
    })
}

fn restoring(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(RESTORING);
    target.with_file_name(name)
}

/// Brings one checkpoint to `target`, which is not there. The outer error is of the way, the inner one of the checkpoint.
async fn fetch(
    files: &dyn FileLayer,
    place: &dyn Place,
    store: &StoreFolder,
    manifest: &Manifest,
    target: &Path,
    meter: &Meter,
) -> Result<Result<(), Refusal>, CheckpointError> {
    let folder = restoring(target);
    let local = |error: io::Error| io_error("restore into", &folder, &error);
    if exists(files, target) {
        return Err(StateError::AlreadyThere {
            path: target.to_owned(),
        }
        .into());
    }
    prepare(files, &folder, target).map_err(local)?;
    meter.start(manifest.bytes());
    let fetches: Vec<_> = manifest
        .files
        .iter()
        .map(|file| fetch_file(place, store, file, folder.join(file.name.as_str()), meter))
        .collect();
    let fetched: Result<Vec<Result<(), Refusal>>, CheckpointError> = stream::iter(fetches)
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await;
    if let Some(refusal) = fetched?.into_iter().find_map(Result::err) {
        remove_folder(files, &folder).map_err(local)?;
        return Ok(Err(refusal));
    }
    let finish = || -> io::Result<()> {
        files.sync_folder(&folder)?;
        files.rename(&folder, target)?;
        files.sync_folder(target.parent().unwrap_or(Path::new(".")))
    };
    finish().map_err(local)?;
    Ok(Ok(()))
}

async fn fetch_file(
    place: &dyn Place,
    store: &StoreFolder,
    file: &ManifestFile,
    to: PathBuf,
    meter: &Meter,
) -> Result<Result<(), Refusal>, CheckpointError> {
    let name = file.object_name();
    let path = store.file(&name);
    let fetched = place.fetch(&path, file.size, &to, meter).await?;
    fault::pass(FaultPoint::InRestore);
    Ok(match fetched {
        None => Err(Refusal::MissingFile { file: name }),
        Some(fetched) if fetched.size != file.size => Err(Refusal::WrongSize {
            file: name,
            found: fetched.size,
            expected: file.size,
        }),
        Some(fetched) if fetched.sha256 != file.sha256 => Err(Refusal::WrongContent { file: name }),
        Some(_) => Ok(()),
    })
}

fn prepare(files: &dyn FileLayer, folder: &Path, target: &Path) -> io::Result<()> {
    remove_folder(files, folder)?;
    let root = target
        .ancestors()
        .skip(1)
        .find(|above| matches!(files.about(above), Ok(About::Folder)))
        .unwrap_or(Path::new("."))
        .to_owned();
    make_folders(files, &root, folder)
}
