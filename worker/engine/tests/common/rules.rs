//! The rules of the crate read literally, one row and one list of rows at a time; and logs to read.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the rules are read literally over numbers known to fit"
)]

use std::collections::HashMap;

use proptest::prelude::*;
use turbine_engine::{Aggregate, Outcome, Pipeline, PipelineSpec};

use super::*;

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
pub const SHORT: i64 = 1_000;
pub const LONG: i64 = 7_000;
const LATENESS: i64 = 2_500;
const OUT_OF_ORDERNESS: i64 = 700;

pub fn two_windows() -> PipelineSpec {
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
pub struct Seen {
    pub closed: HashMap<String, Vec<Vec<Cell>>>,
    pub errors: Vec<usize>,
    pub late: [u64; 2],
}

impl Seen {
    /// What a batch showed whose first row is row `first` of the log.
    pub fn add(&mut self, outcome: &Outcome, first: usize) {
        self.errors
            .extend(outcome.row_errors.iter().map(|error| first + error.row));
        for (total, late) in self.late.iter_mut().zip(&outcome.late) {
            *total += late.by_data;
            assert_eq!(late.by_coasting, 0);
        }
    }

    pub fn drain(&mut self, pipeline: &mut Pipeline) {
        for (window, cells) in closed(pipeline) {
            self.closed.entry(window).or_default().push(cells);
        }
    }

    /// One call for at most so many panes, of which some may be cold.
    pub fn drain_some(&mut self, pipeline: &mut Pipeline, max_panes: usize, store: &Store) {
        for (window, cells) in closed_cold(pipeline, max_panes, store) {
            self.closed.entry(window).or_default().push(cells);
        }
    }

    pub fn append(&mut self, later: Self) {
        for (window, rows) in later.closed {
            self.closed.entry(window).or_default().extend(rows);
        }
        self.errors.extend(later.errors);
        for (total, late) in self.late.iter_mut().zip(later.late) {
            *total += late;
        }
    }
}

/// The rules read literally, one row and one list of rows at a time.
pub fn oracle(log: &[Row]) -> Seen {
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
pub fn sorted(mut seen: Seen) -> Seen {
    for rows in seen.closed.values_mut() {
        rows.sort_by_key(|cells| format!("{cells:?}"));
    }
    seen
}

/// Equality that names the first difference, since a whole log is too much to look at.
pub fn assert_same(left: &Seen, right: &Seen, what: &str) {
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
pub fn bounds(cells: &[Cell]) -> (i64, i64) {
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
pub fn rows(up_to: usize) -> impl Strategy<Value = Vec<Row>> {
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
