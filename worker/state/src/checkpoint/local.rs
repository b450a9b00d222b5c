//! Checkpoints in a folder of this machine: on the stores' own volume as links to their files where that can be, else as copies.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use turbine_protocol::AppId;

use super::error::CheckpointError;
use super::manifest::{Checksum, is_table};
use super::place::{Fetched, Meter, Place};
use crate::error::io;
use crate::files::{make_folders, replace, sync_folder};

/// Ends the names of files that are being written. No manifest and no file of a store has such a name.
const UNFINISHED: &str = ".new";
const PIECE: usize = 1 << 20;

/// A folder with checkpoints. Its calls block: it is used from threads that are there for it.
#[derive(Debug)]
pub(crate) struct LocalFolder {
    root: PathBuf,
    /// The folder of another volume, which is never made here: if its mount is missing, what would be made in its place is
    /// not that volume, and what is not in it may well be there.
    other_volume: Option<PathBuf>,
}

impl LocalFolder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            other_volume: None,
        }
    }

    /// The checkpoints of an app in a folder of another volume.
    pub(crate) fn elsewhere(folder: &Path, app: &AppId) -> Self {
        Self {
            root: folder.join(app.as_str()),
            other_volume: Some(folder.to_owned()),
        }
    }

    /// A copy that shares its bytes with the store is none on another volume.
    fn links(&self) -> bool {
        self.other_volume.is_none()
    }

    fn there(&self) -> Result<(), CheckpointError> {
        match &self.other_volume {
            Some(folder) if !folder.is_dir() => Err(CheckpointError::NoFolder {
                place: folder.display().to_string(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    fn in_folder<T>(
        &self,
        what: &'static str,
        path: &Path,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, CheckpointError> {
        self.there()?;
        let made = || -> io::Result<T> {
            let folder = path.parent().unwrap_or(&self.root);
            if !folder.is_dir() {
                fs::create_dir_all(&self.root)?;
                make_folders(&self.root, folder)?;
            }
            work()
        };
        made().map_err(|error| io(what, path, &error).into())
    }
}

#[async_trait]
impl Place for LocalFolder {
    async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, CheckpointError> {
        self.there()?;
        let folder = self.root.join(folder);
        let read = || -> io::Result<Vec<(String, u64)>> {
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries?,
            };
            let mut found = Vec::new();
            for entry in entries {
                let entry = entry?;
                let about = match entry.metadata() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    about => about?,
                };
                if about.is_file()
                    && let Ok(name) = entry.file_name().into_string()
                {
                    found.push((name, about.len()));
                }
            }
            Ok(found)
        };
        read().map_err(|error| io("read", &folder, &error).into())
    }

    async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        self.there()?;
        let path = self.root.join(path);
        match fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io("read", &path, &error).into()),
        }
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<(), CheckpointError> {
        let path = self.root.join(path);
        self.in_folder("write", &path, || replace(&path, content))
    }

    async fn put(&self, path: &str, from: &Path, meter: &Meter) -> Result<(), CheckpointError> {
        let path = self.root.join(path);
        self.in_folder("write", &path, || {
            // What is linked must be durable before a manifest names it.
            File::open(from)?.sync_all()?;
            let unfinished = unfinished(&path);
            remove(&unfinished)?;
            if !self.links() || fs::hard_link(from, &unfinished).is_err() {
                copy(from, &unfinished)?;
            }
            // Replaces what a broken disk may have left under the name.
            fs::rename(&unfinished, &path)?;
            // Two names of one file are not renamed over each other: the first name stays.
            remove(&unfinished)?;
            meter.add(fs::metadata(&path)?.len());
            Ok(())
        })
    }

    async fn settle(&self, folder: &str) -> Result<(), CheckpointError> {
        let folder = self.root.join(folder);
        if folder.is_dir() {
            sync_folder(&folder).map_err(|error| io("write", &folder, &error))?;
        }
        Ok(())
    }

    async fn fetch(
        &self,
        path: &str,
        _size: u64,
        to: &Path,
        meter: &Meter,
    ) -> Result<Option<Fetched>, CheckpointError> {
        self.there()?;
        let path = self.root.join(path);
        let work = || -> io::Result<Fetched> {
            let linked = self.links() && is_table(to) && fs::hard_link(&path, to).is_ok();
            if !linked {
                copy(&path, to)?;
            }
            summed(to, meter)
        };
        match work() {
            Ok(fetched) => Ok(Some(fetched)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => Ok(None),
            Err(error) => Err(io("read", &path, &error).into()),
        }
    }

    async fn remove(&self, folder: &str, names: &[String]) -> Result<(), CheckpointError> {
        self.there()?;
        let folder = self.root.join(folder);
        let work = || -> io::Result<()> {
            for name in names {
                remove(&folder.join(name))?;
            }
            if folder.is_dir() {
                sync_folder(&folder)?;
            }
            Ok(())
        };
        work().map_err(|error| io("remove from", &folder, &error).into())
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(UNFINISHED);
    path.with_file_name(name)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = File::create(to)?;
    io::copy(&mut from, &mut to)?;
    to.flush()?;
    to.sync_all()
}

/// Reads a file through for its checksum.
pub(crate) fn summed(path: &Path, meter: &Meter) -> io::Result<Fetched> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut size = 0;
    loop {
        let read = match file.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(piece.get(..read).unwrap_or_default());
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        meter.add(read);
        size += read;
    }
    Ok(Fetched {
        size,
        sha256: Checksum::finish(hasher),
    })
}
