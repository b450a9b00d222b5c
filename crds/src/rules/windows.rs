//! Keys, windows, aggregates and the names of their results.

use super::report::{Path, Report};
use super::{limits, names, words};
use crate::app::{AggregateSpec, ColumnType, PartitionKeySpec, SubscriptionSpec, WindowSpec};

/// Results that name the bounds of their window.
pub(super) const BOUNDS: [&str; 2] = ["window_start_ms", "window_end_ms"];
/// Result that holds the record's own key, where that is the partition key.
pub(super) const RECORD_KEY: &str = "record_key";

/// Type of a declared column.
pub(super) fn column_type(subscription: &SubscriptionSpec, name: &str) -> Option<ColumnType> {
    subscription
        .input
        .columns
        .iter()
        .find(|column| column.name == name)
        .map(|column| column.type_)
}

/// Columns of the partition key; none if the record's own key is used.
pub(super) fn partition_columns(key: &PartitionKeySpec) -> Option<Vec<&str>> {
    match key {
        PartitionKeySpec::Column(column) => Some(vec![column.as_str()]),
        PartitionKeySpec::Columns(columns) => Some(columns.iter().map(String::as_str).collect()),
        PartitionKeySpec::RecordKey(_) => None,
    }
}

pub(super) fn check(report: &mut Report, path: &Path, subscription: &SubscriptionSpec) {
    check_partition_key(report, &path.field("partitionKey"), subscription);
    let path = path.field("windows");
    report.list_length(&path, subscription.windows.len(), 1, limits::WINDOWS);
    let names = subscription
        .windows
        .iter()
        .map(|window| window.name.as_str());
    report.names_once(&path, "name", names);
    for (at, window) in subscription.windows.iter().enumerate() {
        check_window(report, &path.index(at), subscription, window);
    }
}

fn check_partition_key(report: &mut Report, path: &Path, subscription: &SubscriptionSpec) {
    match &subscription.partition_key {
        PartitionKeySpec::Column(column) => {
            check_keys(report, path, subscription, &[column], |_| path.clone())
        }
        PartitionKeySpec::Columns(columns) => {
            report.check(!columns.is_empty(), path, words::PARTITION_KEY_EMPTY, &[]);
            report.list_length(path, columns.len(), 0, limits::KEYS);
            let columns: Vec<&String> = columns.iter().collect();
            check_keys(report, path, subscription, &columns, |at| path.index(at));
        }
        PartitionKeySpec::RecordKey(record) => report.check(
            record.record_key,
            &path.field("recordKey"),
            words::RECORD_KEY_FALSE,
            &[],
        ),
    }
}

fn check_keys(
    report: &mut Report,
    list: &Path,
    subscription: &SubscriptionSpec,
    keys: &[&String],
    path: impl Fn(usize) -> Path,
) {
    for (at, key) in keys.iter().enumerate() {
        let path = path(at);
        report.text_length(&path, key, 1, limits::COLUMN_NAME);
        match column_type(subscription, key) {
            None => report.refuse(&path, words::KEY_COLUMN, &[]),
            Some(ColumnType::Float64) => {
                report.refuse(&path, words::KEY_FLOAT, &[]);
            }
            Some(
                ColumnType::String | ColumnType::Int64 | ColumnType::Bool | ColumnType::Timestamp,
            ) => {}
        }
        if keys[..at].contains(key) {
            report.refuse(list, words::KEY_TWICE, &[]);
        }
    }
}

fn check_window(
    report: &mut Report,
    path: &Path,
    subscription: &SubscriptionSpec,
    window: &WindowSpec,
) {
    names::label(report, &path.field("name"), "window", &window.name);
    report.duration(
        &path.field("tumbling").field("size"),
        Some(&window.tumbling.size),
        limits::WINDOW_SIZE,
    );
    report.duration(
        &path.field("allowedLateness"),
        window.allowed_lateness.as_ref(),
        limits::LATENESS,
    );
    let keys = path.field("keys");
    report.list_length(&keys, window.keys.len(), 0, limits::KEYS);
    let columns: Vec<&String> = window.keys.iter().collect();
    check_keys(report, &keys, subscription, &columns, |at| keys.index(at));
    for column in partition_columns(&subscription.partition_key)
        .into_iter()
        .flatten()
    {
        report.check(
            window.keys.iter().any(|key| key == column),
            &keys,
            words::KEY_LACKS,
            &[("window", &window.name), ("column", column)],
        );
    }
    for (at, key) in window.keys.iter().enumerate() {
        check_reserved(report, &keys.index(at), subscription, window, key);
    }
    check_aggregates(report, &path.field("aggregates"), subscription, window);
}

fn check_reserved(
    report: &mut Report,
    path: &Path,
    subscription: &SubscriptionSpec,
    window: &WindowSpec,
    name: &str,
) {
    let values = [("window", window.name.as_str())];
    report.check(
        !BOUNDS.contains(&name),
        path,
        words::RESERVED_RESULT,
        &values,
    );
    let record_key = matches!(subscription.partition_key, PartitionKeySpec::RecordKey(_));
    report.check(
        !(record_key && name == RECORD_KEY),
        path,
        words::RECORD_KEY_RESULT,
        &values,
    );
}

fn check_aggregates(
    report: &mut Report,
    path: &Path,
    subscription: &SubscriptionSpec,
    window: &WindowSpec,
) {
    report.list_length(path, window.aggregates.len(), 1, limits::AGGREGATES);
    let names = window
        .aggregates
        .iter()
        .map(|aggregate| aggregate.as_.as_str());
    report.names_once(path, "as", names);
    for (at, aggregate) in window.aggregates.iter().enumerate() {
        let path = path.index(at);
        let name = path.field("as");
        report.text_length(&name, &aggregate.as_, 1, limits::COLUMN_NAME);
        report.check(
            !window.keys.contains(&aggregate.as_),
            &name,
            words::RESULT_IS_KEY,
            &[("window", &window.name)],
        );
        check_reserved(report, &name, subscription, window, &aggregate.as_);
        check_function(report, &path, subscription, aggregate);
    }
}

fn check_function(
    report: &mut Report,
    path: &Path,
    subscription: &SubscriptionSpec,
    aggregate: &AggregateSpec,
) {
    let functions = functions(aggregate);
    report.check(
        functions.len() == 1,
        path,
        words::ONE_FUNCTION,
        &[("name", &aggregate.as_)],
    );
    // Of several functions the first is judged, as by CEL; the rule above names the fault.
    let read = functions
        .iter()
        .find_map(|(function, column)| column.map(|column| (*function, column)));
    if let Some((function, column)) = read
        && column_type(subscription, column).is_none()
    {
        let path = match function {
            "count" => path.field("count").field("column"),
            _ => path.field(function),
        };
        report.refuse(&path, words::AGGREGATE_COLUMN, &[]);
    }
    let summed = [("sum", &aggregate.sum), ("mean", &aggregate.mean)]
        .into_iter()
        .find_map(|(function, column)| column.as_deref().map(|column| (function, column)));
    if let Some((function, column)) = summed
        && let Some(ColumnType::String | ColumnType::Bool | ColumnType::Timestamp) =
            column_type(subscription, column)
    {
        report.refuse(&path.field(function), words::NOT_NUMERIC, &[]);
    }
}

/// Functions of an aggregate, with the column that each reads.
pub(super) fn functions(aggregate: &AggregateSpec) -> Vec<(&'static str, Option<&str>)> {
    let count = aggregate.count.as_ref();
    [
        ("sum", aggregate.sum.as_deref().map(Some)),
        ("min", aggregate.min.as_deref().map(Some)),
        ("max", aggregate.max.as_deref().map(Some)),
        ("mean", aggregate.mean.as_deref().map(Some)),
        ("count", count.map(|count| count.column.as_deref())),
    ]
    .into_iter()
    .filter_map(|(name, given)| given.map(|column| (name, column)))
    .collect()
}
