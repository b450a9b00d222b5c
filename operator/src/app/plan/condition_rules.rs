//! What each condition says, from what the plan found.

use turbine_crds::status::{Phase, RescaleStatus, TurbineAppStatus};

use super::goal::Goal;
use super::placement_rules::{MISPLACED, declared, misplaced};
use super::rescaling::Blocked;
use super::verdict::Standing;
use super::{Known, rescaling, run};
use crate::app::conditions::{ConditionType, Conditions, Is};
use crate::words::Trouble;

pub(super) fn spec_valid(conditions: &mut Conditions, known: &Known<'_>, goal: &Goal<'_>) {
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

pub(super) fn topics_ready(
    conditions: &mut Conditions,
    standing: &Standing,
    trouble: Option<&Trouble>,
) {
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
        None if matches!(standing.topics, Some(None)) && !standing.differences.is_empty() => {
            conditions.set(
                ConditionType::TopicsReady,
                Is::True,
                "TopicsDiffer",
                format!(
                    "all topics are there, and those that Turbine found are used as they are: {}",
                    standing.differences.join("; ")
                ),
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

/// `blocked` is `None` where the workers cannot change their layout.
pub(super) fn layout(
    conditions: &mut Conditions,
    goal: &Goal<'_>,
    blocked: Option<&Option<Blocked>>,
    plan: Option<&RescaleStatus>,
) {
    match blocked {
        Some(Some(of)) => {
            conditions.set(ConditionType::RescaleBlocked, Is::True, of.reason, &*of.words);
        }
        None if !goal.rescale.is_empty() => conditions.set(
            ConditionType::RescaleBlocked,
            Is::True,
            "RescaleNotSupported",
            format!(
                "the workers that run cannot move state to another layout, the present one stays: {}",
                goal.rescale.join("; ")
            ),
        ),
        Some(None) if plan.is_some_and(|plan| !plan.over()) => conditions.set(
            ConditionType::RescaleBlocked,
            Is::False,
            "GoesOn",
            "nothing is in the way of the rescale",
        ),
        Some(None) | None => conditions.set(
            ConditionType::RescaleBlocked,
            Is::False,
            "NothingAsked",
            "the layout is the one asked for",
        ),
    }
    if let Some(plan) = plan {
        let is = if plan.over() { Is::False } else { Is::True };
        conditions.set(
            ConditionType::Rescaling,
            is,
            &plan.step.to_string(),
            progress_of(plan),
        );
    }
}

/// What a change of the layout is about, and how far it is.
fn progress_of(plan: &RescaleStatus) -> String {
    let mut words: Vec<String> = plan
        .topics
        .iter()
        .map(|of| {
            format!(
                "topic `{}` from {} to {} partitions",
                of.name, of.from, of.to
            )
        })
        .collect();
    if plan.from_replicas != plan.to_replicas {
        words.push(format!(
            "workers from {} to {}",
            plan.from_replicas, plan.to_replicas
        ));
    }
    let mut text = format!("epoch {}: {}", plan.epoch, words.join(", "));
    if let Some(waits) = &plan.blocked_by {
        text.push_str("; ");
        text.push_str(waits);
    }
    text
}

pub(super) fn degraded(
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
    } else if let Some(message) = misplaced_against_the_spec(standing, goal) {
        (MISPLACED.to_owned(), message)
    } else if let Some(message) = transaction_open(standing) {
        ("TransactionOpen".to_owned(), message)
    } else if let Some(message) = checkpoints_failing(standing) {
        ("CheckpointsFailing".to_owned(), message)
    } else if let Some(message) = state_incomplete(standing) {
        ("StateIncomplete".to_owned(), message)
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

/// Transactions of producers that are neither committed nor aborted: tasks read nothing behind them.
fn transaction_open(standing: &Standing) -> Option<String> {
    let waiting = &standing.workers.as_ref()?.blocked;
    (!waiting.is_empty()).then(|| {
        format!(
            "an open transaction of another producer in the input hides what lies behind it; tasks wait until it is committed \
             or aborted: {}. `kafka-transactions.sh describe-producers` and `find-hanging` say whose it is",
            waiting.join(", ")
        )
    })
}

/// Results stay right, and a volume that is lost meanwhile takes with it what no checkpoint has.
fn checkpoints_failing(standing: &Standing) -> Option<String> {
    let failing = &standing.workers.as_ref()?.uncheckpointed;
    (!failing.is_empty()).then(|| {
        format!(
            "the last try at a checkpoint failed for {}; they run on, and try again. `checkpoint.error` in the worker's /status \
             and its log say why",
            failing.join(", ")
        )
    })
}

/// Records that tasks went on without, as the spec asked for. Workers say so until they are replaced.
fn state_incomplete(standing: &Standing) -> Option<String> {
    let lacking = &standing.workers.as_ref()?.incomplete;
    (!lacking.is_empty()).then(|| {
        format!(
            "tasks went on behind records that their state lacks (`onCrashRecovery: accept`, `input.onRetentionGap: accept`); \
             results of windows that were open then are without them: {}",
            lacking.join(", ")
        )
    })
}

/// Records that the spec's `partitionHash` says there are none of.
fn misplaced_against_the_spec(standing: &Standing, goal: &Goal<'_>) -> Option<String> {
    let (workers, run) = (standing.workers.as_ref()?, goal.run.as_ref()?);
    let mut tasks = workers.placement.misplaced.clone();
    tasks.retain(|task| declared(run.app, &task.subscription));
    (!tasks.is_empty()).then(|| misplaced(run, &tasks))
}

pub(super) fn ready(
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
    if let Some(plan) = standing.plan().filter(|plan| rescaling::paused(plan)) {
        return not(
            "Rescaling",
            format!("tasks stand still for a rescale, {}", progress_of(plan)),
        );
    }
    match workers {
        // While tasks stand still for a rescale that was said above; while they do not, they serve.
        Some(workers)
            if run::serving(workers, standing.expected)
                && (arrived || standing.plan().is_some()) => {}
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
        if standing.expected == 1 {
            format!("1 worker runs {tasks} tasks")
        } else {
            format!("{} workers run {tasks} tasks", standing.expected)
        },
    );
}

pub(super) fn progress(
    conditions: &mut Conditions,
    standing: &Standing,
    phase: Phase,
    refused: Option<&Trouble>,
    trouble: Option<&Trouble>,
    goal: &Goal<'_>,
) {
    let plea = || {
        let plea = standing.workers.as_ref()?.plea.as_ref()?;
        Some((plea.reason.clone(), plea.message.clone()))
    };
    let stalled = refused
        .map(|trouble| (trouble.reason().to_owned(), trouble.to_string()))
        .or_else(|| match &standing.rescale_blocked {
            Some(blocked) => blocked
                .as_ref()
                .filter(|of| of.person_must_act)
                .map(|of| (of.reason.to_owned(), of.words.clone())),
            None => (!goal.rescale.is_empty())
                .then(|| ("RescaleNotSupported".to_owned(), goal.rescale.join("; "))),
        })
        .or_else(plea);
    match stalled {
        Some((reason, message)) => {
            conditions.set(ConditionType::Stalled, Is::True, &reason, message);
        }
        None => conditions.set(
            ConditionType::Stalled,
            Is::False,
            "NotStalled",
            "nobody has to act",
        ),
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
