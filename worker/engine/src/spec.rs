use std::collections::HashSet;

use arrow_schema::DataType;

use crate::error::SpecError;
use crate::placement::Placement;

/// Result column with the window's first millisecond.
pub const WINDOW_START_COLUMN: &str = "window_start_ms";
/// Result column with the first millisecond after the window.
pub const WINDOW_END_COLUMN: &str = "window_end_ms";
/// Result column with the record's key, where that is the partition key.
pub const RECORD_KEY_COLUMN: &str = "record_key";

/// The longest duration that a spec may name, in milliseconds: 10,000 years of 365.25 days. With
/// it no sum of an event time and durations leaves the 64-bit range.
pub const MAX_DURATION_MS: u64 = 315_576_000_000_000;

/// The longest window name, in bytes: its length is one byte of a stored key.
const MAX_WINDOW_NAME: usize = 255;

/// What a pipeline computes. Columns are named by their index in `columns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineSpec {
    /// The columns of each batch, in this order.
    pub columns: Vec<Column>,
    /// What decides a record's key group.
    pub partition_key: PartitionKey,
    /// What happens to a record whose partition key is null.
    pub on_null_key: OnNullKey,
    /// How far the frontier stays behind the highest event time, in milliseconds.
    pub out_of_orderness_ms: u64,
    /// How far ahead of the wall clock an event time may be, in milliseconds.
    pub max_future_ms: u64,
    /// How long the task stands at the end of its log before it counts as idle, in milliseconds.
    pub idle_timeout_ms: u64,
    /// What an idle task's frontier does.
    pub idle_policy: IdlePolicy,
    /// Whether rows after a row in error are still taken.
    pub on_row_error: OnRowError,
    /// Where rows have to lie; none: nothing is checked.
    pub placement: Option<Placement>,
    /// The windows; their names are their identity in stored state.
    pub windows: Vec<WindowSpec>,
}

/// A declared column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, as results show it.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
}

/// The types a column may have. All are nullable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Arrow `Int64`.
    Int64,
    /// Arrow `Float64`.
    Float64,
    /// Arrow `Utf8`.
    Text,
    /// Arrow `Boolean`.
    Bool,
}

impl ColumnType {
    /// The Arrow type of the column's arrays.
    #[must_use]
    pub fn data_type(self) -> DataType {
        match self {
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Bool => DataType::Boolean,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int64 => "int64",
            Self::Float64 => "float64",
            Self::Text => "string",
            Self::Bool => "bool",
        }
    }
}

/// What decides a record's key group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionKey {
    /// One column (its canonical bytes), or several (the composite form with lengths).
    Columns(Vec<usize>),
    /// The bytes of the Kafka record's key.
    RecordKey,
}

/// What happens to a record whose partition key is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnNullKey {
    /// It goes to the null group, with a result per partition.
    Group,
    /// It is in error ([`crate::RowFault::NullKey`]).
    Error,
    /// It is dropped and counted.
    Drop,
}

/// What an idle task's frontier does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdlePolicy {
    /// It moves with the wall clock.
    Coast,
    /// It waits for the next record.
    Hold,
}

/// Whether rows after a row in error are still taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRowError {
    /// Yes; each row in error is reported and has no effect.
    Continue,
    /// No; the batch ends before the first one, and [`crate::Outcome::rows_taken`] says where.
    Stop,
}

/// A window over the rows of each key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowSpec {
    /// Its name: 1 to 255 bytes, unique in the pipeline.
    pub name: String,
    /// Its boundaries.
    pub kind: WindowKind,
    /// Key columns. They contain the columns of the partition key. Floats are no keys.
    pub keys: Vec<usize>,
    /// What is computed; at least one.
    pub aggregates: Vec<AggregateSpec>,
    /// How long after its end a window still takes rows, in milliseconds of the frontier.
    pub allowed_lateness_ms: u64,
}

/// A window's boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowKind {
    /// `[start, start + size)` with `start = floor(t / size) * size`.
    Tumbling {
        /// Size in milliseconds, above 0.
        size_ms: u64,
    },
}

impl WindowKind {
    pub(crate) fn size_ms(self) -> u64 {
        match self {
            Self::Tumbling { size_ms } => size_ms,
        }
    }
}

/// One result column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregateSpec {
    /// What is computed.
    pub function: Aggregate,
    /// The result column's name.
    pub output: String,
}

/// An aggregate; see the crate's documentation for exact meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Number of rows.
    CountRows,
    /// Number of values in the column.
    Count(usize),
    /// Sum of a numeric column.
    Sum(usize),
    /// Least value of the column.
    Min(usize),
    /// Greatest value of the column.
    Max(usize),
    /// Arithmetic mean of a numeric column.
    Mean(usize),
}

impl Aggregate {
    /// The column it reads, if it reads one.
    #[must_use]
    pub fn column(self) -> Option<usize> {
        match self {
            Self::CountRows => None,
            Self::Count(c) | Self::Sum(c) | Self::Min(c) | Self::Max(c) | Self::Mean(c) => Some(c),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CountRows | Self::Count(_) => "count",
            Self::Sum(_) => "sum",
            Self::Min(_) => "min",
            Self::Max(_) => "max",
            Self::Mean(_) => "mean",
        }
    }
}

impl PipelineSpec {
    /// Whether [`crate::Pipeline::new`] would take the spec.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn validate(&self) -> Result<(), SpecError> {
        if let Some(placement) = self.placement
            && placement.partition.index() >= placement.count.get()
        {
            return Err(SpecError::NoSuchPartition {
                partition: placement.partition.get(),
                count: placement.count.get(),
            });
        }
        let mut names = HashSet::new();
        for column in &self.columns {
            if !names.insert(column.name.as_str()) {
                return Err(SpecError::DoubleColumn {
                    column: column.name.clone(),
                });
            }
        }
        for (what, ms) in [
            ("outOfOrderness", self.out_of_orderness_ms),
            ("maxFuture", self.max_future_ms),
            ("idle.timeout", self.idle_timeout_ms),
        ] {
            check_duration(what, ms)?;
        }
        if let PartitionKey::Columns(columns) = &self.partition_key {
            if columns.is_empty() {
                return Err(SpecError::EmptyPartitionKey);
            }
            self.check_keys("partitionKey", columns)?;
        }
        let mut windows = HashSet::new();
        for window in &self.windows {
            if !windows.insert(window.name.as_str()) {
                return Err(SpecError::DoubleWindow {
                    window: window.name.clone(),
                });
            }
            self.check_window(window)?;
        }
        Ok(())
    }

    fn check_window(&self, window: &WindowSpec) -> Result<(), SpecError> {
        let name = &window.name;
        if name.is_empty() || name.len() > MAX_WINDOW_NAME {
            return Err(SpecError::WindowName {
                window: name.clone(),
            });
        }
        if window.kind.size_ms() == 0 {
            return Err(SpecError::EmptyWindow {
                window: name.clone(),
            });
        }
        check_duration("window size", window.kind.size_ms())?;
        check_duration("allowedLateness", window.allowed_lateness_ms)?;
        self.check_keys(name, &window.keys)?;
        if let PartitionKey::Columns(columns) = &self.partition_key
            && let Some(missing) = columns.iter().find(|c| !window.keys.contains(c))
        {
            return Err(SpecError::PartitionKeyNotInWindow {
                window: name.clone(),
                column: self.column(*missing)?.name.clone(),
            });
        }
        if window.aggregates.is_empty() {
            return Err(SpecError::NoAggregates {
                window: name.clone(),
            });
        }
        let mut outputs = HashSet::from([WINDOW_START_COLUMN, WINDOW_END_COLUMN]);
        if self.partition_key == PartitionKey::RecordKey {
            outputs.insert(RECORD_KEY_COLUMN);
        }
        let keys = window
            .keys
            .iter()
            .map(|c| self.column(*c).map(|c| c.name.as_str()));
        let aggregates = window.aggregates.iter().map(|a| Ok(a.output.as_str()));
        for output in keys.chain(aggregates) {
            let output = output?;
            if !outputs.insert(output) {
                return Err(SpecError::DoubleOutput {
                    window: name.clone(),
                    column: output.to_owned(),
                });
            }
        }
        for aggregate in &window.aggregates {
            let Some(column) = aggregate.function.column() else {
                continue;
            };
            let column = self.column(column)?;
            let numeric = matches!(column.kind, ColumnType::Int64 | ColumnType::Float64);
            if matches!(aggregate.function, Aggregate::Sum(_) | Aggregate::Mean(_)) && !numeric {
                return Err(SpecError::NotNumeric {
                    window: name.clone(),
                    aggregate: aggregate.function.name(),
                    column: column.name.clone(),
                    kind: column.kind.name(),
                });
            }
        }
        Ok(())
    }

    fn check_keys(&self, place: &str, keys: &[usize]) -> Result<(), SpecError> {
        let mut seen = HashSet::new();
        for key in keys {
            let column = self.column(*key)?;
            if !seen.insert(key) {
                return Err(SpecError::DoubleKey {
                    place: place.to_owned(),
                    column: column.name.clone(),
                });
            }
            if column.kind == ColumnType::Float64 {
                return Err(SpecError::FloatKey {
                    place: place.to_owned(),
                    column: column.name.clone(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn column(&self, index: usize) -> Result<&Column, SpecError> {
        self.columns
            .get(index)
            .ok_or(SpecError::NoSuchColumn { index })
    }
}

fn check_duration(what: &'static str, ms: u64) -> Result<(), SpecError> {
    if ms > MAX_DURATION_MS {
        Err(SpecError::TooLong { what, ms })
    } else {
        Ok(())
    }
}
