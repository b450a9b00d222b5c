//! A file system that forgets at a power loss what was not synced.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use rand::Rng as _;
use rand::rngs::StdRng;

use super::{About, FileLayer, LayerFile};

/// Files whose bytes and names are lost at a power loss unless they were synced. Of what was not
/// synced, any part may have reached the disk all the same; a rename reaches it whole or not.
///
/// A file of the real file system can be linked or copied in; its bytes are not durable by that.
#[derive(Debug, Clone)]
pub(crate) struct ForgetfulFiles(Arc<Mutex<Disk>>);

#[derive(Debug, Default)]
pub(crate) struct Disk {
    folders: Vec<Folder>,
    pub(crate) contents: Vec<Content>,
    outside: HashMap<PathBuf, usize>,
    pub(crate) fail_syncs: bool,
    pub(crate) room: Option<usize>,
    /// Acts on files that are left before the process ends, which does nothing from then on.
    pub(crate) acts: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    Folder(usize),
}

/// What processes see, what a power loss leaves, and what lies between the two.
#[derive(Debug, Default)]
struct Folder {
    names: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Put(String, Node),
    Remove(String),
    Rename(String, String, Node),
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Debug)]
struct ForgetfulFile(Arc<Mutex<Disk>>, usize);

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn apply(names: &mut BTreeMap<String, Node>, change: &Change) {
    match change.clone() {
        Change::Put(name, node) => {
            names.insert(name, node);
        }
        Change::Remove(name) => {
            names.remove(&name);
        }
        Change::Rename(from, to, node) => {
            names.remove(&from);
            names.insert(to, node);
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

impl Content {
    fn lose_power(&mut self, random: &mut StdRng) {
        let mut left = self.durable.clone();
        if self.bytes.len() < left.len() {
            // A cut that was not synced.
            if random.random_bool(0.5) {
                left.truncate(self.bytes.len());
            }
        } else {
            // Pages of 7 bytes reach the disk in any order, up to where the length says.
            let kept = random.random_range(left.len()..=self.bytes.len());
            for at in (left.len()..kept).step_by(7) {
                let end = (at + 7).min(kept);
                let page = if random.random_bool(0.6) {
                    self.bytes[at..end].to_vec()
                } else {
                    vec![0; end - at]
                };
                left.extend_from_slice(&page);
            }
        }
        self.bytes.clone_from(&left);
        self.durable = left;
    }
}

impl Disk {
    /// Counts an act that changes something.
    fn act(&mut self) -> io::Result<()> {
        match &mut self.acts {
            Some(0) => Err(io::Error::other("the process has ended")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn node(&self, path: &Path) -> io::Result<Node> {
        let mut node = Node::Folder(0);
        for name in path.iter().skip(1) {
            let Node::Folder(folder) = node else {
                return Err(missing());
            };
            let names = &self.folders[folder].names;
            node = *names.get(name.to_str().unwrap()).ok_or_else(missing)?;
        }
        Ok(node)
    }

    fn folder(&self, path: &Path) -> io::Result<usize> {
        match self.node(path)? {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn file(&mut self, path: &Path) -> io::Result<usize> {
        match self.node(path) {
            Ok(Node::File(file)) => return Ok(file),
            Ok(Node::Folder(_)) => return Err(io::ErrorKind::IsADirectory.into()),
            Err(_) => {}
        }
        if let Some(known) = self.outside.get(path) {
            return Ok(*known);
        }
        let bytes = std::fs::read(path)?;
        let durable = Vec::new();
        self.contents.push(Content { bytes, durable });
        self.outside
            .insert(path.to_owned(), self.contents.len() - 1);
        Ok(self.contents.len() - 1)
    }

    fn change(&mut self, folder: usize, change: Change) {
        let folder = &mut self.folders[folder];
        apply(&mut folder.names, &change);
        folder.unsynced.push(change);
    }

    fn put(&mut self, path: &Path, node: Node) -> io::Result<()> {
        let folder = self.folder(path.parent().unwrap())?;
        self.change(folder, Change::Put(name_of(path), node));
        Ok(())
    }
}

impl ForgetfulFiles {
    /// An empty disk with one folder.
    pub(crate) fn with(folder: &str) -> Self {
        let files = Self(Arc::default());
        files.disk().folders.push(Folder::default());
        files.make_folder(Path::new(folder)).unwrap();
        for folder in &mut files.disk().folders {
            folder.durable.clone_from(&folder.names);
            folder.unsynced.clear();
        }
        files
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    /// The power goes: what was not synced is gone, or partly there.
    pub(crate) fn lose_power(&self, random: &mut StdRng) {
        let mut disk = self.disk();
        disk.outside.clear();
        for folder in &mut disk.folders {
            for change in std::mem::take(&mut folder.unsynced) {
                if random.random_bool(0.5) {
                    apply(&mut folder.durable, &change);
                }
            }
            folder.names.clone_from(&folder.durable);
        }
        for content in &mut disk.contents {
            content.lose_power(random);
        }
    }
}

impl FileLayer for ForgetfulFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LayerFile>> {
        let mut disk = self.disk();
        disk.act()?;
        if disk.node(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.contents.push(Content::default());
        let id = disk.contents.len() - 1;
        disk.put(path, Node::File(id))?;
        Ok(Box::new(ForgetfulFile(Arc::clone(&self.0), id)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LayerFile>> {
        let id = self.disk().file(path)?;
        Ok(Box::new(ForgetfulFile(Arc::clone(&self.0), id)))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut disk = self.disk();
        let id = disk.file(path)?;
        Ok(disk.contents[id].bytes.clone())
    }

    fn read_at(&self, path: &Path, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let all = self.read(path)?;
        let offset = usize::try_from(offset).unwrap();
        bytes.copy_from_slice(all.get(offset..offset + bytes.len()).ok_or_else(missing)?);
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let disk = self.disk();
        let folder = disk.folder(folder)?;
        Ok(disk.folders[folder].names.keys().cloned().collect())
    }

    fn about(&self, path: &Path) -> io::Result<About> {
        let disk = self.disk();
        Ok(match disk.node(path)? {
            Node::File(id) => About::File(disk.contents[id].bytes.len() as u64),
            Node::Folder(_) => About::Folder,
        })
    }

    fn reader(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(Cursor::new(self.read(path)?)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.act()?;
        disk.node(path)?;
        let folder = disk.folder(path.parent().unwrap())?;
        disk.change(folder, Change::Remove(name_of(path)));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.act()?;
        if disk.node(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = disk.file(from)?;
        disk.put(to, Node::File(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.act()?;
        if from.parent() != to.parent() {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let node = disk.node(from)?;
        let there = disk.node(to).ok();
        if there == Some(node) {
            return Ok(());
        }
        if let Some(Node::Folder(there)) = there
            && !disk.folders[there].names.is_empty()
        {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let folder = disk.folder(from.parent().unwrap())?;
        disk.change(folder, Change::Rename(name_of(from), name_of(to), node));
        Ok(())
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        let mut above: Vec<&Path> = folder.ancestors().collect();
        above.reverse();
        for folder in above {
            if disk.node(folder).is_err() {
                disk.act()?;
                disk.folders.push(Folder::default());
                let made = Node::Folder(disk.folders.len() - 1);
                disk.put(folder, made)?;
            }
        }
        Ok(())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        let id = self.disk().folder(folder)?;
        for name in self.list(folder)? {
            let below = folder.join(name);
            match self.about(&below)? {
                About::File(_) => self.remove(&below)?,
                About::Folder => self.remove_folder(&below)?,
            }
        }
        debug_assert!(self.disk().folders[id].names.is_empty());
        self.remove(folder)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.open(path)?.sync()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.act()?;
        let folder = disk.folder(folder)?;
        let Folder {
            names,
            durable,
            unsynced,
        } = &mut disk.folders[folder];
        durable.clone_from(names);
        unsynced.clear();
        Ok(())
    }
}

impl LayerFile for ForgetfulFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.act()?;
        let room = disk.room.unwrap_or(usize::MAX);
        let taken = bytes.len().min(room);
        disk.room = disk.room.map(|room| room - taken);
        disk.contents[self.1]
            .bytes
            .extend_from_slice(&bytes[..taken]);
        if taken < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.act()?;
        if disk.fail_syncs {
            return Err(io::Error::other("the disk is gone"));
        }
        let content = &mut disk.contents[self.1];
        content.durable.clone_from(&content.bytes);
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        let length = usize::try_from(length).unwrap();
        disk.contents[self.1].bytes.truncate(length);
        Ok(())
    }
}
