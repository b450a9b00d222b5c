//! A change of the layout within the plan of a pass: what it is decided from, and what it makes of status and acts.

mod gather;
mod preview;
mod question;

use turbine_crds::status::{RescalePreview, RescaleStatus, RescaleStep, TurbineAppStatus};
use turbine_crds::validated::ValidatedApp;

pub(crate) use gather::replicas_of;
pub(crate) use question::question;

use super::Known;
use super::goal::Run;
use super::rescale::{self, Act, Next, World};
use crate::app::seen::Seen;
use crate::words::Trouble;

/// What is to be done about the layout, and from what that was decided.
#[derive(Debug)]
pub(crate) struct Rescaling {
    pub world: World,
    pub next: Next,
}

/// What is in the way of another layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// Constant in CamelCase.
    pub reason: &'static str,
    pub words: String,
    /// Waiting alone will not do.
    pub person_must_act: bool,
}

/// Decides; `None` if nothing is on record and the workers cannot change their layout.
///
/// # Errors
/// If the layout on record could not have been written by this operator.
pub(crate) fn decide(
    known: &Known<'_>,
    run: &Run<'_>,
    suspended: bool,
) -> Result<Option<Rescaling>, Trouble> {
    let on_record = known.seen.status().rescale.is_some() || gather::marked(known.seen);
    if !on_record && !able(known, run) {
        return Ok(None);
    }
    let world = gather::world(known, run, suspended)?;
    let next = rescale::decide(&world);
    Ok(Some(Rescaling { world, next }))
}

/// The answer to the preview that the app's annotation asks for.
///
/// # Errors
/// As [`decide`].
pub(crate) fn preview(
    known: &Known<'_>,
    run: &Run<'_>,
    suspended: bool,
) -> Result<Option<RescalePreview>, Trouble> {
    let Some(request) = preview::request(known.seen) else {
        return Ok(None);
    };
    let world = if able(known, run) {
        Some(gather::world(known, run, suspended)?)
    } else {
        None
    };
    let others = &known.asked.other_readers;
    Ok(Some(preview::preview(request, world.as_ref(), others)))
}

/// Whether the app's annotation asks for a preview.
pub(crate) fn preview_asked(seen: &Seen) -> bool {
    preview::request(seen).is_some()
}

fn able(known: &Known<'_>, run: &Run<'_>) -> bool {
    gather::able(known.seen, known.asked, run.layout.replicas)
}

impl Rescaling {
    /// The record to store, with what is shown of it.
    pub(crate) fn record(&self) -> Option<rescale::Journal> {
        match &self.next {
            Next::Record(journal) => Some(rescale::Journal {
                layout: journal.layout.clone(),
                rescale: rescale::shown(&self.world, &journal.rescale, &self.next),
            }),
            Next::Rest | Next::Refuse(_) | Next::Act(_) | Next::Wait(_) => None,
        }
    }

    /// The record as it is, with what is shown of it.
    pub(crate) fn shown(&self) -> Option<RescaleStatus> {
        let plan = self.world.rescale.as_ref()?;
        Some(rescale::shown(&self.world, plan, &self.next))
    }

    pub(crate) fn acts(&self) -> &[Act] {
        match &self.next {
            Next::Act(acts) => acts,
            Next::Rest | Next::Refuse(_) | Next::Record(_) | Next::Wait(_) => &[],
        }
    }

    /// Whether the record has to come to the volumes before anything else is done.
    pub(crate) fn marks(&self) -> bool {
        self.acts()
            .iter()
            .any(|act| matches!(act, Act::Mark { .. }))
    }

    /// What the condition `RescaleBlocked` says.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        let (reason, words) = rescale::blocked(&self.world, &self.next)?;
        let person_must_act = match &self.next {
            Next::Refuse(refusals) => refusals.iter().any(|of| !of.passes_by_itself()),
            Next::Wait(wait) => wait.person_must_act(),
            Next::Rest | Next::Record(_) | Next::Act(_) => false,
        };
        Some(Blocked {
            reason,
            words,
            person_must_act,
        })
    }
}

/// The plan that is not over yet.
pub(crate) fn running(status: &TurbineAppStatus) -> Option<&RescaleStatus> {
    status.rescale.as_ref().filter(|plan| !plan.over())
}

/// Whether tasks stand still for the plan.
pub(crate) fn paused(plan: &RescaleStatus) -> bool {
    (RescaleStep::Draining..=RescaleStep::Started).contains(&plan.step)
}

/// Why a spec with other subscriptions has to wait, if it has to: the epoch after this one is taken. A status that was emptied does not say
/// so, and the volumes do.
pub(crate) fn holds_back(seen: &Seen) -> Option<Trouble> {
    let status = seen.status();
    let plan = status
        .rescale
        .or_else(|| gather::newest_mark(seen).map(|mark| mark.rescale))
        .filter(|plan| !plan.over() && plan.in_motion())?;
    Some(Trouble::RescaleRuns {
        epoch: plan.epoch,
        step: plan.step.to_string(),
    })
}

/// Pods that the `StatefulSet` is to have. While a plan runs it shrinks by the plan's own act alone.
pub(crate) fn replicas(known: &Known<'_>, run: &Run<'_>, live: Option<i32>) -> i32 {
    let status = known.seen.status();
    match running(&status) {
        Some(plan) => {
            let wanted = rescale::replicas(plan);
            live.map_or(wanted, |live| live.max(wanted))
        }
        None => run.layout.replicas,
    }
}

/// Milliseconds that a plan of this app waits for producers.
pub(crate) fn waits(app: &ValidatedApp) -> (u64, u64) {
    let of = app.rescale();
    (of.producer_refresh_ms(), of.order_grace_ms())
}
