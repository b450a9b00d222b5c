//! What acts do to the world: as the API server, Kafka or a worker carries them out.

use std::sync::Arc;

use turbine_crds::status::RescaleStep;
use turbine_operator::app::plan::rescale::Act;

use crate::world::{State, Up, Wrong};

/// What acts do.
impl State {
    /// Carries out one act as the API server, Kafka or a worker would.
    pub(crate) fn carry_out(&mut self, act: &Act, forced: bool) {
        match act {
            Act::Mark {
                claim,
                uid,
                resource_version,
                mark,
            } => {
                let of = self.claims.iter_mut().find(|(pod, of)| {
                    format!("c{pod}") == *claim
                        && of.uid.to_string() == *uid
                        && of.version.to_string() == *resource_version
                });
                if let Some((_, of)) = of {
                    of.mark = Some(Arc::new((**mark).clone()));
                    of.version += 1;
                }
            }
            Act::Tell { pod, plan } => {
                if let Some(pod) = self.pods.get_mut(pod)
                    && pod.up == Up::Answers
                    && pod.heard() < plan.number()
                {
                    pod.heard = Some(Arc::new((**plan).clone()));
                }
            }
            Act::Grow { to, epoch, .. } => self.grow(*to, *epoch),
            Act::Seal { task, epoch } => {
                let partition = i32::from(task.partition);
                if let Some(receipt) = self.receipts.get_mut(&partition)
                    && receipt.epoch < *epoch
                {
                    receipt.epoch = *epoch;
                    receipt.sealed = true;
                }
            }
            Act::Resize {
                resource_version,
                replicas,
                ..
            } => {
                if forced || self.set.version.to_string() == *resource_version {
                    self.set.replicas = *replicas;
                    self.set.version += 1;
                }
            }
            Act::DeleteClaim {
                uid,
                resource_version,
                ..
            } => {
                let gone: Vec<i32> = self
                    .claims
                    .iter()
                    .filter(|(_, of)| {
                        of.uid.to_string() == *uid && of.version.to_string() == *resource_version
                    })
                    .map(|(pod, _)| *pod)
                    .collect();
                for pod in gone {
                    self.claims.remove(&pod);
                    if self
                        .pods
                        .remove(&pod)
                        .is_some_and(|pod| !pod.stores.is_empty())
                    {
                        self.wrongs.insert(Wrong::PodWentWithState);
                    }
                }
            }
        }
    }

    /// Grows the topic at the controller, if it is not that large yet.
    pub(crate) fn grow(&mut self, to: i32, epoch: i64) {
        if self.topic.counts[0] >= to {
            return;
        }
        self.topic.counts[0] = to;
        self.topic.first_new = None;
        let due = self.on_record(&self.status).is_some_and(|plan| {
            plan.epoch == epoch
                && plan.step >= RescaleStep::Growing
                && plan.step != RescaleStep::Undone
                && !plan.topics[0].ends.is_empty()
        });
        let held = self
            .pods
            .values()
            .filter(|pod| !pod.tasks.is_empty())
            .all(|pod| pod.hold == Some(epoch));
        if !due || !held {
            self.wrongs.insert(Wrong::GrewTooEarly);
        }
    }
}
