//! Checkpoints on the volume, on a file system that forgets what was not synced. Plain files stand in
//! the place of `RocksDB`'s own, which it writes and syncs itself.

use std::collections::BTreeSet;

use futures::executor::block_on;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::super::choice::Choice;
use super::super::manifest::{Checksum, Manifest};
use super::super::snapshot::Snapshot;
use super::super::sums::KnownSums;
use super::super::{restore, upload};
use super::*;
use crate::files::forgetful::ForgetfulFiles;
use crate::files::{FileLayer, exists, make_folders, remove_folder};
use crate::restored::take_place;

const VOLUME: &str = "/volume";
const STORE: &str = "/volume/per-tenant/3/2";
const FRESH: &str = "/volume/per-tenant/3/2.restored";
const FILES: &str = "/volume/_checkpoints/per-tenant/3/2/files";

/// What a store's files hold, by name.
type Content = BTreeMap<String, Vec<u8>>;

/// A volume as the test knows it.
struct Volume {
    files: ForgetfulFiles,
    place: LocalFolder,
    known: KnownSums,
    outside: TempDir,
    store: Content,
    /// What the store held at each entry.
    at: BTreeMap<i64, Content>,
    entry: i64,
    /// The newest checkpoint that was reported done.
    saved: Option<i64>,
    /// The newest restore that was reported done, as long as none was begun after it.
    restored: Option<i64>,
}

impl Volume {
    fn new() -> Self {
        let files = ForgetfulFiles::with(VOLUME);
        Self {
            place: place(&files),
            files,
            known: KnownSums::default(),
            outside: TempDir::new().unwrap(),
            store: Content::new(),
            at: BTreeMap::new(),
            entry: 0,
            saved: None,
            restored: None,
        }
    }

    /// Nothing but the files is left of a process.
    fn start_anew(&mut self) {
        self.files.disk().acts = None;
        self.place = place(&self.files);
        self.known = KnownSums::default();
    }

    /// The store changes, and a folder shows it.
    fn snapshot(&mut self, random: &mut StdRng) -> Snapshot {
        self.entry += 1;
        if self.store.len() > 4 {
            self.store.pop_first();
        }
        let mut some = || {
            let length = random.random_range(1..60);
            (0..length).map(|_| random.random()).collect::<Vec<u8>>()
        };
        self.store.insert(format!("{:06}.sst", self.entry), some());
        self.store.insert("MANIFEST-000001".to_owned(), some());
        self.store.insert("CURRENT".to_owned(), some());
        self.at.insert(self.entry, self.store.clone());
        let folder = self.outside.path().join(self.entry.to_string());
        fs::create_dir(&folder).unwrap();
        for (name, content) in &self.store {
            fs::write(folder.join(name), content).unwrap();
        }
        Snapshot::of_folder(folder)
    }

    fn save(&mut self, random: &mut StdRng) -> Result<(), CheckpointError> {
        let snapshot = self.snapshot(random);
        let meta = meta(self.entry);
        let meter = Meter::default();
        let saving = upload::save(&self.place, &self.known, &snapshot, &meta, &meter);
        block_on(saving)?;
        self.saved = Some(self.entry);
        Ok(())
    }

    fn prune(&self) -> Result<(), CheckpointError> {
        block_on(upload::prune(
            &self.place,
            &identity("fraud"),
            2,
            BTreeSet::new,
        ))?;
        Ok(())
    }

    fn restore(&mut self) -> Result<(), CheckpointError> {
        let (store, fresh, files) = (Path::new(STORE), Path::new(FRESH), &self.files);
        self.restored = None;
        let failed = |error| crate::error::io("restore", store, &error);
        remove_folder(files, fresh).map_err(failed)?;
        let (meter, identity) = (Meter::default(), identity("fraud"));
        let place = &self.place;
        let restoring = restore::restore(files, place, &identity, fresh, &meter, |_| ());
        if let Some(restored) = block_on(restoring)? {
            let above = store.parent().unwrap();
            make_folders(files, Path::new(VOLUME), above).map_err(failed)?;
            take_place(files, fresh, store).map_err(failed)?;
            self.restored = Some(restored.manifest.entry.get());
        }
        Ok(())
    }

    fn content(&self, folder: &Path) -> Content {
        let names = self.files.list(folder).unwrap();
        names
            .into_iter()
            .map(|name| {
                let content = self.files.read(&folder.join(&name)).unwrap();
                (name, content)
            })
            .collect()
    }

    fn assert_whole(&self, manifest: &Manifest, when: &str) {
        let expected = &self.at[&manifest.entry.get()];
        assert_eq!(manifest.files.len(), expected.len(), "{when}");
        for file in &manifest.files {
            let path = Path::new(FILES).join(file.object_name());
            let found = self.files.read(&path).unwrap();
            assert_eq!(&found, &expected[file.name.as_str()], "{when}");
            assert_eq!(Checksum::of(&found), file.sha256, "{when}");
        }
    }

    fn assert_property(&self, when: &str) {
        let identity = identity("fraud");
        let look = restore::look(&self.place, &identity);
        let Choice { intact, refused } = block_on(look).unwrap();
        assert_eq!(refused, [], "{when}");
        let newest = intact.first().map(|manifest| manifest.entry.get());
        assert!(
            newest >= self.saved,
            "{when}: {newest:?}, {:?} was reported",
            self.saved
        );
        for manifest in &intact {
            self.assert_whole(manifest, when);
        }
        let store = Path::new(STORE);
        if let Some(entry) = self.restored {
            assert_eq!(self.content(store), self.at[&entry], "{when}");
        } else if exists(&self.files, store) {
            let content = self.content(store);
            assert!(self.at.values().any(|known| *known == content), "{when}");
        }
    }
}

fn place(files: &ForgetfulFiles) -> LocalFolder {
    let root = Path::new(VOLUME).join("_checkpoints");
    LocalFolder::over(root, Arc::new(files.clone()))
}

#[test]
fn a_power_loss_takes_no_checkpoint_and_no_restore_that_was_reported_done() {
    let seed = std::env::var("TURBINE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random::<u64>);
    println!("TURBINE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (mut ended, mut restored) = (0, 0);
    for volume in 0..40 {
        let mut known = Volume::new();
        for round in 0..25 {
            let when = format!("volume {volume}, round {round}");
            if random.random_bool(0.6) {
                known.files.disk().acts = Some(random.random_range(0..40));
            }
            for _ in 0..random.random_range(1..4) {
                let done = match random.random_range(0..4) {
                    0 | 1 => known.save(&mut random),
                    2 => known.prune(),
                    _ => known.restore(),
                };
                let has_ended = known.files.disk().acts == Some(0);
                assert!(done.is_ok() || has_ended, "{when}: {done:?}");
                if done.is_err() {
                    ended += 1;
                    break;
                }
            }
            restored += usize::from(known.restored.is_some());
            // Killed, or without power as well.
            if random.random_bool(0.7) {
                known.files.lose_power(&mut random);
            }
            known.start_anew();
            known.assert_property(&when);
        }
    }
    assert!(ended > 100 && restored > 100, "{ended}, {restored}");
}
