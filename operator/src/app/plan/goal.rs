//! What should run: which spec, on which layout.

use std::collections::BTreeSet;

use turbine_crds::status::LayoutStatus;
use turbine_crds::validated::ValidatedApp;

use super::{Act, Known, claims, rescaling, topics};
use crate::app::layout;
use crate::words::Trouble;

/// What the app should be.
#[derive(Debug)]
pub(crate) struct Goal<'a> {
    /// What runs, and on which layout; `None` if nothing can run yet.
    pub run: Option<Run<'a>>,
    /// Why the current spec is not what runs.
    pub refused: Option<Trouble>,
    /// What the spec or the broker asks for that the layout cannot give.
    pub rescale: Vec<String>,
    /// Claims of an earlier life that go before a new one begins.
    pub discard: Vec<Act>,
}

/// A spec on a layout.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub app: &'a ValidatedApp,
    /// `None`: the current spec, which is to be accepted.
    pub revision: Option<&'a str>,
    pub layout: LayoutStatus,
    /// Names of the subscriptions that run.
    pub running: BTreeSet<String>,
    /// The layout was found on kept volumes.
    pub adopted: bool,
}

/// Chooses the current spec if it can run, else the accepted one.
pub(crate) fn choose<'a>(known: &Known<'a>) -> Goal<'a> {
    let mut goal = Goal {
        run: None,
        refused: None,
        rescale: Vec::new(),
        discard: Vec::new(),
    };
    let on_disk = match &known.specs.current {
        Ok(current) => claims::on_disk(known, current),
        Err(_) => claims::journalled(known),
    };
    let on_disk = match on_disk {
        Ok(on_disk) => on_disk,
        Err(trouble) => {
            goal.refused = Some(trouble);
            return goal;
        }
    };
    if let claims::OnDisk::Discard(acts) = on_disk {
        goal.discard = acts;
        return goal;
    }
    let (layout, adopted) = on_disk.layout();

    match known
        .specs
        .current
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|current| current_run(known, current, layout.as_ref(), adopted))
    {
        Ok(run) => {
            goal.rescale = layout::differences(run.app, &run.layout, &known.asked.counts());
            goal.run = Some(run);
        }
        Err(trouble) => {
            goal.refused = Some(trouble);
            if let (Some(accepted), Some(layout)) = (&known.specs.accepted, layout) {
                let running = subscriptions(&accepted.validated);
                goal.rescale =
                    layout::differences(&accepted.validated, &layout, &known.asked.counts());
                goal.run = Some(Run {
                    app: &accepted.validated,
                    revision: Some(&accepted.revision),
                    layout,
                    running,
                    adopted: false,
                });
            }
        }
    }
    goal
}

fn current_run<'a>(
    known: &Known<'a>,
    current: &'a ValidatedApp,
    layout: Option<&LayoutStatus>,
    adopted: bool,
) -> Result<Run<'a>, Trouble> {
    if let Some(by) = &known.asked.taken_by {
        return Err(Trouble::IdentityTaken {
            app_id: current.app_id().to_string(),
            by: by.clone(),
        });
    }
    unproven_kafka(known, current)?;
    let running = running(known, current, layout)?;
    let counts = topics::with_planned(current, known.asked.counts());
    let layout =
        layout::needed(current, layout, &running, &counts, known.fresh).map_err(|trouble| {
            match (&trouble, &known.asked.kafka) {
                // Not missing: nobody could be asked.
                (Trouble::InputTopicMissing { .. }, Some(Err(why))) => why.clone(),
                _ => trouble,
            }
        })?;
    let unchanged = known
        .specs
        .accepted
        .as_ref()
        .is_some_and(|accepted| accepted.app.spec == known.seen.app.spec);
    Ok(Run {
        app: current,
        revision: if unchanged {
            known
                .specs
                .accepted
                .as_ref()
                .map(|accepted| accepted.revision.as_str())
        } else {
            None
        },
        layout,
        running: subscriptions(current),
        adopted,
    })
}

/// Names of what ran before this spec.
///
/// # Errors
/// If a plan is in motion and the spec has other subscriptions: the layout epoch that they would need is the plan's.
fn running(
    known: &Known<'_>,
    current: &ValidatedApp,
    layout: Option<&LayoutStatus>,
) -> Result<BTreeSet<String>, Trouble> {
    let wanted = subscriptions(current);
    // Without a record of what ran, everything that is on disk may have.
    let laid = || -> BTreeSet<String> {
        let all = layout.map(|layout| layout.subscriptions.iter());
        all.into_iter()
            .flatten()
            .map(|of| of.name.clone())
            .collect()
    };
    let accepted = known.specs.accepted.as_ref();
    let Some(runs) = rescaling::holds_back(known.seen) else {
        return Ok(accepted.map_or_else(laid, |accepted| subscriptions(&accepted.validated)));
    };
    let same = match accepted {
        Some(accepted) => subscriptions(&accepted.validated) == wanted,
        None => wanted.is_subset(&laid()),
    };
    if same { Ok(wanted) } else { Err(runs) }
}

/// Workers that were given another broker, secret or client setting before one of them was shown to work would stop, and the
/// ones that run would be gone.
fn unproven_kafka(known: &Known<'_>, current: &ValidatedApp) -> Result<(), Trouble> {
    match (&known.specs.accepted, &known.asked.kafka) {
        (Some(accepted), Some(Err(trouble)))
            if accepted.validated.compiled().kafka != current.compiled().kafka =>
        {
            Err(trouble.clone())
        }
        _ => Ok(()),
    }
}

fn subscriptions(app: &ValidatedApp) -> BTreeSet<String> {
    app.compiled()
        .subscriptions
        .iter()
        .map(|of| of.name.clone())
        .collect()
}
