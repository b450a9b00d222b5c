//! Outputs that are not delivered when a worker is told to stop.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;
use turbine_kafka::{KafkaSettings, Refusal};
use turbine_runtime::worker::Drained;

use super::common::{Bed, MINUTE, Running, app, last_results, ledger, recent, ticking};

type Events = Vec<(String, i64, i64)>;

/// The second closes the window of the first.
fn events() -> Events {
    let t0 = recent();
    vec![
        ("u".to_owned(), 1, t0),
        ("later".to_owned(), 0, t0 + 3 * MINUTE),
    ]
}

fn produce(bed: &Bed, events: &Events) {
    for (user, amount, ts) in events {
        bed.produce_events(&[(user, *amount, *ts)]);
    }
}

fn until_folded(running: &Running) {
    running.until("both are folded", |tasks| tasks[0].records == 2);
    assert_eq!(running.task(0).position, Some(0), "nothing is committed");
}

/// The next start does what was given up.
fn is_done_by_the_next(bed: &Bed, events: &Events) {
    let running = bed.start(&app(), ticking());
    running.until_caught_up(2);
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(last_results(&bed.results()), ledger(&events[..1]));
}

#[rstest]
#[case::at_least_once("atLeastOnce", 500)]
#[case::exactly_once("exactlyOnce", 15_000)]
fn a_stop_that_gives_outputs_up_does_not_call_itself_whole(
    #[case] guarantee: &str,
    #[case] patience_ms: u64,
) {
    let bed = Bed::new(1);
    let events = events();
    produce(&bed, &events);
    let mut app = app();
    app["subscriptions"][0]["processingGuarantee"] = json!(guarantee);
    app["subscriptions"][0]["commitIntervalMs"] = json!(3_600_000);
    let mut config = bed.config(&app, ticking());
    // The client keeps what it is given until the commit.
    let linger = ("linger.ms".to_owned(), "55000".to_owned());
    config.kafka =
        KafkaSettings::new(bed.broker.bootstrap_servers(), None, None, [linger].into()).unwrap();
    config.stop_patience = Duration::from_millis(patience_ms);
    config.limits.broker_wait = Duration::from_millis(500);
    let running = bed.start_with(config);
    until_folded(&running);
    bed.broker.go_down().unwrap();
    assert_eq!(running.stop(), Drained::Unfinished);
    bed.broker.come_back().unwrap();
    is_done_by_the_next(&bed, &events);
}

/// Whether the order finds the task at work or waiting for its next try.
#[test]
fn a_stop_in_the_middle_of_tries_does_not_call_itself_whole() {
    let bed = Bed::new(1);
    let events = events();
    produce(&bed, &events);
    bed.broker.refuse(Refusal::RecordNotWritten, 10_000);
    let running = bed.start(&app(), ticking());
    running.until("it tries again", |tasks| {
        tasks[0].position == Some(0)
            && tasks[0]
                .halt
                .as_ref()
                .is_some_and(|halt| halt.reason == "OutputNotAcknowledged")
    });
    assert_eq!(running.stop(), Drained::Unfinished);
    bed.broker.refuse_no_more(Refusal::RecordNotWritten);
    is_done_by_the_next(&bed, &events);
}
