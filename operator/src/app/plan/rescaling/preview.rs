//! The answer to what a change of the layout would do.

use std::collections::BTreeMap;

use turbine_crds::status::{PREVIEW, PreviewMove, PreviewRequest, PreviewTopic, RescalePreview};

use super::super::rescale::{DryRun, World, dry_run};
use crate::app::seen::Seen;

/// Bytes per second that a pod takes in, for the estimate of the pause: below what a network of 1 Gbit/s carries.
const MOVED_PER_SECOND: u64 = 100_000_000;
/// Moves that the status names.
const MOST_MOVES: usize = 100;

/// What is asked; `Err` if it cannot be read.
pub(super) fn request(seen: &Seen) -> Option<Result<PreviewRequest, String>> {
    let text = seen.app.metadata.annotations.as_ref()?.get(PREVIEW)?;
    Some(serde_json::from_str(text).map_err(|error| {
        format!("the annotation {PREVIEW} cannot be read ({error}): it takes {{\"id\": \"...\", \"partitions\": {{\"SUBSCRIPTION\": N}}, \"replicas\": N}}")
    }))
}

/// What would follow from the request on top of the spec.
pub(super) fn preview(
    request: Result<PreviewRequest, String>,
    world: Option<&World>,
    other_apps: &[String],
) -> RescalePreview {
    let refused = |id: String, why: String| RescalePreview {
        id,
        refusals: vec![why],
        ..RescalePreview::default()
    };
    let request = match request {
        Ok(request) => request,
        Err(why) => return refused(String::new(), why),
    };
    let Some(world) = world else {
        let why = "the workers that run cannot change their layout, or do not answer all";
        return refused(request.id, why.to_owned());
    };
    let mut asked = world.clone();
    if let Some(replicas) = request.replicas {
        asked.wanted.replicas = replicas;
    }
    for (name, count) in &request.partitions {
        let subscriptions = &mut asked.wanted.subscriptions;
        let Some(of) = subscriptions.iter_mut().find(|of| of.name == *name) else {
            return refused(request.id, format!("there is no subscription {name}"));
        };
        of.partitions = Some(*count);
    }
    answer(request.id, dry_run(&asked, MOVED_PER_SECOND), other_apps)
}

fn answer(id: String, found: DryRun, other_apps: &[String]) -> RescalePreview {
    let signed = |of: u64| i64::try_from(of).unwrap_or(i64::MAX);
    let mut moves: BTreeMap<(String, i32, i32), (u32, u64)> = BTreeMap::new();
    for of in found.moves.iter().filter(|of| of.old_pod != of.new_pod) {
        let key = (of.subscription.clone(), of.old_pod, of.new_pod);
        let sum = moves.entry(key).or_default();
        sum.0 = sum.0.saturating_add(of.groups);
        sum.1 = sum.1.saturating_add(of.bytes);
    }
    let topics = found.topics.into_iter();
    RescalePreview {
        id,
        other_apps: if topics.len() == 0 {
            Vec::new()
        } else {
            other_apps.to_vec()
        },
        topics: topics
            .map(|(name, (from, to))| PreviewTopic { name, from, to })
            .collect(),
        moves: moves
            .into_iter()
            .take(MOST_MOVES)
            .map(
                |((subscription, from_pod, to_pod), (groups, bytes))| PreviewMove {
                    subscription,
                    from_pod,
                    to_pod,
                    key_groups: i32::try_from(groups).unwrap_or(i32::MAX),
                    bytes: signed(bytes),
                },
            )
            .collect(),
        bytes_to_move: signed(found.bytes_to_move),
        pause_ms: signed(found.pause_ms),
        refusals: found.refusals.iter().map(ToString::to_string).collect(),
        warnings: found.warnings.iter().map(ToString::to_string).collect(),
    }
}
