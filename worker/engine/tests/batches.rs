//! The same log gives the same results, however it is cut into batches and however often the task
//! is restored between them; and they are the results that a plain reading of the rules gives.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod common;

use common::rules::*;
use common::*;
use proptest::prelude::*;
use turbine_engine::{Aggregate, Pipeline, RowFault};

/// What the engine makes of the log in batches of this size; restored from its own state after
/// every batch if so asked.
fn engine(log: &[Row], batch: usize, restoring: bool) -> Seen {
    let mut pipeline = Pipeline::new(two_windows()).unwrap();
    let mut store = Store::default();
    let mut seen = Seen::default();
    let mut first = 0;
    for rows in log.chunks(batch) {
        let outcome = process(&mut pipeline, rows);
        assert_eq!(outcome.rows_taken, rows.len());
        seen.add(&outcome, first);
        seen.drain(&mut pipeline);
        if restoring {
            store.checkpoint(&mut pipeline);
            pipeline = store.restore(two_windows());
            assert_eq!(store.entries.len(), pipeline.open_panes());
        }
        first += rows.len();
    }
    seen
}

fn check(log: &[Row], sizes: &[usize]) {
    let whole = engine(log, log.len().max(1), false);
    assert_same(
        &sorted(whole.clone()),
        &sorted(oracle(log)),
        "against the rules",
    );
    for size in sizes {
        // Not only the same rows: the same rows in the same order.
        let what = format!("batches of {size}");
        assert_same(&engine(log, *size, false), &whole, &what);
        assert_same(
            &engine(log, *size, true),
            &whole,
            &format!("{what}, restored after each"),
        );
    }
    for rows in whole.closed.values() {
        let ends: Vec<_> = rows.iter().map(|cells| bounds(cells).1).collect();
        assert!(ends.is_sorted(), "windows close in order of their ends");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn results_do_not_depend_on_batches_or_restarts(log in rows(300)) {
        check(&log, &[1, 7, 50]);
    }
}

#[test]
fn results_of_a_long_log_do_not_depend_on_batches_or_restarts() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngSeed, TestRunner};

    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(960),
        ..Config::default()
    });
    let part = rows(4_001);
    let mut log: Vec<Row> = Vec::new();
    while log.len() < 12_000 {
        let offset = log
            .iter()
            .filter_map(|r| r.time)
            .filter(|t| *t <= NOW)
            .max()
            .unwrap_or(0);
        let next = part.new_tree(&mut runner).unwrap().current();
        log.extend(next.into_iter().map(|mut row| {
            row.time = row.time.map(|t| {
                if (-100_000..NOW).contains(&t) {
                    t + offset
                } else {
                    t
                }
            });
            row
        }));
    }
    let seen = oracle(&log);
    assert!(
        seen.closed.values().all(|rows| rows.len() > 500),
        "the log closes many windows"
    );
    assert!(
        seen.late.iter().all(|late| *late > 20),
        "and has late rows: {:?}",
        seen.late
    );
    assert!(seen.errors.len() > 100, "and rows in error");
    check(&log, &[7, 1_000, 10_000]);
    assert_same(
        &engine(&log, 1, false),
        &engine(&log, 10_000, false),
        "batches of 1",
    );
}

#[test]
fn a_pane_closed_by_one_row_takes_no_later_row_of_the_same_batch() {
    let log = [row(1_000, 1), row(10_000, 2), row(9_999, 4), row(20_000, 8)];
    for size in [1, 2, 3, 4] {
        let mut pipeline = Pipeline::new(simple(&[Aggregate::Sum(N)])).unwrap();
        let mut late = 0;
        let mut out = Vec::new();
        for rows in log.chunks(size) {
            late += process(&mut pipeline, rows).late[0].by_data;
            out.extend(results(&mut pipeline));
        }
        let pane = |start, sum| {
            vec![
                Cell::of("a"),
                Cell::Int(start),
                Cell::Int(start + 10_000),
                Cell::Int(sum),
            ]
        };
        assert_eq!(out, [pane(0, 1), pane(10_000, 2)], "in batches of {size}");
        assert_eq!(late, 1, "in batches of {size}");
    }
}

#[test]
fn a_stopping_pipeline_takes_all_rows_before_the_error_and_none_after_it() {
    let mut spec = simple(&[Aggregate::Sum(N)]);
    spec.on_row_error = turbine_engine::OnRowError::Stop;
    let mut pipeline = Pipeline::new(spec).unwrap();
    let untimed = Row {
        time: None,
        ..row(0, 2)
    };
    let log = [row(0, 1), untimed, row(1, 4), row(10_000, 8)];
    let outcome = process(&mut pipeline, &log);
    assert_eq!(outcome.rows_taken, 1);
    assert_eq!(outcome.row_errors.len(), 1);
    assert_eq!(outcome.row_errors[0].row, 1);
    assert_eq!(outcome.row_errors[0].fault, RowFault::NoEventTime);
    assert_eq!(pipeline.clocks().max_event_time, Some(0));
    let _ = process(&mut pipeline, &[row(10_000, 16)]);
    assert_eq!(results(&mut pipeline)[0][3], Cell::Int(1));
}
