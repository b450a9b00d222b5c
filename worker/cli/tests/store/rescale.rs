//! `store rescale`: what it makes, what it refuses, and what it leaves.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use turbine_state::checkpoint::{Archive, CheckpointSettings, Checkpointer};
use turbine_state::moving::{Move, MovePlan};

use super::*;

const CLOCKS: &str =
    r#"{"max_event_time":1,"data_frontier":1,"frontier":1,"closed_to":{"per-user":1}}"#;
const MISPLACED: &str = r#"{"max_event_time":1,"data_frontier":1,"frontier":1,"closed_to":{},"placement":{"verdict":"misplaced"}}"#;

fn is_table(path: impl AsRef<Path>) -> bool {
    path.as_ref()
        .extension()
        .is_some_and(|ending| ending == "sst")
}

fn identity_of(partition: u32, count: u32) -> StoreIdentity {
    StoreIdentity::new(
        "fraud".parse().unwrap(),
        Lineage::new(Uuid::from_u128(7)),
        &task_of(partition),
        StoreEpoch::try_from(1).unwrap(),
        RawPartitionCount::try_from(count).unwrap(),
        "user".to_owned(),
    )
}

fn task_of(partition: u32) -> Task {
    Task {
        partition: i32::try_from(partition).unwrap().try_into().unwrap(),
        ..task()
    }
}

fn home(user: &str, count: u32) -> u32 {
    partition_of(user.as_bytes(), RawPartitionCount::try_from(count).unwrap()).index()
}

fn all_users() -> impl Iterator<Item = String> {
    (0..500).map(|number| format!("user-{number}"))
}

/// A volume with the stores of `count` partitions, each with its users and one row without a key. The second store is left
/// open if `open`.
fn app(root: &Path, count: u32, clocks: &str) -> StateVolume {
    let volume = open(root);
    volume
        .mark(&VolumeMarker {
            app_id: "fraud".parse().unwrap(),
            lineage: Lineage::new(Uuid::from_u128(7)),
            layout_epoch: LayoutEpoch::try_from(3).unwrap(),
        })
        .unwrap();
    for partition in 0..count {
        let own = vec![Position {
            topic: "events".parse().unwrap(),
            partition: task_of(partition).partition,
            next: 5.try_into().unwrap(),
        }];
        let mut store = volume
            .create_store(&identity_of(partition, count), &own)
            .unwrap();
        let mut rows: Rows = all_users()
            .filter(|user| home(user, count) == partition)
            .map(|user| {
                let key = stored(group_of(user.as_bytes()), "per-user", START, &user);
                (key, value(1))
            })
            .collect();
        let mut null = stored(KeyGroup::try_from(0).unwrap(), "per-user", START, "none");
        null[..2].copy_from_slice(&Group::Null.prefix());
        rows.insert(null, value(u8::try_from(partition).unwrap()));
        let changes: Vec<_> = rows
            .iter()
            .map(|(key, value)| Change {
                key,
                value: Some(value),
            })
            .collect();
        store
            .commit(&Entry {
                task: &task_of(partition),
                store_epoch: StoreEpoch::try_from(1).unwrap(),
                number: 1.try_into().unwrap(),
                positions: &own,
                frontier: Frontier(Some(START)),
                clocks: clocks.as_bytes(),
                changes: &changes,
            })
            .unwrap();
        save(&mut store, &rows);
        Box::new(store).close().unwrap();
    }
    volume
}

fn rescale(
    from: u32,
    to: u32,
    state: &Path,
    out: &Path,
    more: &[&str],
) -> (Option<i32>, String, String) {
    let (from, to) = (from.to_string(), to.to_string());
    let arguments = [
        &["store", "rescale", "--from", &from, "--to", &to],
        &[
            "--state",
            state.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
        ][..],
        more,
    ]
    .concat();
    let output = cli(&arguments, "");
    (output.status.code(), stdout(&output), stderr(&output))
}

/// The users that a store holds, as `store scan` prints them.
fn users_in(root: &Path, partition: u32) -> Vec<String> {
    let partition = partition.to_string();
    let (code, out, err) = store(
        root,
        "scan",
        &["--partition", &partition, "--limit", "1000", "-o", "json"],
    );
    assert_eq!(code, Some(0), "{err}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    let mut users: Vec<String> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["key"][0].as_str().unwrap().to_owned())
        .collect();
    users.sort();
    users
}

fn contents(root: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let about = path.metadata().unwrap();
                found.push((path.display().to_string(), about.len()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_key_is_with_its_new_owner_and_the_old_state_is_as_it_was() {
    for (from, to) in [(4, 8), (4, 6), (7, 8)] {
        let folder = tempfile::tempdir().unwrap();
        let (state, new) = (folder.path().join("state"), folder.path().join("new"));
        drop(app(&state, from, CLOCKS));
        let before = contents(&state);
        let (code, out, err) = rescale(from, to, &state, &new, &["-o", "json"]);
        assert_eq!(code, Some(0), "{out}{err}");
        assert_eq!(contents(&state), before);
        let report: Value = serde_json::from_str(&out).unwrap();
        // Above the layout epoch that the volume ran under.
        assert_eq!(report["newEpoch"], 4);
        for partition in 0..to {
            let mut expected: Vec<String> = all_users()
                .filter(|user| home(user, to) == partition)
                .collect();
            if partition < from {
                expected.push("none".to_owned());
            }
            expected.sort();
            assert_eq!(
                users_in(&new, partition),
                expected,
                "{from} to {to}: {partition}"
            );
            let made = &report["new"][partition as usize]["made"];
            assert_eq!(made["keys"], expected.len());
        }
        let (code, out, _) = store(&new, "verify", &[]);
        assert_eq!(code, Some(0), "{out}");
        // Nothing is left of the work.
        let mut names: Vec<_> = fs::read_dir(&new)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["clicks", "turbine-volume.json"]);
    }
}

#[test]
fn on_one_volume_tables_are_links() {
    let folder = tempfile::tempdir().unwrap();
    let (state, new) = (folder.path().join("state"), folder.path().join("new"));
    drop(app(&state, 4, CLOCKS));
    let inodes = |root: &Path| -> std::collections::BTreeSet<u64> {
        contents(root)
            .iter()
            .filter(|(path, _)| is_table(path))
            .map(|(path, _)| fs::metadata(path).unwrap().ino())
            .collect()
    };
    let (code, out, err) = rescale(4, 8, &state, &new, &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("by links"), "{out}");
    let old = inodes(&state);
    for partition in 0..8 {
        let own = inodes(&new.join("clicks").join(partition.to_string()).join("4"));
        assert!(own.intersection(&old).count() > 0, "{partition}");
    }
}

#[test]
fn a_dry_run_says_what_would_move_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (state, new) = (folder.path().join("state"), folder.path().join("new"));
    drop(app(&state, 4, CLOCKS));
    let before = contents(folder.path());
    let (code, out, err) = rescale(4, 6, &state, &new, &["--dry-run"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("4 to 6 partitions"), "{out}");
    assert!(out.contains("nothing was done"), "{out}");
    assert_eq!(contents(folder.path()), before);
    assert!(!new.exists());
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (state, new) = (folder.path().join("state"), folder.path().join("new"));
    let volume = app(&state, 4, CLOCKS);
    let refused = |from, to, words: &str| {
        let (code, out, err) = rescale(from, to, &state, &new, &[]);
        assert_eq!(code, Some(2), "{out}{err}");
        assert!(err.contains(words), "{err}");
        assert!(!new.exists(), "{err}");
    };
    {
        let _running = volume.open_store(&identity_of(2, 4)).unwrap().unwrap();
        refused(4, 8, "in use");
    }
    drop(volume);
    refused(4, 7, "the nearest valid counts are 6 and 8");
    refused(4, 4, "the next valid one is 5");
    refused(4, 3, "a topic cannot shrink");
    refused(5, 8, "was kept under 4 partitions");
    fs::remove_dir_all(state.join("clicks/3")).unwrap();
    refused(4, 8, "there is no state of old partition 3");
}

#[test]
fn a_verdict_damage_and_a_folder_that_is_not_empty_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (state, new) = (folder.path().join("state"), folder.path().join("new"));
    drop(app(&state, 2, MISPLACED));
    let (code, _, err) = rescale(2, 4, &state, &new, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("verdict `misplaced`"), "{err}");
    assert!(!new.join("turbine-volume.json").exists());

    let (state, new) = (folder.path().join("state-2"), folder.path().join("new-2"));
    drop(app(&state, 2, CLOCKS));
    fs::create_dir(&new).unwrap();
    fs::write(new.join("mine"), "mine").unwrap();
    let (code, _, err) = rescale(2, 4, &state, &new, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("not empty"), "{err}");
    fs::remove_file(new.join("mine")).unwrap();

    // One bit in the middle of a table with keys.
    let largest = contents(&state.join("clicks/1"))
        .into_iter()
        .filter(|(path, _)| is_table(path))
        .max_by_key(|(_, size)| *size)
        .unwrap();
    let mut bytes = fs::read(&largest.0).unwrap();
    bytes[60] ^= 1;
    fs::write(&largest.0, bytes).unwrap();
    let (code, _, err) = rescale(2, 4, &state, &new, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("damaged"), "{err}");
    assert!(!new.join("turbine-volume.json").exists());
}

#[test]
fn a_worker_refuses_the_new_stores() {
    let folder = tempfile::tempdir().unwrap();
    let (state, new) = (folder.path().join("state"), folder.path().join("new"));
    drop(app(&state, 2, CLOCKS));
    let (code, _, err) = rescale(2, 4, &state, &new, &[]);
    assert_eq!(code, Some(0), "{err}");
    let mut expected = identity_of(3, 4);
    expected.store_epoch = StoreEpoch::try_from(4).unwrap();
    let error = open(&new).find(&expected).unwrap_err().to_string();
    assert!(error.contains("new partition count"), "{error}");
}

fn begun(folder: &Path, from: u32, to: u32, epoch: i64) -> Move {
    Move::open(
        folder,
        MovePlan::new(from.try_into().unwrap(), to).unwrap(),
        epoch.try_into().unwrap(),
        StateBudget::new(32 << 20, 4).unwrap(),
    )
}

#[test]
fn a_run_that_was_broken_off_is_taken_up_and_what_is_not_its_own_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (state, new) = (folder.path().join("state"), folder.path().join("new"));
    drop(app(&state, 4, CLOCKS));
    // It ended with one new store in its place, one made, and no marker.
    let mut moving = begun(&new.join("_rescale"), 4, 6, 4);
    for partition in 0..4 {
        let store = state.join("clicks").join(partition.to_string()).join("1");
        moving
            .take_store(task_of(partition).partition, &store)
            .unwrap();
    }
    let plan = moving.plan().clone();
    moving.build(&plan.tasks()[0]).unwrap();
    moving
        .place(&plan.tasks()[0], &new.join("clicks/0/4"))
        .unwrap();
    moving.build(&plan.tasks()[1]).unwrap();
    drop(moving);

    // For other counts it is not the same move.
    let (code, _, err) = rescale(4, 8, &state, &new, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("is from another move"), "{err}");

    let placed = fs::metadata(new.join("clicks/0/4")).unwrap().ino();
    let (code, out, err) = rescale(4, 6, &state, &new, &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(fs::metadata(new.join("clicks/0/4")).unwrap().ino(), placed);
    let (code, out, _) = store(&new, "verify", &[]);
    assert_eq!(code, Some(0), "{out}");
    let users: usize = (0..6)
        .map(|partition| users_in(&new, partition).len())
        .sum();
    assert_eq!(users, 504);
    assert!(!new.join("_rescale").exists());

    // What is done is not begun again.
    let (code, _, err) = rescale(4, 6, &state, &new, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("not empty"), "{err}");
}

#[test]
fn checkpoints_become_checkpoints_and_a_damaged_piece_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (state, new) = (folder.path().join("state"), folder.path().join("new"));
    let volume = app(&state, 4, CLOCKS);
    let checkpointer = Checkpointer::open(&CheckpointSettings::default(), &state).unwrap();
    for partition in 0..4 {
        let store = volume
            .open_store(&identity_of(partition, 4))
            .unwrap()
            .unwrap();
        let (snapshot, meta) = store.snapshot(&checkpointer, 1).unwrap();
        checkpointer.save(snapshot, meta).wait().unwrap();
    }
    let checkpoints = state.join("_checkpoints");
    let (code, out, err) = rescale(4, 6, &checkpoints, &new, &["-o", "json"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(err.contains("its checkpoint reaches to entry 1"), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let keys: u64 = (0..6)
        .map(|partition| report["new"][partition]["made"]["keys"].as_u64().unwrap())
        .sum();
    assert_eq!(keys, 504);
    for partition in 0..6 {
        let manifests = new
            .join("clicks")
            .join(partition.to_string())
            .join("2/manifests");
        assert_eq!(fs::read_dir(manifests).unwrap().count(), 1);
    }
    // A worker that would take it from there is told of the format.
    let mut expected = identity_of(0, 6);
    expected.store_epoch = StoreEpoch::try_from(2).unwrap();
    let archive = Archive::Folder(new.clone());
    let choice = Checkpointer::of_archive(&archive)
        .unwrap()
        .look(&expected)
        .unwrap();
    assert_eq!(choice.intact, []);
    assert_eq!(choice.refused[0].refusal.reason(), "NewerFormat");
    // There they are already.
    let (code, _, err) = rescale(4, 6, &checkpoints, &new, &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("of epoch 2 already"), "{err}");
    // But for a run that was broken off: as far as it came they are its own.
    let pulled = Archive::Folder(checkpoints.clone());
    let pulled = Checkpointer::of_archive(&pulled).unwrap();
    let epoch = StoreEpoch::try_from(1).unwrap();
    let manifest = pulled.look_at(&task_of(0), epoch).unwrap().intact.remove(0);
    begun(&new.join("_rescale"), 4, 6, 2)
        .take_checkpoint(task_of(0).partition, &pulled, &manifest, |_| {})
        .unwrap();
    let (code, out, err) = rescale(4, 6, &checkpoints, &new, &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!new.join("_rescale").exists());

    let files = checkpoints.join("clicks/2/1/files");
    let table = fs::read_dir(&files)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().unwrap().contains(".sst-"))
        .unwrap();
    let mut bytes = fs::read(&table).unwrap();
    bytes[40] ^= 1;
    fs::write(&table, bytes).unwrap();
    let (code, _, err) = rescale(4, 6, &checkpoints, &folder.path().join("again"), &[]);
    assert_eq!(code, Some(2), "{err}");
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(
        err.contains(name) && err.contains("old partition 2"),
        "{err}"
    );
}
