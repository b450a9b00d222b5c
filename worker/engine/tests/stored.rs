//! State that leaves the engine and comes back.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod common;

use common::*;
use rstest::rstest;
use turbine_engine::{
    Aggregate, Category, Clocks, Pipeline, PipelineError, PipelineSpec, RestoreError, StateError,
    WindowKind,
};

const ALL: [Aggregate; 7] = [
    Aggregate::CountRows,
    Aggregate::Sum(N),
    Aggregate::Sum(X),
    Aggregate::Mean(N),
    Aggregate::Mean(X),
    Aggregate::Max(TENANT),
    Aggregate::Min(FLAG),
];

fn stored(spec: PipelineSpec) -> Store {
    let mut pipeline = Pipeline::new(spec).unwrap();
    let full = Row {
        x: Some(0.5),
        flag: Some(true),
        id: Some(3),
        ..row(0, 7)
    };
    let _ = process(
        &mut pipeline,
        &[
            full,
            Row {
                tenant: None,
                ..row(0, 1)
            },
        ],
    );
    let mut store = Store::default();
    store.checkpoint(&mut pipeline);
    assert_eq!(store.entries.len(), 2);
    store
}

fn refusal(store: &Store, spec: PipelineSpec) -> StateError {
    let clocks: Clocks = serde_json::from_str(&store.clocks).unwrap();
    // What the start does not look at is refused where it is read.
    let read = match Pipeline::restore(spec, &clocks, store) {
        Err(RestoreError::State(error)) => return error,
        Err(other) => panic!("{other:?}"),
        Ok((mut pipeline, _)) => pipeline.warm(usize::MAX, store),
    };
    match read {
        Err(PipelineError::State(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn only_what_changed_is_written_and_what_closed_is_deleted_after_it_was_handed_out() {
    let mut pipeline = Pipeline::new(simple(&[Aggregate::Sum(N)])).unwrap();
    let other = Row {
        tenant: Some("b"),
        ..row(0, 1)
    };
    let _ = process(&mut pipeline, &[row(0, 1), other]);
    assert_eq!(pipeline.take_changes().len(), 2);
    assert!(pipeline.take_changes().is_empty());
    let _ = process(&mut pipeline, &[row(1, 1)]);
    assert_eq!(pipeline.take_changes().len(), 1);

    let mut pipeline = Pipeline::new(simple(&[Aggregate::Sum(N)])).unwrap();
    let mut store = Store::default();
    let _ = process(&mut pipeline, &[row(0, 1)]);
    store.checkpoint(&mut pipeline);
    let _ = process(&mut pipeline, &[row(1, 2), row(10_000, 4)]);
    store.commit(&mut pipeline);
    // As after a crash in between: the result is not lost.
    let mut crashed = store.clone();
    let mut restored = crashed.restore(simple(&[Aggregate::Sum(N)]));
    let handed_out = closed_cold(&mut restored, usize::MAX, &crashed);
    assert_eq!(handed_out[0].1[3], Cell::Int(3));
    assert_eq!(results(&mut pipeline)[0][3], Cell::Int(3));
    store.commit(&mut pipeline);
    // As after a crash before the next checkpoint: what was handed out does not come again.
    let mut crashed = store.clone();
    let mut restored = crashed.restore(simple(&[Aggregate::Sum(N)]));
    assert_eq!(crashed.entries.len(), 2);
    assert_eq!(closed_cold(&mut restored, usize::MAX, &crashed), []);
    crashed.checkpoint(&mut restored);
    store.checkpoint(&mut pipeline);
    assert_eq!(store.entries.len(), 1);
    assert_eq!(store.entries, crashed.entries);
    let mut restored = store.restore(simple(&[Aggregate::Sum(N)]));
    assert_eq!(closed_cold(&mut restored, usize::MAX, &store), []);
}

#[test]
fn a_pane_that_opened_and_closed_between_commits_never_reaches_the_store() {
    let mut pipeline = Pipeline::new(simple(&[Aggregate::Sum(N)])).unwrap();
    let _ = process(&mut pipeline, &[row(0, 1), row(10_000, 4), row(20_000, 4)]);
    assert_eq!(results(&mut pipeline).len(), 2);
    assert_eq!(pipeline.take_changes().len(), 1);
    let unsaved = pipeline.take_unsaved();
    assert_eq!((unsaved.puts.len(), unsaved.dead.len()), (1, 0));
}

#[test]
fn what_is_saved_is_in_order_of_keys() {
    let mut pipeline = Pipeline::new(simple(&[Aggregate::Sum(N)])).unwrap();
    let tenants = ["q", "a", "z", "b", "", "m"];
    let rows: Vec<Row> = tenants
        .iter()
        .map(|t| Row {
            tenant: Some(t),
            ..row(0, 1)
        })
        .chain([keyless()])
        .collect();
    let _ = process(&mut pipeline, &rows);
    assert_eq!(pipeline.take_changes().len(), 7);
    let unsaved = pipeline.take_unsaved();
    let keys: Vec<_> = unsaved
        .puts
        .iter()
        .map(|change| change.key.to_vec())
        .collect();
    assert!(keys.is_sorted());
    assert_eq!(keys.len(), 7);
    assert_eq!(keys[6][..2], [0xf0, 0x00], "the null group comes last");
}

fn keyless() -> Row {
    Row {
        tenant: None,
        ..row(0, 1)
    }
}

#[test]
fn the_stored_form_is_fixed() {
    // Made by hand from the description of the format: `a` is in key group 124, its rank is 230.
    let mut pipeline = Pipeline::new(simple(&[Aggregate::CountRows, Aggregate::Sum(N)])).unwrap();
    let _ = process(&mut pipeline, &[row(10_001, -2)]);
    let changes = pipeline.take_changes();
    let change = changes.iter().next().unwrap();
    let group = 230u16 * 64;
    let rest = b"\x01\x01w\x80\0\0\0\0\0\x27\x10\x01\0\0\0\x01a";
    assert_eq!(change.key, [&group.to_be_bytes()[..], rest].concat());
    let value = change.value;
    assert_eq!(value[0], 1);
    assert_eq!(
        value[5..],
        *b"\0\0\0\0\0\0\0\x01\x01\xff\xff\xff\xff\xff\xff\xff\xfe"
    );
}

#[rstest]
#[case(|s: &mut PipelineSpec| s.windows[0].kind = WindowKind::Tumbling { size_ms: 5_000 })]
#[case(|s: &mut PipelineSpec| s.windows[0].keys = vec![ID, TENANT])]
#[case(|s: &mut PipelineSpec| s.windows[0].aggregates[1].function = Aggregate::Sum(ID))]
#[case(|s: &mut PipelineSpec| s.windows[0].aggregates.swap(0, 1))]
#[case(|s: &mut PipelineSpec| s.columns[TENANT].name = "user".into())]
#[case(|s: &mut PipelineSpec| { s.windows[0].aggregates.pop(); })]
fn state_of_a_window_that_was_defined_otherwise_is_refused(#[case] change: fn(&mut PipelineSpec)) {
    let mut spec = spec(vec![window("w", 10_000, &[TENANT, ID], &ALL)]);
    let store = stored(spec.clone());
    change(&mut spec);
    let refused = refusal(&store, spec);
    assert_eq!(refused, StateError::WindowChanged { window: "w".into() });
    assert_eq!(refused.category(), Category::User);
}

#[test]
fn names_of_results_and_clocks_may_change_over_stored_state() {
    let mut spec = simple(&ALL);
    let mut store = stored(spec.clone());
    spec.windows[0].aggregates[0].output = "renamed".into();
    spec.windows[0].allowed_lateness_ms = 5;
    spec.out_of_orderness_ms = 5;
    assert_eq!(store.restore(spec).open_panes(), 2);
}

#[test]
fn state_and_clock_of_a_removed_window_are_kept_and_reported() {
    let both = spec(vec![
        window("kept", 10_000, &[TENANT], &[Aggregate::CountRows]),
        window("gone", 1_000, &[TENANT], &[Aggregate::CountRows]),
    ]);
    let mut pipeline = Pipeline::new(both.clone()).unwrap();
    let _ = process(&mut pipeline, &[row(0, 1), row(1_500, 1)]);
    let _ = closed(&mut pipeline);
    let mut store = Store::default();
    store.checkpoint(&mut pipeline);
    let clocks: Clocks = serde_json::from_str(&store.clocks).unwrap();
    let one = spec(vec![both.windows[0].clone()]);
    let (mut pipeline, report) = Pipeline::restore(one, &clocks, &store).unwrap();
    assert_eq!(
        (report.slices, report.unknown_windows.get("gone")),
        (1, Some(&1))
    );
    store.checkpoint(&mut pipeline);
    assert_eq!(pipeline.clocks().closed_to.get("gone"), Some(&1_500));
    // Back again, it goes on where it was.
    let mut pipeline = store.restore(both);
    let outcome = process(&mut pipeline, &[row(0, 1), row(1_600, 1)]);
    assert_eq!((outcome.late[0].by_data, outcome.late[1].by_data), (0, 1));
    assert_eq!(pipeline.open_panes(), 2);
}

#[test]
fn a_stored_value_that_is_cut_too_long_or_of_another_format_is_refused() {
    let spec = simple(&ALL);
    let store = stored(spec.clone());
    for (key, value) in &store.entries {
        for cut in 0..value.len() {
            let mut damaged = store.clone();
            damaged.entries.insert(key.clone(), value[..cut].to_vec());
            let refused = refusal(&damaged, spec.clone());
            assert!(
                matches!(refused, StateError::Value { .. }),
                "cut to {cut}: {refused}"
            );
            assert_eq!(refused.category(), Category::Storage);
        }
        let mut damaged = store.clone();
        damaged
            .entries
            .insert(key.clone(), [value.as_slice(), &[0]].concat());
        assert!(matches!(
            refusal(&damaged, spec.clone()),
            StateError::Value { .. }
        ));
        damaged
            .entries
            .insert(key.clone(), [&[2], &value[1..]].concat());
        let refused = refusal(&damaged, spec.clone());
        assert!(
            matches!(
                refused,
                StateError::Version {
                    found: 2,
                    known: 1,
                    ..
                }
            ),
            "{refused}"
        );
    }
}

#[test]
fn damaged_keys_are_refused() {
    let spec = simple(&ALL);
    let store = stored(spec.clone());
    let (key, value) = store.entries.first_key_value().unwrap();
    let wrong_group = [&[0xff, 0xff], &key[2..]].concat();
    let wrong_kind = [&key[..2], &[9], &key[3..]].concat();
    let mut wrong_start = key.clone();
    wrong_start[12] ^= 1;
    let mut wrong_tuple = key.clone();
    wrong_tuple.insert(13, 0);
    for bad in [
        wrong_group,
        wrong_kind,
        wrong_start,
        wrong_tuple,
        key[..4].to_vec(),
        Vec::new(),
    ] {
        let mut damaged = store.clone();
        damaged.entries.insert(bad.clone(), value.clone());
        let refused = refusal(&damaged, spec.clone());
        assert!(
            matches!(refused, StateError::Key { .. }),
            "{bad:?}: {refused}"
        );
    }
}

#[test]
fn a_store_that_cannot_be_read_is_no_empty_store() {
    let store = Store {
        broken: true,
        ..stored(simple(&ALL))
    };
    let restored = Pipeline::restore(simple(&ALL), &Clocks::default(), &store);
    assert!(matches!(restored, Err(RestoreError::Store(Broken))));
}
