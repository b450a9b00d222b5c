//! What is looked at, and which rule is broken in it.

use std::collections::BTreeMap;

use turbine_crds::status::{RescaleStatus, RescaleStep};
use turbine_operator::app::plan::rescale::{
    Act, Hold, Journal, Manifest, Next, PodFacts, TaskWord, World, decide,
};
use turbine_protocol::rescale::{Closing, Moment};

use crate::world::{TOPIC, task, whole};

/// What of all that can happen is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    /// The layout that runs at first.
    pub(crate) partitions: i32,
    pub(crate) replicas: i32,
    /// `input.partitions` and `replicas`, as the user has them one after the other.
    pub(crate) edits: &'static [(Option<i32>, i32)],
    pub(crate) exactly_once: bool,
    /// Volumes of pods that go are deleted.
    pub(crate) delete_claims: bool,
    /// Another hand may grow the topic to this count.
    pub(crate) foreign: Option<i32>,
    /// A call to grow may time out and be carried out later.
    pub(crate) timeouts: bool,
    /// A second operator acts as well.
    pub(crate) two_leaders: bool,
    /// An operator may be shown the status that was replaced last.
    pub(crate) old_view: bool,
    /// How often a pod may be lost from sight.
    pub(crate) losses: u8,
    pub(crate) deletion: bool,
    /// The status may be emptied, once; with `old_view` also replaced by the former one.
    pub(crate) emptied: bool,
    /// From some moment on a growth is to be refused.
    pub(crate) refused: bool,
    pub(crate) broken: Option<Broken>,
}

/// A rule of the plan that is broken, by what it is shown or by what is made of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Holds that workers did not sync are taken for synced.
    HoldsNotAwaited,
    /// A hold of any plan is taken for one of this.
    HoldOfAnyPlan,
    /// The plan after one that was undone takes its epoch.
    EpochTwice,
    /// The counts were asked for before the ends.
    CountsBeforeEnds,
    /// A refusal is overlooked.
    RefusalOverlooked,
    /// The topic is grown before that is on record.
    GrowsUnrecorded,
    /// A task that cannot be asked is taken for fenced.
    SilentTakenForFenced,
    /// Stores are taken for whole that are not.
    StoresNotAwaited,
    /// A volume is taken for empty that is not.
    EmptyNotAwaited,
    /// The size of the `StatefulSet` is set whatever happened to it since it was read.
    Forced,
    /// A status that is older than the volumes is taken for an old view of it.
    OlderStatusWaits,
    /// Volumes do not carry the plan.
    NotMarked,
    /// An end is taken for agreed on that readers have not agreed to.
    AgreementNotAwaited,
    /// Workers are told nothing after the topic has grown.
    NotTold,
}

impl Scope {
    /// The production decision, with what is broken around it.
    pub(crate) fn decide(&self, mut world: World) -> Next {
        let Some(broken) = self.broken else {
            return decide(&world);
        };
        show(broken, &mut world);
        twist(broken, &world, decide(&world))
    }
}

fn show(broken: Broken, world: &mut World) {
    let Some(plan) = world.rescale.clone() else {
        if broken == Broken::RefusalOverlooked {
            overlook(world);
        }
        return;
    };
    match broken {
        Broken::HoldsNotAwaited => each_task(world, |word| {
            word.hold = Some(Hold {
                epoch: plan.epoch,
                number: 1,
                count: plan.subscriptions[0].to,
            });
        }),
        Broken::HoldOfAnyPlan => each_task(world, |word| {
            if let Some(hold) = &mut word.hold {
                hold.epoch = plan.epoch;
                hold.count = plan.subscriptions[0].to;
            }
        }),
        Broken::RefusalOverlooked => overlook(world),
        Broken::SilentTakenForFenced => {
            let silent: Vec<i32> = silent(world, &plan);
            if let Ok(broker) = &mut world.broker {
                for partition in silent {
                    if let Some(receipt) = broker.receipts.get_mut(&task(partition))
                        && receipt.epoch < plan.epoch
                    {
                        receipt.epoch = plan.epoch;
                        receipt.sealed = true;
                    }
                }
            }
        }
        Broken::StoresNotAwaited => {
            let of = &plan.subscriptions[0];
            for (partition, pod) in (0..).zip(&of.pods) {
                if let Some(PodFacts::Answers(word)) = world.pods.get_mut(pod) {
                    let task = word.tasks.entry(task(partition)).or_default();
                    task.manifest = Some(Manifest {
                        epoch: plan.epoch,
                        checksum: String::new(),
                        parts: whole(of.from, of.to, partition),
                    });
                }
            }
        }
        Broken::EmptyNotAwaited => {
            for facts in world.pods.values_mut() {
                if let PodFacts::Answers(word) = facts {
                    word.stores.clear();
                }
            }
        }
        Broken::NotMarked => {
            for claim in world.claims.values_mut() {
                claim.mark = None;
            }
        }
        Broken::AgreementNotAwaited => each_task(world, |word| {
            let Some((topic, asked_at)) = plan
                .topics
                .first()
                .and_then(|of| Some((of, of.proposed_at?)))
            else {
                return;
            };
            for (old, end) in (0..).zip(&topic.proposed) {
                let agreed = Closing::Agreed {
                    end: (*end).try_into().unwrap(),
                    asked_at: Moment(asked_at.as_millisecond()),
                };
                word.closing.insert(old, agreed);
            }
        }),
        Broken::EpochTwice
        | Broken::OlderStatusWaits
        | Broken::CountsBeforeEnds
        | Broken::GrowsUnrecorded
        | Broken::Forced
        | Broken::NotTold => {}
    }
}

fn overlook(world: &mut World) {
    each_task(world, |word| word.misplaced = false);
}

fn each_task(world: &mut World, mut change: impl FnMut(&mut TaskWord)) {
    for facts in world.pods.values_mut() {
        if let PodFacts::Answers(word) = facts {
            word.tasks.values_mut().for_each(&mut change);
        }
    }
}

fn older(world: &World) -> bool {
    let marks = world.claims.values().filter_map(|of| of.mark.as_ref());
    let newest = marks.map(|of| of.rescale.number()).max();
    let stored = world.rescale.as_ref().map(RescaleStatus::number);
    stored.is_some() && newest > stored
}

/// Old tasks that cannot be asked.
fn silent(world: &World, plan: &RescaleStatus) -> Vec<i32> {
    (0..)
        .zip(&plan.subscriptions[0].old_pods)
        .filter(|(_, pod)| !matches!(world.pods.get(pod), Some(PodFacts::Answers(_))))
        .map(|(partition, _)| partition)
        .collect()
}

fn twist(broken: Broken, world: &World, next: Next) -> Next {
    match (broken, next) {
        (Broken::GrowsUnrecorded, Next::Record(journal))
            if journal.rescale.step == RescaleStep::Growing =>
        {
            let plan = journal.rescale;
            let record = world.rescale.as_ref();
            let grown = matches!(&world.broker, Ok(broker) if broker.counts.iter().any(|of: &BTreeMap<String, i32>| {
                of.get(TOPIC) == Some(&plan.subscriptions[0].to)
            }));
            if grown || record.is_none() {
                return Next::Rest;
            }
            Next::Act(vec![Act::Grow {
                topic: TOPIC.to_owned(),
                to: plan.subscriptions[0].to,
                epoch: plan.epoch,
            }])
        }
        (Broken::OlderStatusWaits, Next::Record(_)) if older(world) => Next::Rest,
        (Broken::EpochTwice, Next::Record(mut journal))
            if journal.rescale.step == RescaleStep::Requested =>
        {
            journal.rescale.epoch = journal.layout.epoch + 1;
            // Above the one that was undone, or nobody would hear of it.
            journal.rescale.version = world.rescale.as_ref().map_or(1, |of| of.version + 1);
            Next::Record(journal)
        }
        (Broken::NotMarked, Next::Act(mut acts)) => {
            acts.retain(|act| !matches!(act, Act::Mark { .. }));
            if acts.is_empty() {
                let mut marked = world.clone();
                if let (Some(layout), Some(rescale)) = (&world.layout, &world.rescale) {
                    for claim in marked.claims.values_mut() {
                        claim.mark = Some(Journal {
                            layout: layout.clone(),
                            rescale: rescale.durable(),
                        });
                    }
                }
                return decide(&marked);
            }
            Next::Act(acts)
        }
        (Broken::NotTold, Next::Act(mut acts)) => {
            acts.retain(|act| {
                !matches!(act, Act::Tell { plan, .. } if plan.step >= RescaleStep::TopicGrown)
            });
            Next::Act(acts)
        }
        (_, next) => next,
    }
}
