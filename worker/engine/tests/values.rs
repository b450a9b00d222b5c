//! Aggregates, keys and rows in error.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod common;

use common::*;
use rstest::rstest;
use turbine_engine::{
    Aggregate, OnNullKey, PartitionKey, Pipeline, PipelineSpec, RowFault, SpecError,
};
use turbine_keygroups::{Group, group_of};

/// The aggregates of the rows, all of one window and tenant `a`.
fn aggregated(functions: &[Aggregate], rows: &[Row]) -> Vec<Cell> {
    let mut pipeline = Pipeline::new(simple(functions)).unwrap();
    let _ = process(&mut pipeline, rows);
    pipeline.on_idle(60_000);
    let mut results = results(&mut pipeline);
    assert!(results.len() <= 1);
    results
        .pop()
        .map_or_else(Vec::new, |mut cells| cells.split_off(3))
}

fn faults(pipeline: &mut Pipeline, rows: &[Row]) -> Vec<(usize, RowFault)> {
    let outcome = process(pipeline, rows);
    outcome
        .row_errors
        .into_iter()
        .map(|error| (error.row, error.fault))
        .collect()
}

fn float(x: f64) -> Row {
    Row {
        x: Some(x),
        n: None,
        ..row(0, 0)
    }
}

fn without_n() -> Row {
    Row {
        n: None,
        ..row(0, 0)
    }
}

#[test]
fn nulls_count_as_rows_and_as_nothing_else() {
    let functions = [
        Aggregate::CountRows,
        Aggregate::Count(N),
        Aggregate::Sum(N),
        Aggregate::Mean(N),
        Aggregate::Min(N),
    ];
    assert_eq!(
        aggregated(&functions, &[row(0, 4), without_n(), row(0, -1)]),
        [
            Cell::Int(3),
            Cell::Int(2),
            Cell::Int(3),
            Cell::Float(1.5),
            Cell::Int(-1)
        ]
    );
    assert_eq!(
        aggregated(&functions, &[without_n()]),
        [
            Cell::Int(1),
            Cell::Int(0),
            Cell::Null,
            Cell::Null,
            Cell::Null
        ]
    );
}

#[test]
fn a_pane_whose_results_are_all_null_is_left_out() {
    assert_eq!(
        aggregated(&[Aggregate::Sum(N), Aggregate::Max(X)], &[without_n()]),
        []
    );
}

#[test]
fn extremes_keep_their_type() {
    let rows = [
        Row {
            tenant: Some("a"),
            x: Some(-0.5),
            flag: Some(true),
            ..row(0, 7)
        },
        Row {
            tenant: Some("a"),
            x: Some(2.25),
            flag: Some(false),
            ..row(0, -7)
        },
    ];
    let functions = [
        Aggregate::Min(TENANT),
        Aggregate::Max(N),
        Aggregate::Min(X),
        Aggregate::Min(FLAG),
        Aggregate::Max(FLAG),
    ];
    assert_eq!(
        aggregated(&functions, &rows),
        [
            Cell::of("a"),
            Cell::Int(7),
            Cell::Float(-0.5),
            Cell::Bool(false),
            Cell::Bool(true)
        ]
    );
}

#[rstest]
#[case(&[0.0, -0.0])]
#[case(&[-0.0, 0.0])]
fn extremes_of_floats_do_not_depend_on_order(#[case] values: &[f64]) {
    let rows: Vec<Row> = values.iter().copied().map(float).collect();
    let results = aggregated(&[Aggregate::Min(X), Aggregate::Max(X)], &rows);
    let [Cell::Float(min), Cell::Float(max)] = results[..] else {
        panic!("{results:?}")
    };
    assert!(min.is_sign_negative() && max.is_sign_positive());
}

#[rstest]
#[case(i64::MAX, 1)]
#[case(i64::MIN, -1)]
fn an_integer_sum_that_would_overflow_keeps_its_last_good_value(
    #[case] sum: i64,
    #[case] value: i64,
) {
    let mut pipeline = Pipeline::new(simple(&[Aggregate::Sum(N), Aggregate::CountRows])).unwrap();
    let fault = RowFault::Overflow {
        window: "w".into(),
        output: "r0".into(),
        sum,
        value,
    };
    assert_eq!(
        faults(&mut pipeline, &[row(0, sum), row(0, value)]),
        [(1, fault)]
    );
    // It is not stuck: a value that fits is taken.
    assert_eq!(faults(&mut pipeline, &[row(0, -value)]), []);
    pipeline.on_idle(60_000);
    assert_eq!(
        results(&mut pipeline)[0][3..],
        [Cell::Int(sum - value), Cell::Int(2)]
    );
}

#[rstest]
#[case(f64::NAN)]
#[case(f64::INFINITY)]
#[case(f64::NEG_INFINITY)]
fn a_value_that_is_not_finite_is_an_error(#[case] value: f64) {
    for function in [
        Aggregate::Sum(X),
        Aggregate::Mean(X),
        Aggregate::Min(X),
        Aggregate::Max(X),
    ] {
        for rows in [[float(value), float(1.0)], [float(1.0), float(value)]] {
            let mut pipeline = Pipeline::new(simple(&[function])).unwrap();
            let found = faults(&mut pipeline, &rows);
            assert_eq!(found.len(), 1);
            assert_eq!(
                found[0].1,
                RowFault::NotFinite {
                    window: "w".into(),
                    output: "r0".into()
                }
            );
            pipeline.on_idle(60_000);
            assert_eq!(results(&mut pipeline)[0][3], Cell::Float(1.0));
        }
    }
}

#[rstest]
#[case(Aggregate::Sum(X))]
#[case(Aggregate::Mean(X))]
fn a_float_sum_that_would_overflow_keeps_its_last_good_value(#[case] function: Aggregate) {
    let mut pipeline = Pipeline::new(simple(&[function])).unwrap();
    let fault = RowFault::FloatOverflow {
        window: "w".into(),
        output: "r0".into(),
    };
    assert_eq!(
        faults(&mut pipeline, &[float(f64::MAX), float(f64::MAX)]),
        [(1, fault)]
    );
    pipeline.on_idle(60_000);
    assert_eq!(results(&mut pipeline)[0][3], Cell::Float(f64::MAX));
}

#[test]
fn a_row_in_error_has_no_effect_on_any_window_aggregate_clock_or_count() {
    let mut spec = spec(vec![
        window("counting", 1_000, &[TENANT], &[Aggregate::CountRows]),
        window("late", 10, &[TENANT], &[Aggregate::CountRows]),
        window(
            "summing",
            100_000,
            &[TENANT],
            &[Aggregate::CountRows, Aggregate::Sum(N)],
        ),
    ]);
    spec.on_null_key = OnNullKey::Group;
    let mut pipeline = Pipeline::new(spec.clone()).unwrap();
    let _ = process(&mut pipeline, &[row(1_000, i64::MAX)]);
    let mut undisturbed = Store::default();
    undisturbed.checkpoint(&mut pipeline);

    let mut pipeline = undisturbed.restore(spec);
    // Of an open pane, of a pane not there yet, with a late part, and far ahead in time.
    let rows = [row(1_999, 1), row(2_500, 1), row(0, 1), row(99_000, 1)];
    let outcome = process(&mut pipeline, &rows);
    assert_eq!(outcome.row_errors.len(), 4);
    assert!(
        outcome
            .late
            .iter()
            .all(|late| *late == turbine_engine::LateRows::default())
    );
    assert!(pipeline.take_changes().is_empty());
    assert_eq!(
        serde_json::to_string(&pipeline.clocks()).unwrap(),
        undisturbed.clocks
    );
    assert_eq!(pipeline.open_panes(), undisturbed.entries.len());
}

fn keyless() -> Row {
    Row {
        tenant: None,
        ..row(0, 1)
    }
}

#[test]
fn null_keys_have_a_group_of_their_own_apart_from_the_empty_key() {
    let mut pipeline = Pipeline::new(simple(&[Aggregate::CountRows])).unwrap();
    let empty = Row {
        tenant: Some(""),
        ..row(0, 1)
    };
    let outcome = process(&mut pipeline, &[keyless(), empty, keyless()]);
    assert_eq!(outcome.null_keys_grouped, 2);
    assert_eq!(pipeline.take_changes().len(), 2);
    let unsaved = pipeline.take_unsaved();
    let groups: Vec<Option<Group>> = unsaved
        .puts
        .iter()
        .map(|change| Group::from_prefix(*change.key.first_chunk().unwrap()))
        .collect();
    assert_eq!(groups, [Some(group_of(b"").into()), Some(Group::Null)]);
    pipeline.on_idle(60_000);
    let results = results(&mut pipeline);
    assert_eq!(
        (&results[0][0], &results[0][3]),
        (&Cell::of(""), &Cell::Int(1))
    );
    assert_eq!(
        (&results[1][0], &results[1][3]),
        (&Cell::Null, &Cell::Int(2))
    );
}

#[test]
fn null_keys_are_dropped_or_errors_where_asked_for_and_then_move_no_clock() {
    let mut spec = simple(&[Aggregate::CountRows]);
    spec.on_null_key = OnNullKey::Drop;
    let mut pipeline = Pipeline::new(spec.clone()).unwrap();
    let outcome = process(&mut pipeline, &[keyless()]);
    assert_eq!(
        (outcome.null_keys_dropped, outcome.row_errors.len()),
        (1, 0)
    );
    assert_eq!(
        (pipeline.open_panes(), pipeline.clocks().frontier),
        (0, None)
    );

    spec.on_null_key = OnNullKey::Error;
    let mut pipeline = Pipeline::new(spec).unwrap();
    assert_eq!(
        faults(&mut pipeline, &[keyless()]),
        [(0, RowFault::NullKey)]
    );
    assert_eq!(
        (pipeline.open_panes(), pipeline.clocks().frontier),
        (0, None)
    );
}

/// 64 KiB, as it is stored: a text has a byte in front and two behind it.
#[test]
fn a_key_that_is_too_long_is_in_error_and_touches_nothing() {
    let tenant = |bytes: usize| Row {
        tenant: Some("k".repeat(bytes).leak()),
        ..row(0, 1)
    };
    let mut pipeline = Pipeline::new(simple(&[Aggregate::CountRows])).unwrap();
    let longest = (65_500..65_600)
        .rfind(|bytes| faults(&mut pipeline, &[tenant(*bytes)]).is_empty())
        .unwrap();
    assert!((65_530..=65_536).contains(&longest), "{longest}");
    let mut pipeline = Pipeline::new(simple(&[Aggregate::CountRows])).unwrap();
    let rows = [
        Row {
            time: Some(700),
            ..tenant(longest + 1)
        },
        tenant(longest),
        tenant(3),
    ];
    let found = faults(&mut pipeline, &rows);
    assert!(
        matches!(
            found[..],
            [(
                0,
                RowFault::KeyTooLong {
                    bytes: 65_537,
                    limit: 65_536
                }
            )]
        ),
        "{found:?}"
    );
    assert_eq!(
        (pipeline.open_panes(), pipeline.clocks().frontier),
        (2, Some(0))
    );
}

#[test]
fn the_record_key_keys_a_window_by_its_bytes() {
    let mut spec = spec(vec![window("w", 10_000, &[ID], &[Aggregate::CountRows])]);
    spec.partition_key = PartitionKey::RecordKey;
    let mut pipeline = Pipeline::new(spec).unwrap();
    let keyed = |key: Option<&'static [u8]>| Row {
        record_key: key,
        ..row(0, 1)
    };
    let rows = [
        keyed(Some(b"\xff\xfe")),
        keyed(Some(b"")),
        keyed(None),
        keyed(Some(b"\xff\xfe")),
    ];
    assert_eq!(process(&mut pipeline, &rows).null_keys_grouped, 1);
    let mut groups: Vec<u16> = pipeline
        .take_changes()
        .iter()
        .map(|change| {
            Group::from_prefix(*change.key.first_chunk().unwrap())
                .unwrap()
                .number()
        })
        .collect();
    groups.sort_unstable();
    assert_eq!(groups, [651, 921, 960]);
    pipeline.on_idle(60_000);
    let mut seen: Vec<_> = results(&mut pipeline)
        .into_iter()
        .map(|c| (format!("{:?}", c[0]), c[4].clone()))
        .collect();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        seen,
        [
            ("Bytes([255, 254])".to_owned(), Cell::Int(2)),
            ("Bytes([])".to_owned(), Cell::Int(1)),
            ("Null".to_owned(), Cell::Int(1)),
        ]
    );
}

#[test]
fn partition_keys_are_shown_in_their_canonical_form() {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
    use turbine_engine::InputBatch;

    let mut spec = spec(vec![window(
        "w",
        10_000,
        &[TENANT, ID],
        &[Aggregate::CountRows],
    )]);
    spec.partition_key = PartitionKey::Columns(vec![ID, TENANT]);
    let pipeline = Pipeline::new(spec).unwrap();
    let batch = RecordBatch::try_from_iter([
        (
            "tenant",
            Arc::new(StringArray::from(vec![Some("x"), Some("y"), None])) as _,
        ),
        (
            "id",
            Arc::new(Int64Array::from(vec![Some(-42), None, Some(1)])) as _,
        ),
        ("n", Arc::new(Int64Array::from(vec![None, None, None])) as _),
        (
            "x",
            Arc::new(Float64Array::from(vec![None, None, None])) as _,
        ),
        (
            "flag",
            Arc::new(BooleanArray::from(vec![None, None, None])) as _,
        ),
    ])
    .unwrap();
    let event_times = Int64Array::from(vec![0, 0, 0]);
    let input = InputBatch {
        rows: &batch,
        event_times: &event_times,
        record_keys: None,
    };
    let mut seen = Vec::new();
    pipeline
        .partition_keys(input, |_, key| seen.push(key.map(<[u8]>::to_vec)))
        .unwrap();
    assert_eq!(
        seen,
        [Some(b"\0\0\0\x03-42\0\0\0\x01x".to_vec()), None, None]
    );
}

#[test]
fn results_have_keys_bounds_and_aggregates_in_this_order() {
    let spec = spec(vec![window(
        "w",
        10_000,
        &[ID, TENANT],
        &[Aggregate::Mean(N)],
    )]);
    let pipeline = Pipeline::new(spec).unwrap();
    let schema = pipeline.result_schema(0).unwrap();
    let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(
        names,
        ["id", "tenant", "window_start_ms", "window_end_ms", "r0"]
    );
    assert!(pipeline.result_schema(1).is_none());
}

#[test]
fn a_batch_that_does_not_fit_the_spec_is_refused_whole() {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use turbine_engine::{AllLive, BatchError, InputBatch, NothingCold, Outcome, PipelineError};

    let batch_error = |result: Result<Outcome, PipelineError<NothingCold>>| match result {
        Err(PipelineError::Batch(error)) => error,
        other => panic!("the batch was not refused: {other:?}"),
    };

    let mut spec = simple(&[Aggregate::CountRows]);
    spec.columns.truncate(2);
    let mut pipeline = Pipeline::new(spec.clone()).unwrap();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let int: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let (one, two) = (Int64Array::from(vec![0]), Int64Array::from(vec![0, 0]));
    let mut refusal = |columns: &[(&str, &ArrayRef)], event_times: &Int64Array| {
        let columns = columns
            .iter()
            .map(|(name, array)| (*name, Arc::clone(array)));
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let input = InputBatch {
            rows: &rows,
            event_times,
            record_keys: None,
        };
        batch_error(pipeline.process(input, NOW, &AllLive))
    };
    assert_eq!(
        refusal(&[("tenant", &text)], &one),
        BatchError::ColumnCount {
            expected: 2,
            actual: 1
        }
    );
    assert!(matches!(
        refusal(&[("tenant", &text), ("id", &text)], &one),
        BatchError::ColumnType { column, expected: "int64", .. } if column == "id"
    ));
    assert_eq!(
        refusal(&[("tenant", &text), ("id", &int)], &two),
        BatchError::Length {
            what: "event times",
            expected: 1,
            actual: 2
        }
    );
    spec.partition_key = PartitionKey::RecordKey;
    pipeline = Pipeline::new(spec).unwrap();
    let rows = RecordBatch::try_from_iter([("tenant", text), ("id", int)]).unwrap();
    let input = InputBatch {
        rows: &rows,
        event_times: &one,
        record_keys: None,
    };
    assert_eq!(
        batch_error(pipeline.process(input, NOW, &AllLive)),
        BatchError::NoRecordKeys
    );
}

type Change = fn(&mut PipelineSpec);

#[rstest]
#[case(|s: &mut PipelineSpec| s.columns[1].name = "tenant".into(), "column `tenant` is declared twice")]
#[case(|s: &mut PipelineSpec| s.partition_key = PartitionKey::Columns(vec![]), "names no column")]
#[case(|s: &mut PipelineSpec| s.partition_key = PartitionKey::Columns(vec![9]), "no column with index 9")]
#[case(|s: &mut PipelineSpec| s.partition_key = PartitionKey::Columns(vec![X]), "`partitionKey` uses float64 column `x`")]
#[case(|s: &mut PipelineSpec| s.partition_key = PartitionKey::Columns(vec![TENANT, ID]), "window `w` lack `id`")]
#[case(|s: &mut PipelineSpec| s.windows[0].keys.push(TENANT), "names key column `tenant` twice")]
#[case(|s: &mut PipelineSpec| s.windows[0].name = String::new(), "is empty or longer")]
#[case(|s: &mut PipelineSpec| s.windows[0].aggregates.clear(), "has no aggregates")]
#[case(|s: &mut PipelineSpec| s.windows[0].aggregates[0].output = "tenant".into(), "two result columns named `tenant`")]
#[case(|s: &mut PipelineSpec| s.windows[0].aggregates[0].output = "window_end_ms".into(), "named `window_end_ms`")]
#[case(|s: &mut PipelineSpec| s.windows[0].aggregates[0].function = Aggregate::Sum(FLAG), "the sum of `flag`, which is bool")]
#[case(|s: &mut PipelineSpec| s.windows[0].aggregates[0].function = Aggregate::Mean(TENANT), "the mean of `tenant`, which is string")]
#[case(|s: &mut PipelineSpec| s.windows[0].kind = turbine_engine::WindowKind::Tumbling { size_ms: 0 }, "has size 0")]
#[case(|s: &mut PipelineSpec| s.windows[0].allowed_lateness_ms = u64::MAX, "the longest duration is")]
#[case(|s: &mut PipelineSpec| { let again = s.windows[0].clone(); s.windows.push(again) }, "window `w` is declared twice")]
fn a_spec_that_breaks_a_rule_is_refused_by_name(#[case] change: Change, #[case] words: &str) {
    let mut spec = simple(&[Aggregate::CountRows]);
    spec.validate().unwrap();
    change(&mut spec);
    let refused: SpecError = Pipeline::new(spec).unwrap_err();
    assert!(refused.to_string().contains(words), "{refused}");
}
