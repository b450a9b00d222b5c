//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces `path` by `content`. After a crash either the old or the new content is there.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = folder.join(name);
    let mut file = File::create(&fresh)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    sync_folder(folder)
}

/// Makes it durable which files a folder has.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // The parent of a relative path of one part is the empty path, which is the working folder.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)?.sync_all()
}

/// Makes folders down to `folder`, durably, from `root` (which exists) on.
pub(crate) fn make_folders(root: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for made in folder.ancestors() {
        if let Some(parent) = made.parent() {
            sync_folder(parent)?;
        }
        if made == root {
            break;
        }
    }
    Ok(())
}
