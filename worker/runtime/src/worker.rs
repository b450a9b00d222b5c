//! The tasks of one pod: started, stopped and watched as the assignment says.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::compiled::{CompiledApp, CompiledSubscription};
use turbine_crds::control::{
    ClearPlacement, PlacementReport, TaskPlacement, TaskState, WorkerStatus,
};
use turbine_kafka::{Admin, KafkaError, KafkaSettings};
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::names::NameError;
use turbine_protocol::start::OnForeign;
use turbine_protocol::{AppId, Task};
use turbine_state::StateVolume;
use turbine_state::checkpoint::Checkpointer;

use crate::clock::Clock;
use crate::control::assignment::{
    Assignment, AssignmentRefusal, TaskPlan, Verdict, changes, count_warning,
};
use crate::control::health::TaskView;
use crate::control::metrics::Metrics;
use crate::control::status::TaskCell;
use crate::memory::Memory;
use crate::task::{self, CountWatch, Limits, PartitionCounts, StopSignal, TaskSetup};

/// How long tasks may take to look through their stores.
const LOOK_PATIENCE: Duration = Duration::from_mins(2);

/// What a worker is given at its start.
#[derive(Debug)]
pub struct WorkerConfig {
    /// The app.
    pub app: CompiledApp,
    /// Name of this pod in the assignment.
    pub pod: String,
    /// How to reach the broker.
    pub kafka: KafkaSettings,
    /// What the process may use.
    pub memory: Memory,
    /// Who says how many partitions a topic has; none: the broker.
    pub counts: Option<Arc<dyn PartitionCounts>>,
    /// Where state lies.
    pub volume: StateVolume,
    /// Copies of state. How often they are made is said by the app.
    pub checkpointer: Checkpointer,
    /// What to do with another lineage's leavings.
    pub on_foreign: OnForeign,
    /// How long tasks may take to stop before their outputs are given up.
    pub stop_patience: Duration,
    /// Bounds of each task's work.
    pub limits: Limits,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// Why a worker cannot be made.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// A name in the compiled app.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The Kafka client.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// A thread.
    #[error("no thread can be had: {0}")]
    Thread(#[from] std::io::Error),
}

/// The tasks of one pod.
#[derive(Debug)]
pub struct Worker {
    app_id: AppId,
    subscriptions: BTreeMap<String, Arc<CompiledSubscription>>,
    config: WorkerConfig,
    admin: Arc<Admin>,
    counts: Arc<CountWatch>,
    metrics: Metrics,
    marking: Arc<Mutex<()>>,
    desired: Mutex<Desired>,
    running: Mutex<BTreeMap<Task, Running>>,
    orders: Sender<Order>,
}

#[derive(Debug, Default)]
struct Desired {
    assignment: Option<Arc<Assignment>>,
    draining: bool,
}

#[derive(Debug)]
struct Running {
    plan: TaskPlan,
    cell: Arc<TaskCell>,
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Order {
    Run(Arc<Assignment>),
    Drain,
}

/// The thread that carries out what a worker was told, one order after the other.
#[derive(Debug)]
pub struct Manager(JoinHandle<Drained>);

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Every task committed and let go.
    Whole,
    /// A task did not end in time. Nothing is lost: its next start goes on from its last commit.
    Overdue,
}

impl Manager {
    /// Waits until the worker was drained.
    #[must_use]
    pub fn wait(self) -> Drained {
        self.0.join().unwrap_or(Drained::Overdue)
    }

    /// Whether it has ended. It ends after a drain and never by itself.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.0.is_finished()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here is whole between any two statements that hold it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    /// A worker without an assignment, and the thread that carries out what it is told.
    ///
    /// # Errors
    /// If a name in the app is refused, the Kafka client does not take its settings, or no thread
    /// can be had.
    pub fn start(config: WorkerConfig) -> Result<(Arc<Self>, Manager), WorkerError> {
        let (orders, inbox) = channel();
        let admin = Arc::new(Admin::open(&config.kafka)?);
        let source = match &config.counts {
            Some(counts) => Arc::clone(counts),
            None => Arc::clone(&admin) as Arc<dyn PartitionCounts>,
        };
        let worker = Arc::new(Self {
            app_id: config.app.app_id.parse()?,
            subscriptions: config
                .app
                .subscriptions
                .iter()
                .map(|subscription| (subscription.name.clone(), Arc::new(subscription.clone())))
                .collect(),
            admin,
            counts: Arc::new(CountWatch::new(source)),
            metrics: Metrics::new(&config.app.app_id),
            marking: Arc::new(Mutex::new(())),
            desired: Mutex::new(Desired::default()),
            running: Mutex::new(BTreeMap::new()),
            orders,
            config,
        });
        let manager = {
            let worker = Arc::clone(&worker);
            std::thread::Builder::new()
                .name("manager".to_owned())
                .spawn(move || worker.manage(&inbox))?
        };
        Ok((worker, Manager(manager)))
    }

    /// Takes an assignment if it replaces what runs. What it changes is carried out afterwards.
    ///
    /// # Errors
    /// If it must not be run.
    pub fn offer(&self, document: AssignmentDocument) -> Result<Verdict, AssignmentRefusal> {
        let assignment = Assignment::read(document, self.app_id.as_str(), &self.config.pod)?;
        let mut desired = lock(&self.desired);
        let verdict = assignment.against(desired.assignment.as_deref())?;
        if verdict == Verdict::Take && !desired.draining {
            tracing::info!(
                epoch = assignment.epoch.get(),
                tasks = assignment.tasks.len(),
                "assignment taken"
            );
            self.warn_of_counts(&assignment);
            let assignment = Arc::new(assignment);
            desired.assignment = Some(Arc::clone(&assignment));
            self.send(Order::Run(assignment));
        }
        Ok(verdict)
    }

    /// What was allowed knowingly is said again at every start.
    fn warn_of_counts(&self, assignment: &Assignment) {
        let counts: BTreeMap<&str, RawPartitionCount> = assignment
            .tasks
            .values()
            .map(|plan| (plan.task.subscription.as_str(), plan.partitions))
            .collect();
        if !self.config.app.allow_non_divisor_partitions {
            return;
        }
        for (name, count) in counts {
            let topic = self.subscriptions.get(name).map(|of| of.topic.as_str());
            if let Some(warning) = topic.and_then(|topic| count_warning(topic, count)) {
                tracing::warn!(subscription = name, "{warning}");
            }
        }
    }

    /// Asks every running task that is meant to look through its store, and forgets their verdicts unless it is a
    /// dry run. Waits for their answers.
    #[must_use]
    pub fn clear_placement(&self, wanted: &ClearPlacement) -> PlacementReport {
        let cells: Vec<Arc<TaskCell>> = lock(&self.running)
            .values()
            .map(|running| Arc::clone(&running.cell))
            .collect();
        let asked: Vec<_> = cells
            .iter()
            .map(|cell| (cell.status(), cell))
            .filter(|(status, _)| wanted.takes(&status.subscription, status.partition))
            .map(|(status, cell)| {
                let running = status.state == TaskState::Running;
                (status, running.then(|| cell.ask(wanted.dry_run)))
            })
            .collect();
        let deadline = Instant::now() + LOOK_PATIENCE;
        let tasks = asked
            .into_iter()
            .map(|(status, answer)| {
                let left = deadline.saturating_duration_since(Instant::now());
                let answer = match answer {
                    None => {
                        let why = status.halt.map_or_else(String::new, |halt| {
                            format!(" ({}: {})", halt.reason, halt.message)
                        });
                        Err(format!(
                            "the task is {}{why}; clear its verdict once it runs",
                            status.state
                        ))
                    }
                    Some(answer) => answer.recv_timeout(left).map_err(|error| match error {
                        RecvTimeoutError::Timeout => format!(
                            "the task did not answer within {} s; ask again",
                            LOOK_PATIENCE.as_secs()
                        ),
                        RecvTimeoutError::Disconnected => {
                            "the task stopped before it could look; ask again once it runs"
                                .to_owned()
                        }
                    }),
                };
                answer.unwrap_or_else(|why| TaskPlacement {
                    verdict: status.placement,
                    misplaced_first: status.misplaced_first,
                    ..task::refused(&status.subscription, status.partition, why)
                })
            })
            .collect();
        PlacementReport {
            tasks,
            ..PlacementReport::default()
        }
    }

    /// Stops everything: the tasks commit and let go. Further assignments are not run.
    pub fn drain(&self) {
        let mut desired = lock(&self.desired);
        if !desired.draining {
            desired.draining = true;
            // Now rather than by the manager, which may be busy with an assignment.
            for running in lock(&self.running).values() {
                running.stop.give();
            }
            self.send(Order::Drain);
        }
    }

    fn send(&self, order: Order) {
        if self.orders.send(order).is_err() {
            tracing::error!("the manager's thread is gone; liveness shows it");
        }
    }

    /// All metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// All metrics as text, as they are now.
    ///
    /// # Errors
    /// Never in practice.
    pub fn metrics_text(&self) -> Result<String, std::fmt::Error> {
        let halted = self
            .views()
            .iter()
            .filter(|task| task.status.state == TaskState::Halted)
            .count();
        self.metrics.set_halted(halted);
        if let Some(free) = self.config.volume.free_bytes() {
            self.metrics.set_volume_free(free);
        }
        self.metrics.text()
    }

    /// The layout epoch that runs; none before the first assignment.
    #[must_use]
    pub fn epoch(&self) -> Option<i64> {
        lock(&self.desired)
            .assignment
            .as_ref()
            .map(|assignment| assignment.epoch.get())
    }

    /// Whether the worker was told to stop.
    #[must_use]
    pub fn draining(&self) -> bool {
        lock(&self.desired).draining
    }

    /// The tasks, by subscription and partition. One that is assigned and not yet started is among
    /// them only once the manager has come to it; see [`Self::settled`].
    #[must_use]
    pub fn views(&self) -> Vec<TaskView> {
        lock(&self.running)
            .values()
            .map(|running| {
                let (step, still) = running.cell.stillness();
                TaskView {
                    status: running.cell.status(),
                    step,
                    still,
                    thread: running
                        .thread
                        .as_ref()
                        .is_some_and(|thread| !thread.is_finished()),
                }
            })
            .collect()
    }

    /// Whether the tasks are those of the assignment.
    #[must_use]
    pub fn settled(&self) -> bool {
        let desired = lock(&self.desired);
        let Some(assignment) = &desired.assignment else {
            return false;
        };
        let running = lock(&self.running);
        running.len() == assignment.tasks.len()
            && running.iter().all(|(task, running)| {
                assignment.tasks.get(task) == Some(&running.plan) && !running.stop.given()
            })
    }

    /// What `/status` answers.
    #[must_use]
    pub fn status(&self) -> WorkerStatus {
        WorkerStatus {
            pod: self.config.pod.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            app_id: self.app_id.to_string(),
            epoch: self.epoch(),
            draining: self.draining(),
            tasks: self.views().into_iter().map(|task| task.status).collect(),
            rescale: None,
        }
    }

    fn manage(&self, inbox: &Receiver<Order>) -> Drained {
        while let Ok(order) = inbox.recv() {
            match order {
                Order::Run(assignment) => self.apply(&assignment),
                Order::Drain => break,
            }
        }
        let all: Vec<Task> = lock(&self.running).keys().cloned().collect();
        let drained = self.stop(&all);
        tracing::info!(?drained, "drained");
        drained
    }

    fn apply(&self, assignment: &Assignment) {
        let plans: BTreeMap<Task, TaskPlan> = lock(&self.running)
            .iter()
            .map(|(task, running)| (task.clone(), running.plan.clone()))
            .collect();
        let halted = |task: &Task| {
            lock(&self.running)
                .get(task)
                .is_some_and(|running| running.cell.status().state == TaskState::Halted)
        };
        let changes = changes(&plans, &halted, &assignment.tasks);
        self.stop(&changes.stop);
        // Between two tasks, since a drain may come at any time and must find what was started.
        for plan in changes.start {
            let desired = lock(&self.desired);
            if desired.draining {
                return;
            }
            self.launch(assignment, plan);
            drop(desired);
        }
    }

    fn launch(&self, assignment: &Assignment, plan: TaskPlan) {
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
                    Some(turbine_crds::control::TaskHalt {
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
    ) -> Option<JoinHandle<()>> {
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

    /// Stops tasks, all at once, and waits for their ends.
    fn stop(&self, tasks: &[Task]) -> Drained {
        for running in tasks.iter().filter_map(|task| self.handle(task)) {
            running.1.give();
        }
        let deadline = Instant::now() + self.config.stop_patience;
        let mut drained = Drained::Whole;
        for task in tasks {
            if !self.await_end(task, deadline) {
                tracing::warn!(%task, "the task does not stop in time: its outputs are given up");
                if let Some((_, stop)) = self.handle(task) {
                    stop.abandon();
                }
                if !self.await_end(task, Instant::now() + Duration::from_secs(2)) {
                    drained = Drained::Overdue;
                    tracing::error!(%task, "the task hangs");
                    continue;
                }
            }
            let ended = lock(&self.running).remove(task);
            self.metrics.forget(task);
            if let Some(thread) = ended.and_then(|running| running.thread)
                && thread.join().is_err()
            {
                tracing::error!(%task, "the task's thread panicked");
            }
        }
        drained
    }

    fn handle(&self, task: &Task) -> Option<(Arc<TaskCell>, Arc<StopSignal>)> {
        lock(&self.running)
            .get(task)
            .map(|running| (Arc::clone(&running.cell), Arc::clone(&running.stop)))
    }

    fn await_end(&self, task: &Task, deadline: Instant) -> bool {
        loop {
            let ended = lock(&self.running)
                .get(task)
                .and_then(|running| running.thread.as_ref())
                .is_none_or(JoinHandle::is_finished);
            if ended || Instant::now() >= deadline {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
