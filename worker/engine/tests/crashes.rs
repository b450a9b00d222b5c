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
    Commit,
    Checkpoint,
    Crash,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Nothing),
        2 => Just(Event::NoDrain),
        4 => Just(Event::Commit),
        2 => Just(Event::Checkpoint),
        3 => Just(Event::Crash),
    ]
}

/// What counts after the log was read with these batches and events: what was committed. After
/// a crash reading goes on behind the last commit.
fn disturbed(log: &[Row], steps: &[(usize, Event)]) -> Seen {
    let mut store = Store::default();
    let mut pipeline = Pipeline::new(two_windows()).unwrap();
    store.commit(&mut pipeline);
    let (mut counted, mut since) = (Seen::default(), Seen::default());
    let (mut committed, mut next) = (0, 0);
    let mut steps = steps.iter().cycle().enumerate();
    while committed < log.len() {
        let (at, (size, event)) = steps.next().unwrap();
        let end = (next + size).min(log.len());
        let outcome = process(&mut pipeline, &log[next..end]);
        since.add(&outcome, next);
        next = end;
        // A log always comes to its end, however many crashes there are.
        let event = match event {
            Event::Crash if at >= 40 => Event::Commit,
            Event::Nothing | Event::NoDrain if next == log.len() => Event::Commit,
            other => *other,
        };
        if !matches!(event, Event::NoDrain) {
            since.drain(&mut pipeline);
        }
        match event {
            Event::Nothing | Event::NoDrain => continue,
            Event::Commit => store.commit(&mut pipeline),
            Event::Checkpoint => store.checkpoint(&mut pipeline),
            Event::Crash => {
                pipeline = store.restore(two_windows());
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
        steps in prop::collection::vec((1..40_usize, event()), 1..40),
    ) {
        let seen = disturbed(&log, &steps);
        assert_same(&seen, &undisturbed(&log), "against an undisturbed run");
        assert_same(&sorted(seen), &sorted(oracle(&log)), "against the rules");
    }
}
