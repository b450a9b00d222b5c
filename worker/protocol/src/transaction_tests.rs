//! Every world that a task, its store, the broker, crashes and a task of an old assignment can come to. The steps and the
//! decision at a start are the production ones.

use std::collections::{BTreeMap, BTreeSet};

use turbine_keygroups::{Partition, RawPartitionCount};
use uuid::Uuid;

use super::*;
use crate::entry::{EntryChecksum, Frontier};
use crate::identity::StoreIdentity;
use crate::layout::Task;
use crate::offset::{LogBounds, Offset};
use crate::receipt::Receipt;
use crate::start::{
    BrokerEvidence, Guarantee, OnForeign, PreparedFate, StartDecision, StartFrom, StartInputs,
    StoreEvidence, StoreProgress, decide,
};

/// The input: a key and an amount per record. The state: a sum per key.
const LOG: [(u8, u32); 6] = [
    (0, 1),
    (1, 10),
    (0, 100),
    (1, 1000),
    (0, 10_000),
    (1, 100_000),
];
const INTERVAL: usize = 2;

type Sums = BTreeMap<u8, u32>;

/// What a fold of the first `count` records gives, computed apart from the model's own folding.
fn fold(count: usize) -> Sums {
    let mut sums = Sums::new();
    for key in [0, 1] {
        let of_key = LOG[..count].iter().filter(|(k, _)| *k == key);
        if of_key.clone().count() > 0 {
            sums.insert(key, of_key.map(|(_, amount)| amount).sum());
        }
    }
    sums
}

/// An entry: its number, the position behind it, the sums. Two lives can make entries of one number that differ in
/// how far they reach, so the interval is part of the checksum.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct StoredEntry {
    number: i64,
    position: usize,
    sums: Sums,
}

impl StoredEntry {
    fn checksum(&self) -> EntryChecksum {
        EntryChecksum(
            u32::try_from(self.number * 100).unwrap() + u32::try_from(self.position).unwrap(),
        )
    }

    fn receipt(&self) -> (i64, usize) {
        (self.number, self.position)
    }
}

/// The broker's side of a transaction that is not decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    outputs: Vec<(usize, u8, u32)>,
    receipt: Option<(i64, usize)>,
}

/// What outlives a crash of the worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Durable {
    done: StoredEntry,
    prepared: Option<StoredEntry>,
    receipt: (i64, usize),
    /// Committed outputs: what a reader of committed records sees.
    outputs: Vec<(usize, u8, u32)>,
    pending: Option<Pending>,
    /// The producer epoch under which the transactional id may write.
    fence: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Live {
    position: usize,
    sums: Sums,
    number: i64,
    step: TransactionStep,
    fence: u8,
    /// Some lives read one record more per interval than others: entries of one number differ.
    stride: usize,
    /// Where the interval begins. An empty one has no results.
    from: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    durable: Durable,
    live: Live,
    /// A life of the task that was thought dead and is not; it has no store.
    zombie: Option<Live>,
    lives: u8,
}

impl TransactionStep {
    fn rank(self) -> usize {
        Self::ALL.iter().position(|step| *step == self).unwrap()
    }
}

fn at(offset: usize) -> Offset {
    i64::try_from(offset).unwrap().try_into().unwrap()
}

fn identity() -> StoreIdentity {
    StoreIdentity::new(
        "a".parse().unwrap(),
        crate::epochs::Lineage::new(Uuid::from_u128(1)),
        &Task {
            subscription: "s".parse().unwrap(),
            partition: Partition::try_from(0).unwrap(),
        },
        1.try_into().unwrap(),
        RawPartitionCount::try_from(12).unwrap(),
        "user".to_owned(),
    )
}

fn receipt(of: (i64, usize)) -> String {
    let entry = StoredEntry {
        number: of.0,
        position: of.1,
        sums: Sums::new(),
    };
    Receipt {
        lineage: crate::epochs::Lineage::new(Uuid::from_u128(1)),
        store_epoch: 1.try_into().unwrap(),
        number: of.0.try_into().unwrap(),
        checksum: if of.0 == 0 {
            EntryChecksum(0)
        } else {
            entry.checksum()
        },
        frontier: Frontier(None),
    }
    .to_string()
}

fn progress(of: &StoredEntry, prepared: Option<&StoredEntry>) -> StoreProgress {
    StoreProgress {
        identity: identity(),
        number: of.number.try_into().unwrap(),
        checksum: if of.number == 0 {
            EntryChecksum(0)
        } else {
            of.checksum()
        },
        position: at(of.position),
        by_transaction: of.number > 0,
        prepared: prepared.map(|entry| {
            Box::new(StoreProgress {
                prepared: None,
                ..progress(entry, None)
            })
        }),
    }
}

/// A start: fences, ends what is pending, asks for the receipt, and does with the prepared entry as it is told.
fn start(mut durable: Durable, lives: u8, zombie: Option<Live>) -> World {
    durable.fence += 1;
    // The id is taken over: an open transaction of the life before is aborted.
    durable.pending = None;
    let (offset, text) = (durable.receipt.1, receipt(durable.receipt));
    let inputs = StartInputs {
        assigned: identity(),
        layout_epoch: 1.try_into().unwrap(),
        on_foreign: OnForeign::Refuse,
        guarantee: Guarantee::ExactlyOnce,
        volume: None,
        store: StoreEvidence::Present(progress(&durable.done, durable.prepared.as_ref())),
        broker: BrokerEvidence::of(Some((at(offset), &text))),
        log: LogBounds::new(at(0), at(LOG.len())).unwrap(),
        start_from: StartFrom::Earliest,
    };
    match decide(&inputs) {
        StartDecision::Resume {
            offset, prepared, ..
        } => {
            match prepared {
                PreparedFate::None => assert_eq!(durable.prepared, None),
                PreparedFate::Apply => durable.done = durable.prepared.take().unwrap(),
                PreparedFate::Cancel => durable.prepared = None,
            }
            assert_eq!(at(durable.done.position), offset);
        }
        other => panic!("{other:?} at {durable:#?}"),
    }
    let live = read_on(
        &durable.done,
        durable.fence,
        INTERVAL + usize::from(lives % 2),
    );
    World {
        durable,
        live,
        zombie,
        lives,
    }
}

/// Folds the next interval on top of what is there.
fn read_on(from: &StoredEntry, fence: u8, stride: usize) -> Live {
    let end = (from.position + stride).min(LOG.len());
    let mut sums = from.sums.clone();
    for (key, amount) in &LOG[from.position..end] {
        *sums.entry(*key).or_default() += amount;
    }
    Live {
        position: end,
        sums,
        number: from.number + 1,
        step: TransactionStep::Open,
        fence,
        stride,
        from: from.position,
    }
}

impl Live {
    fn entry(&self) -> StoredEntry {
        StoredEntry {
            number: self.number,
            position: self.position,
            sums: self.sums.clone(),
        }
    }

    fn outputs(&self) -> Vec<(usize, u8, u32)> {
        if self.from == self.position {
            return Vec::new();
        }
        self.sums
            .iter()
            .map(|(key, sum)| (self.position, *key, *sum))
            .collect()
    }
}

/// What an act does to the world if it has its effect. Nothing of a fenced life reaches the broker.
fn effect(durable: &mut Durable, live: &Live, act: TransactionAct, own_store: bool) -> bool {
    let heard = live.fence == durable.fence;
    match act {
        TransactionAct::Prepare => {
            if own_store {
                durable.prepared = Some(live.entry());
            }
            if heard {
                // Outputs went out while the interval was folded.
                durable.pending.get_or_insert_default().outputs = live.outputs();
            }
            true
        }
        TransactionAct::SendOffset => {
            if heard {
                durable.pending.get_or_insert_default().receipt = Some(live.entry().receipt());
            }
            heard
        }
        TransactionAct::Commit => {
            if !heard {
                return false;
            }
            // A second call after one that was carried out finds nothing pending, and says that it is committed.
            if let Some(pending) = durable.pending.take() {
                durable.outputs.extend(pending.outputs);
                durable.receipt = pending.receipt.unwrap_or(durable.receipt);
            }
            true
        }
        TransactionAct::MarkDone => {
            if own_store {
                durable.done = durable.prepared.take().unwrap();
            }
            true
        }
        TransactionAct::Finished | TransactionAct::Rebuild => true,
    }
}

fn events(act: TransactionAct) -> &'static [TransactionEvent] {
    use TransactionEvent as Event;
    match act {
        TransactionAct::Prepare => &[Event::Prepared, Event::PrepareFailed],
        TransactionAct::SendOffset => &[Event::OffsetSent, Event::OffsetFailed],
        TransactionAct::Commit => &[Event::Committed, Event::CommitUnknown, Event::CommitFailed],
        TransactionAct::MarkDone => &[Event::MarkedDone, Event::MarkFailed],
        TransactionAct::Finished | TransactionAct::Rebuild => &[],
    }
}

fn good(event: TransactionEvent) -> bool {
    use TransactionEvent as Event;
    matches!(
        event,
        Event::Prepared | Event::OffsetSent | Event::Committed | Event::MarkedDone
    )
}

fn check(world: &World) {
    let durable = &world.durable;
    assert_eq!(
        durable.done.sums,
        fold(durable.done.position),
        "state and position are one"
    );
    for (position, key, sum) in &durable.outputs {
        assert_eq!(
            fold(*position).get(key),
            Some(sum),
            "no output counts a record twice"
        );
        let same = durable
            .outputs
            .iter()
            .filter(|of| (of.0, of.1) == (*position, *key));
        assert_eq!(same.count(), 1, "no output comes twice");
    }
    // What a reader sees reaches as far as the receipt, and the store is there or can get there.
    let reach = durable.outputs.iter().map(|of| of.0).max().unwrap_or(0);
    assert_eq!(reach, durable.receipt.1);
    let known = [Some(&durable.done), durable.prepared.as_ref()];
    assert!(
        known
            .into_iter()
            .flatten()
            .any(|entry| entry.receipt() == durable.receipt),
        "the store has what the broker has committed: {world:#?}"
    );
}

/// Lives of one world; more make no new kind of it.
const MOST_LIVES: u8 = 4;

fn successors(world: &World) -> Vec<World> {
    let mut next = Vec::new();
    let act = world.live.step.act();
    match act {
        TransactionAct::Finished => {
            if world.live.position < LOG.len() {
                let mut after = world.clone();
                after.live = read_on(&world.live.entry(), world.live.fence, world.live.stride);
                next.push(after);
            }
        }
        TransactionAct::Rebuild => {
            if world.lives < MOST_LIVES {
                next.push(start(
                    world.durable.clone(),
                    world.lives + 1,
                    world.zombie.clone(),
                ));
            }
        }
        TransactionAct::Prepare
        | TransactionAct::SendOffset
        | TransactionAct::Commit
        | TransactionAct::MarkDone => {
            for event in events(act) {
                // A failed act may have had its effect all the same.
                for happened in [true, false] {
                    let mut after = world.clone();
                    let mut worked = false;
                    if happened {
                        worked = effect(&mut after.durable, &world.live, act, true);
                    }
                    if good(*event) && !worked {
                        continue;
                    }
                    let step = world.live.step.after(*event).unwrap();
                    after.live.step = step;
                    next.push(after);
                }
            }
        }
    }
    if world.lives < MOST_LIVES {
        // A crash; and a pod that was thought dead, whose process goes on where it stood.
        next.push(start(
            world.durable.clone(),
            world.lives + 1,
            world.zombie.clone(),
        ));
        if world.zombie.is_none() {
            let zombie = Some(world.live.clone());
            next.push(start(world.durable.clone(), world.lives + 1, zombie));
        }
    }
    if let Some(zombie) = &world.zombie {
        let act = zombie.step.act();
        for event in events(act) {
            let mut after = world.clone();
            let worked = effect(&mut after.durable, zombie, act, false);
            if good(*event) && !worked {
                continue;
            }
            let mut zombie = zombie.clone();
            zombie.step = zombie.step.after(*event).unwrap();
            // Its next life would read the assignment, which is another pod's.
            after.zombie = (zombie.step != TransactionStep::Abandoned
                && zombie.step != TransactionStep::Done)
                .then_some(zombie);
            next.push(after);
        }
    }
    next
}

#[test]
fn every_record_counts_once_in_state_and_in_committed_outputs_whatever_fails_or_crashes_whenever() {
    let empty = StoredEntry {
        number: 0,
        position: 0,
        sums: Sums::new(),
    };
    let first = start(
        Durable {
            done: empty,
            prepared: None,
            receipt: (0, 0),
            outputs: Vec::new(),
            pending: None,
            fence: 0,
        },
        0,
        None,
    );
    let mut seen = BTreeSet::from([first.clone()]);
    let mut open = vec![first];
    let mut finished = 0;
    let mut steps = BTreeSet::new();
    while let Some(world) = open.pop() {
        check(&world);
        steps.insert(world.live.step.rank());
        if world.live.step == TransactionStep::Done && world.live.position == LOG.len() {
            assert_eq!(world.durable.receipt.1, LOG.len());
            assert_eq!(world.durable.done.sums, fold(LOG.len()));
            finished += 1;
        }
        for next in successors(&world) {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    assert!(finished > 0, "no way leads to the end");
    assert_eq!(
        steps.len(),
        TransactionStep::ALL.len(),
        "every step is reached"
    );
    assert!(
        seen.len() > 1_000,
        "only {} worlds were looked at",
        seen.len()
    );
}

#[test]
fn the_edges_are_these_and_no_others() {
    let expected = "\
| step | act | event | next |
|---|---|---|---|
| Open | Prepare | Prepared | Prepared |
| Open | Prepare | PrepareFailed | Abandoned |
| Prepared | SendOffset | OffsetSent | OffsetSent |
| Prepared | SendOffset | OffsetFailed | Abandoned |
| OffsetSent | Commit | Committed | Committed |
| OffsetSent | Commit | CommitUnknown | Committing |
| OffsetSent | Commit | CommitFailed | Abandoned |
| Committing | Commit | Committed | Committed |
| Committing | Commit | CommitUnknown | Committing |
| Committing | Commit | CommitFailed | Abandoned |
| Committed | MarkDone | MarkedDone | Done |
| Committed | MarkDone | MarkFailed | Abandoned |
";
    assert_eq!(edge_table(), expected);
}

#[test]
fn every_event_that_an_act_can_bring_has_an_edge() {
    for step in TransactionStep::ALL {
        for event in events(step.act()) {
            assert!(step.after(*event).is_ok(), "{step} and {event}");
        }
    }
}
