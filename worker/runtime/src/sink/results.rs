//! Results of closed panes to the producer.

use std::time::Instant;

use arrow_array::RecordBatch;
use turbine_crds::app::OnError;
use turbine_kafka::{OutputBatch, Phase};

use super::encode::{EncodeError, ResultTable};
use crate::control::metrics::BadRecordAction;
use crate::task::{Cold, Life, StopSignal, TaskError};

/// Records are handed to the producer in pieces of about this many bytes, so that a large close
/// needs no second copy of itself.
const PIECE_BYTES: usize = 1 << 20;

impl Life<'_> {
    /// Writes the results of all panes that closed. A close that is too large for one commit is
    /// committed in parts.
    ///
    /// # Errors
    /// If a result cannot be encoded, the producer takes no more, a commit fails, or the topic has
    /// grown: then records of these windows may lie where nobody reads.
    pub(crate) fn hand_out(&mut self, stop: &StopSignal) -> Result<(), TaskError> {
        if !self.pipeline.has_closed() {
            return Ok(());
        }
        self.look_for_growth()?;
        self.hand_out_known(stop)
    }

    /// As [`Self::hand_out`], without a look at the topic: for what closed before the record that
    /// stops the task.
    ///
    /// # Errors
    /// If a result cannot be encoded, the producer takes no more, or a commit fails.
    pub(crate) fn hand_out_known(&mut self, stop: &StopSignal) -> Result<(), TaskError> {
        while self.pipeline.has_closed() {
            let part = self.hand_out_part()?;
            // Also the part behind the last commit of a large close: nothing else may follow it.
            self.touched(0);
            self.handed_out += part;
            if self.pipeline.has_closed() && self.handed_out >= self.setup.limits.commit_records {
                self.commit(stop)?;
            }
        }
        Ok(())
    }

    fn hand_out_part(&mut self) -> Result<u64, TaskError> {
        let started = Instant::now();
        let closed = self
            .pipeline
            .drain_closed(self.setup.limits.result_panes, &Cold(&*self.store))?;
        let mut written = 0;
        for rows in closed {
            written += self.hand_out_table(rows.window, &rows.rows)?;
        }
        self.metrics.outputs.inc_by(written);
        self.metrics
            .produce
            .observe(started.elapsed().as_secs_f64());
        Ok(written)
    }

    fn hand_out_table(&mut self, window: usize, rows: &RecordBatch) -> Result<u64, TaskError> {
        let Some(encoder) = self.encoders.get(window) else {
            return Ok(0);
        };
        let table = encoder.table(rows)?;
        let mut written = table.rows() as u64;
        let mut row = 0;
        while row < table.rows() {
            self.results.clear();
            while row < table.rows() && self.results.bytes() < PIECE_BYTES {
                append(&table, row, &mut self.results, &mut self.key)?;
                row += 1;
            }
            let rejected = self.producer.produce(&self.output, &self.results)?;
            let count = rejected.len() as u64;
            written -= count;
            if let Some(first) = rejected.into_iter().next() {
                // A result has no record that could be dead-lettered, so only `skip` goes on.
                if self.setup.subscription.on_error != OnError::Skip {
                    return Err(TaskError::Result(first.reason));
                }
                tracing::warn!(
                    task = %self.cell.task(), error = %first.reason, count,
                    "results were dropped: their topic does not take them"
                );
                let phase = Phase::Processing.as_str();
                self.metrics
                    .count_bad(phase, BadRecordAction::Dropped, count);
            }
        }
        Ok(written)
    }
}

fn append(
    table: &ResultTable<'_>,
    row: usize,
    into: &mut OutputBatch,
    key: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    key.clear();
    let has_key = table.write_key(row, key)?;
    let mut written = Ok(());
    into.push_with(has_key.then_some(key.as_slice()), |value| {
        written = table.write_value(row, value);
    });
    written
}
