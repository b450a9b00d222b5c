//! Rows whose key belongs to another partition.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod common;

use std::collections::BTreeMap;

use common::*;
use proptest::prelude::*;
use rstest::rstest;
use turbine_engine::{
    Aggregate, AllLive, OnRowError, Outcome, PaneOwner, PaneOwners, PartitionKey, Pipeline,
    PipelineSpec, Placement, PlacementCheck, RowFault,
};
use turbine_keygroups::{MisplacedRecord, RawPartitionCount, Verdict, partition_of};

fn raw(count: u32) -> RawPartitionCount {
    RawPartitionCount::try_from(count).unwrap()
}

fn placed(partition: i32, count: u32, check: PlacementCheck) -> PipelineSpec {
    let mut spec = simple(&[Aggregate::CountRows]);
    spec.placement = Some(Placement {
        partition: partition.try_into().unwrap(),
        count: raw(count),
        check,
    });
    spec
}

fn record() -> MisplacedRecord {
    MisplacedRecord {
        offset: 17,
        key_hash: 7,
        belongs_to: 3.try_into().unwrap(),
        looks_like: "CRC32".to_owned(),
    }
}

fn enforced(partition: i32, count: u32) -> PipelineSpec {
    placed(partition, count, PlacementCheck::Enforce)
}

fn of(tenant: &'static str, time: i64) -> Row {
    Row {
        tenant: Some(tenant),
        ..row(time, 1)
    }
}

fn unmoved(pipeline: &mut Pipeline, rows: &[Row]) -> Outcome {
    with_batch(rows, |input| {
        pipeline.process_unmoved(input, NOW, &AllLive).unwrap()
    })
}

fn refused(outcome: &Outcome) -> Vec<usize> {
    outcome
        .row_errors
        .iter()
        .map(|error| {
            assert!(
                matches!(error.fault, RowFault::Misplaced { .. }),
                "{error:?}"
            );
            error.row
        })
        .collect()
}

fn counts(pipeline: &mut Pipeline) -> BTreeMap<String, i64> {
    results(pipeline)
        .into_iter()
        .map(|cells| match (&cells[0], &cells[3]) {
            (Cell::Text(tenant), Cell::Int(n)) => (tenant.clone(), *n),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Of 12, from the vectors of Kafka's client: `42` goes to 4, `abc` to 3.
#[test]
fn the_batch_ends_in_front_of_the_first_misplaced_row_and_goes_on_past_it_once_asked() {
    for on_row_error in [OnRowError::Stop, OnRowError::Continue] {
        let mut spec = enforced(4, 12);
        spec.on_row_error = on_row_error;
        let mut pipeline = Pipeline::new(spec).unwrap();
        let rows = [of("42", 0), of("abc", 5_000), of("42", 1), of("abc", 2)];
        let outcome = process(&mut pipeline, &rows);
        assert_eq!((outcome.rows_taken, refused(&outcome)), (1, vec![1]));
        let RowFault::Misplaced { key, hash, owner } = &outcome.row_errors[0].fault else {
            panic!("{outcome:?}");
        };
        assert_eq!(
            (key.as_slice(), hash % 12, owner.get()),
            (&b"abc"[..], 3, 3)
        );
        assert_eq!(pipeline.verdict(), Verdict::Unknown);
        assert_eq!(
            pipeline.clocks().frontier,
            Some(0),
            "a refused row moves no clock"
        );
        let outcome = unmoved(&mut pipeline, &rows[1..]);
        let seen = match on_row_error {
            OnRowError::Stop => vec![0],
            OnRowError::Continue => vec![0, 2],
        };
        assert_eq!(refused(&outcome), seen);
        assert_eq!(pipeline.open_panes(), 1);
    }
}

/// It is its producer's fault, whenever it comes.
#[test]
fn a_misplaced_row_that_is_late_is_misplaced_and_not_late() {
    let mut pipeline = Pipeline::new(enforced(4, 12)).unwrap();
    let rows = [of("42", 100_000), of("abc", 0), of("42", 1), of("abc", 2)];
    let outcome = process(&mut pipeline, &rows);
    assert_eq!((outcome.rows_taken, refused(&outcome)), (1, vec![1]));
    let outcome = unmoved(&mut pipeline, &rows[1..]);
    assert_eq!(refused(&outcome), [0, 2]);
    assert_eq!(outcome.late[0].by_data, 1, "the one in place is late");

    let mut pipeline = Pipeline::new(placed(4, 12, PlacementCheck::Observe)).unwrap();
    let outcome = process(&mut pipeline, &rows);
    assert_eq!(outcome.observed_misplaced, 2);
    assert_eq!(outcome.late[0].by_data, 3);
}

#[test]
fn a_row_is_refused_as_a_whole_whatever_else_is_wrong_with_it() {
    let mut spec = enforced(4, 12);
    let mut narrow = spec.windows[0].clone();
    narrow.name = "by id".to_owned();
    narrow.keys.push(ID);
    narrow.aggregates[0].function = Aggregate::Sum(N);
    spec.windows.push(narrow);
    let mut pipeline = Pipeline::new(spec).unwrap();
    let mut overflows = of("abc", 0);
    overflows.n = Some(i64::MAX);
    let outcome = unmoved(&mut pipeline, &[overflows.clone(), overflows]);
    assert_eq!((refused(&outcome), pipeline.open_panes()), (vec![0, 1], 0));
}

#[test]
fn null_keys_are_never_misplaced_and_prove_nothing() {
    let mut pipeline = Pipeline::new(enforced(4, 960)).unwrap();
    let rows: Vec<Row> = (0..50)
        .map(|n| Row {
            tenant: None,
            ..row(n * 10_000, 1)
        })
        .collect();
    let outcome = process(&mut pipeline, &rows);
    assert_eq!((outcome.rows_taken, refused(&outcome)), (50, vec![]));
    assert_eq!(pipeline.verdict(), Verdict::Unknown);
}

#[test]
fn an_undeclared_hash_is_reported_and_folded() {
    let mut pipeline = Pipeline::new(placed(4, 12, PlacementCheck::Observe)).unwrap();
    let rows = [of("42", 0), of("abc", 0), of("abc", 1), of("foobar", 0)];
    let outcome = process(&mut pipeline, &rows);
    assert_eq!(
        (outcome.rows_taken, outcome.row_errors.clone()),
        (4, vec![])
    );
    assert_eq!(outcome.observed_misplaced, 2);
    assert_eq!(outcome.first_observed.unwrap().row, 1);
    assert_eq!(
        pipeline.verdict(),
        Verdict::Unknown,
        "the count may have changed"
    );
    pipeline.condemn(record());
    assert_eq!(pipeline.verdict(), Verdict::Misplaced);
    let _ = process(&mut pipeline, &[of("42", 10_000)]);
    assert_eq!(
        counts(&mut pipeline),
        BTreeMap::from([("42", 1), ("abc", 2), ("foobar", 1)].map(|(k, n)| (k.to_owned(), n)))
    );
}

/// Distinct keys of partition 0 of `count`.
fn right_keys(count: u32) -> impl Iterator<Item = &'static str> {
    (0..)
        .map(|n| format!("key-{n}"))
        .filter(move |key| partition_of(key.as_bytes(), raw(count)).get() == 0)
        .map(|key| &*key.leak())
}

/// `ceil(40 / log2 N)`, by hand.
#[rstest]
#[case(2, 40)]
#[case(4, 20)]
#[case(12, 12)]
#[case(960, 5)]
fn a_verdict_needs_its_number_of_distinct_keys(
    #[case] count: u32,
    #[case] needed: usize,
    #[values(PlacementCheck::Enforce, PlacementCheck::Observe)] check: PlacementCheck,
) {
    let mut spec = placed(0, count, check);
    spec.out_of_orderness_ms = 1_000_000;
    let mut pipeline = Pipeline::new(spec).unwrap();
    let keys: Vec<&str> = right_keys(count).take(needed).collect();
    // Each key in many windows, so in many panes.
    let rows: Vec<Row> = keys[1..]
        .iter()
        .flat_map(|key| (0..10).map(|n| of(key, n * 10_000)))
        .collect();
    let _ = process(&mut pipeline, &rows);
    assert_eq!(pipeline.verdict(), Verdict::Unknown, "one key fewer");
    let _ = process(&mut pipeline, &[of(keys[0], 0)]);
    assert_eq!(pipeline.verdict(), Verdict::Verified);
}

#[test]
fn with_one_partition_it_stays_unknown() {
    let mut pipeline = Pipeline::new(enforced(0, 1)).unwrap();
    let rows: Vec<Row> = right_keys(1).take(500).map(|key| of(key, 0)).collect();
    let outcome = process(&mut pipeline, &rows);
    assert_eq!((outcome.rows_taken, pipeline.open_panes()), (500, 500));
    assert_eq!(pipeline.verdict(), Verdict::Unknown);
}

#[test]
fn a_restart_keeps_verdict_and_evidence_and_reads_stores_that_have_none() {
    let keys: Vec<&str> = right_keys(960).take(5).collect();
    let mut store = Store::default();
    let mut pipeline = Pipeline::new(enforced(0, 960)).unwrap();
    for key in &keys {
        assert_eq!(pipeline.verdict(), Verdict::Unknown);
        let _ = process(&mut pipeline, &[of(key, 0)]);
        store.checkpoint(&mut pipeline);
        pipeline = store.restore(enforced(0, 960));
    }
    assert_eq!(pipeline.verdict(), Verdict::Verified);
    pipeline.condemn(record());
    store.checkpoint(&mut pipeline);
    pipeline = store.restore(enforced(0, 960));
    assert_eq!(pipeline.verdict(), Verdict::Misplaced);
    // A pipeline that checks nothing hands it on.
    store.checkpoint(&mut store.clone().restore(simple(&[Aggregate::CountRows])));
    pipeline = store.restore(enforced(0, 960));
    assert_eq!(
        (pipeline.verdict(), pipeline.first_misplaced()),
        (Verdict::Misplaced, Some(&record()))
    );
    // Cleared, it is on the same way again.
    pipeline.clear_verdict();
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(pipeline.verdict(), Verdict::Unknown);
        let time = 100_000 + 10_000 * i64::try_from(at).unwrap();
        let _ = process(&mut pipeline, &[of(key, time)]);
        store.checkpoint(&mut pipeline);
        pipeline = store.restore(enforced(0, 960));
    }
    assert_eq!(pipeline.verdict(), Verdict::Verified);

    store.clocks =
        r#"{"max_event_time":7,"data_frontier":7,"frontier":7,"closed_to":{}}"#.to_owned();
    let pipeline = store.restore(enforced(0, 960));
    assert_eq!(
        (pipeline.clocks().frontier, pipeline.verdict()),
        (Some(7), Verdict::Unknown)
    );
}

#[test]
fn a_pane_from_before_the_hash_was_declared_hides_no_misplaced_row() {
    let mut store = Store::default();
    let mut pipeline = Pipeline::new(placed(4, 12, PlacementCheck::Observe)).unwrap();
    let _ = process(&mut pipeline, &[of("abc", 0), of("42", 0)]);
    store.checkpoint(&mut pipeline);
    let mut pipeline = store.restore(enforced(4, 12));
    let outcome = unmoved(&mut pipeline, &[of("42", 1), of("abc", 1)]);
    assert_eq!(refused(&outcome), [1]);
}

/// The owner of each stored pane, in the order of the store.
fn owners(store: &Store, spec: &PipelineSpec) -> Vec<PaneOwner> {
    let owners = PaneOwners::new(spec, spec.placement.unwrap()).unwrap();
    store
        .entries
        .keys()
        .map(|key| owners.owner(key).unwrap())
        .collect()
}

/// Partition and group of each key by the vectors of Kafka's client.
#[test]
fn a_look_through_a_store_names_the_keys_of_others() {
    let rows = [of("abc", 0), of("42", 0), of("foobar", 0), row(0, 1)];
    let nulls = Row {
        tenant: None,
        ..row(0, 1)
    };
    let mut store = Store::default();
    let mut pipeline = Pipeline::new(placed(4, 12, PlacementCheck::Observe)).unwrap();
    let _ = process(&mut pipeline, &rows[..3]);
    let _ = process(&mut pipeline, &[nulls]);
    store.checkpoint(&mut pipeline);
    let mut found: Vec<(u16, Option<Vec<u8>>, i32)> = owners(&store, &enforced(4, 12))
        .into_iter()
        .filter_map(|owner| match owner {
            PaneOwner::Foreign { group, key, owner } => Some((group.number(), key, owner.get())),
            PaneOwner::Own => None,
            PaneOwner::Unknown => panic!("12 divides 960"),
        })
        .collect();
    found.sort();
    let foreign = [(27, "abc", 3), (126, "foobar", 6)];
    assert_eq!(
        found,
        foreign.map(|(group, key, owner)| (group, Some(key.as_bytes().to_vec()), owner))
    );

    // A window that is gone: the group tells the partition, of a count that divides 960.
    let mut gone = enforced(4, 12);
    gone.windows[0].name = "another".to_owned();
    let of_gone = owners(&store, &gone);
    assert_eq!(
        of_gone.iter().filter(|of| **of == PaneOwner::Own).count(),
        2
    );
    assert!(of_gone.contains(&PaneOwner::Foreign {
        group: 27.try_into().unwrap(),
        key: None,
        owner: 3.try_into().unwrap(),
    }));
    gone.placement = enforced(3, 7).placement;
    let of_gone = owners(&store, &gone);
    let unknown = of_gone.iter().filter(|of| **of == PaneOwner::Unknown);
    assert_eq!(unknown.count(), 3);
}

/// Of 7, key `21` goes to 3 while its group says 6.
#[test]
fn on_a_count_that_does_not_divide_960_the_whole_hash_decides() {
    let mut store = Store::default();
    let mut pipeline = Pipeline::new(enforced(3, 7)).unwrap();
    let outcome = process(&mut pipeline, &[of("21", 0)]);
    assert_eq!((outcome.rows_taken, refused(&outcome)), (1, vec![]));
    store.checkpoint(&mut pipeline);
    assert_eq!(owners(&store, &enforced(3, 7)), [PaneOwner::Own]);
    assert!(matches!(
        owners(&store, &enforced(6, 7))[..],
        [PaneOwner::Foreign { owner, .. }] if owner.get() == 3
    ));
}

#[test]
fn composite_and_record_keys_are_read_from_the_store_as_they_were_hashed() {
    let mut composite = enforced(0, 12);
    composite.partition_key = PartitionKey::Columns(vec![ID, TENANT]);
    composite.windows[0].keys = vec![TENANT, FLAG, ID];
    let mut by_record = enforced(0, 12);
    by_record.partition_key = PartitionKey::RecordKey;
    for spec in [composite, by_record] {
        let mut observed = spec.clone();
        observed.placement = placed(0, 12, PlacementCheck::Observe).placement;
        let mut pipeline = Pipeline::new(observed).unwrap();
        let rows: Vec<Row> = (0..40)
            .map(|n| Row {
                id: Some(n - 20),
                flag: Some(n % 2 == 0),
                record_key: Some(format!("key {n}").leak().as_bytes()),
                ..of("abc", 0)
            })
            .collect();
        let mut keys = Vec::new();
        with_batch(&rows, |input| {
            let key = |_, key: Option<&[u8]>| keys.push(key.map(<[u8]>::to_vec));
            pipeline.partition_keys(input, key).unwrap();
        });
        let _ = process(&mut pipeline, &rows);
        let mut store = Store::default();
        store.checkpoint(&mut pipeline);
        let mut foreign: Vec<_> = owners(&store, &spec)
            .into_iter()
            .filter_map(|owner| match owner {
                PaneOwner::Foreign { key, owner, .. } => Some((key, owner.get())),
                PaneOwner::Own | PaneOwner::Unknown => None,
            })
            .collect();
        let mut expected: Vec<_> = keys
            .into_iter()
            .map(|key| {
                let partition = partition_of(key.as_deref().unwrap(), raw(12)).get();
                (key, partition)
            })
            .filter(|(_, partition)| *partition != 0)
            .collect();
        foreign.sort();
        expected.sort();
        assert!(expected.len() > 30);
        assert_eq!(foreign, expected);
    }
}

#[test]
fn a_partition_that_the_topic_does_not_have_is_refused() {
    let error = Pipeline::new(enforced(12, 12)).unwrap_err();
    assert_eq!(error.to_string(), "partition 12 is not one of 0 to 11");
}

proptest! {
    /// Every count, also those that do not divide 960.
    #[test]
    fn rows_are_refused_if_and_only_if_their_key_is_foreign(
        count in 1_u32..1_000,
        seed in any::<u32>(),
        keys in proptest::collection::vec((0_u32..200, 0_i64..40_000), 1..60),
        cut in 1_usize..20,
    ) {
        let partition = (seed % count).cast_signed();
        let rows: Vec<Row> = keys
            .iter()
            .map(|(key, time)| of(format!("{}", key.wrapping_mul(seed | 1)).leak(), *time))
            .collect();
        let foreign: Vec<bool> = rows
            .iter()
            .map(|row| partition_of(row.tenant.unwrap().as_bytes(), raw(count)).get() != partition)
            .collect();
        let mut spec = enforced(partition, count);
        spec.out_of_orderness_ms = 100_000;
        let mut pipeline = Pipeline::new(spec.clone()).unwrap();
        let mut store = Store::default();
        for (at, rows) in rows.chunks(cut).enumerate() {
            let outcome = unmoved(&mut pipeline, rows);
            let expected: Vec<usize> = (0..rows.len()).filter(|row| foreign[at * cut + row]).collect();
            prop_assert_eq!(refused(&outcome), expected);
            store.checkpoint(&mut pipeline);
            pipeline = store.restore(spec.clone());
        }
        let panes = rows
            .iter()
            .zip(&foreign)
            .filter(|(_, foreign)| !**foreign)
            .map(|(row, _)| (row.tenant, row.time.unwrap() / 10_000))
            .collect::<std::collections::BTreeSet<_>>();
        prop_assert_eq!(pipeline.open_panes(), panes.len());
    }
}
