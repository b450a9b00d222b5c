//! Workers in memory that follow the records of a plan as the wire asks them to.

use std::collections::BTreeMap;

use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::control::{
    HeardPlan, HeldFrontier, HeldStore, OldEnd, OldEndState, PulledPart, PulledStore,
    RescaleDocument, StoppedTask, TaskRescale, WorkerRescale, WorkerStatus,
};
use turbine_crds::status::{RescaleStatus, RescaleStep, RescaleSubscription};
use turbine_protocol::layout::Task;

use crate::kafka::ReceiptFacts;

/// What is on a worker's volume and outlives its pod.
#[derive(Debug, Clone, Default)]
pub(super) struct Volume {
    pub(super) heard: Option<RescaleDocument>,
    /// By subscription and store epoch.
    pub(super) stores: Vec<(String, i64)>,
}

/// What tests do to workers.
#[derive(Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a mood of its own, and any of them go together"
)]
pub(super) struct Moods {
    /// They can change their layout.
    pub(super) able: bool,
    /// Pods that do not answer.
    pub(super) silent: Vec<String>,
    /// Tasks do not come to hold their frontier.
    pub(super) hold_not: bool,
    /// New stores are not pulled.
    pub(super) pull_not: bool,
    /// Tasks seal their own receipts when they stop, exactly once.
    pub(super) seal: bool,
}

#[derive(Debug, Default)]
pub(super) struct Workers {
    pub(super) moods: Moods,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) receipts: BTreeMap<Task, ReceiptFacts>,
}

pub(super) fn task(subscription: &str, partition: i32) -> Task {
    Task {
        subscription: subscription.parse().unwrap(),
        partition: partition.try_into().unwrap(),
    }
}

fn ordinal(pod: &str) -> i32 {
    pod.rsplit_once('-').unwrap().1.parse().unwrap()
}

impl Workers {
    /// A worker is given its assignment: its tasks run and commit.
    pub(super) fn assigned(&mut self, pod: &str, document: &AssignmentDocument) {
        let volume = self.volumes.entry(pod.to_owned()).or_default();
        for of in document.tasks.iter().filter(|of| of.pod == pod) {
            let store = (of.subscription.clone(), of.store_epoch);
            if !volume.stores.contains(&store) {
                volume.stores.push(store);
            }
            let receipt = self
                .receipts
                .entry(task(&of.subscription, of.partition))
                .or_insert(ReceiptFacts {
                    epoch: 0,
                    sealed: false,
                    number: 0,
                    offset: 0,
                });
            assert!(receipt.epoch <= document.epoch, "{receipt:?}");
            if receipt.epoch < of.store_epoch || receipt.sealed {
                *receipt = ReceiptFacts {
                    epoch: of.store_epoch,
                    sealed: false,
                    number: 1,
                    offset: receipt.offset + 10,
                };
            }
        }
    }

    /// # Errors
    /// If it heard of a newer record.
    pub(super) fn tell(&mut self, pod: &str, document: &RescaleDocument) -> Result<(), String> {
        let volume = self.volumes.entry(pod.to_owned()).or_default();
        let heard = volume.heard.as_ref().map(|of| of.plan.number());
        if heard > Some(document.plan.number()) {
            return Err("409 an older record".to_owned());
        }
        let plan = &document.plan;
        volume.heard = Some(document.clone());
        if plan.step == RescaleStep::Draining && self.moods.seal {
            for of in &plan.subscriptions {
                for partition in owned(&of.old_pods, ordinal(pod)) {
                    let receipt = self.receipts.get_mut(&task(&of.name, partition)).unwrap();
                    (receipt.epoch, receipt.sealed) = (plan.epoch, true);
                }
            }
        }
        if plan.step == RescaleStep::StateMoved {
            for of in &plan.subscriptions {
                if !owned(&of.pods, ordinal(pod)).is_empty() {
                    volume.stores.push((of.name.clone(), plan.epoch));
                }
            }
        }
        if plan.step == RescaleStep::OldStateReleased {
            let old: Vec<(String, i64)> = plan
                .subscriptions
                .iter()
                .map(|of| (of.name.clone(), of.store_epoch))
                .collect();
            volume.stores.retain(|of| !old.contains(of));
        }
        Ok(())
    }

    /// What a worker says of changes of the layout.
    pub(super) fn says(&self, pod: &str, status: &WorkerStatus) -> Option<WorkerRescale> {
        if !self.moods.able {
            return None;
        }
        let volume = self.volumes.get(pod).cloned().unwrap_or_default();
        let plan = volume.heard.as_ref().map(|of| &of.plan);
        let mut says = WorkerRescale {
            heard: plan.map(|plan| HeardPlan {
                epoch: plan.epoch,
                version: plan.version,
                id: plan.id.clone(),
            }),
            copied_ahead: true,
            free_bytes: Some(1 << 40),
            stores: volume
                .stores
                .iter()
                .map(|(subscription, store_epoch)| HeldStore {
                    subscription: subscription.clone(),
                    store_epoch: *store_epoch,
                })
                .collect(),
            tasks: Vec::new(),
        };
        let mut tasks: BTreeMap<(String, i32), TaskRescale> = BTreeMap::new();
        let mut of = |subscription: &str, partition: i32, change: &dyn Fn(&mut TaskRescale)| {
            let key = (subscription.to_owned(), partition);
            change(tasks.entry(key).or_insert_with(|| TaskRescale {
                subscription: subscription.to_owned(),
                partition,
                state_bytes: 1_000,
                ..TaskRescale::default()
            }));
        };
        for running in &status.tasks {
            of(&running.subscription, running.partition, &|_| {});
        }
        for (plan, laid) in plan
            .into_iter()
            .flat_map(|plan| plan.subscriptions.iter().map(move |of| (plan, of)))
        {
            for partition in owned(&laid.old_pods, ordinal(pod)) {
                let old = self.old_task(plan, laid, partition);
                of(&laid.name, partition, &|task| {
                    (task.hold, task.stopped) = old;
                });
            }
            for partition in owned(&laid.pods, ordinal(pod)) {
                let ran = status.epoch >= Some(plan.epoch);
                of(&laid.name, partition, &|task| {
                    self.new_task(plan, laid, ran, task);
                });
            }
        }
        says.tasks = tasks.into_values().collect();
        Some(says)
    }

    fn old_task(
        &self,
        plan: &RescaleStatus,
        laid: &RescaleSubscription,
        partition: i32,
    ) -> (Option<HeldFrontier>, Option<StoppedTask>) {
        let held = plan.step >= RescaleStep::Announced && !self.moods.hold_not;
        let stopped = plan.step >= RescaleStep::Draining && plan.step != RescaleStep::Undone;
        let receipt = self.receipts[&task(&laid.name, partition)];
        (
            held.then_some(HeldFrontier {
                epoch: plan.epoch,
                number: receipt.number + 1,
                count: laid.to,
            }),
            stopped.then_some(StoppedTask {
                epoch: plan.epoch,
                offset: receipt.offset,
                left_from: None,
            }),
        )
    }

    fn new_task(
        &self,
        plan: &RescaleStatus,
        laid: &RescaleSubscription,
        ran: bool,
        task: &mut TaskRescale,
    ) {
        let moves = plan.step >= RescaleStep::Stopped && plan.step != RescaleStep::Undone;
        if moves && !self.moods.pull_not {
            task.pulled = Some(PulledStore {
                epoch: plan.epoch,
                checksum: format!("sum-{}", task.partition),
                parts: parts(laid.from, laid.to, task.partition),
            });
        }
        let topic = plan.topics.iter().find(|of| of.name == laid.topic);
        let (Some(topic), true) = (topic, ran) else {
            return;
        };
        for old in 0..laid.from {
            let at = usize::try_from(old).unwrap();
            let state = match (topic.closes.get(at), topic.proposed.get(at)) {
                (Some(end), _) if *end >= 0 => OldEndState::Closed { end: *end },
                (_, Some(end)) => OldEndState::Agreed {
                    end: *end,
                    asked_at_ms: topic.proposed_at.unwrap().as_millisecond(),
                },
                (_, None) => OldEndState::Open,
            };
            task.ends.push(OldEnd {
                partition: old,
                state,
            });
        }
        task.moved_in_open = task
            .ends
            .iter()
            .any(|end| !matches!(end.state, OldEndState::Closed { .. }));
    }
}

fn owned(pods: &[i32], pod: i32) -> Vec<i32> {
    (0..)
        .zip(pods)
        .filter(|(_, of)| **of == pod)
        .map(|(partition, _)| partition)
        .collect()
}

/// Counted group by group.
fn parts(from: i32, to: i32, new: i32) -> Vec<PulledPart> {
    let mut parts: BTreeMap<i32, u32> = BTreeMap::new();
    for group in (0..960).filter(|group| group % to == new) {
        *parts.entry(group % from).or_default() += 1;
    }
    parts
        .into_iter()
        .map(|(old_partition, key_groups)| PulledPart {
            old_partition,
            key_groups,
        })
        .collect()
}
