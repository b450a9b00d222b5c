//! Exactly once, on a store that is older than what was committed.
//!
//! The broker within the process keeps no offsets of transactions, so what is committed before is committed at least once, by
//! a worker that is stopped in order: then each result is there once as well, and the receipt is the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::fs;
use std::path::Path;
use std::time::Instant;

use common::{
    Bed, MINUTE, Running, Sums, WAIT, app, borrowed, copy, events, eventually, last_results,
    ledger, metric, recent, state, ticking, until_through,
};
use rstest::rstest;
use serde_json::{Value, json};
use turbine_crds::control::{TaskState, TaskStatus};
use turbine_kafka::{Admin, KafkaSettings, Refusal};
use turbine_runtime::worker::Drained;

const DISORDER: i64 = 90_000;

type Events = Vec<(String, i64, i64)>;

fn plain() -> Value {
    let mut app = app();
    app["subscriptions"][0]["outOfOrdernessMs"] = json!(DISORDER);
    app
}

fn exactly_once(app: &Value, policy: &str) -> Value {
    let mut app = app.clone();
    app["subscriptions"][0]["processingGuarantee"] = json!("exactlyOnce");
    app["subscriptions"][0]["onCrashRecovery"] = json!(policy);
    app
}

fn put_back(bed: &Bed, kept: &Path) {
    fs::remove_dir_all(state(bed)).unwrap();
    copy(kept, &state(bed));
}

/// The volume as it was after the first `kept` events, while everything is committed.
fn older_volume(bed: &Bed, app: &Value, events: &Events, kept: usize) {
    bed.produce_events(&borrowed(&events[..kept]));
    let running = bed.start(app, ticking());
    running.until_caught_up(kept as u64);
    assert_eq!(running.stop(), Drained::Whole);
    let copied = bed.path("kept");
    copy(&state(bed), &copied);

    bed.produce_events(&borrowed(&events[kept..]));
    let running = bed.start(app, ticking());
    running.until_caught_up((events.len() - kept) as u64);
    assert_eq!(running.stop(), Drained::Whole);
    put_back(bed, &copied);
}

/// Closes all windows, and waits until exactly these results are there, each once.
fn until_results(bed: &Bed, events: &Events, expected: &Sums) {
    let last = events.iter().map(|(_, _, ts)| *ts).max().unwrap();
    let end: Events = (0..64)
        .map(|user| (format!("end-{user}"), 0, last + 10 * MINUTE))
        .collect();
    bed.produce_events(&borrowed(&end));
    eventually("all windows came out", || {
        let mut rows = bed.results();
        rows.retain(|row| !row["user"].as_str().unwrap().starts_with("end-"));
        let found = last_results(&rows);
        assert_eq!(rows.len(), found.len(), "a result came twice");
        if found == *expected {
            return Ok(());
        }
        let differ = expected
            .iter()
            .find(|(key, sums)| found.get(*key) != Some(*sums));
        Err(format!(
            "{} of {}: {differ:?}, {:?}",
            found.len(),
            expected.len(),
            differ.and_then(|(key, _)| found.get(key))
        ))
    });
}

fn until_halted(running: &Running, reason: &str) -> String {
    running.until(reason, |tasks| {
        tasks.iter().all(|task| {
            task.state == TaskState::Halted
                && task.halt.as_ref().is_some_and(|halt| halt.reason == reason)
        })
    });
    running.task(0).halt.unwrap().message
}

#[rstest]
#[case::in_memory(usize::MAX)]
#[case::with_saves_in_between(1)]
fn an_older_store_reads_again_what_it_lacks_and_every_result_is_there_once(
    #[case] live_bytes: usize,
) {
    let bed = Bed::new(2);
    let events = events(recent(), 4_000);
    older_volume(&bed, &plain(), &events[..3_000].to_vec(), 1_000);
    let before = bed.results();
    assert!(before.len() > 50, "windows had closed in between");

    let mut config = bed.config(&exactly_once(&plain(), "replay"), ticking());
    config.limits.live_bytes = live_bytes;
    config.limits.batch_records = 100;
    let running = bed.start_with(config);
    until_through(&running);
    assert_eq!(metric(&running, "turbine_replayed_records_total"), 2_000);
    assert_eq!(bed.results(), before, "nothing was written");
    let tasks = running.tasks();
    assert!(tasks.iter().all(|task| task.records == 0), "{tasks:#?}");
    bed.produce_events(&borrowed(&events[3_000..]));
    until_results(&bed, &events, &ledger(&events));
    assert_eq!(running.stop(), Drained::Whole);
}

/// Until a replay is under way; how far it is.
fn until_half_way(running: &Running) -> u8 {
    let deadline = Instant::now() + WAIT;
    loop {
        let tasks = running.tasks();
        if let [
            TaskStatus {
                state,
                restored_percent: Some(percent @ 1..),
                ..
            },
        ] = &tasks[..]
        {
            assert_eq!(*state, TaskState::Restoring);
            return *percent;
        }
        assert!(Instant::now() < deadline, "{tasks:#?}");
        std::thread::yield_now();
    }
}

/// The first time nothing of it is saved, the second time some is.
#[rstest]
#[case::in_memory(usize::MAX)]
#[case::with_saves_in_between(1)]
fn a_replay_that_is_stopped_half_way_is_begun_again_and_ends_the_same(#[case] live_bytes: usize) {
    let bed = Bed::new(1);
    let events = events(recent() - 240 * MINUTE, 40_000);
    older_volume(&bed, &plain(), &events, 1_000);
    let before = bed.results();
    for _ in 0..2 {
        let mut config = bed.config(&exactly_once(&plain(), "replay"), ticking());
        config.limits.batch_records = 50;
        config.limits.live_bytes = live_bytes;
        let running = bed.start_with(config);
        let percent = until_half_way(&running);
        assert_eq!(running.stop(), Drained::Whole);
        assert!(percent < 100);
        assert_eq!(bed.results(), before);
    }
    let running = bed.start(&exactly_once(&plain(), "replay"), ticking());
    until_through(&running);
    let read = metric(&running, "turbine_replayed_records_total");
    if live_bytes == usize::MAX {
        assert_eq!(read, 39_000, "begun anew");
    } else {
        assert!(read < 39_000, "it went on with what was saved: {read}");
    }
    assert_eq!(bed.results(), before);
    until_results(&bed, &events, &ledger(&events));
    assert_eq!(running.stop(), Drained::Whole);
}

/// Its receipt stays: the store has not come there.
#[test]
fn a_replay_that_retention_overtakes_leaves_store_and_receipt_as_they_were() {
    let bed = Bed::new(1);
    let events = events(recent(), 3_000);
    older_volume(&bed, &plain(), &events, 1_000);
    let before = bed.results();
    bed.broker.refuse(Refusal::OffsetOutOfRange, 1_000);
    let running = bed.start(&exactly_once(&plain(), "replay"), ticking());
    until_halted(&running, "OffsetOutOfRange");
    assert_eq!(running.stop(), Drained::Whole);
    bed.broker.refuse_no_more(Refusal::OffsetOutOfRange);

    let running = bed.start(&exactly_once(&plain(), "replay"), ticking());
    until_through(&running);
    assert_eq!(metric(&running, "turbine_replayed_records_total"), 2_000);
    assert_eq!(bed.results(), before);
    until_results(&bed, &events, &ledger(&events));
    assert_eq!(running.stop(), Drained::Whole);
}

/// Windows that had closed by then were written with everything; those that were open lack what lies between.
#[test]
fn a_task_that_goes_on_behind_lacks_what_lies_between_and_says_so() {
    let bed = Bed::new(1);
    let events = events(recent(), 4_000);
    older_volume(&bed, &plain(), &events[..3_000].to_vec(), 1_000);
    let before = bed.results();
    let closed_to = events[..3_000].iter().map(|of| of.2).max().unwrap() - DISORDER;
    let is_closed = |ts: i64| ts.div_euclid(MINUTE) * MINUTE + MINUTE <= closed_to;
    let counted = events.iter().enumerate().filter(|(at, (_, _, ts))| {
        let between = (1_000..3_000).contains(at);
        is_closed(*ts) || !between
    });
    let expected = ledger(&counted.map(|(_, event)| event.clone()).collect::<Events>());
    assert_ne!(expected, ledger(&events));

    let running = bed.start(&exactly_once(&plain(), "accept"), ticking());
    until_through(&running);
    let missing = running.task(0).missing.unwrap();
    assert_eq!(
        (missing.from, missing.to, missing.count),
        (1_000, 3_000, 2_000)
    );
    assert_eq!(metric(&running, "turbine_state_missing_offsets"), 2_000);
    assert_eq!(bed.results(), before, "nothing was written");
    bed.produce_events(&borrowed(&events[3_000..]));
    until_results(&bed, &events, &expected);
    assert_eq!(running.stop(), Drained::Whole);
}

#[rstest]
#[case::asked("stop", None, "StoreBehindReceipt", "`onCrashRecovery` is `stop`")]
#[case::replay_too_far("replay", Some(1_999), "GapExceedsBound", "2000 offsets")]
#[case::accept_too_far("accept", Some(1_999), "GapExceedsBound", "2000 offsets")]
fn a_task_stops_in_front_of_an_older_store_where_it_is_told_to(
    #[case] policy: &str,
    #[case] bound: Option<u64>,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let bed = Bed::new(1);
    let events = events(recent(), 3_000);
    older_volume(&bed, &plain(), &events, 1_000);
    let before = bed.results();
    let mut asked = exactly_once(&plain(), policy);
    if let Some(bound) = bound {
        asked["subscriptions"][0]["haltIfGapExceeds"] = json!(bound);
    }
    let running = bed.start(&asked, ticking());
    let told = until_halted(&running, reason);
    assert!(told.contains(words), "{told}");
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(bed.results(), before);

    // It is the older store as before.
    let running = bed.start(&exactly_once(&plain(), "replay"), ticking());
    until_through(&running);
    until_results(&bed, &events, &ledger(&events));
    assert_eq!(running.stop(), Drained::Whole);
}

/// The broker keeps some 5 MB of a partition.
fn produce_until_the_first_are_gone(bed: &Bed, from: i64) -> (Events, usize) {
    let mut noise = 1_u64;
    let mut events = Events::new();
    for number in 0..40 {
        let event = (format!("large-{number}"), number, from);
        let mut value: Value =
            serde_json::from_str(&common::value(&(&event.0, event.1, event.2))).unwrap();
        let pad = std::iter::repeat_with(|| {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            char::from(b'!' + u8::try_from(noise >> 58).unwrap())
        });
        value["pad"] = json!(pad.take(200_000).collect::<String>());
        bed.produce([(None, Some(value.to_string().as_bytes()))]);
        events.push(event);
    }
    let admin = Admin::open(&bed.broker.settings().unwrap()).unwrap();
    let partition = 0.try_into().unwrap();
    let log = admin
        .watermarks(&"in".parse().unwrap(), partition, WAIT)
        .unwrap();
    (events, usize::try_from(log.start().get()).unwrap())
}

#[test]
fn a_task_goes_on_behind_what_retention_removed_only_where_that_is_asked_for() {
    let bed = Bed::new(1);
    let events = events(recent(), 1_000);
    bed.produce_events(&borrowed(&events));
    let running = bed.start(&plain(), ticking());
    running.until_caught_up(1_000);
    assert_eq!(running.stop(), Drained::Whole);
    let kept = bed.path("kept");
    copy(&state(&bed), &kept);
    let last = events.iter().map(|of| of.2).max().unwrap();
    let (large, begin) = produce_until_the_first_are_gone(&bed, last);
    assert!((1_001..1_040).contains(&begin), "{begin}");

    let running = bed.start(&plain(), ticking());
    let told = until_halted(&running, "RetentionGap");
    let gone = format!("offsets 1000 to {} are gone", begin - 1);
    assert!(told.contains(&gone), "{told}");
    assert!(told.contains("`input.onRetentionGap: accept`"), "{told}");
    assert_eq!(running.stop(), Drained::Whole);

    let mut accepts = plain();
    accepts["subscriptions"][0]["onRetentionGap"] = json!("accept");
    let running = bed.start(&accepts, ticking());
    until_through(&running);
    let missing = running.task(0).missing.unwrap();
    let count = begin - 1_000;
    assert_eq!(
        (missing.from, missing.to, missing.count),
        (1_000, i64::try_from(begin).unwrap(), count as u64)
    );
    assert_eq!(
        metric(&running, "turbine_state_missing_offsets"),
        count as u64
    );
    let counted = [&events[..], &large[count..]].concat();
    until_results(&bed, &counted, &ledger(&counted));
    assert_eq!(running.stop(), Drained::Whole);

    // No older store comes by the log to what was committed behind the gap.
    put_back(&bed, &kept);
    let running = bed.start(&exactly_once(&accepts, "replay"), ticking());
    let told = until_halted(&running, "StoreBehindReceipt");
    assert!(
        told.contains("does not come from this store by the log alone"),
        "{told}"
    );
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn what_computes_otherwise_now_is_not_replayed() {
    let bed = Bed::new(1);
    older_volume(&bed, &plain(), &events(recent(), 3_000), 1_000);
    let mut changed = exactly_once(&plain(), "replay");
    changed["subscriptions"][0]["windows"][0]["allowedLatenessMs"] = json!(5_000);
    let running = bed.start(&changed, ticking());
    let told = until_halted(&running, "StoreBehindReceipt");
    assert!(told.contains("computes otherwise"), "{told}");
    assert_eq!(running.stop(), Drained::Whole);
}

/// What is too far ahead of the clock depends on when it is read.
#[test]
fn records_that_the_clock_refused_stop_a_replay() {
    let bed = Bed::new(1);
    let mut skips = plain();
    skips["subscriptions"][0]["onError"] = json!("skip");
    let mut events = events(recent(), 3_000);
    let ahead = jiff::Timestamp::now().as_millisecond() + 30 * MINUTE;
    events[2_000].2 = ahead;
    older_volume(&bed, &skips, &events, 1_000);
    let before = bed.results();
    let running = bed.start(&exactly_once(&skips, "replay"), ticking());
    let told = until_halted(&running, "StoreBehindReceipt");
    assert!(
        told.contains("2999 rows were taken then, 3000 now") && told.contains("maxFuture"),
        "{told}"
    );
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(bed.results(), before);
}

#[test]
fn bad_records_between_are_passed_over_and_dead_lettered_once() {
    let bed = Bed::new(1);
    let mut dlq = plain();
    dlq["subscriptions"][0]["onError"] = json!("dlq");
    dlq["subscriptions"][0]["dlq"] = json!("dead");
    let events = events(recent(), 3_000);
    bed.produce_events(&borrowed(&events[..1_000]));
    let running = bed.start(&dlq, ticking());
    running.until_caught_up(1_000);
    assert_eq!(running.stop(), Drained::Whole);
    let kept = bed.path("kept");
    copy(&state(&bed), &kept);
    bed.produce([(None, Some(&b"no row"[..])), (None, Some(b"{}"))]);
    bed.produce_events(&borrowed(&events[1_000..]));
    let running = bed.start(&dlq, ticking());
    running.until_caught_up(2_002);
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(bed.read("dead").len(), 2);
    put_back(&bed, &kept);

    let running = bed.start(&exactly_once(&dlq, "replay"), ticking());
    until_through(&running);
    until_results(&bed, &events, &ledger(&events));
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(bed.read("dead").len(), 2);
}

/// A result that its topic does not take stops the task in the middle of a close that is committed in parts: what came before
/// it is committed, with a receipt that says so.
#[test]
fn a_close_that_was_committed_in_part_goes_on_behind_what_was_written() {
    let bed = Bed::new(1);
    let t0 = recent();
    let users: Events = (0..40)
        .map(|user| (format!("user-{user:02}"), user, t0))
        .collect();
    // As key and value of a result it is larger than a record may be at first.
    let large = ("x".repeat(60_000), 1, t0);
    let most_bytes = |bytes: &str| {
        let setting = ("message.max.bytes".to_owned(), bytes.to_owned());
        KafkaSettings::new(bed.broker.bootstrap_servers(), None, None, [setting].into()).unwrap()
    };
    let later = ("later".to_owned(), 0, t0 + 3 * MINUTE);
    let all = [&users[..], &[large.clone(), later.clone()]].concat();
    let in_parts = |app: &Value| {
        let mut config = bed.config(app, ticking());
        config.limits.result_panes = 1;
        config.limits.commit_records = 1;
        config.kafka = most_bytes("100000");
        config
    };
    bed.produce_events(&borrowed(&users[..20]));
    let running = bed.start_with(in_parts(&plain()));
    running.until_caught_up(20);
    assert_eq!(running.stop(), Drained::Whole);
    let kept = bed.path("kept");
    copy(&state(&bed), &kept);

    bed.produce_events(&borrowed(&users[20..]));
    let value = common::value(&(&large.0, large.1, large.2));
    bed.produce([(None, Some(value.as_bytes()))]);
    bed.produce_events(&borrowed(&[later]));
    let running = bed.start_with(in_parts(&plain()));
    until_halted(&running, "ResultRefused");
    assert_eq!(running.stop(), Drained::Whole);
    let written = bed.results().len();
    assert!((2..39).contains(&written), "{written}");
    put_back(&bed, &kept);

    let mut config = in_parts(&exactly_once(&plain(), "replay"));
    config.kafka = most_bytes("1000000");
    let running = bed.start_with(config);
    until_through(&running);
    until_results(&bed, &all, &ledger(&all));
    assert_eq!(running.stop(), Drained::Whole);
}
