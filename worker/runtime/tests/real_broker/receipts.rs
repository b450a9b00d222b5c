//! Exactly once where the broker forgets the receipt.

use std::sync::Arc;

use serde_json::{Value, json};
use turbine_kafka::DeleteOutcome;
use turbine_protocol::{GroupId, Receipt};

use super::common::{TestClock, WAIT, eventually};
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
        running.has_looked();
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
