//! Changes of a running app that would part it from its state. Pure.

use turbine_crds::app::{ColumnType, TurbineApp};
use turbine_crds::compiled::{
    AggregateFunction, CompiledPartitionKey, CompiledSubscription, CompiledWindow,
};
use turbine_crds::rules::{self, FieldError};
use turbine_crds::validated::ValidatedApp;

use super::seen::Accepted;

/// Judges the current spec against the one that runs.
///
/// # Errors
/// Every change that the state on the volumes cannot follow, by field.
pub(crate) fn check(
    now: &TurbineApp,
    accepted: &Accepted,
    current: &ValidatedApp,
) -> Result<(), Vec<FieldError>> {
    let mut errors = rules::validate_update(&accepted.app, now)
        .err()
        .unwrap_or_default();
    for (at, new) in current.compiled().subscriptions.iter().enumerate() {
        let old = accepted
            .validated
            .compiled()
            .subscriptions
            .iter()
            .find(|old| old.name == new.name);
        if let Some(old) = old {
            errors.extend(subscription(at, old, new));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

fn subscription(
    at: usize,
    old: &CompiledSubscription,
    new: &CompiledSubscription,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |field: &str, message: String| {
        errors.push(FieldError {
            path: format!("spec.subscriptions[{at}].{field}"),
            message,
        });
    };
    if old.topic != new.topic {
        refuse(
            "input.topic",
            format!(
                "subscription {} has state and offsets of topic `{}`: remove it and add one under another name to read `{}`",
                old.name, old.topic, new.topic
            ),
        );
    }
    if partition_key(old) != partition_key(new) {
        refuse(
            "partitionKey",
            format!(
                "the state of subscription {} is laid out by its partition key: remove it and add one under another name",
                old.name
            ),
        );
        return errors;
    }
    for (place, window) in new.windows.iter().enumerate() {
        let Some(former) = old.windows.iter().find(|of| of.name == window.name) else {
            continue;
        };
        for field in redefined(old, former, new, window) {
            refuse(
                &format!("windows[{place}].{field}"),
                format!(
                    "window {} has open panes under its present definition: give the changed window another name, since the name is the identity of its state",
                    window.name
                ),
            );
        }
    }
    errors
}

/// A column and the type that the stored bytes of its values have.
type Typed<'a> = (&'a str, Option<ColumnType>);

fn typed<'a>(of: &'a CompiledSubscription, name: &'a str) -> Typed<'a> {
    let column = of.columns.iter().find(|column| column.name == name);
    (name, column.map(|column| column.type_))
}

fn partition_key(of: &CompiledSubscription) -> Option<Vec<Typed<'_>>> {
    match &of.partition_key {
        CompiledPartitionKey::Columns(names) => {
            Some(names.iter().map(|name| typed(of, name)).collect())
        }
        CompiledPartitionKey::RecordKey => None,
    }
}

fn keys<'a>(of: &'a CompiledSubscription, window: &'a CompiledWindow) -> Vec<Typed<'a>> {
    window.keys.iter().map(|name| typed(of, name)).collect()
}

/// Without the names of the results: those are not stored.
fn aggregates<'a>(
    of: &'a CompiledSubscription,
    window: &'a CompiledWindow,
) -> Vec<(AggregateFunction, Option<Typed<'a>>)> {
    let column = |name: &'a Option<String>| name.as_deref().map(|name| typed(of, name));
    window
        .aggregates
        .iter()
        .map(|aggregate| (aggregate.function, column(&aggregate.column)))
        .collect()
}

/// The fields that give stored panes another meaning; the worker's store refuses the same ones.
fn redefined(
    old_in: &CompiledSubscription,
    old: &CompiledWindow,
    new_in: &CompiledSubscription,
    new: &CompiledWindow,
) -> impl Iterator<Item = &'static str> {
    [
        ("tumbling.size", old.size_ms != new.size_ms),
        ("keys", keys(old_in, old) != keys(new_in, new)),
        (
            "aggregates",
            aggregates(old_in, old) != aggregates(new_in, new),
        ),
    ]
    .into_iter()
    .filter_map(|(field, differs)| differs.then_some(field))
}
