//! The start of a task: gather what volume and broker know, decide, and build what runs.

use turbine_crds::control::TaskState as Phase;
use turbine_engine::{PaneOwners, Pipeline, PipelineSpec};
use turbine_kafka::{CommitOutcome, OutputProducer, PartitionReader, Transactions};
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::{CommittedReceipt, Offset, TopicName};
use turbine_state::{FoundStore, TaskState};

use super::cold::Cold;
use super::error::TaskError;
use super::find::{Found, find_state};
use super::life::{Life, Parts};
use super::placement::{count_changed, declared, placement};
use super::receipt::{clocks_of, fresh_history, receipt_of, rules};
use super::recover::tell_missing;
use super::rights::{check_rights, dead_letter_topic};
use super::setup::TaskSetup;
use super::spec::{SpecFault, pipeline_spec};
use super::thread::end_if_unsynced;
use crate::control::assignment::count_refusal;
use crate::control::metrics::TaskMetrics;
use crate::control::status::{Step, TaskCell};
use crate::decode::JsonDecoder;
use crate::sink::ResultEncoder;

/// Starts a task, up to the point where it can read its first record. `has_run`: this process has run it before.
///
/// # Errors
/// If it must not or cannot run now.
pub(super) fn begin<'a>(
    setup: &'a TaskSetup,
    cell: &'a TaskCell,
    metrics: &'a TaskMetrics,
    has_run: bool,
) -> Result<Life<'a>, TaskError> {
    cell.enter(Step::Starting);
    setup.memory?;
    let subscription = &*setup.subscription;
    let topic: TopicName = subscription.topic.parse()?;
    let placement = placement(setup);
    let spec = pipeline_spec(subscription, placement)?;
    let owners = PaneOwners::new(&spec, placement).map_err(SpecFault::from)?;
    let decoder =
        JsonDecoder::new(&subscription.columns, &subscription.event_time).ok_or_else(|| {
            SpecFault::NoEventTime {
                subscription: subscription.name.clone(),
                column: subscription.event_time.column.clone(),
            }
        })?;
    let sizes = check_rights(setup, &topic)
        .and_then(|sizes| check_count(setup, &topic).map(|()| sizes))
        .inspect_err(|_| show_stored_verdict(setup, cell))?;
    let transactions = setup.transactions(&topic);
    let kafka = sizes.fitted(&setup.kafka);
    let producer = match &transactions {
        Some(transactions) => transactions.producer(&kafka, setup.queues)?,
        None => OutputProducer::open(&kafka, setup.queues)?,
    };
    let Found {
        store,
        start,
        log_end,
        recovery,
        branched,
        receipt_lags,
        gap,
    } = find_state(
        setup,
        cell,
        metrics,
        &topic,
        has_run,
        || match &transactions {
            Some(transactions) => transactions.take_over(&producer, setup.limits.broker_wait),
            None => Ok(()),
        },
    )?;

    let group = setup.group();
    let partition = setup.plan.task.partition;
    let reader =
        PartitionReader::open(&setup.kafka, &group, &topic, partition, start, setup.queues)?;
    let new = store.progress().number == turbine_protocol::EntryNumber::ZERO;
    // What an older store would say is not what was committed.
    if recovery.is_none() && (new || receipt_lags || store.progress().cleanly_stopped) {
        // A new store's first act: from here on a lost volume is noticed. One that was stopped in
        // order may have outlived its receipt, and must not commit more without one. After a crash in a commit there may be
        // nothing more to commit.
        let first = last_receipt(setup, &*store, start)?;
        match &transactions {
            Some(transactions) => commit_alone(setup, transactions, &producer, &first)?,
            None => reader.commit(&first, setup.limits.broker_wait)?,
        }
    }
    if let Some(transactions) = &transactions {
        transactions.begin(&producer)?;
    }
    let output = sizes.of_output(producer.topic(
        &subscription.output.topic.parse()?,
        setup.limits.broker_wait,
    )?);
    let dead_letters = match dead_letter_topic(subscription)? {
        Some(name) => Some(sizes.of_dead_letters(producer.topic(&name, setup.limits.broker_wait)?)),
        None => None,
    };

    cell.set_state(Phase::Restoring, None);
    let mut pipeline = restore(setup, spec, &*store, cell)?;
    if branched {
        pipeline.begin_history(fresh_history());
    }
    if let Some(gap) = gap {
        tracing::warn!(
            task = %cell.task(), from = %gap.from, to = %gap.to, offsets = gap.count(),
            "retention removed records before they were read; the task goes on behind them, and the state of windows that are \
             open lacks them (`input.onRetentionGap: accept`)"
        );
        tell_missing(cell, metrics, gap);
    }
    let encoders = subscription
        .windows
        .iter()
        .map(|window| ResultEncoder::new(subscription, window))
        .collect();
    Ok(Life::new(
        setup,
        cell,
        metrics,
        Parts {
            topic,
            reader,
            producer,
            transactions,
            output,
            dead_letters,
            store,
            recovery,
            pipeline,
            owners,
            decoder,
            encoders,
            log_end,
        },
    ))
}

/// The receipt of the store's last commit, for a store that stands at `start` if it does not say where.
///
/// # Errors
/// If the store's clocks do not read.
pub(super) fn last_receipt(
    setup: &TaskSetup,
    store: &dyn TaskState,
    start: Offset,
) -> Result<CommittedReceipt, TaskError> {
    let own = setup.plan.task.partition;
    let mut positions = store.progress().positions.iter();
    Ok(CommittedReceipt {
        // Where the store stands: in front of a gap that it does not know of before it commits.
        offset: positions
            .find(|at| at.partition == own)
            .map_or(start, |at| at.next),
        receipt: receipt_of(store.progress(), store.identity())?,
    })
}

/// Commits a receipt in a transaction of its own.
///
/// # Errors
/// If it is not committed, or that is not known.
pub(super) fn commit_alone(
    setup: &TaskSetup,
    transactions: &Transactions,
    producer: &OutputProducer,
    receipt: &CommittedReceipt,
) -> Result<(), TaskError> {
    let wait = setup.limits.broker_wait;
    transactions.begin(producer)?;
    transactions.send_offset(producer, receipt, wait)?;
    match transactions.commit(producer, wait) {
        CommitOutcome::Committed => Ok(()),
        CommitOutcome::Unknown(error) | CommitOutcome::Failed(error) => Err(error.into()),
    }
}

fn check_count(setup: &TaskSetup, topic: &TopicName) -> Result<(), TaskError> {
    let expected = setup.plan.partitions;
    let now = setup.clock.monotonic();
    let found = setup.counts.fresh(topic, now, setup.limits.broker_wait)?;
    // Without a declared hash nobody says that keys have moved; what further partitions hold is not read, and the operator
    // says so.
    if found < expected || (found != expected && declared(&setup.subscription)) {
        return Err(count_changed(setup, topic.as_str(), found, None));
    }
    carries(topic, expected, setup.allow_non_divisor)
}

/// A task that is stopped before it opens its state shows what was known of its placement all the same.
fn show_stored_verdict(setup: &TaskSetup, cell: &TaskCell) {
    let store = match setup.volume.find(&setup.identity()) {
        Ok(FoundStore::Ours(store)) => store,
        Ok(FoundStore::Absent | FoundStore::Other(_)) => return,
        // The task is stopped for another reason, which is told; this one only if it must not be passed over.
        Err(error) => return end_if_unsynced(cell, &error.into()),
    };
    if let Ok(clocks) = clocks_of(store.progress()) {
        cell.update(|status| {
            status.placement = clocks.placement.verdict();
            status.misplaced_first = clocks.placement.misplaced().cloned();
        });
    }
}

/// Whether keyed state can lie on a topic of this count.
fn carries(
    topic: &TopicName,
    count: RawPartitionCount,
    allow_non_divisor: bool,
) -> Result<(), TaskError> {
    match count_refusal(topic.as_str(), count) {
        Some(refusal) if !allow_non_divisor => Err(TaskError::Count(refusal)),
        Some(_) | None => Ok(()),
    }
}

fn restore(
    setup: &TaskSetup,
    spec: PipelineSpec,
    store: &dyn TaskState,
    cell: &TaskCell,
) -> Result<Pipeline, TaskError> {
    let clocks = clocks_of(store.progress())?;
    let cold = Cold(store);
    let (mut pipeline, report) = Pipeline::restore(spec, &clocks, &cold)?;
    pipeline.judged_by(rules(&setup.subscription), fresh_history());
    pipeline.bound_parts(setup.limits.result_bytes);
    cell.enter(Step::Starting);
    let warmed = pipeline.warm(setup.limits.live_bytes / 2, &cold)?;
    tracing::info!(
        task = %cell.task(), slices = report.slices, panes_in_memory = warmed, "state restored"
    );
    for (window, slices) in &report.unknown_windows {
        tracing::warn!(
            task = %cell.task(), window, slices,
            "state of a window that the app no longer has is kept, untouched"
        );
    }
    Ok(pipeline)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valid counts and their neighbours, by trial division.
    #[test]
    fn every_count_up_to_a_thousand_is_judged_at_the_start_as_everywhere() {
        let topic: TopicName = "events".parse().unwrap();
        for count in (1..=1_001_u32).chain([1_920]) {
            let raw = RawPartitionCount::try_from(count).unwrap();
            assert!(carries(&topic, raw, true).is_ok(), "{count} was allowed");
            let judged = carries(&topic, raw, false);
            let valid = |near: &u32| 960 % near == 0;
            if valid(&count) {
                assert!(judged.is_ok(), "{count}");
                continue;
            }
            let below = (1..count.min(961)).rev().find(valid).unwrap();
            let nearest = match (count..=960).find(valid) {
                Some(above) => format!("counts are {below} and {above};"),
                None => format!("count is {below};"),
            };
            let begin = format!(
                "topic `events` has {count} partitions, which does not divide 960; the nearest valid {nearest}"
            );
            let refusal = judged.unwrap_err().to_string();
            assert!(refusal.starts_with(&begin), "{refusal}");
        }
    }
}
