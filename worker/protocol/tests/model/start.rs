//! The start of a life, with the production decision.

use turbine_protocol::journal::RecordKind;
use turbine_protocol::start::{
    BrokerEvidence, Guarantee, OnCrashRecovery, OnForeign, OnRetentionGap, PreparedFate, Recovery,
    StartDecision, StartFrom, StartInputs, StartRefusal, StoreEvidence, StoreProgress, decide,
};
use turbine_protocol::{CommittedReceipt, Fault, History, LayoutEpoch, LogBounds};

use crate::guard::Broken;
use crate::names::{identity, marker};
use crate::volume::{
    Files, Found, Interval, Reach, State, Volume, key_of, numbered, receipt, state_of,
};
use crate::world::{Node, Phase, Recovery as Recovering, Run, World, at, fresh};

fn progress(
    epoch: u8,
    reach: Reach,
    history: History,
    prepared: Option<Interval>,
) -> StoreProgress {
    StoreProgress {
        identity: identity(epoch),
        number: numbered(reach.number),
        checksum: reach.checksum,
        position: at(reach.position),
        by_transaction: reach.by_transaction,
        cleanly_stopped: false,
        history: Some(history),
        prepared: prepared.map(|of| Box::new(progress(of.epoch, of.reach, history, None))),
    }
}

/// What a start looks at and does.
pub(crate) struct Starter {
    pub(crate) guarantee: Guarantee,
    pub(crate) broken: Option<Broken>,
    pub(crate) end: u8,
    pub(crate) recovery: [OnCrashRecovery; 2],
    pub(crate) bound: Option<u64>,
}

impl Starter {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// What the start goes by. Where the committed receipt has the number of something in the store, a broken start takes it
    /// for that.
    fn told(
        &self,
        epoch: u8,
        found: Option<&Found>,
        committed: Option<CommittedReceipt>,
    ) -> Option<CommittedReceipt> {
        let files = found.map(|found| found.files);
        let mut told = match (committed, files) {
            (None, Some(files)) if self.is(Broken::NoReceiptNeeded) => CommittedReceipt {
                offset: at(files.reach.position),
                receipt: receipt(epoch, files.reach, files.history()),
            },
            (committed, _) => committed?,
        };
        let reaches = found.iter().flat_map(|found| {
            let prepared = found.prepared.map(|of| of.reach);
            prepared.into_iter().chain([found.files.reach])
        });
        for reach in reaches.filter(|reach| numbered(reach.number) == told.receipt.number) {
            if self.is(Broken::ReceiptByNumber) {
                told.receipt.checksum = reach.checksum;
                told.offset = at(reach.position);
            } else if self.is(Broken::OffsetNotCompared) {
                told.offset = at(reach.position);
            }
        }
        Some(told)
    }

    fn decide(
        &self,
        slot: usize,
        node: &Node,
        found: Option<&Found>,
        committed: Option<CommittedReceipt>,
    ) -> StartDecision {
        let epoch = epoch_of(node.layout);
        let told = self.told(epoch, found, committed);
        let assigned: LayoutEpoch = i64::from(node.layout).try_into().unwrap();
        let newest = told.map_or(assigned, |told| told.receipt.store_epoch.layout());
        let text = told.map(|told| (told.offset, told.receipt.to_string()));
        let decision = decide(&StartInputs {
            assigned: identity(epoch),
            layout_epoch: if self.is(Broken::OldAssignmentRuns) {
                assigned.max(newest)
            } else {
                assigned
            },
            on_foreign: OnForeign::Refuse,
            guarantee: self.guarantee,
            recovery: Recovery {
                policy: self.recovery[slot],
                halt_if_gap_exceeds: self.bound.filter(|_| !self.is(Broken::GapNotBounded)),
                deterministic: true,
                has_run: node.has_run && !self.is(Broken::OvertakenForgotten),
            },
            on_retention_gap: OnRetentionGap::Stop,
            volume: node.volume.as_ref().map(|volume| marker(volume.marker)),
            store: found.map_or(StoreEvidence::Absent, |found| {
                let Found { files, prepared } = *found;
                let history = match told.and_then(|told| told.receipt.retrace) {
                    Some(retrace) if self.is(Broken::HistoryNotCompared) => retrace.history,
                    _ => files.history(),
                };
                StoreEvidence::Present(progress(epoch, files.reach, history, prepared))
            }),
            broker: BrokerEvidence::of(text.as_ref().map(|(offset, text)| (*offset, &**text))),
            log: LogBounds::new(at(0), at(self.end)).unwrap(),
            start_from: StartFrom::Earliest,
        });
        let prepared = found.and_then(|found| found.prepared);
        match (decision, prepared) {
            (_, Some(of)) if self.is(Broken::DoneWithoutReceipt) => StartDecision::Resume {
                offset: at(of.reach.position),
                prepared: PreparedFate::Apply,
                notice: None,
                gap: None,
            },
            (StartDecision::Refuse(StartRefusal::StateMissing { offset, .. }), _)
                if self.is(Broken::EmptyForLost) =>
            {
                StartDecision::Fresh {
                    offset,
                    origin: turbine_protocol::start::FreshOrigin::CommittedOffset,
                    discard_store: false,
                    gap: None,
                }
            }
            (decision, _) => decision,
        }
    }

    /// The life looks whether it may take the id over.
    pub(crate) fn check(&self, world: &mut World, slot: usize) -> Option<()> {
        let found = self.found(world, slot);
        let node = world.nodes[slot].as_mut()?;
        if node.phase != Phase::Down {
            return None;
        }
        let committed = world.broker.committed;
        let early = self.is(Broken::ReadBeforeTakeOver).then_some(committed);
        // What a dead life left pending is ended by taking over; until then there is no answer.
        let decision =
            (!world.broker.pending()).then(|| self.decide(slot, node, found.as_ref(), committed));
        node.phase = match decision {
            Some(StartDecision::Refuse(refusal)) => Phase::Refused(refusal.reason()),
            None | Some(_) => Phase::Checked(early),
        };
        Some(())
    }

    pub(crate) fn take_over(&self, world: &mut World, slot: usize) -> Option<()> {
        let node = world.nodes[slot].as_mut()?;
        let Phase::Checked(early) = node.phase else {
            return None;
        };
        let fence = if self.is(Broken::NoTakeOver) {
            world.broker.fence
        } else {
            world.broker.take_over()
        };
        node.phase = Phase::TakenOver(fence, early);
        Some(())
    }

    fn found(&self, world: &World, slot: usize) -> Option<Found> {
        let volume = world.nodes[slot].as_ref()?.volume.as_ref()?;
        // That nothing is missing in between is a property of every world.
        volume.found(self.is(Broken::RecordsOfAnotherLife)).ok()
    }

    /// The life reads the receipt, decides, and does with the store what it decided.
    pub(crate) fn begin(&self, world: &mut World, slot: usize) -> Option<()> {
        let found = self.found(world, slot);
        let broker = &world.broker;
        let node = world.nodes[slot].as_mut()?;
        let (fence, early) = match (self.guarantee, node.phase) {
            (Guarantee::ExactlyOnce, Phase::TakenOver(fence, early)) => (fence, early),
            (Guarantee::AtLeastOnce, Phase::Down) => (0, None),
            _ => return None,
        };
        if broker.pending() && early.is_none() && !self.is(Broken::ReadNotStable) {
            return None;
        }
        let committed = early.unwrap_or(broker.committed);
        let decision = self.decide(slot, node, found.as_ref(), committed);
        match decision {
            StartDecision::Refuse(refusal) => node.phase = Phase::Refused(refusal.reason()),
            StartDecision::Accept(older) | StartDecision::Replay(older) => {
                node.phase = Phase::Recovering(Recovering {
                    fence,
                    older,
                    replays: matches!(decision, StartDecision::Replay(_)),
                    files: found?.files,
                });
            }
            StartDecision::Fresh { offset, .. } => {
                let position = u8::try_from(offset.get()).unwrap();
                let files = fresh(position, State::default());
                let epoch = epoch_of(node.layout);
                node.volume = Some(Volume::new(node.layout, epoch, node.layout, files));
                node.phase = Phase::Running(Run::new(self.guarantee, fence, files));
            }
            StartDecision::Resume {
                offset, prepared, ..
            } => {
                let (volume, found) = (node.volume.as_mut()?, found?);
                let mut done = found.files;
                match prepared {
                    PreparedFate::None => assert_eq!(found.prepared, None),
                    PreparedFate::Apply => {
                        let held = found.prepared?;
                        done.absorb(&held);
                        volume.append(RecordKind::Done, held.reach.number, None);
                    }
                    PreparedFate::Cancel if self.is(Broken::CancelNotWritten) => {}
                    PreparedFate::Cancel => {
                        let number = found.prepared?.reach.number;
                        volume.append(RecordKind::Cancelled, number, None);
                    }
                }
                assert_eq!(at(done.reach.position), offset);
                let run = Run::new(self.guarantee, fence, done);
                node.phase = match prepared {
                    PreparedFate::Cancel if !self.is(Broken::CancelNotSynced) => {
                        Phase::Cancelling(run)
                    }
                    _ => Phase::Running(run),
                };
                let agrees = self.guarantee == Guarantee::AtLeastOnce || agrees(done, committed);
                world.disagreed |= !agrees;
            }
        }
        Some(())
    }

    /// The next record of those that an older store lacks.
    pub(crate) fn fold_again(&self, world: &mut World, slot: usize) -> Option<()> {
        let (phase, _, broker) = world.parts(slot)?;
        let Phase::Recovering(recovery) = phase else {
            return None;
        };
        let record = recovery.files.reach.position;
        if !recovery.replays || at(record) >= recovery.older.committed.offset {
            return None;
        }
        recovery.files.reach.position += 1;
        if !self.is(Broken::AcceptedUnasked) {
            recovery.files.state[key_of(record)].push(record);
        }
        if self.is(Broken::ReplayWritesOutputs) && broker.hears(recovery.fence) {
            broker.transaction().outputs.push(record);
        }
        Some(())
    }

    /// What was read again so far leaves memory; the store says that it is still the older one.
    pub(crate) fn save_between(&self, world: &mut World, slot: usize) -> Option<()> {
        let (phase, volume, _) = world.parts(slot)?;
        let Phase::Recovering(recovery) = phase else {
            return None;
        };
        if recovery.files.reach.position == volume.files.reach.position {
            return None;
        }
        if self.is(Broken::FormerRecordsKept) {
            (volume.files, volume.flushed) = (recovery.files, recovery.files);
        } else {
            volume.rebase(recovery.files);
        }
        Some(())
    }

    /// The store takes what was committed.
    pub(crate) fn settle(&self, world: &mut World, slot: usize) -> Option<()> {
        let (phase, volume, _) = world.parts(slot)?;
        let Phase::Recovering(recovery) = *phase else {
            return None;
        };
        let mut files = recovery.files;
        let settled = recovery.older.settled();
        let position = u8::try_from(settled.position.get()).unwrap();
        if recovery.replays && files.reach.position < position {
            return None;
        }
        let lacks = files.reach.position..position;
        files.missing |= lacks.map(|record| 1 << record).sum::<u16>();
        let before = files.reach;
        files.reach = Reach {
            number: u8::try_from(settled.number.get()).unwrap(),
            position,
            checksum: settled.checksum,
            by_transaction: settled.by_transaction,
        };
        if self.is(Broken::ReplayTakesNoNumber) {
            (files.reach.number, files.reach.checksum) = (before.number, before.checksum);
        }
        if self.is(Broken::AcceptedFromTheStore) {
            (files.reach.position, files.missing) = (before.position, 0);
        }
        if self.is(Broken::ReplayNotAsOne) {
            volume.flushed.reach = files.reach;
            volume.files = files;
            volume.begin_life();
        } else if self.is(Broken::RecoveredNotDurable) {
            volume.files = files;
            volume.begin_life();
        } else {
            volume.rebase(files);
        }
        *phase = Phase::Running(Run::new(self.guarantee, recovery.fence, files));
        let committed = recovery.older.committed;
        let whole = !recovery.replays || files.state == state_of(committed);
        // Another life may have taken the id since; then this one cannot commit.
        world.disagreed |= !agrees(files, Some(committed)) || !whole;
        Some(())
    }

    /// The cancel record is durable: its number may be given anew.
    pub(crate) fn cancelled(world: &mut World, slot: usize) -> Option<()> {
        let (phase, volume, _) = world.parts(slot)?;
        let Phase::Cancelling(run) = *phase else {
            return None;
        };
        volume.sync();
        *phase = Phase::Running(run);
        Some(())
    }
}

/// A task of the first layout has the store of its epoch, one of the second a new one.
fn epoch_of(layout: u8) -> u8 {
    layout
}

/// What a life goes on with is what the broker has, whole and with its offset; or nothing was ever committed.
fn agrees(done: Files, committed: Option<CommittedReceipt>) -> bool {
    match committed {
        None => done.reach.number == 0,
        Some(committed) => {
            committed.receipt.number == numbered(done.reach.number)
                && committed.receipt.checksum == done.reach.checksum
                && committed.offset == at(done.reach.position)
        }
    }
}
