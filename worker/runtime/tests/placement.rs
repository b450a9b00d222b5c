//! Records in the wrong partition and topics that grow, against a broker within the process.
//!
//! Of 4 partitions, by the vectors of Kafka's client: `42` and `21` go to 0, the empty key to 1, `foobar` to 2, `abc` to
//! 3; of 6 the empty key goes to 3.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{Bed, TestClock, app, value};
use rstest::rstest;
use serde_json::{Value, json};
use turbine_crds::control::{ClearPlacement, ForeignKey, TaskPlacement, TaskState, Verdict};
use turbine_kafka::KafkaError;
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::TopicName;
use turbine_runtime::task::PartitionCounts;
use turbine_runtime::worker::Drained;

const T0: i64 = 1_800_000_000_000;
const MINUTE: i64 = 60_000;

fn clock() -> Arc<TestClock> {
    TestClock::at(T0 + 60 * MINUTE)
}

fn declared(policy: &str) -> Value {
    let mut app = app();
    let subscription = &mut app["subscriptions"][0];
    subscription["partitionHash"] = json!("murmur2");
    subscription["onError"] = json!(policy);
    subscription["dlq"] = json!("dead");
    app
}

/// Into partition 3, whoever the user is.
fn produce_into_3(bed: &Bed, events: &[(&str, i64, i64)]) {
    let values: Vec<String> = events.iter().map(value).collect();
    bed.produce(
        values
            .iter()
            .map(|value| (Some(&b"abc"[..]), Some(value.as_bytes()))),
    );
}

/// A right one, one of partition 0, a right one, and one that closes the window.
const MIXED: [(&str, i64, i64); 4] = [
    ("abc", 1, T0),
    ("42", 100, T0 + 1),
    ("abc", 2, T0 + 2),
    ("abc", 0, T0 + 9 * MINUTE),
];

fn results(bed: &Bed) -> Vec<(String, i64, i64)> {
    let mut rows: Vec<_> = bed
        .results()
        .iter()
        .map(|row| {
            (
                row["user"].as_str().unwrap().to_owned(),
                row["total"].as_i64().unwrap(),
                row["n"].as_i64().unwrap(),
            )
        })
        .collect();
    rows.sort();
    rows
}

fn misplaced_metric(metrics: &str) -> u64 {
    metrics
        .lines()
        .find(|line| {
            line.starts_with("turbine_misplaced_records_total{")
                && line.contains(r#"partition="3",topic="in"} "#)
        })
        .and_then(|line| line.rsplit(' ').next())
        .unwrap_or_else(|| panic!("not in\n{metrics}"))
        .parse()
        .unwrap()
}

#[test]
fn under_fail_the_task_stops_in_front_of_a_misplaced_record_and_keeps_the_verdict() {
    let bed = Bed::new(4);
    produce_into_3(&bed, &MIXED);
    for life in 0..2 {
        let running = bed.start(&declared("fail"), clock());
        running.until("it halts", |tasks| {
            tasks.iter().any(|task| task.state == TaskState::Halted)
        });
        let task = running.task(3);
        let halt = task.halt.unwrap();
        assert_eq!(
            (halt.reason.as_str(), halt.offset, task.position),
            ("Misplaced", Some(1), Some(1)),
            "life {life}"
        );
        assert_eq!((task.placement, task.misplaced), (Verdict::Misplaced, 1));
        for words in [
            "in/3 at offset 1: the partition key (murmur2 hash ",
            "belongs to partition 0 of 4, the record lies in 3: that is where murmur2 puts its own key",
        ] {
            assert!(halt.message.contains(words), "{}", halt.message);
        }
        let metrics = running.worker.metrics_text().unwrap();
        assert_eq!(misplaced_metric(&metrics), 1);
        let verdict =
            r#"turbine_partition_key_placement{app="a",subscription="s",partition="3"} -1"#;
        assert!(metrics.contains(verdict), "{metrics}");
        for other in 0..3 {
            assert_eq!(running.task(other).placement, Verdict::Unknown);
        }
        assert_eq!(running.stop(), Drained::Whole);
    }
}

#[rstest]
#[case("skip")]
#[case("dlq")]
fn misplaced_records_go_where_the_policy_says_and_touch_no_state(#[case] policy: &str) {
    let bed = Bed::new(4);
    produce_into_3(&bed, &MIXED);
    let running = bed.start(&declared(policy), clock());
    running.until("all is read", |tasks| {
        tasks[3].records == 4 && tasks[3].placement == Verdict::Misplaced
    });
    assert_eq!(running.task(3).misplaced, 1);
    assert_eq!(misplaced_metric(&running.worker.metrics_text().unwrap()), 1);
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(results(&bed), [("abc".to_owned(), 3, 2)]);
    let dead = bed.read("dead");
    if policy == "skip" {
        assert_eq!(dead, []);
        return;
    }
    let error = dead[0].header("turbine_dlq_error").unwrap();
    assert_eq!(dead.len(), 1);
    assert!(
        error.contains("belongs to partition 0 of 4, the record lies in 3"),
        "{error}"
    );
    assert_eq!(dead[0].header("turbine_dlq_phase"), Some("processing"));

    let running = bed.start(&declared(policy), clock());
    running.until("it runs again", |tasks| {
        tasks[3].state == TaskState::Running && tasks[3].placement == Verdict::Misplaced
    });
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn with_an_undeclared_hash_nothing_is_dropped_and_the_verdict_is_shown_and_kept() {
    let bed = Bed::new(4);
    produce_into_3(&bed, &MIXED);
    let running = bed.start(&app(), clock());
    running.until("all is read", |tasks| tasks[3].records == 4);
    assert_eq!(running.task(3).misplaced, 1);
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(
        results(&bed),
        [("42".to_owned(), 100, 1), ("abc".to_owned(), 3, 2)]
    );
    let running = bed.start(&app(), clock());
    running.until("it runs again", |tasks| {
        tasks[3].state == TaskState::Running && tasks[3].placement == Verdict::Misplaced
    });
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn keys_that_lie_right_verify_the_placement_for_good() {
    let bed = Bed::new(4);
    let users: Vec<String> = (0..200).map(|n| format!("user-{n}")).collect();
    let events: Vec<(&str, i64, i64)> = users.iter().map(|user| (user.as_str(), 1, T0)).collect();
    bed.produce_events(&events);
    let running = bed.start(&declared("fail"), clock());
    let verified = |tasks: &[turbine_crds::control::TaskStatus]| {
        tasks
            .iter()
            .all(|task| task.state == TaskState::Running && task.placement == Verdict::Verified)
    };
    running.until("all tasks have seen 20 keys", verified);
    assert_eq!(running.stop(), Drained::Whole);
    let running = bed.start(&declared("fail"), clock());
    running.until("it is known again at once", verified);
    assert_eq!(running.stop(), Drained::Whole);
}

fn of_partition(partition: i32) -> ClearPlacement {
    ClearPlacement {
        partition: Some(partition),
        ..ClearPlacement::default()
    }
}

fn cleared(running: &common::Running, wanted: &ClearPlacement) -> TaskPlacement {
    let mut tasks = running.worker.clear_placement(wanted).tasks;
    assert_eq!(tasks.len(), 1);
    tasks.remove(0)
}

#[test]
fn a_verdict_that_is_cleared_stays_cleared_and_new_records_are_judged() {
    let bed = Bed::new(4);
    produce_into_3(&bed, &MIXED);
    let running = bed.start(&declared("skip"), clock());
    running.until("all is read", |tasks| {
        tasks.iter().all(|task| task.state == TaskState::Running)
            && tasks[3].records == 4
            && tasks[3].placement == Verdict::Misplaced
    });
    let first = running.task(3).misplaced_first.unwrap();
    assert_eq!((first.offset, first.belongs_to.get()), (1, 0));
    assert_eq!(first.key_hash % 4, 0);
    let looked = cleared(
        &running,
        &ClearPlacement {
            dry_run: true,
            ..of_partition(3)
        },
    );
    assert_eq!(
        (looked.verdict, looked.cleared, looked.foreign_panes),
        (Verdict::Misplaced, false, 0)
    );
    assert_eq!(running.task(3).placement, Verdict::Misplaced, "a dry run");

    let all = running.worker.clear_placement(&ClearPlacement::default());
    let partitions: Vec<i32> = all.tasks.iter().map(|task| task.partition).collect();
    assert_eq!(partitions, [0, 1, 2, 3]);
    assert!(all.tasks.iter().all(|task| task.cleared), "{all:#?}");
    assert_eq!(all.tasks[3].misplaced_first, Some(first));
    assert_eq!(running.task(3).placement, Verdict::Unknown);
    assert_eq!(running.task(3).misplaced_first, None);
    assert_eq!(running.stop(), Drained::Whole);

    let running = bed.start(&declared("skip"), clock());
    running.until("it runs again", |tasks| {
        tasks.iter().all(|task| task.state == TaskState::Running)
    });
    assert_eq!(running.task(3).placement, Verdict::Unknown);
    produce_into_3(&bed, &[("42", 1, T0 + 9 * MINUTE)]);
    running.until("the next wrong record is a verdict again", |tasks| {
        tasks[3]
            .misplaced_first
            .as_ref()
            .is_some_and(|first| first.offset == 4)
    });
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn a_look_names_the_keys_of_others_that_are_in_the_state() {
    let bed = Bed::new(4);
    produce_into_3(
        &bed,
        &[
            ("abc", 1, T0),
            ("42", 2, T0),
            ("42", 3, T0 + 1),
            ("foobar", 4, T0),
        ],
    );
    let running = bed.start(&app(), clock());
    running.until("all is read", |tasks| tasks[3].records == 4);
    let found = cleared(&running, &of_partition(3));
    assert_eq!(
        (found.panes, found.foreign_panes, found.cleared),
        (3, 2, true)
    );
    let foreign = |key_group, key: &str, belongs_to| ForeignKey {
        key_group,
        key: Some(key.to_owned()),
        belongs_to,
        panes: 1,
    };
    assert_eq!(
        found.foreign,
        [foreign(126, "foobar", 2), foreign(172, "42", 0)]
    );
    assert_eq!(found.verdict, Verdict::Misplaced);
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn a_task_that_stands_still_says_why_it_is_not_looked_through() {
    let bed = Bed::new(4);
    produce_into_3(&bed, &MIXED);
    let running = bed.start(&declared("fail"), clock());
    running.until("it halts", |tasks| tasks[3].state == TaskState::Halted);
    let found = cleared(&running, &of_partition(3));
    let why = found.refused.unwrap();
    assert!(why.contains("halted (Misplaced: in/3 at offset 1"), "{why}");
    assert_eq!((found.verdict, found.cleared), (Verdict::Misplaced, false));
    let others = ClearPlacement {
        subscription: Some("no such".to_owned()),
        ..ClearPlacement::default()
    };
    assert_eq!(running.worker.clear_placement(&others).tasks, []);
    assert_eq!(running.stop(), Drained::Whole);
}

/// Places of 12 by librdkafka's own CRC32, through the same client library that made many such topics.
#[test]
fn enough_misplaced_keys_tell_which_client_it_was() {
    let bed = Bed::new(12);
    let users: Vec<String> = (0..300).map(|n| format!("user-{n}")).collect();
    let events: Vec<(&str, i64, i64)> = users.iter().map(|user| (user.as_str(), 1, T0)).collect();
    bed.produce_by_crc32(&events);
    let running = bed.start(&declared("skip"), clock());
    running.until("every task knows the client", |tasks| {
        tasks.iter().all(|task| {
            let first = task.misplaced_first.as_ref();
            first.is_some_and(|first| {
                first
                    .looks_like
                    .starts_with("it looks like CRC32: librdkafka's default;")
            })
        })
    });
    assert_eq!(running.stop(), Drained::Whole);
}

/// 7 does not divide 960: key `21` goes to 3 of 7, and its group would say 6.
#[test]
fn a_count_that_was_allowed_runs_and_places_by_the_whole_hash() {
    let bed = Bed::new(7);
    let mut app = declared("fail");
    app["allowNonDivisorPartitions"] = json!(true);
    let users: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    let events: Vec<(&str, i64, i64)> = users.iter().map(|user| (user.as_str(), 1, T0)).collect();
    bed.produce_events(&events);
    for read in [400, 0] {
        let running = bed.start(&app, clock());
        running.until("all tasks have verified", |tasks| {
            tasks.iter().map(|task| task.records).sum::<u64>() == read
                && tasks.iter().all(|task| {
                    task.state == TaskState::Running && task.placement == Verdict::Verified
                })
        });
        let looked = running.worker.clear_placement(&ClearPlacement {
            dry_run: true,
            ..ClearPlacement::default()
        });
        let panes: u64 = looked.tasks.iter().map(|task| task.panes).sum();
        let foreign: u64 = looked.tasks.iter().map(|task| task.foreign_panes).sum();
        assert_eq!((panes, foreign), (400, 0));
        assert_eq!(running.stop(), Drained::Whole);
    }
}

/// Says a count; 0: nobody answers.
#[derive(Debug)]
struct Counts(AtomicU32);

impl PartitionCounts for Counts {
    fn count(&self, _: &TopicName, _: Duration) -> Result<RawPartitionCount, KafkaError> {
        RawPartitionCount::try_from(self.0.load(Ordering::SeqCst)).map_err(|_| {
            KafkaError::Unreachable {
                bootstrap: "kafka:9092".to_owned(),
                detail: "away".to_owned(),
            }
        })
    }
}

fn start(bed: &Bed, app: &Value, clock: &Arc<TestClock>) -> (common::Running, Arc<Counts>) {
    let counts = Arc::new(Counts(AtomicU32::new(4)));
    let mut config = bed.config(app, Arc::clone(clock) as _);
    config.counts = Some(Arc::clone(&counts) as _);
    // Long enough to be seen.
    config.limits.retry_first = Duration::from_secs(2);
    let running = bed.start_with(config);
    running.until("all tasks run", |tasks| {
        tasks.iter().all(|task| task.state == TaskState::Running)
    });
    (running, counts)
}

fn all_halted_by_growth(running: &common::Running, to: u32) {
    running.until("all tasks have noticed", |tasks| {
        tasks.iter().all(|task| {
            task.state == TaskState::Halted
                && task.halt.as_ref().is_some_and(|halt| {
                    let words = format!("topic `in` grew from 4 to {to} partitions");
                    halt.reason == "TopicGrown" && halt.message.contains(&words)
                })
        })
    });
}

#[test]
fn a_record_of_a_new_placement_stops_the_task_in_front_of_it_and_is_no_verdict() {
    let bed = Bed::new(4);
    let clock = clock();
    let (running, counts) = start(&bed, &declared("skip"), &clock);
    produce_into_3(&bed, &[("abc", 1, T0)]);
    running.until("it is read", |tasks| tasks[3].records == 1);
    counts.0.store(6, Ordering::SeqCst);
    produce_into_3(
        &bed,
        &[
            ("abc", 2, T0 + 1),
            ("", 100, T0 + 2),
            ("abc", 4, T0 + 9 * MINUTE),
        ],
    );
    all_halted_by_growth(&running, 6);
    let task = running.task(3);
    assert_eq!(task.halt.unwrap().offset, Some(2));
    assert_eq!(
        (
            task.position,
            task.frontier_ms,
            task.misplaced,
            task.placement
        ),
        (Some(2), Some(T0 + 1), 0, Verdict::Unknown)
    );
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(results(&bed), []);
}

#[test]
fn a_growth_that_no_record_shows_is_found_by_asking_and_event_time_is_held() {
    let bed = Bed::new(4);
    let clock = clock();
    let (running, counts) = start(&bed, &declared("fail"), &clock);
    produce_into_3(&bed, &[("abc", 1, T0)]);
    running.until("it is read", |tasks| tasks[3].records == 1);
    clock.advance(100);
    running.until("it is committed", |tasks| tasks[3].position == Some(1));
    counts.0.store(8, Ordering::SeqCst);
    // The last answer is not a second old, so nobody asks until the clock goes on.
    produce_into_3(&bed, &[("abc", 2, T0 + 1)]);
    running.until("it is read", |tasks| tasks[3].records == 2);
    clock.advance(1_000);
    all_halted_by_growth(&running, 8);
    assert_eq!(running.task(3).position, Some(1));
    assert_eq!(running.task(3).placement, Verdict::Unknown);
    assert_eq!(running.stop(), Drained::Whole);

    // So it is at the next start.
    let mut config = bed.config(&declared("fail"), clock);
    config.counts = Some(Arc::new(Counts(AtomicU32::new(8))));
    let running = bed.start_with(config);
    all_halted_by_growth(&running, 8);
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(results(&bed), []);
}

#[test]
fn a_count_that_cannot_be_read_is_asked_for_in_front_of_the_record_until_it_can() {
    let bed = Bed::new(4);
    let clock = clock();
    let (running, counts) = start(&bed, &declared("skip"), &clock);
    counts.0.store(0, Ordering::SeqCst);
    produce_into_3(&bed, &MIXED);
    running.until("it says what it waits for", |tasks| {
        tasks[3].state == TaskState::Starting
            && tasks[3].halt.as_ref().is_some_and(|halt| {
                halt.reason == "PartitionCountUnknown" && halt.offset == Some(1)
            })
    });
    let task = running.task(3);
    assert_eq!((task.position, task.placement), (Some(1), Verdict::Unknown));
    counts.0.store(4, Ordering::SeqCst);
    running.until("all is read", |tasks| {
        tasks[3].records == 4 && tasks[3].placement == Verdict::Misplaced
    });
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(results(&bed), [("abc".to_owned(), 3, 2)]);
}

#[test]
fn with_an_undeclared_hash_a_growth_is_no_verdict() {
    let bed = Bed::new(4);
    let clock = clock();
    let (running, counts) = start(&bed, &app(), &clock);
    counts.0.store(6, Ordering::SeqCst);
    produce_into_3(&bed, &MIXED);
    running.until("all is read", |tasks| tasks[3].records == 4);
    assert_eq!(running.task(3).placement, Verdict::Unknown);
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(results(&bed).len(), 2);

    // Nor is it a reason not to start.
    let mut config = bed.config(&app(), clock);
    config.counts = Some(counts);
    let running = bed.start_with(config);
    running.until("all tasks run", |tasks| {
        tasks.iter().all(|task| task.state == TaskState::Running)
    });
    assert_eq!(running.stop(), Drained::Whole);
}

#[test]
fn a_task_that_a_growth_stops_at_its_start_still_shows_its_verdict() {
    let bed = Bed::new(4);
    produce_into_3(&bed, &MIXED);
    let running = bed.start(&declared("skip"), clock());
    running.until("all is read", |tasks| tasks[3].records == 4);
    let first = running.task(3).misplaced_first;
    assert!(first.is_some());
    assert_eq!(running.stop(), Drained::Whole);
    let mut config = bed.config(&declared("skip"), clock());
    config.counts = Some(Arc::new(Counts(AtomicU32::new(8))));
    let running = bed.start_with(config);
    all_halted_by_growth(&running, 8);
    let task = running.task(3);
    assert_eq!(
        (task.placement, task.misplaced_first),
        (Verdict::Misplaced, first)
    );
    assert_eq!(running.stop(), Drained::Whole);
}
