//! From specs as written to specs that can be run. Pure.

use kube::api::ObjectMeta;
use turbine_crds::app::TurbineApp;
use turbine_crds::compiled::CompiledSubscription;
use turbine_crds::rules::{self, FieldError};
use turbine_crds::validated::ValidatedApp;

use super::build;
use super::seen::{Accepted, Seen, Specs, name_of};
use crate::words::Trouble;

/// Judges the current spec, alone and against the one that runs.
pub(crate) fn validate(seen: &Seen) -> Specs {
    let (accepted, unreadable) = match accepted(seen) {
        Ok(accepted) => (accepted, None),
        Err(trouble) => (None, Some(trouble)),
    };
    let current = rules::validate(&seen.app)
        .map_err(Trouble::InvalidSpec)
        .and_then(|current| match &accepted {
            Some(accepted) => changed(&seen.app, accepted, &current)
                .map(|()| current)
                .map_err(Trouble::ChangeRefused),
            None => Ok(current),
        });
    Specs {
        current,
        accepted,
        unreadable,
    }
}

fn accepted(seen: &Seen) -> Result<Option<Accepted>, Trouble> {
    let Some(revision) = seen.status().accepted_revision else {
        return Ok(None);
    };
    let Some(record) = seen.revisions.iter().find(|of| name_of(of) == revision) else {
        return Ok(None);
    };
    let unreadable = |detail: String| Trouble::AcceptedUnreadable {
        revision: revision.clone(),
        detail,
    };
    let spec = build::spec_of(record).map_err(unreadable)?;
    let app = TurbineApp {
        metadata: ObjectMeta {
            name: seen.app.metadata.name.clone(),
            namespace: seen.app.metadata.namespace.clone(),
            uid: seen.app.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    };
    let validated = rules::validate(&app)
        .map_err(|errors| unreadable(Trouble::InvalidSpec(errors).to_string()))?;
    Ok(Some(Accepted {
        revision,
        app,
        validated,
    }))
}

/// Changes that would part an app from its state.
fn changed(
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
            errors.extend(parted(at, old, new));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

fn parted(at: usize, old: &CompiledSubscription, new: &CompiledSubscription) -> Vec<FieldError> {
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
    if old.partition_key != new.partition_key {
        refuse(
            "partitionKey",
            format!(
                "the state of subscription {} is laid out by its partition key: remove it and add one under another name",
                old.name
            ),
        );
    }
    errors
}
