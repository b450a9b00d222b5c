//! `turbine-cli store` on volumes that are written here, and what it says of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "store/checkpoints.rs"]
mod checkpoints;
mod common;
#[path = "store/rescale.rs"]
mod rescale;
#[path = "store/untouched.rs"]
mod untouched;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use common::{cli, stderr, stdout};
use serde_json::Value;
use turbine_keygroups::{Group, KeyGroup, Partition, RawPartitionCount, group_of, partition_of};
use turbine_protocol::{
    Change, Entry, EntryChecksum, Frontier, LayoutEpoch, Lineage, Position, StoreEpoch,
    StoreIdentity, Task, VolumeMarker,
};
use turbine_state::checkpoint::{Checksum, Manifest, ManifestFile, Sequence};
use turbine_state::{StateBudget, StateVolume, TaskState as _, TaskStore};
use uuid::Uuid;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const PARTITIONS: u32 = 4;
const START: i64 = 1_700_000_040_000;

fn task() -> Task {
    Task {
        subscription: "clicks".parse().unwrap(),
        partition: 3.try_into().unwrap(),
    }
}

fn open(root: &Path) -> StateVolume {
    StateVolume::open(root, StateBudget::new(32 << 20, 1).unwrap()).unwrap()
}

/// A volume with one empty store.
fn volume(root: &Path) -> (StateVolume, TaskStore) {
    let volume = open(root);
    let lineage = Lineage::new(Uuid::from_u128(7));
    let app = "fraud".parse().unwrap();
    volume
        .mark(&VolumeMarker {
            app_id: "fraud".parse().unwrap(),
            lineage,
            layout_epoch: LayoutEpoch::try_from(1).unwrap(),
        })
        .unwrap();
    let identity = StoreIdentity::new(
        app,
        lineage,
        &task(),
        StoreEpoch::try_from(1).unwrap(),
        RawPartitionCount::try_from(PARTITIONS).unwrap(),
        "user".to_owned(),
    );
    let store = volume.create_store(&identity, &positions(0)).unwrap();
    (volume, store)
}

fn positions(next: i64) -> Vec<Position> {
    vec![Position {
        topic: "events".parse().unwrap(),
        partition: 3.try_into().unwrap(),
        next: next.try_into().unwrap(),
    }]
}

fn commit(store: &mut TaskStore, next: i64, rows: &Rows) {
    let changes = rows.iter().map(|(key, value)| Change {
        key,
        value: Some(value),
    });
    change(store, next, &changes.collect::<Vec<_>>());
}

fn change(store: &mut TaskStore, next: i64, changes: &[Change<'_>]) {
    let number = store.progress().number.next();
    store
        .commit(&Entry {
            task: &task(),
            store_epoch: store.identity().store_epoch,
            number,
            positions: &positions(next),
            frontier: Frontier(Some(START)),
            clocks: br#"{"max_event_time":1700000040000,"data_frontier":1700000040000,"frontier":1700000040000,"closed_to":{}}"#,
            changes,
        })
        .unwrap();
}

/// The stored key of a window with one text as its key, written out here byte by byte.
fn stored(group: KeyGroup, window: &str, start: i64, text: &str) -> Vec<u8> {
    let mut key = Group::Keyed(group).prefix().to_vec();
    key.push(1);
    key.push(u8::try_from(window.len()).unwrap());
    key.extend(window.as_bytes());
    key.extend((start ^ i64::MIN).to_be_bytes());
    key.push(1);
    key.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
    key.extend(text.as_bytes());
    key
}

/// Format 1, a definition, and a count.
fn value(count: u8) -> Vec<u8> {
    vec![1, 0xde, 0xad, 0xbe, 0xef, count]
}

/// Users whose records lie in the store's partition.
fn users() -> Vec<String> {
    let own = Partition::try_from(3).unwrap();
    let count = RawPartitionCount::try_from(PARTITIONS).unwrap();
    (0..400)
        .map(|n| format!("user-{n}"))
        .filter(|user| partition_of(user.as_bytes(), count) == own)
        .collect()
}

fn rows() -> Rows {
    users()
        .iter()
        .enumerate()
        .flat_map(|(n, user)| {
            let count = u8::try_from(n % 251).unwrap();
            [START, START + 60_000].map(|start| {
                let key = stored(group_of(user.as_bytes()), "per-user", start, user);
                (key, value(count))
            })
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn store(root: &Path, verb: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let state = root.to_str().unwrap();
    let output = cli(
        &[&["store", verb, "--state", state], arguments].concat(),
        "",
    );
    (output.status.code(), stdout(&output), stderr(&output))
}

fn json(root: &Path, verb: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let (code, out, err) = store(root, verb, &[arguments, &["-o", "json"]].concat());
    let answer = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    (code, answer)
}

fn listed(answer: &Value) -> Rows {
    let unhex = |text: &Value| -> Vec<u8> {
        let text = text.as_str().unwrap();
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    };
    let rows = answer.as_array().unwrap();
    rows.iter()
        .map(|row| (unhex(&row["raw"]), unhex(&row["value"])))
        .collect()
}

fn save(store: &mut TaskStore, rows: &Rows) {
    let mut puts = rows.iter().map(|(key, value)| (&key[..], &value[..]));
    store.save(&[], &mut puts).unwrap();
}

/// Every file below a folder, with its content and the time at which it was last written.
fn files(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let written = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (std::fs::read(&path).unwrap(), written));
        }
    }
    found
}

/// A volume whose store was stopped with half of its rows in the journal only.
fn stopped(root: &Path) -> Rows {
    let (_volume, mut store) = volume(root);
    let rows = rows();
    let (saved, later): (Vec<_>, Vec<_>) = rows
        .clone()
        .into_iter()
        .enumerate()
        .partition(|(at, _)| at % 2 == 0);
    let [saved, later] =
        [saved, later].map(|half| half.into_iter().map(|(_, row)| row).collect::<Rows>());
    commit(&mut store, 10, &saved);
    save(&mut store, &saved);
    commit(&mut store, 20, &later);
    rows
}

#[test]
fn scan_lists_what_was_written_in_order_raw_and_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let rows = stopped(folder.path());
    let (code, all) = json(folder.path(), "scan", &["--limit", "100000"]);
    assert_eq!(code, Some(0));
    assert_eq!(listed(&all), rows);
    let order: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["raw"].clone())
        .collect();
    assert!(order.is_sorted_by_key(|raw| raw.as_str().unwrap().to_owned()));

    let user = &users()[0];
    let group = group_of(user.as_bytes()).number();
    let (_, some) = json(folder.path(), "scan", &["--group", &group.to_string()]);
    let prefix = Group::Keyed(group_of(user.as_bytes())).prefix();
    let expected: Rows = rows
        .iter()
        .filter(|(key, _)| key.starts_with(&prefix))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(listed(&some), expected);
    assert!(
        some.as_array()
            .unwrap()
            .iter()
            .all(|row| row["keyGroup"] == group
                && row["window"] == "per-user"
                && row["key"][0].as_str().unwrap().starts_with("user-"))
    );
    let (_, same) = json(folder.path(), "scan", &["--prefix", &hex(&prefix)]);
    assert_eq!(same, some);

    let (code, text, told) = store(folder.path(), "scan", &["--limit", "3"]);
    assert_eq!((code, text.lines().count()), (Some(0), 4), "{text}");
    assert!(told.contains("more keys than --limit 3"), "{told}");
}

#[test]
fn get_finds_a_key_by_its_bytes_and_all_panes_by_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let rows = stopped(folder.path());
    let user = &users()[5];
    let (key, value) = rows
        .iter()
        .find(|(key, _)| key.ends_with(user.as_bytes()))
        .unwrap();
    let (code, one) = json(folder.path(), "get", &["--raw", &hex(key)]);
    assert_eq!(code, Some(0));
    assert_eq!(listed(&one), Rows::from([(key.clone(), value.clone())]));

    let (code, panes) = json(folder.path(), "get", &["--key", user]);
    let part = [
        &1u8.to_be_bytes()[..],
        &u32::try_from(user.len()).unwrap().to_be_bytes(),
        user.as_bytes(),
    ]
    .concat();
    let expected: Rows = rows
        .iter()
        .filter(|(key, _)| key.ends_with(&part))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!((code, expected.len()), (Some(0), 2));
    assert_eq!(listed(&panes), expected);

    let (code, _, told) = store(folder.path(), "get", &["--key", "nobody"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("no such key"), "{told}");
    let (code, _, told) = store(folder.path(), "get", &["--raw", "0"]);
    assert_eq!(code, Some(2), "{told}");
}

#[test]
fn inspect_says_identity_positions_keys_and_key_groups() {
    let folder = tempfile::tempdir().unwrap();
    let rows = stopped(folder.path());
    let (code, found) = json(folder.path(), "inspect", &["--count"]);
    assert_eq!(code, Some(0));
    let store_found = &found["stores"][0]["store"];
    assert_eq!(store_found["identity"]["appId"], "fraud");
    assert_eq!(store_found["identity"]["format"], 2);
    assert_eq!(store_found["entry"], 2);
    assert_eq!(store_found["positions"][0]["next"], 20);
    assert_eq!(store_found["frontier"], START);
    assert_eq!(store_found["keys"], rows.len());
    let mut groups: BTreeMap<[u8; 2], u64> = BTreeMap::new();
    for key in rows.keys() {
        *groups.entry([key[0], key[1]]).or_default() += 1;
    }
    let told: BTreeMap<[u8; 2], u64> = store_found["keyGroups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let number = u16::try_from(one["keyGroup"].as_u64().unwrap()).unwrap();
            let group = Group::Keyed(number.try_into().unwrap());
            (group.prefix(), one["keys"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(told, groups);
    // Without counting, the key groups are the same.
    let (_, quick) = json(folder.path(), "inspect", &[]);
    let quick = &quick["stores"][0]["store"];
    assert_eq!(quick["keyGroups"].as_array().unwrap().len(), groups.len());
    assert_eq!(quick["keysAreAnEstimate"], true);
    let (_, text, _) = store(folder.path(), "inspect", &["--count"]);
    assert!(
        text.contains(&format!("{} in {} key groups", rows.len(), groups.len())),
        "{text}"
    );
}

#[test]
fn a_store_that_is_whole_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let rows = stopped(folder.path());
    let (code, found) = json(folder.path(), "verify", &[]);
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(found[0]["panes"], rows.len());
}

#[test]
fn keys_and_values_that_cannot_be_there_are_named() {
    let user = users()[0].clone();
    let other = (0..1000)
        .map(|n| format!("other-{n}"))
        .find(|key| group_of(key.as_bytes()).number().is_multiple_of(4))
        .unwrap();
    let group = group_of(user.as_bytes());
    let good = stored(group, "per-user", START, &user);
    let foreign = stored(group_of(other.as_bytes()), "per-user", START, &other);
    let torn = good[..good.len() - 1].to_vec();
    for (key, value, words) in [
        (foreign, value(1), "belongs to partition 0 of 4"),
        (torn, value(1), "its key tuple does not decode"),
        (vec![0x00, 0x01, 1], value(1), "it names no key group"),
        (good.clone(), vec![9, 0, 0, 0, 0], "has format 9"),
        (good.clone(), vec![], "it is empty"),
        (good, vec![1, 0, 0, 0, 1, 5], "2 definitions"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (volume, mut store_open) = volume(folder.path());
        let mut all = rows();
        all.insert(key, value);
        commit(&mut store_open, 10, &all);
        drop((store_open, volume));
        let (code, text, told) = store(folder.path(), "verify", &[]);
        assert_eq!(code, Some(1), "{words}: {text}{told}");
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_damaged_table_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = {
        let (_volume, mut store) = volume(folder.path());
        let rows = rows();
        commit(&mut store, 10, &rows);
        let mut puts = rows.iter().map(|(key, value)| (&key[..], &value[..]));
        store.save(&[], &mut puts).unwrap();
        store.path().to_owned()
    };
    assert_eq!(store(folder.path(), "verify", &[]).0, Some(0));
    let table = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "sst"))
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[20] ^= 0x55;
    std::fs::write(&table, bytes).unwrap();
    let (code, text, told) = store(folder.path(), "verify", &[]);
    assert_eq!(code, Some(1), "{text}{told}");
    assert!(
        text.contains("NOT whole") && text.contains("damaged"),
        "{text}"
    );
}

#[test]
fn checkpoints_on_the_volume_are_listed_and_compared_with_their_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let identity = {
        let (_volume, store) = volume(folder.path());
        store.identity().clone()
    };
    let checkpoint = folder.path().join("_checkpoints/clicks/3/1");
    let content = b"MANIFEST-000005\n";
    let file = ManifestFile {
        name: "CURRENT".to_owned().try_into().unwrap(),
        size: content.len() as u64,
        sha256: Checksum::of(content),
        keys: None,
    };
    let path = checkpoint.join("files").join(file.object_name());
    let manifest = Manifest {
        sequence: Sequence(4),
        identity,
        entry: 9.try_into().unwrap(),
        entry_checksum: EntryChecksum(0xabc),
        positions: positions(70),
        frontier: Frontier(None),
        by_transaction: false,
        made_at_ms: START,
        files: vec![file],
    };
    for folder in ["files", "manifests"] {
        std::fs::create_dir_all(checkpoint.join(folder)).unwrap();
    }
    std::fs::write(&path, content).unwrap();
    let name = Sequence(4).manifest_name();
    let document = manifest.to_json().unwrap();
    std::fs::write(checkpoint.join("manifests").join(name), document).unwrap();

    let (_, found) = json(folder.path(), "inspect", &[]);
    let listed = &found["stores"][0]["checkpoints"][0];
    assert_eq!(listed["sequence"], 4);
    assert_eq!(listed["entryChecksum"], "00000abc");
    assert_eq!(listed["positions"][0]["next"], 70);
    assert_eq!(listed["bytes"], content.len());
    assert_eq!(store(folder.path(), "verify", &[]).0, Some(0));

    // As long as before: only the checksum tells.
    std::fs::write(&path, b"MANIFEST-000006\n").unwrap();
    let (code, text, _) = store(folder.path(), "verify", &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("its checksum does not fit"), "{text}");
    std::fs::remove_file(&path).unwrap();
    let (code, text, _) = store(folder.path(), "verify", &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is missing"), "{text}");
}

#[test]
fn a_store_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let held = volume(folder.path());
    for verb in ["inspect", "verify", "scan"] {
        let (code, text, told) = store(folder.path(), verb, &[]);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{told}");
        assert!(told.contains("is in use"), "{told}");
        assert!(told.contains("never remove its lock"), "{told}");
    }
    drop(held);
    assert_eq!(store(folder.path(), "inspect", &[]).0, Some(0));
}

#[test]
fn inspect_tells_a_store_that_cannot_be_opened_from_one_in_use() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    std::fs::remove_file(folder.path().join("clicks/3/1/CURRENT")).unwrap();
    let (code, found) = json(folder.path(), "inspect", &[]);
    assert_eq!(code, Some(1), "{found}");
    let told = &found["stores"][0];
    assert!(
        told["store"].is_null() && told["error"].is_string(),
        "{found}"
    );
}

#[test]
fn a_folder_that_is_no_state_and_a_store_that_is_not_there_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, told) = store(folder.path(), "inspect", &[]);
    assert_eq!(code, Some(2));
    assert!(told.contains("turbine-volume.json"), "{told}");
    stopped(folder.path());
    let (code, _, told) = store(folder.path(), "scan", &["--partition", "2"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("no store is meant by that"), "{told}");
}
