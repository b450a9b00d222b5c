//! What is damaged is told by name, concerns nobody else, and stays as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::path::Path;

use common::{close, commit, content, identity, positions, save, task, volume};
use tempfile::tempdir;
use turbine_protocol::{EntryNumber, Fault, StoreEpoch};
use turbine_state::{MARKER_FILE, StateError, TaskState, TaskStore};

fn number(n: i64) -> EntryNumber {
    n.try_into().unwrap()
}

/// Changes the byte in the middle of the journal's first segment.
fn damage_the_journal(root: &Path) {
    let segment = root.join("_journal/00000000000000000001.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
}

/// A new store with one commit, which its files have.
fn saved_once(root: &Path) -> TaskStore {
    let mut store = volume(root)
        .create_store(&identity(), &positions(0))
        .unwrap();
    commit(&mut store, 1, &[]).unwrap();
    save(&mut store, &[(b"k", Some(b"v"))]).unwrap();
    store
}

#[test]
fn a_damaged_journal_does_not_concern_a_store_that_was_stopped_in_order_until_it_commits_again() {
    let folder = tempdir().unwrap();
    let root = folder.path();
    let reopened = || volume(root).open_store(&identity());
    let mut store = volume(root)
        .create_store(&identity(), &positions(0))
        .unwrap();
    for n in 1..4 {
        commit(&mut store, n, &[]).unwrap();
    }
    save(&mut store, &[(b"k", Some(b"v"))]).unwrap();
    close(store);
    // Another store's entries lie behind, so that the damage is no torn end.
    let mut other = identity();
    other.store_epoch = StoreEpoch::try_from(2).unwrap();
    let mut store = volume(root).create_store(&other, &positions(0)).unwrap();
    for n in 1..4 {
        commit(&mut store, n, &[]).unwrap();
    }
    drop(store);
    damage_the_journal(root);

    let store = reopened().unwrap().unwrap();
    assert_eq!(store.progress().number, number(3));
    close(store);
    let mut store = reopened().unwrap().unwrap();
    commit(&mut store, 4, &[]).unwrap();
    drop(store);
    // Its entry lies behind the damage, as its number says.
    let store = reopened().unwrap().unwrap();
    assert_eq!(store.progress().number, number(4));
}

#[test]
fn files_do_not_say_stopped_in_order_once_the_store_has_committed_again() {
    let folder = tempdir().unwrap();
    let root = folder.path();
    close(saved_once(root));
    let mut store = volume(root).open_store(&identity()).unwrap().unwrap();
    assert!(store.progress().cleanly_stopped);
    commit(&mut store, 2, &[]).unwrap();
    drop(store);
    // All that could show the second entry is gone.
    std::fs::rename(root.join("_journal"), root.join("_journal.aside")).unwrap();
    let store = volume(root).open_store(&identity()).unwrap().unwrap();
    assert!(!store.progress().cleanly_stopped);
}

#[test]
fn without_its_journal_a_store_goes_on_from_what_it_saved_as_the_refusal_says() {
    let folder = tempdir().unwrap();
    let root = folder.path();
    let mut store = saved_once(root);
    for n in 2..6 {
        commit(&mut store, n, &[]).unwrap();
    }
    drop(store);
    damage_the_journal(root);
    let refusal = volume(root).open_store(&identity()).unwrap_err();
    let words = refusal.to_string();
    assert!(
        words.contains("move the folder `_journal` aside"),
        "{words}"
    );
    std::fs::rename(root.join("_journal"), root.join("_journal.aside")).unwrap();
    let mut store = volume(root).open_store(&identity()).unwrap().unwrap();
    assert_eq!(store.progress().number, number(1));
    assert_eq!(store.progress().positions, positions(1));
    assert_eq!(content(&store), [(b"k".to_vec(), b"v".to_vec())].into());
    store.branch().unwrap();
    commit(&mut store, 2, &[]).unwrap();
}

#[test]
fn a_flush_that_fails_ends_the_process_and_is_not_tried_again() {
    let folder = tempdir().unwrap();
    let mut store = volume(folder.path())
        .create_store(&identity(), &positions(0))
        .unwrap();
    let path = store.path().to_owned();
    commit(&mut store, 1, &[]).unwrap();
    // No file can be made where the folder was.
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    std::fs::write(&path, "no folder").unwrap();
    let failed = save(&mut store, &[(b"k", Some(b"v"))]).unwrap_err();
    assert!(
        matches!(failed, StateError::SyncFailed { .. }),
        "{failed:?}"
    );
    assert_eq!(failed.reason(), "StateSyncFailed");
    assert!(!failed.passes_by_itself());
}

/// The store's files with these families, in each of which lies a row.
fn raw(path: &Path, families: &[&str]) {
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let db = rocksdb::DB::open_cf(&options, path, families).unwrap();
    for family in families {
        let family = db.cf_handle(family).unwrap();
        db.put_cf(family, b"row", b"value").unwrap();
        db.flush_cf(family).unwrap();
    }
}

#[test]
fn keys_without_an_identity_are_damage_and_stay_as_they_are() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let path = volume.store_path(&task(), identity().store_epoch);
    std::fs::create_dir_all(&path).unwrap();
    raw(&path, &["default", "turbine"]);
    for refusal in [
        volume.open_store(&identity()).unwrap_err(),
        volume.create_store(&identity(), &positions(0)).unwrap_err(),
    ] {
        assert!(matches!(refusal, StateError::Damaged { .. }), "{refusal:?}");
        assert!(
            refusal.to_string().contains("it has keys and no identity"),
            "{refusal}"
        );
    }
    let options = rocksdb::Options::default();
    let db = rocksdb::DB::open_cf(&options, &path, ["default", "turbine"]).unwrap();
    assert_eq!(db.get(b"row").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_family_that_is_not_known_is_kept_with_what_is_in_it() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
    let path = store.path().to_owned();
    commit(&mut store, 1, &[]).unwrap();
    save(&mut store, &[(b"k", Some(b"v"))]).unwrap();
    close(store);
    let families = ["default", "turbine", "later"];
    {
        let mut options = rocksdb::Options::default();
        options.create_missing_column_families(true);
        let db = rocksdb::DB::open_cf(&options, &path, families).unwrap();
        let later = db.cf_handle("later").unwrap();
        db.put_cf(later, b"row", b"value").unwrap();
        db.flush_cf(later).unwrap();
    }
    let mut store = volume.open_store(&identity()).unwrap().unwrap();
    assert_eq!(content(&store), [(b"k".to_vec(), b"v".to_vec())].into());
    commit(&mut store, 2, &[]).unwrap();
    save(&mut store, &[(b"k", Some(b"w"))]).unwrap();
    close(store);
    let options = rocksdb::Options::default();
    let db = rocksdb::DB::open_cf(&options, &path, families).unwrap();
    let later = db.cf_handle("later").unwrap();
    assert_eq!(
        db.get_cf(later, b"row").unwrap().as_deref(),
        Some(&b"value"[..])
    );
}

#[test]
fn a_marker_that_is_damaged_or_cannot_be_read_is_named_and_never_taken_for_none() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let path = folder.path().join(MARKER_FILE);
    for content in ["", "{", "{}", "[]", "\0\0\0\0"] {
        std::fs::write(&path, content).unwrap();
        let refusal = volume.marker().unwrap_err();
        assert!(matches!(refusal, StateError::Damaged { .. }), "{refusal:?}");
        assert!(refusal.to_string().contains(MARKER_FILE), "{refusal}");
        assert!(!refusal.passes_by_itself());
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let refusal = volume.marker().unwrap_err();
    assert!(matches!(refusal, StateError::Io { .. }), "{refusal:?}");
    assert!(refusal.to_string().contains(MARKER_FILE), "{refusal}");
}
