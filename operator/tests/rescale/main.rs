//! Every world that a rescale can come to, whatever crashes, comes late, is seen too old or is edited in between. What is decided in them is
//! decided by the plan that the operator uses.

#![allow(
    clippy::unwrap_used,
    clippy::struct_excessive_bools,
    clippy::print_stderr,
    reason = "a test fails by panicking, tells what it covered, and a world is made of flags"
)]

mod acts;
mod ends;
mod happens;
mod pods;
mod scope;
mod world;

use std::collections::BTreeSet;
use std::time::Instant;

use rstest::rstest;
use stateright::{Checker, HasDiscoveries, Model};

use crate::happens::{
    CLOSED_BY_ALL, Checked, END_REACHED, ENDS_BEFORE_NEW, GROWN_BY_RULES, ONE_OWNER, REFUSED,
    STATE_FIRST, STATE_KEPT, STOPPED_FOR_GOOD,
};
use crate::scope::{Broken, Scope};

const GROW: Scope = Scope {
    partitions: 2,
    replicas: 1,
    edits: &[(None, 1), (Some(4), 1)],
    exactly_once: true,
    delete_claims: false,
    foreign: None,
    timeouts: false,
    two_leaders: false,
    old_view: false,
    losses: 0,
    deletion: false,
    emptied: false,
    refused: false,
    broken: None,
};
const TWO_PODS: Scope = Scope {
    replicas: 2,
    edits: &[(None, 2), (Some(4), 2)],
    ..GROW
};
const LOST: Scope = Scope {
    losses: 1,
    ..TWO_PODS
};
const UNDONE: Scope = Scope {
    edits: &[(None, 1), (Some(4), 1), (None, 1), (Some(3), 1)],
    ..GROW
};
const UNDONE_LOST: Scope = Scope {
    replicas: 2,
    edits: &[(None, 2), (Some(4), 2), (None, 2), (Some(3), 2)],
    losses: 1,
    ..GROW
};
const FOREIGN: Scope = Scope {
    foreign: Some(4),
    ..GROW
};
const SHRINK: Scope = Scope {
    replicas: 2,
    edits: &[(None, 2), (None, 1)],
    delete_claims: true,
    ..GROW
};
const THERE_AND_BACK: Scope = Scope {
    edits: &[(None, 2), (None, 1), (None, 2)],
    two_leaders: true,
    ..SHRINK
};

fn explore(scope: Scope) {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let checked = Checked::new(scope)
        .checker()
        .threads(threads)
        .spawn_bfs()
        .join();
    let worlds = checked.unique_state_count();
    eprintln!("{worlds} worlds in {:.1?}: {scope:?}", began.elapsed());
    checked.assert_properties();
}

#[rstest]
#[case::a_doubling(Scope { timeouts: true, deletion: true, ..GROW })]
#[case::an_old_view(Scope { old_view: true, ..GROW })]
#[case::an_older_status(Scope { emptied: true, ..GROW })]
#[case::two_to_three(Scope { edits: &[(None, 1), (Some(3), 1)], timeouts: true, emptied: true, ..GROW })]
#[case::out_of_the_escape(Scope { partitions: 7, edits: &[(None, 1), (Some(8), 1)], timeouts: true, ..GROW })]
#[case::two_pods(TWO_PODS)]
#[case::a_pod_that_is_lost(LOST)]
#[case::at_least_once(Scope { exactly_once: false, ..LOST })]
#[case::two_leaders(Scope { two_leaders: true, ..GROW })]
#[case::a_change_of_mind(UNDONE)]
#[case::another_hand(FOREIGN)]
#[case::another_hand_for_no_spec(Scope { edits: &[(None, 1)], ..FOREIGN })]
#[case::a_third_count(Scope { foreign: Some(3), ..GROW })]
#[case::fewer_pods(SHRINK)]
#[case::more_pods(Scope { edits: &[(None, 1), (None, 2)], emptied: true, ..GROW })]
#[case::refused(Scope { refused: true, ..GROW })]
fn a_rescale_is_right(#[case] scope: Scope) {
    explore(scope);
}

/// More of everything at once; this takes hours.
#[rstest]
#[case::a_doubling(Scope { timeouts: true, old_view: true, deletion: true, emptied: true, two_leaders: true, ..GROW })]
#[case::two_pods(Scope { timeouts: true, old_view: true, deletion: true, emptied: true, losses: 2, ..TWO_PODS })]
#[case::at_least_once(Scope { exactly_once: false, old_view: true, losses: 2, emptied: true, ..TWO_PODS })]
#[case::out_of_the_escape(Scope { partitions: 7, replicas: 2, edits: &[(None, 2), (Some(8), 2)], losses: 1, two_leaders: true, ..GROW })]
#[case::a_change_of_mind(Scope { two_leaders: true, ..UNDONE_LOST })]
#[case::another_hand(Scope { replicas: 2, edits: &[(None, 2), (Some(4), 2)], losses: 1, emptied: true, ..FOREIGN })]
#[case::there_and_back(Scope { losses: 1, emptied: true, ..THERE_AND_BACK })]
#[case::an_older_status_between_two(Scope { two_leaders: true, old_view: true, emptied: true, ..GROW })]
#[ignore = "the long form"]
fn at_length(#[case] scope: Scope) {
    explore(scope);
}

#[rstest]
#[case(GROW, Broken::HoldsNotAwaited, GROWN_BY_RULES)]
#[case(UNDONE_LOST, Broken::HoldOfAnyPlan, GROWN_BY_RULES)]
#[case(UNDONE_LOST, Broken::EpochTwice, ONE_OWNER)]
#[case(FOREIGN, Broken::CountsBeforeEnds, ENDS_BEFORE_NEW)]
#[case(Scope { refused: true, ..GROW }, Broken::RefusalOverlooked, REFUSED)]
#[case(GROW, Broken::GrowsUnrecorded, GROWN_BY_RULES)]
#[case(LOST, Broken::SilentTakenForFenced, STOPPED_FOR_GOOD)]
#[case(GROW, Broken::StoresNotAwaited, STATE_FIRST)]
#[case(SHRINK, Broken::EmptyNotAwaited, STATE_KEPT)]
#[case(THERE_AND_BACK, Broken::Forced, STATE_KEPT)]
#[case(Scope { emptied: true, old_view: true, ..GROW }, Broken::OlderStatusWaits, END_REACHED)]
#[case(Scope { emptied: true, ..GROW }, Broken::NotMarked, END_REACHED)]
#[case(GROW, Broken::NotTold, END_REACHED)]
#[case(GROW, Broken::AgreementNotAwaited, CLOSED_BY_ALL)]
fn a_broken_rule_is_noticed(
    #[case] scope: Scope,
    #[case] broken: Broken,
    #[case] property: &'static str,
) {
    let scope = Scope {
        broken: Some(broken),
        ..scope
    };
    let checked = Checked::new(scope)
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
