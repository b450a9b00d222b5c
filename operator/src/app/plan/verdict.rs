//! What the status says: phase, conditions and figures, from what the plan found.

use turbine_crds::status::{
    LayoutStatus, Phase, RescalePreview, RescaleStatus, TopicRole, TopicStatus, TurbineAppStatus,
};

use super::goal::Goal;
use super::pods::Workers;
use super::rescaling::{self, Blocked, Rescaling};
use super::{Act, Known, Pace, Plan, condition_rules, phase, placement_rules, run};
use crate::app::conditions::Conditions;
use crate::app::names;
use crate::words::Trouble;

/// What a plan found out on its way.
#[derive(Debug)]
pub(crate) struct Standing {
    status: TurbineAppStatus,
    pub suspended: bool,
    pub provisioned: bool,
    pub expected: i32,
    pub workers: Option<Workers>,
    /// `None`: topics were not looked at.
    pub topics: Option<Option<Trouble>>,
    /// In what topics keep their records otherwise than asked for.
    pub differences: Vec<String>,
    /// Claims whose volumes have not grown yet.
    pub growing: Vec<String>,
    /// What is in the way of another layout; `None` if the workers cannot change theirs.
    pub rescale_blocked: Option<Option<Blocked>>,
    /// Why the plan stopped short.
    pub trouble: Option<Trouble>,
    /// What is being done, in words.
    pub doing: Option<String>,
}

impl Standing {
    pub(crate) fn new(known: &Known<'_>, goal: &Goal<'_>) -> Self {
        Self {
            status: known.seen.status(),
            suspended: known
                .specs
                .current
                .as_ref()
                .is_ok_and(turbine_crds::validated::ValidatedApp::suspended),
            provisioned: false,
            expected: 0,
            workers: None,
            topics: None,
            differences: Vec::new(),
            growing: Vec::new(),
            rescale_blocked: None,
            trouble: if goal.run.is_none() {
                goal.refused.clone()
            } else {
                None
            },
            doing: None,
        }
    }

    /// Puts on record what the acts will follow from.
    pub(crate) fn journal(
        &mut self,
        revision: String,
        layout: LayoutStatus,
        topics: Vec<TopicStatus>,
    ) {
        self.status.accepted_revision = Some(revision);
        self.status.layout = Some(layout);
        self.status.topics = topics;
    }

    /// Puts the next record of a change of the layout on record, or what is to be shown of the present one.
    pub(crate) fn rescaling(&mut self, rescaling: Option<&Rescaling>) {
        let Some(rescaling) = rescaling else {
            return;
        };
        self.rescale_blocked = Some(rescaling.blocked());
        match rescaling.record() {
            Some(journal) => {
                self.status.layout = Some(journal.layout);
                self.status.rescale = Some(journal.rescale);
            }
            None => self.status.rescale = rescaling.shown(),
        }
        self.doing = self.plan().map(|plan| {
            let waits = plan
                .blocked_by
                .as_ref()
                .map_or_else(String::new, |text| format!(": {text}"));
            format!(
                "a rescale (epoch {}) is at {}{waits}",
                plan.epoch, plan.step
            )
        });
    }

    /// Shows what the change would do that is asked about.
    pub(crate) fn preview(&mut self, preview: Option<RescalePreview>) {
        self.status.rescale_preview = preview;
    }

    /// The change of the layout that is on its way.
    pub(crate) fn plan(&self) -> Option<&RescaleStatus> {
        rescaling::running(&self.status)
    }

    /// Whether the record has to be written first.
    pub(crate) fn unrecorded(&self, stored: &TurbineAppStatus) -> bool {
        !run::same_journal(&self.status, stored)
    }

    pub(crate) fn accepted(&self) -> Option<&str> {
        self.status.accepted_revision.as_deref()
    }
}

/// Puts the verdict together.
pub(crate) fn give(
    known: &Known<'_>,
    goal: &Goal<'_>,
    mut standing: Standing,
    acts: Vec<Act>,
) -> Plan {
    let trouble = standing.trouble.clone().or_else(|| known.fault.cloned());
    let unrecorded = standing.unrecorded(&known.seen.status());
    let acting = unrecorded || acts.iter().any(changes);
    let mut status = std::mem::take(&mut standing.status);
    let adopted = goal
        .run
        .as_ref()
        .filter(|run| run.adopted)
        .and_then(|_| status.layout.clone());
    let failed = trouble
        .as_ref()
        .is_some_and(|trouble| trouble.person_must_act() && !trouble.waits());
    let to = run::phase(&standing, status.layout.as_ref(), failed, acting);
    let next = phase::step(known.seen.status().phase, to).unwrap_or(to);
    let arrived = next == to;
    status.phase = Some(next);
    status.observed_generation = Some(known.seen.generation());
    status.selector = Some(names::selector_text(&known.seen.name()));
    figures(&mut status, &standing, goal);

    let mut conditions = Conditions::from(&status.conditions, known.seen.generation(), known.now);
    condition_rules::spec_valid(&mut conditions, known, goal);
    condition_rules::topics_ready(&mut conditions, &standing, trouble.as_ref());
    condition_rules::layout(
        &mut conditions,
        goal,
        standing.rescale_blocked.as_ref(),
        status.rescale.as_ref(),
    );
    placement_rules::verdict(&mut conditions, &standing, goal, &known.seen.name());
    placement_rules::counts(&mut conditions, goal);
    condition_rules::degraded(&mut conditions, &standing, &status, goal, known.fault);
    condition_rules::ready(
        &mut conditions,
        &standing,
        &status,
        goal,
        trouble.as_ref(),
        arrived && !acting,
    );
    let refused = trouble
        .as_ref()
        .or(goal.refused.as_ref())
        .filter(|trouble| trouble.person_must_act());
    condition_rules::progress(
        &mut conditions,
        &standing,
        next,
        refused,
        trouble.as_ref(),
        goal,
    );
    status.conditions = conditions.into_list();

    let runs = rescaling::running(&status);
    let pace = if runs.is_some_and(rescaling::paused) && !standing.suspended {
        Pace::Paused
    } else if !arrived || acting || runs.is_some() {
        Pace::Moving
    } else if trouble.is_some()
        || goal.refused.is_some()
        || matches!(standing.topics, Some(Some(_)))
    {
        Pace::Blocked
    } else if matches!(next, Phase::Running | Phase::Suspended) && standing.growing.is_empty() {
        Pace::Settled
    } else {
        Pace::Moving
    };
    Plan {
        status,
        acts,
        pace,
        adopted,
    }
}

/// Acts that mean the app is not yet what it should be.
fn changes(act: &Act) -> bool {
    !matches!(
        act,
        Act::DeleteRevision { .. }
            | Act::DeleteOrphan { .. }
            | Act::Push { .. }
            // The phase says that a layout is being changed, and tasks may run while it is.
            | Act::Rescale(_)
    )
}

fn figures(status: &mut TurbineAppStatus, standing: &Standing, goal: &Goal<'_>) {
    let Some(workers) = &standing.workers else {
        return;
    };
    status.replicas = Some(workers.existing);
    status.ready_replicas = Some(workers.ready);
    status.subscriptions.clone_from(&workers.subscriptions);
    if workers.version.is_some() {
        status.worker_version.clone_from(&workers.version);
    }
    if let Some(run) = &goal.run {
        let counts: Vec<String> = run
            .layout
            .subscriptions
            .iter()
            .filter(|of| run.running.contains(&of.name))
            .map(|of| of.partitions.to_string())
            .collect();
        status.partitions = Some(counts.join(","));
    }
}

/// Topics of a status that Turbine made.
pub(crate) fn made(status: &TurbineAppStatus) -> impl Iterator<Item = &TopicStatus> {
    status
        .topics
        .iter()
        .filter(|topic| topic.created && topic.role != TopicRole::Input)
}
