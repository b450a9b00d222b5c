use std::sync::Arc;

use arrow_array::{BinaryArray, Int64Array, RecordBatch};
use thiserror::Error;
use turbine_keygroups::Partition;

/// Rows of one partition in log order.
#[derive(Debug, Clone, Copy)]
pub struct InputBatch<'a> {
    /// The declared columns, in the spec's order.
    pub rows: &'a RecordBatch,
    /// Event time per row, epoch milliseconds; null where the record has none.
    pub event_times: &'a Int64Array,
    /// The Kafka records' keys, null where a record has none; needed only if they are the
    /// partition key.
    pub record_keys: Option<&'a BinaryArray>,
}

/// What became of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// Rows dealt with, from the first. Less than the batch only with
    /// [`crate::OnRowError::Stop`], or at a row that [`crate::Pipeline::process`] finds misplaced:
    /// then it is the index of the row in error.
    pub rows_taken: usize,
    /// Rows in error, ascending. They had no effect.
    pub row_errors: Vec<RowError>,
    /// Rows without a partition key that were dropped.
    pub null_keys_dropped: u64,
    /// Rows without a partition key that went to the null group.
    pub null_keys_grouped: u64,
    /// Late rows per window, in the spec's order. A row may be late for one and in time for
    /// another.
    pub late: Vec<LateRows>,
    /// Rows that lie in the wrong partition and were folded all the same, since placement is only
    /// observed. Of the rows of one pane only the first is seen.
    pub observed_misplaced: u64,
    /// The first of these.
    pub first_observed: Option<RowError>,
}

/// Rows that came after their window had closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LateRows {
    /// Late by event time alone.
    pub by_data: u64,
    /// Late only because the frontier had moved while the task was idle.
    pub by_coasting: u64,
}

/// A row that had no effect, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// Its index in the batch.
    pub row: usize,
    /// The reason.
    pub fault: RowFault,
}

/// Why a row is in error. The words go into dead letters, logs and conditions.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RowFault {
    /// No event time.
    #[error("the record has no event time")]
    NoEventTime,
    /// An event time outside the accepted range.
    #[error("event time {ms} ms is outside the years 1 to 9999 (UTC)")]
    EventTimeOutOfRange {
        /// Epoch milliseconds.
        ms: i64,
    },
    /// An event time too far ahead of the wall clock.
    #[error(
        "event time {ms} ms is {ahead_ms} ms ahead of the worker's clock, maxFuture is {limit_ms} ms"
    )]
    TooFarAhead {
        /// Epoch milliseconds.
        ms: i64,
        /// Distance to the wall clock.
        ahead_ms: u64,
        /// The limit.
        limit_ms: u64,
    },
    /// A null partition key, where such rows are errors.
    #[error("the partition key is null")]
    NullKey,
    /// A window's key that is too long to be kept: a store has long keys again in the index of each of its tables.
    #[error("the key of the window has {bytes} bytes, and at most {limit} are taken")]
    KeyTooLong {
        /// As they are stored.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A key that murmur2 puts into another partition.
    #[error("the partition key (murmur2 hash {hash}) belongs to partition {owner}")]
    Misplaced {
        /// The key's canonical bytes.
        key: Vec<u8>,
        /// Its hash, the sign bit cleared.
        hash: u32,
        /// Where it belongs.
        owner: Partition,
    },
    /// An integer sum that would leave the 64-bit range.
    #[error("`{output}` of window `{window}` would overflow: {sum} + {value} is no 64-bit integer")]
    Overflow {
        /// The window.
        window: Arc<str>,
        /// The aggregate's result column.
        output: Arc<str>,
        /// The sum, which stays as it is.
        sum: i64,
        /// The row's value.
        value: i64,
    },
    /// A float value that is NaN or infinite.
    #[error("`{output}` of window `{window}` was given a number that is not finite")]
    NotFinite {
        /// The window.
        window: Arc<str>,
        /// The aggregate's result column.
        output: Arc<str>,
    },
    /// A float sum that would become infinite.
    #[error("`{output}` of window `{window}` would overflow: the sum would not be finite")]
    FloatOverflow {
        /// The window.
        window: Arc<str>,
        /// The aggregate's result column.
        output: Arc<str>,
    },
}
