//! The objects of a running app: which to apply, which to make anew, which to remove.

use turbine_crds::validated::ValidatedApp;

use super::verdict::Standing;
use super::{Act, Known, Why, claims, defect};
use crate::app::build::{self, Blueprint, Built};
use crate::app::seen::{controller_of, going, label, name_of, text, uid_of};
use crate::app::{diff, names};
use crate::cluster::Kind;
use crate::words::Trouble;

/// Accepted specs that are kept, the current one included.
const KEPT_REVISIONS: usize = 5;

/// Size in the claim template, and whether the `StatefulSet` has to be made again to carry it.
pub(super) struct TemplateSize {
    pub(super) text: String,
    pub(super) remake: bool,
}

pub(super) fn template_size(
    stateful_set: Option<&serde_json::Value>,
    app: &ValidatedApp,
    claims_have_grown: bool,
) -> TemplateSize {
    const SIZE: &str = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
    let wanted = app.volume().size();
    let live = stateful_set.and_then(|live| Some((text(live, SIZE)?, claims::bytes(live, SIZE)?)));
    match live {
        Some((_, bytes)) if bytes < wanted.bytes() && claims_have_grown => TemplateSize {
            text: wanted.as_str().to_owned(),
            remake: true,
        },
        // The template cannot change in place, and a smaller one was refused before.
        Some((text, _)) => TemplateSize {
            text: text.to_owned(),
            remake: false,
        },
        None => TemplateSize {
            text: wanted.as_str().to_owned(),
            remake: false,
        },
    }
}

/// Whether an object of our name is ours, or may become ours.
pub(super) fn ours(known: &Known<'_>, built: &Built) -> Result<(), Trouble> {
    let Some(live) = known.seen.child(built.kind, &built.name) else {
        return Ok(());
    };
    let name = built.name.clone();
    match controller_of(live) {
        Some((_, _, uid)) if uid == known.seen.uid() => {
            if going(live) {
                return Err(Trouble::FormerObjectGoing {
                    kind: built.kind,
                    name,
                });
            }
            Ok(())
        }
        Some(("TurbineApp", owner, _)) if owner == known.seen.name() => {
            Err(Trouble::FormerObjectGoing {
                kind: built.kind,
                name,
            })
        }
        // Left behind by an app that was deleted without its children.
        None if label(live, names::APP) == Some(known.seen.name().as_str()) && !going(live) => {
            Ok(())
        }
        Some(_) | None => Err(Trouble::ForeignObject {
            kind: built.kind,
            name,
        }),
    }
}

pub(super) fn apply(known: &Known<'_>, mut built: Built, size: &TemplateSize) -> Option<Act> {
    let Some(live) = known.seen.child(built.kind, &built.name) else {
        return Some(Act::Apply {
            built,
            why: Why::Missing,
        });
    };
    if built.kind == Kind::StatefulSet && (size.remake || another_life(live, &built)) {
        return Some(Act::ReleaseStatefulSet {
            name: built.name,
            uid: uid_of(live).to_owned(),
        });
    }
    if diff::holds(live, &built.object) {
        return None;
    }
    // An apply never takes away what another hand has put into a list, so it would be repeated for ever. Nothing hangs on
    // this object's identity.
    if built.kind == Kind::Service && diff::has_more_items(&live["spec"], &built.object["spec"]) {
        return Some(Act::DeleteOrphan {
            kind: built.kind,
            name: built.name,
            uid: uid_of(live).to_owned(),
        });
    }
    let replicas = |object: &serde_json::Value| {
        object
            .pointer("/spec/replicas")
            .and_then(serde_json::Value::as_i64)
    };
    let stamp = |object: &serde_json::Value| {
        object.get("metadata").and_then(|metadata| {
            metadata
                .get("annotations")?
                .get(names::APPLIED)?
                .as_str()
                .map(str::to_owned)
        })
    };
    let why = match (replicas(live), replicas(&built.object)) {
        (Some(from), Some(to)) if from != to && stamp(live) == stamp(&built.object) => {
            Why::Scaled { from, to }
        }
        _ => Why::Changed,
    };
    // Guarded: what was read is what is changed, so a deposed operator changes nothing.
    built.object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    Some(Act::Apply { built, why })
}

/// The claim template of a `StatefulSet` that an earlier app left behind names that app's life.
pub(super) fn another_life(live: &serde_json::Value, built: &Built) -> bool {
    const MARKS: &str = "/spec/volumeClaimTemplates/0/metadata/annotations";
    live.pointer(MARKS) != built.object.pointer(MARKS)
}

pub(super) fn token(known: &Known<'_>, blueprint: &Blueprint<'_>) -> Result<Vec<Act>, Trouble> {
    let marks = build::token_secret_marks(blueprint).map_err(|error| defect(&error))?;
    ours(known, &marks)?;
    Ok(match known.seen.child(Kind::Secret, &marks.name) {
        None => vec![Act::CreateToken],
        Some(live) => {
            let owner = marks.object.pointer("/metadata/ownerReferences");
            if owner.is_some_and(|owner| diff::holds(&live["metadata"]["ownerReferences"], owner)) {
                Vec::new()
            } else {
                vec![Act::Apply {
                    built: marks,
                    why: Why::Changed,
                }]
            }
        }
    })
}

/// Objects that carry our label and uid and are none of those that the app is made of now.
pub(super) fn orphans(known: &Known<'_>, app: &ValidatedApp) -> Vec<Act> {
    let current = names::objects(app.name().as_str());
    let uid = known.seen.uid();
    known
        .seen
        .children
        .iter()
        .filter(|(key, object)| {
            !current.contains(key)
                && !going(object)
                && controller_of(object).is_some_and(|(_, _, owner)| owner == uid)
        })
        .map(|((kind, name), object)| Act::DeleteOrphan {
            kind: *kind,
            name: name.clone(),
            uid: uid_of(object).to_owned(),
        })
        .collect()
}

pub(super) fn old_revisions(known: &Known<'_>, standing: &Standing) -> Vec<Act> {
    let mut old: Vec<_> = known
        .seen
        .revisions
        .iter()
        .filter(|of| Some(name_of(of)) != standing.accepted())
        .filter(|of| controller_of(of).is_some_and(|(_, _, uid)| uid == known.seen.uid()))
        .collect();
    old.sort_by_key(|of| {
        std::cmp::Reverse(of.pointer("/revision").and_then(serde_json::Value::as_i64))
    });
    old.into_iter()
        .skip(KEPT_REVISIONS - 1)
        .map(|of| Act::DeleteRevision {
            name: name_of(of).to_owned(),
            uid: uid_of(of).to_owned(),
        })
        .collect()
}
