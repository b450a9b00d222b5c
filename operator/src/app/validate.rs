//! From specs as written to specs that can be run. Pure.

use kube::api::ObjectMeta;
use turbine_crds::app::{TurbineApp, TurbineAppSpec};
use turbine_crds::rules;
use turbine_crds::validated::ValidatedApp;

use super::seen::{Accepted, Seen, Specs, name_of};
use super::{build, changes};
use crate::words::Trouble;

/// Judges the current spec, alone and against the one that runs.
pub(crate) fn validate(seen: &Seen) -> Specs {
    let (accepted, unreadable) = match accepted(seen) {
        Ok(accepted) => (accepted, None),
        Err(trouble) => (None, Some(trouble)),
    };
    let current = rules::validate(&seen.app)
        .map_err(Trouble::InvalidSpec)
        .and_then(|current| {
            // What runs was judged when it was accepted, and most passes find just that.
            let unchanged = accepted
                .as_ref()
                .is_some_and(|accepted| accepted.app.spec == seen.app.spec);
            if unchanged {
                return Ok(current);
            }
            changes::check(seen, accepted.as_ref(), &former(seen), &current)
                .map(|()| current)
                .map_err(Trouble::ChangeRefused)
        });
    Specs {
        current,
        accepted,
        unreadable,
    }
}

/// Specs that were accepted before, newest first, as far as they are kept and can be read: state of theirs may lie on the
/// volumes.
fn former(seen: &Seen) -> Vec<ValidatedApp> {
    let mut records: Vec<&serde_json::Value> = seen.revisions.iter().collect();
    records.sort_by_key(|of| {
        std::cmp::Reverse(of.pointer("/revision").and_then(serde_json::Value::as_i64))
    });
    records
        .into_iter()
        .filter_map(|record| {
            let spec = build::spec_of(record).ok()?;
            rules::validate(&as_written(seen, spec)).ok()
        })
        .collect()
}

fn as_written(seen: &Seen, spec: TurbineAppSpec) -> TurbineApp {
    TurbineApp {
        metadata: ObjectMeta {
            name: seen.app.metadata.name.clone(),
            namespace: seen.app.metadata.namespace.clone(),
            uid: seen.app.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
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
    let app = as_written(seen, spec);
    let validated = rules::validate(&app)
        .map_err(|errors| unreadable(Trouble::InvalidSpec(errors).to_string()))?;
    Ok(Some(Accepted {
        revision,
        app,
        validated,
    }))
}
