//! Volumes: what kept ones hold, marking them with what they hold, and growing them.

use std::collections::BTreeSet;

use serde_json::Value;
use turbine_crds::app::OnRecreate;
use turbine_crds::quantity::Quantity;
use turbine_crds::status::LayoutStatus;
use turbine_crds::validated::ValidatedApp;

use super::{Act, Known};
use crate::app::build::{self, Blueprint, BuildError, Provision};
use crate::app::seen::{going, label, name_of, text, uid_of};
use crate::app::{diff, names};
use crate::cluster::Kind;
use crate::words::Trouble;

/// What is on the volumes.
#[derive(Debug)]
pub(crate) enum OnDisk {
    /// The journal says it.
    Journal(LayoutStatus),
    /// The journal is empty and volumes hold a layout: of an earlier app, or of this one before its status was lost.
    Kept(LayoutStatus),
    /// Nothing.
    Empty,
    /// Volumes of an earlier app that the spec wants gone.
    Discard(Vec<Act>),
}

impl OnDisk {
    /// The layout, and whether it was found on kept volumes.
    pub(crate) fn layout(self) -> (Option<LayoutStatus>, bool) {
        match self {
            Self::Journal(layout) => (Some(layout), false),
            Self::Kept(layout) => (Some(layout), true),
            Self::Empty | Self::Discard(_) => (None, false),
        }
    }
}

/// What the journal alone says.
///
/// # Errors
/// Never; it has the form of [`on_disk`].
pub(crate) fn journalled(known: &Known<'_>) -> Result<OnDisk, Trouble> {
    Ok(match known.seen.status().layout {
        Some(layout) => OnDisk::Journal(layout),
        None => OnDisk::Empty,
    })
}

/// What lies on the app's volumes. Judged by what the claims say of themselves, never by name alone.
///
/// # Errors
/// If state is there that can neither be used nor be passed over.
pub(crate) fn on_disk(known: &Known<'_>, app: &ValidatedApp) -> Result<OnDisk, Trouble> {
    foreign(known, app)?;
    if let Some(layout) = known.seen.status().layout {
        return Ok(OnDisk::Journal(layout));
    }
    let kept: Vec<&Value> = known
        .seen
        .claims
        .iter()
        .filter(|claim| label(claim, names::APP_ID) == Some(app.app_id().as_str()))
        .filter(|claim| {
            // Volumes of another app that lives in this namespace under the same appId, on another Kafka.
            Provision::read(claim)
                .is_none_or(|provision| !known.seen.other_lineages.contains(&provision.lineage))
        })
        .collect();
    if kept.is_empty() {
        return Ok(OnDisk::Empty);
    }
    if let Some(claim) = kept.iter().find(|claim| going(claim)) {
        return Err(Trouble::FormerObjectGoing {
            kind: Kind::PersistentVolumeClaim,
            name: name_of(claim).to_owned(),
        });
    }
    let uid = known.seen.uid();
    let provisions: Vec<Option<Provision>> =
        kept.iter().map(|claim| Provision::read(claim)).collect();
    // Of this very resource: its status was lost, and no policy for earlier apps applies.
    let ours = provisions
        .iter()
        .flatten()
        .any(|provision| provision.app_uid.as_deref() == Some(uid.as_str()));
    if !ours {
        match app.on_recreate() {
            OnRecreate::Adopt => {}
            OnRecreate::Refuse => {
                return Err(Trouble::KeptStateRefused {
                    app_id: app.app_id().to_string(),
                    claims: kept
                        .iter()
                        .map(|claim| name_of(claim))
                        .collect::<Vec<_>>()
                        .join(", "),
                });
            }
            OnRecreate::Discard => {
                return Ok(OnDisk::Discard(
                    kept.iter()
                        .map(|claim| delete(claim, "spec.state.onRecreate is discard"))
                        .collect(),
                ));
            }
        }
    }
    read_kept(app, &kept, &provisions).map(OnDisk::Kept)
}

fn read_kept(
    app: &ValidatedApp,
    kept: &[&Value],
    provisions: &[Option<Provision>],
) -> Result<LayoutStatus, Trouble> {
    let unusable = |detail: String| Trouble::KeptStateUnusable { detail };
    if let Some(at) = provisions.iter().position(Option::is_none) {
        return Err(unusable(format!(
            "claim {} does not say which life of the app it belongs to",
            name_of(kept[at])
        )));
    }
    let lineages: BTreeSet<&str> = provisions
        .iter()
        .flatten()
        .map(|of| of.lineage.as_str())
        .collect();
    if lineages.len() > 1 {
        return Err(unusable(format!(
            "the claims belong to {} different lives of the app",
            lineages.len()
        )));
    }
    let Some(layout) = provisions
        .iter()
        .flatten()
        .filter_map(|of| of.layout.as_ref())
        .max_by_key(|layout| layout.epoch)
    else {
        return Err(unusable("no claim says which layout ran on it".to_owned()));
    };
    if !lineages.contains(layout.lineage.as_str()) {
        return Err(unusable(
            "the claims contradict themselves about their lineage".to_owned(),
        ));
    }
    let wanted = names::claims(app.name().as_str(), layout.replicas);
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|name| !kept.iter().any(|claim| name_of(claim) == name.as_str()))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        let found: Vec<&str> = kept.iter().map(|claim| name_of(claim)).collect();
        return Err(unusable(format!(
            "the state lies on {} volumes and {} is missing (found: {}); an app finds its volumes by its name, so it has to carry the name it had",
            layout.replicas,
            missing.join(", "),
            found.join(", ")
        )));
    }
    Ok(layout.clone())
}

/// A claim of one of our names that is not ours would be mounted by our pods.
fn foreign(known: &Known<'_>, app: &ValidatedApp) -> Result<(), Trouble> {
    let replicas = known
        .seen
        .status()
        .layout
        .map_or(app.replicas().into(), |layout| layout.replicas);
    let ours = names::claims(app.name().as_str(), replicas);
    match known.seen.claims.iter().find(|claim| {
        ours.iter().any(|name| name == name_of(claim))
            && label(claim, names::APP_ID) != Some(app.app_id().as_str())
    }) {
        Some(claim) => Err(Trouble::ForeignObject {
            kind: Kind::PersistentVolumeClaim,
            name: name_of(claim).to_owned(),
        }),
        None => Ok(()),
    }
}

/// Deletes a claim, and with it the state on its volume.
pub(crate) fn delete(claim: &Value, why: &'static str) -> Act {
    Act::DeleteClaim {
        name: name_of(claim).to_owned(),
        uid: uid_of(claim).to_owned(),
        why,
    }
}

/// The claims of the layout that exist.
pub(crate) fn of_layout<'a>(
    known: &Known<'a>,
    app: &ValidatedApp,
    layout: &LayoutStatus,
) -> Vec<&'a Value> {
    let names = names::claims(app.name().as_str(), layout.replicas);
    known
        .seen
        .claims
        .iter()
        .filter(|claim| names.iter().any(|name| name == name_of(claim)))
        .collect()
}

/// Claims that do not yet say what is on them.
///
/// # Errors
/// If the marks cannot be written as JSON.
pub(crate) fn mark(claims: &[&Value], of: &Blueprint<'_>) -> Result<Vec<Act>, BuildError> {
    let marks = build::claim_marks(of)?;
    Ok(claims
        .iter()
        .filter(|claim| !going(claim) && !diff::holds(claim, &marks))
        .map(|claim| Act::MarkClaim {
            name: name_of(claim).to_owned(),
            uid: uid_of(claim).to_owned(),
            marks: marks.clone(),
        })
        .collect())
}

/// How far volumes are from the size asked for.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// Claims to grow.
    pub acts: Vec<Act>,
    /// Claims that were told to grow and have not yet.
    pub pending: Vec<String>,
}

/// Compares the claims with the size asked for. They only ever grow.
pub(crate) fn grow(claims: &[&Value], app: &ValidatedApp) -> Growth {
    let size = app.volume().size();
    let mut growth = Growth::default();
    for claim in claims.iter().filter(|claim| !going(claim)) {
        if bytes(claim, "/spec/resources/requests/storage") < Some(size.bytes()) {
            growth.acts.push(Act::GrowClaim {
                name: name_of(claim).to_owned(),
                uid: uid_of(claim).to_owned(),
                size: size.as_str().to_owned(),
            });
        } else if text(claim, "/status/phase") == Some("Bound")
            && bytes(claim, "/status/capacity/storage") < Some(size.bytes())
        {
            growth.pending.push(name_of(claim).to_owned());
        }
    }
    growth
}

/// A quantity of a plain object in bytes.
pub(crate) fn bytes(object: &Value, pointer: &str) -> Option<u64> {
    Quantity::parse(text(object, pointer)?).ok()?.ceil()
}
