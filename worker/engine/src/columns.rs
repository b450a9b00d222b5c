use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray};

use crate::batch::InputBatch;
use crate::error::BatchError;
use crate::spec::{ColumnType, PartitionKey, PipelineSpec};

/// A column by its place among the columns of its type, so that reading it cannot meet another
/// type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IntColumn(usize);
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FloatColumn(usize);
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextColumn(usize);
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BoolColumn(usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedColumn {
    Int(IntColumn),
    Float(FloatColumn),
    Text(TextColumn),
    Bool(BoolColumn),
}

/// The declared columns, each at its typed place.
pub(crate) fn typed_columns(spec: &PipelineSpec) -> Vec<TypedColumn> {
    let (mut ints, mut floats, mut texts, mut bools) = (0, 0, 0, 0);
    let next = |count: &mut usize| {
        *count += 1;
        *count - 1
    };
    spec.columns
        .iter()
        .map(|column| match column.kind {
            ColumnType::Int64 => TypedColumn::Int(IntColumn(next(&mut ints))),
            ColumnType::Float64 => TypedColumn::Float(FloatColumn(next(&mut floats))),
            ColumnType::Text => TypedColumn::Text(TextColumn(next(&mut texts))),
            ColumnType::Bool => TypedColumn::Bool(BoolColumn(next(&mut bools))),
        })
        .collect()
}

/// A batch's columns, checked against the spec and sorted by type.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    ints: Vec<&'a Int64Array>,
    floats: Vec<&'a Float64Array>,
    texts: Vec<&'a StringArray>,
    bools: Vec<&'a BooleanArray>,
    record_keys: Option<&'a BinaryArray>,
}

impl<'a> Columns<'a> {
    pub(crate) fn bind(spec: &PipelineSpec, input: InputBatch<'a>) -> Result<Self, BatchError> {
        let (expected, actual) = (spec.columns.len(), input.rows.num_columns());
        if expected != actual {
            return Err(BatchError::ColumnCount { expected, actual });
        }
        let rows = input.rows.num_rows();
        check_length("event times", rows, input.event_times.len())?;
        if let Some(keys) = input.record_keys {
            check_length("record keys", rows, keys.len())?;
        } else if spec.partition_key == PartitionKey::RecordKey {
            return Err(BatchError::NoRecordKeys);
        }
        let mut columns = Self {
            ints: Vec::new(),
            floats: Vec::new(),
            texts: Vec::new(),
            bools: Vec::new(),
            record_keys: input.record_keys,
        };
        for (column, array) in spec.columns.iter().zip(input.rows.columns()) {
            let fits = match column.kind {
                ColumnType::Int64 => array
                    .as_primitive_opt::<Int64Type>()
                    .map(|a| columns.ints.push(a)),
                ColumnType::Float64 => array
                    .as_primitive_opt::<Float64Type>()
                    .map(|a| columns.floats.push(a)),
                ColumnType::Text => array.as_string_opt::<i32>().map(|a| columns.texts.push(a)),
                ColumnType::Bool => array.as_boolean_opt().map(|a| columns.bools.push(a)),
            };
            fits.ok_or_else(|| BatchError::ColumnType {
                column: column.name.clone(),
                expected: column.kind.name(),
                actual: array.data_type().to_string(),
            })?;
        }
        Ok(columns)
    }

    #[inline]
    pub(crate) fn int(&self, column: IntColumn, row: usize) -> Option<i64> {
        let array = self.ints[column.0];
        array.is_valid(row).then(|| array.value(row))
    }

    #[inline]
    pub(crate) fn float(&self, column: FloatColumn, row: usize) -> Option<f64> {
        let array = self.floats[column.0];
        array.is_valid(row).then(|| array.value(row))
    }

    #[inline]
    pub(crate) fn text(&self, column: TextColumn, row: usize) -> Option<&'a str> {
        let array = self.texts[column.0];
        array.is_valid(row).then(|| array.value(row))
    }

    #[inline]
    pub(crate) fn bool(&self, column: BoolColumn, row: usize) -> Option<bool> {
        let array = self.bools[column.0];
        array.is_valid(row).then(|| array.value(row))
    }

    #[inline]
    pub(crate) fn record_key(&self, row: usize) -> Option<&'a [u8]> {
        let array = self.record_keys?;
        array.is_valid(row).then(|| array.value(row))
    }

    #[inline]
    pub(crate) fn is_valid(&self, column: TypedColumn, row: usize) -> bool {
        match column {
            TypedColumn::Int(c) => self.ints[c.0].is_valid(row),
            TypedColumn::Float(c) => self.floats[c.0].is_valid(row),
            TypedColumn::Text(c) => self.texts[c.0].is_valid(row),
            TypedColumn::Bool(c) => self.bools[c.0].is_valid(row),
        }
    }
}

fn check_length(what: &'static str, expected: usize, actual: usize) -> Result<(), BatchError> {
    if expected == actual {
        Ok(())
    } else {
        Err(BatchError::Length {
            what,
            expected,
            actual,
        })
    }
}
