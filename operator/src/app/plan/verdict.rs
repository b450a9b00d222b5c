//! What the status says: phase, conditions and figures, from what the plan found.

use turbine_crds::status::{LayoutStatus, Phase, TopicRole, TopicStatus, TurbineAppStatus};

use super::goal::Goal;
use super::pods::Workers;
use super::{Act, Known, Pace, Plan, phase, run};
use crate::app::conditions::{ConditionType, Conditions, Is};
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
    /// Claims whose volumes have not grown yet.
    pub growing: Vec<String>,
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
            growing: Vec::new(),
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
    spec_valid(&mut conditions, known, goal);
    topics_ready(&mut conditions, &standing, trouble.as_ref());
    rescale(&mut conditions, goal);
    degraded(&mut conditions, &standing, &status, goal, known.fault);
    ready(
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
    progress(
        &mut conditions,
        &standing,
        next,
        refused,
        trouble.as_ref(),
        goal,
    );
    status.conditions = conditions.into_list();

    let pace = if !arrived || acting {
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
        Act::DeleteRevision { .. } | Act::DeleteOrphan { .. } | Act::Push { .. }
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

fn spec_valid(conditions: &mut Conditions, known: &Known<'_>, goal: &Goal<'_>) {
    match (&known.specs.current, &known.specs.unreadable) {
        (Err(trouble), _) => {
            let goes_on = if goal.run.is_some() {
                "; the last accepted spec runs on"
            } else {
                ""
            };
            conditions.set(
                ConditionType::SpecValid,
                Is::False,
                trouble.reason(),
                format!("{trouble}{goes_on}"),
            );
        }
        (Ok(_), Some(trouble)) => {
            conditions.set(
                ConditionType::SpecValid,
                Is::True,
                "Valid",
                format!("the spec is valid ({trouble})"),
            );
        }
        (Ok(_), None) => {
            conditions.set(
                ConditionType::SpecValid,
                Is::True,
                "Valid",
                "the spec is valid",
            );
        }
    }
}

fn topics_ready(conditions: &mut Conditions, standing: &Standing, trouble: Option<&Trouble>) {
    let about = trouble
        .filter(|trouble| trouble.about_topics())
        .or_else(|| standing.topics.as_ref().and_then(Option::as_ref));
    match about {
        Some(trouble @ (Trouble::Kafka(_) | Trouble::SecretMissing { .. })) => {
            conditions.set(
                ConditionType::TopicsReady,
                Is::Unknown,
                trouble.reason(),
                trouble.to_string(),
            );
        }
        Some(trouble) => {
            conditions.set(
                ConditionType::TopicsReady,
                Is::False,
                trouble.reason(),
                trouble.to_string(),
            );
        }
        None if matches!(standing.topics, Some(None)) => {
            conditions.set(
                ConditionType::TopicsReady,
                Is::True,
                "TopicsFit",
                "all topics are there and fit",
            );
        }
        None => {
            conditions.set(
                ConditionType::TopicsReady,
                Is::Unknown,
                "NotLooked",
                "the topics were not looked at yet",
            );
        }
    }
}

fn rescale(conditions: &mut Conditions, goal: &Goal<'_>) {
    if goal.rescale.is_empty() {
        conditions.set(
            ConditionType::RescaleBlocked,
            Is::False,
            "NothingAsked",
            "the layout is the one asked for",
        );
    } else {
        conditions.set(
            ConditionType::RescaleBlocked,
            Is::True,
            "RescaleNotSupported",
            format!(
                "this version cannot move state to another layout, the present one runs on: {}",
                goal.rescale.join("; ")
            ),
        );
    }
}

fn degraded(
    conditions: &mut Conditions,
    standing: &Standing,
    status: &TurbineAppStatus,
    goal: &Goal<'_>,
    fault: Option<&Trouble>,
) {
    let halted: Vec<String> = status
        .subscriptions
        .iter()
        .flat_map(|of| of.halted.iter().map(move |task| (of, task)))
        .map(|(of, task)| format!("{}/{}: {}", of.name, task.partition, task.message))
        .collect();
    let first_halt = status.subscriptions.iter().flat_map(|of| &of.halted).next();
    let hindrance = standing
        .workers
        .as_ref()
        .and_then(|workers| workers.hindrance.as_ref());
    let (reason, message) = if let Some(halt) = first_halt {
        (
            halt.reason.clone(),
            format!("tasks stand still: {}", halted.join("; ")),
        )
    } else if let Some(hindrance) = hindrance {
        (hindrance.reason.clone(), hindrance.message.clone())
    } else if let Some(fault) = fault {
        (fault.reason().to_owned(), fault.to_string())
    } else if let (Some(Some(trouble)), true) = (&standing.topics, standing.provisioned) {
        (trouble.reason().to_owned(), trouble.to_string())
    } else if !standing.growing.is_empty() {
        (
            "VolumesGrowing".to_owned(),
            format!(
                "volumes were told to grow and have not yet: {}",
                standing.growing.join(", ")
            ),
        )
    } else if goal
        .rescale
        .iter()
        .any(|text| text.contains("are not read"))
    {
        ("PartitionsNotRead".to_owned(), goal.rescale.join("; "))
    } else {
        conditions.set(
            ConditionType::Degraded,
            Is::False,
            "Healthy",
            "nothing is known to be wrong",
        );
        return;
    };
    conditions.set(ConditionType::Degraded, Is::True, &reason, message);
}

fn ready(
    conditions: &mut Conditions,
    standing: &Standing,
    status: &TurbineAppStatus,
    goal: &Goal<'_>,
    trouble: Option<&Trouble>,
    arrived: bool,
) {
    let mut not = |reason: &str, message: String| {
        conditions.set(ConditionType::Ready, Is::False, reason, message);
    };
    let workers = standing.workers.as_ref();
    if standing.suspended && trouble.is_none() {
        return not(
            "Suspended",
            "spec.suspend is true: workers are stopped, state and topics are kept".to_owned(),
        );
    }
    if let Some(trouble) = trouble {
        return not(trouble.reason(), trouble.to_string());
    }
    if let Some(halt) = status.subscriptions.iter().flat_map(|of| &of.halted).next() {
        return not(
            &halt.reason.clone(),
            format!("a task stands still: {}", halt.message),
        );
    }
    if let Some(hindrance) = workers.and_then(|workers| workers.hindrance.as_ref()) {
        return not(&hindrance.reason.clone(), hindrance.message.clone());
    }
    match workers {
        Some(workers) if run::serving(workers, standing.expected) && arrived => {}
        Some(workers) => {
            let behind = workers
                .behind
                .as_deref()
                .map_or_else(String::new, |text| format!(": {text}"));
            let message = format!(
                "{} of {} workers are ready{behind}",
                workers.ready, standing.expected
            );
            return not("WorkersStarting", message);
        }
        None => {
            let doing = standing
                .doing
                .clone()
                .unwrap_or_else(|| "nothing runs yet".to_owned());
            return not("Provisioning", doing);
        }
    }
    if let Some(trouble) = &goal.refused {
        let revision = status.accepted_revision.as_deref().unwrap_or_default();
        let message =
            format!("the spec does not run: {trouble}; the last accepted one ({revision}) runs on");
        return not(trouble.reason(), message);
    }
    let tasks: i32 = status.subscriptions.iter().map(|of| of.running_tasks).sum();
    conditions.set(
        ConditionType::Ready,
        Is::True,
        "Running",
        format!("{} workers run {tasks} tasks", standing.expected),
    );
}

fn progress(
    conditions: &mut Conditions,
    standing: &Standing,
    phase: Phase,
    refused: Option<&Trouble>,
    trouble: Option<&Trouble>,
    goal: &Goal<'_>,
) {
    match refused {
        Some(trouble) => {
            conditions.set(
                ConditionType::Stalled,
                Is::True,
                trouble.reason(),
                trouble.to_string(),
            );
        }
        None if !goal.rescale.is_empty() => {
            conditions.set(
                ConditionType::Stalled,
                Is::True,
                "RescaleNotSupported",
                goal.rescale.join("; "),
            );
        }
        None => {
            conditions.set(
                ConditionType::Stalled,
                Is::False,
                "NotStalled",
                "nobody has to act",
            );
        }
    }
    let settled = matches!(phase, Phase::Running | Phase::Suspended | Phase::Failed);
    if settled {
        conditions.set(
            ConditionType::Reconciling,
            Is::False,
            "Settled",
            "nothing is on its way",
        );
    } else {
        let (reason, message) = match (trouble, &standing.doing) {
            (Some(trouble), _) => (trouble.reason().to_owned(), trouble.to_string()),
            (None, Some(doing)) => (phase.to_string(), doing.clone()),
            (None, None) => (phase.to_string(), format!("the app is {phase}")),
        };
        conditions.set(ConditionType::Reconciling, Is::True, &reason, message);
    }
}

/// Topics of a status that Turbine made.
pub(crate) fn made(status: &TurbineAppStatus) -> impl Iterator<Item = &TopicStatus> {
    status
        .topics
        .iter()
        .filter(|topic| topic.created && topic.role != TopicRole::Input)
}
