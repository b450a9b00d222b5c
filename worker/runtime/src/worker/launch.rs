//! The start of a task's thread, with all that the task is made of.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use turbine_crds::compiled::CompiledSubscription;
use turbine_crds::control::{TaskHalt, TaskState};

use super::{Running, Worker, lock};
use crate::control::assignment::{Assignment, TaskPlan};
use crate::control::status::TaskCell;
use crate::task::{self, Ended, Limits, StopSignal, TaskSetup};

impl Worker {
    pub(super) fn launch(&self, assignment: &Assignment, plan: TaskPlan) {
        let task = plan.task.clone();
        let store_epoch = plan.store_epoch.get();
        let cell = Arc::new(TaskCell::new(
            task.clone(),
            store_epoch,
            Arc::clone(&self.config.clock),
        ));
        let stop = Arc::new(StopSignal::default());
        let thread = match self.subscriptions.get(task.subscription.as_str()) {
            Some(subscription) => self.spawn(assignment, plan.clone(), subscription, &cell, &stop),
            None => {
                cell.set_state(
                    TaskState::Halted,
                    Some(TaskHalt {
                        reason: "SubscriptionUnknown".to_owned(),
                        message: format!(
                            "the assignment names subscription `{}`, which the compiled app of \
                             this pod does not have; it starts once the pod has the new app",
                            task.subscription
                        ),
                        person_must_act: false,
                        offset: None,
                    }),
                );
                None
            }
        };
        lock(&self.running).insert(
            task,
            Running {
                plan,
                cell,
                stop,
                thread,
            },
        );
    }

    fn spawn(
        &self,
        assignment: &Assignment,
        plan: TaskPlan,
        subscription: &Arc<CompiledSubscription>,
        cell: &Arc<TaskCell>,
        stop: &Arc<StopSignal>,
    ) -> Option<JoinHandle<Ended>> {
        let windows: Vec<String> = subscription
            .windows
            .iter()
            .map(|window| window.name.clone())
            .collect();
        let metrics = self.metrics.task(&plan.task, &subscription.topic, &windows);
        let name = plan.task.to_string();
        let setup = TaskSetup {
            app_id: self.app_id.clone(),
            lineage: assignment.lineage,
            layout_epoch: assignment.epoch,
            on_foreign: self.config.on_foreign,
            plan,
            allow_non_divisor: self.config.app.allow_non_divisor_partitions,
            subscription: Arc::clone(subscription),
            kafka: self.config.kafka.clone(),
            admin: Arc::clone(&self.admin),
            counts: Arc::clone(&self.counts),
            memory: self.config.memory.holds(assignment.tasks.len()),
            queues: self.config.memory.queues(assignment.tasks.len()),
            volume: self.config.volume.clone(),
            checkpointer: self.config.checkpointer.clone(),
            checkpoint_interval: Duration::from_millis(self.config.app.checkpoints.interval_ms),
            stop_patience: self.config.stop_patience,
            marking: Arc::clone(&self.marking),
            limits: Limits {
                commit_records: self.config.limits.commit_records.min(
                    self.config
                        .memory
                        .commit_records(assignment.tasks.len(), windows.len()),
                ),
                batch_bytes: self
                    .config
                    .limits
                    .batch_bytes
                    .min(self.config.memory.batch_bytes(assignment.tasks.len())),
                commit_bytes: self.config.limits.commit_bytes.min(
                    self.config
                        .memory
                        .commit_bytes(assignment.tasks.len(), windows.len()),
                ),
                live_bytes: self
                    .config
                    .limits
                    .live_bytes
                    .min(self.config.memory.live_bytes(assignment.tasks.len())),
                result_bytes: self
                    .config
                    .limits
                    .result_bytes
                    .min(self.config.memory.result_bytes(assignment.tasks.len())),
                ..self.config.limits
            },
            clock: Arc::clone(&self.config.clock),
        };
        let (for_thread, stop) = (Arc::clone(cell), Arc::clone(stop));
        std::thread::Builder::new()
            .name(name)
            .spawn(move || task::run(&setup, &for_thread, &metrics, &stop))
            .inspect_err(|error| {
                // Liveness sees a task that should run and has no thread, and the pod starts anew.
                tracing::error!(task = %cell.task(), %error, "no thread for the task");
            })
            .ok()
    }
}
