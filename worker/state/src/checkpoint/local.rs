//! Checkpoints in a folder of this machine: on the stores' own volume as links to their files where that can be, else as copies.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use turbine_protocol::AppId;

use super::error::CheckpointError;
use super::manifest::{Checksum, is_table};
use super::place::{Fetched, Meter, Place};
use crate::error::io;
use crate::files::{About, FileLayer, SystemFiles, exists, make_folders, remove, replace};

/// Ends the names of files that are being written. No manifest and no file of a store has such a name.
const UNFINISHED: &str = ".new";
const PIECE: usize = 1 << 20;

/// A folder with checkpoints. Its calls block: it is used from threads that are there for it.
#[derive(Debug)]
pub(crate) struct LocalFolder {
    root: PathBuf,
    files: Arc<dyn FileLayer>,
    /// Folders that are known to be durable. That one is there does not say it: whoever made it may have been killed
    /// before it was synced.
    durable: Mutex<BTreeSet<PathBuf>>,
    /// The folder of another volume, which is never made here: if its mount is missing, what would be made in its place is
    /// not that volume, and what is not in it may well be there.
    other_volume: Option<PathBuf>,
}

impl LocalFolder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self::over(root, Arc::new(SystemFiles))
    }

    pub(crate) fn over(root: PathBuf, files: Arc<dyn FileLayer>) -> Self {
        Self {
            root,
            files,
            durable: Mutex::default(),
            other_volume: None,
        }
    }

    /// The checkpoints of an app in a folder of another volume.
    pub(crate) fn elsewhere(folder: &Path, app: &AppId) -> Self {
        Self {
            other_volume: Some(folder.to_owned()),
            ..Self::new(folder.join(app.as_str()))
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
        work: impl FnOnce(&dyn FileLayer) -> io::Result<T>,
    ) -> Result<T, CheckpointError> {
        self.there()?;
        let made = || -> io::Result<T> {
            let folder = path.parent().unwrap_or(&self.root);
            let durable = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
            let known = durable().contains(folder);
            if !known || !exists(&*self.files, folder) {
                make_folders(&*self.files, &self.root, folder)?;
                durable().insert(folder.to_owned());
            }
            work(&*self.files)
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
            let names = match self.files.list(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                names => names?,
            };
            let mut found = Vec::new();
            for name in names {
                match self.files.about(&folder.join(&name)) {
                    // It went meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                    Ok(About::File(length)) => found.push((name, length)),
                    Ok(About::Folder) => {}
                }
            }
            Ok(found)
        };
        read().map_err(|error| io("read", &folder, &error).into())
    }

    async fn folders(&self, folder: &str) -> Result<Vec<String>, CheckpointError> {
        self.there()?;
        let folder = self.root.join(folder);
        let names = match self.files.list(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.map_err(|error| io("read", &folder, &error))?,
        };
        let is_folder = |name: &String| {
            let about = self.files.about(&folder.join(name));
            about.is_ok_and(|about| about == About::Folder)
        };
        Ok(names.into_iter().filter(is_folder).collect())
    }

    async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        self.there()?;
        let path = self.root.join(path);
        match self.files.read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io("read", &path, &error).into()),
        }
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<(), CheckpointError> {
        let path = self.root.join(path);
        self.in_folder("write", &path, |files| replace(files, &path, content))
    }

    async fn put(&self, path: &str, from: &Path, meter: &Meter) -> Result<(), CheckpointError> {
        let path = self.root.join(path);
        self.in_folder("write", &path, |files| {
            // What is linked must be durable before a manifest names it.
            files.sync_file(from)?;
            let unfinished = unfinished(&path);
            remove(files, &unfinished)?;
            if !self.links() || files.hard_link(from, &unfinished).is_err() {
                copy(files, from, &unfinished)?;
            }
            // Replaces what a broken disk may have left under the name.
            files.rename(&unfinished, &path)?;
            // Two names of one file are not renamed over each other: the first name stays.
            remove(files, &unfinished)?;
            if let About::File(length) = files.about(&path)? {
                meter.add(length);
            }
            Ok(())
        })
    }

    async fn settle(&self, folder: &str) -> Result<(), CheckpointError> {
        let folder = self.root.join(folder);
        if exists(&*self.files, &folder) {
            self.files
                .sync_folder(&folder)
                .map_err(|error| io("write", &folder, &error))?;
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
            let files = &*self.files;
            let linked = self.links() && is_table(to) && files.hard_link(&path, to).is_ok();
            if !linked {
                copy(files, &path, to)?;
            }
            summed(files, to, meter)
        };
        match work() {
            Ok(fetched) => Ok(Some(fetched)),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && !exists(&*self.files, &path) =>
            {
                Ok(None)
            }
            Err(error) => Err(io("read", &path, &error).into()),
        }
    }

    async fn remove(&self, folder: &str, names: &[String]) -> Result<(), CheckpointError> {
        self.there()?;
        let folder = self.root.join(folder);
        let work = || -> io::Result<()> {
            let files = &*self.files;
            for name in names {
                remove(files, &folder.join(name))?;
            }
            if exists(files, &folder) {
                files.sync_folder(&folder)?;
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

pub(crate) fn copy(files: &dyn FileLayer, from: &Path, to: &Path) -> io::Result<()> {
    remove(files, to)?;
    let copied = files.create(to)?;
    pieces(files, from, |piece| copied.append(piece))?;
    copied.sync()
}

fn pieces(
    files: &dyn FileLayer,
    path: &Path,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = files.reader(path)?;
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => take(piece.get(..read).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads a file through for its checksum.
pub(crate) fn summed(files: &dyn FileLayer, path: &Path, meter: &Meter) -> io::Result<Fetched> {
    let mut hasher = Sha256::new();
    let mut size = 0;
    pieces(files, path, |piece| {
        hasher.update(piece);
        let read = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        meter.add(read);
        size += read;
        Ok(())
    })?;
    Ok(Fetched {
        size,
        sha256: Checksum::finish(hasher),
    })
}
