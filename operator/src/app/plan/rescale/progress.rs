//! What is shown of a plan: what it waits for, how far its tasks are, and what the condition `RescaleBlocked` says.

use turbine_crds::status::{RescaleStatus, RescaleStep, RescaleTask};
use turbine_protocol::rescale::Closing;

use super::movement::word;
use super::next::Next;
use super::refusal;
use super::target::asked;
use super::world::{TaskWord, World};

/// Tasks that the status names.
const MOST_TASKS: usize = 100;

/// The record with what is only shown filled in. Nothing is decided from it, so it is written as seldom as the writer likes.
#[must_use]
pub fn shown(world: &World, plan: &RescaleStatus, next: &Next) -> RescaleStatus {
    let waits = !plan.over() && asks_otherwise(world, plan);
    RescaleStatus {
        waiting_generation: waits.then_some(world.wanted.generation),
        blocked_by: match next {
            Next::Wait(wait) => Some(wait.to_string()),
            Next::Refuse(refusals) => Some(refusal::list(refusals)),
            Next::Rest | Next::Record(_) | Next::Act(_) => None,
        },
        tasks: tasks(world, plan),
        ..plan.durable()
    }
}

/// Reason and words of the condition `RescaleBlocked`; `None`: nothing is in the way.
#[must_use]
pub fn blocked(world: &World, next: &Next) -> Option<(&'static str, String)> {
    let refused = |refusals: &[refusal::Refusal]| {
        let first = refusals.first()?;
        Some((first.reason(), refusal::list(refusals)))
    };
    let waiting = world.rescale.as_ref().filter(|plan| {
        plan.step >= RescaleStep::Growing && !plan.over() && asks_otherwise(world, plan)
    });
    match next {
        Next::Refuse(refusals) | Next::Wait(super::Wait::Refused(refusals)) => refused(refusals),
        Next::Wait(wait) if wait.person_must_act() => Some((wait.reason(), wait.to_string())),
        Next::Rest | Next::Record(_) | Next::Act(_) | Next::Wait(_) => waiting.map(|plan| {
            let words = format!(
                "generation {} waits: the rescale of generation {} (epoch {}) is at {} and cannot be taken back, since a topic cannot shrink. It gets \
                 a plan of its own once that has settled",
                world.wanted.generation, plan.generation, plan.epoch, plan.step
            );
            ("NewerSpecWaits", words)
        }),
    }
}

/// Whether the spec of today asks for something else than the plan.
fn asks_otherwise(world: &World, plan: &RescaleStatus) -> bool {
    world.wanted.replicas != plan.to_replicas
        || plan.topics.iter().any(|of| {
            asked(&world.wanted, &of.name)
                .is_ok_and(|count| count.is_some_and(|count| count != of.to))
        })
}

fn tasks(world: &World, plan: &RescaleStatus) -> Vec<RescaleTask> {
    let tasks = plan.subscriptions.iter().flat_map(|of| {
        (0..).zip(&of.pods).filter_map(|(partition, pod)| {
            let word = word(world, of, partition, *pod)?;
            let open_tails = open_tails(partition, word);
            let moving = plan.step < RescaleStep::StateMoved && word.bytes_to_move > 0;
            (moving || open_tails > 0).then(|| progress(&of.name, partition, word, open_tails))
        })
    });
    tasks.take(MOST_TASKS).collect()
}

/// Old partitions other than its own whose end is not known to it yet.
fn open_tails(partition: i32, word: &TaskWord) -> usize {
    let tails = word.closing.iter().filter(|(old, _)| **old != partition);
    tails
        .filter(|(_, closing)| !matches!(closing, Closing::Closed(_)))
        .count()
}

fn progress(subscription: &str, partition: i32, word: &TaskWord, open_tails: usize) -> RescaleTask {
    let bytes = |bytes: u64| i64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    RescaleTask {
        subscription: subscription.to_owned(),
        partition,
        bytes_to_move: bytes(word.bytes_to_move),
        bytes_moved: bytes(word.bytes_moved),
        open_tails: i32::try_from(open_tails).ok().filter(|open| *open > 0),
        blocked_by: word.blocked_by.clone(),
    }
}
