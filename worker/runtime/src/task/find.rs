//! Where a task begins: what volume and broker know, and what is decided by that.

use std::sync::PoisonError;

use turbine_crds::compiled::CompiledStart;
use turbine_kafka::KafkaError;
use turbine_protocol::start::{
    BrokerEvidence, Gap, Guarantee, Notice, OlderStore, PreparedFate, Recovery, StartDecision,
    StartFrom, StartInputs, StartRefusal, StoreEvidence, check_marker, decide,
};
use turbine_protocol::{Offset, Position, TopicName, VolumeMarker};
use turbine_state::fault::{self, FaultPoint};
use turbine_state::{FoundStore, TaskState};

use super::error::TaskError;
use super::receipt::{clocks_of, history_of};
use super::recover::Recovery as Recovering;
use super::restore::restore as bring_back;
use super::setup::TaskSetup;
use crate::control::metrics::TaskMetrics;
use crate::control::status::{Step, TaskCell};

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
    (store, recovery): (StoreEvidence, Recovery),
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
        recovery,
        on_retention_gap: setup.on_retention_gap(),
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

/// What the store says, and what may be done with it if it is older than what was committed.
fn told(
    setup: &TaskSetup,
    found: &FoundStore,
    has_run: bool,
) -> Result<(StoreEvidence, Recovery), TaskError> {
    let mut evidence = found.evidence()?;
    let mut written_by = None;
    if let (StoreEvidence::Present(said), FoundStore::Ours(store)) = (&mut evidence, found) {
        let clocks = clocks_of(store.progress())?;
        said.history = history_of(&clocks);
        written_by = Some(clocks.trail.rules);
    }
    Ok((evidence, setup.recovery(written_by, has_run)))
}

/// What a start found and decided.
pub(super) struct Found {
    pub(super) store: Box<dyn TaskState>,
    /// Reads from here.
    pub(super) start: Offset,
    /// Where the log ends now.
    pub(super) log_end: Offset,
    /// What is to be done with the store first.
    pub(super) recovery: Option<Recovering>,
    /// What it commits is not what the log gives from what was committed before, or has numbers that were given before.
    pub(super) branched: bool,
    /// The group's offset does not say where the store stands.
    pub(super) receipt_lags: bool,
    /// What it goes on without.
    pub(super) gap: Option<Gap>,
}

/// The task's state, where it reads on, and where the log ends now. `take_over` ends what other lives of this task may be
/// writing: after what must not run at all is refused, and before anything is decided.
pub(super) fn find_state(
    setup: &TaskSetup,
    cell: &TaskCell,
    metrics: &TaskMetrics,
    topic: &TopicName,
    has_run: bool,
    take_over: impl FnOnce() -> Result<(), KafkaError>,
) -> Result<Found, TaskError> {
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
        match evidence(setup, topic, told(setup, &found, has_run)?) {
            Ok(inputs) => match decide(&inputs) {
                StartDecision::Refuse(refusal) => return Err(refusal.into()),
                StartDecision::Replay(_)
                | StartDecision::Accept(_)
                | StartDecision::Resume { .. }
                | StartDecision::Fresh { .. } => {}
            },
            // Waiting for an answer would be waiting for the transaction's time-out.
            Err(TaskError::Kafka(error)) if error.ends_by_take_over() => check_volume(setup)?,
            Err(error) => return Err(error),
        }
    }
    take_over()?;
    let inputs = evidence(setup, topic, told(setup, &found, has_run)?)?;
    let log_end = inputs.log.end();
    let decision = decide(&inputs);
    tracing::info!(task = %cell.task(), ?decision, "start decided");
    let begun = |store: Box<dyn TaskState>, start| Found {
        store,
        start,
        log_end,
        recovery: None,
        branched: false,
        receipt_lags: false,
        gap: None,
    };
    match (decision, found) {
        (StartDecision::Refuse(refusal), _) => Err(refusal.into()),
        (StartDecision::Replay(older), FoundStore::Ours(store)) => {
            mark(setup)?;
            Ok(Found {
                recovery: Some(Recovering::Replay(older)),
                ..begun(store, older.position)
            })
        }
        (StartDecision::Accept(older), FoundStore::Ours(store)) => {
            mark(setup)?;
            Ok(Found {
                recovery: Some(Recovering::Accept(older)),
                ..begun(store, older.committed.offset)
            })
        }
        (
            StartDecision::Resume {
                offset,
                prepared,
                notice,
                gap,
            },
            FoundStore::Ours(mut store),
        ) => {
            fault::pass(FaultPoint::InRecovery);
            match prepared {
                PreparedFate::None => {}
                PreparedFate::Apply => store.apply_prepared()?,
                PreparedFate::Cancel => store.cancel_prepared()?,
            }
            let mut branched = gap.is_some();
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
                    branched = true;
                }
                Some(Notice::OtherHistory {
                    store: position,
                    receipt,
                }) => {
                    tracing::warn!(
                        task = %cell.task(), store = %position, %receipt,
                        "the last commit of the store has the number of another one: an older copy of the volume has gone on; \
                         the store counts, and results between the two are written a second time"
                    );
                    store.branch()?;
                    branched = true;
                }
                Some(Notice::OffsetOverwritten {
                    store: position,
                    group,
                }) => tracing::warn!(
                    task = %cell.task(), store = %position, %group,
                    "somebody set the group's offset, and the store stands elsewhere: the store counts, and its next commit \
                     overwrites what was set"
                ),
                Some(Notice::ReceiptLags {
                    store: position,
                    receipt,
                }) => tracing::info!(
                    task = %cell.task(), store = %position, %receipt,
                    "the group's offset is behind the state, as a crash in a commit leaves it; it is committed now"
                ),
                Some(Notice::ReceiptExpired) => tracing::warn!(
                    task = %cell.task(), %offset,
                    "the group's offset is gone; the store was stopped cleanly and goes on"
                ),
                None => {}
            }
            mark(setup)?;
            Ok(Found {
                branched,
                receipt_lags: matches!(notice, Some(Notice::ReceiptLags { .. })),
                gap,
                ..begun(store, offset)
            })
        }
        (
            StartDecision::Resume { offset, .. }
            | StartDecision::Replay(OlderStore {
                position: offset, ..
            })
            | StartDecision::Accept(OlderStore {
                position: offset, ..
            }),
            FoundStore::Absent | FoundStore::Other(_),
        ) => {
            // The decision goes on only from the evidence of a store of ours.
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
                gap,
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
                // In front of what retention took: a start that ends before its first commit finds the gap again.
                next: gap.map_or(offset, |gap| gap.from),
            };
            let store = setup.volume.create_store(&identity, &[at])?;
            Ok(Found {
                gap,
                ..begun(Box::new(store), offset)
            })
        }
    }
}

/// What can be refused without the broker.
fn check_volume(setup: &TaskSetup) -> Result<(), TaskError> {
    if let Some(marker) = setup.volume.marker()? {
        let assigned = setup.identity();
        check_marker(&assigned, setup.layout_epoch, setup.on_foreign, &marker)?;
    }
    Ok(())
}

/// Whether a checkpoint may take the place of a store that is not there. What must not run at all is refused before.
fn may_be_restored(setup: &TaskSetup, topic: &TopicName) -> Result<bool, TaskError> {
    let absent = (StoreEvidence::Absent, setup.recovery(None, false));
    match evidence(setup, topic, absent) {
        Ok(inputs) => match decide(&inputs) {
            StartDecision::Refuse(StartRefusal::StateMissing { .. }) => Ok(true),
            StartDecision::Refuse(refusal) => Err(refusal.into()),
            StartDecision::Fresh { .. }
            | StartDecision::Resume { .. }
            | StartDecision::Replay(_)
            | StartDecision::Accept(_) => Ok(true),
        },
        Err(TaskError::Kafka(error))
            if error.ends_by_take_over() && setup.guarantee() == Guarantee::ExactlyOnce =>
        {
            check_volume(setup).map(|()| true)
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
