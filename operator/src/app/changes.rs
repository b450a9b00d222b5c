//! Changes of a running app that would part it from its state. Pure.

use turbine_crds::app::ColumnType;
use turbine_crds::compiled::{
    AggregateFunction, CompiledPartitionKey, CompiledSubscription, CompiledWindow,
};
use turbine_crds::rules::{self, FieldError};
use turbine_crds::validated::ValidatedApp;

use super::seen::{Accepted, Seen};

/// Judges the current spec against the one that runs, and against `former` ones (newest first): state of a subscription or
/// window that was taken out is still on the volumes and is met again when its name comes back.
///
/// # Errors
/// Every change that the state on the volumes cannot follow, by field.
pub(crate) fn check(
    seen: &Seen,
    accepted: Option<&Accepted>,
    former: &[ValidatedApp],
    current: &ValidatedApp,
) -> Result<(), Vec<FieldError>> {
    let mut errors = accepted
        .and_then(|accepted| rules::validate_update(&accepted.app, &seen.app).err())
        .unwrap_or_default();
    let laid_out = seen.status().layout.map(|layout| layout.subscriptions);
    let earlier: Vec<&CompiledSubscription> = accepted
        .map(|accepted| &accepted.validated)
        .into_iter()
        .chain(former)
        .flat_map(|app| &app.compiled().subscriptions)
        .collect();
    for (at, new) in current.compiled().subscriptions.iter().enumerate() {
        let Some(laid) = laid_out.iter().flatten().find(|of| of.name == new.name) else {
            continue;
        };
        let named: Vec<&CompiledSubscription> = earlier
            .iter()
            .filter(|old| old.name == new.name && old.topic == laid.topic)
            .copied()
            .collect();
        errors.extend(subscription(at, &laid.topic, &named, new));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

fn subscription(
    at: usize,
    topic: &str,
    earlier: &[&CompiledSubscription],
    new: &CompiledSubscription,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |field: &str, message: String| {
        errors.push(FieldError {
            path: format!("spec.subscriptions[{at}].{field}"),
            message,
        });
    };
    if new.topic != topic {
        refuse(
            "input.topic",
            format!(
                "subscription {} has state and offsets of topic `{topic}`: remove it and add one under another name to read `{}`",
                new.name, new.topic
            ),
        );
    }
    if earlier
        .first()
        .is_some_and(|old| partition_key(old) != partition_key(new))
    {
        refuse(
            "partitionKey",
            format!(
                "the state of subscription {} is laid out by its partition key: remove it and add one under another name",
                new.name
            ),
        );
        return errors;
    }
    for (place, window) in new.windows.iter().enumerate() {
        let former = earlier.iter().find_map(|old| {
            let window = old.windows.iter().find(|of| of.name == window.name)?;
            Some((*old, window))
        });
        let Some((old, former)) = former else {
            continue;
        };
        for field in redefined(old, former, new, window) {
            refuse(
                &format!("windows[{place}].{field}"),
                format!(
                    "window {} may have open panes under an earlier definition: give the changed window another name, since the name is the identity of its state",
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
