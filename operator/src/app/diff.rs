//! Whether an apply would change anything: what is wanted, compared with what is there, field by field.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use turbine_crds::quantity::Quantity;

use super::names::APPLIED;

/// Stamps an object with what it is, so that a later pass sees whether a field was taken out of it.
pub fn stamp(object: &mut Value) {
    let stamp = digest(object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(APPLIED.to_owned(), Value::String(stamp));
        }
    }
}

/// Short digest of a value, independent of the order of its fields.
pub fn digest(value: &Value) -> String {
    fn feed(value: &Value, hash: &mut Sha256) {
        match value {
            Value::Object(fields) => {
                let mut keys: Vec<&String> = fields.keys().collect();
                keys.sort();
                hash.update(b"{");
                for key in keys {
                    hash.update(key.as_bytes());
                    hash.update(b":");
                    feed(&fields[key.as_str()], hash);
                }
                hash.update(b"}");
            }
            Value::Array(items) => {
                hash.update(b"[");
                for item in items {
                    feed(item, hash);
                    hash.update(b",");
                }
                hash.update(b"]");
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                hash.update(value.to_string().as_bytes());
            }
        }
    }
    let mut hash = Sha256::new();
    feed(value, &mut hash);
    let bytes = hash.finalize();
    bytes[..8]
        .iter()
        .fold(String::with_capacity(16), |mut text, byte| {
            text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
            text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
            text
        })
}

/// Whether every field of `wanted` stands in `live` with the same value. What `live` has beyond
/// that (defaults, other owners' fields) does not count.
pub fn holds(live: &Value, wanted: &Value) -> bool {
    covers(live, wanted, false)
}

/// Whether a list in `live` has more items than `wanted` has there.
pub fn has_more_items(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().any(|(key, wanted)| {
            live.get(key)
                .is_some_and(|live| has_more_items(live, wanted))
        }),
        (Value::Array(live), Value::Array(wanted)) => live.len() > wanted.len(),
        _ => false,
    }
}

fn covers(live: &Value, wanted: &Value, quantities: bool) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let quantities = quantities
                || matches!(
                    key.as_str(),
                    "requests" | "limits" | "sizeLimit" | "divisor"
                );
            match live.get(key) {
                Some(live) => covers(live, wanted, quantities),
                // The server drops what is empty.
                None => is_empty(wanted),
            }
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| covers(live, wanted, false))
        }
        // The server writes quantities in its own way: 1024Mi comes back as 1Gi.
        (live, wanted) => live == wanted || (quantities && same_quantity(live, wanted)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn same_quantity(one: &Value, other: &Value) -> bool {
    let read = |value: &Value| match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    matches!((read(one), read(other)), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::defaults_added_by_the_server(json!({"a": 1, "b": 2}), json!({"a": 1}), true)]
    #[case::another_value(json!({"a": 1}), json!({"a": 2}), false)]
    #[case::a_field_is_missing(json!({}), json!({"a": 1}), false)]
    #[case::empty_is_dropped(json!({}), json!({"a": {}, "b": []}), true)]
    #[case::list_grew(json!({"a": [1, 2]}), json!({"a": [1]}), false)]
    #[case::defaults_inside_items(json!([{"n": 1, "p": "TCP"}]), json!([{"n": 1}]), true)]
    #[case::quantity_rewritten(json!({"limits": {"memory": "1Gi"}}), json!({"limits": {"memory": "1024Mi"}}), true)]
    fn what_counts_as_a_change(#[case] live: Value, #[case] wanted: Value, #[case] same: bool) {
        assert_eq!(holds(&live, &wanted), same);
    }

    #[test]
    fn text_that_only_looks_like_a_quantity_is_compared_as_text() {
        assert!(!holds(&json!({"value": "1"}), &json!({"value": "1000m"})));
    }

    #[test]
    fn a_removed_field_changes_the_stamp() {
        let stamped = |object: Value| {
            let mut object = object;
            stamp(&mut object);
            object["metadata"]["annotations"][APPLIED].clone()
        };
        let one = stamped(json!({"metadata": {"name": "x"}, "spec": {"a": 1, "b": 2}}));
        let less = stamped(json!({"metadata": {"name": "x"}, "spec": {"a": 1}}));
        let reordered = stamped(json!({"spec": {"b": 2, "a": 1}, "metadata": {"name": "x"}}));
        assert_ne!(one, less);
        assert_eq!(one, reordered);
    }
}
