//! A checkpoint read in place of the store.

use turbine_state::checkpoint::{CheckpointSettings, Checkpointer};

use super::*;

fn take(store: &TaskStore, root: &Path) -> Sequence {
    let checkpointer = Checkpointer::open(&CheckpointSettings::default(), root).unwrap();
    let (snapshot, meta) = store.snapshot(&checkpointer, START).unwrap();
    let saved = checkpointer.save(snapshot, meta).wait().unwrap();
    saved.manifest.sequence
}

struct Written {
    first: (Sequence, Rows),
    second: (Sequence, Rows),
    now: Rows,
}

/// Two checkpoints, and what came after them in the journal.
fn write(store: &mut TaskStore, root: &Path) -> Written {
    let all = rows();
    let (early, late): (Vec<_>, Vec<_>) = all
        .keys()
        .cloned()
        .enumerate()
        .partition(|(at, _)| at % 3 == 0);
    let early: Rows = early.into_iter().map(|(_, key)| (key, value(1))).collect();
    commit(store, 10, &early);
    save(store, &early);
    let first = (take(store, root), early.clone());

    let mut changed: Rows = late.into_iter().map(|(_, key)| (key, value(2))).collect();
    let key = early.keys().next().unwrap().clone();
    changed.insert(key.clone(), value(2));
    commit(store, 20, &changed);
    save(store, &changed);
    let mut both = early;
    both.extend(changed);
    let second = (take(store, root), both.clone());

    let last = Rows::from([(key.clone(), value(3))]);
    commit(store, 30, &last);
    let mut now = both;
    now.extend(last);
    Written { first, second, now }
}

#[test]
fn a_checkpoint_shows_the_keys_of_the_store_at_its_time_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let written = {
        let (_volume, mut store) = volume(root);
        write(&mut store, root)
    };
    let before = files(root);
    let (first, second) = (&written.first, &written.second);
    let [number, newest] = [first.0, second.0].map(|number| number.to_string());
    let scan = |checkpoint: &[&str]| {
        let (code, found) = json(root, "scan", &[&["--limit", "100000"], checkpoint].concat());
        assert_eq!(code, Some(0), "{found}");
        listed(&found)
    };
    assert_eq!(scan(&["--checkpoint", &number]), first.1);
    assert_eq!(scan(&["--checkpoint", &newest]), second.1);
    assert_eq!(scan(&["--checkpoint", "latest"]), second.1);
    assert_eq!(scan(&[]), written.now);

    // A key that each of them has with another value.
    let key = first.1.keys().next().unwrap();
    let get = |checkpoint: &[&str]| {
        let (_, found) = json(root, "get", &[&["--raw", &hex(key)], checkpoint].concat());
        listed(&found)[key].clone()
    };
    assert_eq!(get(&["--checkpoint", &number]), value(1));
    assert_eq!(get(&["--checkpoint", "latest"]), value(2));
    assert_eq!(get(&[]), value(3));

    let (code, found) = json(root, "inspect", &["--count", "--checkpoint", &number]);
    let store_found = &found["stores"][0]["store"];
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(store_found["checkpoint"], first.0.get());
    assert_eq!(store_found["identity"]["appId"], "fraud");
    assert_eq!(store_found["entry"], 1);
    assert_eq!(store_found["positions"][0]["next"], 10);
    assert_eq!(store_found["keys"], first.1.len());
    assert_eq!(
        store_found["folderBytes"],
        found["stores"][0]["checkpoints"][1]["bytes"]
    );

    assert_eq!(files(root), before, "reading has changed what was read");
}

#[test]
fn checkpoints_can_be_read_while_a_worker_has_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (_held, mut store_open) = volume(folder.path());
    let written = write(&mut store_open, folder.path());
    let (code, _, told) = store(folder.path(), "scan", &[]);
    assert_eq!(code, Some(2), "{told}");
    let (code, found) = json(
        folder.path(),
        "scan",
        &["--limit", "100000", "--checkpoint", "latest"],
    );
    assert_eq!((code, listed(&found)), (Some(0), written.second.1));
}

#[test]
fn checkpoints_that_cannot_be_read_are_named_with_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let written = {
        let (_volume, mut store) = volume(root);
        write(&mut store, root)
    };
    let (code, _, told) = store(root, "scan", &["--checkpoint", "77"]);
    assert_eq!(code, Some(2), "{told}");
    let numbers = format!("there are: {}, {}", written.second.0, written.first.0);
    assert!(
        told.contains("no checkpoint 77") && told.contains(&numbers),
        "{told}"
    );
    let (code, _, told) = store(root, "scan", &["--checkpoint", "newest"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("a number, or `latest`"), "{told}");

    // The newest one loses its manifest's end: `latest` is the one before, and says so.
    let path = root
        .join("_checkpoints/clicks/3/1/manifests")
        .join(written.second.0.manifest_name());
    let document = std::fs::read(&path).unwrap();
    std::fs::write(&path, &document[..document.len() / 2]).unwrap();
    let (code, found, told) = store(
        root,
        "scan",
        &["--limit", "100000", "-o", "json", "--checkpoint", "latest"],
    );
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(
        listed(&serde_json::from_str(&found).unwrap()),
        written.first.1
    );
    assert!(told.contains("its manifest is damaged"), "{told}");
    let (code, _, told) = store(
        root,
        "get",
        &["--key", "x", "--checkpoint", &written.second.0.to_string()],
    );
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("its manifest is damaged"), "{told}");
}
