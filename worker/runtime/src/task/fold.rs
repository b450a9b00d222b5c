//! What a batch goes through: decoding, folding, and what becomes of records that cannot be used.

use std::time::{Duration, Instant};

use arrow_array::BinaryArray;
use turbine_crds::app::{OnError, OnNullKey};
use turbine_crds::compiled::CompiledPartitionKey;
use turbine_engine::{InputBatch, Outcome, RowFault};
use turbine_kafka::{DeadLetter, Phase, RecordBatch as Records};
use turbine_protocol::Offset;

use super::cold::Cold;
use super::error::TaskError;
use super::life::Life;
use crate::control::metrics::BadRecordAction;
use crate::decode::{Decoded, RecordFault};

/// Bad records are counted one by one; one in this time is also logged.
const BAD_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Which record each row of a batch came from. While no record was bad this is the row itself, and
/// nothing is kept.
#[derive(Debug, Default)]
struct Origins(Option<Vec<usize>>);

impl Origins {
    fn took(&mut self, record: usize) {
        if let Some(origins) = &mut self.0 {
            origins.push(record);
        }
    }

    fn skipped(&mut self, rows_so_far: usize) {
        self.0.get_or_insert_with(|| (0..rows_so_far).collect());
    }

    fn record_of(&self, row: usize) -> usize {
        match &self.0 {
            None => row,
            Some(origins) => origins.get(row).copied().unwrap_or(row),
        }
    }
}

/// Why a task stops in front of a record.
#[derive(Debug)]
enum Stop {
    /// The record cannot be used.
    Fault(RecordFault),
    /// Whether it can be used is another question.
    Task(TaskError),
}

/// Records of one batch that could not be used.
#[derive(Debug, Default)]
struct Bad {
    /// In front of this one the task stops.
    stop: Option<(usize, Stop)>,
    /// Dropped or dead-lettered, as `onError` says.
    passed: Vec<(usize, RecordFault)>,
    /// Dead-lettered because they have no partition key.
    keyless: Vec<usize>,
}

impl Bad {
    /// What lies behind the record in front of which the task stops is read again, and judged then.
    fn forget_what_is_read_again(&mut self) {
        if let Some((stop, _)) = &self.stop {
            self.passed.retain(|(record, _)| record < stop);
            self.keyless.retain(|record| record < stop);
        }
    }
}

impl Life<'_> {
    /// Decodes and folds a batch. The error returned inside is the record in front of which the
    /// task stops: everything before it was folded and is to be committed first.
    pub(super) fn take(&mut self, records: &Records) -> Result<Option<TaskError>, TaskError> {
        let started = Instant::now();
        let mut bad = Bad::default();
        let (decoded, origins) = self.decode(records, &mut bad)?;
        let decoded_at = Instant::now();
        self.metrics
            .decode
            .observe((decoded_at - started).as_secs_f64());
        let now = self.setup.clock.wall_ms();
        self.fold(records, &decoded, &origins, &mut bad, now)?;
        self.metrics
            .process
            .observe(decoded_at.elapsed().as_secs_f64());
        bad.forget_what_is_read_again();
        self.pass_on(records, &bad)?;

        let (taken, position, stopped) = match bad.stop {
            None => (records.len(), records.next_offset(), None),
            Some((index, stop)) => {
                let offset = records.offset(index)?;
                let error = match stop {
                    Stop::Fault(fault) => self.bad_record(offset, fault),
                    Stop::Task(error) => error,
                };
                (index, offset, Some(error))
            }
        };
        self.position = position;
        if taken > 0 {
            self.touched(taken);
            self.folded_bytes += records.bytes();
        }
        let count = taken as u64;
        self.metrics.messages.inc_by(count);
        self.metrics.batches.inc();
        self.cell.update(|status| status.records += count);
        Ok(stopped)
    }

    fn bad_record(&self, offset: Offset, fault: RecordFault) -> TaskError {
        let topic = self.topic.to_string();
        let partition = self.setup.plan.task.partition.get();
        if matches!(fault, RecordFault::Misplaced(_)) {
            TaskError::Misplaced {
                topic,
                partition,
                offset,
                fault,
            }
        } else {
            TaskError::BadRecord {
                topic,
                partition,
                offset,
                fault,
            }
        }
    }

    /// Takes records that were taken before, without results: what could not be used was dealt with then. Whether they can
    /// be taken; a record that would stop the task did not then.
    pub(super) fn take_again(&mut self, records: &Records) -> Result<bool, TaskError> {
        let mut bad = Bad::default();
        let (decoded, origins) = self.decode(records, &mut bad)?;
        // What the clock refused then shows by the number of rows.
        self.fold(records, &decoded, &origins, &mut bad, i64::MAX)?;
        match bad.stop {
            None => Ok(true),
            Some((_, Stop::Fault(_))) => Ok(false),
            Some((_, Stop::Task(error))) => Err(error),
        }
    }

    fn decode(
        &mut self,
        records: &Records,
        bad: &mut Bad,
    ) -> Result<(Decoded, Origins), TaskError> {
        let mut origins = Origins::default();
        for index in 0..records.len() {
            match (
                self.decoder.push(records.value(index)),
                self.setup.subscription.on_error,
            ) {
                (Ok(()), _) => origins.took(index),
                (Err(fault), OnError::Fail) => {
                    bad.stop = Some((index, Stop::Fault(fault)));
                    break;
                }
                (Err(fault), OnError::Skip | OnError::Dlq) => {
                    origins.skipped(self.decoder.rows());
                    bad.passed.push((index, fault));
                }
            }
        }
        Ok((self.decoder.finish()?, origins))
    }

    fn fold(
        &mut self,
        records: &Records,
        decoded: &Decoded,
        origins: &Origins,
        bad: &mut Bad,
        now: i64,
    ) -> Result<(), TaskError> {
        let rows = decoded.rows.num_rows();
        let keys = match self.setup.subscription.partition_key {
            CompiledPartitionKey::Columns(_) => None,
            CompiledPartitionKey::RecordKey => {
                let keys = (0..rows).map(|row| records.key(origins.record_of(row)));
                Some(keys.collect::<BinaryArray>())
            }
        };
        // Whether the topic was asked since the batch was read, and had not grown.
        let mut unmoved = false;
        let mut from = 0;
        while from < rows {
            let left = rows - from;
            let rest = decoded.rows.slice(from, left);
            let event_times = decoded.event_times.slice(from, left);
            let record_keys = keys.as_ref().map(|keys| keys.slice(from, left));
            let input = InputBatch {
                rows: &rest,
                event_times: &event_times,
                record_keys: record_keys.as_ref(),
            };
            let cold = Cold(&*self.store);
            let mut outcome = if unmoved {
                self.pipeline.process_unmoved(input, now, &cold)?
            } else {
                self.pipeline.process(input, now, &cold)?
            };
            self.count(&outcome);
            if let Some(first) = outcome.first_observed.take() {
                let record = origins.record_of(from + first.row);
                let fault = self.record_fault(records, record, first.fault);
                if let RecordFault::Misplaced(misplaced) = &fault {
                    let offset = records.offset(record)?;
                    self.observed(outcome.observed_misplaced, offset, misplaced);
                }
            }
            let suspect = outcome
                .row_errors
                .pop_if(|error| !unmoved && matches!(error.fault, RowFault::Misplaced { .. }));
            for error in outcome.row_errors {
                let record = origins.record_of(from + error.row);
                let fault = self.record_fault(records, record, error.fault);
                self.sort_bad(record, fault, bad);
            }
            if let Some(suspect) = suspect {
                let record = origins.record_of(from + suspect.row);
                let offset = records.offset(record)?;
                if let Err(error) = self.confirm_count(offset) {
                    bad.stop = Some((record, Stop::Task(error)));
                    break;
                }
                unmoved = true;
                let fault = self.record_fault(records, record, suspect.fault);
                if let RecordFault::Misplaced(misplaced) = &fault {
                    self.condemn(offset, misplaced);
                }
                from += suspect.row;
                continue;
            }
            // The engine stops at the first row in error if errors are to stop the task; a row
            // without a key may still be one that does not.
            let next = from + outcome.rows_taken + 1;
            let stopped_here = bad
                .stop
                .as_ref()
                .is_some_and(|(record, _)| *record < origins.record_of(next));
            if outcome.rows_taken == left || stopped_here {
                break;
            }
            from = next;
        }
        Ok(())
    }

    fn sort_bad(&mut self, record: usize, fault: RecordFault, bad: &mut Bad) {
        let subscription = &self.setup.subscription;
        if let RecordFault::Misplaced(misplaced) = &fault {
            self.count_misplaced(1);
            self.suspect(misplaced);
        }
        match (&fault, subscription.on_null_key, subscription.on_error) {
            (RecordFault::Row(RowFault::NullKey), OnNullKey::Dlq, _) => bad.keyless.push(record),
            (_, _, OnError::Fail) => bad.stop = Some((record, Stop::Fault(fault))),
            (_, _, OnError::Skip | OnError::Dlq) => bad.passed.push((record, fault)),
        }
    }

    fn count(&self, outcome: &Outcome) {
        let metrics = self.metrics;
        metrics.null_grouped.inc_by(outcome.null_keys_grouped);
        metrics.null_dropped.inc_by(outcome.null_keys_dropped);
        let mut late_rows = 0;
        for (at, late) in outcome.late.iter().enumerate() {
            let all = late.by_data + late.by_coasting;
            late_rows += all;
            if let (Some(dropped), Some(idle)) = (metrics.late.get(at), metrics.late_idle.get(at)) {
                dropped.inc_by(all);
                idle.inc_by(late.by_coasting);
            }
        }
        if late_rows > 0 {
            self.cell.update(|status| status.late_rows += late_rows);
        }
    }

    /// Drops or dead-letters what could not be used, and counts it.
    fn pass_on(&mut self, records: &Records, bad: &Bad) -> Result<(), TaskError> {
        for record in &bad.keyless {
            self.dead_letter(records, *record, &RowFault::NullKey.into())?;
        }
        self.metrics
            .null_dead_lettered
            .inc_by(bad.keyless.len() as u64);
        let to_dead_letters = self.setup.subscription.on_error == OnError::Dlq;
        let action = if to_dead_letters {
            BadRecordAction::DeadLettered
        } else {
            BadRecordAction::Dropped
        };
        let mut counts = [0_u64; 2];
        for (record, fault) in &bad.passed {
            if to_dead_letters {
                self.dead_letter(records, *record, fault)?;
            }
            if matches!(fault, RecordFault::Row(RowFault::NoEventTime)) {
                self.metrics.no_time.inc();
            }
            counts[usize::from(phase(fault) == Phase::Deserialize)] += 1;
        }
        self.metrics
            .count_bad(Phase::Processing.as_str(), action, counts[0]);
        self.metrics
            .count_bad(Phase::Deserialize.as_str(), action, counts[1]);
        let keyless = bad.keyless.len() as u64;
        self.bad_records += keyless + bad.passed.len() as u64;
        self.metrics.count_bad(
            Phase::Processing.as_str(),
            BadRecordAction::DeadLettered,
            keyless,
        );
        let dead_letters = keyless
            + if to_dead_letters {
                bad.passed.len() as u64
            } else {
                0
            };
        if dead_letters > 0 {
            self.cell
                .update(|status| status.dead_letters += dead_letters);
        }
        if let Some((record, fault)) = bad.passed.first() {
            self.log_sample(records.offset(*record)?, fault, action, bad.passed.len());
        }
        Ok(())
    }

    fn dead_letter(
        &mut self,
        records: &Records,
        record: usize,
        fault: &RecordFault,
    ) -> Result<(), TaskError> {
        let task = &self.setup.plan.task;
        let Some(topic) = &self.dead_letters else {
            return Err(TaskError::NoDeadLetterTopic {
                subscription: task.subscription.to_string(),
            });
        };
        let error = fault.to_string();
        let letter = DeadLetter {
            key: records.key(record),
            value: records.value(record),
            headers: records.headers(record),
            topic: &self.topic,
            partition: task.partition,
            offset: records.offset(record)?,
            phase: phase(fault),
            error: &error,
            subscription: &task.subscription,
        };
        self.producer.produce_dead_letter(topic, &letter)?;
        Ok(())
    }

    fn log_sample(
        &mut self,
        offset: Offset,
        fault: &RecordFault,
        action: BadRecordAction,
        records: usize,
    ) {
        let now = self.setup.clock.monotonic();
        if self
            .bad_logged
            .is_some_and(|last| now.saturating_sub(last) < BAD_LOG_INTERVAL)
        {
            return;
        }
        self.bad_logged = Some(now);
        tracing::warn!(
            task = %self.cell.task(), topic = %self.topic, %offset, %fault,
            action = action.as_str(), in_this_batch = records,
            "a record could not be used; others are counted and not logged for a while"
        );
    }
}

fn phase(fault: &RecordFault) -> Phase {
    match fault {
        RecordFault::Row(_) | RecordFault::Misplaced(_) => Phase::Processing,
        RecordFault::NoValue
        | RecordFault::Empty
        | RecordFault::NotUtf8 { .. }
        | RecordFault::CutOff { .. }
        | RecordFault::Trailing { .. }
        | RecordFault::Syntax { .. }
        | RecordFault::TooDeep
        | RecordFault::NotAnObject { .. }
        | RecordFault::Duplicate { .. }
        | RecordFault::WrongType { .. }
        | RecordFault::OutOfRange { .. }
        | RecordFault::NotATime { .. } => Phase::Deserialize,
    }
}
