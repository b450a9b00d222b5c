//! What a task's clocks say beyond the engine: by which rules its rows are judged, and how a receipt's state is come to again.

use serde_json::{Value, json};
use turbine_crds::app::OnError;
use turbine_crds::compiled::CompiledSubscription;
use turbine_engine::{Clocks, HandingOut};
use turbine_protocol::{Frontier, HandedOut, History, Receipt, Retrace, StoreIdentity};
use turbine_state::Progress;

use super::error::TaskError;

/// The clocks that belong to a progress.
///
/// # Errors
/// If they do not read.
pub(crate) fn clocks_of(progress: &Progress) -> Result<Clocks, TaskError> {
    if progress.clocks.is_empty() {
        return Ok(Clocks::default());
    }
    serde_json::from_slice(&progress.clocks).map_err(|source| TaskError::Clocks {
        what: "read",
        source,
    })
}

/// The clocks as they are stored.
///
/// # Errors
/// Never in practice: they are plain values.
pub(crate) fn stored(clocks: &Clocks) -> Result<Vec<u8>, TaskError> {
    serde_json::to_vec(clocks).map_err(|source| TaskError::Clocks {
        what: "written",
        source,
    })
}

/// The receipt that stands for a progress at the broker.
///
/// # Errors
/// If the clocks do not read.
pub(crate) fn receipt_of(
    progress: &Progress,
    identity: &StoreIdentity,
) -> Result<Receipt, TaskError> {
    Ok(Receipt {
        retrace: retrace(&clocks_of(progress)?),
        ..progress.receipt(identity)
    })
}

/// A number that no other history has.
pub(crate) fn fresh_history() -> u64 {
    rand::random_range(1..=u64::MAX)
}

/// The history of a state, if it says one.
pub(crate) fn history_of(clocks: &Clocks) -> Option<History> {
    let history = clocks.trail.history;
    (history != 0).then_some(History(history))
}

fn retrace(clocks: &Clocks) -> Option<Retrace> {
    let closed = match clocks.handing_out {
        None => HandedOut::All,
        Some(HandingOut { due, panes }) => HandedOut::Part {
            due: Frontier(due),
            panes: panes?,
        },
    };
    Some(Retrace {
        history: history_of(clocks)?,
        rows: clocks.trail.rows,
        closed,
    })
}

/// The engine's form of what a receipt says was handed out.
pub(crate) fn handed_out(closed: HandedOut) -> Option<HandingOut> {
    match closed {
        HandedOut::All => None,
        HandedOut::Part { due, panes } => Some(HandingOut {
            due: due.0,
            panes: Some(panes),
        }),
    }
}

/// Stands for everything in a subscription that decides what becomes of a record, and for nothing else.
pub(crate) fn rules(of: &CompiledSubscription) -> u32 {
    let rules: Value = json!({
        "columns": of.columns,
        "eventTime": of.event_time,
        "outOfOrdernessMs": of.out_of_orderness_ms,
        // Whether a bad record is dropped or kept elsewhere makes no difference to state.
        "stopsAtBadRecords": of.on_error == OnError::Fail,
        "idlePolicy": of.idle_policy,
        "partitionKey": of.partition_key,
        "partitionHash": of.partition_hash,
        "onNullKey": of.on_null_key,
        "windows": of.windows,
    });
    crc32c::crc32c(rules.to_string().as_bytes())
}
