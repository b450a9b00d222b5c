//! State from a checkpoint, where the volume has none or a damaged one.

use turbine_crds::control::TaskState as Phase;
use turbine_protocol::Fault as _;
use turbine_protocol::start::OnForeign;
use turbine_state::RestoredStore;
use turbine_state::checkpoint::{Bytes, CheckpointError};

use super::error::TaskError;
use super::setup::TaskSetup;
use crate::control::metrics::TaskMetrics;
use crate::control::status::{Step, TaskCell};

/// Brings the task's store back from its newest intact checkpoint; `None` if there never was one.
///
/// # Errors
/// If there are checkpoints and none can be taken, or nobody can say whether there are.
pub(super) fn restore(
    setup: &TaskSetup,
    cell: &TaskCell,
    metrics: &TaskMetrics,
) -> Result<Option<RestoredStore>, TaskError> {
    cell.set_state(Phase::Restoring, None);
    cell.enter(Step::Restoring);
    let mut shown = Bytes::default();
    let restored = setup
        .volume
        .restore_store(&setup.identity(), &setup.checkpointer, |bytes| {
            // Only what moves is alive.
            if bytes != shown {
                shown = bytes;
                let percent = percent(bytes);
                metrics.checkpoint_restored.set(percent.into());
                cell.update(|status| status.restored_percent = Some(percent));
            }
        });
    cell.update(|status| status.restored_percent = None);
    let restored = match restored {
        Ok(restored) => restored,
        Err(others) if setup.on_foreign == OnForeign::Discard && others.found_only_others() => {
            // The owner asked for a start without what an earlier life of the app left.
            let plan = &setup.plan;
            setup.checkpointer.discard(&plan.task, plan.store_epoch)?;
            None
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(restored) = &restored {
        let manifest = &restored.checkpoint.manifest;
        for refused in &restored.checkpoint.refused {
            tracing::warn!(task = %cell.task(), %refused, "a newer checkpoint cannot be taken");
        }
        tracing::warn!(
            task = %cell.task(), number = %manifest.sequence, entry = %manifest.entry,
            made_at_ms = manifest.made_at_ms, bytes = manifest.bytes(),
            up_to_date = restored.up_to_date,
            "the store was brought back from a checkpoint; up to date if the journal has what came after"
        );
        metrics.checkpoint_restores.inc();
        metrics.checkpoint_restored.set(100);
    }
    Ok(restored)
}

/// Whole only when all is there.
fn percent(bytes: Bytes) -> u8 {
    let done = u128::from(bytes.done) * 100;
    let percent = done.checked_div(u128::from(bytes.total)).unwrap_or(0);
    u8::try_from(percent.min(100)).unwrap_or(100)
}

/// What to do about a fault by which a life ended.
#[derive(Debug)]
pub(super) enum Rescue {
    /// What the fault asks for.
    None(TaskError),
    /// The damaged store was replaced by its checkpoint.
    Replaced,
}

/// Puts the newest intact checkpoint in the place of a store that was found damaged, and moves that one aside. Without a
/// checkpoint it stays where it is.
pub(super) fn rescue(
    setup: &TaskSetup,
    cell: &TaskCell,
    metrics: &TaskMetrics,
    error: TaskError,
) -> Rescue {
    let plan = &setup.plan;
    let store = setup.volume.store_path(&plan.task, plan.store_epoch);
    if !error
        .damage()
        .is_some_and(|damaged| damaged.starts_with(&store))
    {
        return Rescue::None(error);
    }
    tracing::error!(
        task = %cell.task(), %error, category = %error.category(), reason = error.reason(),
        "the store is damaged; a checkpoint is looked for"
    );
    match restore(setup, cell, metrics) {
        Ok(Some(RestoredStore { moved_to, .. })) => {
            metrics.damaged_stores.inc();
            if let Some(moved_to) = moved_to {
                tracing::warn!(
                    task = %cell.task(), kept = %moved_to.display(),
                    "the damaged store was moved aside; delete it when nobody wants to look at it"
                );
            }
            Rescue::Replaced
        }
        Ok(None) => Rescue::None(error),
        // Whether there is a checkpoint shows when its place can be reached.
        Err(second) if second.passes_by_itself() => Rescue::None(second),
        Err(second) => {
            tracing::error!(
                task = %cell.task(), error = %second, category = %second.category(),
                "and no checkpoint can be taken"
            );
            Rescue::None(error)
        }
    }
}

impl From<CheckpointError> for TaskError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Local(error) => Self::State(error),
            other => Self::Checkpoint(other),
        }
    }
}
