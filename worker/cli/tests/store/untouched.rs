//! A volume that is looked at stays as it is, so one that cannot be written can be looked at.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;

fn set_modes(folder: &Path, files: u32, folders: u32) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            set_modes(&path, files, folders);
        } else {
            fs::set_permissions(&path, Permissions::from_mode(files)).unwrap();
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(folders)).unwrap();
}

/// Of the keys in the store's own files the journal has removed the first and changed the second; the last one that is
/// there is in the journal only, and so is an entry that the broker has to decide over.
fn partly_in_the_journal(root: &Path) -> Rows {
    let (_volume, mut store) = volume(root);
    let mut rows = rows();
    let last = rows.pop_last().unwrap();
    commit(&mut store, 10, &rows);
    save(&mut store, &rows);
    let keys: Vec<_> = rows.keys().take(2).cloned().collect();
    let new = value(9);
    let changes = [
        Change {
            key: &keys[0],
            value: None,
        },
        Change {
            key: &keys[1],
            value: Some(&new),
        },
        Change {
            key: &last.0,
            value: Some(&last.1),
        },
    ];
    change(&mut store, 20, &changes);
    rows.remove(&keys[0]);
    rows.insert(keys[1].clone(), new);
    rows.extend([last]);
    let held = Change {
        key: &keys[0],
        value: Some(&[1]),
    };
    let number = store.progress().number.next();
    store
        .prepare(&Entry {
            task: &task(),
            store_epoch: store.identity().store_epoch,
            number,
            positions: &positions(30),
            frontier: Frontier(Some(START)),
            clocks: b"",
            changes: &[held],
        })
        .unwrap();
    rows
}

#[test]
fn a_volume_that_cannot_be_written_is_read_with_its_journal_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let rows = partly_in_the_journal(root);
    // What is of a store that is gone stays as well.
    fs::create_dir(root.join("gone")).unwrap();
    let before = files(root);
    set_modes(root, 0o444, 0o555);

    let (code, scanned) = json(root, "scan", &["--limit", "100000"]);
    assert_eq!((code, listed(&scanned)), (Some(0), rows.clone()));
    let (first, last) = (
        rows.first_key_value().unwrap(),
        rows.last_key_value().unwrap(),
    );
    for (key, value) in [first, last] {
        let (code, found) = json(root, "get", &["--raw", &hex(key)]);
        assert_eq!(code, Some(0));
        assert_eq!(listed(&found), Rows::from([(key.clone(), value.clone())]));
    }
    let (code, found) = json(root, "inspect", &["--count"]);
    let store_found = &found["stores"][0]["store"];
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(store_found["entry"], 2);
    assert_eq!(store_found["savedEntry"], 1);
    assert_eq!(store_found["unsavedKeys"], 3);
    assert_eq!(store_found["positions"][0]["next"], 20);
    assert_eq!(store_found["prepared"]["positions"][0]["next"], 30);
    assert_eq!(store_found["keys"], rows.len());
    let (code, found) = json(root, "verify", &[]);
    assert_eq!(
        (code, &found[0]["panes"]),
        (Some(0), &Value::from(rows.len()))
    );

    set_modes(root, 0o644, 0o755);
    assert_eq!(
        files(root),
        before,
        "looking has changed what was looked at"
    );

    // Nothing was taken out of the journal: the worker finds it all.
    let store = open(root)
        .open_any(&task(), 1.try_into().unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(store.progress().number.get(), 2);
    let mut found = Rows::new();
    store
        .scan(&[], None, &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(found, rows);
}

#[test]
fn many_may_look_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let rows = stopped(folder.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (code, found) = json(folder.path(), "scan", &["--limit", "100000"]);
                assert_eq!((code, listed(&found)), (Some(0), rows.clone()));
            });
        }
    });
}
