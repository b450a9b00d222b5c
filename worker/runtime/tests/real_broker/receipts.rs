//! Receipts that the broker forgot or never got.

use std::sync::Arc;

use serde_json::{Value, json};
use turbine_kafka::{DeleteOutcome, PartitionReader, QueueBudget};
use turbine_protocol::{CommittedReceipt, GroupId, Receipt};

use super::common::{TestClock, WAIT, eventually, has_looked};
use super::{Bed, MINUTE, copy, good, recent};

const DAY: i64 = 24 * 60 * MINUTE;

fn exactly_once(app: &mut Value) {
    app["subscriptions"][0]["processingGuarantee"] = json!("exactlyOnce");
}

fn group(bed: &Bed) -> GroupId {
    GroupId::of(&bed.app_id().parse().unwrap(), &"s".parse().unwrap())
}

/// The group's offset with its metadata. Transactions that are being committed are waited for.
fn committed(bed: &Bed) -> Option<(i64, String)> {
    let (topic, partition) = (bed.name("in").parse().unwrap(), 0.try_into().unwrap());
    let committed = bed
        .admin
        .committed_at(&group(bed), &topic, partition, WAIT)
        .unwrap();
    committed.map(|committed| (committed.offset.get(), committed.metadata))
}

fn forget(bed: &Bed) {
    let outcome = bed.admin.delete_group(&group(bed), WAIT).unwrap();
    assert!(matches!(outcome, DeleteOutcome::Deleted), "{outcome:?}");
    assert_eq!(committed(bed), None);
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn exactly_once_an_idle_task_renews_its_receipt_once_a_day_and_when_it_stops() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    bed.produce(&[good(t0), good(t0 + 1)]);
    let clock = TestClock::at(t0 + 60 * MINUTE);
    let running = bed.start_by(&bed.all, Arc::clone(&clock) as _, exactly_once);
    running.until("the records are folded", |task| task.records == 2);
    clock.advance(1_000);
    running.until_caught_up(2);
    let receipt = committed(&bed).unwrap();
    assert_eq!(receipt.0, 2);
    assert!(receipt.1.parse::<Receipt>().is_ok(), "{receipt:?}");

    for day in 1..=2 {
        forget(&bed);
        clock.advance(DAY - 1);
        has_looked(&running.worker);
        assert_eq!(committed(&bed), None, "day {day}: sooner than it is due");
        clock.advance(1);
        eventually("the receipt is renewed", || match committed(&bed) {
            Some(renewed) if renewed == receipt => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    forget(&bed);
    running.stop();
    assert_eq!(committed(&bed), Some(receipt));
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn exactly_once_goes_on_without_its_receipt_after_a_clean_stop_and_not_after_a_crash() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    let produce = |seconds: std::ops::Range<i64>| {
        bed.produce(&seconds.map(|at| good(t0 + at * 1_000)).collect::<Vec<_>>());
    };
    let (state, crashed) = (
        bed.folder.path().join("state"),
        bed.folder.path().join("crashed"),
    );
    produce(0..50);
    let running = bed.start(exactly_once);
    running.until_caught_up(50);
    // Nothing moves, so this is what a kill would leave.
    copy(&state, &crashed);
    running.stop();
    assert_eq!(committed(&bed).unwrap().0, 50);

    forget(&bed);
    produce(50..130);
    let running = bed.start(exactly_once);
    running.until("the rest is committed", |task| task.position == Some(130));
    running.stop();
    let minute = |at: i64| ("u".to_owned(), t0 + at * MINUTE, 60);
    assert_eq!(bed.results(), [minute(0), minute(1)]);
    let (offset, metadata) = committed(&bed).unwrap();
    assert_eq!(offset, 130);
    assert!(metadata.parse::<Receipt>().is_ok(), "{metadata}");

    std::fs::remove_dir_all(&state).unwrap();
    copy(&crashed, &state);
    forget(&bed);
    let running = bed.start(exactly_once);
    running.until_halted("ReceiptMissing", &[], &[]);
    running.stop();
    assert_eq!(committed(&bed), None, "nothing was committed");
    assert_eq!(bed.results(), [minute(0), minute(1)]);
}

/// As a kill between the sync of the state and the commit of the offset leaves it.
#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn at_least_once_an_offset_that_a_crash_left_behind_is_committed_though_nothing_comes_to_read() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    bed.produce(&[good(t0)]);
    let running = bed.start(|_| {});
    running.until_caught_up(1);
    let (offset, metadata) = committed(&bed).unwrap();
    let first = CommittedReceipt {
        offset: offset.try_into().unwrap(),
        receipt: metadata.parse().unwrap(),
    };
    bed.produce(&[good(t0), good(t0 + 1)]);
    running.until_caught_up(3);
    let last = committed(&bed).unwrap();
    assert_eq!(last.0, 3);
    let (state, crashed) = (
        bed.folder.path().join("state"),
        bed.folder.path().join("crashed"),
    );
    // Nothing moves, so this is what a kill would leave.
    copy(&state, &crashed);
    running.stop();
    std::fs::remove_dir_all(&state).unwrap();
    copy(&crashed, &state);

    let (topic, partition) = (bed.name("in").parse().unwrap(), 0.try_into().unwrap());
    let budget = QueueBudget::divided(64 << 20, 1);
    PartitionReader::open(
        &bed.all,
        &group(&bed),
        &topic,
        partition,
        first.offset,
        budget,
    )
    .unwrap()
    .commit(&first, WAIT)
    .unwrap();
    assert_eq!(committed(&bed).unwrap().0, 1);

    let running = bed.start(|_| {});
    eventually("the offset is brought up", || match committed(&bed) {
        Some(now) if now == last => Ok(()),
        other => Err(format!("{other:?}")),
    });
    running.stop();
}
