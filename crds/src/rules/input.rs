//! The input of a subscription: topic, columns, event time, error policy.

use super::report::{Path, Report};
use super::{limits, names, words};
use crate::app::{
    ColumnType, InputSpec, OnError, OnMisplaced, OnNullKey, StartFrom, SubscriptionSpec,
};

pub(super) fn check(report: &mut Report, path: &Path, input: &InputSpec) {
    names::topic(report, &path.field("topic"), &input.topic);
    if let Some(count) = input.partitions {
        check_partitions(report, &path.field("partitions"), &input.topic, count);
    }
    check_columns(report, &path.field("columns"), input);
    check_event_time(report, &path.field("eventTime"), input);
    report.duration(
        &path.field("outOfOrderness"),
        input.out_of_orderness.as_ref(),
        limits::LATENESS,
    );
    report.duration(
        &path.field("maxFuture"),
        input.max_future.as_ref(),
        limits::MAX_FUTURE,
    );
    if let Some(StartFrom::Timestamp(start)) = &input.start_from {
        report.check(
            start.timestamp.parse::<jiff::Timestamp>().is_ok(),
            &path.field("startFrom").field("timestamp"),
            words::START_FROM,
            &[("given", &start.timestamp)],
        );
    }
    if let Some(idle) = &input.idle {
        report.duration(
            &path.field("idle").field("timeout"),
            idle.timeout.as_ref(),
            limits::IDLE_TIMEOUT,
        );
    }
}

fn check_partitions(report: &mut Report, path: &Path, topic: &str, count: i32) {
    match u32::try_from(count) {
        Ok(positive) if positive > 0 => {
            if turbine_keygroups::PartitionCount::try_from(positive).is_err() {
                report.add(path, turbine_keygroups::divisor_refusal(topic, positive));
            }
        }
        _ => report.add(path, turbine_keygroups::no_partition_refusal(topic)),
    }
}

fn check_columns(report: &mut Report, path: &Path, input: &InputSpec) {
    report.list_length(path, input.columns.len(), 1, limits::COLUMNS);
    for (at, column) in input.columns.iter().enumerate() {
        report.text_length(
            &path.index(at).field("name"),
            &column.name,
            1,
            limits::COLUMN_NAME,
        );
    }
    let names = input.columns.iter().map(|column| column.name.as_str());
    report.names_once(path, "name", names);
}

fn check_event_time(report: &mut Report, path: &Path, input: &InputSpec) {
    let field = &input.event_time.field;
    let type_ = input
        .columns
        .iter()
        .find(|column| column.name == *field)
        .map(|column| column.type_);
    match type_ {
        Some(ColumnType::Int64 | ColumnType::Float64) => {}
        Some(ColumnType::Timestamp) => report.check(
            input.event_time.unit.is_none(),
            &path.field("unit"),
            words::EVENT_TIME_UNIT,
            &[("field", field)],
        ),
        Some(ColumnType::String | ColumnType::Bool) | None => report.refuse(
            &path.field("field"),
            words::EVENT_TIME_COLUMN,
            &[("field", field)],
        ),
    }
}

/// A misplaced record is known only by a declared hash.
pub(super) fn check_misplaced(report: &mut Report, path: &Path, subscription: &SubscriptionSpec) {
    let path = path.field("input").field("onMisplaced");
    let on_misplaced = subscription.input.on_misplaced;
    report.check(
        on_misplaced != Some(OnMisplaced::Repartition),
        &path,
        words::NO_REPARTITION,
        &[],
    );
    report.check(
        on_misplaced.is_none() || subscription.partition_hash.is_some(),
        &path,
        words::MISPLACED_WITHOUT_HASH,
        &[],
    );
}

/// A dead-letter topic is there if and only if a policy sends records to it.
pub(super) fn check_dlq(report: &mut Report, path: &Path, subscription: &SubscriptionSpec) {
    let input = path.field("input");
    let used = subscription.input.on_error == Some(OnError::Dlq)
        || subscription.on_null_key == Some(OnNullKey::Dlq);
    match &subscription.input.dlq {
        None => report.check(!used, &input, words::DLQ_MISSING, &[]),
        Some(dlq) => {
            names::topic(report, &input.field("dlq"), dlq);
            report.check(
                used,
                &input.field("dlq"),
                words::DLQ_UNUSED,
                &[("dlq", dlq)],
            );
        }
    }
}
