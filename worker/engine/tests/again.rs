//! The same rows once more: an older state comes to what a later one was, without results.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{
    Cell, ID, N, NOW, Row, Store, TENANT, closed_cold, process_cold, spec, window, with_batch,
};
use proptest::prelude::*;
use turbine_engine::{Aggregate, Clocks, IdlePolicy, Pipeline, PipelineSpec};

const RULES: u32 = 7;

fn two_windows() -> PipelineSpec {
    let functions = [Aggregate::CountRows, Aggregate::Sum(N)];
    let mut minutes = window("long", 20_000, &[TENANT], &functions);
    minutes.allowed_lateness_ms = 5_000;
    PipelineSpec {
        out_of_orderness_ms: 4_000,
        idle_policy: IdlePolicy::Coast,
        ..spec(vec![
            window("short", 10_000, &[TENANT, ID], &functions),
            minutes,
        ])
    }
}

#[derive(Debug, Clone)]
enum Step {
    Rows(Vec<Row>),
    Idle,
}

fn step() -> impl Strategy<Value = Vec<(u16, i64)>> {
    let rows = prop::collection::vec((any::<u16>(), -9_000_i64..9_000), 1..25);
    prop_oneof![1 => Just(Vec::new()), 3 => rows]
}

/// Times wander onwards; some rows are late, some have no time. Where there are no rows the task is idle.
fn steps(picks: &[Vec<(u16, i64)>]) -> Vec<Step> {
    let mut at = 1_000_000;
    let of = |pick: u16, jitter: i64, at: i64| Row {
        time: (!pick.is_multiple_of(19)).then_some(at + jitter),
        tenant: Some(["a", "b", "c"][usize::from(pick % 3)]),
        id: Some(i64::from(pick % 11)),
        n: Some(i64::from(pick) - 1_000),
        ..Row::default()
    };
    let mut steps = Vec::new();
    for picks in picks {
        let rows = picks.iter().map(|(pick, jitter)| {
            at += i64::from(pick % 1_500);
            of(*pick, *jitter, at)
        });
        let rows: Vec<Row> = rows.collect();
        steps.push(if rows.is_empty() {
            Step::Idle
        } else {
            Step::Rows(rows)
        });
    }
    steps
}

/// A commit: the state, and what had come out up to there.
struct Commit {
    store: Store,
    /// Steps that were taken.
    steps: usize,
    results: usize,
}

type Results = Vec<(String, Vec<Cell>)>;

/// Hands out what closed, some at a time, with a commit after each part.
fn hand_out(
    pipeline: &mut Pipeline,
    store: &mut Store,
    part: usize,
    results: &mut Results,
    mut committed: impl FnMut(&Store, usize),
) {
    while pipeline.has_closed() {
        results.extend(closed_cold(pipeline, part, store));
        store.commit(pipeline);
        committed(store, results.len());
    }
    store.commit(pipeline);
    committed(store, results.len());
}

fn go_on(
    pipeline: &mut Pipeline,
    store: &mut Store,
    steps: &[Step],
    part: usize,
    mut committed: impl FnMut(&Store, usize, usize),
) -> Results {
    let mut results = Results::new();
    hand_out(pipeline, store, part, &mut results, |_, _| {});
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Rows(rows) => {
                let _ = process_cold(pipeline, rows, store);
            }
            Step::Idle => {
                pipeline.on_idle(45_000);
                // A spell does not outlive a start.
                pipeline.on_idle(0);
            }
        }
        hand_out(pipeline, store, part, &mut results, |store, so_far| {
            committed(store, at + 1, so_far);
        });
        if at % 3 == 0 {
            store.checkpoint(pipeline);
            pipeline.evict(0);
        }
    }
    results
}

fn clocks(store: &Store) -> Clocks {
    serde_json::from_str(&store.clocks).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_older_state_that_takes_the_rows_again_goes_on_as_if_nothing_had_happened(
        picks in prop::collection::vec(step(), 2..20),
        part in 1_usize..9,
        sizes in prop::collection::vec(1_usize..40, 1..4),
        (from, to) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let steps = steps(&picks);
        let mut pipeline = Pipeline::new(two_windows()).unwrap();
        pipeline.judged_by(RULES, 5);
        let mut store = Store::default();
        let mut commits = Vec::new();
        let results = go_on(&mut pipeline, &mut store, &steps, part, |store, steps, results| {
            commits.push(Commit { store: store.clone(), steps, results });
        });

        let to = to.index(commits.len());
        let (older, later) = (&commits[from.index(to + 1)], &commits[to]);
        let told = clocks(&later.store);
        prop_assert_eq!(told.trail.history, 5);
        let mut store = older.store.clone();
        let mut again = store.restore_cold(two_windows());
        again.judged_by(RULES, 6);
        again.retrace(told.handing_out);
        let due = told.handing_out.map_or(told.frontier, |of| of.due);
        let rows: Vec<Row> = steps[older.steps..later.steps]
            .iter()
            .flat_map(|step| match step {
                Step::Rows(rows) => rows.clone(),
                Step::Idle => Vec::new(),
            })
            .collect();
        let mut left = rows.as_slice();
        for size in sizes.iter().cycle() {
            let (batch, rest) = left.split_at((*size).min(left.len()));
            if batch.is_empty() {
                break;
            }
            let _ = with_batch(batch, |input| again.process(input, i64::MAX, &store).unwrap());
            again.forget_due(due);
            left = rest;
        }
        prop_assert_eq!(again.clocks().trail, told.trail);
        prop_assert!(again.catch_up(told.frontier, told.handing_out, &store).unwrap());
        prop_assert_eq!(again.clocks().frontier, told.frontier);
        // As one act, whatever is then done with it.
        store.checkpoint(&mut again);
        again.evict(0);

        let rest = go_on(&mut again, &mut store, &steps[later.steps..], part, |_, _, _| {});
        prop_assert_eq!(&rest[..], &results[later.results..]);
    }
}

#[test]
fn rows_that_were_not_there_or_are_gone_show() {
    let spec = two_windows();
    let mut pipeline = Pipeline::new(spec.clone()).unwrap();
    pipeline.judged_by(RULES, 5);
    let store = Store::default();
    let row = |time| Row {
        time: Some(time),
        tenant: Some("a"),
        id: Some(1),
        n: Some(1),
        ..Row::default()
    };
    // The second is refused by the clock.
    let rows = [row(NOW), row(NOW + 700_000), row(NOW + 1)];
    let outcome = process_cold(&mut pipeline, &rows, &store);
    assert_eq!(outcome.row_errors.len(), 1);
    let told = pipeline.clocks();
    assert_eq!(told.trail.rows, 2);
    let again = |rows: &[Row]| {
        let mut again = Pipeline::new(spec.clone()).unwrap();
        let _ = with_batch(rows, |input| {
            again.process(input, i64::MAX, &store).unwrap()
        });
        let taken = again.clocks().trail.rows;
        (taken, again.catch_up(told.frontier, None, &store).unwrap())
    };
    assert_eq!(again(&rows), (3, false), "the frontier went too far");
    assert_eq!(again(&rows[..1]), (1, true));
    assert_eq!(again(&[rows[0].clone(), rows[2].clone()]), (2, true));
}

#[test]
fn other_rules_begin_another_history_and_the_same_do_not() {
    let mut pipeline = Pipeline::new(two_windows()).unwrap();
    let history = |pipeline: &Pipeline| pipeline.clocks().trail.history;
    assert_eq!(history(&pipeline), 0);
    for (rules, fresh, expected) in [(7, 1, 1), (7, 2, 1), (8, 3, 3), (7, 4, 4)] {
        pipeline.judged_by(rules, fresh);
        assert_eq!(history(&pipeline), expected, "{rules}");
    }
    pipeline.begin_history(9);
    pipeline.judged_by(7, 10);
    assert_eq!(history(&pipeline), 9);
}
