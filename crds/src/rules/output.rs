//! Where results go, and that no topic is read by the one who writes it.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{Path, Report};
use super::windows::{BOUNDS, RECORD_KEY, column_type, functions};
use super::{limits, names, words};
use crate::app::{ColumnType, PartitionKeySpec, SubscriptionSpec, WindowSpec};

pub(super) fn check(report: &mut Report, path: &Path, subscription: &SubscriptionSpec) {
    let output = &subscription.output;
    let at = path.field("output");
    names::topic(report, &at.field("topic"), &output.topic);
    if let Some(count) = output.partitions {
        let path = at.field("partitions");
        report.check(count >= 1, &path, words::AT_LEAST_ONE, &[]);
        report.check(
            count <= limits::OUTPUT_PARTITIONS,
            &path,
            words::OUTPUT_PARTITIONS,
            &[],
        );
    }
    if let Some(name) = &output.message_key {
        check_message_key(report, &at.field("messageKey"), subscription, name);
    }
    check_topics(report, path, subscription);
}

fn check_message_key(
    report: &mut Report,
    path: &Path,
    subscription: &SubscriptionSpec,
    name: &str,
) {
    let values = [("name", name)];
    let record_key = matches!(subscription.partition_key, PartitionKeySpec::RecordKey(_));
    if BOUNDS.contains(&name) || (record_key && name == RECORD_KEY) {
        return;
    }
    let in_all = subscription.windows.iter().all(|window| {
        window.keys.iter().any(|key| key == name)
            || window
                .aggregates
                .iter()
                .any(|aggregate| aggregate.as_ == name)
    });
    report.check(in_all, path, words::MESSAGE_KEY, &values);
    let typed = subscription
        .windows
        .iter()
        .all(|window| makes_record_key(subscription, window, name));
    report.check(typed, path, words::MESSAGE_KEY_TYPE, &values);
}

/// False if a result of that name has a type without a canonical byte form. Unknown columns are another rule's.
fn makes_record_key(subscription: &SubscriptionSpec, window: &WindowSpec, name: &str) -> bool {
    let fits = |column: &str| match column_type(subscription, column) {
        Some(ColumnType::String | ColumnType::Int64) | None => true,
        Some(ColumnType::Float64 | ColumnType::Bool | ColumnType::Timestamp) => false,
    };
    let key_fits = !window.keys.iter().any(|key| key == name) || fits(name);
    key_fits
        && window
            .aggregates
            .iter()
            .filter(|aggregate| aggregate.as_ == name)
            .all(|aggregate| {
                aggregate.mean.is_none()
                    && (aggregate.count.is_some()
                        || functions(aggregate)
                            .iter()
                            .all(|(_, column)| column.is_none_or(fits)))
            })
}

fn check_topics(report: &mut Report, path: &Path, subscription: &SubscriptionSpec) {
    let input = &subscription.input;
    let output = &subscription.output.topic;
    report.check(
        *output != input.topic,
        &path.field("output").field("topic"),
        words::OUTPUT_IS_INPUT,
        &[("topic", output)],
    );
    if let Some(dlq) = &input.dlq {
        let path = path.field("input").field("dlq");
        let values = [("topic", dlq.as_str())];
        report.check(*dlq != input.topic, &path, words::DLQ_IS_INPUT, &values);
        report.check(dlq != output, &path, words::DLQ_IS_OUTPUT, &values);
    }
}

/// Results that come back to the subscription that wrote them, through others.
pub(super) fn check_loops(report: &mut Report, path: &Path, subscriptions: &[SubscriptionSpec]) {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for subscription in subscriptions {
        let written = edges.entry(&subscription.input.topic).or_default();
        written.insert(&subscription.output.topic);
        // A record that one cannot read is often one that the next cannot read either.
        written.extend(subscription.input.dlq.as_deref());
    }
    for (at, subscription) in subscriptions.iter().enumerate() {
        let (input, output) = (&subscription.input.topic, &subscription.output.topic);
        let comes_back = input != output && reaches(&edges, output, input);
        report.check(
            !comes_back,
            &path.index(at).field("output").field("topic"),
            words::LOOP,
            &[],
        );
        if let Some(dlq) = subscription.input.dlq.as_deref() {
            report.check(
                dlq == input || !reaches(&edges, dlq, input),
                &path.index(at).field("input").field("dlq"),
                words::DLQ_LOOP,
                &[],
            );
        }
    }
}

fn reaches(edges: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(topic) = open.pop() {
        if topic == to {
            return true;
        }
        for next in edges.get(topic).into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}
