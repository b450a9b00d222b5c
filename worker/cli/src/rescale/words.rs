//! What is said of a change.

use std::io::Write;

use turbine_crds::status::{RescalePreview, RescaleStatus, RescaleStep, TurbineAppStatus};

pub(super) fn preview(of: &RescalePreview, out: &mut impl Write) -> anyhow::Result<()> {
    for topic in &of.topics {
        writeln!(
            out,
            "topic {} grows from {} to {} partitions; it cannot shrink again",
            topic.name, topic.from, topic.to
        )?;
    }
    for moved in &of.moves {
        writeln!(
            out,
            "{}: {} key groups, about {} bytes, from pod {} to pod {}",
            moved.subscription, moved.key_groups, moved.bytes, moved.from_pod, moved.to_pod
        )?;
    }
    writeln!(
        out,
        "about {} bytes change their pod; tasks stand still for about {} ms if none is copied ahead",
        of.bytes_to_move, of.pause_ms
    )?;
    if !of.other_apps.is_empty() {
        writeln!(
            out,
            "other apps read the topic and take its growth as a request: {}",
            of.other_apps.join(", ")
        )?;
    }
    for warning in &of.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    for refusal in &of.refusals {
        writeln!(out, "refused: {refusal}")?;
    }
    Ok(())
}

/// How a change stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has looked at the new spec yet.
    Unseen,
    /// What is in the way, if something is.
    On(Option<String>),
    /// Every task runs on its new place; tails may be open.
    Runs,
    Undone,
    Refused(String),
    /// There is nothing to change.
    Nothing,
}

pub(super) fn standing(status: &TurbineAppStatus, generation: i64) -> Standing {
    if status
        .observed_generation
        .is_none_or(|seen| seen < generation)
    {
        return Standing::Unseen;
    }
    let condition = |type_: &str| status.conditions.iter().find(|of| of.type_ == type_);
    if let Some(of) = condition("SpecValid").filter(|of| of.status == "False") {
        return Standing::Refused(of.message.clone());
    }
    let plan = status
        .rescale
        .as_ref()
        .filter(|plan| plan.generation >= generation);
    let blocked = condition("RescaleBlocked").filter(|of| of.status == "True");
    match (plan, blocked) {
        (Some(plan), _) if plan.step == RescaleStep::Undone => Standing::Undone,
        (Some(plan), _) if plan.step >= RescaleStep::Verified => Standing::Runs,
        (Some(plan), blocked) => Standing::On(
            blocked
                .map(|of| of.message.clone())
                .or_else(|| plan.blocked_by.clone()),
        ),
        (None, Some(blocked)) if blocked.reason == "NewerSpecWaits" => {
            Standing::On(Some(blocked.message.clone()))
        }
        (None, Some(blocked)) => Standing::Refused(blocked.message.clone()),
        (None, None) => {
            let ready = condition("Ready").is_some_and(|of| {
                of.status == "True" && of.observed_generation >= Some(generation)
            });
            if ready {
                Standing::Nothing
            } else {
                Standing::Unseen
            }
        }
    }
}

/// Bytes that are here and bytes that are to come, of all tasks that are shown.
pub(super) fn bytes(plan: &RescaleStatus) -> (u64, u64) {
    let sum = |of: fn(&turbine_crds::status::RescaleTask) -> Option<i64>| {
        let all = plan.tasks.iter().filter_map(of);
        all.filter_map(|bytes| u64::try_from(bytes).ok())
            .fold(0, u64::saturating_add)
    };
    (sum(|of| of.bytes_moved), sum(|of| of.bytes_to_move))
}

/// Milliseconds for which tasks stood still, once they run again.
pub(super) fn pause_ms(plan: &RescaleStatus) -> Option<i64> {
    let (from, to) = (plan.paused_at?, plan.resumed_at?);
    Some(to.as_millisecond().saturating_sub(from.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn status(plan: Value, blocked: Value) -> TurbineAppStatus {
        let mut of = json!({"observedGeneration": 5, "conditions": []});
        if !plan.is_null() {
            let mut rescale = json!({
                "epoch": 2, "version": 1, "id": "x", "stepSince": "2026-01-01T00:00:00Z",
                "startedAt": "2026-01-01T00:00:00Z", "fromReplicas": 1, "toReplicas": 1, "subscriptions": [],
            });
            for (key, value) in plan.as_object().unwrap() {
                rescale[key] = value.clone();
            }
            of["rescale"] = rescale;
        }
        if !blocked.is_null() {
            of["conditions"] = json!([{
                "type": "RescaleBlocked", "status": "True", "reason": blocked, "message": "why",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
        }
        serde_json::from_value(of).unwrap()
    }

    #[rstest]
    #[case::not_looked_at(6, json!(null), json!(null), Standing::Unseen)]
    #[case::refused(5, json!(null), json!("DiskShort"), Standing::Refused("why".to_owned()))]
    #[case::an_earlier_one_is_not_ours(5, json!({"generation": 4, "step": "Settled"}), json!(null), Standing::Unseen)]
    #[case::waits(5, json!({"generation": 4, "step": "Draining"}), json!("NewerSpecWaits"), Standing::On(Some("why".to_owned())))]
    #[case::moves(5, json!({"generation": 5, "step": "Stopped"}), json!(null), Standing::On(None))]
    #[case::runs(5, json!({"generation": 5, "step": "OldStateReleased"}), json!(null), Standing::Runs)]
    #[case::undone(5, json!({"generation": 5, "step": "Undone"}), json!("Suspended"), Standing::Undone)]
    fn how_a_change_stands(
        #[case] generation: i64,
        #[case] plan: Value,
        #[case] blocked: Value,
        #[case] expected: Standing,
    ) {
        assert_eq!(standing(&status(plan, blocked), generation), expected);
    }
}
