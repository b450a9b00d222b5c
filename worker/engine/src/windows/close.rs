use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_select::concat::concat_batches;

use super::bucket::Bucket;
use super::window::Window;
use crate::error::BatchError;

/// The most rows in one result table.
const MAX_RESULT_ROWS: usize = 8192;

impl Window {
    /// Result tables of all closed panes, ordered by window end and stored key.
    pub(crate) fn drain_closed(&mut self) -> Result<Vec<RecordBatch>, BatchError> {
        let mut tables = Vec::new();
        let mut small: Vec<RecordBatch> = Vec::new();
        let mut small_rows = 0;
        for bucket in &self.closed {
            for panes in bucket.results_in_order().chunks(MAX_RESULT_ROWS) {
                if small_rows + panes.len() > MAX_RESULT_ROWS {
                    tables.push(self.join(&small)?);
                    small.clear();
                    small_rows = 0;
                }
                small.push(self.table(bucket, panes)?);
                small_rows += panes.len();
            }
        }
        if !small.is_empty() {
            tables.push(self.join(&small)?);
        }
        for bucket in std::mem::take(&mut self.closed) {
            self.bury(bucket.start, bucket.saved());
            self.drained_to = self.drained_to.max(Some(bucket.start + self.size));
        }
        Ok(tables)
    }

    fn table(&self, bucket: &Bucket, panes: &[usize]) -> Result<RecordBatch, BatchError> {
        let mut columns = self
            .keys
            .arrays(panes.iter().map(|pane| bucket.tuple(*pane)));
        for bound in [bucket.start, bucket.start + self.size] {
            let bounds: ArrayRef = Arc::new(Int64Array::from_value(bound, panes.len()));
            columns.push(bounds);
        }
        columns.extend(bucket.accumulators.iter().map(|a| a.results(panes)));
        RecordBatch::try_new(self.schema.clone(), columns).map_err(refused)
    }

    fn join(&self, tables: &[RecordBatch]) -> Result<RecordBatch, BatchError> {
        match tables {
            [one] => Ok(one.clone()),
            many => concat_batches(&self.schema, many).map_err(refused),
        }
    }
}

fn refused(error: impl std::fmt::Display) -> BatchError {
    BatchError::Result {
        message: error.to_string(),
    }
}
