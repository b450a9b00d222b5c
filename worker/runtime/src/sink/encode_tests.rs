use std::sync::Arc;

use arrow_array::ArrayRef;
use proptest::prelude::*;
use serde_json::{Value, json};
use turbine_crds::app::{
    IdlePolicy, OnCrashRecovery, OnError, OnNullKey, OnRetentionGap, ProcessingGuarantee, TimeUnit,
};
use turbine_crds::compiled::{
    CompiledAggregate, CompiledColumn, CompiledEventTime, CompiledOutput, CompiledPartitionKey,
    CompiledStart,
};

use super::*;

fn subscription(message_key: Option<&str>) -> CompiledSubscription {
    let column = |name: &str, type_| CompiledColumn {
        name: name.to_owned(),
        type_,
    };
    CompiledSubscription {
        name: "s".to_owned(),
        topic: "in".to_owned(),
        partitions: None,
        columns: vec![
            column("user", ColumnType::String),
            column("at", ColumnType::Timestamp),
        ],
        event_time: CompiledEventTime {
            column: "at".to_owned(),
            unit: TimeUnit::Ms,
        },
        out_of_orderness_ms: 0,
        max_future_ms: 0,
        start_from: CompiledStart::Earliest,
        on_retention_gap: OnRetentionGap::Stop,
        on_error: OnError::Fail,
        dlq: None,
        idle_timeout_ms: 0,
        idle_policy: IdlePolicy::Hold,
        partition_key: CompiledPartitionKey::Columns(vec!["user".to_owned()]),
        partition_hash: None,
        on_null_key: OnNullKey::Group,
        windows: vec![CompiledWindow {
            name: "w".to_owned(),
            size_ms: 60_000,
            keys: vec!["user".to_owned()],
            aggregates: vec![CompiledAggregate {
                as_: "last".to_owned(),
                function: AggregateFunction::Max,
                column: Some("at".to_owned()),
            }],
            allowed_lateness_ms: 0,
        }],
        output: CompiledOutput {
            topic: "out".to_owned(),
            partitions: None,
            message_key: message_key.map(str::to_owned),
        },
        processing_guarantee: ProcessingGuarantee::AtLeastOnce,
        commit_interval_ms: 1_000,
        on_crash_recovery: OnCrashRecovery::Replay,
        halt_if_gap_exceeds: None,
    }
}

fn encode(table: &RecordBatch, message_key: Option<&str>) -> Vec<(Value, Option<Vec<u8>>)> {
    let subscription = subscription(message_key);
    let encoder = ResultEncoder::new(&subscription, &subscription.windows[0]);
    let table = encoder.table(table).unwrap();
    (0..table.rows())
        .map(|row| {
            let (mut value, mut key) = (Vec::new(), Vec::new());
            table.write_value(row, &mut value).unwrap();
            let keyed = table.write_key(row, &mut key).unwrap();
            (
                serde_json::from_slice(&value).unwrap(),
                keyed.then_some(key),
            )
        })
        .collect()
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

#[test]
fn every_column_is_there_in_its_own_type_and_null_stays_null() {
    let table = table(vec![
        (
            "user",
            Arc::new(StringArray::from(vec![Some("q\"\u{1}é"), Some(""), None])),
        ),
        (
            "n",
            Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None])),
        ),
        (
            "ok",
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        ),
        (
            "mean",
            Arc::new(Float64Array::from(vec![Some(0.1 + 0.2), Some(3.0), None])),
        ),
        (
            "last",
            Arc::new(Int64Array::from(vec![
                Some(-1),
                Some(1_767_225_600_000),
                None,
            ])),
        ),
    ]);
    let rows: Vec<Value> = encode(&table, None)
        .into_iter()
        .map(|(value, _)| value)
        .collect();
    assert_eq!(
        rows,
        [
            json!({"user": "q\"\u{1}é", "n": i64::MIN, "ok": true, "mean": 0.300_000_000_000_000_04, "last": "1969-12-31T23:59:59.999Z"}),
            json!({"user": "", "n": i64::MAX, "ok": false, "mean": 3.0, "last": "2026-01-01T00:00:00Z"}),
            json!({"user": null, "n": null, "ok": null, "mean": null, "last": null}),
        ]
    );
}

#[test]
fn a_record_key_is_text_where_it_is_text_and_stays_bytes_as_message_key() {
    let keys: ArrayRef = Arc::new(BinaryArray::from(vec![
        Some(&b"abc"[..]),
        Some(b""),
        Some(b"\xff\xfe"),
        None,
    ]));
    let rows = encode(&table(vec![("record_key", keys)]), Some("record_key"));
    assert_eq!(
        rows,
        [
            (json!({"record_key": "abc"}), Some(b"abc".to_vec())),
            (json!({"record_key": ""}), Some(Vec::new())),
            (
                json!({"record_key": {"hex": "fffe"}}),
                Some(b"\xff\xfe".to_vec())
            ),
            (json!({"record_key": null}), None),
        ]
    );
}

#[test]
fn an_integer_message_key_is_decimal_and_a_null_one_is_no_key() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(-42), None]));
    let keys: Vec<_> = encode(&table(vec![("id", ids)]), Some("id"))
        .into_iter()
        .map(|(_, key)| key)
        .collect();
    assert_eq!(keys, [Some(b"-42".to_vec()), None]);
}

proptest! {
    /// Against another writer of JSON, byte by byte, and back through a parser.
    #[test]
    fn a_row_is_what_serde_json_writes_of_its_values(
        rows in prop::collection::vec(
            (
                prop::option::of("\\PC{0,60}|[\\x00-\\x7f]{0,40}|[a-z0-9-]{0,40}"),
                prop::option::of(any::<i64>()),
                prop::option::of(any::<f64>().prop_filter("finite", |x| x.is_finite())),
                prop::option::of(any::<bool>()),
                // years 1 to 9999, nearly
                prop::option::of(-62_135_596_800_000_i64..253_402_207_200_000),
            ),
            1..20,
        )
    ) {
        let table = table(vec![
            ("us\"er", Arc::new(rows.iter().map(|row| row.0.clone()).collect::<StringArray>()) as _),
            ("n", Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()) as _),
            ("x", Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()) as _),
            ("ok", Arc::new(rows.iter().map(|row| row.3).collect::<BooleanArray>()) as _),
            ("last", Arc::new(rows.iter().map(|row| row.4).collect::<Int64Array>()) as _),
        ]);
        let subscription = subscription(Some("last"));
        let encoder = ResultEncoder::new(&subscription, &subscription.windows[0]);
        let written = encoder.table(&table).unwrap();
        for (at, (text, n, x, ok, last)) in rows.into_iter().enumerate() {
            let time = last.map(|ms| jiff::Timestamp::from_millisecond(ms).unwrap().to_string());
            let expected = json!({"us\"er": text, "n": n, "x": x, "ok": ok, "last": time});
            let (mut value, mut key) = (Vec::new(), Vec::new());
            written.write_value(at, &mut value).unwrap();
            prop_assert_eq!(&value, &serde_json::to_vec(&expected).unwrap());
            // This parser may miss a double by its last bit; the standard library's does not.
            let mut parsed: Value = serde_json::from_slice(&value).unwrap();
            parsed["x"] = json!(x);
            prop_assert_eq!(parsed, expected);
            let text = String::from_utf8(value).unwrap();
            let (_, number) = text.rsplit_once("\"x\":").unwrap();
            let (number, _) = number.split_once(',').unwrap();
            prop_assert_eq!(number.parse().ok().map(f64::to_bits), x.map(f64::to_bits));
            prop_assert_eq!(written.write_key(at, &mut key).unwrap(), time.is_some());
            prop_assert_eq!(key, time.unwrap_or_default().into_bytes());
        }
    }
}
