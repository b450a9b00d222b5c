//! Lines as records.

use serde_json::{Map, Value};
use thiserror::Error;
use turbine_keygroups::{KeyValue, canonical_key};

use crate::keys::{KeyError, KeyForm};

/// How a line is taken apart.
#[derive(Debug)]
pub(super) enum LineForm {
    /// `key<TAB>value`
    Tab(KeyForm),
    /// A JSON object that is the value, with the key in a field.
    Json { field: String, form: KeyForm },
}

/// A line that is no record.
#[derive(Debug, Error)]
pub(super) enum LineError {
    #[error("no tab: write key<TAB>value, or name the key's field of JSON lines with --key-field")]
    NoTab,
    #[error("not a JSON object ({0}): write one object per line, or leave out --key-field")]
    NotJson(serde_json::Error),
    #[error(
        "field `{0}` is missing or null: a record without a key belongs to no key group; correct the line or --key-field"
    )]
    NoKey(String),
    #[error(
        "field `{field}` is {found}: a key is a string, an integer of 64 bits or a truth value"
    )]
    NoKeyType { field: String, found: &'static str },
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl LineForm {
    pub(super) fn new(field: Option<String>, form: KeyForm) -> Self {
        match field {
            Some(field) => Self::Json { field, form },
            None => Self::Tab(form),
        }
    }

    /// The key and the value of a line without its end.
    pub(super) fn parse<'a>(&self, line: &'a [u8]) -> Result<(Vec<u8>, &'a [u8]), LineError> {
        match self {
            Self::Tab(form) => {
                let tab = line
                    .iter()
                    .position(|byte| *byte == b'\t')
                    .ok_or(LineError::NoTab)?;
                let (key, rest) = line.split_at(tab);
                Ok((form.read(key)?.bytes, rest.get(1..).unwrap_or_default()))
            }
            Self::Json { field, form } => {
                let object: Map<String, Value> =
                    serde_json::from_slice(line).map_err(LineError::NotJson)?;
                let written = written_key(field, object.get(field))?;
                Ok((form.read(&written)?.bytes, line))
            }
        }
    }
}

/// The canonical text of a field, as a worker that keys by it has it.
fn written_key(field: &str, value: Option<&Value>) -> Result<Vec<u8>, LineError> {
    let refuse = |found| LineError::NoKeyType {
        field: field.to_owned(),
        found,
    };
    match value {
        None | Some(Value::Null) => Err(LineError::NoKey(field.to_owned())),
        Some(Value::String(text)) => Ok(canonical_key(KeyValue::Text(text))),
        Some(Value::Bool(truth)) => Ok(canonical_key(KeyValue::Bool(*truth))),
        Some(Value::Number(number)) => number
            .as_i64()
            .map(|number| canonical_key(KeyValue::Int64(number)))
            .ok_or_else(|| refuse("a number with a fraction or beyond 64 bits")),
        Some(Value::Array(_)) => Err(refuse("a list")),
        Some(Value::Object(_)) => Err(refuse("an object")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::keys::{KeyEncoding, KeyType};

    const TEXT: KeyForm = KeyForm {
        key_encoding: KeyEncoding::Utf8,
        key_type: KeyType::String,
    };

    #[rstest]
    #[case("k\tv", b"k", "v")]
    #[case("k\t", b"k", "")]
    #[case("\tv", b"", "v")]
    #[case("k\ta\tb", b"k", "a\tb")]
    fn what_stands_before_the_first_tab_is_the_key(
        #[case] line: &str,
        #[case] key: &[u8],
        #[case] value: &str,
    ) {
        let form = LineForm::new(None, TEXT);
        let (found, rest) = form.parse(line.as_bytes()).unwrap();
        assert_eq!((found.as_slice(), rest), (key, value.as_bytes()));
    }

    #[rstest]
    #[case(r#"{"id": 42, "x": 1.50}"#, b"42")]
    #[case(r#"{"id": "42"}"#, b"42")]
    #[case(r#"{"id": -7}"#, b"-7")]
    #[case(r#"{"id": true}"#, b"true")]
    #[case(r#"{"id": ""}"#, b"")]
    #[case(r#"{"id": "caf\u00e9"}"#, b"caf\xc3\xa9")]
    fn a_field_is_the_key_in_its_canonical_form_and_the_value_is_the_line(
        #[case] line: &str,
        #[case] key: &[u8],
    ) {
        let form = LineForm::new(Some("id".to_owned()), TEXT);
        let (found, value) = form.parse(line.as_bytes()).unwrap();
        assert_eq!((found.as_slice(), value), (key, line.as_bytes()));
    }

    #[test]
    fn a_key_can_be_written_in_binary_form() {
        let binary = KeyForm {
            key_type: KeyType::Int64,
            ..TEXT
        };
        let form = LineForm::new(Some("id".to_owned()), binary);
        let (key, _) = form.parse(br#"{"id": 42}"#).unwrap();
        assert_eq!(key, b"\0\0\0\0\0\0\0\x2a");
    }

    #[rstest]
    #[case(None, "no tab here", "no tab: write key<TAB>value")]
    #[case(Some("id"), "k\tv", "not a JSON object")]
    #[case(Some("id"), "[1]", "not a JSON object")]
    #[case(Some("id"), r#"{"x": 1}"#, "`id` is missing or null")]
    #[case(Some("id"), r#"{"id": null}"#, "`id` is missing or null")]
    #[case(Some("id"), r#"{"id": 1.5}"#, "a number with a fraction")]
    #[case(Some("id"), r#"{"id": 18446744073709551615}"#, "beyond 64 bits")]
    #[case(Some("id"), r#"{"id": [1]}"#, "is a list")]
    #[case(Some("id"), r#"{"id": {}}"#, "is an object")]
    fn what_is_no_record_is_told_with_the_way_out(
        #[case] field: Option<&str>,
        #[case] line: &str,
        #[case] words: &str,
    ) {
        let form = LineForm::new(field.map(str::to_owned), TEXT);
        let refused = form.parse(line.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}
