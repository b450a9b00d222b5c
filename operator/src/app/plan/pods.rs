//! The worker pods: who is ready, who waits for what, who is stuck.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::control::{MisplacedRecord, TaskState, Verdict, WorkerStatus};
use turbine_crds::status::{HaltedTask, LayoutStatus, SubscriptionStatus};

use super::{Act, Known, volume_rules};
use crate::app::names;
use crate::app::seen::{going, label, name_of, text, time, uid_of};
use crate::cluster::Kind;
use crate::workers::WorkerAnswer;

/// How long a pod of an old revision may be unable to start before it is replaced. A worker that
/// restores is running and never counts as unable, however long it takes.
const STUCK_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// Why a pod does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hindrance {
    /// Constant, for conditions.
    pub reason: String,
    pub message: String,
    /// It has been so for longer than any start takes.
    pub lasting: bool,
}

/// What a person has to see to: the words of a task or a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plea {
    pub reason: String,
    pub message: String,
}

/// A task that found records in the wrong partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MisplacedTask {
    pub subscription: String,
    pub partition: i32,
    /// The first such record.
    pub first: Option<MisplacedRecord>,
}

/// What the tasks say of the placement of their records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlacementSeen {
    /// By subscription and partition.
    pub misplaced: Vec<MisplacedTask>,
    /// A task has not seen enough distinct keys. One of a topic with one partition never does, and is not meant.
    pub unknown: bool,
    /// Tasks of which nobody speaks at the moment.
    pub silent: bool,
}

/// The pods and what the workers in them say.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// Pods that exist and are not going away.
    pub existing: i32,
    /// Pods that exist, those going away included.
    pub present: i32,
    pub ready: i32,
    /// The first thing that keeps a pod from running.
    pub hindrance: Option<Hindrance>,
    /// The first thing that does not pass by itself.
    pub plea: Option<Plea>,
    /// The first worker that is not on the current epoch with all its tasks, and how.
    pub behind: Option<String>,
    pub subscriptions: Vec<SubscriptionStatus>,
    pub placement: PlacementSeen,
    /// Tasks whose state lacks records that they went on without, with the offsets.
    pub incomplete: Vec<String>,
    /// Tasks that an open transaction in their input holds up, with the offset and since when.
    pub blocked: Vec<String>,
    /// Tasks whose last try at a checkpoint did not end well.
    pub uncheckpointed: Vec<String>,
    /// Pods whose volume is almost full, and how full.
    pub almost_full: Vec<String>,
    pub version: Option<String>,
}

/// Looks at pods and reports of the layout's workers.
pub(crate) fn look(
    known: &Known<'_>,
    layout: &LayoutStatus,
    document: &AssignmentDocument,
    expected: &[String],
) -> Workers {
    let mut workers = Workers {
        present: i32::try_from(known.seen.pods.len()).unwrap_or(i32::MAX),
        ..Workers::default()
    };
    let mut reports: BTreeMap<&str, &WorkerStatus> = BTreeMap::new();
    for name in expected {
        let Some(pod) = known.seen.pods.iter().find(|pod| name_of(pod) == name) else {
            continue;
        };
        if !going(pod) {
            workers.existing += 1;
        }
        if ready(pod) {
            workers.ready += 1;
        }
        if workers.hindrance.is_none() {
            workers.hindrance = hindrance(known, pod);
        }
        match known.asked.workers.get(name) {
            Some((_, WorkerAnswer::Status(status))) => {
                reports.insert(name, status);
                if workers.behind.is_none() {
                    workers.behind = behind(status, document, name);
                }
            }
            Some((_, WorkerAnswer::Silent(why))) => {
                workers
                    .behind
                    .get_or_insert(format!("worker {name} does not answer the operator: {why}"));
            }
            None => {
                workers
                    .behind
                    .get_or_insert(format!("pod {name} is not running yet"));
            }
        }
    }
    workers.plea = plea(&reports, workers.hindrance.as_ref());
    workers.version = reports.values().map(|status| status.version.clone()).max();
    workers.subscriptions = subscriptions(layout, document, &reports);
    workers.placement = placement(document, &reports);
    workers.incomplete = incomplete(&reports);
    workers.blocked = blocked(&reports);
    workers.uncheckpointed = uncheckpointed(&reports);
    workers.almost_full = volume_rules::almost_full(&reports);
    workers
}

fn incomplete(reports: &BTreeMap<&str, &WorkerStatus>) -> Vec<String> {
    let tasks = reports.values().flat_map(|report| &report.tasks);
    let told = tasks.filter_map(|task| {
        let missing = task.missing?;
        Some(format!(
            "{}/{} from offset {} to {} ({} offsets)",
            task.subscription, task.partition, missing.from, missing.to, missing.count
        ))
    });
    told.collect()
}

/// Without what changes while a task waits: the same wait is told in the same words.
fn blocked(reports: &BTreeMap<&str, &WorkerStatus>) -> Vec<String> {
    let tasks = reports.values().flat_map(|report| &report.tasks);
    let told = tasks.filter_map(|task| {
        let open = task.open_transaction?;
        let seconds = open.since_ms.div_euclid(1_000);
        let since = Timestamp::from_second(seconds)
            .map_or_else(|_| format!("{seconds} s"), |time| time.to_string());
        Some(format!(
            "{}/{} at offset {} since {since}",
            task.subscription, task.partition, open.offset
        ))
    });
    told.collect()
}

/// Without the words of the fault, which differ from one try to the next.
fn uncheckpointed(reports: &BTreeMap<&str, &WorkerStatus>) -> Vec<String> {
    let tasks = reports.values().flat_map(|report| &report.tasks);
    let failing = tasks.filter(|task| {
        let checkpoint = task.checkpoint.as_ref();
        checkpoint.is_some_and(|checkpoint| checkpoint.error.is_some())
    });
    failing
        .map(|task| format!("{}/{}", task.subscription, task.partition))
        .collect()
}

fn placement(
    document: &AssignmentDocument,
    reports: &BTreeMap<&str, &WorkerStatus>,
) -> PlacementSeen {
    let mut seen = PlacementSeen::default();
    for assigned in &document.tasks {
        let found = reports.get(assigned.pod.as_str()).and_then(|report| {
            report.tasks.iter().find(|of| {
                of.subscription == assigned.subscription && of.partition == assigned.partition
            })
        });
        // A task that does not run may not have read its verdict.
        let Some(task) = found
            .filter(|task| task.placement != Verdict::Unknown || task.state == TaskState::Running)
        else {
            seen.silent = true;
            continue;
        };
        match task.placement {
            Verdict::Misplaced => seen.misplaced.push(MisplacedTask {
                subscription: task.subscription.clone(),
                partition: task.partition,
                first: task.misplaced_first.clone(),
            }),
            Verdict::Unknown => seen.unknown |= assigned.partitions > 1,
            Verdict::Verified => {}
        }
    }
    seen
}

fn plea(reports: &BTreeMap<&str, &WorkerStatus>, hindrance: Option<&Hindrance>) -> Option<Plea> {
    let halts = reports
        .values()
        .flat_map(|report| &report.tasks)
        .filter_map(|task| Some((task, task.halt.as_ref()?)))
        .filter(|(_, halt)| halt.person_must_act);
    halts
        .map(|(task, halt)| Plea {
            reason: halt.reason.clone(),
            message: format!(
                "task {}/{}: {}",
                task.subscription, task.partition, halt.message
            ),
        })
        .next()
        .or_else(|| {
            hindrance
                .filter(|hindrance| hindrance.lasting)
                .map(|hindrance| Plea {
                    reason: hindrance.reason.clone(),
                    message: hindrance.message.clone(),
                })
        })
}

fn subscriptions(
    layout: &LayoutStatus,
    document: &AssignmentDocument,
    reports: &BTreeMap<&str, &WorkerStatus>,
) -> Vec<SubscriptionStatus> {
    layout
        .subscriptions
        .iter()
        .filter(|laid| {
            document
                .tasks
                .iter()
                .any(|task| task.subscription == laid.name)
        })
        .map(|laid| {
            let mut status = SubscriptionStatus {
                name: laid.name.clone(),
                partitions: laid.partitions,
                ..SubscriptionStatus::default()
            };
            for report in reports.values() {
                for task in report
                    .tasks
                    .iter()
                    .filter(|task| task.subscription == laid.name)
                {
                    if task.state == TaskState::Running {
                        status.running_tasks += 1;
                    }
                    if let Some(halt) = &task.halt {
                        status.halted.push(HaltedTask {
                            partition: task.partition,
                            reason: halt.reason.clone(),
                            message: halt.message.clone(),
                        });
                    }
                }
            }
            status.halted.sort_by_key(|halted| halted.partition);
            status
        })
        .collect()
}

/// In what a worker is behind its document, if in anything.
fn behind(status: &WorkerStatus, document: &AssignmentDocument, pod: &str) -> Option<String> {
    if status.epoch != Some(document.epoch) {
        return Some(format!(
            "worker {pod} runs epoch {}, not {}",
            status
                .epoch
                .map_or_else(|| "none".to_owned(), |epoch| epoch.to_string()),
            document.epoch
        ));
    }
    document
        .tasks
        .iter()
        .filter(|task| task.pod == pod)
        .find_map(|task| {
            let state = status
                .tasks
                .iter()
                .find(|of| of.subscription == task.subscription && of.partition == task.partition)
                .map(|of| of.state);
            match state {
                Some(TaskState::Running) => None,
                Some(state) => Some(format!(
                    "task {}/{} on {pod} is {state}",
                    task.subscription, task.partition
                )),
                None => Some(format!(
                    "task {}/{} is not on {pod} yet",
                    task.subscription, task.partition
                )),
            }
        })
}

/// Workers that run another epoch than the document's: they are given it.
pub(crate) fn pushes(
    known: &Known<'_>,
    document: &AssignmentDocument,
    expected: &[String],
) -> Vec<Act> {
    known
        .asked
        .workers
        .iter()
        .filter(|(pod, _)| expected.contains(pod))
        .filter_map(|(_, (target, answer))| match answer {
            WorkerAnswer::Status(status)
                if status.epoch < Some(document.epoch) && !status.draining =>
            {
                Some(Act::Push {
                    target: target.clone(),
                    document: document.clone(),
                })
            }
            WorkerAnswer::Status(_) | WorkerAnswer::Silent(_) => None,
        })
        .collect()
}

/// The one pod of an old revision that cannot become ready and stands in the way of the new one.
/// Its volume stays.
pub(crate) fn stuck(known: &Known<'_>, stateful_set: &Value) -> Option<Act> {
    let wanted = text(stateful_set, "/status/updateRevision")?;
    let judged = stateful_set.pointer("/status/observedGeneration")
        == stateful_set.pointer("/metadata/generation");
    if !judged {
        return None;
    }
    known
        .seen
        .pods
        .iter()
        .filter(|pod| !going(pod) && !ready(pod))
        .filter(|pod| {
            label(pod, "controller-revision-hash").is_some_and(|revision| revision != wanted)
        })
        .find_map(|pod| {
            let why = cannot_start(pod)?;
            unready_for_long(known, pod).then(|| Act::ReplacePod {
                name: name_of(pod).to_owned(),
                uid: uid_of(pod).to_owned(),
                why,
            })
        })
}

fn unready_for_long(known: &Known<'_>, pod: &Value) -> bool {
    condition_time(pod, "Ready")
        .or_else(|| time(pod, "/metadata/creationTimestamp"))
        .is_some_and(|since| known.now.duration_since(since) >= STUCK_AFTER)
}

fn condition<'a>(pod: &'a Value, type_: &str) -> Option<&'a Value> {
    pod.pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == type_)
}

fn condition_time(pod: &Value, type_: &str) -> Option<Timestamp> {
    time(condition(pod, type_)?, "/lastTransitionTime")
}

fn ready(pod: &Value) -> bool {
    !going(pod) && condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True")
}

/// Why the pod will not start by itself, if so: an image, a configuration, a crash loop, or no node.
fn cannot_start(pod: &Value) -> Option<String> {
    waiting(pod)
        .map(|(reason, message)| format!("{reason}: {message}"))
        .or_else(|| unscheduled(pod).map(str::to_owned))
}

fn waiting(pod: &Value) -> Option<(&str, &str)> {
    ["/status/initContainerStatuses", "/status/containerStatuses"]
        .iter()
        .filter_map(|pointer| pod.pointer(pointer)?.as_array())
        .flatten()
        .find_map(|container| {
            let reason = text(container, "/state/waiting/reason")?;
            let message = text(container, "/state/waiting/message").unwrap_or_default();
            matches!(
                reason,
                "ErrImagePull"
                    | "ImagePullBackOff"
                    | "InvalidImageName"
                    | "ErrImageNeverPull"
                    | "CrashLoopBackOff"
                    | "CreateContainerConfigError"
                    | "CreateContainerError"
                    | "RunContainerError"
            )
            .then_some((reason, message))
        })
}

fn unscheduled(pod: &Value) -> Option<&str> {
    let condition = condition(pod, "PodScheduled")?;
    (condition["status"] == "False")
        .then(|| condition["message"].as_str().unwrap_or("no reason given"))
}

fn hindrance(known: &Known<'_>, pod: &Value) -> Option<Hindrance> {
    let name = name_of(pod);
    let lasting = unready_for_long(known, pod);
    if let Some((reason, message)) = waiting(pod) {
        let (reason, message) = match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => (
                "ImagePullFailed",
                format!(
                    "pod {name} cannot start: {message}; correct spec.worker.image, or what the nodes need to pull it"
                ),
            ),
            "CrashLoopBackOff" => ("WorkerCrashes", crashes(name, pod)),
            _ => (
                "ContainerNotCreated",
                format!("pod {name} cannot start: {message}"),
            ),
        };
        return Some(Hindrance {
            reason: reason.to_owned(),
            message,
            lasting,
        });
    }
    let says = unscheduled(pod)?;
    let claim = format!("{}-{name}", names::VOLUME);
    let found = known.seen.claims.iter().find(|of| name_of(of) == claim);
    Some(
        // A claim that waits for its pod is pending as well, whatever keeps the pod.
        match found.filter(|claim| {
            text(claim, "/status/phase") == Some("Pending")
                && ["volume", "storageclass"]
                    .iter()
                    .any(|word| says.to_lowercase().contains(word))
        }) {
            Some(claim) => Hindrance {
                reason: "VolumePending".to_owned(),
                message: format!(
                    "{} {} waits for a volume of storage class {}: see that the class exists and can provide one (the class of an app cannot change; to use another, delete the app and its claims and apply it anew); the scheduler says: {says}",
                    Kind::PersistentVolumeClaim,
                    name_of(claim),
                    text(claim, "/spec/storageClassName")
                        .unwrap_or("(none; the cluster has no default class)"),
                ),
                lasting,
            },
            None => Hindrance {
                reason: "Unschedulable".to_owned(),
                message: format!("no node takes pod {name}; the scheduler says: {says}"),
                lasting,
            },
        },
    )
}

/// How a worker that starts again and again ended the last time.
fn crashes(name: &str, pod: &Value) -> String {
    let ended = pod
        .pointer("/status/containerStatuses")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find_map(|container| container.pointer("/lastState/terminated"));
    let Some(ended) = ended else {
        return format!(
            "the worker of pod {name} ends again and again: kubectl logs {name} --previous says why"
        );
    };
    let reason = text(ended, "/reason").unwrap_or("Error");
    let code = ended
        .get("exitCode")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let last_words = text(ended, "/message").map_or_else(String::new, |message| {
        let line = message.trim().lines().last().unwrap_or_default();
        format!(" and said: {line}")
    });
    let advice = if reason == "OOMKilled" {
        "give spec.worker.resources.limits.memory more, or run more replicas".to_owned()
    } else {
        format!("kubectl logs {name} --previous says more")
    };
    format!(
        "the worker of pod {name} ends again and again, last with {reason} (exit code {code}){last_words}; {advice}"
    )
}
