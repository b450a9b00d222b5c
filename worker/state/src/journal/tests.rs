//! The journal on a file system that forgets what was not synced.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use turbine_protocol::journal::RecordKind;
use turbine_protocol::{Entry, Frontier};

use super::*;

/// Files whose bytes and names are lost at a power loss unless they were synced. Of what was not
/// synced, any part may have reached the disk all the same.
#[derive(Debug, Clone, Default)]
struct ForgetfulFiles(Arc<Mutex<Disk>>);

#[derive(Debug, Default)]
struct Disk {
    /// By path: what processes see.
    names: BTreeMap<PathBuf, usize>,
    /// By path: what a power loss leaves.
    durable_names: BTreeMap<PathBuf, usize>,
    contents: Vec<Content>,
    fail_syncs: bool,
    room: Option<usize>,
}

#[derive(Debug, Default, Clone)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Debug)]
struct ForgetfulFile(Arc<Mutex<Disk>>, usize);

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl ForgetfulFiles {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    /// The power goes: what was not synced is gone, or partly there.
    fn lose_power(&self, random: &mut StdRng) {
        let mut disk = self.disk();
        let Disk {
            names,
            durable_names,
            contents,
            ..
        } = &mut *disk;
        // A name that was not synced may have reached the disk, and one that was removed may not.
        let all: Vec<PathBuf> = names.keys().chain(durable_names.keys()).cloned().collect();
        for path in all {
            if names.get(&path) != durable_names.get(&path) && random.random_bool(0.5) {
                match names.get(&path) {
                    Some(content) => durable_names.insert(path, *content),
                    None => durable_names.remove(&path),
                };
            }
        }
        names.clone_from(durable_names);
        for content in contents {
            let mut left = content.durable.clone();
            if content.bytes.len() < left.len() {
                // A cut that was not synced.
                if random.random_bool(0.5) {
                    left.truncate(content.bytes.len());
                }
            } else {
                // Pages of 7 bytes reach the disk in any order, up to where the length says.
                let kept = random.random_range(left.len()..=content.bytes.len());
                for at in (left.len()..kept).step_by(7) {
                    let end = (at + 7).min(kept);
                    let page = if random.random_bool(0.6) {
                        content.bytes[at..end].to_vec()
                    } else {
                        vec![0; end - at]
                    };
                    left.extend_from_slice(&page);
                }
            }
            content.bytes.clone_from(&left);
            content.durable = left;
        }
    }
}

impl FileLayer for ForgetfulFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LayerFile>> {
        let mut disk = self.disk();
        if disk.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.contents.push(Content::default());
        let id = disk.contents.len() - 1;
        disk.names.insert(path.to_owned(), id);
        Ok(Box::new(ForgetfulFile(Arc::clone(&self.0), id)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LayerFile>> {
        let id = *self.disk().names.get(path).ok_or_else(missing)?;
        Ok(Box::new(ForgetfulFile(Arc::clone(&self.0), id)))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let disk = self.disk();
        let id = *disk.names.get(path).ok_or_else(missing)?;
        Ok(disk.contents[id].bytes.clone())
    }

    fn read_at(&self, path: &Path, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let all = self.read(path)?;
        let offset = usize::try_from(offset).unwrap();
        bytes.copy_from_slice(all.get(offset..offset + bytes.len()).ok_or_else(missing)?);
        Ok(())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        let disk = self.disk();
        let names = disk.names.keys();
        Ok(names
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk().names.remove(path).map(drop).ok_or_else(missing)
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.durable_names = disk.names.clone();
        Ok(())
    }
}

impl LayerFile for ForgetfulFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
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

const SMALL: JournalLimits = JournalLimits {
    segment: 600,
    all: 2_000,
};

fn open(files: &ForgetfulFiles) -> Result<Journal, StateError> {
    Journal::recover(
        PathBuf::from("/journal"),
        Box::new(files.clone()),
        SMALL,
        None,
    )
}

fn task(partition: i32) -> Task {
    Task {
        subscription: "s".parse().unwrap(),
        partition: partition.try_into().unwrap(),
    }
}

fn number(n: i64) -> EntryNumber {
    n.try_into().unwrap()
}

fn epoch() -> StoreEpoch {
    1.try_into().unwrap()
}

fn append(journal: &Journal, life: u64, n: i64, clocks: &[u8]) -> Result<Place, StateError> {
    let mut draft = Draft::default();
    let task = task(i32::try_from(life).unwrap());
    let entry = Entry {
        task: &task,
        store_epoch: epoch(),
        number: number(n),
        positions: &[],
        frontier: Frontier(None),
        clocks,
        changes: &[],
    };
    let checksum = entry.encode(draft.clear()).unwrap();
    let record = Record {
        kind: RecordKind::Entry,
        number: number(n),
    };
    let owner = Some((task.clone(), epoch()));
    journal.append(Life(life), owner, record, checksum.0, &mut draft)
}

/// Number and clocks of each entry of a life.
fn entries(journal: &Journal, life: u64) -> Vec<(i64, Vec<u8>)> {
    let records = journal.records(Life(life)).unwrap();
    records
        .iter()
        .map(|record| {
            let stored = journal.read(record).unwrap();
            let entry = StoredEntry::decode(&stored).unwrap();
            (entry.number.get(), entry.clocks.to_vec())
        })
        .collect()
}

/// One task as the test knows it.
#[derive(Debug, Default)]
struct Known {
    /// All entries given to the journal in the present life of the process, by number.
    given: BTreeMap<i64, Vec<u8>>,
    acknowledged: i64,
    released: i64,
}

#[test]
fn a_power_loss_takes_nothing_that_was_acknowledged_and_leaves_no_hole() {
    let seed = std::env::var("TURBINE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random::<u64>);
    println!("TURBINE_SEED={seed}");
    let rounds = std::env::var("TURBINE_POWER_LOSSES")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(2_000);
    let mut random = StdRng::seed_from_u64(seed);
    let files = ForgetfulFiles::default();
    let mut known: BTreeMap<u64, Known> = (0..3).map(|life| (life, Known::default())).collect();
    for round in 0..rounds {
        let journal = open(&files).unwrap();
        for (life, known) in &mut known {
            let found = entries(&journal, *life);
            let last = found.last().map_or(known.released, |(n, _)| *n);
            assert!(
                last >= known.acknowledged,
                "round {round}: entry {} of {life} was acknowledged, the last one is {last}",
                known.acknowledged
            );
            let from = found.first().map_or(known.released + 1, |(n, _)| *n);
            assert!(
                from <= known.released + 1,
                "round {round}: a hole before {from}"
            );
            for (at, (n, clocks)) in (from..).zip(&found) {
                assert_eq!(at, *n, "round {round}: a hole");
                assert_eq!(known.given.get(n), Some(clocks), "round {round}");
            }
            // What was read counts from now on, and must have been made durable.
            known.acknowledged = known.acknowledged.max(last);
            known.given.retain(|n, _| *n <= last);
            // As a store does when it is opened: what it has absorbed is not in the journal's own files.
            journal
                .release(Life(*life), number(known.released))
                .unwrap();
        }
        for _ in 0..random.random_range(0..12) {
            let life = random.random_range(0..3);
            let known = known.get_mut(&life).unwrap();
            let last = known
                .given
                .keys()
                .next_back()
                .copied()
                .unwrap_or(0)
                .max(known.acknowledged);
            let clocks = vec![random.random::<u8>(); random.random_range(0..90)];
            let place = append(&journal, life, last + 1, &clocks).unwrap();
            known.given.insert(last + 1, clocks);
            if random.random_bool(0.4) {
                journal.sync(place).unwrap();
                known.acknowledged = last + 1;
            }
            if random.random_bool(0.2) {
                known.released = known.acknowledged;
                journal.release(Life(life), number(known.released)).unwrap();
            }
        }
        drop(journal);
        if random.random_bool(0.8) {
            files.lose_power(&mut random);
        }
    }
    let left = files.list(Path::new("/journal")).unwrap().len();
    assert!(left < 40, "{left} segments are left");
}

#[test]
fn segments_go_when_every_store_in_them_has_absorbed_them() {
    let files = ForgetfulFiles::default();
    let journal = open(&files).unwrap();
    append(&journal, 1, 1, b"slow").unwrap();
    for n in 1..40 {
        append(&journal, 0, n, &[7; 40]).unwrap();
    }
    let segments = || files.list(Path::new("/journal")).unwrap().len();
    let all = segments();
    assert!(all > 4 && journal.bytes() > SMALL.all);
    assert!(journal.wants_saved(Life(0)) && journal.wants_saved(Life(1)));
    journal.release(Life(0), number(39)).unwrap();
    assert_eq!(
        segments(),
        all,
        "the first segment waits for the other store"
    );
    assert!(!journal.wants_saved(Life(0)) && journal.wants_saved(Life(1)));
    journal.release(Life(1), number(1)).unwrap();
    assert_eq!(segments(), 1);
    assert!(!journal.wants_saved(Life(1)));
}

#[test]
fn stores_that_are_gone_keep_no_segment() {
    let files = ForgetfulFiles::default();
    let journal = open(&files).unwrap();
    append(&journal, 1, 1, b"").unwrap();
    for n in 1..40 {
        append(&journal, 0, n, &[7; 40]).unwrap();
    }
    journal.release(Life(0), number(39)).unwrap();
    drop(journal);
    let journal = open(&files).unwrap();
    journal.forget(|_, owner, _| *owner == task(1)).unwrap();
    journal.release(Life(0), number(39)).unwrap();
    assert_eq!(files.list(Path::new("/journal")).unwrap().len(), 1);
}

#[test]
fn damage_concerns_the_stores_whose_entries_may_have_been_there() {
    let files = ForgetfulFiles::default();
    let journal = open(&files).unwrap();
    append(&journal, 0, 1, b"a").unwrap();
    append(&journal, 1, 1, b"b").unwrap();
    let place = append(&journal, 0, 2, b"c").unwrap();
    journal.sync(place).unwrap();
    append(&journal, 2, 1, b"d").unwrap();
    let place = append(&journal, 0, 3, b"e").unwrap();
    journal.sync(place).unwrap();
    let hit = journal.records(Life(1)).unwrap()[0].payload_at;
    drop(journal);
    files.disk().contents[0].bytes[usize::try_from(hit).unwrap()] ^= 1;

    let journal = open(&files).unwrap();
    // Entries behind the damage follow those before it, or begin with the first.
    assert_eq!(entries(&journal, 0).len(), 3);
    assert_eq!(entries(&journal, 2).len(), 1);
    for life in [1, 77] {
        let refusal = journal.records(Life(life)).unwrap_err();
        assert!(matches!(refusal, StateError::Damaged { .. }), "{refusal}");
        assert!(refusal.to_string().contains("00001.log"), "{refusal}");
    }
}

#[test]
fn a_failed_sync_is_the_end() {
    let files = ForgetfulFiles::default();
    let journal = open(&files).unwrap();
    let place = append(&journal, 0, 1, b"a").unwrap();
    files.disk().fail_syncs = true;
    let failed = journal.sync(place).unwrap_err();
    assert!(matches!(failed, StateError::SyncFailed { .. }), "{failed}");
    files.disk().fail_syncs = false;
    assert_eq!(journal.sync(place), Err(failed.clone()));
    assert_eq!(append(&journal, 0, 2, b"b"), Err(failed));
}

#[test]
fn a_full_disk_leaves_nothing_of_the_entry_and_goes_on_with_room() {
    let files = ForgetfulFiles::default();
    let journal = open(&files).unwrap();
    append(&journal, 0, 1, b"a").unwrap();
    for room in [0, 1, 47, 48, 60] {
        files.disk().room = Some(room);
        let full = append(&journal, 0, 2, b"b").unwrap_err();
        assert!(matches!(full, StateError::Full { .. }), "{full}");
    }
    files.disk().room = None;
    let place = append(&journal, 0, 2, b"c").unwrap();
    journal.sync(place).unwrap();
    drop(journal);
    let journal = open(&files).unwrap();
    let all = entries(&journal, 0);
    assert_eq!(all, [(1, b"a".to_vec()), (2, b"c".to_vec())]);
}

#[test]
fn one_sync_serves_all_that_wait() {
    let files = ForgetfulFiles::default();
    let journal = open(&files).unwrap();
    let first = append(&journal, 0, 1, b"a").unwrap();
    let second = append(&journal, 1, 1, b"b").unwrap();
    journal.sync(second).unwrap();
    // The second sync has nothing to do: a disk that fails now is not asked.
    files.disk().fail_syncs = true;
    journal.sync(first).unwrap();
}
