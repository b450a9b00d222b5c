//! Commits, checkpoints and crashes at any moment: what counts in the end is what a plain reading
//! of the rules gives.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod common;

use common::rules::*;
use common::*;
use proptest::prelude::*;
use turbine_engine::Pipeline;

/// What happens after a batch.
#[derive(Debug, Clone, Copy)]
enum Event {
    Nothing,
    /// Closed panes stay where they are for now.
    NoDrain,
    /// Some of them.
    PartDrain,
    Commit,
    /// Committed with closed panes that were not, or not all, handed out.
    PartCommit,
    Checkpoint,
    PartCheckpoint,
    /// Memory is cut to so many hundredths, after a checkpoint or not.
    Evict(usize),
    Warm(usize),
    Crash,
    /// After which nothing is in memory.
    ColdCrash,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Nothing),
        2 => Just(Event::NoDrain),
        2 => Just(Event::PartDrain),
        4 => Just(Event::Commit),
        2 => Just(Event::PartCommit),
        2 => Just(Event::Checkpoint),
        2 => Just(Event::PartCheckpoint),
        4 => (0..100_usize).prop_map(Event::Evict),
        1 => (0..200_usize).prop_map(Event::Warm),
        2 => Just(Event::Crash),
        2 => Just(Event::ColdCrash),
    ]
}

/// A batch of so many rows, calls that hand out so many panes, and what happens then.
type Step = (usize, usize, Event);

/// What counts after the log was read in these steps: what was committed. After a crash reading
/// goes on behind the last commit.
fn disturbed(log: &[Row], steps: &[Step]) -> Seen {
    let mut store = Store::default();
    let mut pipeline = Pipeline::new(two_windows()).unwrap();
    store.commit(&mut pipeline);
    let (mut counted, mut since) = (Seen::default(), Seen::default());
    let (mut committed, mut next) = (0, 0);
    let mut steps = steps.iter().cycle().enumerate();
    while committed < log.len() {
        let (at, (size, max_panes, event)) = steps.next().unwrap();
        let end = (next + size).min(log.len());
        let outcome = process_cold(&mut pipeline, &log[next..end], &store);
        since.add(&outcome, next);
        next = end;
        // A log always comes to its end, however many crashes there are.
        let event = if next == log.len() || at >= 60 && at % 2 == 0 {
            Event::Commit
        } else {
            *event
        };
        match event {
            Event::NoDrain | Event::Evict(_) | Event::Warm(_) => {}
            Event::PartDrain | Event::PartCommit | Event::PartCheckpoint => {
                since.drain_some(&mut pipeline, *max_panes, &store);
            }
            Event::Nothing
            | Event::Commit
            | Event::Checkpoint
            | Event::Crash
            | Event::ColdCrash => {
                while pipeline.has_closed() {
                    since.drain_some(&mut pipeline, *max_panes, &store);
                }
            }
        }
        match event {
            Event::Nothing | Event::NoDrain | Event::PartDrain => continue,
            Event::Evict(percent) => {
                let to_bytes = pipeline.live_bytes() * percent / 100;
                let _ = pipeline.evict(to_bytes);
                continue;
            }
            Event::Warm(percent) => {
                let to_bytes = pipeline.live_bytes() * percent / 100;
                let _ = pipeline.warm(to_bytes, &store).unwrap();
                continue;
            }
            Event::Commit | Event::PartCommit => store.commit(&mut pipeline),
            Event::Checkpoint | Event::PartCheckpoint => {
                store.checkpoint(&mut pipeline);
                let _ = pipeline.evict(pipeline.live_bytes() * (at % 4) / 3);
            }
            Event::Crash | Event::ColdCrash => {
                pipeline = match event {
                    Event::ColdCrash => store.restore_cold(two_windows()),
                    _ => store.restore(two_windows()),
                };
                since = Seen::default();
                next = committed;
                continue;
            }
        }
        counted.append(std::mem::take(&mut since));
        committed = next;
    }
    counted
}

fn undisturbed(log: &[Row]) -> Seen {
    let mut pipeline = Pipeline::new(two_windows()).unwrap();
    let mut seen = Seen::default();
    let outcome = process(&mut pipeline, log);
    seen.add(&outcome, 0);
    seen.drain(&mut pipeline);
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn crashes_change_no_result(
        log in rows(300),
        steps in prop::collection::vec((1..40_usize, 1..12_usize, event()), 1..40),
    ) {
        let seen = disturbed(&log, &steps);
        assert_same(&seen, &undisturbed(&log), "against an undisturbed run");
        assert_same(&sorted(seen), &sorted(oracle(&log)), "against the rules");
    }
}
