//! A world: up to two lives of one task, each with a volume, and the broker between them.

use turbine_protocol::commit::{CommitAct, CommitEvent, CommitStep};
use turbine_protocol::journal::RecordKind;
use turbine_protocol::start::{Guarantee, OlderStore};
use turbine_protocol::transaction::{TransactionAct, TransactionEvent, TransactionStep};
use turbine_protocol::{CommittedReceipt, EntryChecksum, Offset};

use crate::broker::{Broker, Sent};
use crate::guard::Broken;
use crate::volume::{Files, Folded, Interval, Reach, State, Volume, key_of, receipt};

/// The life that the assignment means, and the one that was thought dead.
pub(crate) const MAIN: usize = 0;
pub(crate) const ZOMBIE: usize = 1;

/// How far the interval's commit came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Transaction(TransactionStep),
    Commit(CommitStep),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    Transaction(TransactionEvent),
    Commit(CommitEvent),
}

/// What an act did to the world, whatever its caller hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    Nothing,
    Whole,
    /// The request is on its way and arrives later or never.
    OnItsWay,
}

/// A running task: what it has committed, and the interval on top of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) fence: u8,
    pub(crate) done: Files,
    /// Number of the interval; 0 while the new store's first receipt is committed.
    pub(crate) number: u8,
    pub(crate) position: u8,
    pub(crate) live: State,
    pub(crate) step: Step,
}

/// A store on its way to the committed receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Recovery {
    pub(crate) fence: u8,
    pub(crate) older: OlderStore,
    /// What lies between is read again; else it is left out.
    pub(crate) replays: bool,
    /// In memory.
    pub(crate) files: Files,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Down,
    /// Nothing forbids to take the id over. Holds what was read before, where a broken start goes by that.
    Checked(Option<Option<CommittedReceipt>>),
    TakenOver(u8, Option<Option<CommittedReceipt>>),
    /// The cancel record is written and not synced.
    Cancelling(Run),
    Running(Run),
    /// Its store is older than what was committed, and is brought there.
    Recovering(Recovery),
    /// Does not start, for this reason.
    Refused(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// None before the first start, and after a loss.
    pub(crate) volume: Option<Volume>,
    pub(crate) phase: Phase,
    /// The layout epoch of its assignment.
    pub(crate) layout: u8,
    /// The other life has committed since the two parted.
    pub(crate) other_committed: bool,
    /// Its process has run the task before, and remembers.
    pub(crate) has_run: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) nodes: [Option<Node>; 2],
    pub(crate) broker: Broker,
    pub(crate) starts: u8,
    /// What somebody did to the broker or the volume: the group's offset deleted, moved, the volume lost.
    pub(crate) harm: Option<Harm>,
    /// A start went on with what the broker does not have.
    pub(crate) disagreed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Harm {
    ReceiptLost,
    OffsetMoved,
    VolumeLost,
}

pub(crate) fn at(position: u8) -> Offset {
    i64::from(position).try_into().unwrap()
}

/// Where a new store stands that reads from here.
pub(crate) fn fresh(position: u8, state: State) -> Files {
    Files {
        reach: Reach {
            number: 0,
            position,
            checksum: EntryChecksum(0),
            by_transaction: false,
        },
        state,
        missing: 0,
    }
}

impl Run {
    pub(crate) fn new(guarantee: Guarantee, fence: u8, done: Files) -> Self {
        let first = done.reach.number == 0;
        let run = Self {
            fence,
            done,
            number: 0,
            position: done.reach.position,
            live: done.state,
            // A new store's first act is its receipt; it has nothing to write before.
            step: match guarantee {
                Guarantee::ExactlyOnce => Step::Transaction(TransactionStep::Prepared),
                Guarantee::AtLeastOnce => Step::Commit(CommitStep::StateSynced),
            },
        };
        if first { run } else { run.next(done) }
    }

    /// The next interval.
    fn next(self, done: Files) -> Self {
        Self {
            done,
            number: done.reach.number + 1,
            position: done.reach.position,
            live: done.state,
            step: match self.step {
                Step::Transaction(_) => Step::Transaction(TransactionStep::Open),
                Step::Commit(_) => Step::Commit(CommitStep::Open),
            },
            ..self
        }
    }

    pub(crate) fn open(&self) -> bool {
        matches!(
            self.step,
            Step::Transaction(TransactionStep::Open) | Step::Commit(CommitStep::Open)
        )
    }

    fn interval(&self, epoch: u8) -> Interval {
        let by_transaction = matches!(self.step, Step::Transaction(_));
        let (before, after) = (self.done.state, self.live);
        Interval::new(
            epoch,
            self.number,
            self.position,
            before,
            after,
            by_transaction,
            self.done.history(),
        )
    }

    fn reach(&self, epoch: u8) -> Reach {
        if self.number == 0 {
            self.done.reach
        } else {
            self.interval(epoch).reach
        }
    }

    fn sent(&self, by: usize, epoch: u8) -> Sent {
        let reach = self.reach(epoch);
        Sent {
            committed: CommittedReceipt {
                offset: at(reach.position),
                receipt: receipt(epoch, reach, self.done.history()),
            },
            by,
            position: reach.position,
        }
    }

    /// The files as they are after this interval.
    pub(crate) fn after(&self, epoch: u8) -> Files {
        Files {
            reach: self.reach(epoch),
            state: self.live,
            missing: self.done.missing,
        }
    }
}

impl World {
    /// The task and its volume.
    pub(crate) fn parts(&mut self, slot: usize) -> Option<(&mut Phase, &mut Volume, &mut Broker)> {
        let node = self.nodes[slot].as_mut()?;
        Some((&mut node.phase, node.volume.as_mut()?, &mut self.broker))
    }

    pub(crate) fn run(&self, slot: usize) -> Option<&Run> {
        match &self.nodes[slot].as_ref()?.phase {
            Phase::Running(run) => Some(run),
            _ => None,
        }
    }

    fn running(&mut self, slot: usize) -> Option<(&mut Run, &mut Volume, &mut Broker)> {
        match self.parts(slot)? {
            (Phase::Running(run), volume, broker) => Some((run, volume, broker)),
            _ => None,
        }
    }

    /// Folds the next record. Its output goes out at once, into the transaction if there is one.
    pub(crate) fn fold(&mut self, slot: usize, end: u8) -> Option<()> {
        let (run, _, broker) = self.running(slot)?;
        if !run.open() || run.position == end {
            return None;
        }
        let record = run.position;
        run.position += 1;
        run.live[key_of(record)].push(record);
        if matches!(run.step, Step::Transaction(_)) && broker.hears(run.fence) {
            broker.transaction().outputs.push(record);
        }
        Some(())
    }

    pub(crate) fn committed_by(&mut self, sent: Sent) {
        for (slot, node) in self.nodes.iter_mut().enumerate() {
            if let Some(node) = node {
                node.other_committed |= slot != sent.by;
            }
        }
    }

    /// The last commit is another's, and the task's own volume does not have it.
    pub(crate) fn overtaken(&self, slot: usize) -> bool {
        let Some(node) = &self.nodes[slot] else {
            return false;
        };
        let last = self.broker.unsettled.or(self.broker.committed);
        let has = match (&node.volume, last) {
            (Some(volume), Some(last)) => volume.has(last),
            _ => false,
        };
        node.other_committed && !has
    }

    /// What was committed last does not come from the task's own volume by the log alone.
    pub(crate) fn of_another_history(&self, slot: usize) -> bool {
        let own = self.nodes[slot].as_ref().and_then(|of| of.volume.as_ref());
        let last = self.broker.unsettled.or(self.broker.committed);
        let committed = last.and_then(|last| last.receipt.retrace);
        own.is_some_and(|own| committed.is_some_and(|of| of.history != own.files.history()))
    }

    /// The next act of a commit, exactly once. None if it cannot end so.
    pub(crate) fn transact(
        &mut self,
        slot: usize,
        event: TransactionEvent,
        effect: Effect,
        broken: Option<Broken>,
    ) -> Option<()> {
        use TransactionEvent as E;
        let (run, volume, broker) = self.running(slot)?;
        let Step::Transaction(step) = run.step else {
            return None;
        };
        let heard = broker.hears(run.fence);
        let epoch = volume.epoch;
        let mut committed = None;
        match step.act() {
            TransactionAct::Prepare => {
                if run.position == run.done.reach.position {
                    return None;
                }
                let wrote = effect == Effect::Whole;
                if wrote {
                    let interval = run.interval(epoch);
                    volume.append(RecordKind::Prepared, run.number, Some(interval));
                }
                match event {
                    E::Prepared if wrote && broken == Some(Broken::PreparedNotSynced) => {}
                    E::Prepared if wrote => volume.sync(),
                    E::PrepareFailed => {}
                    _ => return None,
                }
            }
            TransactionAct::SendOffset => match (event, effect) {
                (E::OffsetSent | E::OffsetFailed, Effect::Whole) if heard => {
                    broker.transaction().offset = Some(run.sent(slot, epoch));
                }
                (E::OffsetFailed, Effect::Nothing) => {}
                _ => return None,
            },
            TransactionAct::Commit => match (event, effect) {
                (E::Committed | E::CommitUnknown | E::CommitFailed, Effect::Whole) if heard => {
                    committed = broker.commit();
                }
                (E::CommitUnknown | E::CommitFailed, Effect::OnItsWay) if heard => {
                    broker.open.as_mut()?.on_its_way = true;
                }
                (E::CommitUnknown | E::CommitFailed, Effect::Nothing) => {}
                _ => return None,
            },
            TransactionAct::MarkDone => match (event, effect) {
                (E::MarkedDone | E::MarkFailed, Effect::Whole) => {
                    if run.number > 0 {
                        volume.append(RecordKind::Done, run.number, None);
                    }
                }
                (E::MarkFailed, Effect::Nothing) => {}
                _ => return None,
            },
            TransactionAct::Finished | TransactionAct::Rebuild => return None,
        }
        let mut next = step.after(event).unwrap();
        if event == E::CommitUnknown {
            match broken {
                Some(Broken::AbortAfterCommit) => {
                    broker.open = None;
                    if run.number > 0 {
                        volume.append(RecordKind::Cancelled, run.number, None);
                        volume.sync();
                    }
                    *run = Run::new(Guarantee::ExactlyOnce, run.fence, run.done);
                    return self.note(committed);
                }
                Some(Broken::UnknownTakenForCommitted) => next = TransactionStep::Committed,
                _ => {}
            }
        }
        run.step = Step::Transaction(next);
        match next.act() {
            TransactionAct::Finished => *run = run.next(run.after(epoch)),
            TransactionAct::Rebuild => self.nodes[slot].as_mut()?.phase = Phase::Down,
            _ => {}
        }
        self.note(committed)
    }

    fn note(&mut self, committed: Option<Sent>) -> Option<()> {
        if let Some(sent) = committed {
            self.committed_by(sent);
        }
        Some(())
    }

    /// The next act of a commit, at least once. None if it cannot end so.
    pub(crate) fn commit(
        &mut self,
        slot: usize,
        event: CommitEvent,
        effect: Effect,
        broken: Option<Broken>,
    ) -> Option<()> {
        use CommitEvent as E;
        let (run, volume, broker) = self.running(slot)?;
        let Step::Commit(step) = run.step else {
            return None;
        };
        let epoch = volume.epoch;
        let early = broken == Some(Broken::OffsetBeforeSync) && run.number > 0;
        let mut committed = None;
        match step.act() {
            CommitAct::FlushOutputs => {
                let outputs = (run.done.reach.position..run.position).map(|record| 1 << record);
                match (event, effect) {
                    (E::OutputsAcked | E::OutputsFailed, Effect::Whole) => {
                        broker.seen |= outputs.sum::<u16>();
                    }
                    (E::OutputsFailed, Effect::Nothing) => {}
                    (E::OutputsAcked, Effect::Nothing)
                        if broken == Some(Broken::OutputsNotAwaited) => {}
                    _ => return None,
                }
                if run.position == run.done.reach.position {
                    return None;
                }
            }
            CommitAct::SyncState | CommitAct::CommitOffset
                if early == (step.act() == CommitAct::CommitOffset) =>
            {
                let wrote = effect == Effect::Whole;
                if wrote {
                    let interval = run.interval(epoch);
                    volume.append(RecordKind::Entry, run.number, Some(interval));
                }
                match event {
                    E::StateSynced | E::OffsetCommitted if wrote => volume.sync(),
                    E::StateFailed => {}
                    _ => return None,
                }
            }
            CommitAct::SyncState | CommitAct::CommitOffset => match (event, effect) {
                (E::OffsetCommitted | E::OffsetFailed | E::StateSynced, Effect::Whole) => {
                    let sent = run.sent(slot, epoch);
                    broker.committed = Some(sent.committed);
                    broker.truth = sent.position;
                    committed = Some(sent);
                }
                (E::OffsetFailed, Effect::Nothing) => {}
                _ => return None,
            },
            CommitAct::Done | CommitAct::Rebuild => return None,
        }
        let next = step.after(event).unwrap();
        run.step = Step::Commit(next);
        match next.act() {
            CommitAct::Done => *run = run.next(run.after(epoch)),
            CommitAct::Rebuild => self.nodes[slot].as_mut()?.phase = Phase::Down,
            _ => {}
        }
        self.note(committed)
    }

    /// RocksDB takes the values of what is done.
    pub(crate) fn checkpoint(&mut self, slot: usize, broken: Option<Broken>) -> Option<()> {
        let (run, volume, _) = self.running(slot)?;
        let undecided = matches!(
            run.step,
            Step::Transaction(
                TransactionStep::Prepared
                    | TransactionStep::OffsetSent
                    | TransactionStep::Committing
            )
        );
        let broken = broken == Some(Broken::CheckpointTakesUndecided);
        let files = if broken && undecided && run.number > 0 {
            run.after(volume.epoch)
        } else {
            run.done
        };
        if files.reach.number <= volume.files.reach.number {
            return None;
        }
        volume.files = files;
        Some(())
    }

    /// Every record of the log once, in order, as far as this.
    pub(crate) fn outputs_are_the_first(&self, count: u8) -> bool {
        let mut expected = Folded::default();
        (0..count).for_each(|record| expected.push(record));
        self.broker.outputs == expected
    }
}
