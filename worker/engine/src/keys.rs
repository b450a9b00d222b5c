use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BinaryBuilder, BooleanBuilder, Int64Builder, StringBuilder};
use arrow_schema::{DataType, Field};
use turbine_keygroups::KeyValue;

use crate::columns::{BoolColumn, Columns, IntColumn, TextColumn, TypedColumn};
use crate::spec::{PartitionKey, PipelineSpec, RECORD_KEY_COLUMN};

/// Where one part of a key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyPart {
    RecordKey,
    Int(IntColumn),
    Text(TextColumn),
    Bool(BoolColumn),
}

impl KeyPart {
    /// Floats are refused as keys by the spec's validation and have no part.
    fn of(column: TypedColumn) -> Option<Self> {
        match column {
            TypedColumn::Int(c) => Some(Self::Int(c)),
            TypedColumn::Text(c) => Some(Self::Text(c)),
            TypedColumn::Bool(c) => Some(Self::Bool(c)),
            TypedColumn::Float(_) => None,
        }
    }

    fn value<'a>(self, columns: &Columns<'a>, row: usize) -> Option<KeyValue<'a>> {
        match self {
            Self::RecordKey => columns.record_key(row).map(KeyValue::Bytes),
            Self::Int(c) => columns.int(c, row).map(KeyValue::Int64),
            Self::Text(c) => columns.text(c, row).map(KeyValue::Text),
            Self::Bool(c) => columns.bool(c, row).map(KeyValue::Bool),
        }
    }
}

/// Reads the partition key of rows.
#[derive(Debug)]
pub(crate) struct PartitionKeyReader {
    parts: Vec<KeyPart>,
    composite: bool,
}

impl PartitionKeyReader {
    pub(crate) fn new(spec: &PipelineSpec, typed: &[TypedColumn]) -> Self {
        match &spec.partition_key {
            PartitionKey::RecordKey => Self {
                parts: vec![KeyPart::RecordKey],
                composite: false,
            },
            PartitionKey::Columns(columns) => Self {
                parts: columns
                    .iter()
                    .filter_map(|c| KeyPart::of(typed[*c]))
                    .collect(),
                composite: columns.len() > 1,
            },
        }
    }

    #[inline]
    pub(crate) fn is_null(&self, columns: &Columns<'_>, row: usize) -> bool {
        self.parts
            .iter()
            .any(|part| part.value(columns, row).is_none())
    }

    /// The key's canonical bytes, in `scratch`; none for a null key.
    pub(crate) fn read<'s>(
        &self,
        columns: &Columns<'_>,
        row: usize,
        scratch: &'s mut Vec<u8>,
    ) -> Option<&'s [u8]> {
        scratch.clear();
        for part in &self.parts {
            let value = part.value(columns, row)?;
            if self.composite {
                value.write_part_to(scratch);
            } else {
                value.write_to(scratch);
            }
        }
        Some(scratch)
    }

    /// The key's canonical bytes, from a stored tuple of a window's keys; none for a null key, and
    /// for what is no tuple of these keys.
    pub(crate) fn of_tuple(&self, keys: &KeySet, tuple: &[u8]) -> Option<Vec<u8>> {
        let values = keys.values(tuple)?;
        let mut key = Vec::new();
        for part in &self.parts {
            let (_, value) = values.iter().find(|(of, _)| of == part)?;
            if self.composite {
                (*value)?.write_part_to(&mut key);
            } else {
                (*value)?.write_to(&mut key);
            }
        }
        Some(key)
    }
}

const NULL_TAG: u8 = 0;
const VALUE_TAG: u8 = 1;

/// The key columns of a window, record key first where it is the partition key.
///
/// A key tuple is stored as one tag byte per part (0: null, 1: a value follows) and the value:
/// int64 as 8 bytes big endian with the sign bit flipped, bool as one byte, text and bytes as
/// length (4 bytes, big endian) and content. It decodes without loss, and no tuple is the
/// beginning of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySet {
    parts: Vec<KeyPart>,
}

impl KeySet {
    pub(crate) fn new(spec: &PipelineSpec, typed: &[TypedColumn], keys: &[usize]) -> Self {
        let record_key =
            (spec.partition_key == PartitionKey::RecordKey).then_some(KeyPart::RecordKey);
        let columns = keys.iter().filter_map(|c| KeyPart::of(typed[*c]));
        Self {
            parts: record_key.into_iter().chain(columns).collect(),
        }
    }

    /// The result columns of the keys, in order.
    pub(crate) fn fields(spec: &PipelineSpec, keys: &[usize]) -> Vec<Field> {
        let record_key = (spec.partition_key == PartitionKey::RecordKey)
            .then(|| Field::new(RECORD_KEY_COLUMN, DataType::Binary, true));
        let columns = keys.iter().map(|c| {
            let column = &spec.columns[*c];
            Field::new(&column.name, column.kind.data_type(), true)
        });
        record_key.into_iter().chain(columns).collect()
    }

    fn encode(&self, columns: &Columns<'_>, row: usize, out: &mut Vec<u8>) {
        for part in &self.parts {
            let Some(value) = part.value(columns, row) else {
                out.push(NULL_TAG);
                continue;
            };
            out.push(VALUE_TAG);
            match value {
                KeyValue::Int64(value) => {
                    out.extend_from_slice(&order_preserving(value).to_be_bytes());
                }
                KeyValue::Bool(value) => out.push(u8::from(value)),
                KeyValue::Text(_) | KeyValue::Bytes(_) => value.write_part_to(out),
            }
        }
    }

    /// Whether the bytes are a tuple of this set, whole and nothing after it.
    pub(crate) fn accepts(&self, tuple: &[u8]) -> bool {
        let mut rest = Reader(tuple);
        let whole = self.parts.iter().try_for_each(|part| match rest.byte()? {
            NULL_TAG => Some(()),
            VALUE_TAG => match part {
                KeyPart::Int(_) => rest.take(8).map(drop),
                KeyPart::Bool(_) => rest.byte().filter(|b| *b < 2).map(drop),
                KeyPart::Text(_) => rest
                    .sized()
                    .filter(|b| std::str::from_utf8(b).is_ok())
                    .map(drop),
                KeyPart::RecordKey => rest.sized().map(drop),
            },
            _ => None,
        });
        whole.is_some() && rest.0.is_empty()
    }

    /// The value of each part in a tuple; none if it is no tuple of this set.
    fn values<'t>(&self, tuple: &'t [u8]) -> Option<Vec<(KeyPart, Option<KeyValue<'t>>)>> {
        let mut rest = Reader(tuple);
        let mut value = |part: KeyPart| {
            Some(match rest.byte()? {
                NULL_TAG => None,
                VALUE_TAG => Some(match part {
                    KeyPart::Int(_) => {
                        KeyValue::Int64(order_restoring(u64::from_be_bytes(rest.array()?)))
                    }
                    KeyPart::Bool(_) => KeyValue::Bool(rest.byte()? == 1),
                    KeyPart::Text(_) => KeyValue::Text(std::str::from_utf8(rest.sized()?).ok()?),
                    KeyPart::RecordKey => KeyValue::Bytes(rest.sized()?),
                }),
                _ => return None,
            })
        };
        self.parts
            .iter()
            .map(|part| Some((*part, value(*part)?)))
            .collect()
    }

    /// Arrays of the key columns for these tuples. Each was encoded or accepted by this set.
    pub(crate) fn arrays<'t>(
        &self,
        tuples: impl ExactSizeIterator<Item = &'t [u8]>,
    ) -> Vec<ArrayRef> {
        let mut builders: Vec<KeyBuilder> = self
            .parts
            .iter()
            .map(|part| KeyBuilder::new(*part, tuples.len()))
            .collect();
        for tuple in tuples {
            let mut rest = Reader(tuple);
            for builder in &mut builders {
                builder.append(&mut rest);
            }
        }
        builders.into_iter().map(KeyBuilder::finish).collect()
    }
}

/// About how long a key's text is, to reserve room at once.
const TEXT_BYTES: usize = 16;

#[derive(Debug)]
enum KeyBuilder {
    Int(Int64Builder),
    Text(StringBuilder),
    Bool(BooleanBuilder),
    Bytes(BinaryBuilder),
}

impl KeyBuilder {
    fn new(part: KeyPart, rows: usize) -> Self {
        match part {
            KeyPart::Int(_) => Self::Int(Int64Builder::with_capacity(rows)),
            KeyPart::Text(_) => Self::Text(StringBuilder::with_capacity(rows, rows * TEXT_BYTES)),
            KeyPart::Bool(_) => Self::Bool(BooleanBuilder::with_capacity(rows)),
            KeyPart::RecordKey => {
                Self::Bytes(BinaryBuilder::with_capacity(rows, rows * TEXT_BYTES))
            }
        }
    }

    fn append(&mut self, rest: &mut Reader<'_>) {
        let present = rest.byte() == Some(VALUE_TAG);
        match self {
            Self::Int(builder) => builder.append_option(
                present
                    .then(|| rest.array().map(u64::from_be_bytes).map(order_restoring))
                    .flatten(),
            ),
            Self::Bool(builder) => {
                builder.append_option(present.then(|| rest.byte().map(|b| b == 1)).flatten());
            }
            Self::Text(builder) => builder.append_option(
                present
                    .then(|| {
                        rest.sized()
                            .and_then(|bytes| std::str::from_utf8(bytes).ok())
                    })
                    .flatten(),
            ),
            Self::Bytes(builder) => {
                builder.append_option(present.then(|| rest.sized()).flatten());
            }
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Int(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Bool(mut builder) => Arc::new(builder.finish()),
            Self::Bytes(mut builder) => Arc::new(builder.finish()),
        }
    }
}

/// Bytes of the longest key that a pane can have. A table of a store has its keys again in its index, so with longer ones memory
/// no longer follows what was asked for: with keys of 900 kB a store takes several times their bytes while it is written.
pub(crate) const MAX_KEY_BYTES: usize = 64 << 10;

/// The key tuples of one batch and their hashes; its buffers are used again for the next.
#[derive(Debug, Default)]
pub(crate) struct EncodedKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
    longest: usize,
}

impl EncodedKeys {
    pub(crate) fn fill(
        &mut self,
        keys: &KeySet,
        columns: &Columns<'_>,
        rows: usize,
        hasher: &impl BuildHasher,
    ) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
        self.longest = 0;
        let mut start = 0;
        for row in 0..rows {
            keys.encode(columns, row, &mut self.bytes);
            self.ends.push(self.bytes.len());
            self.hashes.push(hasher.hash_one(&self.bytes[start..]));
            self.longest = self.longest.max(self.bytes.len() - start);
            start = self.bytes.len();
        }
    }

    /// Bytes of the longest key.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    #[inline]
    pub(crate) fn tuple(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }

    #[inline]
    pub(crate) fn hash(&self, row: usize) -> u64 {
        self.hashes[row]
    }
}

/// Maps integers to unsigned ones of the same order, so that bytes sort as the numbers do.
pub(crate) fn order_preserving(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

/// The inverse of [`order_preserving`].
pub(crate) fn order_restoring(value: u64) -> i64 {
    (value ^ (1 << 63)).cast_signed()
}

/// Takes bytes off the front; none at a premature end.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Bytes with their length (4 bytes, big endian) in front.
    pub(crate) fn sized(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_be_bytes(self.array()?);
        self.take(usize::try_from(length).ok()?)
    }
}
