use std::collections::{BTreeMap, BTreeSet};

use super::*;

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

/// What outlives a crash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Durable {
    store: (usize, Sums),
    group_offset: usize,
    /// Every acknowledged output, in order: the count of records it was made from, and its key
    /// and sum.
    outputs: Vec<(usize, u8, u32)>,
}

/// What does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Live {
    position: usize,
    sums: Sums,
    step: CommitStep,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    durable: Durable,
    live: Live,
}

fn restart(durable: Durable) -> World {
    let live = read_on(durable.store.0, durable.store.1.clone());
    World { durable, live }
}

/// Folds the next interval on top of what is there.
fn read_on(position: usize, mut sums: Sums) -> Live {
    let end = (position + INTERVAL).min(LOG.len());
    for (key, amount) in &LOG[position..end] {
        *sums.entry(*key).or_default() += amount;
    }
    Live {
        position: end,
        sums,
        step: CommitStep::Open,
    }
}

/// What the act of a step does to the world if it ends in `event`, before the caller hears of it.
fn effect(durable: &mut Durable, live: &Live, event: CommitEvent) {
    let outputs = live
        .sums
        .iter()
        .map(|(key, sum)| (live.position, *key, *sum));
    match event {
        CommitEvent::OutputsAcked => durable.outputs.extend(outputs),
        CommitEvent::StateSynced => durable.store = (live.position, live.sums.clone()),
        CommitEvent::OffsetCommitted => durable.group_offset = live.position,
        CommitEvent::OutputsFailed | CommitEvent::StateFailed | CommitEvent::OffsetFailed => {}
    }
}

/// Every event that can come of an act. A failed act may have had its effect all the same.
fn outcomes(act: CommitAct) -> Vec<(CommitEvent, Option<CommitEvent>)> {
    let of = |done: CommitEvent, failed: CommitEvent| {
        vec![(done, Some(done)), (failed, Some(done)), (failed, None)]
    };
    match act {
        CommitAct::FlushOutputs => of(CommitEvent::OutputsAcked, CommitEvent::OutputsFailed),
        CommitAct::SyncState => of(CommitEvent::StateSynced, CommitEvent::StateFailed),
        CommitAct::CommitOffset => of(CommitEvent::OffsetCommitted, CommitEvent::OffsetFailed),
        CommitAct::Done | CommitAct::Rebuild => Vec::new(),
    }
}

fn check(world: &World) {
    let Durable {
        store,
        group_offset,
        outputs,
    } = &world.durable;
    assert_eq!(store.1, fold(store.0), "state and its position are one");
    assert!(
        *group_offset <= store.0,
        "the group never runs ahead of the state"
    );
    for count in (INTERVAL..=store.0).step_by(INTERVAL) {
        for (key, sum) in fold(count) {
            assert!(
                outputs.contains(&(count, key, sum)),
                "results of {count} records are written before the state that has them"
            );
        }
    }
    for (count, key, sum) in outputs {
        assert_eq!(
            fold(*count).get(key),
            Some(sum),
            "no output counts a record twice"
        );
    }
}

/// Successors: every outcome of the next act, and a crash before, within and after it.
fn successors(world: &World) -> Vec<World> {
    let mut next = Vec::new();
    let act = world.live.step.act();
    match act {
        CommitAct::Done => {
            if world.live.position < LOG.len() {
                next.push(World {
                    durable: world.durable.clone(),
                    live: read_on(world.live.position, world.live.sums.clone()),
                });
            }
        }
        CommitAct::Rebuild => next.push(restart(world.durable.clone())),
        CommitAct::FlushOutputs | CommitAct::SyncState | CommitAct::CommitOffset => {
            for (event, happened) in outcomes(act) {
                let mut after = world.clone();
                if let Some(happened) = happened {
                    effect(&mut after.durable, &world.live, happened);
                }
                next.push(restart(after.durable.clone()));
                after.live.step = world.live.step.after(event).unwrap();
                next.push(after);
            }
        }
    }
    next.push(restart(world.durable.clone()));
    // Outputs of the same content written again make no other world, so that repeats of crashes
    // do not make the model endless.
    for world in &mut next {
        world.durable.outputs.sort_unstable();
        world.durable.outputs.dedup();
    }
    next
}

#[test]
fn state_is_never_lost_or_doubled_whatever_fails_or_crashes_whenever() {
    let first = restart(Durable {
        store: (0, Sums::new()),
        group_offset: 0,
        outputs: Vec::new(),
    });
    let mut seen = BTreeSet::from([first.clone()]);
    let mut open = vec![first];
    let mut finished = 0;
    while let Some(world) = open.pop() {
        check(&world);
        if world.live.step == CommitStep::OffsetCommitted && world.live.position == LOG.len() {
            assert_eq!(world.durable.group_offset, LOG.len());
            assert_eq!(world.durable.store.1, fold(LOG.len()));
            finished += 1;
        }
        for next in successors(&world) {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    assert!(finished > 0, "no way leads to the end");
    assert!(seen.len() > 50, "only {} worlds were looked at", seen.len());
}

#[test]
fn the_edges_are_these_and_no_others() {
    let expected = "\
| step | act | event | next |
|---|---|---|---|
| Open | FlushOutputs | OutputsAcked | OutputsAcked |
| Open | FlushOutputs | OutputsFailed | Abandoned |
| OutputsAcked | SyncState | StateSynced | StateSynced |
| OutputsAcked | SyncState | StateFailed | Abandoned |
| StateSynced | CommitOffset | OffsetCommitted | OffsetCommitted |
| StateSynced | CommitOffset | OffsetFailed | StateSynced |
";
    assert_eq!(edge_table(), expected);
}

#[test]
fn every_event_that_an_act_can_bring_has_an_edge() {
    for step in CommitStep::ALL {
        for (event, _) in outcomes(step.act()) {
            assert!(step.after(event).is_ok(), "{step} and {event}");
        }
    }
}
