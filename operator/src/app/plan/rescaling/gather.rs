//! The world of a plan, from what a pass has read.

use std::collections::{BTreeMap, BTreeSet};

use turbine_crds::app::ProcessingGuarantee;
use turbine_crds::control::{OldEndState, TaskRescale, TaskStatus, WorkerRescale, WorkerStatus};
use turbine_crds::validated::ValidatedApp;
use turbine_keygroups::{Partition, Verdict};
use turbine_protocol::layout::Task;
use turbine_protocol::rescale::{Closing, Moment};

use super::super::Known;
use super::super::goal::Run;
use super::super::rescale::{
    BrokerFacts, ClaimFacts, CopyAhead, Hold, Journal, Manifest, PodFacts, SetFacts, StopWord,
    TaskWord, Wanted, WantedSubscription, WorkerWord, World,
};
use crate::app::seen::{Asked, Seen, going, name_of, text, uid_of};
use crate::app::{layout, names};
use crate::cluster::Kind;
use crate::words::Trouble;
use crate::workers::WorkerAnswer;

/// Whether a volume carries a record of a plan.
pub(super) fn marked(seen: &Seen) -> bool {
    seen.claims
        .iter()
        .any(|claim| annotation(claim, names::RESCALE).is_some())
}

fn annotation<'a>(object: &'a serde_json::Value, name: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(name)?
        .as_str()
}

/// Whether the workers that answer say that they can change their layout, and one does.
pub(super) fn able(seen: &Seen, asked: &Asked, replicas: i32) -> bool {
    let pods = names::pods(&seen.name(), replicas);
    let answers: Vec<&WorkerStatus> = pods
        .iter()
        .filter_map(|pod| match asked.workers.get(pod) {
            Some((_, WorkerAnswer::Status(status))) => Some(status.as_ref()),
            Some((_, WorkerAnswer::Silent(_))) | None => None,
        })
        .collect();
    !answers.is_empty() && answers.iter().all(|status| status.rescale.is_some())
}

/// The newest record that volumes carry.
pub(super) fn newest_mark(seen: &Seen) -> Option<Journal> {
    let marks = seen.claims.iter().filter_map(|claim| {
        let text = annotation(claim, names::RESCALE)?;
        serde_json::from_str::<Journal>(text).ok()
    });
    marks.max_by_key(|mark| mark.rescale.number())
}

pub(super) fn world(known: &Known<'_>, run: &Run<'_>, suspended: bool) -> Result<World, Trouble> {
    let status = known.seen.status();
    let laid = status.layout.as_ref().unwrap_or(&run.layout);
    let placement =
        layout::placement(run.app.name().as_str(), laid).map_err(|error| Trouble::act(&error))?;
    let plan = status.rescale.as_ref();
    let pods = plan
        .into_iter()
        .filter(|plan| !plan.over())
        .flat_map(|plan| [plan.from_replicas, plan.to_replicas])
        .fold(laid.replicas, i32::max);
    Ok(World {
        now: known.now,
        fresh: known.fresh.to_string(),
        wanted: wanted(known, run.app, suspended),
        layout: status.layout.clone(),
        rescale: plan.map(turbine_crds::status::RescaleStatus::durable),
        placement,
        broker: broker(known),
        pods: pod_facts(known, run.app, pods),
        claims: claims(known, run.app, pods),
        set: set(known, run.app),
    })
}

fn wanted(known: &Known<'_>, app: &ValidatedApp, suspended: bool) -> Wanted {
    let (producer_refresh_ms, order_grace_ms) = super::waits(app);
    let subscriptions = app
        .compiled()
        .subscriptions
        .iter()
        .map(|of| WantedSubscription {
            name: of.name.clone(),
            topic: of.topic.clone(),
            partitions: of.partitions,
            exactly_once: of.processing_guarantee == ProcessingGuarantee::ExactlyOnce,
            // Every subscription has a partition key.
            keyed: true,
            hash_declared: of.partition_hash.is_some(),
            out_of_orderness_ms: of.out_of_orderness_ms,
        });
    Wanted {
        generation: known.seen.generation(),
        deleting: false,
        suspended,
        replicas: app.replicas().into(),
        producer_refresh_ms,
        order_grace_ms,
        on_scale_down: app.volume().on_scale_down(),
        subscriptions: subscriptions.collect(),
    }
}

/// Where nothing is to be changed brokers were not asked one by one, and the word of any of them does.
fn broker(known: &Known<'_>) -> Result<BrokerFacts, String> {
    match (&known.asked.layout, &known.asked.kafka) {
        (Some(Ok(facts)), _) => Ok(facts.clone()),
        (Some(Err(trouble)), _) | (None, Some(Err(trouble))) => Err(trouble.to_string()),
        (None, Some(Ok(seen))) => Ok(BrokerFacts {
            counts: vec![seen.counts.clone()],
            ..BrokerFacts::default()
        }),
        (None, None) => Err("it was not asked".to_owned()),
    }
}

fn pod_facts(known: &Known<'_>, app: &ValidatedApp, pods: i32) -> BTreeMap<i32, PodFacts> {
    let all = names::pods(app.name().as_str(), pods);
    let present = (0..).zip(all).filter(|(_, name)| {
        let mut pods = known.seen.pods.iter();
        pods.any(|pod| name_of(pod) == name)
    });
    present
        .map(|(at, name)| {
            let facts = match known.asked.workers.get(&name) {
                Some((_, WorkerAnswer::Status(status))) => match &status.rescale {
                    Some(of) => PodFacts::Answers(Box::new(word(status, of))),
                    None => PodFacts::Silent(
                        "its worker is of a version that cannot change its layout".to_owned(),
                    ),
                },
                Some((_, WorkerAnswer::Silent(why))) => PodFacts::Silent(why.clone()),
                None => PodFacts::Silent("it is not running yet".to_owned()),
            };
            (at, facts)
        })
        .collect()
}

fn word(status: &WorkerStatus, of: &WorkerRescale) -> WorkerWord {
    let heard = of.heard.as_ref();
    let mut tasks: BTreeMap<Task, TaskWord> = of
        .tasks
        .iter()
        .filter_map(|of| Some((task(&of.subscription, of.partition)?, task_word(of))))
        .collect();
    for running in &status.tasks {
        if let Some(task) = task(&running.subscription, running.partition) {
            let word = tasks.entry(task).or_default();
            word.frontier_ms = running.frontier_ms;
            word.misplaced = running.placement == Verdict::Misplaced;
            word.blocked_by = word.blocked_by.take().or_else(|| halted(running));
        }
    }
    WorkerWord {
        heard: heard.map_or((0, 0), |of| (of.epoch, of.version)),
        heard_id: heard.map(|of| of.id.clone()).unwrap_or_default(),
        tasks,
        copied: if of.copied_ahead {
            CopyAhead::Done
        } else {
            CopyAhead::Copying
        },
        free_bytes: of.free_bytes,
        stores: of
            .stores
            .iter()
            .map(|of| (of.subscription.clone(), of.store_epoch))
            .collect::<BTreeSet<_>>(),
    }
}

fn halted(task: &TaskStatus) -> Option<String> {
    task.halt.as_ref().map(|halt| halt.message.clone())
}

fn task(subscription: &str, partition: i32) -> Option<Task> {
    Some(Task {
        subscription: subscription.parse().ok()?,
        partition: Partition::try_from(partition).ok()?,
    })
}

fn task_word(of: &TaskRescale) -> TaskWord {
    let ends = of.ends.iter().filter_map(|end| {
        let closing = match end.state {
            OldEndState::Open => Closing::Open,
            OldEndState::Agreed { end, asked_at_ms } => Closing::Agreed {
                end: end.try_into().ok()?,
                asked_at: Moment(asked_at_ms),
            },
            OldEndState::Closed { end } => Closing::Closed(end.try_into().ok()?),
        };
        Some((end.partition, closing))
    });
    TaskWord {
        hold: of.hold.map(|of| Hold {
            epoch: of.epoch,
            number: of.number,
            count: of.count,
        }),
        stopped: of.stopped.map(|of| StopWord {
            epoch: of.epoch,
            offset: of.offset,
            first_new: of.left_from,
        }),
        manifest: of.pulled.as_ref().map(|of| Manifest {
            epoch: of.epoch,
            checksum: of.checksum.clone(),
            parts: of
                .parts
                .iter()
                .map(|part| (part.old_partition, part.key_groups))
                .collect(),
        }),
        closing: ends.collect(),
        moved_in_open: of.moved_in_open,
        state_bytes: of.state_bytes,
        bytes_to_move: of.bytes_to_move,
        bytes_moved: of.bytes_moved,
        blocked_by: of.blocked_by.clone(),
        frontier_ms: None,
        misplaced: false,
    }
}

fn claims(known: &Known<'_>, app: &ValidatedApp, pods: i32) -> BTreeMap<i32, ClaimFacts> {
    let all = names::claims(app.name().as_str(), pods);
    let found = (0..).zip(all).filter_map(|(at, name)| {
        let mut claims = known.seen.claims.iter();
        let claim = claims.find(|claim| name_of(claim) == name && !going(claim))?;
        let mark: Option<Journal> =
            annotation(claim, names::RESCALE).and_then(|text| serde_json::from_str(text).ok());
        let facts = ClaimFacts {
            name,
            uid: uid_of(claim).to_owned(),
            resource_version: version(claim),
            // Of another life of the app: this one's plans have nothing to do with it.
            mark: mark.filter(|mark| ours(known, mark)),
        };
        Some((at, facts))
    });
    found.collect()
}

fn ours(known: &Known<'_>, mark: &Journal) -> bool {
    let layout = known.seen.status().layout;
    layout.is_none_or(|layout| layout.lineage == mark.layout.lineage)
}

fn version(object: &serde_json::Value) -> String {
    text(object, "/metadata/resourceVersion")
        .unwrap_or_default()
        .to_owned()
}

fn set(known: &Known<'_>, app: &ValidatedApp) -> Option<SetFacts> {
    let name = names::stateful_set(app.name().as_str());
    let live = known.seen.child(Kind::StatefulSet, &name)?;
    Some(SetFacts {
        uid: uid_of(live).to_owned(),
        resource_version: version(live),
        replicas: replicas_of(live)?,
    })
}

/// Pods that a `StatefulSet` is told to have.
pub(crate) fn replicas_of(live: &serde_json::Value) -> Option<i32> {
    let replicas = live.pointer("/spec/replicas")?.as_i64()?;
    i32::try_from(replicas).ok()
}
