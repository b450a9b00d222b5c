use turbine_crds::app::ColumnType;

use super::scan;
use crate::decode::columns::Column;
use crate::decode::time;

/// A message without its values: a piece of text, a value, a piece of text, and so on to the end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Skeleton {
    /// What stands in front of the first value; all of it if there is none.
    pub(super) opening: Literal,
    pub(super) slots: Box<[Slot]>,
    /// Columns that such a message does not have.
    pub(super) missing: Box<[usize]>,
}

/// A value, and what follows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) target: Target,
    pub(super) literal: Literal,
}

/// Whose value it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// No column reads it.
    Nobody,
    /// A declared column.
    Column { at: usize, kind: ColumnType },
}

impl Skeleton {
    /// Reads a message as one more row; nothing if it is of another kind. Then columns may hold
    /// parts of it, which the caller takes back.
    pub(super) fn read(&self, message: &[u8], columns: &mut [Column]) -> Option<()> {
        let mut at = self.opening.behind(message, 0)?;
        for slot in &self.slots {
            at = match slot.target {
                Target::Nobody => skip(message, at)?,
                Target::Column { at: column, kind } => {
                    take(message, at, columns.get_mut(column)?, kind)?
                }
            };
            at = slot.literal.behind(message, at)?;
        }
        if at != message.len() {
            return None;
        }
        for column in &self.missing {
            columns.get_mut(*column)?.buffer.push_null();
        }
        Some(())
    }
}

/// Reads the value at `at` into its column; the index behind it.
#[inline]
fn take(message: &[u8], at: usize, column: &mut Column, kind: ColumnType) -> Option<usize> {
    let buffer = &mut column.buffer;
    if message.get(at) == Some(&b'n') {
        let end = scan::behind(message, at, b"null")?;
        buffer.push_null();
        return Some(end);
    }
    let (taken, end) = match kind {
        ColumnType::String => {
            let (text, end) = utf8(message, at)?;
            (buffer.push_utf8(text), end)
        }
        ColumnType::Int64 => {
            let (value, end) = scan::whole(message, at)?;
            (buffer.push_int(value), end)
        }
        ColumnType::Float64 => {
            let (value, end) = scan::float(message, at)?;
            (buffer.push_float(value), end)
        }
        ColumnType::Bool => match scan::behind(message, at, b"true") {
            Some(end) => (buffer.push_bool(true), end),
            None => (
                buffer.push_bool(false),
                scan::behind(message, at, b"false")?,
            ),
        },
        ColumnType::Timestamp => {
            let (text, end) = utf8(message, at)?;
            let time = time::parse(std::str::from_utf8(text).ok()?)?;
            (buffer.push_int(time), end)
        }
    };
    taken.then_some(end)
}

/// The index behind the value at `at`.
#[inline]
pub(super) fn skip(message: &[u8], at: usize) -> Option<usize> {
    match message.get(at)? {
        b'"' => Some(utf8(message, at)?.1),
        b'-' | b'0'..=b'9' => scan::number(message, at),
        b't' => scan::behind(message, at, b"true"),
        b'f' => scan::behind(message, at, b"false"),
        b'n' => scan::behind(message, at, b"null"),
        _ => None,
    }
}

/// The text whose opening quote is at `at`, and the index behind its closing one. Each text of a
/// message is checked by itself: the rest is ASCII, or compared with what was checked before.
#[inline]
fn utf8(message: &[u8], at: usize) -> Option<(&[u8], usize)> {
    if message.get(at) != Some(&b'"') {
        return None;
    }
    let text = scan::text(message, at + 1)?;
    let bytes = message.get(at + 1..text.end)?;
    if !text.is_ascii && simdutf8::basic::from_utf8(bytes).is_err() {
        return None;
    }
    Some((bytes, text.end + 1))
}

/// A piece of text that is compared as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Literal {
    bytes: Box<[u8]>,
    /// The same, eight bytes at a time, with zeros behind the last one.
    words: Box<[u64]>,
    /// Which bits of the last word count.
    last: u64,
}

impl Literal {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut words = Vec::with_capacity(bytes.len().div_ceil(8));
        let mut last = 0;
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            let mut mask = [0; 8];
            for (at, byte) in chunk.iter().enumerate() {
                word[at] = *byte;
                mask[at] = u8::MAX;
            }
            words.push(u64::from_le_bytes(word));
            last = u64::from_le_bytes(mask);
        }
        Self {
            bytes: bytes.into(),
            words: words.into(),
            last,
        }
    }

    /// The index behind the literal, if the message has it at `at`.
    #[inline]
    fn behind(&self, message: &[u8], at: usize) -> Option<usize> {
        let rest = message.get(at..)?;
        let same = match (rest.get(..self.words.len() * 8), self.words.split_last()) {
            (Some(rest), Some((end, words))) => {
                let (chunks, _) = rest.as_chunks::<8>();
                let (last, chunks) = chunks.split_last()?;
                let differs = chunks
                    .iter()
                    .zip(words)
                    .any(|(chunk, word)| u64::from_le_bytes(*chunk) != *word);
                !differs && u64::from_le_bytes(*last) & self.last == *end
            }
            // too near to the end for whole words
            _ => rest.starts_with(&self.bytes),
        };
        same.then_some(at + self.bytes.len())
    }
}
