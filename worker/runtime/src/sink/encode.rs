use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::DataType;
use jiff::fmt::temporal::DateTimePrinter;
use thiserror::Error;
use turbine_crds::app::ColumnType;
use turbine_crds::compiled::{AggregateFunction, CompiledSubscription, CompiledWindow};
use turbine_keygroups::KeyValue;

/// A result table that cannot be written; only a fault of this program can bring it about.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// A column of a type that no result has.
    #[error(
        "result column `{column}` is {kind}, which has no JSON form; this is a fault of the worker"
    )]
    Type {
        /// The column.
        column: String,
        /// Its Arrow type.
        kind: String,
    },
    /// No column of the name that is the message key.
    #[error(
        "result tables have no column `{column}` for the message key; this is a fault of the worker"
    )]
    NoKey {
        /// The column.
        column: String,
    },
    /// A text could not be written.
    #[error("a result could not be written as JSON: {detail}")]
    Json {
        /// The writer's words.
        detail: String,
    },
}

/// Writes the rows of one window's results: one JSON object per row, every column in the table's
/// order, nulls as `null`, the record key (bytes) as text, or as `{"hex": "..."}` if it is none.
#[derive(Debug)]
pub struct ResultEncoder {
    message_key: Option<String>,
    times: HashSet<String>,
}

impl ResultEncoder {
    /// An encoder for one window of a subscription.
    #[must_use]
    pub fn new(subscription: &CompiledSubscription, window: &CompiledWindow) -> Self {
        let is_time = |name: &str| {
            subscription
                .columns
                .iter()
                .any(|column| column.name == name && column.type_ == ColumnType::Timestamp)
        };
        let keys = window.keys.iter().filter(|key| is_time(key)).cloned();
        let aggregates = window.aggregates.iter().filter_map(|aggregate| {
            let keeps_type = match aggregate.function {
                AggregateFunction::Min | AggregateFunction::Max => true,
                AggregateFunction::Count | AggregateFunction::Sum | AggregateFunction::Mean => {
                    false
                }
            };
            let time = keeps_type && aggregate.column.as_deref().is_some_and(is_time);
            time.then(|| aggregate.as_.clone())
        });
        Self {
            message_key: subscription.output.message_key.clone(),
            times: keys.chain(aggregates).collect(),
        }
    }

    /// Prepares a table for writing.
    ///
    /// # Errors
    /// If the table has a column that no result has.
    pub fn table<'a>(&self, table: &'a RecordBatch) -> Result<ResultTable<'a>, EncodeError> {
        let mut columns = Vec::with_capacity(table.num_columns());
        for (at, (field, array)) in table
            .schema()
            .fields()
            .iter()
            .zip(table.columns())
            .enumerate()
        {
            let name = field.name();
            let mut prefix = vec![if at == 0 { b'{' } else { b',' }];
            serde_json::to_writer(&mut prefix, name).map_err(json)?;
            prefix.push(b':');
            let cells = match array.data_type() {
                DataType::Int64 if self.times.contains(name) => Cells::Time(array.as_primitive()),
                DataType::Int64 => Cells::Int64(array.as_primitive()),
                DataType::Float64 => Cells::Float64(array.as_primitive()),
                DataType::Utf8 => Cells::Text(array.as_string()),
                DataType::Boolean => Cells::Bool(array.as_boolean()),
                DataType::Binary => Cells::Bytes(array.as_binary()),
                other => {
                    return Err(EncodeError::Type {
                        column: name.clone(),
                        kind: other.to_string(),
                    });
                }
            };
            columns.push(ResultColumn { prefix, cells });
        }
        let key = match &self.message_key {
            None => None,
            Some(name) => Some(
                table
                    .schema()
                    .index_of(name)
                    .map_err(|_| EncodeError::NoKey {
                        column: name.clone(),
                    })?,
            ),
        };
        Ok(ResultTable {
            rows: table.num_rows(),
            columns,
            key,
        })
    }
}

/// A result table, ready to be written row by row.
#[derive(Debug)]
pub struct ResultTable<'a> {
    rows: usize,
    columns: Vec<ResultColumn<'a>>,
    key: Option<usize>,
}

#[derive(Debug)]
struct ResultColumn<'a> {
    /// What stands in front of the value: `{"name":` or `,"name":`.
    prefix: Vec<u8>,
    cells: Cells<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Cells<'a> {
    Int64(&'a Int64Array),
    Float64(&'a Float64Array),
    Text(&'a StringArray),
    Bool(&'a BooleanArray),
    Bytes(&'a BinaryArray),
    /// Epoch milliseconds of a column that was declared a timestamp.
    Time(&'a Int64Array),
}

impl ResultTable<'_> {
    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends row `row` as a JSON object.
    ///
    /// # Errors
    /// If a value has no JSON form.
    pub fn write_value(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        for column in &self.columns {
            out.extend_from_slice(&column.prefix);
            column.cells.write(row, out)?;
        }
        out.push(b'}');
        Ok(())
    }

    /// Appends the record key of row `row` in its canonical form; false if it has none, because
    /// none was asked for or it is null.
    ///
    /// # Errors
    /// If the value has no canonical form.
    pub fn write_key(&self, row: usize, out: &mut Vec<u8>) -> Result<bool, EncodeError> {
        let Some(column) = self.key.and_then(|key| self.columns.get(key)) else {
            return Ok(false);
        };
        column.cells.write_key(row, out)
    }
}

impl Cells<'_> {
    fn write(self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Int64(cells) if cells.is_valid(row) => {
                out.extend_from_slice(itoa::Buffer::new().format(cells.value(row)).as_bytes());
            }
            Self::Float64(cells) if cells.is_valid(row) => {
                serde_json::to_writer(out, &cells.value(row)).map_err(json)?;
            }
            Self::Text(cells) if cells.is_valid(row) => write_text(cells.value(row), out)?,
            Self::Bool(cells) if cells.is_valid(row) => {
                out.extend_from_slice(if cells.value(row) { b"true" } else { b"false" });
            }
            Self::Bytes(cells) if cells.is_valid(row) => write_bytes(cells.value(row), out)?,
            Self::Time(cells) if cells.is_valid(row) => {
                out.push(b'"');
                write_time(cells.value(row), out)?;
                out.push(b'"');
            }
            Self::Int64(_)
            | Self::Float64(_)
            | Self::Text(_)
            | Self::Bool(_)
            | Self::Bytes(_)
            | Self::Time(_) => out.extend_from_slice(b"null"),
        }
        Ok(())
    }

    fn write_key(self, row: usize, out: &mut Vec<u8>) -> Result<bool, EncodeError> {
        match self {
            Self::Int64(cells) if cells.is_valid(row) => {
                KeyValue::Int64(cells.value(row)).write_to(out);
            }
            Self::Text(cells) if cells.is_valid(row) => {
                KeyValue::Text(cells.value(row)).write_to(out)
            }
            Self::Bool(cells) if cells.is_valid(row) => {
                KeyValue::Bool(cells.value(row)).write_to(out)
            }
            Self::Bytes(cells) if cells.is_valid(row) => {
                KeyValue::Bytes(cells.value(row)).write_to(out);
            }
            Self::Float64(cells) if cells.is_valid(row) => {
                serde_json::to_writer(out, &cells.value(row)).map_err(json)?;
            }
            Self::Time(cells) if cells.is_valid(row) => {
                write_time(cells.value(row), out)?;
            }
            Self::Int64(_)
            | Self::Float64(_)
            | Self::Text(_)
            | Self::Bool(_)
            | Self::Bytes(_)
            | Self::Time(_) => return Ok(false),
        }
        Ok(true)
    }
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return write_text(text, out);
    }
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"{\"hex\":\"");
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    out.extend_from_slice(b"\"}");
    Ok(())
}

/// A text in quotes. Nearly none needs an escape, and one look without branches tells.
#[allow(clippy::needless_bitwise_bool)]
fn write_text(text: &str, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let escapes = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, |any, byte| any | escapes(byte)) {
        return serde_json::to_writer(out, text).map_err(json);
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
    Ok(())
}

fn write_time(ms: i64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let time = |error: jiff::Error| EncodeError::Json {
        detail: error.to_string(),
    };
    let at = jiff::Timestamp::from_millisecond(ms).map_err(time)?;
    DateTimePrinter::new()
        .print_timestamp(&at, out)
        .map_err(time)
}

#[allow(clippy::needless_pass_by_value)]
fn json(error: serde_json::Error) -> EncodeError {
    EncodeError::Json {
        detail: error.to_string(),
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
