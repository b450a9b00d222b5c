//! How a task starts: from what is on the volume and at the broker, to where it reads on, or why
//! it does not.

use crate::entry::EntryChecksum;
use crate::epochs::{EntryNumber, LayoutEpoch, Lineage};
use crate::identity::{Differences, StoreIdentity, VolumeMarker};
use crate::offset::{LogBounds, Offset};
use crate::receipt::{CommittedReceipt, History, NotAReceipt, Receipt};
pub use crate::refusal::{NotRecovered, StartRefusal, WithoutThem};

/// How often a record may count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// Outputs of the last interval may come again after a crash.
    AtLeastOnce,
    /// Outputs, state and offset count as one, once.
    ExactlyOnce,
}

/// What to do where the store is older than what was committed exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCrashRecovery {
    /// Read what lies between again, without output, so that state becomes what it was.
    #[default]
    Replay,
    /// Go on behind it, with state that lacks it.
    Accept,
    /// Stop.
    Stop,
}

/// How a task deals with a store that is older than what was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Exactly once only. At least once the store counts, and what lies between is written again.
    pub policy: OnCrashRecovery,
    /// Most offsets that may lie between, with either guarantee; none is no bound.
    pub halt_if_gap_exceeds: Option<u64>,
    /// The same records give the same state and results as when the store was written: built-in computations do, by the
    /// same rules. Nothing else is replayed.
    pub deterministic: bool,
    /// This process has run the task before. Whoever is ahead of its store has taken the task over and may be running it.
    pub has_run: bool,
}

/// What to do with state and offsets of another lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnForeign {
    /// Stop and say what was found.
    Refuse,
    /// Treat them as if they were not there: the owner asked for a start without them.
    Discard,
}

/// What to do where retention removed records that the task was to read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRetentionGap {
    /// Stop and say which.
    #[default]
    Stop,
    /// Go on at the first record that is still there, with state that lacks them.
    Accept,
}

/// Records that were to be read and are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first one.
    pub from: Offset,
    /// The one behind the last, which is there.
    pub to: Offset,
}

impl Gap {
    /// The offsets of it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.to.since(self.from)
    }
}

/// Where a task without state and without a committed offset begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFrom {
    /// The first record that is still there.
    Earliest,
    /// The end of the log as it is now.
    Latest,
    /// The first record of a time or later; `None` if there is none yet, which means the end.
    Timestamp {
        /// What the broker answered for the time.
        found: Option<Offset>,
    },
}

/// What the task's store on the volume says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreEvidence {
    /// There is no store in the task's place.
    Absent,
    /// There is one.
    Present(StoreProgress),
}

/// Which store was found and how far it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreProgress {
    /// What the store says it is.
    pub identity: StoreIdentity,
    /// Number of its last commit.
    pub number: EntryNumber,
    /// Checksum of its last commit.
    pub checksum: EntryChecksum,
    /// The offset of the own partition that it reads next.
    pub position: Offset,
    /// Its last commit was made exactly once: the broker had its receipt before the store let it count.
    pub by_transaction: bool,
    /// The task was stopped, and its last commit ended, with this number.
    pub cleanly_stopped: bool,
    /// The history of its state, if it says so.
    pub history: Option<History>,
    /// A commit that was prepared and of which the store does not know whether it counts. It has
    /// the next number.
    pub prepared: Option<Box<StoreProgress>>,
}

/// What the group's offset for the task's partition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokerEvidence {
    /// No offset is committed.
    Nothing,
    /// An offset is committed, with this metadata.
    Committed {
        /// The committed offset.
        offset: Offset,
        /// The receipt, or why the metadata is none.
        receipt: Result<Receipt, NotAReceipt>,
    },
}

impl BrokerEvidence {
    /// Reads what the broker returned for the group and partition.
    #[must_use]
    pub fn of(committed: Option<(Offset, &str)>) -> Self {
        match committed {
            None => Self::Nothing,
            Some((offset, metadata)) => Self::Committed {
                offset,
                receipt: metadata.parse(),
            },
        }
    }
}

/// All that the decision looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartInputs {
    /// The store that the assignment says this task has.
    pub assigned: StoreIdentity,
    /// The layout epoch of the assignment.
    pub layout_epoch: LayoutEpoch,
    /// What to do with another lineage's leavings.
    pub on_foreign: OnForeign,
    /// What the task promises.
    pub guarantee: Guarantee,
    /// What to do with a store that is older than what was committed.
    pub recovery: Recovery,
    /// What to do where records are gone that were not read.
    pub on_retention_gap: OnRetentionGap,
    /// What the volume says about itself; `None` if it was never used.
    pub volume: Option<VolumeMarker>,
    /// The task's store.
    pub store: StoreEvidence,
    /// The group's offset.
    pub broker: BrokerEvidence,
    /// The partition's log.
    pub log: LogBounds,
    /// Used only where neither state nor a committed offset exists.
    pub start_from: StartFrom,
}

/// Where the offset of a fresh start comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreshOrigin {
    /// The input's `startFrom`.
    StartFrom,
    /// An earlier start committed it and got no further.
    EarlierStart,
    /// Somebody committed it for this group, without a receipt.
    CommittedOffset,
}

/// Something worth telling about a resumed task; it does not stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The store lies behind the receipt: an older copy of the volume. State is rebuilt from the
    /// log; results between the two offsets are written a second time.
    OlderStore {
        /// Where the store stands.
        store: Offset,
        /// Where the receipt stands.
        receipt: Offset,
    },
    /// Somebody set the group's offset, and the store stands elsewhere. The store counts: the next commit overwrites it.
    OffsetOverwritten {
        /// Where the store stands.
        store: Offset,
        /// What was set.
        group: Offset,
    },
    /// The group's offset is gone, as after a suspension longer than it is kept. The store was stopped cleanly, so
    /// nothing of it is in doubt. Its receipt is committed anew before anything else.
    ReceiptExpired,
}

/// A store that is older than what was committed exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OlderStore {
    /// Last commit of the store.
    pub number: EntryNumber,
    /// Where it stands.
    pub position: Offset,
    /// The last commit, and where it stands: its number, checksum and frontier.
    pub committed: CommittedReceipt,
}

impl OlderStore {
    /// The offsets between.
    #[must_use]
    pub fn gap(&self) -> u64 {
        self.committed.offset.since(self.position)
    }

    /// What the store says of itself once it is recovered, with the state that belongs to it: from then on it agrees with
    /// the broker.
    #[must_use]
    pub fn settled(&self) -> Settled {
        Settled {
            number: self.committed.receipt.number,
            checksum: self.committed.receipt.checksum,
            position: self.committed.offset,
            by_transaction: true,
        }
    }

    /// Why a task stops in front of it.
    #[must_use]
    pub fn refusal(&self, why: NotRecovered) -> StartRefusal {
        StartRefusal::StoreBehind {
            store: self.number,
            store_offset: self.position,
            receipt: self.committed.receipt.number,
            receipt_offset: self.committed.offset,
            why,
        }
    }
}

/// Where a store stands that was recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Number of its last commit.
    pub number: EntryNumber,
    /// Checksum of its last commit.
    pub checksum: EntryChecksum,
    /// The offset of the own partition that it reads next.
    pub position: Offset,
    /// The broker has the receipt of it.
    pub by_transaction: bool,
}

/// What becomes of a prepared entry before the task reads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreparedFate {
    /// There is none.
    None,
    /// Its receipt was committed: it counts.
    Apply,
    /// Its receipt was not: it never counted, and its number is given anew. Cancel it durably
    /// before that.
    Cancel,
}

/// What a task does at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartDecision {
    /// Goes on with its store.
    Resume {
        /// Reads on from here.
        offset: Offset,
        /// What to do with a prepared entry first.
        prepared: PreparedFate,
        /// What to tell.
        notice: Option<Notice>,
        /// What the state lacks from here on. The store says so with the next commit: until then it stands in front of the
        /// gap, as the receipt does. What is committed behind it is of another history.
        gap: Option<Gap>,
    },
    /// Reads from the store's position up to the committed offset without any output, takes frontier and closed-to from
    /// the receipt, and drops without a word what they close. Then the store takes the receipt's number and checksum as
    /// one with that state, durably, before anything else is committed: it agrees with the broker again. Until then
    /// nothing is written to the broker, and a crash begins it anew. What an older copy of the store has in the journal, a
    /// prepared entry among it, is passed over from then on. Where the same records do not give what was committed it stops.
    Replay(OlderStore),
    /// Goes on from the committed offset with the state as it is, and says what is missing. The store takes the
    /// receipt's number and checksum as after a replay.
    Accept(OlderStore),
    /// Makes a new store.
    Fresh {
        /// Reads from here.
        offset: Offset,
        /// Why from here.
        origin: FreshOrigin,
        /// A store of another lineage lies in the place and is removed first.
        discard_store: bool,
        /// What the state lacks from the beginning.
        gap: Option<Gap>,
    },
    /// Does not start.
    Refuse(StartRefusal),
}

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
        Committed::Receipt(_, receipt) => {
            receipt.store_epoch == store.identity.store_epoch && receipt.number == prepared.number
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
        if receipt.number > store.number {
            if store.number == EntryNumber::ZERO {
                return Err(StartRefusal::StateMissing {
                    number: receipt.number,
                    offset: *offset,
                });
            }
            let older = OlderStore {
                number: store.number,
                position: store.position,
                committed: CommittedReceipt {
                    offset: *offset,
                    receipt: *receipt,
                },
            };
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
        if receipt.number == store.number
            && (receipt.checksum != store.checksum || *offset != store.position)
        {
            return Err(StartRefusal::OtherHistory {
                number: store.number,
                store: store.checksum,
                store_offset: store.position,
                receipt: receipt.checksum,
                receipt_offset: *offset,
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
