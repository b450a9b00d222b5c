//! The whole way of a record, against a broker within the process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::type_complexity
)]

mod common;
#[path = "flow/dead_letters.rs"]
mod dead_letters;
#[path = "flow/given_up.rs"]
mod given_up;
#[path = "flow/held.rs"]
mod held;
#[path = "flow/receipts.rs"]
mod receipts;
#[path = "flow/refused.rs"]
mod refused;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::{
    Bed, MINUTE, T0, TestClock, WAIT, app, borrowed, clock, events, eventually, last_results,
    ledger, recent, ticking, value,
};
use rstest::rstest;
use serde_json::{Value, json};
use turbine_crds::control::TaskState;
use turbine_kafka::Admin;
use turbine_protocol::{GroupId, HandedOut, Receipt};
use turbine_runtime::worker::Drained;
use turbine_state::{StateBudget, StateVolume, TaskState as _};

#[test]
fn results_do_not_depend_on_the_batch_size() {
    let mut events = events(T0, 4_000);
    events.push(("end".to_owned(), 0, T0 + 50 * MINUTE));
    let run = |batch: usize, out_of_orderness: i64| {
        let bed = Bed::new(1);
        bed.produce_events(&borrowed(&events));
        let mut app = app();
        app["subscriptions"][0]["outOfOrdernessMs"] = json!(out_of_orderness);
        let mut config = bed.config(&app, clock());
        config.limits.batch_records = batch;
        // Commits by number, so that they fall between other batches each time.
        config.limits.commit_records = 500;
        let running = bed.start_with(config);
        running.until("all is read", |tasks| {
            tasks[0].records == events.len() as u64
        });
        let late = running.task(0).late_rows;
        assert_eq!(running.stop(), Drained::Whole);
        (bed.results(), late)
    };
    // Some rows are late here; which ones must not depend on batches.
    let (strict, late) = run(1, 0);
    assert!(
        late > 0 && strict.len() > 50,
        "{late} late rows, {} results",
        strict.len()
    );
    for batch in [7, 1_000, 10_000] {
        assert_eq!(run(batch, 0), (strict.clone(), late), "batches of {batch}");
    }
    // None is late here, so a ledger gives the same.
    let mut expected = ledger(&events);
    expected.retain(|(user, _), _| user != "end");
    for batch in [7, 10_000] {
        let (results, late) = run(batch, 90_000);
        assert_eq!(late, 0);
        assert_eq!(results.len(), expected.len());
        assert_eq!(last_results(&results), expected);
    }
}

#[test]
fn results_are_keyed_and_lie_where_kafkas_default_partitioner_puts_them() {
    let bed = Bed::new(12);
    let users = ["alice", "bob", "42", "é", ""];
    let mut events: Vec<(&str, i64, i64)> = users.iter().map(|user| (*user, 1, T0)).collect();
    events.extend(users.iter().map(|user| (*user, 1, T0 + 5 * MINUTE)));
    bed.produce_events(&events);
    let inputs = bed.read("in");
    let running = bed.start(&app(), clock());
    running.until("all is read", |tasks| {
        tasks.iter().map(|task| task.records).sum::<u64>() == events.len() as u64
    });
    assert_eq!(running.stop(), Drained::Whole);
    let outputs = bed.read("out");
    assert_eq!(outputs.len(), users.len());
    for user in users {
        let place = |records: &[common::Record]| {
            records
                .iter()
                .find(|r| r.key.as_deref() == Some(user.as_bytes()))
                .unwrap()
                .partition
        };
        assert_eq!(place(&outputs), place(&inputs), "{user}");
    }
}

#[test]
fn one_bad_record_stops_its_task_in_front_of_it_and_no_other() {
    let bed = Bed::new(2);
    let start = recent();
    let good: Vec<(String, i64, i64)> = (0..40)
        .map(|at| (format!("user-{at}"), 1, start + at * 100))
        .collect();
    bed.produce_events(&borrowed(&good));
    let counts = |of: &[common::Record], partition| {
        of.iter()
            .filter(|record| record.partition == partition)
            .count()
    };
    let before = bed.read("in");
    bed.produce([(
        Some(&b"user-0"[..]),
        Some(&br#"{"user":"user-0","amount":"#[..]),
    )]);
    bed.produce_events(&borrowed(&good));
    let all = bed.read("in");
    let bad_partition = (0..2)
        .find(|p| counts(&all, *p) == 2 * counts(&before, *p) + 1)
        .unwrap();
    let other = 1 - bad_partition;

    let running = bed.start(&app(), ticking());
    let offset = i64::try_from(counts(&before, bad_partition)).unwrap();
    running.until("one task halts, the other has read all", |tasks| {
        tasks.iter().any(|task| task.state == TaskState::Halted)
            && tasks.iter().any(|task| {
                task.partition == other && task.position == i64::try_from(counts(&all, other)).ok()
            })
    });
    let task = running.task(bad_partition);
    let halt = task.halt.clone().unwrap();
    assert_eq!(
        (halt.reason.as_str(), halt.offset),
        ("BadRecord", Some(offset))
    );
    let place = format!("in/{bad_partition} at offset {offset}: the JSON is cut off");
    assert!(halt.message.contains(&place), "{}", halt.message);
    assert_eq!(
        task.position,
        Some(offset),
        "everything in front of it is committed"
    );
    // Its files have all of it: what only the journal has would keep the journal of the other task from then on.
    let alone = bed.path("alone");
    let place = format!("{}/{bad_partition}", task.subscription);
    common::copy(&common::state(&bed).join(&place), &alone.join(&place));
    let volume = StateVolume::open(&alone, StateBudget::new(64 << 20, 12).unwrap()).unwrap();
    let (stored, epoch) = volume.tasks().unwrap().remove(0);
    let store = volume.open_any(&stored, epoch).unwrap().unwrap();
    assert_eq!(store.progress().positions[0].next.get(), offset);

    // The same assignment changes nothing; one with a higher number tries again, and the other
    // task goes on untouched.
    running.worker.offer(bed.document(1, "a-0")).unwrap();
    let records = running.task(other).records;
    running.worker.offer(bed.document(2, "a-0")).unwrap();
    running.until("it was tried again and halts anew", |tasks| {
        tasks
            .iter()
            .any(|task| task.state == TaskState::Halted && task.records == 0)
    });
    assert_eq!(running.task(other).records, records);
    assert_eq!(running.stop(), Drained::Whole);
}

/// Values that cannot be used, each with a piece of its reason.
fn bad_values() -> Vec<(Option<Vec<u8>>, &'static str)> {
    let text = |value: &str| Some(value.as_bytes().to_vec());
    let mut deep = br#"{"other":"#.to_vec();
    deep.extend(b"[".repeat(100_000));
    vec![
        (text(r#"{"user":"a","amount":"#), "cut off"),
        (Some(b"{\"user\":\"\xff\xfe\"}".to_vec()), "not UTF-8"),
        (
            text(r#"{"user":"a","amount":"1","ts":1}"#),
            "`amount` is a string",
        ),
        (
            text(r#"{"user":"a","amount":1e400,"ts":1}"#),
            "`amount` is a number with",
        ),
        (
            text(r#"{"user":"a","amount":9223372036854775808,"ts":1}"#),
            "too large for int64",
        ),
        (Some(deep), "nested deeper"),
        (
            text(r#"{"user":"a","amount":1,"ts":253402300800000}"#),
            "outside the years 1 to 9999",
        ),
        (
            text(r#"{"user":"a","amount":1,"ts":9223372036854775807}"#),
            "outside the years",
        ),
        (
            text(r#"{"user":"a","amount":1,"ts":-9223372036854775808}"#),
            "outside the years",
        ),
        (text(r#"{"user":"a","amount":1}"#), "no event time"),
        (
            text(r#"{"user":"a","amount":1,"ts":null}"#),
            "no event time",
        ),
        (
            text(r#"{"user":"a","amount":1,"ts":4102444800000}"#),
            "ahead of the worker's clock",
        ),
        (None, "no value"),
        (text(""), "is empty"),
        (text("null"), "is null"),
        (text("{}"), "no event time"),
        (
            text(r#"{"user":"a"}{"user":"b"}"#),
            "follows the JSON object",
        ),
        (text(r#"{"user":"a","amount":NaN}"#), "not JSON"),
    ]
}

#[rstest]
#[case("dlq")]
#[case("skip")]
fn bad_records_go_where_the_policy_says_and_the_others_are_taken(#[case] policy: &str) {
    let bed = Bed::new(1);
    let mut app = app();
    app["subscriptions"][0]["onError"] = json!(policy);
    app["subscriptions"][0]["dlq"] = json!("dead");
    let good = [
        value(&("a", 1, T0)),
        value(&("a", 2, T0 + 1)),
        value(&("z", 0, T0 + 9 * MINUTE)),
    ];
    let bad = bad_values();
    let mut records: Vec<(Option<&[u8]>, Option<&[u8]>)> = vec![(None, Some(good[0].as_bytes()))];
    let key = b"\x00key\xff";
    records.extend(
        bad.iter()
            .map(|(value, _)| (Some(&key[..]), value.as_deref())),
    );
    records.push((None, Some(good[1].as_bytes())));
    records.push((None, Some(good[2].as_bytes())));
    bed.produce(records.clone());

    let running = bed.start(&app, clock());
    running.until("all is read", |tasks| {
        tasks[0].records == records.len() as u64
    });
    let dead_letters = running.task(0).dead_letters;
    let metrics = running.worker.metrics_text().unwrap();
    assert_eq!(running.stop(), Drained::Whole);
    let count = |phase: &str| {
        let action = if policy == "dlq" {
            "dead_lettered"
        } else {
            "dropped"
        };
        let labels = format!(r#"partition="0",phase="{phase}",action="{action}"}} "#);
        let line = metrics
            .lines()
            .find(|line| line.starts_with("turbine_dlq_messages_total{") && line.contains(&labels))
            .unwrap_or_else(|| panic!("{phase} is not counted in\n{metrics}"));
        line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(count("deserialize") + count("processing"), bad.len());
    let sums = last_results(&bed.results());
    assert_eq!(sums, BTreeMap::from([(("a".to_owned(), T0), (3, 2))]));

    let dead = bed.read("dead");
    if policy == "skip" {
        assert_eq!((dead.len(), dead_letters), (0, 0));
        return;
    }
    assert_eq!(dead_letters, bad.len() as u64);
    assert_eq!(dead.len(), bad.len());
    for (at, (value, reason)) in bad.iter().enumerate() {
        let offset = (at + 1).to_string();
        let letter = dead
            .iter()
            .find(|letter| letter.header("turbine_dlq_source_offset") == Some(&offset))
            .unwrap();
        assert_eq!(letter.value, *value, "{reason}");
        assert_eq!(letter.key.as_deref(), Some(&key[..]));
        assert_eq!(letter.header("turbine_dlq_source_topic"), Some("in"));
        let error = letter.header("turbine_dlq_error").unwrap();
        assert!(error.contains(reason), "{error}, expected {reason}");
    }
}

#[test]
fn under_fail_each_bad_record_stops_the_task_by_name() {
    for (value, reason) in bad_values() {
        let bed = Bed::new(1);
        bed.produce([
            (None, Some(common::value(&("a", 1, T0)).as_bytes())),
            (None, value.as_deref()),
            (None, Some(common::value(&("a", 1, T0)).as_bytes())),
        ]);
        // Its own time must be allowed to go on, or no commit would ever come due.
        let running = bed.start(&app(), clock());
        running.until(reason, |tasks| tasks[0].state == TaskState::Halted);
        let task = running.task(0);
        let halt = task.halt.unwrap();
        assert_eq!(
            (halt.offset, task.position, task.records),
            (Some(1), Some(1), 1),
            "{reason}"
        );
        assert!(
            halt.message.contains(reason),
            "{}, expected {reason}",
            halt.message
        );
        assert_eq!(running.stop(), Drained::Whole);
    }
}

#[rstest]
#[case::group("group", 3, 0, 0)]
#[case::drop("drop", 2, 0, 1)]
#[case::dlq("dlq", 2, 1, 0)]
fn a_null_record_key_is_no_empty_key(
    #[case] policy: &str,
    #[case] results: usize,
    #[case] dead: usize,
    #[case] dropped: u64,
) {
    let bed = Bed::new(1);
    let mut app = app();
    let subscription = &mut app["subscriptions"][0];
    subscription["partitionKey"] = json!("recordKey");
    subscription["onNullKey"] = json!(policy);
    subscription["dlq"] = json!("dead");
    subscription["windows"][0]["keys"] = json!([]);
    subscription["output"]["messageKey"] = json!("record_key");
    let event = value(&("a", 1, T0));
    let last = value(&("a", 1, T0 + 9 * MINUTE));
    bed.produce([
        (None, Some(event.as_bytes())),
        (Some(&b""[..]), Some(event.as_bytes())),
        (Some(&b"\xff\xfe"[..]), Some(event.as_bytes())),
        (Some(&b"last"[..]), Some(last.as_bytes())),
    ]);
    let running = bed.start(&app, clock());
    running.until("all is read", |tasks| tasks[0].records == 4);
    let metrics = running.worker.metrics_text().unwrap();
    assert_eq!(running.stop(), Drained::Whole);
    let out = bed.read("out");
    assert_eq!(out.len(), results);
    let with = |key: Option<&[u8]>| out.iter().filter(|r| r.key.as_deref() == key).count();
    assert_eq!(
        (with(Some(b"")), with(Some(b"\xff\xfe")), with(None)),
        (1, 1, results - 2)
    );
    assert_eq!(bed.read("dead").len(), dead);
    let line = format!(r#"action="dropped"}} {dropped}"#);
    assert!(
        metrics
            .lines()
            .any(|l| l.starts_with("turbine_null_keys_total{") && l.ends_with(&line)),
        "{metrics}"
    );
}

#[test]
fn a_silent_partition_closes_its_windows_by_the_clock_and_only_then() {
    let bed = Bed::new(1);
    let mut app = app();
    app["subscriptions"][0]["idlePolicy"] = json!("coast");
    let clock = TestClock::at(T0 + 10_000);
    bed.produce_events(&[("a", 5, T0 + 10_000)]);
    let running = bed.start(&app, Arc::clone(&clock) as _);
    running.until("the record is read", |tasks| tasks[0].records == 1);
    // Ticks go on while the test's clock stands.
    std::thread::sleep(Duration::from_millis(200));
    clock.advance(29_000);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(bed.results(), [] as [Value; 0], "not idle for long enough");
    clock.advance(25_000);
    let results = eventually("the window closes", || {
        let results = bed.results();
        if results.is_empty() {
            Err("nothing".to_owned())
        } else {
            Ok(results)
        }
    });
    assert_eq!(
        last_results(&results),
        BTreeMap::from([(("a".to_owned(), T0), (5, 1))])
    );
    // A row that is late only for this is counted as such.
    bed.produce_events(&[("a", 5, T0 + 11_000)]);
    running.until("the late row is read", |tasks| tasks[0].late_rows == 1);
    let metrics = running.worker.metrics_text().unwrap();
    assert!(
        metrics.lines().any(
            |line| line.starts_with("turbine_late_rows_idle_closed_total{") && line.ends_with(" 1")
        ),
        "{metrics}"
    );
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn a_broker_lost_before_the_commit_costs_nothing() {
    let bed = Bed::new(1);
    let start = recent();
    let mut events = events(start, 1_000);
    let mut app = app();
    app["subscriptions"][0]["outOfOrdernessMs"] = json!(90_000);
    app["subscriptions"][0]["commitIntervalMs"] = json!(3_600_000);
    bed.produce_events(&borrowed(&events));
    let mut config = bed.config(&app, ticking());
    config.stop_patience = Duration::from_millis(500);
    let running = bed.start_with(config);
    running.until("all is folded", |tasks| tasks[0].records == 1_000);
    assert_eq!(
        running.task(0).position,
        Some(0),
        "what is folded is not yet committed"
    );
    bed.broker.go_down().unwrap();
    running.stop();
    bed.broker.come_back().unwrap();

    let running = bed.start(&app, ticking());
    running.until("it runs again", |tasks| {
        tasks[0].state == TaskState::Running
    });
    let position = running.task(0).position.unwrap();
    assert!(
        [0, 1_000].contains(&position),
        "a commit is whole or not there: {position}"
    );
    events.push(("end".to_owned(), 0, start + 55 * MINUTE));
    bed.produce_events(&[("end", 0, start + 55 * MINUTE)]);
    running.until("all is folded", |tasks| {
        tasks[0].frontier_ms == Some(start + 55 * MINUTE - 90_000)
    });
    assert_eq!(running.stop(), Drained::Whole);
    let mut expected = ledger(&events);
    expected.retain(|(user, _), _| user != "end");
    assert_eq!(last_results(&bed.results()), expected);
}

/// Keys may be as long as records are, and while a commit is written they are there three times.
#[test]
fn a_commit_comes_due_by_the_bytes_of_what_was_read() {
    let bed = Bed::new(1);
    let events: Vec<_> = (0..100)
        .map(|at| (format!("{at:02}").repeat(500), at, T0))
        .collect();
    bed.produce_events(&borrowed(&events));
    // Time stands still, so that no commit comes due by it.
    let mut config = bed.config(&app(), clock());
    config.limits.batch_bytes = 2_000;
    config.limits.commit_bytes = 10_000;
    let running = bed.start_with(config);
    running.until("most of it is committed", |tasks| {
        tasks[0].position >= Some(85)
    });
    assert_eq!(running.stop(), Drained::Whole);
}

/// What was handed out counts once a receipt says so; until then a crash hands it out again.
#[test]
fn a_close_in_parts_is_committed_to_its_end_with_no_record_behind_it() {
    let bed = Bed::new(1);
    let t0 = recent();
    let mut events: Vec<_> = (0..60)
        .map(|user| (format!("user-{user}"), user, t0))
        .collect();
    events.push(("end".to_owned(), 0, t0 + 3 * MINUTE));
    let mut config = bed.config(&app(), ticking());
    config.limits.result_panes = 7;
    config.limits.commit_records = 20;
    let running = bed.start_with(config);
    bed.produce_events(&borrowed(&events));
    let admin = Admin::open(&bed.broker.settings().unwrap()).unwrap();
    let group = GroupId::of(&"a".parse().unwrap(), &"s".parse().unwrap());
    let (topic, partition) = ("in".parse().unwrap(), 0.try_into().unwrap());
    eventually("the last part is committed", || {
        let committed = admin
            .committed_at(&group, &topic, partition, WAIT)
            .unwrap()
            .ok_or("nothing is committed")?;
        let receipt: Receipt = committed.metadata.parse().unwrap();
        let closed = receipt.retrace.map(|retrace| retrace.closed);
        if committed.offset.get() == 61 && closed == Some(HandedOut::All) {
            Ok(())
        } else {
            Err(format!("{committed:?}"))
        }
    });
    assert_eq!(running.stop(), Drained::Whole);
    events.pop();
    let results = bed.results();
    assert_eq!(results.len(), 60);
    assert_eq!(last_results(&results), ledger(&events));
}

#[test]
fn a_stopped_worker_goes_on_where_it_was_without_a_repeat() {
    let bed = Bed::new(4);
    let start = recent();
    let events = events(start, 4_000);
    let mut app = app();
    app["subscriptions"][0]["outOfOrdernessMs"] = json!(1_000_000);
    for piece in events.chunks(1_000) {
        let running = bed.start(&app, ticking());
        bed.produce_events(&borrowed(piece));
        running.until("some of it is read", |tasks| {
            tasks.iter().map(|task| task.records).sum::<u64>() > 100
        });
        assert_eq!(running.stop(), Drained::Whole);
    }
    let running = bed.start(&app, ticking());
    running.until("all is read", |tasks| {
        tasks
            .iter()
            .all(|t| t.position == t.end_offset && t.end_offset.is_some())
    });
    // A record far ahead in every partition closes everything.
    for user in 0..64 {
        bed.produce_events(&[(&*format!("end-{user}"), 0, start + 58 * MINUTE)]);
    }
    running.until("all is read", |tasks| {
        tasks
            .iter()
            .all(|t| t.position == t.end_offset && t.end_offset.is_some())
    });
    assert_eq!(running.stop(), Drained::Whole);
    let expected = ledger(&events);
    eventually("all windows came out", || {
        let results = bed.results();
        if results.len() == expected.len() {
            Ok(())
        } else {
            Err(format!("{}", results.len()))
        }
    });
    assert_eq!(last_results(&bed.results()), expected);
}

#[test]
fn a_count_that_cannot_carry_keyed_state_is_refused_by_name() {
    let bed = Bed::new(7);
    let running = bed.start(&app(), ticking());
    running.until("all halt", |tasks| {
        tasks.iter().all(|task| task.state == TaskState::Halted)
    });
    let halt = running.task(0).halt.unwrap();
    assert_eq!(halt.reason, "PartitionCountInvalid");
    for word in ["`in`", "7 partitions", "6 and 8"] {
        assert!(
            halt.message.contains(word),
            "{word} is missing: {}",
            halt.message
        );
    }
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn a_broker_that_comes_late_is_waited_for() {
    let bed = Bed::new(1);
    bed.broker.go_down().unwrap();
    let mut config = bed.config(&app(), ticking());
    config.limits.broker_wait = Duration::from_millis(500);
    config.limits.retry_most = Duration::from_millis(200);
    let running = bed.start_with(config);
    running.until("it says what it waits for", |tasks| {
        tasks[0].state == TaskState::Starting
            && tasks[0]
                .halt
                .as_ref()
                .is_some_and(|halt| halt.message.contains(bed.broker.bootstrap_servers()))
    });
    bed.broker.come_back().unwrap();
    running.until("it runs", |tasks| {
        tasks[0].state == TaskState::Running && tasks[0].halt.is_none()
    });
    bed.produce_events(&[("a", 1, recent())]);
    running.until_caught_up(1);
    assert_eq!(running.stop(), Drained::Whole);
}
