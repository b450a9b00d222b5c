//! Stored panes as people and programs read them.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use turbine_engine::{StoredPane, TuplePart};
use turbine_keygroups::{Group, KeyGroup, KeyValue};

use crate::keys::{hex, readable};
use crate::placement::Output;
use crate::table::{Table, printable};

/// A stored key and its value. What is no pane has its bytes only.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    #[serde(flatten)]
    pane: Option<Pane>,
    raw: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pane {
    /// Null: of records without a key.
    key_group: Option<KeyGroup>,
    window: String,
    /// In epoch milliseconds.
    start: i64,
    /// The guessed parts; null if there are none to guess.
    key: Option<Vec<Value>>,
}

impl Row {
    pub(super) fn new(key: &[u8], value: &[u8]) -> Self {
        let decoded = StoredPane::decode(key);
        Self {
            damaged: decoded.as_ref().err().map(ToString::to_string),
            pane: decoded.ok().map(|pane| Pane {
                key_group: keyed(pane.group),
                window: pane.window.to_owned(),
                start: pane.start,
                key: pane
                    .parts()
                    .map(|parts| parts.into_iter().map(part).collect()),
            }),
            raw: hex(key),
            value: hex(value),
        }
    }
}

pub(super) fn keyed(group: Group) -> Option<KeyGroup> {
    match group {
        Group::Keyed(group) => Some(group),
        Group::Null => None,
    }
}

fn part(part: TuplePart<'_>) -> Value {
    match part {
        None => Value::Null,
        Some(KeyValue::Int64(number)) => json!(number),
        Some(KeyValue::Bool(truth)) => json!(truth),
        Some(KeyValue::Text(text)) => json!(text),
        Some(KeyValue::Bytes(bytes)) => json!(readable(bytes)),
    }
}

/// A time as people read it, or its milliseconds if it is beyond the calendar.
pub(super) fn time(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |time| time.to_string())
}

pub(super) fn write(
    rows: &[Row],
    values: bool,
    output: Output,
    out: &mut impl Write,
) -> io::Result<()> {
    match output {
        Output::Text => table(rows, values, out),
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, rows)?;
            writeln!(out)
        }
    }
}

fn table(rows: &[Row], values: bool, out: &mut impl Write) -> io::Result<()> {
    let mut headings = vec!["key group", "window", "start", "key", "stored key"];
    if values {
        headings.push("value");
    }
    let mut table = Table::of_text(&headings);
    for row in rows {
        let mut cells = match &row.pane {
            Some(pane) => vec![
                pane.key_group
                    .map_or_else(|| "null".to_owned(), |group| group.to_string()),
                printable(&pane.window),
                time(pane.start),
                pane.key
                    .as_ref()
                    .map_or_else(|| "?".to_owned(), |parts| shown(parts)),
            ],
            None => vec!["?".to_owned(); 4],
        };
        cells.push(row.raw.clone());
        if values {
            cells.push(row.value.clone());
        }
        table.row(cells);
    }
    table.write(out)
}

fn shown(parts: &[Value]) -> String {
    let texts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Value::String(text) => printable(text),
            other => other.to_string(),
        })
        .collect();
    texts.join(", ")
}
