//! What a change would do, without doing any of it.

use std::collections::BTreeMap;

use super::checks::{refusals, warnings};
use super::movement::{Move, moves};
use super::refusal::{Refusal, Warning};
use super::request::plan;
use super::target::target;
use super::world::World;

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DryRun {
    /// Topics that would be grown: their counts before and after.
    pub topics: BTreeMap<String, (i32, i32)>,
    pub moves: Vec<Move>,
    /// Bytes that change their pod.
    pub bytes_to_move: u64,
    /// Milliseconds in which no task would run, if nothing is copied ahead: the most that one pod takes in, at the rate given.
    pub pause_ms: u64,
    pub refusals: Vec<Refusal>,
    pub warnings: Vec<Warning>,
}

/// What would follow from the spec. `bytes_per_second` is the rate at which one pod takes in state.
#[must_use]
pub fn dry_run(world: &World, bytes_per_second: u64) -> DryRun {
    let Some(layout) = &world.layout else {
        return DryRun::default();
    };
    let target = match target(world, layout) {
        Ok(Some(target)) => target,
        Ok(None) => return DryRun::default(),
        Err(refusals) => {
            return DryRun {
                refusals,
                ..DryRun::default()
            };
        }
    };
    let plan = plan(world, layout, &target);
    let moves = moves(world, &plan);
    let mut taken_in: BTreeMap<i32, u64> = BTreeMap::new();
    for of in moves.iter().filter(|of| of.old_pod != of.new_pod) {
        let sum = taken_in.entry(of.new_pod).or_default();
        *sum = sum.saturating_add(of.bytes);
    }
    let most = taken_in.values().max().copied().unwrap_or_default();
    let mut refusals = refusals(world, &plan);
    if let Some(earlier) = world.rescale.as_ref().filter(|of| !of.over()) {
        refusals.push(Refusal::EarlierPlan {
            epoch: earlier.epoch,
            step: earlier.step.to_string(),
        });
    }
    DryRun {
        topics: plan
            .topics
            .iter()
            .filter(|of| !of.foreign)
            .map(|of| (of.name.clone(), (of.from, of.to)))
            .collect(),
        bytes_to_move: taken_in.values().fold(0, |sum, of| sum.saturating_add(*of)),
        pause_ms: most.saturating_mul(1000) / bytes_per_second.max(1),
        refusals,
        warnings: warnings(world, &plan),
        moves,
    }
}
