//! The stored form of a pane, format 1.
//!
//! Key: prefix of the key group (2 bytes), `0x01` for a window's pane, length of the window's name
//! (1 byte), the name, the window's start (8 bytes, big endian, sign bit flipped), the key tuple.
//! So the panes of one key group in one window instance are one range of keys: they are read
//! and deleted as one.
//! Value: `0x01` for the format, signature of the window's definition (4 bytes, big endian), the
//! running value of each aggregate.

use std::fmt::Write as _;

use turbine_keygroups::{Group, murmur2};

use super::slices::Slice;
use crate::error::StateError;
use crate::keys::{Reader, order_preserving, order_restoring};
use crate::spec::{PartitionKey, PipelineSpec, WindowKind, WindowSpec};

const PANE: u8 = 1;
const FORMAT: u8 = 1;

/// The parts of a pane's stored key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PaneKey<'a> {
    pub(crate) group: Group,
    pub(crate) window: &'a str,
    pub(crate) tuple: &'a [u8],
    pub(crate) start: i64,
}

impl<'a> PaneKey<'a> {
    pub(crate) fn decode(key: &'a [u8]) -> Result<Self, StateError> {
        let damaged = |what| StateError::Key {
            key: hex(key),
            what,
        };
        let mut rest = Reader(key);
        let prefix = rest.array().ok_or_else(|| damaged("it is too short"))?;
        let group = Group::from_prefix(prefix).ok_or_else(|| damaged("it names no key group"))?;
        if rest.byte() != Some(PANE) {
            return Err(damaged("it is no pane of a window"));
        }
        let window = rest
            .byte()
            .and_then(|length| rest.take(usize::from(length)))
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(|| damaged("it names no window"))?;
        let start = rest
            .array()
            .map(|start| order_restoring(u64::from_be_bytes(start)))
            .ok_or_else(|| damaged("it names no window start"))?;
        Ok(Self {
            group,
            window,
            tuple: rest.0,
            start,
        })
    }
}

/// Appends the stored key of a pane; with an empty tuple, what the stored keys of all panes of
/// the slice and start begin with.
pub(crate) fn write_key(slice: Slice, window: &str, start: i64, tuple: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&slice.prefix());
    out.push(PANE);
    // The spec's validation holds names to 255 bytes.
    #[allow(clippy::cast_possible_truncation)]
    out.push(window.len() as u8);
    out.extend_from_slice(window.as_bytes());
    out.extend_from_slice(&order_preserving(start).to_be_bytes());
    out.extend_from_slice(tuple);
}

/// The first key behind those of the pane's slice.
pub(crate) fn key_after(key: &[u8], pane: PaneKey<'_>) -> Vec<u8> {
    match pane.start.checked_add(1) {
        Some(start) => {
            let mut after = Vec::new();
            write_key(Slice::of(pane.group), pane.window, start, &[], &mut after);
            after
        }
        // No window starts there; behind what is no pane one goes on key by key.
        None => [key, &[0]].concat(),
    }
}

pub(crate) fn encode_header(signature: u32, out: &mut Vec<u8>) {
    out.push(FORMAT);
    out.extend_from_slice(&signature.to_be_bytes());
}

/// Checks format and signature and gives what follows.
pub(crate) fn decode_header<'a>(
    key: &[u8],
    value: &'a [u8],
    window: &str,
    signature: u32,
) -> Result<Reader<'a>, StateError> {
    match header_signature(key, value)? {
        (found, rest) if found == signature => Ok(rest),
        _ => Err(StateError::WindowChanged {
            window: window.to_owned(),
        }),
    }
}

/// Checks the format and gives the signature and what follows.
pub(crate) fn header_signature<'a>(
    key: &[u8],
    value: &'a [u8],
) -> Result<(u32, Reader<'a>), StateError> {
    let mut rest = Reader(value);
    match rest.byte() {
        Some(FORMAT) => {}
        Some(found) => {
            return Err(StateError::Version {
                key: hex(key),
                found,
                known: FORMAT,
            });
        }
        None => {
            return Err(StateError::Value {
                key: hex(key),
                what: "it is empty",
            });
        }
    }
    let signature = rest.array().map(u32::from_be_bytes);
    signature
        .map(|signature| (signature, rest))
        .ok_or_else(|| StateError::Value {
            key: hex(key),
            what: "it is too short",
        })
}

/// A hash of all that gives a window's stored values their meaning. Result names, lateness and
/// clocks may change without harm to them and are not in it.
pub(crate) fn signature(spec: &PipelineSpec, window: &WindowSpec) -> u32 {
    let column = |index: usize| {
        let column = &spec.columns[index];
        // The length keeps two lists of names from reading the same.
        format!(
            "{}:{}:{};",
            column.name.len(),
            column.name,
            column.kind.name()
        )
    };
    let mut text = match window.kind {
        WindowKind::Tumbling { size_ms } => format!("tumbling:{size_ms};"),
    };
    match &spec.partition_key {
        PartitionKey::RecordKey => text.push_str("partition-record-key;"),
        PartitionKey::Columns(columns) => {
            text.push_str("partition;");
            text.extend(columns.iter().map(|index| column(*index)));
        }
    }
    text.push_str("keys;");
    text.extend(window.keys.iter().map(|index| column(*index)));
    text.push_str("aggregates;");
    for aggregate in &window.aggregates {
        text.push_str(aggregate.function.name());
        text.push('(');
        text.extend(aggregate.function.column().map(column));
        text.push(')');
    }
    murmur2(text.as_bytes())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
