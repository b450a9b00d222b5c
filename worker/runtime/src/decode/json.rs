use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};
use turbine_crds::app::{ColumnType, TimeUnit};
use turbine_crds::compiled::{CompiledColumn, CompiledEventTime};

use super::columns::{self, Column, ColumnBuffer};
use super::fault::RecordFault;
use super::shape::Shapes;
use super::time;

/// Most levels of objects and arrays with something in them, below a field that no column names. Fields that a column
/// names hold no objects or arrays at all.
pub const MAX_NESTING: usize = 200;

/// Turns the values of records into rows of the declared columns.
///
/// | a column declared | takes |
/// |---|---|
/// | int64 | whole numbers without fraction or exponent, from -2^63 to 2^63 - 1 |
/// | float64 | numbers; the nearest double, 0 below the smallest one |
/// | string | strings |
/// | bool | `true`, `false` |
/// | timestamp | strings of RFC 3339 with an offset, rounded down to milliseconds |
///
/// Every column also takes `null` and may be missing; both give a null. Fields that no column
/// names must be JSON and are ignored.
#[derive(Debug)]
pub struct JsonDecoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    event_time: usize,
    unit: TimeUnit,
    rows: usize,
    shapes: Shapes,
    /// Room of the parser for strings with escapes, kept between records.
    tape: Vec<u8>,
}

/// The rows of one batch.
#[derive(Debug)]
pub struct Decoded {
    /// The declared columns, in the spec's order; times as epoch milliseconds.
    pub rows: RecordBatch,
    /// Event time per row, epoch milliseconds; null where the record has none.
    pub event_times: Int64Array,
}

impl JsonDecoder {
    /// A decoder for these columns; none if the event time's column is not among them or can hold
    /// no time.
    #[must_use]
    pub fn new(columns: &[CompiledColumn], event_time: &CompiledEventTime) -> Option<Self> {
        let index = columns
            .iter()
            .position(|column| column.name == event_time.column)?;
        // Times of text are milliseconds once they are read, whatever the unit says.
        let unit = match columns[index].type_ {
            ColumnType::Int64 | ColumnType::Float64 => event_time.unit,
            ColumnType::Timestamp => TimeUnit::Ms,
            ColumnType::String | ColumnType::Bool => return None,
        };
        let fields: Vec<Field> = columns
            .iter()
            .map(|column| Field::new(&column.name, data_type(column.type_), true))
            .collect();
        Some(Self {
            schema: Arc::new(Schema::new(fields)),
            columns: columns
                .iter()
                .map(|column| Column {
                    name: column.name.as_str().into(),
                    kind: column.type_,
                    buffer: ColumnBuffer::new(column.type_),
                })
                .collect(),
            event_time: index,
            unit,
            rows: 0,
            shapes: Shapes::default(),
            tape: Vec::new(),
        })
    }

    /// Rows taken since the last [`Self::finish`].
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes one record's value as the next row.
    ///
    /// # Errors
    /// If the value is no such row; then nothing of it is taken.
    pub fn push(&mut self, value: Option<&[u8]>) -> Result<(), RecordFault> {
        let bytes = value.ok_or(RecordFault::NoValue)?;
        if self.shapes.read(bytes, &mut self.columns, self.rows) {
            self.rows += 1;
            return Ok(());
        }
        self.push_any_shape(bytes)?;
        self.shapes.learn(bytes, &self.columns);
        Ok(())
    }

    fn push_any_shape(&mut self, bytes: &[u8]) -> Result<(), RecordFault> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(RecordFault::Empty);
        }
        // The whole value at once, since the parser does not look into strings that it skips.
        if simdutf8::basic::from_utf8(bytes).is_err() {
            let at = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
            return Err(RecordFault::NotUtf8 { at });
        }
        let mut json = Jiter::with_tape(bytes, std::mem::take(&mut self.tape));
        let read = read_object(&mut json, &mut self.columns, self.rows, bytes.len());
        self.tape = json.into_tape();
        match read {
            Ok(()) => {
                for column in &mut self.columns {
                    if column.buffer.len() == self.rows {
                        column.buffer.push_null();
                    }
                }
                self.rows += 1;
                Ok(())
            }
            Err(fault) => {
                columns::truncate(&mut self.columns, self.rows);
                Err(fault)
            }
        }
    }

    /// All rows taken since the last call.
    ///
    /// # Errors
    /// If Arrow refuses the columns, which is a fault of this crate.
    pub fn finish(&mut self) -> Result<Decoded, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let arrays = self
            .columns
            .iter_mut()
            .map(|column| column.buffer.finish())
            .collect::<Result<Vec<_>, _>>()?;
        let event_times = time::event_times(&arrays[self.event_time], self.unit)
            .ok_or_else(|| ArrowError::SchemaError("the event time is no number".to_owned()))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        Ok(Decoded { rows, event_times })
    }
}

fn data_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Int64 | ColumnType::Timestamp => DataType::Int64,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::String => DataType::Utf8,
        ColumnType::Bool => DataType::Boolean,
    }
}

fn kind_name(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Int64 => "int64",
        ColumnType::Float64 => "float64",
        ColumnType::String => "string",
        ColumnType::Bool => "bool",
        ColumnType::Timestamp => "timestamp",
    }
}

fn value_name(peek: Peek) -> &'static str {
    match peek {
        Peek::Null => "null",
        Peek::True | Peek::False => "a boolean",
        Peek::String => "a string",
        Peek::Array => "an array",
        Peek::Object => "an object",
        _ => "a number",
    }
}

fn read_object(
    json: &mut Jiter<'_>,
    columns: &mut [Column],
    row: usize,
    length: usize,
) -> Result<(), RecordFault> {
    let syntax = |error: JiterError| syntax_fault(&error, length);
    let peek = json.peek().map_err(syntax)?;
    if peek != Peek::Object {
        // A scalar is read to its end, so that `NaN` or `nul` is told as what it is.
        json.known_skip(peek).map_err(syntax)?;
        return Err(RecordFault::NotAnObject {
            found: value_name(peek),
        });
    }
    // Producers write fields in one order, so the next one is most often the guessed one.
    let mut guess = 0;
    let mut column = json
        .known_object()
        .map_err(syntax)?
        .map(|key| find(columns, guess, key));
    while let Some(found) = column {
        match found {
            Some(index) => {
                guess = index + 1;
                read_value(json, &mut columns[index], row, length)?;
            }
            None => json.next_skip().map_err(syntax)?,
        }
        column = json
            .next_key()
            .map_err(syntax)?
            .map(|key| find(columns, guess, key));
    }
    json.finish().map_err(syntax)
}

fn find(columns: &[Column], guess: usize, key: &str) -> Option<usize> {
    if columns
        .get(guess)
        .is_some_and(|column| *column.name == *key)
    {
        return Some(guess);
    }
    columns.iter().position(|column| *column.name == *key)
}

fn read_value(
    json: &mut Jiter<'_>,
    column: &mut Column,
    row: usize,
    length: usize,
) -> Result<(), RecordFault> {
    if column.buffer.len() > row {
        return Err(RecordFault::Duplicate {
            column: column.name.to_string(),
        });
    }
    let peek = json.peek().map_err(|error| syntax_fault(&error, length))?;
    let name = &column.name;
    let expected = kind_name(column.kind);
    let wrong = |found: &'static str| RecordFault::WrongType {
        column: name.to_string(),
        expected,
        found,
    };
    let fault = |error: JiterError| match error.error_type {
        JiterErrorType::JsonError(JsonErrorType::NumberOutOfRange) => RecordFault::OutOfRange {
            column: name.to_string(),
            expected,
        },
        _ => syntax_fault(&error, length),
    };
    let taken = match (peek, column.kind) {
        (Peek::Null, _) => {
            json.known_null().map_err(fault)?;
            column.buffer.push_null();
            true
        }
        (Peek::String, ColumnType::String) => {
            column.buffer.push_text(json.known_str().map_err(fault)?)
        }
        (Peek::String, ColumnType::Timestamp) => {
            let text = json.known_str().map_err(fault)?;
            let ms = time::parse(text).ok_or_else(|| RecordFault::NotATime {
                column: name.to_string(),
                text: text.chars().take(64).collect(),
            })?;
            column.buffer.push_int(ms)
        }
        (Peek::True | Peek::False, ColumnType::Bool) => column
            .buffer
            .push_bool(json.known_bool(peek).map_err(fault)?),
        (number, ColumnType::Int64) if number.is_num() => {
            let start = json.current_index();
            let value = match json.known_int(number) {
                Ok(jiter::NumberInt::Int(value)) => value,
                // The parser's own way for integers ends at 18 digits.
                Err(error) if is_out_of_range(&error) => {
                    json.known_skip(number).map_err(fault)?;
                    let digits = std::str::from_utf8(json.slice_to_current(start));
                    match digits.map(str::parse) {
                        Ok(Ok(value)) => value,
                        Ok(Err(_)) | Err(_) => return Err(fault(error)),
                    }
                }
                Err(error) if is_no_integer(&error) => {
                    // Read on, so that `NaN` is told as what it is.
                    json.known_skip(number).map_err(fault)?;
                    return Err(wrong("a number with a fraction or an exponent"));
                }
                Err(error) => return Err(fault(error)),
                #[allow(unreachable_patterns)]
                Ok(_) => {
                    return Err(RecordFault::OutOfRange {
                        column: name.to_string(),
                        expected,
                    });
                }
            };
            column.buffer.push_int(value)
        }
        (number, ColumnType::Float64) if number.is_num() => {
            let value = json.known_float(number).map_err(fault)?;
            if !value.is_finite() {
                return Err(RecordFault::OutOfRange {
                    column: name.to_string(),
                    expected,
                });
            }
            column.buffer.push_float(value)
        }
        (other, _) => {
            // Read on, so that what is no JSON at all is told as such.
            json.known_skip(other)
                .map_err(|error| syntax_fault(&error, length))?;
            return Err(wrong(value_name(other)));
        }
    };
    if taken {
        Ok(())
    } else {
        Err(wrong("more text than a batch can hold"))
    }
}

fn is_out_of_range(error: &JiterError) -> bool {
    matches!(
        error.error_type,
        JiterErrorType::JsonError(JsonErrorType::NumberOutOfRange)
    )
}

fn is_no_integer(error: &JiterError) -> bool {
    match &error.error_type {
        JiterErrorType::JsonError(kind) => *kind == JsonErrorType::FloatExpectingInt,
        JiterErrorType::WrongType { actual, .. } => *actual == jiter::JsonType::Float,
    }
}

fn syntax_fault(error: &JiterError, length: usize) -> RecordFault {
    let at = error.index;
    let JiterErrorType::JsonError(kind) = &error.error_type else {
        return RecordFault::Syntax {
            what: error.error_type.to_string(),
            at,
        };
    };
    match kind {
        JsonErrorType::EofWhileParsingList
        | JsonErrorType::EofWhileParsingObject
        | JsonErrorType::EofWhileParsingString
        | JsonErrorType::EofWhileParsingValue => RecordFault::CutOff { length },
        JsonErrorType::TrailingCharacters => RecordFault::Trailing { at },
        JsonErrorType::RecursionLimitExceeded => RecordFault::TooDeep,
        _ => RecordFault::Syntax {
            what: kind.to_string(),
            at,
        },
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "differential.rs"]
mod differential;
