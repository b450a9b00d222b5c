//! What the brokers are to be asked for the step that a plan is at.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use turbine_crds::status::{LayoutStatus, RescaleStatus, RescaleStep};
use turbine_crds::validated::ValidatedApp;
use turbine_keygroups::Partition;
use turbine_protocol::TopicName;
use turbine_protocol::layout::Task;

use super::super::rescale::proposal_due;
use super::gather;
use crate::app::layout;
use crate::app::seen::{Asked, Seen, Specs};
use crate::kafka::LayoutQuestion;

/// The question; `None` while the layout is the one asked for, or cannot be changed by the workers that run.
pub(crate) fn question(
    seen: &Seen,
    specs: &Specs,
    asked: &Asked,
    now: Timestamp,
) -> Option<LayoutQuestion> {
    let status = seen.status();
    let app = specs.first()?;
    let laid = status.layout.as_ref()?;
    let plan = super::running(&status);
    if plan.is_none() && !begins(seen, asked, app, laid) && !super::preview_asked(seen) {
        return None;
    }
    let runs = |name: &str| {
        app.compiled()
            .subscriptions
            .iter()
            .any(|of| of.name == name)
    };
    let topics = laid.subscriptions.iter().filter(|of| runs(&of.name));
    let topics: BTreeSet<TopicName> = topics.filter_map(|of| of.topic.parse().ok()).collect();
    Some(LayoutQuestion {
        app_id: app.app_id().as_str().parse().ok()?,
        ends_of: plan.map(|plan| ends(plan, app, now)).unwrap_or_default(),
        receipts_of: match plan {
            Some(plan) => receipts(plan),
            // No epoch that is on record there is used again.
            None => laid
                .subscriptions
                .iter()
                .flat_map(|of| tasks(&of.name, &of.topic, of.partitions))
                .collect(),
        },
        before_growth: plan.is_none_or(|plan| plan.step <= RescaleStep::Announced),
        topics,
    })
}

fn begins(seen: &Seen, asked: &Asked, app: &ValidatedApp, laid: &LayoutStatus) -> bool {
    gather::able(seen, asked, laid.replicas)
        && !layout::differences(app, laid, &asked.counts()).is_empty()
}

/// Topics whose ends the step rests on.
fn ends(plan: &RescaleStatus, app: &ValidatedApp, now: Timestamp) -> BTreeSet<TopicName> {
    let (refresh_ms, grace_ms) = super::waits(app);
    let topics = plan.topics.iter().filter(|of| match plan.step {
        RescaleStep::Announced => !of.foreign,
        RescaleStep::OldStateReleased => proposal_due(of, now, refresh_ms, grace_ms),
        RescaleStep::Requested
        | RescaleStep::Growing
        | RescaleStep::TopicGrown
        | RescaleStep::Draining
        | RescaleStep::Stopped
        | RescaleStep::StateMoved
        | RescaleStep::Started
        | RescaleStep::Verified
        | RescaleStep::Settled
        | RescaleStep::Undone => false,
    });
    topics.filter_map(|of| of.name.parse().ok()).collect()
}

fn receipts(plan: &RescaleStatus) -> BTreeMap<Task, TopicName> {
    let of_each = |count: fn(&turbine_crds::status::RescaleSubscription) -> i32| {
        plan.subscriptions
            .iter()
            .flat_map(|of| tasks(&of.name, &of.topic, count(of)))
            .collect()
    };
    match plan.step {
        RescaleStep::Requested | RescaleStep::Draining => of_each(|of| of.from),
        RescaleStep::Started => of_each(|of| of.to),
        RescaleStep::Announced
        | RescaleStep::Growing
        | RescaleStep::TopicGrown
        | RescaleStep::Stopped
        | RescaleStep::StateMoved
        | RescaleStep::Verified
        | RescaleStep::OldStateReleased
        | RescaleStep::Settled
        | RescaleStep::Undone => BTreeMap::new(),
    }
}

fn tasks(subscription: &str, topic: &str, count: i32) -> Vec<(Task, TopicName)> {
    let all = (0..count).filter_map(|partition| {
        let task = Task {
            subscription: subscription.parse().ok()?,
            partition: Partition::try_from(partition).ok()?,
        };
        Some((task, topic.parse().ok()?))
    });
    all.collect()
}
