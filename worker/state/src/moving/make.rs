//! New stores, made in the folder of a move.

use std::io;
use std::path::{Path, PathBuf};

use super::build::{Move, make, remove, rename, unfinished};
use super::cut::path_of;
use super::error::MoveError;
use super::manifest::{MoveManifest, Piece};
use super::old::{OldStore, copy_store, is_own_file};
use super::origin::{Origin, first_progress};
use super::plan::{Draw, TaskPlan, Way};
use crate::error::{StateError, io as io_error};
use crate::fault::{self, FaultPoint};
use crate::files::{FileLayer, SystemFiles, exists};
use crate::journal::Life;
use crate::rows::{Header, Rows};

impl Move {
    /// Makes the store of a new task, if it is not there yet; where it lies.
    ///
    /// # Errors
    /// If an old store that it draws from was not taken, or a file cannot be read or written.
    pub fn build(&self, task: &TaskPlan) -> Result<PathBuf, MoveError> {
        let folder = self.new_folder(task);
        // One from an earlier try may be of old stores that have changed since.
        if !exists(&SystemFiles, &folder) || self.check(task, &folder).is_err() {
            remove(&folder)?;
            let unfinished = unfinished(&folder);
            remove(&unfinished)?;
            make(&unfinished)?;
            let draws = self.draws(task)?;
            match task.way() {
                Way::Clip => self.clip(task, &draws, &unfinished)?,
                Way::Merge => self.merge(task, &draws, &unfinished)?,
            }
            self.check(task, &unfinished)?;
            remove_own_files(&unfinished)
                .map_err(|error| io_error("remove from", &unfinished, &error))?;
            fault::pass(FaultPoint::BeforeMovedStore);
            rename(&unfinished, &folder)?;
        }
        Ok(folder)
    }

    fn draws<'a>(&'a self, task: &'a TaskPlan) -> Result<Vec<(&'a Draw, &'a OldStore)>, MoveError> {
        task.draws()
            .iter()
            .map(|draw| {
                let partition = draw.from();
                let old = self.olds.get(&partition);
                Ok((draw, old.ok_or(MoveError::Missing { partition })?))
            })
            .collect()
    }

    fn clip(
        &self,
        task: &TaskPlan,
        draws: &[(&Draw, &OldStore)],
        to: &Path,
    ) -> Result<(), MoveError> {
        for (draw, old) in draws {
            let rows = self.cut(draw, old, to)?;
            fault::pass(FaultPoint::InCut);
            self.finish_store(task, draws, &rows)?;
            rows.end_work();
        }
        Ok(())
    }

    /// A copy of an old store that shows only what is drawn.
    fn cut(&self, draw: &Draw, old: &OldStore, to: &Path) -> Result<Rows, MoveError> {
        copy_store(old.folder(), to)?;
        let (rows, _) = Rows::open_at_rest(to, &self.budget)?.ok_or(MoveError::NoStore {
            partition: draw.from(),
        })?;
        rows.keep_only(draw.ranges(), draw.null())?;
        Ok(rows)
    }

    fn merge(
        &self,
        task: &TaskPlan,
        draws: &[(&Draw, &OldStore)],
        to: &Path,
    ) -> Result<(), MoveError> {
        let cuts = to.with_extension("cuts");
        remove(&cuts)?;
        make(&cuts)?;
        let mut tables = Vec::new();
        for (draw, old) in draws {
            let cut = cuts.join(draw.from().get().to_string());
            let rows = self.cut(draw, old, &cut)?;
            rows.compact_whole()?;
            let of_cut = rows.tables()?;
            tables.extend(of_cut.iter().map(|table| path_of(&cut, table)));
            rows.end_work();
            fault::pass(FaultPoint::InCut);
        }
        let header = self.header(task, draws)?;
        let rows = Rows::create(to, &header, &self.budget)?;
        rows.take_in(tables)?;
        self.finish_store(task, draws, &rows)?;
        rows.end_work();
        remove(&cuts)
    }

    fn header(&self, task: &TaskPlan, draws: &[(&Draw, &OldStore)]) -> Result<Header, MoveError> {
        Ok(Header {
            identity: self.identity(task.task())?,
            life: Life(rand::random()),
            progress: first_progress(task.task(), &origins(draws)),
        })
    }

    fn finish_store(
        &self,
        task: &TaskPlan,
        draws: &[(&Draw, &OldStore)],
        rows: &Rows,
    ) -> Result<(), MoveError> {
        let pieces = draws
            .iter()
            .map(|(draw, old)| Piece {
                partition: draw.from(),
                store_epoch: old.identity().store_epoch,
                entry: old.progress().number,
                ranges: draw.ranges().to_vec(),
                null: draw.null(),
                files: old.tables_of(draw),
            })
            .collect();
        let manifest = MoveManifest {
            from: self.plan().from(),
            to: self.plan().to(),
            pieces,
        };
        let header = self.header(task, draws)?;
        Ok(rows.become_moved(&header, &manifest, &origins(draws))?)
    }

    /// Whether a new store is the one that it should be, as far as its own records say.
    pub(super) fn check(&self, task: &TaskPlan, folder: &Path) -> Result<(), MoveError> {
        let damaged = |detail: &str| StateError::Damaged {
            path: folder.to_owned(),
            detail: detail.to_owned(),
        };
        let (rows, header) = Rows::open_to_read(folder, &self.budget)?
            .ok_or_else(|| damaged("it holds no store"))?;
        let expected = self.identity(task.task())?;
        if header.identity != expected {
            return Err(MoveError::OtherMove {
                path: folder.to_owned(),
            });
        }
        let manifest = rows
            .moved()?
            .ok_or_else(|| damaged("it does not say what it was made of"))?;
        manifest
            .covers(task)
            .map_err(|uncovered| MoveError::Uncovered {
                task: task.task(),
                uncovered,
            })?;
        let draws = self.draws(task)?;
        if rows.origins()? != origins(&draws) {
            return Err(damaged("it does not say where its parts came from").into());
        }
        Ok(())
    }
}

fn origins(draws: &[(&Draw, &OldStore)]) -> Vec<Origin> {
    draws
        .iter()
        .map(|(draw, old)| Origin::new(draw.from(), old.identity().store_epoch, old.progress()))
        .collect()
}

/// Removes what this process wrote for itself: it is no part of the store, and a checkpoint of the folder would have it.
fn remove_own_files(folder: &Path) -> io::Result<()> {
    for name in SystemFiles.list(folder)? {
        if is_own_file(&name) {
            SystemFiles.remove(&folder.join(name))?;
        }
    }
    Ok(())
}
