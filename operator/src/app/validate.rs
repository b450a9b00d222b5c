//! From specs as written to specs that can be run. Pure.

use kube::api::ObjectMeta;
use turbine_crds::app::TurbineApp;
use turbine_crds::rules;

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
        .and_then(|current| match &accepted {
            Some(accepted) => changes::check(&seen.app, accepted, &current)
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
