use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use turbine_crds::app::ColumnType;

/// A declared column and its values so far.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: Box<str>,
    pub(super) kind: ColumnType,
    pub(super) buffer: ColumnBuffer,
}

/// Takes back every row from `rows` on.
pub(super) fn truncate(columns: &mut [Column], rows: usize) {
    for column in columns {
        column.buffer.truncate(rows);
    }
}

/// The values of one column while a batch is built. Unlike Arrow's builders it can take back its
/// last row, which is how a bad message leaves nothing behind.
#[derive(Debug)]
pub(super) struct ColumnBuffer {
    valid: NullBufferBuilder,
    values: Values,
}

#[derive(Debug)]
enum Values {
    /// Also times, as epoch milliseconds.
    Int64(Vec<i64>),
    Float64(Vec<f64>),
    Text {
        bytes: Vec<u8>,
        ends: Vec<i32>,
    },
    Bool(BooleanBufferBuilder),
}

impl ColumnBuffer {
    pub(super) fn new(kind: ColumnType) -> Self {
        let values = match kind {
            ColumnType::Int64 | ColumnType::Timestamp => Values::Int64(Vec::new()),
            ColumnType::Float64 => Values::Float64(Vec::new()),
            ColumnType::String => Values::Text {
                bytes: Vec::new(),
                ends: vec![0],
            },
            ColumnType::Bool => Values::Bool(BooleanBufferBuilder::new(0)),
        };
        Self {
            valid: NullBufferBuilder::new(0),
            values,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.valid.len()
    }

    pub(super) fn push_null(&mut self) {
        self.valid.append_null();
        match &mut self.values {
            Values::Int64(values) => values.push(0),
            Values::Float64(values) => values.push(0.0),
            Values::Text { ends, .. } => {
                let end = ends.last().copied().unwrap_or(0);
                ends.push(end);
            }
            Values::Bool(values) => values.append(false),
        }
    }

    /// Whether the value fits the column's type; what does not is not appended.
    #[inline]
    pub(super) fn push_int(&mut self, value: i64) -> bool {
        let Values::Int64(values) = &mut self.values else {
            return false;
        };
        values.push(value);
        self.valid.append_non_null();
        true
    }

    /// See [`Self::push_int`].
    #[inline]
    pub(super) fn push_float(&mut self, value: f64) -> bool {
        let Values::Float64(values) = &mut self.values else {
            return false;
        };
        values.push(value);
        self.valid.append_non_null();
        true
    }

    /// See [`Self::push_int`].
    #[inline]
    pub(super) fn push_bool(&mut self, value: bool) -> bool {
        let Values::Bool(values) = &mut self.values else {
            return false;
        };
        values.append(value);
        self.valid.append_non_null();
        true
    }

    /// See [`Self::push_int`]; false as well if the batch's text would pass 2 GiB.
    #[inline]
    pub(super) fn push_text(&mut self, value: &str) -> bool {
        self.push_utf8(value.as_bytes())
    }

    /// See [`Self::push_text`]; the bytes must be UTF-8, else the batch cannot be finished.
    #[inline]
    pub(super) fn push_utf8(&mut self, value: &[u8]) -> bool {
        let Values::Text { bytes, ends } = &mut self.values else {
            return false;
        };
        let Ok(end) = i32::try_from(bytes.len() + value.len()) else {
            return false;
        };
        bytes.extend_from_slice(value);
        ends.push(end);
        self.valid.append_non_null();
        true
    }

    /// Takes back every row from `rows` on.
    pub(super) fn truncate(&mut self, rows: usize) {
        if self.len() <= rows {
            return;
        }
        self.valid.truncate(rows);
        match &mut self.values {
            Values::Int64(values) => values.truncate(rows),
            Values::Float64(values) => values.truncate(rows),
            Values::Text { bytes, ends } => {
                ends.truncate(rows + 1);
                let end = ends.last().copied().unwrap_or(0);
                bytes.truncate(usize::try_from(end).unwrap_or(0));
            }
            Values::Bool(values) => values.truncate(rows),
        }
    }

    /// The column as an Arrow array; the buffer is empty afterwards and has room for as many rows.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let rows = self.len();
        // A row that was taken back may have been the only null.
        let nulls = self.valid.finish().filter(|nulls| nulls.null_count() > 0);
        Ok(match &mut self.values {
            Values::Int64(values) => {
                let full = std::mem::replace(values, Vec::with_capacity(rows));
                Arc::new(Int64Array::try_new(full.into(), nulls)?)
            }
            Values::Float64(values) => {
                let full = std::mem::replace(values, Vec::with_capacity(rows));
                Arc::new(Float64Array::try_new(full.into(), nulls)?)
            }
            Values::Text { bytes, ends } => {
                let mut next = Vec::with_capacity(rows + 1);
                next.push(0);
                let ends = std::mem::replace(ends, next);
                let capacity = bytes.len();
                let full = std::mem::replace(bytes, Vec::with_capacity(capacity));
                let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
                Arc::new(StringArray::try_new(
                    offsets,
                    Buffer::from_vec(full),
                    nulls,
                )?)
            }
            Values::Bool(values) => {
                let full = values.finish();
                values.reserve(rows);
                Arc::new(BooleanArray::new(full, nulls))
            }
        })
    }
}
