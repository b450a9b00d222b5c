//! A store from its newest checkpoint, in the place of one that is lost or damaged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use turbine_protocol::journal::{RecordKind, Replay};
use turbine_protocol::{StoreEpoch, StoreIdentity, Task};

use crate::checkpoint::{Bytes, CHECKPOINTS_FOLDER, CheckpointError, Checkpointer, Restored};
use crate::error::{StateError, io as io_error};
use crate::files::{FileLayer, SystemFiles, exists, make_folders, remove_folder};
use crate::journal::{Journal, Life};
use crate::rows::{Header, Rows};
use crate::volume::StateVolume;

/// Ends the name of a folder with a checkpoint that is not yet the store. No store has such a name.
const RESTORED: &str = "restored";
/// In the name of a folder with what was found in a store's place. No store has such a name.
const DAMAGED: &str = "damaged";

/// A store that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredStore {
    /// The checkpoint, and newer ones that could not be taken.
    pub checkpoint: Restored,
    /// The journal of this volume has all entries that came after it: the store will stand where it stood.
    pub up_to_date: bool,
    /// Where that lies now which was in the store's place.
    pub moved_to: Option<PathBuf>,
}

impl StateVolume {
    /// Restores a task's store from its newest intact checkpoint. What lies in its place is moved aside, and only once the
    /// checkpoint is there whole. `None` if there is no checkpoint at all; then, and on an error, what lies there is as it
    /// was. `progress` is called from time to time, from this thread.
    ///
    /// The store goes on with the entries that this volume's journal has behind the checkpoint, if they follow it without
    /// a gap. Otherwise what it commits is a history of its own.
    ///
    /// # Errors
    /// As [`Checkpointer::restore`].
    pub fn restore_store(
        &self,
        expected: &StoreIdentity,
        checkpointer: &Checkpointer,
        progress: impl FnMut(Bytes),
    ) -> Result<Option<RestoredStore>, CheckpointError> {
        let path = self.path_of(expected);
        let fresh = sibling(&path, RESTORED);
        remove_folder(&SystemFiles, &fresh).map_err(|error| io_error("remove", &fresh, &error))?;
        let Some(checkpoint) = checkpointer.restore(expected, &fresh, progress)? else {
            return Ok(None);
        };
        // The restore makes durable what it made; a killed one before it may have made folders above.
        let above = path.parent().unwrap_or(self.root());
        make_folders(&SystemFiles, self.root(), above)
            .map_err(|error| io_error("make", above, &error))?;
        let up_to_date = self.settle(&fresh, expected)?;
        let moved_to = take_place(&SystemFiles, &fresh, &path)
            .map_err(|error| io_error("move", &path, &error))?;
        Ok(Some(RestoredStore {
            checkpoint,
            up_to_date,
            moved_to,
        }))
    }

    /// Lets a copy of a store know which records of the journal are its own; whether they go on from it.
    fn settle(&self, fresh: &Path, expected: &StoreIdentity) -> Result<bool, StateError> {
        let damaged = |detail: &str| StateError::Damaged {
            path: fresh.to_owned(),
            detail: detail.to_owned(),
        };
        let Some((
            rows,
            Header {
                identity,
                life,
                mut progress,
            },
        )) = Rows::open(fresh, &self.budget)?
        else {
            return Err(damaged("the checkpoint holds no store"));
        };
        if identity != *expected {
            return Err(damaged("the checkpoint holds another store than it says"));
        }
        let goes_on = goes_on(&*self.journal()?, life, &progress);
        // Whether it was stopped in order is known of the store that went on, not of this copy.
        progress.cleanly_stopped = false;
        let mut filling = rows.fill();
        if !goes_on {
            let life = Life(rand::random());
            filling.begin_life(life)?;
            self.journal()?.begin_life(life);
        }
        filling.finish(&progress)?;
        rows.end_work();
        Ok(goes_on)
    }

    /// Whether a store that is not there may come back: its checkpoints lie on this volume, or its folder is as a lost store
    /// leaves it, with no other store that took its place.
    pub(crate) fn may_be_restored(&self, task: &Task, epoch: StoreEpoch) -> bool {
        let path = self.store_path(task, epoch);
        let checkpoints = self
            .root()
            .join(CHECKPOINTS_FOLDER)
            .join(task.subscription.as_str())
            .join(task.partition.get().to_string())
            .join(epoch.to_string());
        checkpoints.exists()
            || path
                .parent()
                .and_then(|folder| fs::read_dir(folder).ok())
                .is_some_and(|found| {
                    let names =
                        found.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                    !names.into_iter().any(|name| name.parse::<i64>().is_ok())
                })
    }
}

/// Whether the journal has every entry that was committed behind a copy of a store, and they are of its history.
fn goes_on(journal: &Journal, life: Life, progress: &crate::Progress) -> bool {
    let number = progress.number;
    let Some(records) = journal.records_behind(life, number) else {
        return false;
    };
    let mut replay = Replay::after(number);
    let mut known = None;
    for found in &records {
        let is_entry = match found.record.kind {
            RecordKind::Entry | RecordKind::Prepared | RecordKind::Carried => true,
            RecordKind::Done | RecordKind::Cancelled => false,
        };
        if is_entry && found.record.number == number {
            known = Some(found.checksum());
        }
        if replay.take(found.record).is_err() {
            return false;
        }
    }
    // A journal that has nothing of this life is that of another volume: what it will have must not be mixed with what
    // the other one has.
    !records.is_empty() && known.is_none_or(|checksum| checksum == progress.checksum)
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

/// Puts `fresh` in the place of `path`; where that lies now which was there.
pub(crate) fn take_place(
    files: &dyn FileLayer,
    fresh: &Path,
    path: &Path,
) -> io::Result<Option<PathBuf>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut moved_to = None;
    if exists(files, path) {
        let aside = (1..=u32::MAX)
            .map(|number| sibling(path, &format!("{DAMAGED}-{number}")))
            .find(|aside| !exists(files, aside))
            .ok_or_else(|| io::Error::other("no name is left"))?;
        files.rename(path, &aside)?;
        moved_to = Some(aside);
    }
    files.rename(fresh, path)?;
    files.sync_folder(folder)?;
    Ok(moved_to)
}
