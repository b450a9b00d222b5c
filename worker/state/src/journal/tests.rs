//! The journal on a file system that forgets what was not synced.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use turbine_protocol::journal::RecordKind;
use turbine_protocol::{Entry, Frontier};

use super::*;
use crate::files::forgetful::ForgetfulFiles;

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
    let files = ForgetfulFiles::with("/journal");
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
    let files = ForgetfulFiles::with("/journal");
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
    let files = ForgetfulFiles::with("/journal");
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
    let files = ForgetfulFiles::with("/journal");
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
    journal.begin_life(Life(78));
    assert_eq!(journal.records(Life(78)), Ok(Vec::new()));
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
fn damage_that_went_with_its_segment_does_not_hide_a_later_one() {
    let at = |segment| Damage { segment, offset: 0 };
    let mut index = Index::default();
    let found = RecordRef {
        record: Record {
            kind: RecordKind::Entry,
            number: number(1),
        },
        segment: 2,
        payload_at: 0,
        payload: 0,
        checksum: 0,
    };
    index.begin_segment(1, 10);
    index.damaged(at(1));
    index.add(Life(0), None, found, 10);
    index.damaged(at(3));
    index.begin_segment(3, 10);
    assert_eq!(index.doubt(Life(0)), Some(at(3)));
    assert_eq!(index.take_released(3), [1]);
    assert_eq!(index.doubt(Life(0)), Some(at(3)));
}

#[test]
fn a_failed_sync_is_the_end() {
    let files = ForgetfulFiles::with("/journal");
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
    let files = ForgetfulFiles::with("/journal");
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
    let files = ForgetfulFiles::with("/journal");
    let journal = open(&files).unwrap();
    let first = append(&journal, 0, 1, b"a").unwrap();
    let second = append(&journal, 1, 1, b"b").unwrap();
    journal.sync(second).unwrap();
    // The second sync has nothing to do: a disk that fails now is not asked.
    files.disk().fail_syncs = true;
    journal.sync(first).unwrap();
}
