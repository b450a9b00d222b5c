//! The folder of a move: copies of old stores go in, new stores come out.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use turbine_keygroups::{Partition, PartitionCount, RawPartitionCount};
use turbine_protocol::{StoreEpoch, StoreIdentity};

use super::error::MoveError;
use super::old::{OldStore, belongs, copy_store};
use super::plan::{MovePlan, TaskPlan};
use crate::budget::StateBudget;
use crate::checkpoint::{Bytes, Checkpointer, Manifest};
use crate::error::io as io_error;
use crate::fault::{self, FaultPoint};
use crate::files::{FileLayer, SystemFiles, exists, make_folders, remove_folder, replace};
use crate::rows::Rows;
use crate::task_state::Progress;

/// What move a folder is of.
const MOVE_FILE: &str = "move.json";
/// Copies of old stores, by partition.
const OLD: &str = "old";
/// New stores, by partition.
const NEW: &str = "new";
/// Ends the name of what is not whole yet.
const UNFINISHED: &str = "unfinished";

/// What move a folder is of: what was begun for one is not taken up for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Of {
    identity: StoreIdentity,
    from: RawPartitionCount,
    to: PartitionCount,
    epoch: StoreEpoch,
}

/// A move in a folder of its own, on the volume of the new stores.
#[derive(Debug)]
pub struct Move {
    folder: PathBuf,
    plan: MovePlan,
    epoch: StoreEpoch,
    pub(super) budget: StateBudget,
    pub(super) olds: BTreeMap<Partition, OldStore>,
}

impl Move {
    /// A move in `folder`, which is made if it is not there; what an earlier try left there is taken up. New stores are of
    /// `epoch`. Nothing else may work in the folder at the same time.
    #[must_use]
    pub fn open(folder: &Path, plan: MovePlan, epoch: StoreEpoch, budget: StateBudget) -> Self {
        Self {
            folder: folder.to_owned(),
            plan,
            epoch,
            budget,
            olds: BTreeMap::new(),
        }
    }

    /// Whether a move was begun in `folder`, and not finished.
    #[must_use]
    pub fn begun_in(folder: &Path) -> bool {
        exists(&SystemFiles, &folder.join(MOVE_FILE))
    }

    /// What is moved.
    #[must_use]
    pub fn plan(&self) -> &MovePlan {
        &self.plan
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The old stores that were taken.
    #[must_use]
    pub fn olds(&self) -> &BTreeMap<Partition, OldStore> {
        &self.olds
    }

    /// Takes a copy of an old store that nobody has open. It takes the files alone: whether the journal of the volume has
    /// entries behind them is for the caller to see ([`crate::StoreReader::saved`]).
    ///
    /// # Errors
    /// If it is not one of this move, or cannot be copied.
    pub fn take_store(&mut self, partition: Partition, from: &Path) -> Result<(), MoveError> {
        let folder = self.old_folder(partition);
        let (rows, header) =
            Rows::open_to_read(from, &self.budget)?.ok_or(MoveError::NoStore { partition })?;
        if rows.is_moved()? {
            return Err(MoveError::NotSettled { partition });
        }
        drop(rows);
        self.admit(partition, &header.identity)?;
        // A copy from an earlier try is of no use if the app has run since.
        if self.reach_of(&folder) != Some(header.progress) {
            remove(&folder)?;
            let unfinished = unfinished(&folder);
            copy_store(from, &unfinished)?;
            fault::pass(FaultPoint::InPull);
            rename(&unfinished, &folder)?;
        }
        self.take(partition, None)
    }

    /// Takes a checkpoint of an old store. Files that an earlier try brought whole are not brought again. `progress` is
    /// called from time to time.
    ///
    /// # Errors
    /// [`MoveError::Piece`] names a file that is not what was written; otherwise as [`Move::take_store`].
    pub fn take_checkpoint(
        &mut self,
        partition: Partition,
        archive: &Checkpointer,
        manifest: &Manifest,
        progress: impl FnMut(Bytes),
    ) -> Result<(), MoveError> {
        self.admit(partition, &manifest.identity)?;
        let folder = self.old_folder(partition);
        let is_of = |reach: Progress| {
            (reach.number, reach.checksum) == (manifest.entry, manifest.entry_checksum)
        };
        if !self.reach_of(&folder).is_some_and(is_of) {
            remove(&folder)?;
            let unfinished = unfinished(&folder);
            archive
                .pull(manifest, &unfinished, progress)?
                .map_err(|refusal| MoveError::Piece { partition, refusal })?;
            rename(&unfinished, &folder)?;
        }
        self.take(partition, Some(manifest))
    }

    /// How far the copy of an old store reaches, if there is one that can be read.
    fn reach_of(&self, folder: &Path) -> Option<Progress> {
        let (_, header) = Rows::open_to_read(folder, &self.budget).ok()??;
        Some(header.progress)
    }

    fn take(&mut self, partition: Partition, manifest: Option<&Manifest>) -> Result<(), MoveError> {
        let folder = self.old_folder(partition);
        let old = OldStore::open(&folder, partition, &self.plan, manifest, &self.budget)?;
        self.olds.insert(partition, old);
        Ok(())
    }

    /// Whether a store is one of this move, and the folder is this move's. Before anything is written.
    fn admit(&self, partition: Partition, identity: &StoreIdentity) -> Result<(), MoveError> {
        let first = self
            .olds
            .values()
            .next()
            .map_or(identity, OldStore::identity);
        belongs(identity, partition, first, self.plan.from())?;
        self.claim(first)
    }

    /// Says in the folder of which move it is, or finds that it is of another.
    fn claim(&self, identity: &StoreIdentity) -> Result<(), MoveError> {
        let of = Of {
            identity: identity.moved(
                // Of all tasks of the move.
                Partition::all(self.plan.to())
                    .next()
                    .unwrap_or(identity.partition),
                self.epoch,
                self.plan.to().into(),
            ),
            from: self.plan.from(),
            to: self.plan.to(),
            epoch: self.epoch,
        };
        let path = self.folder.join(MOVE_FILE);
        match fs::read(&path) {
            Ok(stored) => {
                if serde_json::from_slice::<Of>(&stored).is_ok_and(|found| found == of) {
                    Ok(())
                } else {
                    Err(MoveError::OtherMove {
                        path: self.folder.clone(),
                    })
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let write = || -> io::Result<()> {
                    let text = serde_json::to_vec_pretty(&of)?;
                    fs::create_dir_all(&self.folder)?;
                    replace(&SystemFiles, &path, &text)
                };
                Ok(write().map_err(|error| io_error("write", &path, &error))?)
            }
            Err(error) => Err(io_error("read", &path, &error).into()),
        }
    }

    /// Where the copy of an old store lies.
    pub(super) fn old_folder(&self, partition: Partition) -> PathBuf {
        self.folder.join(OLD).join(partition.get().to_string())
    }

    /// Where the store of a new task is made.
    pub(super) fn new_folder(&self, task: &TaskPlan) -> PathBuf {
        self.folder.join(NEW).join(task.task().get().to_string())
    }

    /// The identity of a new store.
    ///
    /// # Errors
    /// If no old store was taken, whose app it would be of.
    pub fn identity(&self, task: Partition) -> Result<StoreIdentity, MoveError> {
        let any = self
            .olds
            .values()
            .next()
            .ok_or(MoveError::Missing { partition: task })?;
        Ok(any
            .identity()
            .moved(task, self.epoch, self.plan.to().into()))
    }

    /// Gives a new store its place, on the same volume. One that has it already keeps it.
    ///
    /// # Errors
    /// If something else lies there, or it cannot be renamed.
    pub fn place(&self, task: &TaskPlan, place: &Path) -> Result<(), MoveError> {
        let folder = self.new_folder(task);
        if exists(&SystemFiles, place) {
            self.check(task, place)?;
        } else {
            let root = self.folder.parent().unwrap_or(Path::new("."));
            let above = place.parent().unwrap_or(root);
            make_folders(&SystemFiles, root, above)
                .map_err(|error| io_error("make", above, &error))?;
            rename(&folder, place)?;
        }
        fault::pass(FaultPoint::AfterMovedStore);
        Ok(())
    }

    /// Removes the folder of the move with all that is in it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn finish(self) -> Result<(), MoveError> {
        remove(&self.folder)
    }
}

pub(super) fn unfinished(folder: &Path) -> PathBuf {
    folder.with_extension(UNFINISHED)
}

pub(super) fn make(folder: &Path) -> Result<(), MoveError> {
    Ok(fs::create_dir_all(folder).map_err(|error| io_error("make", folder, &error))?)
}

pub(super) fn remove(folder: &Path) -> Result<(), MoveError> {
    Ok(remove_folder(&SystemFiles, folder).map_err(|error| io_error("remove", folder, &error))?)
}

/// Gives a folder that is whole its name. All that is in it is durable before, and the name after.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), MoveError> {
    let above = |path: &Path| path.parent().unwrap_or(Path::new(".")).to_owned();
    let work = || -> io::Result<()> {
        SystemFiles.sync_folder(from)?;
        SystemFiles.rename(from, to)?;
        SystemFiles.sync_folder(&above(from))?;
        SystemFiles.sync_folder(&above(to))
    };
    Ok(work().map_err(|error| io_error("rename", from, &error))?)
}
