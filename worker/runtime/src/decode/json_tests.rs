use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, BooleanArray, Float64Array, StringArray};
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn column(name: &str, type_: ColumnType) -> CompiledColumn {
    CompiledColumn {
        name: name.to_owned(),
        type_,
    }
}

fn decoder() -> JsonDecoder {
    JsonDecoder::new(
        &[
            column("user", ColumnType::String),
            column("n", ColumnType::Int64),
            column("x", ColumnType::Float64),
            column("ok", ColumnType::Bool),
            column("at", ColumnType::Timestamp),
            column("ts", ColumnType::Int64),
        ],
        &CompiledEventTime {
            column: "ts".to_owned(),
            unit: TimeUnit::Ms,
        },
    )
    .unwrap()
}

fn fault(value: &[u8]) -> RecordFault {
    decoder().push(Some(value)).unwrap_err()
}

fn deep(levels: usize) -> Vec<u8> {
    let mut value = br#"{"other":"#.to_vec();
    value.extend(std::iter::repeat_n(b'[', levels));
    value.push(b'1');
    value.extend(std::iter::repeat_n(b']', levels));
    value.push(b'}');
    value
}

fn wrong(column: &str, expected: &'static str, found: &'static str) -> RecordFault {
    RecordFault::WrongType {
        column: column.to_owned(),
        expected,
        found,
    }
}

#[rstest]
#[case::cut_off_in_a_value(br#"{"user":"a","n":"#, RecordFault::CutOff { length: 16 })]
#[case::cut_off_in_a_string(br#"{"user":"a"#, RecordFault::CutOff { length: 10 })]
#[case::cut_off_at_the_end(br#"{"user":"a""#, RecordFault::CutOff { length: 11 })]
#[case::trailing_bytes(br#"{"n":1} x"#, RecordFault::Trailing { at: 8 })]
#[case::two_documents(br#"{"n":1}{"n":2}"#, RecordFault::Trailing { at: 7 })]
#[case::a_zero_byte_behind(b"{\"n\":1}\0", RecordFault::Trailing { at: 7 })]
#[case::bad_text(b"{\"user\":\"\xff\xfe\"}", RecordFault::NotUtf8 { at: 9 })]
#[case::bad_text_elsewhere(b"{\"other\":\"\xff\"}", RecordFault::NotUtf8 { at: 10 })]
#[case::no_bytes(b"", RecordFault::Empty)]
#[case::blanks(b" \n\t", RecordFault::Empty)]
#[case::json_null(b"null", RecordFault::NotAnObject { found: "null" })]
#[case::an_array(b"[1]", RecordFault::NotAnObject { found: "an array" })]
#[case::a_number(b"7", RecordFault::NotAnObject { found: "a number" })]
#[case::a_string(br#""a""#, RecordFault::NotAnObject { found: "a string" })]
#[case::twice(br#"{"n":1,"n":1}"#, RecordFault::Duplicate { column: "n".into() })]
#[case::text_for_a_number(br#"{"n":"42"}"#, wrong("n", "int64", "a string"))]
#[case::fraction(
    br#"{"n":1.0}"#,
    wrong("n", "int64", "a number with a fraction or an exponent")
)]
#[case::exponent(
    br#"{"n":1e3}"#,
    wrong("n", "int64", "a number with a fraction or an exponent")
)]
#[case::text_for_a_float(br#"{"x":"1.5"}"#, wrong("x", "float64", "a string"))]
#[case::nan_as_text(br#"{"x":"NaN"}"#, wrong("x", "float64", "a string"))]
#[case::a_number_for_text(br#"{"user":7}"#, wrong("user", "string", "a number"))]
#[case::a_number_for_a_bool(br#"{"ok":1}"#, wrong("ok", "bool", "a number"))]
#[case::text_for_a_bool(br#"{"ok":"true"}"#, wrong("ok", "bool", "a string"))]
#[case::an_object_for_text(br#"{"user":{"id":1}}"#, wrong("user", "string", "an object"))]
#[case::an_array_for_a_number(br#"{"n":[1]}"#, wrong("n", "int64", "an array"))]
#[case::a_number_for_a_time(br#"{"at":1}"#, wrong("at", "timestamp", "a number"))]
#[case::beyond_64_bits(
    br#"{"n":9223372036854775808}"#,
    RecordFault::OutOfRange { column: "n".into(), expected: "int64" }
)]
#[case::beyond_64_bits_below(
    br#"{"n":-9223372036854775809}"#,
    RecordFault::OutOfRange { column: "n".into(), expected: "int64" }
)]
#[case::beyond_a_double(
    br#"{"x":1e400}"#,
    RecordFault::OutOfRange { column: "x".into(), expected: "float64" }
)]
#[case::beyond_a_double_below(
    br#"{"x":-1e400}"#,
    RecordFault::OutOfRange { column: "x".into(), expected: "float64" }
)]
#[case::a_huge_exponent(
    br#"{"x":1e999999999}"#,
    RecordFault::OutOfRange { column: "x".into(), expected: "float64" }
)]
#[case::no_offset(
    br#"{"at":"2026-01-01T00:00:00"}"#,
    RecordFault::NotATime { column: "at".into(), text: "2026-01-01T00:00:00".into() }
)]
fn what_is_no_row_is_told_by_name(#[case] value: &[u8], #[case] expected: RecordFault) {
    assert_eq!(fault(value), expected);
}

#[rstest]
#[case::nan(br#"{"x":NaN}"#)]
#[case::nan_for_an_integer(br#"{"n":NaN}"#)]
#[case::minus_infinity_for_an_integer(br#"{"n":-Infinity}"#)]
#[case::infinity(br#"{"x":Infinity}"#)]
#[case::minus_infinity(br#"{"x":-Infinity}"#)]
#[case::nan_elsewhere(br#"{"other":NaN}"#)]
#[case::bare_nan(b"NaN")]
#[case::plus(br#"{"n":+1}"#)]
#[case::leading_zero(br#"{"n":01}"#)]
#[case::open_fraction(br#"{"x":1.}"#)]
#[case::byte_order_mark(b"\xef\xbb\xbf{\"n\":1}")]
#[case::control_byte(b"{\"user\":\"a\nb\"}")]
#[case::lone_surrogate(br#"{"user":"\ud800"}"#)]
#[case::comma_at_the_end(br#"{"n":1,}"#)]
#[case::comments(br#"{"n":1/**/}"#)]
#[case::single_quotes(br"{'n':1}")]
#[case::words(b"undefined")]
fn what_is_no_json_is_a_syntax_fault(#[case] value: &[u8]) {
    let fault = fault(value);
    assert!(matches!(fault, RecordFault::Syntax { .. }), "{fault:?}");
}

#[test]
fn a_tombstone_is_told_apart_from_an_empty_value() {
    assert_eq!(decoder().push(None), Err(RecordFault::NoValue));
}

#[test]
fn nesting_has_a_limit_and_the_stack_holds() {
    assert_eq!(decoder().push(Some(&deep(MAX_NESTING))), Ok(()));
    assert_eq!(fault(&deep(MAX_NESTING + 1)), RecordFault::TooDeep);
    assert_eq!(fault(&deep(100_000)), RecordFault::TooDeep);
    assert_eq!(fault(&b"[".repeat(100_000)), RecordFault::TooDeep);
    assert_eq!(fault(&br#"{"user":"#.repeat(100_000)), RecordFault::TooDeep);
}

#[test]
fn missing_and_null_fields_are_null_and_others_are_ignored() {
    let mut decoder = decoder();
    decoder.push(Some(b"{}")).unwrap();
    decoder
        .push(Some(
            br#"{"user":null,"n":null,"x":null,"ok":null,"at":null,"ts":null,"z":{"n":[1,{}]}}"#,
        ))
        .unwrap();
    let decoded = decoder.finish().unwrap();
    assert_eq!(decoded.rows.num_rows(), 2);
    for column in decoded.rows.columns() {
        assert_eq!(column.null_count(), 2);
    }
    assert_eq!(decoded.event_times.null_count(), 2);
}

#[test]
fn values_arrive_as_they_were_sent() {
    let mut decoder = decoder();
    let values: [&[u8]; 3] = [
        br#" {"n":-9223372036854775808,"user":"","x":1e-400,"ok":true,"ts":7,"at":"1970-01-01T00:00:01Z"} "#,
        br#"{"user":"\u00e9\ud83d\ude00\"","n":9223372036854775807,"x":-0.0,"ok":false,"ts":-1}"#,
        "{\"\\u0075ser\":\"é\",\"x\":0.30000000000000004,\"n\":0}".as_bytes(),
    ];
    for value in values {
        decoder.push(Some(value)).unwrap();
    }
    let decoded = decoder.finish().unwrap();
    let column = |name| decoded.rows.column_by_name(name).unwrap();
    assert_eq!(
        column("user").as_string::<i32>(),
        &StringArray::from(vec!["", "é😀\"", "é"])
    );
    assert_eq!(
        column("n").as_primitive::<Int64Type>(),
        &Int64Array::from(vec![i64::MIN, i64::MAX, 0])
    );
    let x = column("x").as_primitive::<Float64Type>();
    assert_eq!(x, &Float64Array::from(vec![0.0, -0.0, 0.1 + 0.2]));
    assert!(x.value(1).is_sign_negative());
    assert_eq!(
        column("ok").as_boolean(),
        &BooleanArray::from(vec![Some(true), Some(false), None])
    );
    assert_eq!(
        column("at").as_primitive::<Int64Type>(),
        &Int64Array::from(vec![Some(1_000), None, None])
    );
    assert_eq!(
        decoded.event_times,
        Int64Array::from(vec![Some(7), Some(-1), None])
    );
}

#[test]
fn a_whole_number_fits_a_float_column() {
    let mut decoder = decoder();
    decoder.push(Some(br#"{"x":3}"#)).unwrap();
    decoder
        .push(Some(br#"{"x":123456789012345678901234567890}"#))
        .unwrap();
    let decoded = decoder.finish().unwrap();
    assert_eq!(
        decoded
            .rows
            .column_by_name("x")
            .unwrap()
            .as_primitive::<Float64Type>(),
        &Float64Array::from(vec![3.0, 123_456_789_012_345_678_901_234_567_890.0])
    );
}

proptest! {
    /// Floats against another parser: Rust's own, which is correctly rounded.
    #[test]
    fn floats_are_the_nearest_double(number in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
        for text in [format!("{number:e}"), format!("{number:?}"), format!("{number:.3}")] {
            let mut decoder = decoder();
            decoder.push(Some(format!("{{\"x\":{text}}}").as_bytes())).unwrap();
            let decoded = decoder.finish().unwrap();
            let value = decoded.rows.column(2).as_primitive::<Float64Type>().value(0);
            prop_assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits());
        }
    }

    /// Bad messages anywhere change nothing of the rows around them.
    #[test]
    fn a_bad_message_leaves_no_trace(kinds in prop::collection::vec(0_usize..5, 1..40)) {
        let bad: [&[u8]; 4] = [
            br#"{"user":"half","n":1,"x":2.5,"ok":true,"ts":1,"#,
            br#"{"user":"half","n":"#,
            br#"{"n":1,"user":"half","ts":"no"}"#,
            br#"{"n":1,"user":"half","ok":true}}"#,
        ];
        let (mut all, mut good) = (decoder(), decoder());
        for (at, kind) in kinds.iter().enumerate() {
            if let Some(bad) = bad.get(*kind) {
                prop_assert!(all.push(Some(bad)).is_err());
            } else {
                let value = format!(r#"{{"user":"u{at}","n":{at},"x":0.5,"ok":true,"ts":{at}}}"#);
                all.push(Some(value.as_bytes())).unwrap();
                good.push(Some(value.as_bytes())).unwrap();
            }
        }
        prop_assert_eq!(all.finish().unwrap().rows, good.finish().unwrap().rows);
    }

    #[test]
    fn arbitrary_bytes_never_panic(value in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = decoder();
        let taken = decoder.push(Some(&value)).is_ok();
        prop_assert_eq!(decoder.finish().unwrap().rows.num_rows(), usize::from(taken));
    }
}
