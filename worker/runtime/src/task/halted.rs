//! What a halted task leaves: nothing that is in doubt, and nothing that only the journal has.

use turbine_protocol::{Fault as _, TopicName};
use turbine_state::{FoundStore, TaskState as _};

use super::begin::{commit_alone, last_receipt};
use super::error::TaskError;
use super::find::{Found, find_state};
use super::setup::TaskSetup;
use super::thread::{caught, end_if_unsynced};
use crate::control::metrics::TaskMetrics;
use crate::control::status::TaskCell;

/// Stops a halted task in order, as one that was told to stop: it may stand for longer than the broker keeps offsets, and its
/// last commit must not be in doubt then. `has_run`: this process has run the task.
///
/// # Errors
/// If nobody can say what counts of the last commit, or the receipt cannot be committed anew.
pub(super) fn settle(
    setup: &TaskSetup,
    cell: &TaskCell,
    metrics: &TaskMetrics,
    has_run: bool,
) -> Result<(), TaskError> {
    caught(|| stop_in_order(setup, cell, metrics, has_run)).inspect_err(|error| {
        end_if_unsynced(cell, error);
        tracing::warn!(
            task = %cell.task(), %error, category = %error.category(), reason = error.reason(),
            "the halted task could not be stopped in order: if it stands for longer than the broker keeps offsets, its next start \
             asks what became of them"
        );
    })
}

/// What the ended life had in memory is ahead of its last commit, so the store is opened anew; and whether its last commit was
/// carried out is for the receipt to say, once nobody can carry it out any more. So this is a start, up to where it would read.
fn stop_in_order(
    setup: &TaskSetup,
    cell: &TaskCell,
    metrics: &TaskMetrics,
    has_run: bool,
) -> Result<(), TaskError> {
    let FoundStore::Ours(store) = setup.volume.find(&setup.identity())? else {
        return Ok(());
    };
    if store.progress().cleanly_stopped {
        return Ok(());
    }
    let topic: TopicName = setup.subscription.topic.parse()?;
    let Some(transactions) = setup.transactions(&topic) else {
        // What lies there counts, whatever the broker knows of it.
        return Ok(store.close()?);
    };
    drop(store);
    let producer = transactions.producer(&setup.kafka, setup.queues)?;
    let Found {
        store,
        start,
        recovery,
        ..
    } = find_state(setup, cell, metrics, &topic, has_run, || {
        transactions.take_over(&producer, setup.limits.broker_wait)
    })?;
    if recovery.is_some() {
        // It is not what was committed; the next start brings it there.
        return Ok(());
    }
    let last = last_receipt(setup, &*store, start)?;
    commit_alone(setup, &transactions, &producer, &last)?;
    store.close()?;
    tracing::info!(
        task = %cell.task(), offset = %last.offset, entry = %last.receipt.number,
        "nothing of the halted task is in doubt: it was stopped in order"
    );
    Ok(())
}

/// Nobody is left to save this task's state: what only the journal has of it goes to its files, as whenever a store is opened.
/// Else its last entries would keep the journal of all other tasks until the volume is full. What is prepared and undecided
/// stays.
pub(super) fn let_journal_go(setup: &TaskSetup, cell: &TaskCell) {
    // What halted the task may be a panic in the opening of its store.
    let opened = caught(|| Ok(setup.volume.find(&setup.identity())?));
    let Err(error) = opened else {
        return;
    };
    end_if_unsynced(cell, &error);
    tracing::warn!(
        task = %cell.task(), %error, category = %error.category(), reason = error.reason(),
        "the journal keeps what it has of this halted task"
    );
}
