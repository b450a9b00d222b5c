//! A dead letter, and how people and programs see it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use turbine_kafka::{Origin, Seen, without_ours};
use turbine_keygroups::Partition;
use turbine_protocol::Offset;

use crate::keys::{hex, readable};
use crate::table::printable;

/// Null is not empty.
pub(super) type Bytes = Option<Vec<u8>>;

/// A dead letter with what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    /// Where it lies in the dead-letter topic.
    pub(super) partition: Partition,
    pub(super) offset: Offset,
    /// When it was written there.
    pub(super) time: Option<i64>,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    /// The record's own headers.
    pub(super) headers: Vec<(Vec<u8>, Bytes)>,
    pub(super) origin: Origin,
}

impl Letter {
    pub(super) fn of(seen: &Seen<'_>, origin: Origin) -> Self {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        Self {
            partition: seen.partition,
            offset: seen.offset,
            time: seen.time,
            key: owned(seen.key),
            value: owned(seen.value),
            headers: without_ours(seen.headers.clone())
                .map(|(name, value)| (name.to_vec(), owned(value)))
                .collect(),
            origin,
        }
    }

    /// Oldest first.
    pub(super) fn order(&self) -> (Option<i64>, Partition, Offset) {
        (self.time, self.partition, self.offset)
    }

    /// Cells of a table. Bytes beyond `most` of key and value are cut off.
    pub(super) fn cells(&self, most: usize) -> [String; 8] {
        let Origin {
            topic,
            partition,
            offset,
            phase,
            error,
            subscription,
            value_dropped,
        } = &self.origin;
        let text =
            |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), printable);
        let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let value = match value_dropped {
            Some(bytes) if self.value.is_none() => format!("(left out, {bytes} bytes)"),
            _ => shown(self.value.as_deref(), most),
        };
        [
            format!("{}:{}", self.partition.get(), self.offset),
            self.time.map_or_else(|| "-".to_owned(), written),
            format!(
                "{}:{}:{}",
                text(topic),
                number(partition.map(i64::from)),
                number(*offset)
            ),
            text(subscription),
            text(phase),
            shown(self.key.as_deref(), most),
            value,
            text(error),
        ]
    }

    /// The same for programs. Bytes beyond `most` of key and value are cut off.
    pub(super) fn json(&self, most: usize) -> Value {
        let headers: Vec<Value> = self
            .headers
            .iter()
            .map(|(name, value)| {
                let name = readable(name);
                json!({"name": name, "value": value.as_deref().map(|value| Part::of(value, usize::MAX))})
            })
            .collect();
        let part = |bytes: &Bytes| bytes.as_deref().map(|bytes| Part::of(bytes, most));
        json!({
            "partition": self.partition.get(),
            "offset": self.offset.get(),
            "time": self.time.map(written),
            "sourceTopic": self.origin.topic,
            "sourcePartition": self.origin.partition,
            "sourceOffset": self.origin.offset,
            "subscription": self.origin.subscription,
            "phase": self.origin.phase,
            "error": self.origin.error,
            "valueDroppedBytes": self.origin.value_dropped,
            "key": part(&self.key),
            "value": part(&self.value),
            "headers": headers,
        })
    }
}

/// Bytes for programs: as text if they are UTF-8, else in hex; `bytes` says how many there are, cut off or not.
#[derive(Debug, Serialize)]
struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    bytes: usize,
}

impl Part {
    fn of(bytes: &[u8], most: usize) -> Self {
        let (text, hex) = match std::str::from_utf8(bytes) {
            Ok(text) => (Some(cut(text, most).to_owned()), None),
            Err(_) => (None, Some(hex(&bytes[..bytes.len().min(most)]))),
        };
        Self {
            text,
            hex,
            bytes: bytes.len(),
        }
    }
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Bytes for people: as text if they are UTF-8, else in hex.
fn shown(bytes: Option<&[u8]>, most: usize) -> String {
    let Some(bytes) = bytes else {
        return "(null)".to_owned();
    };
    if bytes.is_empty() {
        return "(empty)".to_owned();
    }
    let (text, all) = match std::str::from_utf8(bytes) {
        Ok(text) => (printable(cut(text, most)), text.len() <= most),
        Err(_) => {
            let begin = &bytes[..bytes.len().min(most)];
            (format!("0x{}", hex(begin)), bytes.len() <= most)
        }
    };
    if all {
        text
    } else {
        format!("{text}... ({} bytes)", bytes.len())
    }
}

/// A time in RFC 3339; outside the years that it can write, in milliseconds.
fn written(millis: i64) -> String {
    Timestamp::from_millisecond(millis)
        .map_or_else(|_| format!("{millis} ms"), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(None, "(null)")]
    #[case(Some(&b""[..]), "(empty)")]
    #[case(Some(&b"abc"[..]), "abc")]
    #[case(Some(&b"0123456789"[..]), "01234567... (10 bytes)")]
    #[case(Some("0123456\u{20ac}".as_bytes()), "0123456... (10 bytes)")]
    #[case(Some(&b"\xff\xfe"[..]), "0xfffe")]
    #[case(Some(&b"\xff\0\0\0\0\0\0\0\0"[..]), "0xff00000000000000... (9 bytes)")]
    #[case(Some(&b"a\x1b[2J"[..]), "a\\u{1b}[2J")]
    fn bytes_are_shown_as_text_or_hex_up_to_a_length(
        #[case] bytes: Option<&[u8]>,
        #[case] expected: &str,
    ) {
        assert_eq!(shown(bytes, 8), expected);
    }

    fn letter() -> Letter {
        Letter {
            partition: 1.try_into().unwrap(),
            offset: 7.try_into().unwrap(),
            time: Some(1_767_225_600_123),
            key: Some(vec![0xff, 0xfe]),
            value: Some(b"{\"a\":".to_vec()),
            headers: vec![
                (b"t".to_vec(), Some(b"1".to_vec())),
                (b"t".to_vec(), None),
                (b"e".to_vec(), Some(Vec::new())),
                (vec![0xff], Some(vec![0xff, 0])),
            ],
            origin: Origin {
                topic: Some("in".to_owned()),
                partition: Some(3),
                offset: Some(42),
                phase: Some("deserialize".to_owned()),
                error: Some("cut off".to_owned()),
                subscription: Some("s".to_owned()),
                value_dropped: None,
            },
        }
    }

    #[test]
    fn a_letter_is_a_line_of_a_table() {
        let line = letter().cells(100);
        let expected = [
            "1:7",
            "2026-01-01T00:00:00.123Z",
            "in:3:42",
            "s",
            "deserialize",
            "0xfffe",
            "{\"a\":",
            "cut off",
        ];
        assert_eq!(line, expected);
        let stranger = Letter {
            origin: Origin::default(),
            time: None,
            value: None,
            ..letter()
        };
        let expected = ["1:7", "-", "-:-:-", "-", "-", "0xfffe", "(null)", "-"];
        assert_eq!(stranger.cells(100), expected);
        let too_large = Letter {
            value: None,
            origin: Origin {
                value_dropped: Some(2_097_152),
                ..Origin::default()
            },
            ..letter()
        };
        assert_eq!(too_large.cells(100)[6], "(left out, 2097152 bytes)");
    }

    #[test]
    fn programs_get_every_byte_in_its_order() {
        let all = letter().json(usize::MAX);
        let expected = json!({
            "partition": 1, "offset": 7, "time": "2026-01-01T00:00:00.123Z",
            "sourceTopic": "in", "sourcePartition": 3, "sourceOffset": 42,
            "subscription": "s", "phase": "deserialize", "error": "cut off", "valueDroppedBytes": null,
            "key": {"hex": "fffe", "bytes": 2},
            "value": {"text": "{\"a\":", "bytes": 5},
            "headers": [
                {"name": "t", "value": {"text": "1", "bytes": 1}},
                {"name": "t", "value": null},
                {"name": "e", "value": {"text": "", "bytes": 0}},
                {"name": "0xff", "value": {"hex": "ff00", "bytes": 2}},
            ],
        });
        assert_eq!(all, expected);
        assert_eq!(letter().json(1)["value"], json!({"text": "{", "bytes": 5}));
        assert_eq!(letter().json(1)["key"], json!({"hex": "ff", "bytes": 2}));
    }
}
