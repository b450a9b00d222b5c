//! What can happen in a world, and what must hold in each.

use stateright::{Model, Property};
use turbine_protocol::CommittedReceipt;
use turbine_protocol::commit::{CommitAct, CommitEvent};
use turbine_protocol::start::{Guarantee, OnCrashRecovery};
use turbine_protocol::transaction::{TransactionAct, TransactionEvent};

use crate::broker::Broker;
use crate::guard::Broken;
use crate::start::Starter;
use crate::volume::{Files, Folded, Volume, numbered, receipt};
use crate::world::{Effect, Event, Harm, MAIN, Node, Phase, Run, Step, World, ZOMBIE, at, fresh};

/// What of all that can happen is looked at, and how often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) guarantee: Guarantee,
    /// Records in the log; at most 8.
    pub(crate) records: u8,
    /// Lives that are started, of both tasks.
    pub(crate) starts: u8,
    /// The first life may be thought dead and go on, and start again on its own copy of the volume.
    pub(crate) zombie: bool,
    /// The task may get a store of a later epoch, as in a rescale.
    pub(crate) relayout: bool,
    /// Somebody may delete or move the group's offset, or lose the volume; once.
    pub(crate) harm: bool,
    /// The broker may end a transaction that takes too long.
    pub(crate) timeouts: bool,
    /// The journal may be rolled, and its first segment go.
    pub(crate) roll: bool,
    /// What becomes of an older store, of either task: the spec may have been changed between.
    pub(crate) recovery: [OnCrashRecovery; 2],
    /// Most records that an older store may lack.
    pub(crate) bound: Option<u64>,
    /// A process knows that it has run the task before. Without that, which is the worse case, whoever was overtaken takes the
    /// task back.
    pub(crate) remembers: bool,
    /// No call to the broker or the journal fails; lives end by crashes alone.
    pub(crate) smooth: bool,
    pub(crate) broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happens {
    Check(usize),
    TakeOver(usize),
    Begin(usize),
    SyncCancel(usize),
    FoldAgain(usize),
    SaveBetween(usize),
    Settle(usize),
    Fold(usize),
    Act(usize, Event, Effect),
    Checkpoint,
    Flush,
    Roll,
    Release,
    Crash(usize, [u8; 2]),
    /// The task is started elsewhere, on a volume as a crash leaves it, while its life goes on.
    Fork([u8; 2]),
    Relayout,
    CommitArrives,
    OffsetSettles,
    TransactionTimesOut,
    Harm(Harm),
}

const GOOD: [Event; 7] = [
    Event::Transaction(TransactionEvent::Prepared),
    Event::Transaction(TransactionEvent::OffsetSent),
    Event::Transaction(TransactionEvent::Committed),
    Event::Transaction(TransactionEvent::MarkedDone),
    Event::Commit(CommitEvent::OutputsAcked),
    Event::Commit(CommitEvent::StateSynced),
    Event::Commit(CommitEvent::OffsetCommitted),
];

/// Every event that an act can bring.
fn events(step: Step) -> Vec<Event> {
    use CommitEvent as C;
    use TransactionEvent as T;
    let transaction = |all: &[T]| all.iter().copied().map(Event::Transaction).collect();
    let commit = |all: &[C]| all.iter().copied().map(Event::Commit).collect();
    match step {
        Step::Transaction(step) => match step.act() {
            TransactionAct::Prepare => transaction(&[T::Prepared, T::PrepareFailed]),
            TransactionAct::SendOffset => transaction(&[T::OffsetSent, T::OffsetFailed]),
            TransactionAct::Commit => {
                transaction(&[T::Committed, T::CommitUnknown, T::CommitFailed])
            }
            TransactionAct::MarkDone => transaction(&[T::MarkedDone, T::MarkFailed]),
            TransactionAct::Finished | TransactionAct::Rebuild => Vec::new(),
        },
        Step::Commit(step) => match step.act() {
            CommitAct::FlushOutputs => commit(&[C::OutputsAcked, C::OutputsFailed]),
            CommitAct::SyncState => commit(&[C::StateSynced, C::StateFailed]),
            CommitAct::CommitOffset => commit(&[C::OffsetCommitted, C::OffsetFailed]),
            CommitAct::Done | CommitAct::Rebuild => Vec::new(),
        },
    }
}

impl Scope {
    fn starter(&self) -> Starter {
        Starter {
            guarantee: self.guarantee,
            broken: self.broken,
            end: self.records,
            recovery: self.recovery,
            bound: self.bound,
        }
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn of_node(&self, world: &World, slot: usize, all: &mut Vec<Happens>) {
        let Some(node) = &world.nodes[slot] else {
            return;
        };
        match &node.phase {
            Phase::Down => {
                if world.starts < self.starts {
                    all.extend([Happens::Check(slot), Happens::Begin(slot)]);
                }
            }
            Phase::Checked(_) => all.push(Happens::TakeOver(slot)),
            Phase::TakenOver(..) => all.push(Happens::Begin(slot)),
            Phase::Cancelling(_) => all.push(Happens::SyncCancel(slot)),
            Phase::Recovering(_) => all.extend([
                Happens::FoldAgain(slot),
                Happens::SaveBetween(slot),
                Happens::Settle(slot),
            ]),
            Phase::Refused(_) => {}
            Phase::Running(run) => {
                all.push(Happens::Fold(slot));
                for event in events(run.step) {
                    for effect in [Effect::Nothing, Effect::Whole, Effect::OnItsWay] {
                        let smooth = GOOD.contains(&event) && effect == Effect::Whole;
                        if smooth || !self.smooth {
                            all.push(Happens::Act(slot, event, effect));
                        }
                    }
                }
            }
        }
        let Some(volume) = &node.volume else {
            return;
        };
        if slot == MAIN {
            all.extend([Happens::Checkpoint, Happens::Flush]);
            if self.roll {
                all.extend([Happens::Roll, Happens::Release]);
            }
        }
        let dead = matches!(node.phase, Phase::Down | Phase::Refused(_));
        if !dead {
            for old in 0..=volume.unsynced(0) {
                for last in 0..=volume.unsynced(1) {
                    all.push(Happens::Crash(slot, [old, last]));
                    if slot == MAIN && self.zombie {
                        all.push(Happens::Fork([old, last]));
                    }
                }
            }
        }
    }

    fn happen(&self, world: &mut World, happens: Happens) -> Option<()> {
        match happens {
            Happens::Check(slot) => {
                if self.guarantee == Guarantee::AtLeastOnce {
                    return None;
                }
                world.starts += 1;
                self.starter().check(world, slot)
            }
            Happens::TakeOver(slot) => self.starter().take_over(world, slot),
            Happens::Begin(slot) => {
                if self.guarantee == Guarantee::AtLeastOnce {
                    world.starts += 1;
                }
                self.starter().begin(world, slot)
            }
            Happens::SyncCancel(slot) => Starter::cancelled(world, slot),
            Happens::FoldAgain(slot) => self.starter().fold_again(world, slot),
            Happens::SaveBetween(slot) => self.starter().save_between(world, slot),
            Happens::Settle(slot) => self.starter().settle(world, slot),
            Happens::Fold(slot) => world.fold(slot, self.records),
            Happens::Act(slot, Event::Transaction(event), effect) => {
                world.transact(slot, event, effect, self.broken)?;
                self.remember(world, slot)
            }
            Happens::Act(slot, Event::Commit(event), effect) => {
                world.commit(slot, event, effect, self.broken)
            }
            Happens::Checkpoint => world.checkpoint(MAIN, self.broken),
            Happens::Flush => {
                let (_, volume, _) = world.parts(MAIN)?;
                volume.flushed = volume.files;
                Some(())
            }
            Happens::Roll => {
                let synced = !self.is(Broken::RollNotSynced);
                let (_, volume, _) = world.parts(MAIN)?;
                (volume.segment == 0 && !volume.journal.is_empty()).then(|| volume.roll(synced))
            }
            Happens::Release => {
                let early = self.is(Broken::ReleasedTooEarly);
                let (_, volume, _) = world.parts(MAIN)?;
                let goes = volume.segment > 0 && (early || volume.first_is_absorbed());
                goes.then(|| volume.release_first())
            }
            Happens::Crash(slot, lost) => {
                let (phase, volume, _) = world.parts(slot)?;
                volume.crash(lost);
                *phase = Phase::Down;
                world.nodes[slot].as_mut()?.has_run = false;
                Some(())
            }
            Happens::Fork(lost) => {
                if world.nodes[ZOMBIE].is_some() || world.starts == self.starts {
                    return None;
                }
                let zombie = world.nodes[MAIN].clone();
                world.nodes[ZOMBIE] = zombie;
                self.happen(world, Happens::Crash(MAIN, lost))
            }
            Happens::Relayout => relayout(world),
            Happens::CommitArrives => {
                if !world.broker.open?.on_its_way {
                    return None;
                }
                let sent = world.broker.commit()?;
                world.committed_by(sent);
                Some(())
            }
            Happens::OffsetSettles => {
                world.broker.unsettled?;
                world.broker.settle();
                Some(())
            }
            Happens::TransactionTimesOut => {
                world.broker.open?;
                // The coordinator raises the epoch: the producer that let it happen is fenced.
                world.broker.take_over();
                Some(())
            }
            Happens::Harm(harm) => do_harm(world, harm),
        }
    }

    /// Its life ended with a fault, and the process begins another.
    fn remember(&self, world: &mut World, slot: usize) -> Option<()> {
        let node = world.nodes[slot].as_mut()?;
        node.has_run |= self.remembers && node.phase == Phase::Down;
        Some(())
    }

    /// Whether one who acts without fault comes to the end from here, at the latest after every life that is there has
    /// ended: everything folded, committed and in the outputs; or to a refusal with a cause.
    pub(crate) fn ends(&self, world: &World) -> bool {
        let mut world = world.clone();
        for _ in 0..200 {
            self.go_on(&mut world);
            let Some(node) = &world.nodes[MAIN] else {
                return false;
            };
            match &node.phase {
                Phase::Refused(_) => return self.refusals_have_a_cause(&world),
                Phase::Running(run) if run.open() && run.done.reach.position == self.records => {
                    return self.is_complete(&world, run);
                }
                _ => {}
            }
        }
        false
    }

    fn go_on(&self, world: &mut World) {
        if world.broker.unsettled.is_some() {
            world.broker.settle();
            return;
        }
        let phase = world.nodes[MAIN].as_ref().map(|node| node.phase);
        let next = match phase {
            Some(Phase::Down) if self.guarantee == Guarantee::ExactlyOnce => {
                vec![Happens::Check(MAIN)]
            }
            Some(Phase::Down | Phase::TakenOver(..)) => {
                vec![Happens::Begin(MAIN), Happens::TransactionTimesOut]
            }
            Some(Phase::Checked(_)) => vec![Happens::TakeOver(MAIN)],
            Some(Phase::Cancelling(_)) => vec![Happens::SyncCancel(MAIN)],
            Some(Phase::Recovering(_)) => vec![Happens::FoldAgain(MAIN), Happens::Settle(MAIN)],
            Some(Phase::Running(run)) => {
                let (good, bad): (Vec<_>, Vec<_>) = events(run.step)
                    .into_iter()
                    .partition(|event| GOOD.contains(event));
                let act = |event, effect| Happens::Act(MAIN, event, effect);
                let good = good.into_iter().map(|event| act(event, Effect::Whole));
                // A life that was fenced hears so, and ends.
                let fenced = bad.into_iter().rev();
                std::iter::once(Happens::Fold(MAIN))
                    .chain(good)
                    .chain(fenced.map(|event| act(event, Effect::Nothing)))
                    .collect()
            }
            Some(Phase::Refused(_)) | None => Vec::new(),
        };
        for happens in next {
            let mut after = world.clone();
            if self.happen(&mut after, happens).is_some() {
                *world = after;
                return;
            }
        }
    }

    fn is_complete(&self, world: &World, run: &Run) -> bool {
        let all = self.records;
        let outputs = match self.guarantee {
            Guarantee::ExactlyOnce => world.outputs_are_the_first(all),
            Guarantee::AtLeastOnce => world.broker.seen == (1 << all) - 1,
        };
        let offset = world.broker.unsettled.or(world.broker.committed);
        let offset = offset.map(|of| of.offset);
        // At least once the group's offset follows with the next commit.
        let offset = match self.guarantee {
            Guarantee::ExactlyOnce => offset == Some(at(all)),
            Guarantee::AtLeastOnce => offset <= Some(at(all)),
        };
        // What somebody did to the offset shows until the next commit.
        let state = run.live == crate::volume::state_of_first(all, run.done.missing);
        outputs && (offset || world.harm.is_some()) && state
    }

    /// A task that does not start has a reason that somebody else made.
    pub(crate) fn refusals_have_a_cause(&self, world: &World) -> bool {
        world.nodes.iter().enumerate().all(|(slot, node)| {
            let Some(node) = node else {
                return true;
            };
            let Phase::Refused(reason) = node.phase else {
                return true;
            };
            match reason {
                "ReceiptMissing" => world.harm == Some(Harm::ReceiptLost),
                "StateMissing" => world.overtaken(slot) || world.harm == Some(Harm::VolumeLost),
                "OldAssignment" => slot == ZOMBIE && node.layout == 1,
                "GapExceedsBound" => self.bound.is_some() && world.overtaken(slot),
                "StoreBehindReceipt" if self.recovery[slot] != OnCrashRecovery::Stop => {
                    world.overtaken(slot) && (node.has_run || world.of_another_history(slot))
                }
                // At least once the store counts, whatever the receipt says.
                "StoreBehindReceipt" | "ReceiptBehindStore" | "OtherHistory" => {
                    self.guarantee == Guarantee::ExactlyOnce
                        && (world.overtaken(slot) || world.harm == Some(Harm::OffsetMoved))
                }
                _ => false,
            }
        })
    }
}

/// The operator seals the task's last receipt and gives its state to a store of the next epoch.
fn relayout(world: &mut World) -> Option<()> {
    let run = *world.run(MAIN)?;
    let node = world.nodes[MAIN].as_mut()?;
    let volume = node.volume.as_mut()?;
    let idle = run.open() && run.position == run.done.reach.position;
    let may = matches!(run.step, Step::Commit(_)) || world.broker.hears(run.fence);
    if node.layout > 1 || !idle || !may || run.number < 2 {
        return None;
    }
    world.broker.take_over();
    world.broker.settle();
    let files = Files {
        missing: run.done.missing,
        ..fresh(run.position, run.done.state)
    };
    let journal = std::mem::take(&mut volume.journal);
    let segment = volume.segment;
    *volume = Volume {
        journal,
        segment,
        ..Volume::new(2, 2, 2, files)
    };
    volume.sync();
    world.broker.committed = Some(CommittedReceipt {
        offset: at(run.position),
        receipt: receipt(2, files.reach, files.history()),
    });
    node.layout = 2;
    node.phase = Phase::Down;
    if let Some(zombie) = &mut world.nodes[ZOMBIE] {
        zombie.other_committed = true;
    }
    Some(())
}

fn do_harm(world: &mut World, harm: Harm) -> Option<()> {
    if world.harm.is_some() {
        return None;
    }
    world.harm = Some(harm);
    match harm {
        Harm::ReceiptLost => {
            world.broker.settle();
            world.broker.committed.take()?;
        }
        Harm::OffsetMoved => {
            world.broker.settle();
            let committed = world.broker.committed.as_mut()?;
            let offset = committed.offset.get();
            let moved = if offset == 0 { 1 } else { offset - 1 };
            committed.offset = moved.try_into().unwrap();
        }
        Harm::VolumeLost => {
            let node = world.nodes[MAIN].as_mut()?;
            // Until a store that was moved has committed, the operator brings it again.
            let first = |of: CommittedReceipt| of.receipt.number == numbered(0);
            if node.layout == 2 && world.broker.committed.is_none_or(first) {
                return None;
            }
            node.volume.take()?;
            node.phase = Phase::Down;
        }
    }
    Some(())
}

impl Model for Scope {
    type State = World;
    type Action = Happens;

    fn init_states(&self) -> Vec<World> {
        let task = Node {
            volume: None,
            phase: Phase::Down,
            layout: 1,
            other_committed: false,
            has_run: false,
        };
        vec![World {
            nodes: [Some(task), None],
            broker: Broker {
                fence: 0,
                open: None,
                unsettled: None,
                committed: None,
                outputs: Folded::default(),
                seen: 0,
                truth: 0,
            },
            starts: 0,
            harm: None,
            disagreed: false,
        }]
    }

    fn actions(&self, world: &World, all: &mut Vec<Happens>) {
        self.of_node(world, MAIN, all);
        self.of_node(world, ZOMBIE, all);
        all.extend([Happens::CommitArrives, Happens::OffsetSettles]);
        if self.relayout {
            all.push(Happens::Relayout);
        }
        if self.timeouts {
            all.push(Happens::TransactionTimesOut);
        }
        if self.harm {
            let harms = [Harm::ReceiptLost, Harm::OffsetMoved, Harm::VolumeLost];
            all.extend(harms.map(Happens::Harm));
        }
    }

    fn next_state(&self, world: &World, happens: Happens) -> Option<World> {
        let mut next = world.clone();
        self.happen(&mut next, happens)?;
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = crate::properties::all(self.guarantee);
        if self.recovery != [OnCrashRecovery::Stop; 2] && self.bound.is_none() {
            all.push(Property::sometimes(
                "an older store is recovered",
                |_, world: &World| {
                    let mut nodes = world.nodes.iter().flatten();
                    nodes.any(|node| matches!(node.phase, Phase::Recovering(_)))
                },
            ));
        }
        all
    }
}
