//! Files: what the journal and the manifests ask of a file system, and files that are there whole
//! or not at all.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(test)]
pub(crate) mod forgetful;

/// A file system as far as durability depends on it. A second one, in tests, forgets at a power
/// loss what was not synced: killing a process cannot show that, as the kernel keeps its pages.
pub(crate) trait FileLayer: Debug + Send + Sync {
    /// A new file; an error if it is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn LayerFile>>;

    /// A file to append to.
    fn open(&self, path: &Path) -> io::Result<Box<dyn LayerFile>>;

    /// All of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Exactly these bytes of a file.
    fn read_at(&self, path: &Path, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// The names of a folder's files.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// What lies under a name.
    fn about(&self, path: &Path) -> io::Result<About>;

    /// A file to read through.
    fn reader(&self, path: &Path) -> io::Result<Box<dyn Read>>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// A second name for a file.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Another name in the same folder, for a file or a folder. A file of that name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// A folder and those above it, as far as they are not there.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes a folder with all that is in it.
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// Makes the bytes of a file durable, whoever wrote them.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Makes it durable which files a folder has.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// What lies under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// A file of this many bytes.
    File(u64),
    /// A folder, or what else is no file.
    Folder,
}

/// A file that is appended to.
pub(crate) trait LayerFile: Debug + Send + Sync {
    /// Writes at the end; on an error a part may be written.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes durable what was appended before the call.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file.
    fn truncate(&self, length: u64) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Debug)]
pub(crate) struct SystemFiles;

impl FileLayer for SystemFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LayerFile>> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LayerFile>> {
        Ok(Box::new(OpenOptions::new().append(true).open(path)?))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, path: &Path, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        File::open(path)?.read_exact_at(bytes, offset)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name().to_str().map(str::to_owned)))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(names.into_iter().flatten().collect())
    }

    fn about(&self, path: &Path) -> io::Result<About> {
        let about = fs::metadata(path)?;
        Ok(if about.is_file() {
            About::File(about.len())
        } else {
            About::Folder
        })
    }

    fn reader(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir_all(folder)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // The parent of a relative path of one part is the empty path, which is the working folder.
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        File::open(folder)?.sync_all()
    }
}

impl LayerFile for File {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// Replaces `path` by `content`. After a crash either the old or the new content is there.
pub(crate) fn replace(files: &dyn FileLayer, path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = folder.join(name);
    remove(files, &fresh)?;
    let file = files.create(&fresh)?;
    file.append(content)?;
    file.sync()?;
    files.rename(&fresh, path)?;
    files.sync_folder(folder)
}

/// Removes a file; that none is there is as good.
pub(crate) fn remove(files: &dyn FileLayer, path: &Path) -> io::Result<()> {
    unless_missing(files.remove(path))
}

/// Removes a folder with all that is in it; that none is there is as good.
pub(crate) fn remove_folder(files: &dyn FileLayer, folder: &Path) -> io::Result<()> {
    unless_missing(files.remove_folder(folder))
}

fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether anything has this name, as far as it can be told.
pub(crate) fn exists(files: &dyn FileLayer, path: &Path) -> bool {
    files.about(path).is_ok()
}

/// Makes folders down to `folder`, durably, from `root` on. Those that are there are synced as well:
/// a killed process may have left them in the kernel's hands.
pub(crate) fn make_folders(files: &dyn FileLayer, root: &Path, folder: &Path) -> io::Result<()> {
    files.make_folder(folder)?;
    for made in folder.ancestors() {
        if let Some(parent) = made.parent() {
            files.sync_folder(parent)?;
        }
        if made == root {
            break;
        }
    }
    Ok(())
}
