use thiserror::Error;
use turbine_engine::RowFault;

use super::json::MAX_NESTING;
use super::misplaced::Misplaced;

/// Why a record was not taken. The words go into dead letters, logs and conditions.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordFault {
    /// A record whose value is null.
    #[error("the record has no value (a tombstone)")]
    NoValue,
    /// A value of no bytes, or of blanks only.
    #[error("the value is empty")]
    Empty,
    /// Bytes that are no text.
    #[error("the value is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// Index of the first bad byte.
        at: usize,
    },
    /// The end came too early.
    #[error("the JSON is cut off after {length} bytes")]
    CutOff {
        /// Length of the value in bytes.
        length: usize,
    },
    /// Something stands behind the document.
    #[error("something follows the JSON object at byte {at}; a record holds exactly one")]
    Trailing {
        /// Index of the first byte that follows.
        at: usize,
    },
    /// No JSON.
    #[error("not JSON: {what} at byte {at}")]
    Syntax {
        /// The parser's words.
        what: String,
        /// Index of the byte.
        at: usize,
    },
    /// Too many levels.
    #[error("a field is nested deeper than {MAX_NESTING} levels")]
    TooDeep,
    /// JSON, but no object.
    #[error("the value is {found}, a JSON object is expected")]
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
    /// A declared column that comes twice in one record.
    #[error("field `{column}` occurs twice")]
    Duplicate {
        /// The column.
        column: String,
    },
    /// A value of another type than declared.
    #[error("field `{column}` is {found}, the column is declared {expected}")]
    WrongType {
        /// The column.
        column: String,
        /// Its declared type.
        expected: &'static str,
        /// What the record has.
        found: &'static str,
    },
    /// A number that its column cannot hold.
    #[error("the number in field `{column}` is too large for {expected}")]
    OutOfRange {
        /// The column.
        column: String,
        /// Its declared type.
        expected: &'static str,
    },
    /// A text that is no time.
    #[error(
        "field `{column}` holds `{text}`, a time of RFC 3339 with an offset is expected, for \
         example 2026-01-01T00:00:00Z"
    )]
    NotATime {
        /// The column.
        column: String,
        /// The text, cut after 64 characters.
        text: String,
    },
    /// Decoded, and in the wrong partition.
    #[error("{0}")]
    Misplaced(Misplaced),
    /// Decoded, and refused by the pipeline.
    #[error(transparent)]
    Row(#[from] RowFault),
}
