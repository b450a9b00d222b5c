use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow_schema::DataType;

use super::cells::{self, End, FloatMean, IntMean, Texts};
use crate::columns::{BoolColumn, Columns, FloatColumn, IntColumn, TextColumn, TypedColumn};
use crate::spec::Aggregate;

/// The running values of one aggregate, indexed by pane.
#[derive(Debug, Clone)]
pub(crate) enum Accumulator {
    CountRows(Vec<u64>),
    Count(TypedColumn, Vec<u64>),
    IntSum(IntColumn, Vec<Option<i64>>),
    FloatSum(FloatColumn, Vec<Option<f64>>),
    IntExtreme(End, IntColumn, Vec<Option<i64>>),
    FloatExtreme(End, FloatColumn, Vec<Option<f64>>),
    TextExtreme(End, TextColumn, Texts),
    BoolExtreme(End, BoolColumn, Vec<Option<bool>>),
    IntMean(IntColumn, Vec<IntMean>),
    FloatMean(FloatColumn, Vec<FloatMean>),
}

/// Why a row's value cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Overflow { sum: i64, value: i64 },
    NotFinite,
    FloatOverflow,
}

impl Accumulator {
    /// An accumulator without panes; none for a function that does not exist for the type, which
    /// the spec's validation refuses.
    pub(crate) fn new(function: Aggregate, typed: &[TypedColumn]) -> Option<Self> {
        let column = function.column().map(|index| typed[index]);
        let accumulator = match (function, column) {
            (Aggregate::CountRows, _) => Self::CountRows(Vec::new()),
            (Aggregate::Count(_), Some(column)) => Self::Count(column, Vec::new()),
            (Aggregate::Sum(_), Some(TypedColumn::Int(c))) => Self::IntSum(c, Vec::new()),
            (Aggregate::Sum(_), Some(TypedColumn::Float(c))) => Self::FloatSum(c, Vec::new()),
            (Aggregate::Mean(_), Some(TypedColumn::Int(c))) => Self::IntMean(c, Vec::new()),
            (Aggregate::Mean(_), Some(TypedColumn::Float(c))) => Self::FloatMean(c, Vec::new()),
            (Aggregate::Min(_), Some(column)) => Self::extreme(End::Least, column),
            (Aggregate::Max(_), Some(column)) => Self::extreme(End::Greatest, column),
            (
                Aggregate::Sum(_) | Aggregate::Mean(_),
                Some(TypedColumn::Text(_) | TypedColumn::Bool(_)),
            )
            | (
                Aggregate::Count(_)
                | Aggregate::Sum(_)
                | Aggregate::Mean(_)
                | Aggregate::Min(_)
                | Aggregate::Max(_),
                None,
            ) => return None,
        };
        Some(accumulator)
    }

    fn extreme(end: End, column: TypedColumn) -> Self {
        match column {
            TypedColumn::Int(c) => Self::IntExtreme(end, c, Vec::new()),
            TypedColumn::Float(c) => Self::FloatExtreme(end, c, Vec::new()),
            TypedColumn::Text(c) => Self::TextExtreme(end, c, Texts::default()),
            TypedColumn::Bool(c) => Self::BoolExtreme(end, c, Vec::new()),
        }
    }

    /// The type of the result column.
    pub(crate) fn result_type(&self) -> DataType {
        match self {
            Self::CountRows(_) | Self::Count(..) | Self::IntSum(..) | Self::IntExtreme(..) => {
                DataType::Int64
            }
            Self::FloatSum(..)
            | Self::FloatExtreme(..)
            | Self::IntMean(..)
            | Self::FloatMean(..) => DataType::Float64,
            Self::TextExtreme(..) => DataType::Utf8,
            Self::BoolExtreme(..) => DataType::Boolean,
        }
    }

    /// Whether a row can be refused at all.
    pub(crate) fn can_refuse(&self) -> bool {
        match self {
            Self::IntSum(..)
            | Self::FloatSum(..)
            | Self::FloatExtreme(..)
            | Self::FloatMean(..) => true,
            Self::CountRows(_)
            | Self::Count(..)
            | Self::IntExtreme(..)
            | Self::TextExtreme(..)
            | Self::BoolExtreme(..)
            | Self::IntMean(..) => false,
        }
    }

    /// Adds a pane without values.
    pub(crate) fn push_pane(&mut self) {
        match self {
            Self::CountRows(cells) | Self::Count(_, cells) => cells.push(0),
            Self::IntSum(_, cells) | Self::IntExtreme(_, _, cells) => cells.push(None),
            Self::FloatSum(_, cells) | Self::FloatExtreme(_, _, cells) => cells.push(None),
            Self::TextExtreme(_, _, texts) => texts.push(None),
            Self::BoolExtreme(_, _, cells) => cells.push(None),
            Self::IntMean(_, cells) => cells.push(IntMean::default()),
            Self::FloatMean(_, cells) => cells.push(FloatMean::default()),
        }
    }

    /// Whether the pane (none: one that is not there yet) can take the row. Changes nothing.
    #[inline]
    pub(crate) fn check(
        &self,
        pane: Option<usize>,
        columns: &Columns<'_>,
        row: usize,
    ) -> Result<(), Refusal> {
        match self {
            Self::IntSum(column, cells) => {
                let sum = pane.and_then(|pane| cells[pane]);
                match (sum, columns.int(*column, row)) {
                    (Some(sum), Some(value)) if sum.checked_add(value).is_none() => {
                        Err(Refusal::Overflow { sum, value })
                    }
                    _ => Ok(()),
                }
            }
            Self::FloatSum(column, cells) => {
                let sum = pane.and_then(|pane| cells[pane]).unwrap_or(0.0);
                check_float(sum, columns.float(*column, row))
            }
            Self::FloatMean(column, cells) => {
                let sum = pane.map_or(0.0, |pane| cells[pane].sum);
                check_float(sum, columns.float(*column, row))
            }
            Self::FloatExtreme(_, column, _) => check_float(0.0, columns.float(*column, row)),
            Self::CountRows(_)
            | Self::Count(..)
            | Self::IntExtreme(..)
            | Self::TextExtreme(..)
            | Self::BoolExtreme(..)
            | Self::IntMean(..) => Ok(()),
        }
    }

    /// Folds a row that [`Self::check`] let pass into a pane.
    #[inline]
    pub(crate) fn fold(&mut self, pane: usize, columns: &Columns<'_>, row: usize) {
        match self {
            Self::CountRows(cells) => cells[pane] += 1,
            Self::Count(column, cells) => {
                cells[pane] += u64::from(columns.is_valid(*column, row));
            }
            Self::IntSum(column, cells) => {
                if let Some(value) = columns.int(*column, row) {
                    // The check has ruled out that this wraps.
                    cells[pane] = Some(cells[pane].unwrap_or(0).wrapping_add(value));
                }
            }
            Self::FloatSum(column, cells) => {
                if let Some(value) = columns.float(*column, row) {
                    cells[pane] = Some(cells[pane].map_or(value, |sum| sum + value));
                }
            }
            Self::IntMean(column, cells) => {
                if let Some(value) = columns.int(*column, row) {
                    cells[pane].sum += i128::from(value);
                    cells[pane].count += 1;
                }
            }
            Self::FloatMean(column, cells) => {
                if let Some(value) = columns.float(*column, row) {
                    cells[pane].sum += value;
                    cells[pane].count += 1;
                }
            }
            Self::IntExtreme(end, column, cells) => {
                if let Some(value) = columns.int(*column, row)
                    && cells[pane].is_none_or(|old| end.replaces(value.cmp(&old)))
                {
                    cells[pane] = Some(value);
                }
            }
            Self::FloatExtreme(end, column, cells) => {
                if let Some(value) = columns.float(*column, row)
                    && cells[pane].is_none_or(|old| end.replaces(value.total_cmp(&old)))
                {
                    cells[pane] = Some(value);
                }
            }
            Self::BoolExtreme(end, column, cells) => {
                if let Some(value) = columns.bool(*column, row)
                    && cells[pane].is_none_or(|old| end.replaces(value.cmp(&old)))
                {
                    cells[pane] = Some(value);
                }
            }
            Self::TextExtreme(end, column, texts) => {
                if let Some(value) = columns.text(*column, row)
                    && texts
                        .get(pane)
                        .is_none_or(|old| end.replaces(value.cmp(old)))
                {
                    texts.set(pane, value);
                }
            }
        }
    }

    /// Keeps these panes, which ascend, renumbered from 0, and frees what the others took.
    pub(crate) fn retain(&mut self, panes: &[usize]) {
        match self {
            Self::CountRows(cells) | Self::Count(_, cells) => cells::retain(cells, panes),
            Self::IntSum(_, cells) | Self::IntExtreme(_, _, cells) => cells::retain(cells, panes),
            Self::FloatSum(_, cells) | Self::FloatExtreme(_, _, cells) => {
                cells::retain(cells, panes);
            }
            Self::TextExtreme(_, _, texts) => texts.retain(panes),
            Self::BoolExtreme(_, _, cells) => cells::retain(cells, panes),
            Self::IntMean(_, cells) => cells::retain(cells, panes),
            Self::FloatMean(_, cells) => cells::retain(cells, panes),
        }
    }

    /// Bytes that the running values fill.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::CountRows(cells) | Self::Count(_, cells) => cells::bytes(cells),
            Self::IntSum(_, cells) | Self::IntExtreme(_, _, cells) => cells::bytes(cells),
            Self::FloatSum(_, cells) | Self::FloatExtreme(_, _, cells) => cells::bytes(cells),
            Self::TextExtreme(_, _, texts) => texts.bytes(),
            Self::BoolExtreme(_, _, cells) => cells::bytes(cells),
            Self::IntMean(_, cells) => cells::bytes(cells),
            Self::FloatMean(_, cells) => cells::bytes(cells),
        }
    }

    /// Whether the pane's result is null.
    pub(crate) fn is_null(&self, pane: usize) -> bool {
        match self {
            Self::CountRows(_) | Self::Count(..) => false,
            Self::IntSum(_, cells) | Self::IntExtreme(_, _, cells) => cells[pane].is_none(),
            Self::FloatSum(_, cells) | Self::FloatExtreme(_, _, cells) => cells[pane].is_none(),
            Self::TextExtreme(_, _, texts) => texts.get(pane).is_none(),
            Self::BoolExtreme(_, _, cells) => cells[pane].is_none(),
            Self::IntMean(_, cells) => cells[pane].count == 0,
            Self::FloatMean(_, cells) => cells[pane].count == 0,
        }
    }

    /// The results of these panes, in this order.
    pub(crate) fn results(&self, panes: &[usize]) -> ArrayRef {
        let panes = panes.iter().copied();
        match self {
            Self::CountRows(cells) | Self::Count(_, cells) => {
                Arc::new(Int64Array::from_iter_values(
                    // A count of rows in memory cannot reach 2^63.
                    panes.map(|pane| i64::try_from(cells[pane]).unwrap_or(i64::MAX)),
                ))
            }
            Self::IntSum(_, cells) | Self::IntExtreme(_, _, cells) => {
                Arc::new(panes.map(|pane| cells[pane]).collect::<Int64Array>())
            }
            Self::FloatSum(_, cells) | Self::FloatExtreme(_, _, cells) => {
                Arc::new(panes.map(|pane| cells[pane]).collect::<Float64Array>())
            }
            Self::IntMean(_, cells) => Arc::new(
                panes
                    .map(|pane| cells[pane].finish())
                    .collect::<Float64Array>(),
            ),
            Self::FloatMean(_, cells) => Arc::new(
                panes
                    .map(|pane| cells[pane].finish())
                    .collect::<Float64Array>(),
            ),
            Self::TextExtreme(_, _, texts) => {
                Arc::new(panes.map(|pane| texts.get(pane)).collect::<StringArray>())
            }
            Self::BoolExtreme(_, _, cells) => {
                Arc::new(panes.map(|pane| cells[pane]).collect::<BooleanArray>())
            }
        }
    }
}

fn check_float(sum: f64, value: Option<f64>) -> Result<(), Refusal> {
    match value {
        Some(value) if !value.is_finite() => Err(Refusal::NotFinite),
        Some(value) if !(sum + value).is_finite() => Err(Refusal::FloatOverflow),
        Some(_) | None => Ok(()),
    }
}
