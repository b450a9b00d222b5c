//! The plan of an app that is to run, or to stand still with its state kept.

use turbine_crds::app::OnDelete;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::status::{LayoutStatus, Phase, RescaleStatus, TurbineAppStatus};
use turbine_crds::validated::ValidatedApp;

use super::goal::{self, Goal, Run};
use super::pods::{self, Workers};
use super::verdict::{self, Standing};
use super::{Act, Known, Plan, claims, defect, objects, rescaling, topics};
use crate::app::build::{self, Blueprint};
use crate::app::seen::name_of;
use crate::app::{layout, names};
use crate::cluster::Kind;
use crate::words::Trouble;

/// The next status and acts of a living app.
pub(crate) fn plan(known: &Known<'_>) -> Plan {
    let goal = goal::choose(known);
    let mut standing = Standing::new(known, &goal);
    let acts = match act(known, &goal, &mut standing) {
        Ok(acts) => acts,
        Err(trouble) => {
            standing.trouble.get_or_insert(trouble);
            Vec::new()
        }
    };
    verdict::give(known, &goal, standing, acts)
}

fn act(known: &Known<'_>, goal: &Goal<'_>, standing: &mut Standing) -> Result<Vec<Act>, Trouble> {
    if !goal.discard.is_empty() {
        standing.doing = Some(
            "the volumes of the earlier app are being deleted, as spec.state.onRecreate asks"
                .to_owned(),
        );
        return Ok(goal.discard.clone());
    }
    let Some(run) = &goal.run else {
        return finalizer(known, None);
    };
    let stored = known.seen.status();
    let suspended = suspended(known, run.app);
    standing.suspended = suspended;
    if suspended && stored.layout.is_none() && !run.adopted {
        // Nothing is there that would have to be stopped, so nothing is made.
        return finalizer(known, Some(run.app));
    }
    if known.default_image.is_none() && run.app.worker().image().is_none() {
        return Err(Trouble::NoWorkerImage);
    }

    // The journal: what is accepted, on which layout, with which topics. First the record of the
    // spec, then the status that names it, then everything that follows from it.
    let mut acts = finalizer(known, Some(run.app))?;
    if !acts.is_empty() {
        return Ok(acts);
    }
    let revision = match run.revision {
        Some(revision) => revision.to_owned(),
        None => {
            let record = build::revision(
                &known.seen.namespace(),
                &known.seen.name(),
                &known.seen.uid(),
                known.seen.generation(),
                &known.seen.app.spec,
            )
            .map_err(|error| defect(&error))?;
            let name = record.name.clone();
            if !known.seen.revisions.iter().any(|of| name_of(of) == name) {
                return Ok(vec![Act::CreateRevision(record)]);
            }
            name
        }
    };
    let topics = topics::compare(known, run.app);
    standing.topics = Some(topics.trouble.clone());
    standing.differences.clone_from(&topics.differences);
    standing.journal(revision, run.layout.clone(), topics.status.clone());
    if standing.unrecorded(&stored) {
        return Ok(Vec::new());
    }
    let rescaling = rescaling::decide(known, run, suspended)?;
    standing.rescaling(rescaling.as_ref());
    standing.preview(rescaling::preview(known, run, suspended)?);
    if standing.unrecorded(&stored) {
        return Ok(Vec::new());
    }
    let steps = rescaling
        .as_ref()
        .map_or(&[][..], rescaling::Rescaling::acts);
    if rescaling.as_ref().is_some_and(rescaling::Rescaling::marks) {
        return Ok(vec![Act::Rescale(steps.to_vec())]);
    }

    let started = known
        .seen
        .child(
            Kind::StatefulSet,
            &names::stateful_set(run.app.name().as_str()),
        )
        .is_some();
    standing.provisioned = started;
    if !suspended {
        acts.extend(topics.acts);
        if !acts.is_empty() {
            standing.doing = Some("topics are being created".to_owned());
            return Ok(acts);
        }
        if let (Some(trouble), false) = (topics.trouble, started) {
            // No pod before its topics are known to be there.
            return Err(trouble);
        }
    }
    let document = layout::document(run.app, &run.layout, &run.running)
        .map_err(|error| Trouble::act(&error))?;
    acts.extend(children(known, run, &document, suspended, standing)?);
    if !steps.is_empty() {
        acts.push(Act::Rescale(steps.to_vec()));
    }
    Ok(acts)
}

/// A spec that says suspend is heeded as soon as it is valid, also while something else in it has to wait.
fn suspended(known: &Known<'_>, effective: &ValidatedApp) -> bool {
    known
        .specs
        .current
        .as_ref()
        .map_or_else(|_| effective.suspended(), ValidatedApp::suspended)
}

fn children(
    known: &Known<'_>,
    run: &Run<'_>,
    document: &AssignmentDocument,
    suspended: bool,
    standing: &mut Standing,
) -> Result<Vec<Act>, Trouble> {
    let uid = known.seen.uid();
    let image = run
        .app
        .worker()
        .image()
        .or(known.default_image)
        .ok_or(Trouble::NoWorkerImage)?;
    let stateful_set = known.seen.child(
        Kind::StatefulSet,
        &names::stateful_set(run.app.name().as_str()),
    );
    let claims = claims::of_layout(known, run.app, &run.layout);
    let growth = claims::grow(&claims, run.app);
    let size = objects::template_size(stateful_set, run.app, growth.acts.is_empty());
    let blueprint = Blueprint {
        app: run.app,
        uid: &uid,
        layout: &run.layout,
        document,
        image,
        replicas: if suspended {
            0
        } else {
            rescaling::replicas(known, run, stateful_set.and_then(rescaling::replicas_of))
        },
        volume_size: &size.text,
    };

    // What a volume holds is on it before a worker can learn of a new layout.
    let mut acts = claims::mark(&claims, &blueprint).map_err(|error| defect(&error))?;
    let objects = build::objects(&blueprint).map_err(|error| defect(&error))?;
    for built in &objects {
        objects::ours(known, built)?;
    }
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for built in objects {
        let kind = built.kind;
        if let Some(act) = objects::apply(known, built, &size) {
            if kind == Kind::ServiceAccount {
                &mut first
            } else {
                &mut rest
            }
            .push(act);
        }
    }
    acts.extend(first);
    acts.extend(objects::token(known, &blueprint)?);
    acts.extend(rest);
    acts.extend(growth.acts);
    acts.extend(stateful_set.and_then(|stateful_set| pods::stuck(known, stateful_set)));
    acts.extend(objects::orphans(known, run.app));
    acts.extend(objects::old_revisions(known, standing));

    let expected = if suspended {
        Vec::new()
    } else {
        names::pods(run.app.name().as_str(), run.layout.replicas)
    };
    acts.extend(pods::pushes(known, document, &expected));
    standing.growing = growth.pending;
    standing.provisioned = stateful_set.is_some();
    standing.workers = Some(pods::look(known, &run.layout, document, &expected));
    standing.expected = run.layout.replicas;
    Ok(acts)
}

/// The finalizer is there only while something outside would have to be cleaned up.
fn finalizer(known: &Known<'_>, app: Option<&ValidatedApp>) -> Result<Vec<Act>, Trouble> {
    let Some(app) = app else {
        return Ok(Vec::new());
    };
    let wanted =
        app.topics_on_delete() == OnDelete::Delete || app.volume().on_delete() == OnDelete::Delete;
    let present: Vec<String> = known
        .seen
        .app
        .metadata
        .finalizers
        .clone()
        .unwrap_or_default();
    let there = present.iter().any(|of| of == names::FINALIZER);
    Ok(match (wanted, there) {
        (true, false) => {
            let mut finalizers = present;
            finalizers.push(names::FINALIZER.to_owned());
            vec![Act::SetFinalizers(finalizers)]
        }
        (false, true) => vec![Act::SetFinalizers(
            present
                .into_iter()
                .filter(|of| of != names::FINALIZER)
                .collect(),
        )],
        (true, true) | (false, false) => Vec::new(),
    })
}

/// The phase that journal and world amount to.
pub(crate) fn phase(
    standing: &Standing,
    layout: Option<&LayoutStatus>,
    failed: bool,
    acting: bool,
) -> Phase {
    let pods = standing
        .workers
        .as_ref()
        .map_or(0, |workers| workers.present);
    if standing.suspended {
        return if pods > 0 {
            Phase::Stopping
        } else {
            Phase::Suspended
        };
    }
    if layout.is_none() {
        return if failed {
            Phase::Failed
        } else {
            Phase::Pending
        };
    }
    if !standing.provisioned {
        return if failed {
            Phase::Failed
        } else {
            Phase::Provisioning
        };
    }
    if standing.plan().is_some_and(RescaleStatus::in_motion) {
        return Phase::Rescaling;
    }
    let all = standing
        .workers
        .as_ref()
        .is_some_and(|workers| serving(workers, standing.expected));
    if all && !acting {
        Phase::Running
    } else {
        Phase::Starting
    }
}

/// Whether every worker of the layout is ready and runs what it should.
pub(crate) fn serving(workers: &Workers, expected: i32) -> bool {
    workers.existing == expected && workers.ready == expected && workers.behind.is_none()
}

/// Fields of the status that are on record before anything follows from them.
pub(crate) fn same_journal(one: &TurbineAppStatus, other: &TurbineAppStatus) -> bool {
    one.layout == other.layout
        && one.accepted_revision == other.accepted_revision
        && one.topics == other.topics
        && one.rescale.as_ref().map(RescaleStatus::durable)
            == other.rescale.as_ref().map(RescaleStatus::durable)
}
