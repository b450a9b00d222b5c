//! The rules by themselves: what a manifest says, which one is taken, what is deleted.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::choice::{Found, Objects, choose};
use super::super::manifest::{Checksum, KeyRange, Manifest, ManifestFile, Sequence};
use super::super::prune::plan;
use super::super::refusal::Refusal;
use super::*;

fn file(name: &str, content: u8) -> ManifestFile {
    ManifestFile {
        name: name.to_owned().try_into().unwrap(),
        size: u64::from(content) + 1,
        sha256: Checksum::of(&[content]),
        keys: content.is_multiple_of(2).then(|| KeyRange {
            smallest: vec![0, content],
            largest: vec![0xff; 3],
        }),
    }
}

fn manifest(sequence: u64, app: &str, contents: &[u8]) -> Manifest {
    let told = meta(i64::try_from(sequence).unwrap() + 1).progress;
    let mut files: Vec<_> = contents
        .iter()
        .map(|content| file(&format!("{content:06}.sst"), *content))
        .collect();
    files.push(file("CURRENT", 0));
    Manifest {
        sequence: Sequence(sequence),
        identity: identity(app),
        entry: told.number,
        entry_checksum: told.checksum,
        positions: told.positions,
        frontier: told.frontier,
        by_transaction: sequence % 2 == 1,
        made_at_ms: 1_700_000_000_000,
        files,
    }
}

#[test]
fn names_of_manifests_sort_as_their_numbers_and_nothing_else_is_one() {
    let name = Sequence(1).manifest_name();
    assert_eq!(name, "00000000000000000001.json");
    assert_eq!(Sequence::of_manifest(&name), Some(Sequence(1)));
    let all: Vec<_> = [0, 9, 10, u64::MAX]
        .map(|n| Sequence(n).manifest_name())
        .into();
    assert!(all.is_sorted());
    for other in [
        "1.json",
        "00000000000000000001.json.new",
        "+0000000000000000001.json",
        ".check",
    ] {
        assert_eq!(Sequence::of_manifest(other), None, "{other}");
    }
}

#[test]
fn the_document_is_what_the_docs_say() {
    let document = manifest(4, "fraud", &[2]).to_json().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["formatVersion"], 1);
    let checkpoint = &document["checkpoint"];
    assert_eq!(checkpoint["sequence"], 4);
    assert_eq!(checkpoint["identity"]["appId"], "fraud");
    assert_eq!(checkpoint["entry"], 5);
    assert_eq!(checkpoint["positions"][0]["next"], 500);
    // Computed by `printf '\x02' | sha256sum`.
    let sum = "dbc1b4c900ffe48d575b5da5c638040125f65db0fe3e24494b76ea986457d986";
    assert_eq!(checkpoint["files"][0]["sha256"], sum);
    assert_eq!(checkpoint["files"][0]["keys"]["smallest"], "0002");
    let (_, file) = (0, &manifest(4, "fraud", &[2]).files[0]);
    assert_eq!(file.object_name(), format!("000002.sst-{sum}"));
}

proptest! {
    #[test]
    fn a_manifest_reads_back_and_any_changed_byte_is_refused(
        sequence in 0_u64..1000,
        contents in proptest::collection::btree_set(any::<u8>(), 0..5),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let contents: Vec<_> = contents.into_iter().collect();
        let written = manifest(sequence, "fraud", &contents);
        let mut stored = written.to_json().unwrap();
        let sequence = Sequence(sequence);
        prop_assert_eq!(Manifest::from_json(sequence, &stored), Ok(written.clone()));
        prop_assert!(Manifest::from_json(sequence.next(), &stored).is_err());
        let at = at.index(stored.len());
        let cut = Manifest::from_json(sequence, &stored[..at]);
        prop_assert!(matches!(cut, Err(Refusal::Damaged { .. })), "cut at {}", at);
        stored[at] ^= 1 << bit;
        // White space between the parts may change: it says nothing.
        match Manifest::from_json(sequence, &stored) {
            Ok(read) => prop_assert_eq!(read, written),
            Err(Refusal::Damaged { .. }) => {}
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}

/// What lies in a place: manifests of this store, of another, damaged or newer ones, and files.
#[derive(Debug, Clone)]
struct World {
    found: Vec<Found>,
    files: BTreeSet<String>,
}

fn one() -> impl Strategy<Value = (u8, Vec<u8>)> {
    (0..8_u8, proptest::collection::vec(1..12_u8, 0..4))
}

fn world() -> impl Strategy<Value = World> {
    let lost = proptest::collection::btree_set(1..12_u8, 0..4);
    (proptest::collection::vec(one(), 0..9), lost).prop_map(|(all, lost)| {
        let found: Vec<_> = (1..)
            .zip(all)
            .map(|(sequence, (kind, mut contents))| {
                contents.sort_unstable();
                contents.dedup();
                let read = match kind {
                    0 => Err(Refusal::Damaged {
                        detail: "cut".to_owned(),
                    }),
                    1 => Err(Refusal::NewerFormat { found: 9, known: 1 }),
                    2 => Ok(manifest(sequence, "orders", &contents)),
                    _ => Ok(manifest(sequence, "fraud", &contents)),
                };
                Found {
                    sequence: Sequence(sequence),
                    read,
                }
            })
            .collect();
        let files = (1..12_u8)
            .filter(|content| !lost.contains(content))
            .map(|content| file(&format!("{content:06}.sst"), content).object_name())
            .chain([file("CURRENT", 0).object_name()])
            .collect();
        World { found, files }
    })
}

fn sizes(files: &BTreeSet<String>) -> Objects {
    let size = |content: u8| {
        (
            file(&format!("{content:06}.sst"), content).object_name(),
            content,
        )
    };
    let all: BTreeMap<_, _> = (1..12).map(size).collect();
    let size = |name: &String| u64::from(all.get(name).copied().unwrap_or(0)) + 1;
    files
        .iter()
        .map(|name| (name.clone(), size(name)))
        .collect()
}

proptest! {
    #[test]
    fn deleting_never_takes_from_what_can_be_restored_or_is_another_s(
        world in world(),
        retain in 0..5_usize,
        reads in 0..9_u64,
    ) {
        let own = identity("fraud");
        let reading = BTreeSet::from([Sequence(reads)]);
        let plan = plan(&world.found, &world.files, &own, retain, &reading);
        let stays: Vec<Found> = world
            .found
            .iter()
            .filter(|one| !plan.manifests.contains(&one.sequence))
            .cloned()
            .collect();
        let files: BTreeSet<_> =
            world.files.iter().filter(|name| !plan.files.contains(name)).cloned().collect();

        let ours = |all: &[Found]| -> Vec<u64> {
            all.iter()
                .filter(|one| matches!(&one.read, Ok(read) if read.identity == own))
                .map(|one| one.sequence.0)
                .collect()
        };
        let (before, after) = (ours(&world.found), ours(&stays));
        let kept = retain.max(2).min(before.len());
        prop_assert!(after.ends_with(&before[before.len() - kept..]), "the newest stay");
        let expected: BTreeSet<_> = before[before.len() - kept..]
            .iter()
            .copied()
            .chain(before.iter().copied().filter(|one| *one == reads))
            .collect();
        prop_assert_eq!(after.into_iter().collect::<BTreeSet<_>>(), expected, "the others go");
        for one in &world.found {
            if matches!(&one.read, Ok(read) if read.identity != own) {
                prop_assert!(stays.contains(one), "another store's manifest stays");
            }
        }
        // Whatever could be restored of what stays still can be.
        let whole = choose(&stays, &sizes(&world.files), &own);
        prop_assert_eq!(choose(&stays, &sizes(&files), &own), whole);
        let other = identity("orders");
        let whole = choose(&stays, &sizes(&world.files), &other);
        prop_assert_eq!(choose(&stays, &sizes(&files), &other), whole);
        if stays.iter().any(|one| one.read.is_err()) {
            prop_assert_eq!(files, world.files, "an unreadable manifest may name any file");
        }
    }

    #[test]
    fn the_newest_whole_one_of_this_store_comes_first(world in world()) {
        let own = identity("fraud");
        let choice = choose(&world.found, &sizes(&world.files), &own);
        let whole: Vec<_> = world
            .found
            .iter()
            .rev()
            .filter_map(|one| one.read.as_ref().ok())
            .filter(|read| read.identity == own)
            .filter(|read| read.files.iter().all(|file| world.files.contains(&file.object_name())))
            .cloned()
            .collect();
        prop_assert_eq!(choice.refused.len(), world.found.len() - whole.len());
        prop_assert_eq!(choice.intact, whole);
    }
}

#[test]
fn one_damaged_manifest_is_put_aside_until_enough_came_after_it() {
    let damaged = |sequence| Found {
        sequence: Sequence(sequence),
        read: Err(Refusal::Damaged {
            detail: String::new(),
        }),
    };
    let good = |sequence| Found {
        sequence: Sequence(sequence),
        read: Ok(manifest(sequence, "fraud", &[])),
    };
    let (own, none) = (identity("fraud"), BTreeSet::new());
    let mut found = vec![damaged(1)];
    for sequence in 2..=4 {
        found.push(good(sequence));
        let plan = plan(&found, &none, &own, 3, &none_reading());
        if sequence < 4 {
            assert_eq!(
                (plan.manifests, plan.unreadable),
                (vec![], vec![Sequence(1)])
            );
        } else {
            assert_eq!(
                (plan.manifests, plan.unreadable),
                (vec![Sequence(1)], vec![])
            );
        }
    }
}

fn none_reading() -> BTreeSet<Sequence> {
    BTreeSet::new()
}
