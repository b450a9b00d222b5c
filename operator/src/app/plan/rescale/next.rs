//! The next record or the next acts.

use serde::{Deserialize, Serialize};
use turbine_crds::app::OnDelete;
use turbine_crds::status::{LayoutStatus, RescaleStatus, RescaleStep};
use turbine_protocol::layout::Task;

use super::advance::advance;
use super::checks::exactly_once;
use super::journal::check;
use super::movement::{task, word};
use super::refusal::Refusal;
use super::request::request;
use super::wait::Wait;
use super::world::{PodFacts, World};

/// What is on record: written together, with `replace_status` under the resourceVersion that was read.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
pub struct Journal {
    pub layout: LayoutStatus,
    pub rescale: RescaleStatus,
}

impl Journal {
    /// What is written on claims.
    fn mark(&self) -> Self {
        Self {
            layout: self.layout.clone(),
            rescale: self.rescale.durable(),
        }
    }
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next {
    /// The layout is the one asked for, or the app is going.
    Rest,
    /// What is asked for cannot be; nothing was begun.
    Refuse(Vec<Refusal>),
    /// To be stored before anything follows from it; then the world is read again.
    Record(Box<Journal>),
    /// Each can be repeated.
    Act(Vec<Act>),
    Wait(Wait),
}

/// One thing to do. Each carries the epoch, or the uid and resourceVersion that were read with the record it follows from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Act {
    /// Writes the record on a claim.
    Mark {
        claim: String,
        uid: String,
        resource_version: String,
        mark: Box<Journal>,
    },
    /// Gives a worker the plan. It follows the one with the highest epoch and version that it ever heard.
    Tell { pod: i32, plan: Box<RescaleStatus> },
    /// Grows a topic. One that has the count already is left as it is.
    Grow { topic: String, to: i32, epoch: i64 },
    /// Reads the task's receipt; if its epoch is lower, takes over the task's transactional id, reads the receipt again and, if its epoch
    /// is still lower, commits it sealed: with this epoch, at the same offset.
    Seal { task: Task, epoch: i64 },
    /// Sets the size of the `StatefulSet`.
    Resize {
        uid: String,
        resource_version: String,
        replicas: i32,
        epoch: i64,
    },
    /// Deletes a claim that was proven to be empty. A later plan that uses it has written on it.
    DeleteClaim {
        claim: String,
        uid: String,
        resource_version: String,
    },
}

/// Decides from the record and the world, and from nothing else.
#[must_use]
pub fn decide(world: &World) -> Next {
    match next(world) {
        Next::Record(mut journal) => {
            journal.rescale.id.clone_from(&world.fresh);
            Next::Record(journal)
        }
        next @ (Next::Rest | Next::Refuse(_) | Next::Act(_) | Next::Wait(_)) => next,
    }
}

fn next(world: &World) -> Next {
    // Deletion wins over every step; what it takes is not a matter of the layout.
    if world.wanted.deleting {
        return Next::Rest;
    }
    let newest = world
        .claims
        .values()
        .filter_map(|claim| claim.mark.as_ref())
        .max_by_key(|mark| mark.rescale.number());
    let (stored, layout) = match (&world.rescale, &world.layout, newest) {
        // What volumes carry was in the status before. If only the view is old, the status has changed since it was read, and the
        // record is not taken; if the status itself is (a backup was restored), nothing else would ever bring it forward.
        // Of two records of one number only the one on the volumes can have been followed.
        (Some(stored), layout, Some(mark)) if overrules(&mark.rescale, stored) => {
            return rebuild(layout.as_ref(), mark);
        }
        (Some(stored), Some(layout), _) => (stored, layout),
        (_, layout, Some(mark)) => return rebuild(layout.as_ref(), mark),
        (None, Some(layout), None) => return request(world, layout),
        (_, None, None) => return Next::Rest,
    };
    if let Err(damaged) = check(stored) {
        return Next::Wait(Wait::Damaged(damaged));
    }
    if let Some(version) = heard_otherwise(world, stored) {
        return Next::Record(Box::new(Journal {
            layout: layout.clone(),
            rescale: RescaleStatus {
                version: version.saturating_add(1),
                ..stored.clone()
            },
        }));
    }
    let unmarked = marks(world, layout, stored);
    if !unmarked.is_empty() {
        return Next::Act(unmarked);
    }
    if stored.over() {
        return match request(world, layout) {
            Next::Record(journal) => Next::Record(journal),
            next => Some(tells(world, stored))
                .filter(|tells| !tells.is_empty())
                .map_or(next, Next::Act),
        };
    }
    if world.wanted.suspended && stored.step >= RescaleStep::Growing {
        return Next::Wait(Wait::Suspended);
    }
    match advance(world, layout, stored) {
        Ok(journal) => Next::Record(Box::new(journal)),
        Err(wait) => {
            let acts = acts(world, stored);
            if acts.is_empty() || matches!(wait, Wait::ThirdCount { .. }) {
                Next::Wait(wait)
            } else {
                Next::Act(acts)
            }
        }
    }
}

/// The record that volumes carry, for a status that was emptied or is older.
fn rebuild(layout: Option<&LayoutStatus>, mark: &Journal) -> Next {
    // A layout can have grown a subscription since.
    let layout = layout
        .filter(|of| of.epoch >= mark.layout.epoch)
        .unwrap_or(&mark.layout);
    Next::Record(Box::new(Journal {
        layout: layout.clone(),
        rescale: RescaleStatus {
            // A record that was stored and not yet on all volumes may have been lost. Whoever still writes it is overruled.
            version: mark.rescale.version.saturating_add(2),
            ..mark.rescale.clone()
        },
    }))
}

fn overrules(mark: &RescaleStatus, stored: &RescaleStatus) -> bool {
    mark.number() > stored.number() || (mark.number() == stored.number() && mark.id != stored.id)
}

/// The highest version of this plan that a worker heard, if it is above the stored one or another record of its number: it would not
/// listen to the stored one.
fn heard_otherwise(world: &World, stored: &RescaleStatus) -> Option<i64> {
    let heard = world.pods.values().filter_map(|facts| match facts {
        PodFacts::Answers(word) => Some(word),
        PodFacts::Silent(_) => None,
    });
    heard
        .filter(|word| {
            let (epoch, version) = word.heard;
            epoch == stored.epoch
                && (version > stored.version
                    || (version == stored.version && word.heard_id != stored.id))
        })
        .map(|word| word.heard.1)
        .max()
}

/// The record on each claim that does not carry it.
fn marks(world: &World, layout: &LayoutStatus, stored: &RescaleStatus) -> Vec<Act> {
    let mark = Journal {
        layout: layout.clone(),
        rescale: stored.clone(),
    }
    .mark();
    world
        .claims
        .values()
        // The layout counts as well: a subscription that was added since is known from there alone, once a status is emptied.
        .filter(|claim| claim.mark.as_ref() != Some(&mark))
        .map(|claim| Act::Mark {
            claim: claim.name.clone(),
            uid: claim.uid.clone(),
            resource_version: claim.resource_version.clone(),
            mark: Box::new(mark.clone()),
        })
        .collect()
}

/// What follows from the record.
fn acts(world: &World, plan: &RescaleStatus) -> Vec<Act> {
    let mut acts: Vec<Act> = resize(world, plan).into_iter().collect();
    acts.extend(tells(world, plan));
    match plan.step {
        RescaleStep::Growing => acts.extend(growths(world, plan)),
        RescaleStep::Draining => acts.extend(seals(world, plan)),
        RescaleStep::OldStateReleased => acts.extend(deletions(world, plan)),
        RescaleStep::Requested
        | RescaleStep::Announced
        | RescaleStep::TopicGrown
        | RescaleStep::Stopped
        | RescaleStep::StateMoved
        | RescaleStep::Started
        | RescaleStep::Verified
        | RescaleStep::Settled
        | RescaleStep::Undone => {}
    }
    acts
}

/// Workers that follow an older record.
fn tells(world: &World, plan: &RescaleStatus) -> Vec<Act> {
    let behind = world.pods.iter().filter(|(_, facts)| match facts {
        PodFacts::Answers(word) => word.heard < plan.number(),
        PodFacts::Silent(_) => false,
    });
    behind
        .map(|(pod, _)| Act::Tell {
            pod: *pod,
            plan: Box::new(plan.durable()),
        })
        .collect()
}

fn growths(world: &World, plan: &RescaleStatus) -> Vec<Act> {
    let Ok(broker) = &world.broker else {
        return Vec::new();
    };
    plan.topics
        .iter()
        .filter(|of| !of.foreign && !broker.any_answers(&of.name, of.to))
        .map(|of| Act::Grow {
            topic: of.name.clone(),
            to: of.to,
            epoch: plan.epoch,
        })
        .collect()
}

/// Old tasks that stopped, or that cannot be asked to.
fn seals(world: &World, plan: &RescaleStatus) -> Vec<Act> {
    let Ok(broker) = &world.broker else {
        return Vec::new();
    };
    let mut acts = Vec::new();
    for of in plan
        .subscriptions
        .iter()
        .filter(|of| exactly_once(world, &of.name))
    {
        for (partition, pod) in (0..).zip(&of.old_pods) {
            let Some(task) = task(of, partition) else {
                continue;
            };
            let sealed = broker
                .receipts
                .get(&task)
                .is_some_and(|receipt| receipt.epoch >= plan.epoch);
            let asked = matches!(world.pods.get(pod), Some(PodFacts::Answers(_)));
            let stopped = word(world, of, partition, *pod)
                .and_then(|word| word.stopped)
                .is_some_and(|stop| stop.epoch == plan.epoch);
            if !sealed && (stopped || !asked) {
                acts.push(Act::Seal {
                    task,
                    epoch: plan.epoch,
                });
            }
        }
    }
    acts
}

/// Pods that there are to be: further ones are made once there is no way back, and go once their volumes are empty on record.
#[must_use]
pub fn replicas(plan: &RescaleStatus) -> i32 {
    if plan.step < RescaleStep::TopicGrown || plan.step == RescaleStep::Undone {
        plan.from_replicas
    } else if plan.step >= RescaleStep::OldStateReleased && emptied(plan) {
        plan.to_replicas
    } else {
        plan.from_replicas.max(plan.to_replicas)
    }
}

fn resize(world: &World, plan: &RescaleStatus) -> Option<Act> {
    let set = world.set.as_ref()?;
    let replicas = replicas(plan);
    let due = plan.step >= RescaleStep::TopicGrown && set.replicas != replicas;
    due.then(|| Act::Resize {
        uid: set.uid.clone(),
        resource_version: set.resource_version.clone(),
        replicas,
        epoch: plan.epoch,
    })
}

fn emptied(plan: &RescaleStatus) -> bool {
    plan.release.iter().all(|of| of.empty)
}

fn deletions(world: &World, plan: &RescaleStatus) -> Vec<Act> {
    let asked = world.wanted.on_scale_down == OnDelete::Delete;
    let shrunk = world
        .set
        .as_ref()
        .is_some_and(|set| set.replicas == plan.to_replicas);
    if !asked || !shrunk || !emptied(plan) {
        return Vec::new();
    }
    let released = (plan.to_replicas..).zip(&plan.release);
    released
        .filter(|(pod, _)| !world.pods.contains_key(pod))
        .filter_map(|(_, of)| world.claims.values().find(|claim| claim.uid == of.uid))
        .map(|claim| Act::DeleteClaim {
            claim: claim.name.clone(),
            uid: claim.uid.clone(),
            resource_version: claim.resource_version.clone(),
        })
        .collect()
}
