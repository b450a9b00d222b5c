//! Every world that a task, its volume, the broker and another life of the task can come to, whatever fails, crashes or
//! comes back whenever. What is decided in them is decided by the crate's own functions.

#![allow(
    clippy::unwrap_used,
    clippy::struct_excessive_bools,
    clippy::print_stderr,
    reason = "a test fails by panicking, tells what it covered, and a world is made of flags"
)]

mod broker;
mod checked;
mod guard;
mod names;
mod properties;
mod start;
mod volume;
mod world;

use std::collections::BTreeSet;
use std::time::Instant;

use rstest::rstest;
use stateright::{Checker, HasDiscoveries, Model};
use turbine_protocol::start::{Guarantee, OnCrashRecovery};

use crate::checked::Scope;
use crate::guard::Broken;
use crate::properties::{
    BROKER_DECIDES, GAP_BOUNDED, NOTHING_MISSING, OFFSET_AFTER_STATE, OUTPUTS_BEFORE_STATE,
    OUTPUTS_ONCE, OVERTAKEN_STOPS, REFUSED_FOR_CAUSE, STATE_IS_ITS_POSITION,
    STATE_IS_THE_COMMITTED,
};

const EXACTLY_ONCE: Scope = Scope {
    guarantee: Guarantee::ExactlyOnce,
    records: 2,
    starts: 3,
    zombie: false,
    relayout: false,
    harm: false,
    timeouts: false,
    roll: false,
    recovery: [OnCrashRecovery::Stop; 2],
    bound: None,
    remembers: false,
    smooth: false,
    broken: None,
};
const AT_LEAST_ONCE: Scope = Scope {
    guarantee: Guarantee::AtLeastOnce,
    ..EXACTLY_ONCE
};
const ZOMBIE: Scope = Scope {
    zombie: true,
    ..EXACTLY_ONCE
};
const HARM: Scope = Scope {
    harm: true,
    ..EXACTLY_ONCE
};
const ROLL: Scope = Scope {
    roll: true,
    ..EXACTLY_ONCE
};
const RELAYOUT: Scope = Scope {
    relayout: true,
    ..EXACTLY_ONCE
};

/// The older volume is that of a life that comes back.
const REPLAY: Scope = Scope {
    recovery: [OnCrashRecovery::Replay; 2],
    ..ZOMBIE
};
/// Something is left to commit behind what is replayed.
const LONGER_REPLAY: Scope = Scope {
    records: 3,
    ..REPLAY
};
const ACCEPT: Scope = Scope {
    recovery: [OnCrashRecovery::Accept; 2],
    ..ZOMBIE
};
/// One life goes on behind what it lacks, and the other is to come by the log to where that is.
const HISTORIES: Scope = Scope {
    records: 3,
    smooth: true,
    recovery: [OnCrashRecovery::Accept, OnCrashRecovery::Replay],
    ..ZOMBIE
};
const BOUND: Scope = Scope {
    bound: Some(0),
    ..ACCEPT
};
const REMEMBERS: Scope = Scope {
    remembers: true,
    ..REPLAY
};
const OLD_ASSIGNMENT: Scope = Scope {
    zombie: true,
    records: 1,
    ..RELAYOUT
};

fn explore(scope: Scope) {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let checked = scope.checker().threads(threads).spawn_bfs().join();
    let worlds = checked.unique_state_count();
    eprintln!("{worlds} worlds in {:.1?}: {scope:?}", began.elapsed());
    checked.assert_properties();
}

#[rstest]
#[case::crashes(Scope { records: 3, timeouts: true, ..EXACTLY_ONCE })]
#[case::a_journal_that_rolls(ROLL)]
#[case::a_life_that_comes_back(ZOMBIE)]
#[case::an_older_volume_that_is_replayed(REPLAY)]
#[case::an_older_volume_that_is_gone_behind(ACCEPT)]
#[case::an_older_volume_that_lacks_too_much(BOUND)]
#[case::a_process_that_was_overtaken(REMEMBERS)]
#[case::a_life_that_comes_back_from_another_history(HISTORIES)]
#[case::a_later_epoch(OLD_ASSIGNMENT)]
#[case::losses(HARM)]
fn exactly_once_every_record_counts_once(#[case] scope: Scope) {
    explore(scope);
}

#[rstest]
#[case::crashes(Scope { records: 3, starts: 4, roll: true, ..AT_LEAST_ONCE })]
#[case::a_life_that_comes_back(Scope { zombie: true, relayout: true, ..AT_LEAST_ONCE })]
#[case::losses(Scope { harm: true, relayout: true, ..AT_LEAST_ONCE })]
fn at_least_once_state_is_never_lost_or_doubled(#[case] scope: Scope) {
    explore(scope);
}

/// More of everything at once; this takes hours.
#[rstest]
#[case::crashes(Scope { records: 4, starts: 5, timeouts: true, roll: true, ..EXACTLY_ONCE })]
#[case::all(Scope { zombie: true, relayout: true, harm: true, timeouts: true, roll: true, ..EXACTLY_ONCE })]
#[case::zombie(Scope { records: 3, starts: 4, ..ZOMBIE })]
#[case::replay(Scope { starts: 4, ..REPLAY })]
#[case::accept(Scope { starts: 4, ..ACCEPT })]
#[case::histories(Scope { smooth: false, ..HISTORIES })]
#[case::at_least_once(Scope { records: 4, starts: 5, zombie: true, relayout: true, harm: true, roll: true, ..AT_LEAST_ONCE })]
#[ignore = "the long form"]
fn at_length(#[case] scope: Scope) {
    explore(scope);
}

#[rstest]
#[case(EXACTLY_ONCE, Broken::PreparedNotSynced, REFUSED_FOR_CAUSE)]
#[case(EXACTLY_ONCE, Broken::CancelNotWritten, NOTHING_MISSING)]
#[case(ROLL, Broken::RollNotSynced, NOTHING_MISSING)]
#[case(ROLL, Broken::ReleasedTooEarly, NOTHING_MISSING)]
#[case(EXACTLY_ONCE, Broken::CheckpointTakesUndecided, REFUSED_FOR_CAUSE)]
#[case(RELAYOUT, Broken::RecordsOfAnotherLife, STATE_IS_ITS_POSITION)]
#[case(ZOMBIE, Broken::ReceiptByNumber, OUTPUTS_ONCE)]
#[case(HARM, Broken::OffsetNotCompared, BROKER_DECIDES)]
#[case(HARM, Broken::NoReceiptNeeded, OUTPUTS_ONCE)]
#[case(OLD_ASSIGNMENT, Broken::OldAssignmentRuns, OUTPUTS_ONCE)]
#[case(EXACTLY_ONCE, Broken::DoneWithoutReceipt, STATE_IS_THE_COMMITTED)]
#[case(ZOMBIE, Broken::ReadBeforeTakeOver, OUTPUTS_ONCE)]
#[case(ZOMBIE, Broken::NoTakeOver, OUTPUTS_ONCE)]
#[case(EXACTLY_ONCE, Broken::ReadNotStable, OUTPUTS_ONCE)]
#[case(HARM, Broken::EmptyForLost, STATE_IS_ITS_POSITION)]
#[case(EXACTLY_ONCE, Broken::AbortAfterCommit, OUTPUTS_ONCE)]
#[case(EXACTLY_ONCE, Broken::UnknownTakenForCommitted, OUTPUTS_ONCE)]
#[case(LONGER_REPLAY, Broken::ReplayWritesOutputs, OUTPUTS_ONCE)]
#[case(REPLAY, Broken::ReplayNotAsOne, STATE_IS_ITS_POSITION)]
#[case(REPLAY, Broken::ReplayTakesNoNumber, BROKER_DECIDES)]
#[case(LONGER_REPLAY, Broken::RecoveredNotDurable, NOTHING_MISSING)]
#[case(LONGER_REPLAY, Broken::FormerRecordsKept, STATE_IS_ITS_POSITION)]
#[case(REPLAY, Broken::AcceptedUnasked, STATE_IS_ITS_POSITION)]
#[case(ACCEPT, Broken::AcceptedFromTheStore, BROKER_DECIDES)]
#[case(HISTORIES, Broken::HistoryNotCompared, BROKER_DECIDES)]
#[case(BOUND, Broken::GapNotBounded, GAP_BOUNDED)]
#[case(REMEMBERS, Broken::OvertakenForgotten, OVERTAKEN_STOPS)]
#[case(AT_LEAST_ONCE, Broken::OffsetBeforeSync, OFFSET_AFTER_STATE)]
#[case(AT_LEAST_ONCE, Broken::OutputsNotAwaited, OUTPUTS_BEFORE_STATE)]
fn a_broken_rule_is_noticed(
    #[case] scope: Scope,
    #[case] broken: Broken,
    #[case] property: &'static str,
) {
    let scope = Scope {
        broken: Some(broken),
        ..scope
    };
    let checked = scope
        .checker()
        .finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property])))
        .spawn_bfs()
        .join();
    let example = checked
        .discovery(property)
        .map(stateright::Path::into_actions);
    eprintln!("{broken:?}: {example:?}");
    assert!(example.is_some(), "{property}");
}

/// The entry that reuses the number is synced after it in the same segment, and a segment is synced when it is closed.
#[test]
fn a_cancel_record_is_durable_before_its_number_is_even_if_nobody_waits_for_it() {
    explore(Scope {
        broken: Some(Broken::CancelNotSynced),
        ..ROLL
    });
}
