//! Event time: accepted range, the guard against the far future, lateness, closing, idling.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod common;

use common::*;
use rstest::rstest;
use turbine_engine::{
    Aggregate, EVENT_TIME_RANGE, IdlePolicy, LateRows, MAX_DURATION_MS, Pipeline, RowFault,
};

const DATA: LateRows = LateRows {
    by_data: 1,
    by_coasting: 0,
};
const COASTING: LateRows = LateRows {
    by_data: 0,
    by_coasting: 1,
};
const IN_TIME: LateRows = LateRows {
    by_data: 0,
    by_coasting: 0,
};

fn counting() -> Pipeline {
    Pipeline::new(simple(&[Aggregate::CountRows])).unwrap()
}

/// The start of every window that came out, with its count.
fn counts(pipeline: &mut Pipeline) -> Vec<(i64, i64)> {
    results(pipeline)
        .iter()
        .map(|cells| match cells.as_slice() {
            [_, Cell::Int(start), Cell::Int(_), Cell::Int(count)] => (*start, *count),
            other => panic!("not a result of this window: {other:?}"),
        })
        .collect()
}

#[rstest]
#[case(0, 0)]
#[case(9_999, 0)]
#[case(10_000, 10_000)]
#[case(-1, -10_000)]
#[case(-10_000, -10_000)]
#[case(-10_001, -20_000)]
fn windows_start_at_the_floor(#[case] time: i64, #[case] start: i64) {
    let mut pipeline = counting();
    let _ = process(&mut pipeline, &[row(time, 1), row(1_000_000, 1)]);
    assert_eq!(counts(&mut pipeline), [(start, 1)]);
}

#[rstest]
#[case(-62_135_596_800_000, true)]
#[case(-62_135_596_800_001, false)]
#[case(-62_167_219_200_000, false)] // 0000-01-01T00:00:00Z
#[case(253_402_300_799_999, true)]
#[case(253_402_300_800_000, false)] // year 10000
#[case(i64::MAX, false)]
#[case(i64::MIN, false)]
fn times_outside_the_years_1_to_9999_are_errors(#[case] time: i64, #[case] accepted: bool) {
    let mut pipeline = counting();
    let outcome = process_at(&mut pipeline, &[row(time, 1)], i64::MAX);
    let faults: Vec<_> = outcome
        .row_errors
        .iter()
        .map(|error| error.fault.clone())
        .collect();
    if accepted {
        assert_eq!(faults, []);
        assert_eq!(pipeline.open_panes(), 1);
    } else {
        assert_eq!(faults, [RowFault::EventTimeOutOfRange { ms: time }]);
        assert_eq!(pipeline.clocks().max_event_time, None);
        assert_eq!(pipeline.open_panes(), 0);
    }
}

#[test]
fn the_longest_durations_and_the_outermost_times_do_not_overflow() {
    let mut spec = simple(&[Aggregate::CountRows]);
    spec.out_of_orderness_ms = MAX_DURATION_MS;
    spec.windows[0].kind = turbine_engine::WindowKind::Tumbling {
        size_ms: MAX_DURATION_MS,
    };
    spec.windows[0].allowed_lateness_ms = MAX_DURATION_MS;
    let mut pipeline = Pipeline::new(spec).unwrap();
    let rows = [
        row(*EVENT_TIME_RANGE.start(), 1),
        row(*EVENT_TIME_RANGE.end(), 1),
    ];
    let outcome = process_at(&mut pipeline, &rows, i64::MAX);
    assert_eq!(outcome.row_errors, []);
    pipeline.on_idle(u64::MAX);
    assert_eq!(results(&mut pipeline).len(), 2);
}

#[test]
fn a_time_too_far_ahead_is_an_error_and_moves_nothing() {
    let mut pipeline = counting();
    let now = 1_700_000_005_000;
    let outcome = process_at(&mut pipeline, &[row(4_102_444_800_000, 1)], now);
    assert_eq!(
        outcome.row_errors[0].fault,
        RowFault::TooFarAhead {
            ms: 4_102_444_800_000,
            ahead_ms: 2_402_444_795_000,
            limit_ms: 600_000
        }
    );
    let present: Vec<Row> = (0..100).map(|n| row(now - n, 1)).collect();
    let outcome = process_at(&mut pipeline, &present, now);
    assert_eq!((outcome.row_errors.len(), outcome.late[0]), (0, IN_TIME));
    let just = [row(now + 600_000, 1), row(now + 600_001, 1)];
    let outcome = process_at(&mut pipeline, &just, now);
    assert_eq!(
        outcome.row_errors.iter().map(|e| e.row).collect::<Vec<_>>(),
        [1]
    );
}

#[rstest]
#[case(0, 0, 10_000, true)]
#[case(0, 0, 9_999, false)]
#[case(500, 0, 10_499, false)]
#[case(500, 0, 10_500, true)]
#[case(0, 300, 10_299, false)]
#[case(0, 300, 10_300, true)]
#[case(500, 300, 10_799, false)]
#[case(500, 300, 10_800, true)]
fn a_window_closes_when_the_frontier_reaches_its_end_and_lateness(
    #[case] out_of_orderness_ms: u64,
    #[case] lateness: u64,
    #[case] time: i64,
    #[case] closes: bool,
) {
    let mut spec = simple(&[Aggregate::CountRows]);
    spec.out_of_orderness_ms = out_of_orderness_ms;
    spec.windows[0].allowed_lateness_ms = lateness;
    let mut pipeline = Pipeline::new(spec).unwrap();
    let _ = process(&mut pipeline, &[row(0, 1), row(time, 1)]);
    // What has not closed takes the late row.
    let late = process(&mut pipeline, &[row(9_999, 1)]).late[0];
    assert_eq!(late, if closes { DATA } else { IN_TIME });
    assert_eq!(
        counts(&mut pipeline),
        if closes { vec![(0, 1)] } else { vec![] }
    );
}

#[test]
fn a_closed_window_is_never_opened_again_by_a_longer_lateness_or_out_of_orderness() {
    let mut pipeline = counting();
    let _ = process(&mut pipeline, &[row(0, 1), row(10_000, 1)]);
    assert_eq!(counts(&mut pipeline), [(0, 1)]);
    let mut store = Store::default();
    store.checkpoint(&mut pipeline);
    let mut spec = simple(&[Aggregate::CountRows]);
    spec.out_of_orderness_ms = 60_000;
    spec.windows[0].allowed_lateness_ms = 60_000;
    let mut pipeline = store.restore(spec);
    assert_eq!(process(&mut pipeline, &[row(9_999, 1)]).late[0], DATA);
    assert_eq!(pipeline.clocks().frontier, Some(10_000));
    let _ = process(&mut pipeline, &[row(200_000, 1)]);
    assert_eq!(counts(&mut pipeline), [(10_000, 1)]);
}

#[test]
fn a_row_is_late_for_one_window_and_in_time_for_another() {
    let spec = spec(vec![
        window("short", 1_000, &[TENANT], &[Aggregate::CountRows]),
        window("long", 10_000, &[TENANT], &[Aggregate::CountRows]),
    ]);
    let mut pipeline = Pipeline::new(spec).unwrap();
    let outcome = process(&mut pipeline, &[row(0, 1), row(5_000, 1), row(500, 1)]);
    assert_eq!(outcome.late, [DATA, IN_TIME]);
    let _ = process(&mut pipeline, &[row(10_000, 1)]);
    let long: Vec<_> = closed(&mut pipeline)
        .into_iter()
        .filter(|(w, _)| w == "long")
        .collect();
    assert_eq!(long[0].1[3], Cell::Int(3));
}

#[test]
fn jitter_neither_stops_the_frontier_nor_takes_it_back() {
    let mut pipeline = counting();
    let backwards: Vec<Row> = (0..100).map(|n| row(5_000 - 5 * n, 1)).collect();
    let outcome = process(&mut pipeline, &backwards);
    assert_eq!(
        (outcome.late[0], pipeline.clocks().frontier),
        (IN_TIME, Some(5_000))
    );
}

#[test]
fn an_idle_task_coasts_from_its_frontier_by_the_time_it_stood_at_the_end() {
    let mut pipeline = counting();
    let _ = process(&mut pipeline, &[row(1_000, 1)]);
    pipeline.on_idle(29_999);
    assert_eq!(
        pipeline.clocks().frontier,
        Some(1_000),
        "not before the timeout"
    );
    assert_eq!(counts(&mut pipeline), []);
    pipeline.on_idle(30_000);
    assert_eq!(pipeline.clocks().frontier, Some(31_000));
    assert_eq!(pipeline.clocks().data_frontier, Some(1_000));
    assert_eq!(counts(&mut pipeline), [(0, 1)]);
    pipeline.on_idle(31_500);
    assert_eq!(pipeline.clocks().frontier, Some(32_500));
}

#[test]
fn rows_late_only_by_coasting_are_counted_apart_and_data_takes_over_again() {
    let mut pipeline = counting();
    let _ = process(&mut pipeline, &[row(1_000, 1)]);
    pipeline.on_idle(30_000);
    assert_eq!(process(&mut pipeline, &[row(15_000, 1)]).late[0], COASTING);
    assert_eq!(process(&mut pipeline, &[row(31_000, 1)]).late[0], IN_TIME);
    assert_eq!(process(&mut pipeline, &[row(15_000, 1)]).late[0], DATA);
    assert_eq!(pipeline.clocks().frontier, Some(31_000));
}

#[test]
fn each_idle_spell_begins_where_the_one_before_ended() {
    let mut pipeline = counting();
    let _ = process(&mut pipeline, &[row(0, 1)]);
    pipeline.on_idle(40_000);
    let _ = process(&mut pipeline, &[row(5, 1)]);
    pipeline.on_idle(0);
    assert_eq!(pipeline.clocks().frontier, Some(40_000));
    pipeline.on_idle(30_000);
    assert_eq!(pipeline.clocks().frontier, Some(70_000));

    let mut store = Store::default();
    store.checkpoint(&mut pipeline);
    let mut restored = store.restore(simple(&[Aggregate::CountRows]));
    assert_eq!(
        restored.clocks().frontier,
        Some(70_000),
        "what coasting decided is kept"
    );
    restored.on_idle(30_000);
    assert_eq!(
        restored.clocks().frontier,
        Some(100_000),
        "downtime does not count"
    );
}

#[test]
fn a_holding_task_waits_for_data() {
    let mut spec = simple(&[Aggregate::CountRows]);
    spec.idle_policy = IdlePolicy::Hold;
    let mut pipeline = Pipeline::new(spec).unwrap();
    let _ = process(&mut pipeline, &[row(1_000, 1)]);
    pipeline.on_idle(u64::MAX);
    assert_eq!(counts(&mut pipeline), []);
    assert_eq!(pipeline.clocks().frontier, Some(1_000));
}

#[test]
fn a_task_that_saw_nothing_has_nothing_to_coast() {
    let mut pipeline = counting();
    pipeline.on_idle(1_000_000);
    assert_eq!(pipeline.clocks().frontier, None);
    assert_eq!(process(&mut pipeline, &[row(-5, 1)]).late[0], IN_TIME);
}
