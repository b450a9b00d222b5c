use serde_json::Value;

/// Merges a patch into a value. Objects merge field by field, a null removes a field, lists of
/// objects with a `name` merge by that name, everything else is replaced.
pub(super) fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (key, patch) in patch {
                if patch.is_null() {
                    fields.remove(key);
                } else {
                    merge(fields.entry(key.clone()).or_insert(Value::Null), patch);
                }
            }
        }
        (Value::Array(items), Value::Array(patch)) if named(items) && named(patch) => {
            for patch in patch {
                match items.iter_mut().find(|item| item["name"] == patch["name"]) {
                    Some(item) => merge(item, patch),
                    None => items.push(patch.clone()),
                }
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

fn named(items: &[Value]) -> bool {
    items
        .iter()
        .all(|item| item.get("name").is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::fields(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"c": 3}}), json!({"a": {"b": 1, "c": 3}}))]
    #[case::null_removes(json!({"a": 1, "b": 2}), json!({"a": null}), json!({"b": 2}))]
    #[case::by_name(
        json!([{"name": "worker", "image": "x"}]),
        json!([{"name": "sidecar"}, {"name": "worker", "tty": true}]),
        json!([{"name": "worker", "image": "x", "tty": true}, {"name": "sidecar"}])
    )]
    #[case::plain_lists_are_replaced(json!({"args": ["a", "b"]}), json!({"args": ["c"]}), json!({"args": ["c"]}))]
    #[case::tolerations_have_no_name(
        json!({"tolerations": [{"key": "a"}]}),
        json!({"tolerations": [{"key": "b"}]}),
        json!({"tolerations": [{"key": "b"}]})
    )]
    #[case::new_branch(json!({}), json!({"a": {"b": [1]}}), json!({"a": {"b": [1]}}))]
    fn patches(#[case] mut value: Value, #[case] patch: Value, #[case] expected: Value) {
        merge(&mut value, &patch);
        assert_eq!(value, expected);
    }
}
