use thiserror::Error;

use crate::spec::MAX_DURATION_MS;

/// Whose turn it is when an error shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// The spec or the data is at fault.
    User,
    /// Stored state is damaged or does not belong here.
    Storage,
    /// Turbine is at fault.
    Bug,
}

/// A spec that no pipeline can be made of.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpecError {
    /// A task of a partition that its topic does not have.
    #[error("partition {partition} is not one of 0 to {}", .count.saturating_sub(1))]
    NoSuchPartition {
        /// The partition.
        partition: i32,
        /// Partition count of the topic.
        count: u32,
    },
    /// Two columns of one name.
    #[error("column `{column}` is declared twice; column names are unique")]
    DoubleColumn {
        /// The name.
        column: String,
    },
    /// An index past the declared columns.
    #[error("there is no column with index {index}; declare it in `columns`")]
    NoSuchColumn {
        /// The index.
        index: usize,
    },
    /// A partition key without columns.
    #[error("`partitionKey` names no column; name at least one, or use `recordKey: true`")]
    EmptyPartitionKey,
    /// A key column named twice.
    #[error("`{place}` names key column `{column}` twice")]
    DoubleKey {
        /// `partitionKey`, or the window's name.
        place: String,
        /// The column.
        column: String,
    },
    /// A float as a key.
    #[error(
        "`{place}` uses float64 column `{column}` as a key; floats have no canonical form, so \
         declare the column as int64 or string"
    )]
    FloatKey {
        /// `partitionKey`, or the window's name.
        place: String,
        /// The column.
        column: String,
    },
    /// Two windows of one name.
    #[error("window `{window}` is declared twice; a window's name is its identity")]
    DoubleWindow {
        /// The name.
        window: String,
    },
    /// A window name that cannot be stored.
    #[error("window name `{window}` is empty or longer than 255 bytes")]
    WindowName {
        /// The name.
        window: String,
    },
    /// A window without length.
    #[error("window `{window}` has size 0; give it a size above 0")]
    EmptyWindow {
        /// The window.
        window: String,
    },
    /// A window whose keys do not contain the partition key.
    #[error(
        "the keys of window `{window}` lack `{column}`, a column of the partition key; add it, \
         since state is kept per partition key"
    )]
    PartitionKeyNotInWindow {
        /// The window.
        window: String,
        /// The missing column.
        column: String,
    },
    /// A window that computes nothing.
    #[error("window `{window}` has no aggregates; give it at least one")]
    NoAggregates {
        /// The window.
        window: String,
    },
    /// Two result columns of one name.
    #[error(
        "window `{window}` has two result columns named `{column}`; rename one with `as` \
         (the window's bounds and a record key have columns of their own)"
    )]
    DoubleOutput {
        /// The window.
        window: String,
        /// The name.
        column: String,
    },
    /// A sum or mean of something that is no number.
    #[error("window `{window}` takes the {aggregate} of `{column}`, which is {kind}, no number")]
    NotNumeric {
        /// The window.
        window: String,
        /// `sum` or `mean`.
        aggregate: &'static str,
        /// The column.
        column: String,
        /// Its type.
        kind: &'static str,
    },
    /// A duration that would leave the range of times.
    #[error("{what} is {ms} ms; the longest duration is {MAX_DURATION_MS} ms")]
    TooLong {
        /// Which duration.
        what: &'static str,
        /// Its length.
        ms: u64,
    },
}

/// A batch that does not fit the spec: its maker is at fault, not its data.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BatchError {
    /// Another number of columns than declared.
    #[error("the batch has {actual} columns, the spec declares {expected}")]
    ColumnCount {
        /// Declared.
        expected: usize,
        /// In the batch.
        actual: usize,
    },
    /// A column of another type than declared.
    #[error("column `{column}` is {actual} in the batch, the spec declares {expected}")]
    ColumnType {
        /// The column.
        column: String,
        /// Declared.
        expected: &'static str,
        /// In the batch.
        actual: String,
    },
    /// Event times of another number of rows.
    #[error("{actual} {what} came with a batch of {expected} rows")]
    Length {
        /// `event times` or `record keys`.
        what: &'static str,
        /// Rows of the batch.
        expected: usize,
        /// Length of the array.
        actual: usize,
    },
    /// No record keys although the partition key is the record's key.
    #[error("the partition key is the record's key, but the batch came without record keys")]
    NoRecordKeys,
    /// Arrow refused a result table.
    #[error("a result table could not be built: {message}")]
    Result {
        /// Arrow's words.
        message: String,
    },
}

/// A stored pane that cannot be used. It is never skipped: the task stops.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    /// A key that is no pane's.
    #[error("stored key {key} is damaged: {what}; restore the task from a checkpoint")]
    Key {
        /// The key in hex.
        key: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A value that is no pane's.
    #[error("the value of stored key {key} is damaged: {what}; restore the task from a checkpoint")]
    Value {
        /// The key in hex.
        key: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A value of another format.
    #[error(
        "the value of stored key {key} has format {found}, this worker reads {known}; run the \
         version that wrote it, or a newer one"
    )]
    Version {
        /// The key in hex.
        key: String,
        /// The format found.
        found: u8,
        /// The format known.
        known: u8,
    },
    /// A window whose definition changed while it had open panes.
    #[error(
        "window `{window}` was defined otherwise when its state was stored; give the changed \
         window another name, since its name is the identity of its state"
    )]
    WindowChanged {
        /// The window.
        window: String,
    },
}

/// Why a pipeline could not be built from stored state.
#[derive(Debug, Error)]
pub enum RestoreError<E> {
    /// The spec is refused.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Stored state is refused.
    #[error(transparent)]
    State(StateError),
    /// The store could not be read.
    #[error("the state store could not be read: {0}")]
    Store(E),
}

/// Why a pipeline cannot go on.
#[derive(Debug, Error)]
pub enum PipelineError<E> {
    /// The batch is refused, or a result table.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A pane that was read is refused.
    #[error(transparent)]
    State(StateError),
    /// A pane could not be read.
    #[error("the state store could not be read: {0}")]
    Store(E),
}

impl SpecError {
    /// Always the user's.
    #[must_use]
    pub fn category(&self) -> Category {
        Category::User
    }
}

impl BatchError {
    /// Always a bug.
    #[must_use]
    pub fn category(&self) -> Category {
        Category::Bug
    }
}

impl StateError {
    /// The user's if a window was changed under its name, else storage.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::WindowChanged { .. } => Category::User,
            Self::Key { .. } | Self::Value { .. } | Self::Version { .. } => Category::Storage,
        }
    }
}

impl<E> RestoreError<E> {
    /// That of the error within; a store that cannot be read is storage.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Spec(error) => error.category(),
            Self::State(error) => error.category(),
            Self::Store(_) => Category::Storage,
        }
    }
}

impl<E> PipelineError<E> {
    /// That of the error within; a store that cannot be read is storage.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Batch(error) => error.category(),
            Self::State(error) => error.category(),
            Self::Store(_) => Category::Storage,
        }
    }
}
