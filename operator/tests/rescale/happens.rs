//! What can happen, and what must hold.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use stateright::{Model, Property};
use turbine_crds::status::{RescaleStatus, RescaleStep};
use turbine_operator::app::plan::rescale::{Act, Next};

use crate::ends::{one_owner, one_record};
use crate::scope::{Broken, Scope};
use crate::world::{Operator, State, Status, Up, Wrong};

pub(crate) const GROWN_BY_RULES: &str =
    "a topic grows only after the checks, every hold and the record of the ends";
pub(crate) const ENDS_BEFORE_NEW: &str = "no record of the new placement lies in front of the ends";
pub(crate) const STOPPED_FOR_GOOD: &str = "no old task commits after its stop is on record";
pub(crate) const STATE_FIRST: &str = "no task runs without its state";
pub(crate) const STATE_KEPT: &str = "no pod and no volume goes while it has state";
pub(crate) const ONE_OWNER: &str = "a key group has one owner";
const ONE_RECORD: &str = "what workers and volumes know under one number is one record";
pub(crate) const CLOSED_BY_ALL: &str =
    "an end of the old placement is on record only once all its readers have agreed to it";
pub(crate) const REFUSED: &str = "what is refused is not begun";
pub(crate) const END_REACHED: &str = "without further faults the end is reached";

/// Most ticks of the clock: producers refresh within the first.
const TICKS: u8 = 2;

pub(crate) struct Checked {
    pub(crate) scope: Scope,
    /// Worlds from which the end was reached.
    pub(crate) ends: Mutex<HashSet<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happens {
    Look(usize),
    LookAtOldView(usize),
    Ask(usize),
    Act(usize),
    /// The call times out; it may be carried out later.
    TimeOut(usize),
    Late,
    Crash(usize),
    Edit,
    Delete,
    Empty,
    /// The status becomes what it was before, from a backup.
    Restore,
    Misplaced,
    ForeignGrowth,
    CountSpreads,
    Produce,
    Lose(i32),
    Back(i32),
    Work(i32),
    Follow(i32),
    Controller,
    Tick,
}

impl Checked {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            scope,
            ends: Mutex::default(),
        }
    }

    pub(crate) fn after(&self, state: &State, happens: Happens) -> Option<State> {
        let scope = &self.scope;
        let mut next = state.clone();
        let changed = match happens {
            Happens::Look(at) => match state.operators[at] {
                Operator::Idle if scope.foreign.is_none() => {
                    let (end, counts) = (state.topic.end, state.topic.counts);
                    self.look(&mut next, at, &state.status, end, counts)
                }
                Operator::Asked(end, counts) => {
                    if scope.broken == Some(Broken::CountsBeforeEnds) {
                        self.look(&mut next, at, &state.status, state.topic.end, counts)
                    } else {
                        self.look(&mut next, at, &state.status, end, state.topic.counts)
                    }
                }
                Operator::Idle | Operator::Records(..) | Operator::Acts(_) => false,
            },
            Happens::LookAtOldView(at) => match (&state.operators[at], &state.former) {
                (Operator::Idle, Some(former)) if scope.old_view => {
                    let (end, counts) = (state.topic.end, state.topic.counts);
                    self.look(&mut next, at, former, end, counts)
                }
                (
                    Operator::Idle
                    | Operator::Asked(..)
                    | Operator::Records(..)
                    | Operator::Acts(_),
                    _,
                ) => false,
            },
            Happens::Ask(at) => {
                let idle = state.operators[at] == Operator::Idle;
                next.operators[at] = Operator::Asked(state.topic.end, state.topic.counts);
                idle && scope.foreign.is_some()
            }
            Happens::Act(at) => self.act(&mut next, at),
            Happens::TimeOut(at) => match &mut next.operators[at] {
                Operator::Acts(acts) if scope.timeouts => match acts.first().cloned() {
                    Some(Act::Grow { to, epoch, .. }) if next.topic.late.is_none() => {
                        acts.remove(0);
                        next.topic.late = Some((to, epoch));
                        if let Operator::Acts(acts) = &next.operators[at]
                            && acts.is_empty()
                        {
                            next.operators[at] = Operator::Idle;
                        }
                        true
                    }
                    Some(_) | None => false,
                },
                Operator::Acts(_)
                | Operator::Idle
                | Operator::Asked(..)
                | Operator::Records(..) => false,
            },
            Happens::Late => next.topic.late.take().is_some_and(|(to, epoch)| {
                next.grow(to, epoch);
                true
            }),
            Happens::Crash(at) => {
                next.operators[at] = Operator::Idle;
                true
            }
            Happens::Edit => {
                next.edits += 1;
                usize::from(next.edits) < scope.edits.len()
            }
            Happens::Delete => {
                next.deleting = true;
                scope.deletion
            }
            Happens::Empty => {
                next.emptied = true;
                next.status.version += 1;
                (next.status.layout, next.status.rescale) = (None, None);
                scope.emptied && !state.emptied && state.status.rescale.is_some()
            }
            Happens::Restore => match &state.former {
                Some(former) if scope.emptied && !state.emptied => {
                    next.emptied = true;
                    next.status.version += 1;
                    next.status.layout.clone_from(&former.layout);
                    next.status.rescale.clone_from(&former.rescale);
                    true
                }
                Some(_) | None => false,
            },
            Happens::Misplaced => {
                next.misplaced = true;
                scope.refused
            }
            Happens::ForeignGrowth => match scope.foreign {
                Some(to) if !state.topic.foreign && state.topic.counts[0] < to => {
                    next.topic.foreign = true;
                    next.topic.counts[0] = to;
                    next.topic.first_new = None;
                    true
                }
                Some(_) | None => false,
            },
            Happens::CountSpreads => {
                next.topic.counts[1] = next.topic.counts[0];
                true
            }
            Happens::Produce => {
                let grown = state.topic.counts[0] > scope.partitions;
                if grown {
                    next.topic.first_new.get_or_insert(state.topic.end);
                }
                next.topic.end += 1;
                // One record before the growth and one after it tell all there is to tell.
                state.topic.end < 1 || (grown && state.topic.first_new.is_none())
            }
            Happens::Lose(at) => next.pods.get_mut(&at).is_some_and(|pod| {
                let answered = pod.up == Up::Answers;
                pod.up = Up::Unreachable;
                next.losses += 1;
                answered && state.losses < scope.losses
            }),
            Happens::Back(at) => next.pods.get_mut(&at).is_some_and(|pod| {
                let lost = pod.up == Up::Unreachable;
                pod.up = Up::Answers;
                lost
            }),
            Happens::Work(at) => next.work(scope, at),
            Happens::Follow(at) => next.follow(scope, at),
            Happens::Controller => next.controller(),
            Happens::Tick => {
                next.ticks += 1;
                let waits = state
                    .status
                    .rescale
                    .as_ref()
                    .is_some_and(|plan| plan.step == RescaleStep::OldStateReleased);
                waits && state.ticks < TICKS
            }
        };
        (changed && next != *state).then_some(next)
    }

    fn look(
        &self,
        next: &mut State,
        at: usize,
        status: &Status,
        end: i64,
        counts: [i32; 2],
    ) -> bool {
        let world = next.seen(&self.scope, status, end, counts);
        next.operators[at] = match self.scope.decide(world) {
            Next::Rest | Next::Refuse(_) | Next::Wait(_) => Operator::Idle,
            Next::Record(journal) => {
                if journal.rescale.step == RescaleStep::Growing && next.misplaced {
                    next.wrongs.insert(Wrong::BegunThoughRefused);
                }
                if closes_alone(next, &journal.rescale) {
                    next.wrongs.insert(Wrong::ClosedAlone);
                }
                Operator::Records(status.version, Arc::new(*journal))
            }
            Next::Act(acts) if acts.is_empty() => Operator::Idle,
            Next::Act(acts) => Operator::Acts(acts),
        };
        true
    }

    fn act(&self, next: &mut State, at: usize) -> bool {
        match std::mem::replace(&mut next.operators[at], Operator::Idle) {
            Operator::Idle | Operator::Asked(..) => false,
            Operator::Records(version, journal) => {
                if next.status.version == version {
                    let status = Status {
                        version: version + 1,
                        layout: Some(Arc::new(journal.layout.clone())),
                        rescale: Some(Arc::new(journal.rescale.clone())),
                    };
                    let former = std::mem::replace(&mut next.status, status);
                    next.former = self.scope.old_view.then_some(former);
                }
                true
            }
            Operator::Acts(mut acts) => {
                let act = acts.remove(0);
                next.carry_out(&act, self.scope.broken == Some(Broken::Forced));
                if !acts.is_empty() {
                    next.operators[at] = Operator::Acts(acts);
                }
                true
            }
        }
    }
}

/// Whether an end is about to be put on record that a worker has not heard of, or heard of otherwise.
fn closes_alone(state: &State, plan: &RescaleStatus) -> bool {
    let Some(topic) = plan.topics.first() else {
        return false;
    };
    let known = |old: usize, end: i64| {
        state
            .pods
            .values()
            .filter(|pod| !pod.tasks.is_empty())
            .all(|pod| {
                let heard = pod.heard.as_ref().and_then(|of| of.topics.first());
                heard.is_some_and(|of| {
                    of.closes.get(old) == Some(&end) || of.proposed.get(old) == Some(&end)
                })
            })
    };
    let closes = topic
        .closes
        .iter()
        .enumerate()
        .filter(|(_, end)| **end >= 0);
    let fresh = plan.step == RescaleStep::OldStateReleased;
    fresh && closes.into_iter().any(|(old, end)| !known(old, *end))
}

impl Model for Checked {
    type State = State;
    type Action = Happens;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.scope)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Happens>) {
        let operators = if self.scope.two_leaders { 2 } else { 1 };
        for at in 0..operators {
            actions.extend([
                Happens::Look(at),
                Happens::Ask(at),
                Happens::Act(at),
                Happens::TimeOut(at),
                Happens::Crash(at),
            ]);
            if self.scope.old_view {
                actions.push(Happens::LookAtOldView(at));
            }
        }
        actions.extend([
            Happens::Late,
            Happens::Edit,
            Happens::Delete,
            Happens::Empty,
            Happens::Restore,
            Happens::Misplaced,
            Happens::ForeignGrowth,
            Happens::CountSpreads,
            Happens::Produce,
            Happens::Controller,
            Happens::Tick,
        ]);
        for pod in state.pods.keys() {
            actions.extend([
                Happens::Work(*pod),
                Happens::Follow(*pod),
                Happens::Lose(*pod),
                Happens::Back(*pod),
            ]);
        }
    }

    fn next_state(&self, state: &State, action: Happens) -> Option<State> {
        self.after(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(GROWN_BY_RULES, |_, state: &State| {
                !state.wrongs.contains(&Wrong::GrewTooEarly)
            }),
            Property::always(STOPPED_FOR_GOOD, |_, state: &State| {
                !state.wrongs.contains(&Wrong::CommittedAfterTheStop)
            }),
            Property::always(STATE_FIRST, |_, state: &State| {
                !state.wrongs.contains(&Wrong::StartedWithoutState)
            }),
            Property::always(STATE_KEPT, |_, state: &State| {
                !state.wrongs.contains(&Wrong::PodWentWithState)
            }),
            Property::always(CLOSED_BY_ALL, |_, state: &State| {
                !state.wrongs.contains(&Wrong::ClosedAlone)
            }),
            Property::always(ENDS_BEFORE_NEW, |_, state: &State| {
                let plan = state.status.rescale.as_ref();
                let topics = plan.into_iter().flat_map(|plan| &plan.topics);
                // Before this plan's growth records of the new placement are those of an earlier one.
                let grown = topics.filter(|of| state.topic.counts[0] >= of.to);
                grown
                    .flat_map(|of| &of.ends)
                    .all(|end| state.topic.first_new.is_none_or(|new| *end <= new))
            }),
            Property::always(REFUSED, |_, state: &State| {
                !state.wrongs.contains(&Wrong::BegunThoughRefused)
            }),
            Property::always(ONE_OWNER, one_owner),
            Property::always(ONE_RECORD, one_record),
            Property::always(END_REACHED, |model: &Checked, state: &State| {
                model.ends(state)
            }),
        ]
    }
}
