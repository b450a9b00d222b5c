//! How a task starts: from what is on the volume and at the broker, to where it reads on, or why
//! it does not.

use crate::epochs::{EntryNumber, LayoutEpoch, Lineage};
use crate::identity::{Differences, StoreIdentity, VolumeMarker};
use crate::offset::{LogBounds, Offset};
use crate::receipt::{CommittedReceipt, History, NotAReceipt, Receipt};
pub use crate::refusal::{NotRecovered, StartRefusal, WithoutThem};

mod decision;
mod inputs;

pub use decision::{FreshOrigin, Notice, OlderStore, PreparedFate, Settled, StartDecision};
pub use inputs::{
    BrokerEvidence, Gap, Guarantee, OnCrashRecovery, OnForeign, OnRetentionGap, Recovery,
    StartFrom, StartInputs, StoreEvidence, StoreProgress,
};

const VOLUME: &str = "the volume";
const STORE: &str = "the store";
const GROUP: &str = "the group's offset";

/// Decides how a task starts.
#[must_use]
pub fn decide(inputs: &StartInputs) -> StartDecision {
    match try_decide(inputs) {
        Ok(decision) => decision,
        Err(refusal) => StartDecision::Refuse(refusal),
    }
}

fn try_decide(inputs: &StartInputs) -> Result<StartDecision, StartRefusal> {
    if let Some(marker) = &inputs.volume {
        check_marker(
            &inputs.assigned,
            inputs.layout_epoch,
            inputs.on_foreign,
            marker,
        )?;
    }
    let broker = usable_broker(inputs)?;
    match usable_store(inputs)? {
        Usable::Here(store) => resume(inputs, store, &broker),
        Usable::Nothing { discard_store } => fresh(inputs, &broker, discard_store),
    }
}

fn lineage_counts(
    expected: Lineage,
    on_foreign: OnForeign,
    place: &'static str,
    found: Lineage,
) -> Result<bool, StartRefusal> {
    match on_foreign {
        _ if found == expected => Ok(true),
        OnForeign::Discard => Ok(false),
        OnForeign::Refuse => Err(StartRefusal::ForeignLineage {
            place,
            found,
            expected,
        }),
    }
}

fn check_epoch(
    assigned: LayoutEpoch,
    place: &'static str,
    found: LayoutEpoch,
) -> Result<(), StartRefusal> {
    if found > assigned {
        return Err(StartRefusal::OldAssignment {
            place,
            found,
            assigned,
        });
    }
    Ok(())
}

/// What the volume alone refuses, whatever the broker knows: part of [`decide`], and all that can be asked while no broker
/// answers.
///
/// # Errors
/// The volume is of another app, of another life of it, or of a newer layout.
pub fn check_marker(
    assigned: &StoreIdentity,
    layout_epoch: LayoutEpoch,
    on_foreign: OnForeign,
    marker: &VolumeMarker,
) -> Result<(), StartRefusal> {
    // Another app's state is never discarded: it is not this owner's to give away.
    if marker.app_id != assigned.app_id {
        return Err(StartRefusal::ForeignApp {
            found: marker.app_id.to_string(),
            expected: assigned.app_id.to_string(),
        });
    }
    if lineage_counts(assigned.lineage, on_foreign, VOLUME, marker.lineage)? {
        check_epoch(layout_epoch, VOLUME, marker.layout_epoch)?;
    }
    Ok(())
}

/// What of the group's offset this start may use.
enum Committed {
    Nothing,
    Offset(Offset),
    Receipt(Offset, Receipt),
}

fn usable_broker(inputs: &StartInputs) -> Result<Committed, StartRefusal> {
    match &inputs.broker {
        BrokerEvidence::Nothing => Ok(Committed::Nothing),
        BrokerEvidence::Committed { offset, receipt } => match receipt {
            Ok(receipt) => {
                if !lineage_counts(
                    inputs.assigned.lineage,
                    inputs.on_foreign,
                    GROUP,
                    receipt.lineage,
                )? {
                    return Ok(Committed::Nothing);
                }
                check_epoch(inputs.layout_epoch, GROUP, receipt.store_epoch.layout())?;
                Ok(Committed::Receipt(*offset, *receipt))
            }
            Err(NotAReceipt::Version(version)) => Err(StartRefusal::NewerReceipt {
                version: version.clone(),
            }),
            Err(NotAReceipt::Form(_)) => Ok(Committed::Offset(*offset)),
        },
    }
}

enum Usable<'a> {
    Here(&'a StoreProgress),
    Nothing { discard_store: bool },
}

fn usable_store(inputs: &StartInputs) -> Result<Usable<'_>, StartRefusal> {
    let StoreEvidence::Present(store) = &inputs.store else {
        return Ok(Usable::Nothing {
            discard_store: false,
        });
    };
    if store.identity.app_id == inputs.assigned.app_id
        && !lineage_counts(
            inputs.assigned.lineage,
            inputs.on_foreign,
            STORE,
            store.identity.lineage,
        )?
    {
        return Ok(Usable::Nothing {
            discard_store: true,
        });
    }
    let differences = store.identity.differences(&inputs.assigned);
    if differences.is_empty() {
        Ok(Usable::Here(store))
    } else {
        Err(StartRefusal::OtherStore {
            differences: Differences(differences),
        })
    }
}

fn resume(
    inputs: &StartInputs,
    store: &StoreProgress,
    broker: &Committed,
) -> Result<StartDecision, StartRefusal> {
    let mut notice = None;
    let exactly_once = inputs.guarantee == Guarantee::ExactlyOnce;
    let undecided = store.prepared.as_deref();
    let counts = undecided.filter(|prepared| match broker {
        Committed::Receipt(offset, receipt) => {
            let is_this = receipt.checksum == prepared.checksum && *offset == prepared.position;
            receipt.store_epoch == store.identity.store_epoch
                && receipt.number == prepared.number
                && (exactly_once || is_this)
        }
        Committed::Nothing | Committed::Offset(_) => false,
    });
    let (store, prepared) = match (counts, undecided) {
        (Some(counts), _) => (counts, PreparedFate::Apply),
        (None, Some(_)) => (store, PreparedFate::Cancel),
        (None, None) => (store, PreparedFate::None),
    };
    // Before anything is prepared a new store's first receipt is committed: without one nothing says what became of it.
    let last = undecided.unwrap_or(store);
    if exactly_once && last.number > EntryNumber::ZERO && !matches!(broker, Committed::Receipt(..))
    {
        let in_doubt = undecided.is_some() || !store.cleanly_stopped;
        // An offset without a receipt was set by somebody.
        if in_doubt || matches!(broker, Committed::Offset(_)) {
            return Err(StartRefusal::ReceiptMissing {
                number: last.number,
                position: store.position,
            });
        }
        notice = Some(Notice::ReceiptExpired);
    }
    if let Committed::Offset(group) = *broker
        && group != store.position
    {
        notice = Some(Notice::OffsetOverwritten {
            store: store.position,
            group,
        });
    }
    if let Committed::Receipt(offset, receipt) = broker
        && receipt.store_epoch == store.identity.store_epoch
    {
        let older = OlderStore {
            number: store.number,
            position: store.position,
            committed: CommittedReceipt {
                offset: *offset,
                receipt: *receipt,
            },
        };
        if receipt.number > store.number {
            if store.number == EntryNumber::ZERO {
                return Err(StartRefusal::StateMissing {
                    number: receipt.number,
                    offset: *offset,
                });
            }
            if exactly_once {
                return recover(inputs, older, store.history);
            }
            within_bound(inputs.recovery, &older)?;
            notice = Some(Notice::OlderStore {
                store: store.position,
                receipt: *offset,
            });
        }
        // At least once, the group's offset follows the state and may be behind it. Exactly once it never is, and in no
        // history does a smaller number reach further.
        let behind = receipt.number < store.number;
        if exactly_once && behind && (store.by_transaction || *offset > store.position) {
            return Err(StartRefusal::ReceiptBehind {
                store: store.number,
                store_offset: store.position,
                receipt: receipt.number,
                receipt_offset: *offset,
            });
        }
        if behind && *offset <= store.position {
            notice = Some(Notice::ReceiptLags {
                store: store.position,
                receipt: *offset,
            });
        }
        if receipt.number == store.number
            && (receipt.checksum != store.checksum || *offset != store.position)
        {
            if exactly_once {
                return Err(StartRefusal::OtherHistory {
                    number: store.number,
                    store: store.checksum,
                    store_offset: store.position,
                    receipt: receipt.checksum,
                    receipt_offset: *offset,
                });
            }
            if *offset > store.position {
                within_bound(inputs.recovery, &older)?;
            }
            notice = Some(Notice::OtherHistory {
                store: store.position,
                receipt: *offset,
            });
        }
    }
    let (offset, gap) = onward(inputs, STORE, store.position)?;
    Ok(StartDecision::Resume {
        offset,
        prepared,
        notice,
        gap,
    })
}

/// How a task goes on from a store that is older than what was committed exactly once.
fn recover(
    inputs: &StartInputs,
    older: OlderStore,
    history: Option<History>,
) -> Result<StartDecision, StartRefusal> {
    let stops = |why| Err(older.refusal(why));
    // More commits that reach less far are of another history.
    if older.committed.offset < older.position {
        return stops(NotRecovered::OtherHistory);
    }
    if inputs.recovery.has_run {
        return stops(NotRecovered::Overtaken);
    }
    match inputs.recovery.policy {
        OnCrashRecovery::Replay => {
            within_bound(inputs.recovery, &older)?;
            if !inputs.recovery.deterministic {
                return stops(NotRecovered::OtherRules);
            }
            match (older.committed.receipt.retrace, history) {
                (Some(retrace), Some(history)) if retrace.history == history => {}
                (None, _) => return stops(NotRecovered::NotSaid),
                (Some(_), _) => return stops(NotRecovered::OtherHistory),
            }
            let way = WithoutThem::OnCrashRecovery;
            within(inputs.log, STORE, older.position, way)?;
            within(inputs.log, GROUP, older.committed.offset, way)?;
            Ok(StartDecision::Replay(older))
        }
        OnCrashRecovery::Accept => {
            within_bound(inputs.recovery, &older)?;
            within(
                inputs.log,
                GROUP,
                older.committed.offset,
                WithoutThem::Fresh,
            )?;
            Ok(StartDecision::Accept(older))
        }
        OnCrashRecovery::Stop => stops(NotRecovered::Asked),
    }
}

fn within_bound(recovery: Recovery, older: &OlderStore) -> Result<(), StartRefusal> {
    match recovery.halt_if_gap_exceeds {
        Some(bound) if older.gap() > bound => Err(StartRefusal::GapExceeds {
            store_offset: older.position,
            receipt_offset: older.committed.offset,
            gap: older.gap(),
            bound,
        }),
        Some(_) | None => Ok(()),
    }
}

fn fresh(
    inputs: &StartInputs,
    broker: &Committed,
    discard_store: bool,
) -> Result<StartDecision, StartRefusal> {
    let ((offset, gap), origin) = match broker {
        Committed::Receipt(offset, receipt) if receipt.number > EntryNumber::ZERO => {
            return Err(StartRefusal::StateMissing {
                number: receipt.number,
                offset: *offset,
            });
        }
        Committed::Receipt(offset, _) => {
            (onward(inputs, GROUP, *offset)?, FreshOrigin::EarlierStart)
        }
        Committed::Offset(offset) => (
            onward(inputs, GROUP, *offset)?,
            FreshOrigin::CommittedOffset,
        ),
        Committed::Nothing => ((from_policy(inputs), None), FreshOrigin::StartFrom),
    };
    Ok(StartDecision::Fresh {
        offset,
        origin,
        discard_store,
        gap,
    })
}

fn from_policy(inputs: &StartInputs) -> Offset {
    match inputs.start_from {
        StartFrom::Earliest => inputs.log.start(),
        StartFrom::Latest => inputs.log.end(),
        StartFrom::Timestamp { found } => found
            .unwrap_or(inputs.log.end())
            .clamp(inputs.log.start(), inputs.log.end()),
    }
}

/// Where the task reads on that stands here, and what it lacks then.
fn onward(
    inputs: &StartInputs,
    place: &'static str,
    position: Offset,
) -> Result<(Offset, Option<Gap>), StartRefusal> {
    let (log, from) = (inputs.log, position);
    match inputs.on_retention_gap {
        OnRetentionGap::Accept if position < log.start() => {
            let to = log.start();
            Ok((to, Some(Gap { from, to })))
        }
        OnRetentionGap::Accept | OnRetentionGap::Stop => {
            within(log, place, position, WithoutThem::OnRetentionGap)?;
            Ok((position, None))
        }
    }
}

fn within(
    log: LogBounds,
    place: &'static str,
    position: Offset,
    way: WithoutThem,
) -> Result<(), StartRefusal> {
    if position < log.start() {
        return Err(StartRefusal::RetentionGap {
            from: position,
            last: log.start().get() - 1,
            count: log.start().since(position),
            way,
        });
    }
    if position > log.end() {
        return Err(StartRefusal::BeyondEnd {
            place,
            position,
            end: log.end(),
        });
    }
    Ok(())
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
