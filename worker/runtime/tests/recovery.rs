//! State that was lost or damaged, and what brings it back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::type_complexity
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{
    Bed, MINUTE, Running, WAIT, app, borrowed, copy, events, eventually, last_results, ledger,
    metric, recent, state, ticking, until_through,
};
use rstest::rstest;
use serde_json::{Value, json};
use turbine_crds::control::TaskState;
use turbine_kafka::{Admin, KafkaSettings, PartitionReader, QueueBudget};
use turbine_protocol::{CommittedReceipt, EntryChecksum, GroupId, Receipt};
use turbine_runtime::worker::{Drained, WorkerConfig};
use turbine_state::checkpoint::{CheckpointSettings, Checkpointer};

/// Checkpoints come often, and windows close only at the end.
fn often() -> Value {
    let mut app = app();
    app["checkpoints"] = json!({"intervalMs": 100, "retain": 2});
    app["subscriptions"][0]["outOfOrdernessMs"] = json!(90_000);
    app
}

fn store(bed: &Bed) -> PathBuf {
    state(bed).join("s/0/1")
}

/// Checkpoints lie elsewhere, as in an object store.
fn checkpoints_elsewhere(bed: &Bed) -> WorkerConfig {
    let mut config = bed.config(&often(), ticking());
    let elsewhere = bed.path("elsewhere");
    config.checkpointer = Checkpointer::open(&CheckpointSettings::default(), &elsewhere).unwrap();
    config
}

fn until_checkpointed(running: &Running) {
    running.until("there is a checkpoint", |tasks| {
        tasks.iter().all(|task| {
            task.checkpoint
                .as_ref()
                .is_some_and(|checkpoint| checkpoint.last.is_some() && checkpoint.error.is_none())
        })
    });
}

/// Goes on with the rest, to the end of all windows; the last results must be those of a person with a ledger.
fn finish(bed: &Bed, running: Running, all: &[(String, i64, i64)], rest: &[(String, i64, i64)]) {
    let last = all.iter().map(|(_, _, ts)| *ts).max().unwrap();
    bed.produce_events(&borrowed(rest));
    let end: Vec<_> = (0..64)
        .map(|user| (format!("end-{user}"), 0, last + 5 * MINUTE))
        .collect();
    bed.produce_events(&borrowed(&end));
    let expected = ledger(all);
    eventually("all windows came out", || {
        let mut found = last_results(&bed.results());
        found.retain(|(user, _), _| !user.starts_with("end-"));
        if found == expected {
            Ok(())
        } else {
            Err(format!("{} of {}", found.len(), expected.len()))
        }
    });
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn a_store_that_is_gone_comes_back_from_the_volumes_own_checkpoint_as_it_was() {
    let bed = Bed::new(2);
    let events = events(recent(), 4_000);
    bed.produce_events(&borrowed(&events[..2_000]));
    let running = bed.start(&often(), ticking());
    running.until_caught_up(2_000);
    until_checkpointed(&running);
    assert_eq!(running.stop(), Drained::Whole);
    let before = bed.results().len();
    fs::remove_dir_all(state(&bed).join("s")).unwrap();

    let running = bed.start(&often(), ticking());
    until_through(&running);
    assert_eq!(metric(&running, "turbine_checkpoint_restores_total"), 2);
    // A clean stop makes a checkpoint of everything.
    let read: u64 = running.tasks().iter().map(|task| task.records).sum();
    assert_eq!((read, bed.results().len()), (0, before));
    finish(&bed, running, &events, &events[2_000..]);
}

#[test]
fn a_volume_that_is_gone_comes_back_from_a_checkpoint_elsewhere() {
    let bed = Bed::new(2);
    let events = events(recent(), 4_000);
    bed.produce_events(&borrowed(&events[..2_000]));
    let running = bed.start_with(checkpoints_elsewhere(&bed));
    running.until_caught_up(2_000);
    assert_eq!(running.stop(), Drained::Whole);
    fs::remove_dir_all(state(&bed)).unwrap();

    let running = bed.start_with(checkpoints_elsewhere(&bed));
    until_through(&running);
    assert_eq!(metric(&running, "turbine_checkpoint_restores_total"), 2);
    finish(&bed, running, &events, &events[2_000..]);
}

#[test]
fn an_older_checkpoint_reads_again_what_it_lacks_and_results_are_right() {
    let bed = Bed::new(2);
    let events = events(recent(), 4_000);
    bed.produce_events(&borrowed(&events[..1_000]));
    let running = bed.start_with(checkpoints_elsewhere(&bed));
    running.until_caught_up(1_000);
    assert_eq!(running.stop(), Drained::Whole);
    let kept = bed.path("kept");
    copy(&bed.path("elsewhere"), &kept);

    bed.produce_events(&borrowed(&events[1_000..3_000]));
    let running = bed.start_with(checkpoints_elsewhere(&bed));
    running.until_caught_up(2_000);
    assert_eq!(running.stop(), Drained::Whole);
    fs::remove_dir_all(state(&bed)).unwrap();
    fs::remove_dir_all(bed.path("elsewhere")).unwrap();
    fs::rename(kept, bed.path("elsewhere")).unwrap();

    let running = bed.start_with(checkpoints_elsewhere(&bed));
    running.until_caught_up(2_000);
    finish(&bed, running, &events, &events[3_000..]);
}

/// As where an older copy of the volume went on, and its worker died before the offset of its next entry was taken.
#[rstest]
#[case::and_reaches_further(10)]
#[case::and_reaches_less_far(-10)]
fn at_least_once_the_store_counts_where_a_receipt_of_its_number_is_of_another_entry(
    #[case] by: i64,
) {
    let bed = Bed::new(1);
    let events = events(recent(), 3_000);
    bed.produce_events(&borrowed(&events[..2_000]));
    let running = bed.start(&often(), ticking());
    running.until_caught_up(2_000);
    assert_eq!(running.stop(), Drained::Whole);

    let settings = KafkaSettings::plaintext(bed.broker.bootstrap_servers()).unwrap();
    let group = GroupId::of(&"a".parse().unwrap(), &"s".parse().unwrap());
    let (topic, partition) = ("in".parse().unwrap(), 0.try_into().unwrap());
    let committed = Admin::open(&settings)
        .unwrap()
        .committed_at(&group, &topic, partition, WAIT)
        .unwrap()
        .unwrap();
    let ours: Receipt = committed.metadata.parse().unwrap();
    let other = CommittedReceipt {
        offset: (committed.offset.get() + by).try_into().unwrap(),
        receipt: Receipt {
            checksum: EntryChecksum(!ours.checksum.0),
            ..ours
        },
    };
    let budget = QueueBudget::divided(32 << 20, 4);
    PartitionReader::open(
        &settings,
        &group,
        &topic,
        partition,
        committed.offset,
        budget,
    )
    .unwrap()
    .commit(&other, WAIT)
    .unwrap();

    let running = bed.start(&often(), ticking());
    finish(&bed, running, &events, &events[2_000..]);
}

#[test]
fn state_that_existed_and_has_no_checkpoint_is_not_begun_empty() {
    let bed = Bed::new(1);
    bed.produce_events(&borrowed(&events(recent(), 500)));
    let running = bed.start(&often(), ticking());
    running.until_caught_up(500);
    assert_eq!(running.stop(), Drained::Whole);
    fs::remove_dir_all(state(&bed)).unwrap();
    let running = bed.start(&often(), ticking());
    running.until("it halts", |tasks| tasks[0].state == TaskState::Halted);
    assert_eq!(running.task(0).halt.unwrap().reason, "StateMissing");
    assert_eq!(running.stop(), Drained::Whole);
    assert!(!store(&bed).exists());
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(ending))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no {ending} in {}", folder.display());
    found
}

fn lose_tables(store: &Path) {
    for table in files(store, ".sst") {
        fs::remove_file(table).unwrap();
    }
}

fn spoil_manifest(store: &Path) {
    for manifest in files(store, "MANIFEST") {
        fs::write(manifest, b"no manifest").unwrap();
    }
}

/// In place, so that checkpoints on the same volume have the same damage: they are the same files.
fn spoil_tables(store: &Path) {
    for table in files(store, ".sst") {
        let mut content = fs::read(&table).unwrap();
        for byte in &mut content {
            *byte ^= 0x55;
        }
        fs::write(table, content).unwrap();
    }
}

#[rstest]
#[case(lose_tables)]
#[case(spoil_manifest)]
fn a_damaged_store_is_kept_aside_and_its_checkpoint_takes_its_place(#[case] damage: fn(&Path)) {
    let bed = Bed::new(1);
    let events = events(recent(), 4_000);
    bed.produce_events(&borrowed(&events[..2_000]));
    let running = bed.start(&often(), ticking());
    running.until_caught_up(2_000);
    assert_eq!(running.stop(), Drained::Whole);
    damage(&store(&bed));

    let running = bed.start(&often(), ticking());
    until_through(&running);
    assert_eq!(metric(&running, "turbine_state_damaged_stores_total"), 1);
    assert!(state(&bed).join("s/0/1.damaged-1").is_dir());
    finish(&bed, running, &events, &events[2_000..]);
}

#[rstest]
#[case::no_checkpoint(lose_tables, true)]
#[case::damaged_checkpoints(spoil_tables, false)]
fn a_damaged_store_without_an_intact_checkpoint_stays_where_it_is_and_stops_the_task(
    #[case] damage: fn(&Path),
    #[case] without_checkpoints: bool,
) {
    let bed = Bed::new(1);
    bed.produce_events(&borrowed(&events(recent(), 2_000)));
    let running = bed.start(&often(), ticking());
    running.until_caught_up(2_000);
    assert_eq!(running.stop(), Drained::Whole);
    damage(&store(&bed));
    if without_checkpoints {
        fs::remove_dir_all(state(&bed).join("_checkpoints")).unwrap();
    }
    let running = bed.start(&often(), ticking());
    running.until("it halts", |tasks| tasks[0].state == TaskState::Halted);
    assert_eq!(running.task(0).halt.unwrap().reason, "StateDamaged");
    assert_eq!(running.stop(), Drained::Whole);
    assert!(store(&bed).is_dir());
    assert!(!state(&bed).join("s/0/1.damaged-1").exists());
}

#[test]
fn a_place_of_checkpoints_that_cannot_be_written_is_told_and_stops_nobody() {
    let bed = Bed::new(1);
    let events = events(recent(), 2_000);
    bed.produce_events(&borrowed(&events[..1_000]));
    let running = bed.start(&often(), ticking());
    running.until_caught_up(1_000);
    until_checkpointed(&running);
    // A file stands where the folder should be.
    let folder = state(&bed).join("_checkpoints/s/0/1/files");
    let aside = bed.path("aside");
    let in_the_way = bed.write("in-the-way", "no folder");
    fs::rename(&folder, &aside).unwrap();
    eventually("it is in the way", || {
        // A checkpoint that was under way may make the folder anew.
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&in_the_way, &folder).map_err(|error| error.to_string())
    });
    bed.produce_events(&borrowed(&events[1_000..1_500]));
    running.until("it says that there is no new checkpoint", |tasks| {
        let checkpoint = tasks[0].checkpoint.as_ref();
        checkpoint.is_some_and(|known| known.error.is_some())
    });
    let before = metric(&running, "turbine_checkpoint_failures_total");
    eventually("it is tried again", || {
        let tries = metric(&running, "turbine_checkpoint_failures_total");
        if tries > before {
            Ok(())
        } else {
            Err(tries.to_string())
        }
    });
    running.until_caught_up(1_500);
    fs::remove_file(&folder).unwrap();
    eventually("it is out of the way", || {
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&aside, &folder).map_err(|error| error.to_string())
    });
    until_checkpointed(&running);
    finish(&bed, running, &events, &events[1_500..]);
}
