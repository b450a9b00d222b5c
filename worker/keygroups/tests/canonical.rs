//! The byte form of typed keys.

use proptest::prelude::*;
use rstest::rstest;
use turbine_keygroups::{KeyValue, canonical_key, composite_key, group_of};

#[rstest]
#[case(KeyValue::Int64(42), b"42")]
#[case(KeyValue::Int64(0), b"0")]
#[case(KeyValue::Int64(-7), b"-7")]
#[case(KeyValue::Int64(i64::MAX), b"9223372036854775807")]
#[case(KeyValue::Int64(i64::MIN), b"-9223372036854775808")]
#[case(KeyValue::Text("42"), b"42")]
#[case(KeyValue::Text(""), b"")]
#[case(KeyValue::Text("caf\u{e9}"), b"caf\xc3\xa9")]
#[case(KeyValue::Text("cafe\u{301}"), b"cafe\xcc\x81")]
#[case(KeyValue::Bool(true), b"true")]
#[case(KeyValue::Bool(false), b"false")]
#[case(KeyValue::Bytes(b"\xff\xfe"), b"\xff\xfe")]
fn each_type_has_one_form(#[case] value: KeyValue<'_>, #[case] bytes: &[u8]) {
    assert_eq!(canonical_key(value), bytes);
}

#[test]
fn a_number_and_its_text_are_one_key() {
    assert_eq!(group_of(&canonical_key(KeyValue::Int64(42))).number(), 172);
    assert_eq!(group_of(&canonical_key(KeyValue::Text("42"))).number(), 172);
}

#[test]
fn composite_keys_carry_lengths() {
    let left = composite_key(&[KeyValue::Text("x"), KeyValue::Text("y|z")]);
    let right = composite_key(&[KeyValue::Text("x|y"), KeyValue::Text("z")]);
    assert_eq!(left, b"\0\0\0\x01x\0\0\0\x03y|z");
    assert_eq!(right, b"\0\0\0\x03x|y\0\0\0\x01z");
}

proptest! {
    #[test]
    fn integers_are_written_as_the_standard_library_writes_them(value: i64) {
        prop_assert_eq!(canonical_key(KeyValue::Int64(value)), value.to_string().into_bytes());
    }

    #[test]
    fn different_tuples_are_different_keys(
        left in prop::collection::vec("[ab|]{0,3}", 1..4),
        right in prop::collection::vec("[ab|]{0,3}", 1..4),
    ) {
        let key = |texts: &[String]| {
            composite_key(&texts.iter().map(|t| KeyValue::Text(t)).collect::<Vec<_>>())
        };
        prop_assert_eq!(key(&left) == key(&right), left == right);
    }
}
