//! What workers and the controller of their `StatefulSet` do.

use turbine_crds::status::{RescaleStatus, RescaleStep};

use crate::scope::Scope;
use crate::world::{Claim, Pod, Receipt, State, Up, Wrong, owned, subscription};

/// What the pods do.
impl State {
    /// A commit of the tasks of a pod; those that were fenced end.
    pub(crate) fn work(&mut self, scope: &Scope, at: i32) -> bool {
        let stopped = self
            .on_record(&self.status)
            .filter(|plan| plan.step >= RescaleStep::Stopped && plan.step != RescaleStep::Undone)
            .map(|plan| plan.epoch);
        let Some(pod) = self.pods.get_mut(&at).filter(|pod| pod.up != Up::Absent) else {
            return false;
        };
        let mut did = false;
        let mut fenced = Vec::new();
        for partition in pod.tasks.clone() {
            let receipt = self.receipts.entry(partition).or_insert(Receipt {
                epoch: 0,
                sealed: false,
                number: 0,
                offset: 0,
            });
            let superseded = receipt.epoch > pod.epoch;
            if superseded && scope.exactly_once {
                fenced.push(partition);
                continue;
            }
            let first = receipt.epoch < pod.epoch || receipt.sealed;
            if first || receipt.offset < self.topic.end {
                did = true;
                *receipt = Receipt {
                    epoch: pod.epoch,
                    sealed: false,
                    number: if first { 1 } else { receipt.number },
                    offset: self.topic.end,
                };
                if stopped.is_some_and(|epoch| epoch > pod.epoch) {
                    self.wrongs.insert(Wrong::CommittedAfterTheStop);
                }
            }
        }
        did |= !fenced.is_empty();
        pod.tasks.retain(|partition| !fenced.contains(partition));
        did
    }

    /// What the plan that a pod heard asks of it.
    pub(crate) fn follow(&mut self, scope: &Scope, at: i32) -> bool {
        let sources_answer = |state: &Self, plan: &RescaleStatus| {
            subscription(plan)
                .old_pods
                .iter()
                .all(|pod| state.pods.get(pod).is_some_and(|pod| pod.up == Up::Answers))
        };
        let Some(pod) = self.pods.get(&at).filter(|pod| pod.up != Up::Absent) else {
            return false;
        };
        let Some(plan) = pod.heard.clone() else {
            return false;
        };
        let before = pod.clone();
        match plan.step {
            RescaleStep::Requested | RescaleStep::Undone => {}
            RescaleStep::Announced | RescaleStep::Growing | RescaleStep::TopicGrown => {
                let pod = self.pods.get_mut(&at).unwrap();
                if !pod.tasks.is_empty() && pod.epoch < plan.epoch {
                    pod.hold = Some(plan.epoch);
                }
            }
            RescaleStep::Draining => {
                let old = owned(&subscription(&plan).old_pods, at);
                let said = pod
                    .stopped
                    .as_ref()
                    .is_some_and(|(epoch, _)| *epoch == plan.epoch);
                if !old.is_empty() && !said {
                    self.work(scope, at);
                    let offsets = old.iter().map(|p| (*p, self.receipts[p].offset)).collect();
                    let pod = self.pods.get_mut(&at).unwrap();
                    pod.stopped = Some((plan.epoch, offsets));
                    pod.tasks.clear();
                }
            }
            RescaleStep::Stopped | RescaleStep::StateMoved => {
                let whole = sources_answer(self, &plan);
                let pod = self.pods.get_mut(&at).unwrap();
                if pod.epoch < plan.epoch {
                    pod.tasks.clear();
                }
                if whole && !owned(&subscription(&plan).pods, at).is_empty() {
                    pod.pulled = Some(plan.epoch);
                    pod.stores.insert(plan.epoch);
                }
            }
            RescaleStep::Started
            | RescaleStep::Verified
            | RescaleStep::OldStateReleased
            | RescaleStep::Settled => {
                let pod = self.pods.get_mut(&at).unwrap();
                if pod.epoch < plan.epoch {
                    pod.tasks = owned(&subscription(&plan).pods, at);
                    pod.epoch = plan.epoch;
                    if !pod.tasks.is_empty() && pod.pulled != Some(plan.epoch) {
                        self.wrongs.insert(Wrong::StartedWithoutState);
                    }
                }
                let pod = self.pods.get_mut(&at).unwrap();
                if plan.step == RescaleStep::OldStateReleased {
                    pod.stores.retain(|epoch| *epoch >= plan.epoch);
                }
            }
        }
        self.pods[&at] != before
    }

    /// The StatefulSet's controller.
    pub(crate) fn controller(&mut self) -> bool {
        let before = (self.pods.clone(), self.claims.len());
        for at in 0..self.set.replicas {
            let pod = self.pods.entry(at).or_insert_with(|| Pod {
                up: Up::Absent,
                ..Pod::new(0, Vec::new())
            });
            if pod.up == Up::Absent {
                pod.up = Up::Answers;
            }
            if !self.claims.contains_key(&at) {
                let claim = Claim {
                    uid: self.claims_made,
                    version: 0,
                    mark: None,
                };
                self.claims.insert(at, claim);
                self.claims_made += 1;
            }
        }
        for (_, pod) in self.pods.range_mut(self.set.replicas..) {
            if pod.up != Up::Absent {
                pod.up = Up::Absent;
                pod.tasks.clear();
                if !pod.stores.is_empty() {
                    self.wrongs.insert(Wrong::PodWentWithState);
                }
            }
        }
        (&self.pods, self.claims.len()) != (&before.0, before.1)
    }
}
