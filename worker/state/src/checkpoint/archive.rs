//! Checkpoints of stores that nobody runs: which there are, and their files, also where the identity of a store is not known
//! before.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use turbine_keygroups::Partition;
use turbine_protocol::{AppId, StoreEpoch, SubscriptionName, Task};

use super::checkpointer::Checkpointer;
use super::choice::{Choice, choose};
use super::error::CheckpointError;
use super::local::{LocalFolder, summed};
use super::manifest::{Manifest, ManifestFile};
use super::object;
use super::place::{Bytes, Meter, Place, StoreFolder};
use super::refusal::{Refusal, Refused};
use super::settings::S3Bucket;
use super::upload::{AT_A_TIME, manifests, objects};
use crate::error::io as io_error;
use crate::fault::{self, FaultPoint};
use crate::files::{About, FileLayer, SystemFiles, make_folders, remove};

/// Where the checkpoints of an app lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Archive {
    /// A folder: `_checkpoints` of a volume, or the app's own in a folder for checkpoints.
    Folder(PathBuf),
    /// A bucket.
    Bucket {
        /// Where, and how to get there.
        bucket: S3Bucket,
        /// Whose checkpoints.
        app: AppId,
    },
}

impl Checkpointer {
    /// The checkpoints of an archive. Nothing is deleted there by itself but what [`Checkpointer::save`] replaces.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn of_archive(archive: &Archive) -> Result<Self, CheckpointError> {
        let place: Arc<dyn Place> = match archive {
            Archive::Folder(folder) => Arc::new(LocalFolder::new(folder.clone())),
            Archive::Bucket { bucket, app } => Arc::new(object::s3(bucket, app)?),
        };
        // It takes no snapshots of its own: what it saves lies in folders already.
        Self::over(place, super::LEAST_RETAINED, PathBuf::new())
    }

    /// The subscriptions that have checkpoints.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub fn subscriptions(&self) -> Result<BTreeSet<SubscriptionName>, CheckpointError> {
        let names = self.folders("")?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The stores of a subscription that have checkpoints.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub fn stores_of(
        &self,
        subscription: &SubscriptionName,
    ) -> Result<BTreeSet<(Partition, StoreEpoch)>, CheckpointError> {
        let mut found = BTreeSet::new();
        for name in self.folders(subscription.as_str())? {
            let number = name.parse::<i32>().ok();
            let Some(partition) = number.and_then(|number| Partition::try_from(number).ok()) else {
                continue;
            };
            let epochs = self.folders(&format!("{subscription}/{partition}"))?;
            found.extend(
                epochs
                    .iter()
                    .filter_map(|epoch| epoch.parse::<i64>().ok()?.try_into().ok())
                    .map(|epoch| (partition, epoch)),
            );
        }
        Ok(found)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>, CheckpointError> {
        let place = self.place();
        let folder = folder.to_owned();
        self.wait(|_| {}, &Meter::default(), async move {
            place.folders(&folder).await
        })
    }

    /// As [`Checkpointer::look`], of whatever store the newest manifest that can be read says.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub fn look_at(&self, task: &Task, epoch: StoreEpoch) -> Result<Choice, CheckpointError> {
        let place = self.place();
        let folder = StoreFolder::new(task, epoch);
        self.wait(|_| {}, &Meter::default(), async move {
            let found = manifests(&*place, &folder).await?;
            let newest = found
                .iter()
                .max_by_key(|one| (one.read.is_ok(), one.sequence))
                .map(|one| one.read.clone());
            match newest {
                Some(Ok(manifest)) => {
                    let objects = objects(&*place, &folder).await?;
                    Ok(choose(&found, &objects, &manifest.identity))
                }
                // No manifest can be read, or there is none.
                Some(Err(_)) | None => Ok(Choice {
                    intact: Vec::new(),
                    refused: found
                        .into_iter()
                        .filter_map(|one| {
                            Some(Refused {
                                name: one.sequence.manifest_name(),
                                refusal: one.read.err()?,
                            })
                        })
                        .collect(),
                }),
            }
        })
    }

    /// Brings the files of a checkpoint into a folder, each compared with the manifest. Files that are there already, whole,
    /// are not brought again; those that the checkpoint does not have are removed. The inner error names the file that is
    /// not what was written.
    ///
    /// # Errors
    /// If the place cannot be read, or the folder cannot be written.
    pub fn pull(
        &self,
        manifest: &Manifest,
        to: &Path,
        progress: impl FnMut(Bytes),
    ) -> Result<Result<(), Refusal>, CheckpointError> {
        let place = self.place();
        let meter = Arc::new(Meter::default());
        let (manifest, to, shown) = (manifest.clone(), to.to_owned(), Arc::clone(&meter));
        self.wait(progress, &meter, async move {
            let root = to.parent().unwrap_or(Path::new(".")).to_owned();
            make_folders(&SystemFiles, &root, &to)
                .map_err(|error| io_error("make", &to, &error))?;
            remove_others(&manifest, &to).map_err(|error| io_error("remove from", &to, &error))?;
            shown.start(manifest.bytes());
            let folder = StoreFolder::of(&manifest.identity);
            let pulls: Vec<_> = manifest
                .files
                .iter()
                .map(|file| pull_file(&*place, &folder, file, to.join(file.name.as_str()), &shown))
                .collect();
            let pulled: Vec<Result<(), Refusal>> = stream::iter(pulls)
                .buffer_unordered(AT_A_TIME)
                .try_collect()
                .await?;
            Ok(pulled.into_iter().collect())
        })
    }
}

/// A try that was for another checkpoint may have left files that an open would take for its own, above all a log.
fn remove_others(manifest: &Manifest, folder: &Path) -> io::Result<()> {
    let own: BTreeSet<&str> = manifest
        .files
        .iter()
        .map(|file| file.name.as_str())
        .collect();
    for name in SystemFiles.list(folder)? {
        if !own.contains(name.as_str()) {
            remove(&SystemFiles, &folder.join(name))?;
        }
    }
    Ok(())
}

async fn pull_file(
    place: &dyn Place,
    folder: &StoreFolder,
    file: &ManifestFile,
    to: PathBuf,
    meter: &Meter,
) -> Result<Result<(), Refusal>, CheckpointError> {
    let local = |error: io::Error| io_error("read", &to, &error);
    if let Ok(About::File(size)) = SystemFiles.about(&to) {
        if size == file.size {
            let there = summed(&SystemFiles, &to, &Meter::default()).map_err(local)?;
            if there.sha256 == file.sha256 {
                meter.add(size);
                return Ok(Ok(()));
            }
        }
        remove(&SystemFiles, &to).map_err(local)?;
    }
    let name = file.object_name();
    let fetched = place
        .fetch(&folder.file(&name), file.size, &to, meter)
        .await?;
    let judged = match fetched {
        None => Err(Refusal::MissingFile { file: name }),
        Some(fetched) if fetched.size != file.size => Err(Refusal::WrongSize {
            file: name,
            found: fetched.size,
            expected: file.size,
        }),
        Some(fetched) if fetched.sha256 != file.sha256 => Err(Refusal::WrongContent { file: name }),
        Some(_) => Ok(()),
    };
    fault::pass(FaultPoint::InPull);
    Ok(judged)
}
