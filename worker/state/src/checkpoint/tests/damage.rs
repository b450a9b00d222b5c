//! What is damaged, lacking or another's is refused by name, and the next older checkpoint is taken.

use rstest::rstest;
use serde_json::Value;

use super::super::manifest::{Checksum, Manifest};
use super::*;
use crate::error::StateError;

/// A table file that only the newest checkpoint has.
fn own_table(bench: &Bench, older: &Manifest, newest: &Manifest) -> PathBuf {
    let file = newest
        .files
        .iter()
        .find(|file| is_table(file) && !older.files.contains(file))
        .unwrap();
    bench.store_folder().join("files").join(file.object_name())
}

/// Changes a file under its name; other links to it stay as they are.
fn change(path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut content = fs::read(path).unwrap();
    how(&mut content);
    let other = path.with_extension("changed");
    fs::write(&other, content).unwrap();
    fs::rename(other, path).unwrap();
}

fn flip(content: &mut [u8]) {
    let middle = content.len() / 2;
    content[middle] ^= 1;
}

/// Rewrites a manifest as a program would that means it: its own checksum fits.
fn rewrite(path: &Path, how: impl FnOnce(&mut Value)) {
    change(path, |content| {
        let mut document: Value = serde_json::from_slice(content).unwrap();
        how(&mut document);
        let text = format!("{}\n{}", document["formatVersion"], document["checkpoint"]);
        document["sha256"] = Checksum::of(text.as_bytes()).to_string().into();
        *content = serde_json::to_vec(&document).unwrap();
    });
}

#[derive(Debug, Clone, Copy)]
enum Harm {
    FlippedByte,
    CutFile,
    MissingFile,
    FlippedByteInManifest,
    CutManifest,
    EmptyManifest,
    OtherApp,
    OtherLineage,
    NewerFormat,
    NewerStoredForm,
    LeadsOut,
}

fn harm(harm: Harm, table: &Path, manifest: &Path) {
    match harm {
        Harm::FlippedByte => change(table, |content| flip(content)),
        Harm::CutFile => change(table, |content| content.truncate(content.len() - 1)),
        Harm::MissingFile => fs::remove_file(table).unwrap(),
        Harm::FlippedByteInManifest => change(manifest, |content| flip(content)),
        Harm::CutManifest => change(manifest, |content| content.truncate(content.len() / 2)),
        Harm::EmptyManifest => change(manifest, Vec::clear),
        Harm::OtherApp => rewrite(manifest, |document| {
            document["checkpoint"]["identity"]["appId"] = "orders".into();
        }),
        Harm::OtherLineage => rewrite(manifest, |document| {
            let other = Uuid::from_u128(8).to_string();
            document["checkpoint"]["identity"]["lineage"] = other.into();
        }),
        Harm::NewerFormat => rewrite(manifest, |document| {
            document["formatVersion"] = 2.into();
            document["checkpoint"]["what"] = "nobody knows yet".into();
        }),
        Harm::NewerStoredForm => rewrite(manifest, |document| {
            document["checkpoint"]["identity"]["format"] = 99.into();
        }),
        Harm::LeadsOut => rewrite(manifest, |document| {
            document["checkpoint"]["files"][0]["name"] = "../../marker".into();
        }),
    }
}

#[rstest]
#[case(Harm::FlippedByte, "WrongContent", "is not what was written")]
#[case(Harm::CutFile, "WrongSize", "bytes instead of")]
#[case(Harm::MissingFile, "MissingFile", "is missing")]
#[case(Harm::FlippedByteInManifest, "Damaged", "bring back a good copy")]
#[case(Harm::CutManifest, "Damaged", "bring back a good copy")]
#[case(Harm::EmptyManifest, "Damaged", "bring back a good copy")]
#[case(Harm::OtherApp, "Foreign", "appId is `orders`, expected `fraud`")]
#[case(Harm::OtherLineage, "Foreign", "lineage is")]
#[case(
    Harm::NewerFormat,
    "NewerFormat",
    "format 2, this program reads up to 1"
)]
#[case(Harm::NewerStoredForm, "NewerFormat", "format 99")]
#[case(Harm::LeadsOut, "Damaged", "no name of a store's file")]
fn the_newest_is_refused_by_name_and_the_one_before_is_taken(
    #[case] how: Harm,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let mut bench = Bench::new();
    let checkpointer = bench.checkpointer();
    let older = bench.save(&checkpointer, 1).unwrap().manifest;
    let newest = bench.save(&checkpointer, 2).unwrap().manifest;
    let name = newest.sequence.manifest_name();
    let table = own_table(&bench, &older, &newest);
    harm(
        how,
        &table,
        &bench.store_folder().join("manifests").join(&name),
    );

    let restored = bench.restore(&checkpointer);
    assert_eq!(restored.manifest, older);
    assert_eq!(restored.refused.len(), 1);
    let refused = &restored.refused[0];
    assert_eq!(
        (refused.name.as_str(), refused.refusal.reason()),
        (name.as_str(), reason)
    );
    let text = refused.to_string();
    assert!(text.contains(words) && text.contains(&name), "{text}");
}

#[test]
fn a_store_is_never_silently_empty_when_checkpoints_are_there() {
    let mut bench = Bench::new();
    let checkpointer = bench.checkpointer();
    let target = bench.target();
    let none = checkpointer.restore(&identity("fraud"), &target, |_| {});
    assert_eq!(none, Ok(None));
    for entry in [1, 2] {
        bench.save(&checkpointer, entry).unwrap();
    }
    for name in bench.names("files") {
        change(&bench.store_folder().join("files").join(name), |content| {
            content.push(0);
        });
    }
    let ended = checkpointer.restore(&identity("fraud"), &target, |_| {});
    let Err(CheckpointError::NoneIntact { store, refused }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(store, "per-tenant/3/2");
    let names: Vec<_> = refused.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        ["00000000000000000002.json", "00000000000000000001.json"]
    );
    assert!(!target.exists());
}

#[test]
fn what_stands_in_the_way_is_not_overwritten() {
    let mut bench = Bench::new();
    let checkpointer = bench.checkpointer();
    bench.save(&checkpointer, 1).unwrap();
    let target = bench.target();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("CURRENT"), "mine").unwrap();
    let there = CheckpointError::Local(StateError::AlreadyThere {
        path: target.clone(),
    });
    let restored = checkpointer.restore(&identity("fraud"), &target, |_| {});
    assert_eq!(restored, Err(there));
    assert_eq!(fs::read(target.join("CURRENT")).unwrap(), b"mine");
}

#[test]
fn another_app_s_checkpoints_alone_are_told_from_damage() {
    let mut bench = Bench::new();
    let checkpointer = bench.checkpointer();
    bench.save(&checkpointer, 1).unwrap();
    let target = bench.target();
    let mut other = identity("fraud");
    other.lineage = Lineage::new(Uuid::from_u128(8));
    let error = checkpointer.restore(&other, &target, |_| {}).unwrap_err();
    assert!(error.found_only_others(), "{error}");
    let name = &bench.names("manifests")[0];
    change(
        &bench.store_folder().join("manifests").join(name),
        Vec::clear,
    );
    let error = checkpointer.restore(&other, &target, |_| {}).unwrap_err();
    assert!(!error.found_only_others(), "{error}");
}
