//! What a store holds and what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use common::{
    app, budget, close, commit, content, identity, lineage, partition, positions, save, task,
    volume,
};
use rstest::rstest;
use tempfile::tempdir;
use turbine_protocol::start::StoreEvidence;
use turbine_protocol::{
    Category, Change, Entry, EntryChecksum, EntryNumber, Fault, Frontier, StoreEpoch,
    StoreIdentity, VolumeMarker,
};
use turbine_state::{
    FoundStore, Progress, StateBudget, StateError, StateVolume, TaskState, TaskStore,
};

fn number(n: i64) -> EntryNumber {
    n.try_into().unwrap()
}

#[test]
fn a_commit_is_there_after_a_restart_with_its_positions_and_clocks() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let mut store = volume.create_store(&identity(), &positions(100)).unwrap();
    commit(&mut store, 110, &[(b"a", Some(b"1")), (b"b", Some(b"2"))]).unwrap();
    commit(&mut store, 120, &[(b"a", None), (b"c", Some(b""))]).unwrap();
    let progress = store.progress().clone();
    close(store);

    let store = volume.open_store(&identity()).unwrap().unwrap();
    assert_eq!(*store.progress(), progress);
    assert_eq!(progress.number, number(2));
    assert_eq!(progress.positions, positions(120));
    assert_eq!(progress.frontier, Frontier(Some(120_000)));
    assert_eq!(progress.clocks, 120_i64.to_be_bytes());
    let expected = [(b"b".to_vec(), b"2".to_vec()), (b"c".to_vec(), Vec::new())];
    assert_eq!(content(&store), expected.into());
    let mut found = Vec::new();
    store
        .get_many(&[b"a", b"b", b"c"], &mut |at, value| {
            found.push((at, value.to_vec()));
        })
        .unwrap();
    assert_eq!(found, [(1, b"2".to_vec()), (2, Vec::new())]);
}

#[test]
fn a_scan_goes_by_key_and_ends_when_told() {
    let folder = tempdir().unwrap();
    let mut store = volume(folder.path())
        .create_store(&identity(), &positions(0))
        .unwrap();
    let keys: [&[u8]; 3] = [&[0xf0, 0, 1], &[0, 0, 2], &[0, 64, 3]];
    let changes = keys.map(|key| (key, Some(&b"v"[..])));
    commit(&mut store, 1, &changes).unwrap();
    save(&mut store, &changes).unwrap();
    let seen = |from: &[u8], to: Option<&[u8]>, most: usize| {
        let mut seen = Vec::new();
        store
            .scan(from, to, &mut |key, _| {
                seen.push(key.to_vec());
                if seen.len() == most {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        seen
    };
    assert_eq!(seen(&[], None, 2), [vec![0, 0, 2], vec![0, 64, 3]]);
    assert_eq!(seen(&[0, 1], Some(&[0xf0]), 9), [vec![0, 64, 3]]);
    assert_eq!(seen(&[0, 64, 3], None, 9).len(), 2);
}

#[test]
fn a_fresh_store_stands_where_it_was_told_and_is_not_made_twice() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    assert!(volume.open_store(&identity()).unwrap().is_none());
    let store = volume.create_store(&identity(), &positions(100)).unwrap();
    assert_eq!(store.progress().number, EntryNumber::ZERO);
    close(store);
    assert!(matches!(
        volume.create_store(&identity(), &positions(0)),
        Err(StateError::AlreadyThere { .. })
    ));
    let found = volume.find(&identity()).unwrap();
    match found.evidence().unwrap() {
        StoreEvidence::Present(progress) => assert_eq!(progress.position.get(), 100),
        StoreEvidence::Absent => panic!("the store is there"),
    }
}

#[test]
fn a_store_of_something_else_is_refused_with_both_and_left_as_it_is() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
    commit(&mut store, 1, &[(b"k", Some(b"v"))]).unwrap();
    close(store);

    let mut other_app = identity();
    other_app.app_id = app("b");
    let mut other_life = identity();
    other_life.lineage = lineage(2);
    let mut other_key = identity();
    other_key.key = "tenant".to_owned();
    let mut other_groups = identity();
    other_groups.key_groups = 720;
    let mut later_format = identity();
    later_format.format += 1;
    for (expected, field, value) in [
        (other_app, "appId", "`b`"),
        (
            other_life,
            "lineage",
            "00000000-0000-0000-0000-000000000002",
        ),
        (other_key, "key", "`tenant`"),
        (other_groups, "keyGroups", "`720`"),
        (later_format, "format", "`3`"),
    ] {
        let refusal = volume.open_store(&expected).unwrap_err();
        assert!(
            matches!(refusal, StateError::OtherStore { .. }),
            "{refusal:?}"
        );
        let text = refusal.to_string();
        assert!(text.contains(field) && text.contains(value), "{text}");
        assert!(
            matches!(volume.find(&expected).unwrap(), FoundStore::Other(found)
            if found.identity == identity() && found.number == number(1))
        );
    }
    let store = volume.open_store(&identity()).unwrap().unwrap();
    assert_eq!(content(&store).len(), 1);
}

#[test]
fn a_commit_that_does_not_follow_the_last_is_refused_and_changes_nothing() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
    commit(&mut store, 1, &[]).unwrap();
    for (wrong, epoch) in [(1, 1), (3, 1), (2, 2)] {
        let refusal = store.commit(&Entry {
            task: &task(),
            store_epoch: StoreEpoch::try_from(epoch).unwrap(),
            number: number(wrong),
            positions: &positions(9),
            frontier: Frontier(None),
            clocks: &[],
            changes: &[],
        });
        assert!(matches!(refusal, Err(StateError::OutOfOrder { .. })));
    }
    assert_eq!(store.progress().positions, positions(1));
    assert_eq!(commit(&mut store, 2, &[]).unwrap(), number(2));
}

#[test]
fn what_was_committed_and_not_saved_comes_from_the_journal_and_what_was_saved_does_not() {
    let folder = tempdir().unwrap();
    let mut all = BTreeMap::new();
    {
        let volume = volume(folder.path());
        let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
        for n in 1_i64..=60 {
            let (key, value) = (vec![0, 0, u8::try_from(n % 7).unwrap()], n.to_be_bytes());
            let removed = n % 5 == 0;
            let change = [(&key[..], (!removed).then_some(&value[..]))];
            commit(&mut store, n, &change).unwrap();
            if removed {
                all.remove(&key);
            } else {
                all.insert(key.clone(), value.to_vec());
            }
            if n == 40 {
                // What a live table would hand over: all keys as they are, and what is gone.
                let changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..7)
                    .map(|k| vec![0, 0, k])
                    .map(|key| (key.clone(), all.get(&key).cloned()))
                    .collect();
                let changes: Vec<(&[u8], Option<&[u8]>)> = changes
                    .iter()
                    .map(|(key, value)| (&key[..], value.as_deref()))
                    .collect();
                save(&mut store, &changes).unwrap();
                assert_eq!(content(&store), all);
            }
        }
        // Neither saved nor closed.
    }
    let volume = volume(folder.path());
    let store = volume.open_store(&identity()).unwrap().unwrap();
    assert_eq!(content(&store), all);
    assert_eq!(store.progress().number, number(60));
}

#[test]
fn only_a_store_that_was_closed_with_everything_saved_says_that_it_was_stopped_cleanly() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let reopened = || volume.open_store(&identity()).unwrap().unwrap();
    let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
    commit(&mut store, 1, &[(b"k", Some(b"v"))]).unwrap();
    close(store);
    let mut store = reopened();
    assert!(
        !store.progress().cleanly_stopped,
        "the commit was not saved"
    );
    save(&mut store, &[]).unwrap();
    close(store);
    let mut store = reopened();
    assert!(store.progress().cleanly_stopped);
    commit(&mut store, 2, &[]).unwrap();
    assert!(!store.progress().cleanly_stopped);
    save(&mut store, &[]).unwrap();
    drop(store);
    assert!(!reopened().progress().cleanly_stopped, "it was not closed");
}

#[test]
fn entries_of_a_discarded_store_do_not_reach_the_next_one() {
    let folder = tempdir().unwrap();
    {
        let volume = volume(folder.path());
        let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
        commit(&mut store, 1, &[(b"old", Some(b"1"))]).unwrap();
        drop(store);
        volume
            .discard_store(&task(), identity().store_epoch)
            .unwrap();
        let mut store = volume.create_store(&identity(), &positions(5)).unwrap();
        commit(&mut store, 6, &[(b"new", Some(b"2"))]).unwrap();
    }
    let volume = volume(folder.path());
    let store = volume.open_store(&identity()).unwrap().unwrap();
    let expected = [(b"new".to_vec(), b"2".to_vec())];
    assert_eq!(content(&store), expected.into());
    assert_eq!(store.progress().positions, positions(6));
}

#[test]
fn a_volume_that_another_process_runs_on_is_in_use() {
    let folder = tempdir().unwrap();
    let running = volume(folder.path());
    let store = running.create_store(&identity(), &positions(0)).unwrap();
    let error = volume(folder.path()).open_store(&identity()).unwrap_err();
    assert!(matches!(error, StateError::InUse { .. }), "{error:?}");
    close(store);
    drop(running);
    assert!(volume(folder.path()).open_store(&identity()).is_ok());
}

#[test]
fn an_entry_that_is_missing_in_the_journal_is_damage() {
    let folder = tempdir().unwrap();
    {
        let volume = volume(folder.path());
        let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
        for n in 1..4 {
            commit(&mut store, n, &[(b"k", Some(b"v"))]).unwrap();
        }
    }
    let segment = folder.path().join("_journal/00000000000000000001.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let error = volume(folder.path()).open_store(&identity()).unwrap_err();
    // The journal is named: a store that is whole must not be taken for the damaged one.
    let StateError::Damaged { path, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(path.starts_with(folder.path().join("_journal")), "{error}");
    assert!(!error.passes_by_itself());
}

#[test]
fn a_store_in_use_is_no_damage() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let store = volume.create_store(&identity(), &positions(0)).unwrap();
    let error = volume.open_store(&identity()).unwrap_err();
    assert!(matches!(error, StateError::InUse { .. }), "{error:?}");
    assert!(error.passes_by_itself());
    close(store);
    assert!(volume.open_store(&identity()).unwrap().is_some());
}

#[test]
fn a_damaged_file_is_damage_and_no_store_in_use() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let store = volume.create_store(&identity(), &positions(0)).unwrap();
    let path = store.path().to_owned();
    close(store);
    let manifest = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("MANIFEST")
        })
        .unwrap();
    let mut bytes = std::fs::read(&manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&manifest, bytes).unwrap();
    let error = volume.open_store(&identity()).unwrap_err();
    assert!(matches!(error, StateError::Damaged { .. }), "{error:?}");
    assert!(!error.passes_by_itself());
}

#[test]
fn a_discarded_store_is_gone_and_others_are_not() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    close(volume.create_store(&identity(), &positions(0)).unwrap());
    let mut later = identity();
    later.store_epoch = StoreEpoch::try_from(2).unwrap();
    close(volume.create_store(&later, &positions(7)).unwrap());
    volume
        .discard_store(&task(), identity().store_epoch)
        .unwrap();
    volume
        .discard_store(&task(), identity().store_epoch)
        .unwrap();
    assert!(volume.open_store(&identity()).unwrap().is_none());
    assert!(volume.open_store(&later).unwrap().is_some());
}

#[test]
fn a_volume_says_whose_it_is() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    assert_eq!(volume.marker().unwrap(), None);
    for epoch in [1, 2] {
        let marker = VolumeMarker {
            app_id: app("a"),
            lineage: lineage(1),
            layout_epoch: epoch.try_into().unwrap(),
        };
        volume.mark(&marker).unwrap();
        assert_eq!(volume.marker().unwrap(), Some(marker));
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_told_with_user_and_mode_and_not_touched() {
    let folder = tempdir().unwrap();
    // A file in the folder's place stops every user, root as well.
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "keep").unwrap();
    let root = blocked.join("state");
    let error = StateVolume::open(&root, budget()).unwrap_err();
    assert!(matches!(error, StateError::NotWritable { .. }), "{error:?}");
    assert_eq!(error.category(), Category::Storage);
    let text = error.to_string();
    assert!(
        text.contains("fsGroup") && text.contains(&*root.to_string_lossy()),
        "{text}"
    );
    assert_eq!(std::fs::read(&blocked).unwrap(), b"keep");
}

#[rstest]
#[case::of_a_small_pod(12, 12, 40 << 20, 10)]
// A fifth of 512 MiB, and three subscriptions of 12 partitions: at 64 MiB of write buffer each it would be 2.25 GiB. A worker
// does not know their number when it shares its memory out, and says 32.
#[case::of_three_subscriptions(36, 32, (512 << 20) / 5, 4)]
fn many_stores_stay_within_one_budget(
    #[case] stores: usize,
    #[case] shared_by: usize,
    #[case] bytes: usize,
    #[case] rounds: i64,
) {
    let folder = tempdir().unwrap();
    let budget = StateBudget::new(bytes, shared_by).unwrap();
    let volume = StateVolume::open(folder.path(), budget.clone()).unwrap();
    let value = vec![b'v'; 1000];
    let mut open = Vec::new();
    for at in 0..stores {
        let mut identity = identity();
        identity.store_epoch = i64::try_from(at).unwrap().try_into().unwrap();
        let mut store = volume.create_store(&identity, &positions(0)).unwrap();
        for round in 0..rounds {
            let keys: Vec<[u8; 8]> = (0..1000_i64)
                .map(|key| (round * 1000 + key).to_be_bytes())
                .collect();
            let changes: Vec<(&[u8], Option<&[u8]>)> = keys
                .iter()
                .map(|key| (&key[..], Some(&value[..])))
                .collect();
            commit(&mut store, round + 1, &changes).unwrap();
            save(&mut store, &changes).unwrap();
        }
        open.push(store);
    }
    // More was written; the bound is soft, so a buffer that is being flushed may come on top.
    let within = || {
        let used = budget.used();
        assert!(used < bytes / 5 * 6, "{used} bytes in use of {bytes}");
    };
    within();
    let keys = usize::try_from(rounds * 1000).unwrap();
    assert!(keys * stores * value.len() > bytes);
    for store in &open {
        assert_eq!(content(store).len(), keys);
        within();
    }
}

#[test]
#[ignore = "needs a volume of 16 to 64 MiB at TURBINE_SMALL_VOLUME"]
fn a_full_volume_is_told_with_its_bytes_and_works_again_once_there_is_room() {
    let root = std::env::var_os("TURBINE_SMALL_VOLUME").expect("TURBINE_SMALL_VOLUME is a folder");
    let folder = tempfile::tempdir_in(root).unwrap();
    let ballast = folder.path().join("ballast");
    std::fs::write(&ballast, vec![0; 8 << 20]).unwrap();
    let volume = volume(&folder.path().join("state"));
    let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
    let mut last = 0;
    let error = loop {
        // Hardly to be compressed, so that the volume fills as fast as it is written.
        let value: Vec<u8> = (0..64 << 10_u32)
            .map(|at: u32| (at.wrapping_mul(2_654_435_761).rotate_left(last % 32) >> 13) as u8)
            .collect();
        match commit(&mut store, 1, &[(&last.to_be_bytes(), Some(&value))]) {
            Ok(n) => last = u32::try_from(n.get()).unwrap(),
            Err(error) => break error,
        }
        assert!(last < 10_000, "the volume does not fill");
    };
    assert!(matches!(error, StateError::Full { .. }), "{error:?}");
    assert!(error.passes_by_itself());
    assert!(matches!(
        commit(&mut store, 2, &[]),
        Err(StateError::Broken { .. })
    ));
    drop(store);

    std::fs::remove_file(&ballast).unwrap();
    let mut store = volume.open_store(&identity()).unwrap().unwrap();
    let n = store.progress().number.get();
    let last = i64::from(last);
    assert!(n == last || n == last + 1, "acknowledged {last}, found {n}");
    assert_eq!(content(&store).len(), usize::try_from(n).unwrap());
    commit(&mut store, 3, &[(b"more", Some(b"v"))]).unwrap();
}

fn prepare(
    store: &mut TaskStore,
    next: i64,
    changes: &[(&[u8], Option<&[u8]>)],
) -> Result<(), StateError> {
    let number = store.progress().number.next();
    let changes: Vec<Change<'_>> = changes
        .iter()
        .map(|(key, value)| Change { key, value: *value })
        .collect();
    store
        .prepare(&Entry {
            task: &task(),
            store_epoch: store.identity().store_epoch,
            number,
            positions: &positions(next),
            frontier: Frontier(Some(next)),
            clocks: b"of the prepared one",
            changes: &changes,
        })
        .map(drop)
}

#[test]
fn a_prepared_entry_is_durable_and_does_not_count_until_it_is_applied() {
    let folder = tempdir().unwrap();
    let volume = volume(folder.path());
    let mut store = volume.create_store(&identity(), &positions(0)).unwrap();
    commit(&mut store, 10, &[(b"a", Some(b"1")), (b"b", Some(b"1"))]).unwrap();
    save(&mut store, &[(b"a", Some(b"1")), (b"b", Some(b"1"))]).unwrap();
    let before = content(&store);
    let changes: [(&[u8], Option<&[u8]>); 3] =
        [(b"a", Some(b"2")), (b"b", None), (b"c", Some(b""))];
    for applied in [false, true] {
        prepare(&mut store, 20, &changes).unwrap();
        assert_eq!(
            (content(&store), store.progress().number.get()),
            (before.clone(), 1)
        );
        assert!(matches!(
            commit(&mut store, 30, &[]),
            Err(StateError::OutOfOrder { .. })
        ));
        close(store);
        store = volume.open_store(&identity()).unwrap().unwrap();
        assert_eq!(content(&store), before);
        let prepared = store.prepared().unwrap();
        assert_eq!(
            (
                prepared.number.get(),
                &prepared.positions,
                &prepared.clocks[..]
            ),
            (2, &positions(20), &b"of the prepared one"[..])
        );
        if applied {
            store.apply_prepared().unwrap();
        } else {
            store.cancel_prepared().unwrap();
        }
        assert!(store.prepared().is_none());
        close(store);
        store = volume.open_store(&identity()).unwrap().unwrap();
        assert!(store.prepared().is_none());
    }
    let after: Vec<(Vec<u8>, Vec<u8>)> = content(&store).into_iter().collect();
    assert_eq!(
        after,
        [(b"a".to_vec(), b"2".to_vec()), (b"c".to_vec(), Vec::new())]
    );
    assert_eq!(store.progress().positions, positions(20));
    assert!(store.progress().by_transaction);
    assert_eq!(commit(&mut store, 30, &[]).unwrap().get(), 3);
    assert!(!store.progress().by_transaction);
    assert!(store.apply_prepared().is_err() && store.cancel_prepared().is_err());
    close(store);
}

/// Once with the number of what was committed elsewhere, once with its own, half way to that.
#[test]
fn a_state_that_is_set_somewhere_else_takes_in_nothing_that_the_journal_has_of_it() {
    for to in [7, 2] {
        let folder = tempdir().unwrap();
        let one = volume(folder.path());
        let mut store = one.create_store(&identity(), &positions(0)).unwrap();
        commit(&mut store, 10, &[(b"a", Some(b"1")), (b"b", Some(b"1"))]).unwrap();
        save(&mut store, &[(b"a", Some(b"1")), (b"b", Some(b"1"))]).unwrap();
        commit(&mut store, 20, &[(b"a", Some(b"2")), (b"c", Some(b"2"))]).unwrap();
        prepare(&mut store, 30, &[(b"a", Some(b"3")), (b"d", Some(b"3"))]).unwrap();
        close(store);
        let mut store = one.open_store(&identity()).unwrap().unwrap();
        assert_eq!(store.prepared().unwrap().number.get(), 3);
        let there = Progress {
            number: number(to),
            checksum: EntryChecksum(9),
            positions: positions(50),
            frontier: Frontier(Some(5)),
            by_transaction: true,
            cleanly_stopped: false,
            clocks: b"of there".to_vec(),
        };
        let mut puts = [(&b"a"[..], &b"5"[..]), (b"e", b"5")].into_iter();
        store
            .rebase(&there, &[&b"b"[..]..&b"c"[..]], &mut puts)
            .unwrap();
        let expected: BTreeMap<Vec<u8>, Vec<u8>> = [("a", "5"), ("c", "2"), ("e", "5")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        // As a crash leaves it: nothing is closed in order.
        for _ in 0..2 {
            assert_eq!(
                (content(&store), store.progress()),
                (expected.clone(), &there)
            );
            assert!(store.prepared().is_none());
            drop(store);
            store = one.open_store(&identity()).unwrap().unwrap();
        }
        // Numbers that the journal has had are given anew.
        commit(&mut store, 60, &[(b"c", Some(b"6"))]).unwrap();
        prepare(&mut store, 70, &[(b"d", Some(b"7"))]).unwrap();
        drop(store);
        let store = one.open_store(&identity()).unwrap().unwrap();
        assert_eq!(store.progress().number, number(to + 1));
        assert_eq!(content(&store)[&b"c"[..]], b"6");
        assert_eq!(store.prepared().unwrap().number, number(to + 2));
    }
}

#[test]
fn a_store_that_idles_after_a_crash_holds_no_segment_back() {
    let folder = tempdir().unwrap();
    let other = || StoreIdentity {
        partition: partition(4),
        ..identity()
    };
    let changes: &[(&[u8], Option<&[u8]>)] = &[(b"k", Some(b"v"))];
    {
        let volume = volume(folder.path());
        let mut idle = volume.create_store(&identity(), &positions(0)).unwrap();
        commit(&mut idle, 1, changes).unwrap();
        save(&mut idle, changes).unwrap();
        // Dropped as a kill leaves it.
    }
    let volume = volume(folder.path());
    let idle = volume.open_store(&identity()).unwrap().unwrap();
    let mut busy = volume.create_store(&other(), &positions(0)).unwrap();
    let segments = || {
        std::fs::read_dir(folder.path().join("_journal"))
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().ends_with(".log")
            })
            .count()
    };
    let value = vec![7; 4 << 20];
    for number in 1..20 {
        busy.commit(&Entry {
            task: &other().task(),
            store_epoch: other().store_epoch,
            number: busy.progress().number.next(),
            positions: &positions(number),
            frontier: Frontier(None),
            clocks: &[],
            changes: &[Change {
                key: b"k",
                value: Some(&value),
            }],
        })
        .unwrap();
    }
    assert!(segments() > 2, "too little for several segments");
    save(&mut busy, changes).unwrap();
    assert_eq!(segments(), 1);
    drop(idle);
}
