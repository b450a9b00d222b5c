//! Exactly once, where the broker or the client refuses one record: the task halts, and nothing of it is in doubt.
//!
//! The broker within the process keeps no offsets of transactions, so the receipt that is there is that of a worker that ran at
//! least once and was killed.

use std::fs;

use rstest::rstest;
use serde_json::{Value, json};
use turbine_crds::control::TaskState;
use turbine_kafka::{KafkaSettings, Refusal};
use turbine_runtime::worker::{Drained, WorkerConfig};

use super::common::{
    Bed, MINUTE, Running, app, borrowed, copy, eventually, last_results, ledger, recent, state,
    ticking, until_through,
};

type Events = Vec<(String, i64, i64)>;

fn exactly_once() -> Value {
    let mut app = app();
    app["subscriptions"][0]["processingGuarantee"] = json!("exactlyOnce");
    app
}

fn with(bed: &Bed, property: &str, value: &str) -> WorkerConfig {
    let properties = [(property.to_owned(), value.to_owned())].into();
    let mut config = bed.config(&exactly_once(), ticking());
    config.kafka =
        KafkaSettings::new(bed.broker.bootstrap_servers(), None, None, properties).unwrap();
    config.limits.retry_most = std::time::Duration::from_millis(50);
    config
}

/// One window with two results, of which one is larger than a worker may be told to write; and the record that closes it.
fn events() -> Events {
    let t0 = recent();
    vec![
        ("u".to_owned(), 1, t0),
        // Key and value of its result are each as long.
        ("x".repeat(60_000), 2, t0 + 1),
        ("later".to_owned(), 0, t0 + 3 * MINUTE),
    ]
}

/// The volume as a kill leaves it that comes once the first two are committed.
fn killed(bed: &Bed, events: &Events) {
    bed.produce_events(&borrowed(&events[..2]));
    let running = bed.start(&app(), ticking());
    running.until_caught_up(2);
    let kept = bed.path("kept");
    // Nothing moves, so this is what a kill would leave.
    copy(&state(bed), &kept);
    assert_eq!(running.stop(), Drained::Whole);
    fs::remove_dir_all(state(bed)).unwrap();
    copy(&kept, &state(bed));
}

fn until_halted(running: &Running, reason: &str, in_doubt: bool) {
    running.until(reason, |tasks| {
        tasks[0].state == TaskState::Halted
            && tasks[0].halt.as_ref().is_some_and(|halt| {
                halt.reason == reason
                    && halt.person_must_act
                    && halt.message.contains("could not be stopped in order") == in_doubt
            })
    });
}

/// Another broker, which has the records and no receipt: as after days in which nobody committed.
fn receipts_forgotten(bed: Bed, events: &Events) -> Bed {
    let folder = bed.folder;
    let bed = Bed {
        folder,
        ..Bed::new(1)
    };
    bed.produce_events(&borrowed(events));
    bed
}

/// Starts a worker that may write everything, and waits for every result, once.
fn goes_on(bed: &Bed, events: &Events) {
    let running = bed.start(&exactly_once(), ticking());
    until_through(&running);
    let expected = ledger(&events[..2]);
    eventually("the window came out", || {
        let rows = bed.results();
        let found = last_results(&rows);
        assert_eq!(rows.len(), found.len(), "a result came twice");
        if found == expected {
            Ok(())
        } else {
            Err(format!("{} of {}", found.len(), expected.len()))
        }
    });
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn a_result_that_is_too_large_halts_the_task_in_order() {
    let bed = Bed::new(1);
    let events = events();
    killed(&bed, &events);
    bed.produce_events(&borrowed(&events[2..]));
    let running = bed.start_with(with(&bed, "message.max.bytes", "100000"));
    until_halted(&running, "ResultRefused", false);
    assert_eq!(running.stop(), Drained::Whole);
    assert!(bed.results().is_empty(), "its interval does not count");
    let bed = receipts_forgotten(bed, &events);
    goes_on(&bed, &events);
}

/// With time to linger the client writes nothing before the commit is called; then the entry is prepared, and the receipt says
/// that it does not count.
#[rstest]
#[case::too_large(Refusal::RecordTooLarge, "RecordTooLarge", "5")]
#[case::too_large_when_the_commit_was_called(Refusal::RecordTooLarge, "RecordTooLarge", "20000")]
#[case::invalid(Refusal::RecordInvalid, "RecordInvalid", "5")]
fn a_record_that_the_broker_refuses_halts_the_task_in_order(
    #[case] refusal: Refusal,
    #[case] reason: &str,
    #[case] linger: &str,
) {
    let bed = Bed::new(1);
    let events = events();
    killed(&bed, &events);
    bed.produce_events(&borrowed(&events[2..]));
    bed.broker.refuse(refusal, 100);
    let running = bed.start_with(with(&bed, "linger.ms", linger));
    until_halted(&running, reason, false);
    assert_eq!(running.stop(), Drained::Whole);
    let bed = receipts_forgotten(bed, &events);
    goes_on(&bed, &events);
}

/// Whoever cannot take the transactional id over cannot know that nobody commits under it any more.
#[rstest]
fn what_is_not_known_to_be_aborted_stays_in_doubt_until_it_is(
    #[values(true, false)] known_later: bool,
) {
    let bed = Bed::new(1);
    let events = events();
    killed(&bed, &events);
    let running = bed.start_with(with(&bed, "message.max.bytes", "100000"));
    until_through(&running);
    bed.broker.refuse(Refusal::TakeOver, 10_000);
    // Writes without asking for a producer's number.
    bed.produce_by_crc32(&borrowed(&events[2..]));
    until_halted(&running, "ResultRefused", true);
    if known_later {
        bed.broker.refuse_no_more(Refusal::TakeOver);
        until_halted(&running, "ResultRefused", false);
    }
    assert_eq!(running.stop(), Drained::Whole);
    let bed = receipts_forgotten(bed, &events);
    if known_later {
        goes_on(&bed, &events);
    } else {
        let running = bed.start(&exactly_once(), ticking());
        until_halted(&running, "ReceiptMissing", false);
        assert_eq!(running.stop(), Drained::Whole);
        assert!(bed.results().is_empty());
    }
}
