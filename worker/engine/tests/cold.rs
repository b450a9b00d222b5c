//! Panes that are not in memory: results are the same, memory is bounded, reads are few, and what
//! cannot be read is never taken for what is not there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod common;

use std::collections::BTreeMap;

use common::*;
use proptest::prelude::*;
use turbine_engine::{
    Aggregate, AllLive, Clocks, PartitionKey, Pipeline, PipelineError, PipelineSpec, RestoreError,
    StateError,
};

/// Counts and sums per id, over key groups of all kinds.
fn per_id() -> PipelineSpec {
    let mut spec = spec(vec![window(
        "w",
        1_000,
        &[ID],
        &[Aggregate::Sum(N), Aggregate::CountRows],
    )]);
    spec.partition_key = PartitionKey::Columns(vec![ID]);
    spec
}

fn of(time: i64, id: i64, n: i64) -> Row {
    Row {
        time: Some(time),
        id: Some(id),
        n: Some(n),
        ..Row::default()
    }
}

/// Rows of a log without late ones: time stands still within each second.
fn log(picks: &[(u16, i64)]) -> Vec<Row> {
    picks
        .iter()
        .enumerate()
        .map(|(at, (id, n))| of(i64::try_from(at / 400).unwrap() * 1_000, i64::from(*id), *n))
        .collect()
}

/// Sum and count of each start and id, of the seconds that ended.
fn expected(log: &[Row]) -> BTreeMap<(i64, i64), (i64, i64)> {
    let last = log.iter().filter_map(|row| row.time).max().unwrap_or(0);
    let mut sums: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
    for row in log.iter().filter(|row| row.time.unwrap() < last) {
        let sum = sums
            .entry((row.time.unwrap(), row.id.unwrap()))
            .or_default();
        sum.0 += row.n.unwrap();
        sum.1 += 1;
    }
    sums
}

fn shown(rows: &[(String, Vec<Cell>)]) -> BTreeMap<(i64, i64), (i64, i64)> {
    rows.iter()
        .map(|(_, cells)| match cells.as_slice() {
            [
                Cell::Int(id),
                Cell::Int(start),
                Cell::Int(_),
                Cell::Int(sum),
                Cell::Int(count),
            ] => ((*start, *id), (*sum, *count)),
            other => panic!("not a result of this window: {other:?}"),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn eviction_and_cold_starts_change_no_result(
        picks in prop::collection::vec((0..300_u16, -50..50_i64), 1..2_000),
        batch in 1..300_usize,
        max_panes in 1..150_usize,
        keep in 0..100_usize,
        restart_every in 1..6_usize,
    ) {
        let log = log(&picks);
        let mut store = Store::default();
        let mut pipeline = Pipeline::new(per_id()).unwrap();
        let mut undisturbed = Pipeline::new(per_id()).unwrap();
        let (mut out, mut all_live) = (Vec::new(), Vec::new());
        for (at, rows) in log.chunks(batch).enumerate() {
            let _ = process_cold(&mut pipeline, rows, &store);
            let _ = process(&mut undisturbed, rows);
            all_live.extend(closed(&mut undisturbed));
            while pipeline.has_closed() {
                let some = closed_cold(&mut pipeline, max_panes, &store);
                prop_assert!(some.len() <= max_panes);
                out.extend(some);
            }
            store.checkpoint(&mut pipeline);
            let to_bytes = pipeline.live_bytes() * keep / 100;
            let _ = pipeline.evict(to_bytes);
            prop_assert!(pipeline.live_bytes() <= to_bytes || pipeline.open_panes() == 0);
            if at % restart_every == 0 {
                pipeline = store.restore_cold(per_id());
                prop_assert_eq!(pipeline.open_panes(), 0);
            }
            if at % 3 == 0 {
                let _ = pipeline.warm(1 << 20, &store).unwrap();
            }
        }
        prop_assert_eq!(&out, &all_live);
        prop_assert_eq!(shown(&out), expected(&log));
    }
}

/// One pane for each of these ids, all saved and evicted.
fn evicted(ids: i64) -> (Pipeline, Store) {
    let mut pipeline = Pipeline::new(per_id()).unwrap();
    let rows: Vec<Row> = (0..ids).map(|id| of(0, id, id)).collect();
    let _ = process(&mut pipeline, &rows);
    let mut store = Store::default();
    store.checkpoint(&mut pipeline);
    assert_eq!(pipeline.evict(0), usize::try_from(ids).unwrap());
    assert_eq!(pipeline.open_panes(), 0);
    (pipeline, store)
}

#[test]
fn a_batch_reads_the_store_once_and_only_where_panes_are_cold() {
    let (mut pipeline, store) = evicted(1_000);
    let rows: Vec<Row> = (0..500).chain(0..500).map(|id| of(0, id, 1)).collect();
    let _ = process_cold(&mut pipeline, &rows, &store);
    assert_eq!(store.reads.get(), 1);
    assert_eq!(pipeline.open_panes(), 500);
    // All of them are in memory now.
    let _ = process_cold(&mut pipeline, &rows, &store);
    assert_eq!(store.reads.get(), 1);
    // Nothing was ever evicted of this window instance.
    let next: Vec<Row> = (0..500).map(|id| of(1_000, id, 1)).collect();
    let _ = process_cold(&mut pipeline, &next, &store);
    assert_eq!(store.reads.get(), 1);
}

#[test]
fn a_start_with_nothing_in_memory_reads_one_pane_per_slice() {
    let (_, mut store) = evicted(20_000);
    let mut pipeline = store.restore_cold(per_id());
    assert_eq!(pipeline.open_panes(), 0);
    // 960 key groups, and the look behind the last.
    assert_eq!(store.reads.get(), 961);
    let read = pipeline.warm(usize::MAX, &store).unwrap();
    assert_eq!((read, pipeline.open_panes()), (20_000, 20_000));
    let reads = store.reads.get();
    let _ = process_cold(&mut pipeline, &[of(0, -1, 1)], &store);
    assert_eq!(store.reads.get(), reads, "all is in memory again");
}

#[test]
fn panes_are_handed_out_some_at_a_time_and_a_crash_goes_on_behind_the_last() {
    let (mut pipeline, mut store) = evicted(1_000);
    let _ = process_cold(&mut pipeline, &[of(0, 7, 1), of(1_000, 1, 1)], &store);
    let mut out = Vec::new();
    let mut calls = 0;
    while pipeline.has_closed() {
        let some = closed_cold(&mut pipeline, 64, &store);
        assert!(some.len() <= 64);
        out.extend(some);
        calls += 1;
        assert!(calls <= 16, "what was handed out comes again");
        store.commit(&mut pipeline);
        pipeline = if calls % 2 == 0 {
            store.restore_cold(per_id())
        } else {
            store.restore(per_id())
        };
    }
    assert_eq!(calls, 16);
    let once: BTreeMap<(i64, i64), (i64, i64)> = (0..1_000)
        .map(|id| ((0, id), if id == 7 { (8, 2) } else { (id, 1) }))
        .collect();
    assert_eq!(out.len(), 1_000);
    assert_eq!(shown(&out), once);
    store.checkpoint(&mut pipeline);
    assert_eq!(store.entries.len(), 1, "what was handed out is deleted");
}

#[test]
fn what_changed_since_the_checkpoint_is_not_evicted() {
    let (mut pipeline, mut store) = evicted(100);
    let _ = process_cold(&mut pipeline, &[of(0, 5, 1)], &store);
    assert_eq!(pipeline.evict(0), 0);
    store.commit(&mut pipeline);
    assert_eq!(pipeline.evict(0), 0);
    store.checkpoint(&mut pipeline);
    assert_eq!(pipeline.evict(0), 1);
}

#[test]
fn a_pane_that_cannot_be_read_is_no_missing_pane() {
    let (mut pipeline, mut store) = evicted(10);
    let row = [of(0, 5, 1)];
    store.broken = true;
    let failed = with_batch(&row, |input| pipeline.process(input, NOW, &store));
    assert!(matches!(failed, Err(PipelineError::Store(Broken))));
    let forgotten = with_batch(&row, |input| pipeline.process(input, NOW, &AllLive));
    assert!(matches!(forgotten, Err(PipelineError::Store(_))));
    let clocks: Clocks = serde_json::from_str(&store.clocks).unwrap();
    let restored = Pipeline::restore(per_id(), &clocks, &store);
    assert!(matches!(restored, Err(RestoreError::Store(Broken))));
    store.broken = false;
    // Nothing was taken; given again, the row finds what was there.
    let _ = process_cold(&mut pipeline, &row, &store);
    let _ = process_cold(&mut pipeline, &[of(1_000, 1, 1)], &store);
    store.broken = true;
    let failed = pipeline.drain_closed(usize::MAX, &store);
    assert!(matches!(failed, Err(PipelineError::Store(Broken))));
    store.broken = false;
    pipeline = store.restore_cold(per_id());
    let _ = process_cold(&mut pipeline, &[of(0, 5, 1), of(1_000, 1, 1)], &store);
    let out = closed_cold(&mut pipeline, usize::MAX, &store);
    assert_eq!(shown(&out)[&(0, 5)], (6, 2));
}

#[test]
fn a_damaged_pane_is_refused_when_it_is_read() {
    let (mut pipeline, mut store) = evicted(10);
    for value in store.entries.values_mut() {
        value.truncate(7);
    }
    let refused = with_batch(&[of(0, 5, 1)], |input| pipeline.process(input, NOW, &store));
    assert!(matches!(
        refused,
        Err(PipelineError::State(StateError::Value { .. }))
    ));
    let clocks: Clocks = serde_json::from_str(&store.clocks).unwrap();
    let refused = Pipeline::restore(per_id(), &clocks, &store);
    assert!(matches!(
        refused,
        Err(RestoreError::State(StateError::Value { .. }))
    ));
}

#[test]
fn a_window_that_was_changed_under_its_name_is_refused_at_a_cold_start() {
    let (_, store) = evicted(10);
    let mut changed = per_id();
    changed.windows[0].aggregates.swap(0, 1);
    let clocks: Clocks = serde_json::from_str(&store.clocks).unwrap();
    let refused = Pipeline::restore(changed, &clocks, &store);
    assert!(matches!(
        refused,
        Err(RestoreError::State(StateError::WindowChanged { .. }))
    ));
}

/// Keys as long as a record may be: what is handed out at once is counted in bytes, from memory and from the store alike.
#[test]
fn no_part_of_a_close_holds_more_than_its_bytes_however_long_keys_are() {
    const PART: usize = 10_000;
    let tenants: Vec<&'static str> = (0..60)
        .map(|at| &*format!("{at:04}").repeat(250 + at % 7 * 250).leak())
        .collect();
    let rows: Vec<Row> = tenants
        .iter()
        .map(|tenant| Row {
            tenant: Some(tenant),
            ..row(1_000, 1)
        })
        .collect();
    let last = row(20_000, 1);
    for cold in [0, 50, 100] {
        let mut store = Store::default();
        let mut pipeline = Pipeline::new(simple(&[Aggregate::CountRows])).unwrap();
        pipeline.bound_parts(PART);
        let _ = process_cold(&mut pipeline, &rows, &store);
        store.checkpoint(&mut pipeline);
        let _ = pipeline.evict(pipeline.live_bytes() * (100 - cold) / 100);
        let _ = process_cold(&mut pipeline, std::slice::from_ref(&last), &store);
        let mut seen = Vec::new();
        while pipeline.has_closed() {
            let part = closed_cold(&mut pipeline, usize::MAX, &store);
            let keys: Vec<String> = part
                .into_iter()
                .map(|(_, cells)| match cells.into_iter().next() {
                    Some(Cell::Text(tenant)) => tenant,
                    other => panic!("no tenant: {other:?}"),
                })
                .collect();
            let bytes: usize = keys.iter().map(String::len).sum();
            let longest = keys.iter().map(String::len).max().unwrap_or(0);
            assert!(
                bytes < PART + longest,
                "{bytes} bytes at once, {cold} % cold"
            );
            seen.extend(keys);
        }
        seen.sort_unstable();
        assert_eq!(seen, tenants, "{cold} % cold");
    }
}
