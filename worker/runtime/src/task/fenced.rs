//! What a fenced task says of the one that has its transactional id now.

use std::time::Duration;

use turbine_kafka::{CommittedOffset, KafkaError};
use turbine_protocol::TopicName;
use turbine_protocol::holder::{OwnCommits, holder};
use turbine_protocol::start::BrokerEvidence;
use turbine_state::{FoundStore, Progress, TaskState as _};

use super::error::TaskError;
use super::setup::TaskSetup;
use super::thread::end_if_unsynced;
use crate::control::status::TaskCell;

/// The task is over whatever the answer is, so it is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The fault of a fenced task with what is known of the id's holder; any other fault as it is. The broker is only asked: whoever
/// took the id back to find out would fence the other one.
pub(super) fn told(setup: &TaskSetup, cell: &TaskCell, error: TaskError) -> TaskError {
    match error {
        TaskError::Kafka(error @ KafkaError::Fenced { .. }) => TaskError::Fenced {
            holder: match newest(setup) {
                Ok(found) => holder(
                    &own(setup, cell),
                    &BrokerEvidence::of(
                        found
                            .as_ref()
                            .map(|found| (found.offset, found.metadata.as_str())),
                    ),
                ),
                Err(error) => format!(
                    "who has it is not known, since the newest commit could not be read: {error}"
                ),
            },
            error,
        },
        other => other,
    }
}

fn newest(setup: &TaskSetup) -> Result<Option<CommittedOffset>, TaskError> {
    let topic: TopicName = setup.subscription.topic.parse()?;
    Ok(setup.admin.committed_at(
        &setup.group(),
        &topic,
        setup.plan.task.partition,
        setup.limits.broker_wait.min(PATIENCE),
    )?)
}

/// What the task's own store says that it has committed.
fn own(setup: &TaskSetup, cell: &TaskCell) -> OwnCommits {
    let mut own = OwnCommits {
        lineage: setup.lineage,
        store_epoch: setup.plan.store_epoch,
        last: None,
        prepared: None,
    };
    match setup.volume.find(&setup.identity()) {
        Ok(FoundStore::Ours(store)) => {
            let receipt = |of: &Progress| of.receipt(store.identity());
            own.last = Some(receipt(store.progress()));
            own.prepared = store.prepared().map(receipt);
        }
        Ok(FoundStore::Absent | FoundStore::Other(_)) => {}
        // Told when the halted task lets the journal go; only this one must not be passed over.
        Err(error) => end_if_unsynced(cell, &error.into()),
    }
    own
}
