//! The same log gives the same results, however it is cut into batches and however often the task
//! is restored between them; and they are the results that a plain reading of the rules gives.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the rules are read literally over numbers known to fit"
)]

mod common;

use std::collections::HashMap;

use common::*;
use proptest::prelude::*;
use turbine_engine::{Aggregate, LateRows, Pipeline, PipelineSpec, RowFault};

const FUNCTIONS: [Aggregate; 12] = [
    Aggregate::CountRows,
    Aggregate::Count(N),
    Aggregate::Sum(N),
    Aggregate::Min(N),
    Aggregate::Max(N),
    Aggregate::Mean(N),
    Aggregate::Sum(X),
    Aggregate::Mean(X),
    Aggregate::Max(X),
    Aggregate::Min(ID),
    Aggregate::Max(FLAG),
    Aggregate::Min(TENANT),
];
const SHORT: i64 = 1_000;
const LONG: i64 = 7_000;
const LATENESS: i64 = 2_500;
const OUT_OF_ORDERNESS: i64 = 700;

fn two_windows() -> PipelineSpec {
    let mut long = window("long", LONG as u64, &[ID, TENANT], &FUNCTIONS);
    long.allowed_lateness_ms = LATENESS as u64;
    let mut spec = spec(vec![
        window("short", SHORT as u64, &[TENANT], &FUNCTIONS),
        long,
    ]);
    spec.out_of_orderness_ms = OUT_OF_ORDERNESS as u64;
    spec.max_future_ms = 0;
    spec
}

/// All that a reading of a log shows.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    closed: HashMap<String, Vec<Vec<Cell>>>,
    errors: Vec<usize>,
    late: [u64; 2],
}

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
        seen.errors
            .extend(outcome.row_errors.iter().map(|error| first + error.row));
        for (
            total,
            LateRows {
                by_data,
                by_coasting,
            },
        ) in seen.late.iter_mut().zip(&outcome.late)
        {
            *total += by_data;
            assert_eq!(*by_coasting, 0);
        }
        for (window, cells) in closed(&mut pipeline) {
            seen.closed.entry(window).or_default().push(cells);
        }
        if restoring {
            store.commit(&mut pipeline);
            pipeline = store.restore(two_windows());
            assert_eq!(store.entries.len(), pipeline.open_panes());
        }
        first += rows.len();
    }
    seen
}

/// The rules read literally, one row and one list of rows at a time.
fn oracle(log: &[Row]) -> Seen {
    type Pane = (usize, Option<&'static str>, Option<i64>, i64);
    let sizes = [SHORT, LONG];
    let lateness = [0, LATENESS];
    let mut panes: HashMap<Pane, Vec<&Row>> = HashMap::new();
    let mut seen = Seen::default();
    let mut highest: Option<i64> = None;
    for (at, row) in log.iter().enumerate() {
        let Some(time) = row.time.filter(|t| (-62_135_596_800_000..=NOW).contains(t)) else {
            seen.errors.push(at);
            continue;
        };
        let frontier = highest.map(|highest| highest - OUT_OF_ORDERNESS);
        let mut late = [false; 2];
        let mut into: Vec<Pane> = Vec::new();
        for window in [0, 1] {
            let start = (time as f64 / sizes[window] as f64).floor() as i64 * sizes[window];
            if frontier.is_some_and(|f| f >= start + sizes[window] + lateness[window]) {
                late[window] = true;
            } else {
                into.push((window, row.tenant, row.id.filter(|_| window == 1), start));
            }
        }
        let overflows = into.iter().any(|pane| {
            let before = panes.get(pane).into_iter().flatten();
            let sum: i128 = before.filter_map(|r| r.n).map(i128::from).sum();
            row.n
                .is_some_and(|n| i64::try_from(sum + i128::from(n)).is_err())
        });
        if overflows || row.x.is_some_and(|x| !x.is_finite()) && !into.is_empty() {
            seen.errors.push(at);
            continue;
        }
        for pane in into {
            panes.entry(pane).or_default().push(row);
        }
        for window in [0, 1] {
            seen.late[window] += u64::from(late[window]);
        }
        highest = highest.max(Some(time));
    }
    let frontier = highest.map(|highest| highest - OUT_OF_ORDERNESS);
    for ((window, tenant, id, start), rows) in panes {
        let end = start + sizes[window];
        if frontier.is_none_or(|f| f < end + lateness[window]) {
            continue;
        }
        let mut cells: Vec<Cell> = if window == 1 {
            vec![id.into()]
        } else {
            Vec::new()
        };
        cells.extend([tenant.into(), Cell::Int(start), Cell::Int(end)]);
        cells.extend(aggregates(&rows));
        seen.closed
            .entry(["short", "long"][window].to_owned())
            .or_default()
            .push(cells);
    }
    seen
}

fn aggregates(rows: &[&Row]) -> Vec<Cell> {
    let mut ns: Vec<i64> = rows.iter().filter_map(|r| r.n).collect();
    let xs: Vec<f64> = rows.iter().filter_map(|r| r.x).collect();
    let n_sum: i128 = ns.iter().copied().map(i128::from).sum();
    let n_mean = (!ns.is_empty()).then(|| nearest_quotient(n_sum, ns.len() as i128));
    let x_sum = (!xs.is_empty()).then(|| xs.iter().copied().fold(0.0, |a, b| a + b));
    ns.sort_unstable();
    let mut sorted = xs.clone();
    sorted.sort_by(f64::total_cmp);
    vec![
        Cell::Int(rows.len() as i64),
        Cell::Int(ns.len() as i64),
        (!ns.is_empty()).then_some(n_sum as i64).into(),
        ns.first().copied().into(),
        ns.last().copied().into(),
        n_mean.into(),
        x_sum.into(),
        x_sum.map(|sum| sum / xs.len() as f64).into(),
        sorted.last().copied().into(),
        rows.iter().filter_map(|r| r.id).min().into(),
        rows.iter().filter_map(|r| r.flag).max().into(),
        rows.iter().filter_map(|r| r.tenant).min().into(),
    ]
}

/// The float nearest to `sum / count`: the rounded quotient or a neighbour of it, by exact
/// comparison. Sums are either small enough for the quotient to be right or so large that floats
/// of their size are integers.
fn nearest_quotient(sum: i128, count: i128) -> f64 {
    let quotient = sum as f64 / count as f64;
    if sum.abs() < 1 << 53 {
        return quotient;
    }
    let distance = |float: &f64| (*float as i128 * count - sum).abs();
    [quotient, quotient.next_up(), quotient.next_down()]
        .into_iter()
        .min_by_key(distance)
        .unwrap()
}

/// Window results in an order of the test's own.
fn sorted(mut seen: Seen) -> Seen {
    for rows in seen.closed.values_mut() {
        rows.sort_by_key(|cells| format!("{cells:?}"));
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

/// Equality that names the first difference, since a whole log is too much to look at.
fn assert_same(left: &Seen, right: &Seen, what: &str) {
    assert_eq!(left.late, right.late, "late rows: {what}");
    for (left, right) in left.errors.iter().zip(&right.errors) {
        assert_eq!(left, right, "rows in error: {what}");
    }
    assert_eq!(
        left.errors.len(),
        right.errors.len(),
        "rows in error: {what}"
    );
    for window in ["short", "long"] {
        let rows = |seen: &Seen| seen.closed.get(window).cloned().unwrap_or_default();
        let (left, right) = (rows(left), rows(right));
        for (left, right) in left.iter().zip(&right) {
            assert_eq!(left, right, "{window}: {what}");
        }
        assert_eq!(left.len(), right.len(), "rows of {window}: {what}");
    }
}

/// The bounds in a row of results: the first two neighbours that are a known size apart.
fn bounds(cells: &[Cell]) -> (i64, i64) {
    cells
        .windows(2)
        .find_map(|pair| match pair {
            [Cell::Int(start), Cell::Int(end)] if [SHORT, LONG].contains(&(end - start)) => {
                Some((*start, *end))
            }
            _ => None,
        })
        .unwrap()
}

fn value() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![
        8 => (-100..100i64).prop_map(Some),
        1 => Just(None),
        1 => prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(i64::MAX - 50)].prop_map(Some),
    ]
}

/// Rows whose time runs on by `step` and strays, some without this and that.
fn rows(up_to: usize) -> impl Strategy<Value = Vec<Row>> {
    let stray = prop_oneof![6 => -600..=0i64, 3 => -4_000..=0i64, 1 => -30_000..=3_000i64];
    let time = (0..120i64, stray, 0..60u8);
    let tenant = prop_oneof![Just(None), Just(Some("")), Just(Some("a")), Just(Some("b"))];
    let id = prop_oneof![Just(None), (-2..2i64).prop_map(Some)];
    let x = prop_oneof![
        12 => (-64..64i32).prop_map(|x| Some(f64::from(x) * 0.1)),
        2 => Just(None),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-0.0)].prop_map(Some),
    ];
    let row = (time, tenant, id, value(), x, any::<Option<bool>>());
    prop::collection::vec(row, 0..up_to).prop_map(|rows| {
        let mut clock = -5_000;
        rows.into_iter()
            .map(|((step, stray, odd), tenant, id, n, x, flag)| {
                clock += step;
                let time = match odd {
                    0 => None,
                    1 => Some(NOW + 1),
                    2 => Some(i64::MIN),
                    _ => Some(clock + stray),
                };
                Row {
                    time,
                    tenant,
                    id,
                    n,
                    x,
                    flag,
                    record_key: None,
                }
            })
            .collect()
    })
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
