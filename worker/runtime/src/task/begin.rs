//! The start of a task: gather what volume and broker know, decide, and build what runs.

use std::sync::PoisonError;

use turbine_crds::compiled::CompiledStart;
use turbine_crds::control::TaskState as Phase;
use turbine_engine::{Clocks, PaneOwners, Pipeline, PipelineSpec};
use turbine_kafka::{CommitOutcome, KafkaError, OutputProducer, PartitionReader};
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::start::{
    BrokerEvidence, Guarantee, Notice, PreparedFate, StartDecision, StartFrom, StartInputs,
    StartRefusal, StoreEvidence, decide,
};
use turbine_protocol::{CommittedReceipt, Offset, Position, TopicName, VolumeMarker};
use turbine_state::fault::{self, FaultPoint};
use turbine_state::{FoundStore, TaskState};

use super::cold::Cold;
use super::error::TaskError;
use super::life::{Life, Parts};
use super::placement::{count_changed, declared, placement};
use super::restore::restore as bring_back;
use super::rights::{check_rights, dead_letter_topic};
use super::setup::TaskSetup;
use super::spec::{SpecFault, pipeline_spec};
use crate::control::assignment::count_refusal;
use crate::control::metrics::TaskMetrics;
use crate::control::status::{Step, TaskCell};
use crate::decode::JsonDecoder;
use crate::sink::ResultEncoder;

/// Starts a task, up to the point where it can read its first record.
///
/// # Errors
/// If it must not or cannot run now.
pub(super) fn begin<'a>(
    setup: &'a TaskSetup,
    cell: &'a TaskCell,
    metrics: &'a TaskMetrics,
) -> Result<Life<'a>, TaskError> {
    cell.enter(Step::Starting);
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
    let (store, start, log_end) =
        find_state(setup, cell, metrics, &topic, || match &transactions {
            Some(transactions) => transactions.take_over(&producer, setup.limits.broker_wait),
            None => Ok(()),
        })?;

    let group = setup.group();
    let partition = setup.plan.task.partition;
    let reader =
        PartitionReader::open(&setup.kafka, &group, &topic, partition, start, setup.queues)?;
    let new = store.progress().number == turbine_protocol::EntryNumber::ZERO;
    if new || store.progress().cleanly_stopped {
        // A new store's first act: from here on a lost volume is noticed. One that was stopped in
        // order may have outlived its receipt, and must not commit more without one.
        let first = CommittedReceipt {
            offset: start,
            receipt: store.progress().receipt(store.identity()),
        };
        let wait = setup.limits.broker_wait;
        match &transactions {
            Some(transactions) => {
                transactions.begin(&producer)?;
                transactions.send_offset(&producer, &first, wait)?;
                match transactions.commit(&producer, wait) {
                    CommitOutcome::Committed => {}
                    CommitOutcome::Unknown(error) | CommitOutcome::Failed(error) => {
                        return Err(error.into());
                    }
                }
            }
            None => reader.commit(&first, wait)?,
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
    let pipeline = restore(setup, spec, &*store, cell)?;
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
            pipeline,
            owners,
            decoder,
            encoders,
            log_end,
        },
    ))
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
    let Ok(FoundStore::Ours(store)) = setup.volume.find(&setup.identity()) else {
        return;
    };
    if let Ok(clocks) = serde_json::from_slice::<Clocks>(&store.progress().clocks) {
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

/// Positions are of one topic: in another one they would pass over records that nobody has read.
fn of_topic(store: &dyn TaskState, topic: &TopicName) -> Result<(), TaskError> {
    match store
        .progress()
        .positions
        .iter()
        .find(|at| at.topic != *topic)
    {
        Some(other) => Err(TaskError::OtherTopic {
            found: other.topic.to_string(),
            expected: topic.to_string(),
        }),
        None => Ok(()),
    }
}

/// What the decision about the start looks at.
fn evidence(
    setup: &TaskSetup,
    topic: &TopicName,
    store: StoreEvidence,
) -> Result<StartInputs, TaskError> {
    let wait = setup.limits.broker_wait;
    let partition = setup.plan.task.partition;
    let committed = setup
        .admin
        .committed_at(&setup.group(), topic, partition, wait)?;
    Ok(StartInputs {
        assigned: setup.identity(),
        layout_epoch: setup.layout_epoch,
        on_foreign: setup.on_foreign,
        guarantee: setup.guarantee(),
        recovery: setup.recovery(),
        volume: setup.volume.marker()?,
        broker: BrokerEvidence::of(
            committed
                .as_ref()
                .map(|found| (found.offset, found.metadata.as_str())),
        ),
        log: setup.admin.watermarks(topic, partition, wait)?,
        start_from: match setup.subscription.start_from {
            CompiledStart::Earliest => StartFrom::Earliest,
            CompiledStart::Latest => StartFrom::Latest,
            CompiledStart::Timestamp(millis) => StartFrom::Timestamp {
                found: match store {
                    StoreEvidence::Absent => {
                        setup.admin.offset_at(topic, partition, millis, wait)?
                    }
                    StoreEvidence::Present(_) => None,
                },
            },
        },
        store,
    })
}

/// The task's state, where it reads on, and where the log ends now. `take_over` ends what other lives of this task may be
/// writing: after what must not run at all is refused, and before anything is decided.
fn find_state(
    setup: &TaskSetup,
    cell: &TaskCell,
    metrics: &TaskMetrics,
    topic: &TopicName,
    take_over: impl FnOnce() -> Result<(), KafkaError>,
) -> Result<(Box<dyn TaskState>, Offset, Offset), TaskError> {
    let partition = setup.plan.task.partition;
    let identity = setup.identity();
    let mut found = setup.volume.find(&identity)?;
    if matches!(found, FoundStore::Absent) && may_be_restored(setup, topic)? {
        mark(setup)?;
        if bring_back(setup, cell, metrics)?.is_some() {
            found = setup.volume.find(&identity)?;
        }
        cell.enter(Step::Starting);
    }
    if let FoundStore::Ours(store) = &found {
        of_topic(&**store, topic)?;
    }
    if setup.guarantee() == Guarantee::ExactlyOnce {
        // A worker with an old assignment, or another app of this name, must not fence the one that runs.
        match evidence(setup, topic, found.evidence()?) {
            Ok(inputs) => match decide(&inputs) {
                StartDecision::Refuse(refusal) => return Err(refusal.into()),
                StartDecision::Replay(older) | StartDecision::Accept(older) => {
                    return Err(older.refusal().into());
                }
                StartDecision::Resume { .. } | StartDecision::Fresh { .. } => {}
            },
            // What a dead life of ours left pending is ended by taking over.
            Err(TaskError::Kafka(KafkaError::TimedOut { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    take_over()?;
    let inputs = evidence(setup, topic, found.evidence()?)?;
    let log_end = inputs.log.end();
    let decision = decide(&inputs);
    tracing::info!(task = %cell.task(), ?decision, "start decided");
    match (decision, found) {
        (StartDecision::Refuse(refusal), _) => Err(refusal.into()),
        // Neither is carried out in this version.
        (StartDecision::Replay(older) | StartDecision::Accept(older), _) => {
            Err(older.refusal().into())
        }
        (
            StartDecision::Resume {
                offset,
                prepared,
                notice,
            },
            FoundStore::Ours(mut store),
        ) => {
            fault::pass(FaultPoint::InRecovery);
            match prepared {
                PreparedFate::None => {}
                PreparedFate::Apply => store.apply_prepared()?,
                PreparedFate::Cancel => store.cancel_prepared()?,
            }
            match notice {
                Some(Notice::OlderStore {
                    store: position,
                    receipt,
                }) => {
                    tracing::warn!(
                        task = %cell.task(), store = %position, %receipt,
                        "the store is older than the group's offset: an older copy of the volume or a checkpoint; \
                         results between the two are written a second time"
                    );
                    // What it commits now has numbers that were given before.
                    store.branch()?;
                }
                Some(Notice::ReceiptExpired) => tracing::warn!(
                    task = %cell.task(), %offset,
                    "the group's offset is gone; the store was stopped cleanly and goes on"
                ),
                None => {}
            }
            mark(setup)?;
            Ok((store, offset, log_end))
        }
        (StartDecision::Resume { offset, .. }, FoundStore::Absent | FoundStore::Other(_)) => {
            // The decision resumes only from the evidence of a store of ours.
            Err(turbine_state::StateError::Damaged {
                path: setup
                    .volume
                    .store_path(&setup.plan.task, setup.plan.store_epoch),
                detail: format!("it went away while the task started (at offset {offset})"),
            }
            .into())
        }
        (
            StartDecision::Fresh {
                offset,
                discard_store,
                ..
            },
            found,
        ) => {
            drop(found);
            mark(setup)?;
            if discard_store {
                let (task, epoch) = (&setup.plan.task, setup.plan.store_epoch);
                setup.checkpointer.discard(task, epoch)?;
                setup.volume.discard_store(task, epoch)?;
            }
            let at = Position {
                topic: topic.clone(),
                partition,
                next: offset,
            };
            let store = setup.volume.create_store(&identity, &[at])?;
            Ok((Box::new(store), offset, log_end))
        }
    }
}

/// Whether a checkpoint may take the place of a store that is not there. What must not run at all is refused before.
fn may_be_restored(setup: &TaskSetup, topic: &TopicName) -> Result<bool, TaskError> {
    match evidence(setup, topic, StoreEvidence::Absent) {
        Ok(inputs) => match decide(&inputs) {
            StartDecision::Refuse(StartRefusal::StateMissing { .. }) => Ok(true),
            StartDecision::Refuse(refusal) => Err(refusal.into()),
            StartDecision::Fresh { .. }
            | StartDecision::Resume { .. }
            | StartDecision::Replay(_)
            | StartDecision::Accept(_) => Ok(true),
        },
        // What a dead life of ours left pending is ended by taking over.
        Err(TaskError::Kafka(KafkaError::TimedOut { .. }))
            if setup.guarantee() == Guarantee::ExactlyOnce =>
        {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Raises the volume's marker to this layout, which the decision has found to be no older.
fn mark(setup: &TaskSetup) -> Result<(), TaskError> {
    let _held = setup.marking.lock().unwrap_or_else(PoisonError::into_inner);
    let ours = VolumeMarker {
        app_id: setup.app_id.clone(),
        lineage: setup.lineage,
        layout_epoch: setup.layout_epoch,
    };
    let raise = match setup.volume.marker()? {
        None => true,
        Some(found) if found.lineage == ours.lineage => found.layout_epoch < ours.layout_epoch,
        Some(_) => true,
    };
    if raise {
        setup.volume.mark(&ours)?;
    }
    Ok(())
}

fn restore(
    setup: &TaskSetup,
    spec: PipelineSpec,
    store: &dyn TaskState,
    cell: &TaskCell,
) -> Result<Pipeline, TaskError> {
    let stored = &store.progress().clocks;
    let clocks: Clocks = if stored.is_empty() {
        Clocks::default()
    } else {
        serde_json::from_slice(stored).map_err(|source| TaskError::Clocks {
            what: "read",
            source,
        })?
    };
    let cold = Cold(store);
    let (mut pipeline, report) = Pipeline::restore(spec, &clocks, &cold)?;
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
