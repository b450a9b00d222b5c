use std::sync::{Arc, Mutex};
use std::time::Duration;

use turbine_crds::app::{
    OnCrashRecovery as Asked, OnRetentionGap as AskedOfGaps, ProcessingGuarantee,
};
use turbine_crds::compiled::{CompiledPartitionKey, CompiledSubscription};
use turbine_kafka::{Admin, KafkaSettings, QueueBudget, Transactions};
use turbine_protocol::start::{Guarantee, OnCrashRecovery, OnForeign, OnRetentionGap, Recovery};
use turbine_protocol::{
    AppId, GroupId, LayoutEpoch, Lineage, StoreIdentity, TopicName, TransactionalId,
};
use turbine_state::StateVolume;
use turbine_state::checkpoint::Checkpointer;

use crate::clock::Clock;
use crate::control::assignment::TaskPlan;
use crate::memory::MemoryTooSmall;
use crate::task::CountWatch;
use crate::task::receipt::rules;

/// Bounds of one task's work.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most records that are decoded and folded at once.
    pub batch_records: usize,
    /// About how many bytes they may have, as long as they are like those before.
    pub batch_bytes: usize,
    /// Records after which a commit is due before its interval is over.
    pub commit_records: u64,
    /// Bytes of records after which a commit is due before its interval is over: their keys are among what it writes.
    pub commit_bytes: usize,
    /// Most panes that are handed out at once: their rows are in memory side by side.
    pub result_panes: usize,
    /// About how many bytes of keys and values they may have.
    pub result_bytes: usize,
    /// Bytes of panes that are kept in memory.
    pub live_bytes: usize,
    /// Longest wait for records. Also how late an order to stop, an idle tick and a commit may be
    /// noticed while nothing comes.
    pub poll_wait: Duration,
    /// Longest wait for an answer of the broker to one question.
    pub broker_wait: Duration,
    /// Wait before the first new try after a fault; it doubles up to `retry_most`.
    pub retry_first: Duration,
    /// Longest wait before a new try.
    pub retry_most: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch_records: 10_000,
            batch_bytes: usize::MAX,
            commit_records: 1_000_000,
            commit_bytes: usize::MAX,
            result_panes: 65_536,
            result_bytes: usize::MAX,
            live_bytes: usize::MAX,
            poll_wait: Duration::from_millis(200),
            broker_wait: Duration::from_secs(10),
            retry_first: Duration::from_secs(1),
            retry_most: Duration::from_mins(1),
        }
    }
}

/// All that a task is made of.
#[derive(Debug)]
pub struct TaskSetup {
    /// The app.
    pub app_id: AppId,
    /// Which life of the app.
    pub lineage: Lineage,
    /// The assignment's number.
    pub layout_epoch: LayoutEpoch,
    /// What to do with another lineage's leavings.
    pub on_foreign: OnForeign,
    /// The task.
    pub plan: TaskPlan,
    /// A count that does not divide 960 is no reason not to start.
    pub allow_non_divisor: bool,
    /// What it computes.
    pub subscription: Arc<CompiledSubscription>,
    /// How to reach the broker.
    pub kafka: KafkaSettings,
    /// For questions to the broker; one for all tasks.
    pub admin: Arc<Admin>,
    /// How many partitions topics have; one for all tasks.
    pub counts: Arc<CountWatch>,
    /// Whether the process has the memory that its tasks need.
    pub memory: Result<(), MemoryTooSmall>,
    /// Memory of its clients.
    pub queues: QueueBudget,
    /// Where its state lies.
    pub volume: StateVolume,
    /// Its checkpoints; one for all tasks.
    pub checkpointer: Checkpointer,
    /// Between two checkpoints, and between two saves.
    pub checkpoint_interval: Duration,
    /// How long it may take to stop.
    pub stop_patience: Duration,
    /// Held while the volume's marker is read and raised: all tasks share it.
    pub marking: Arc<Mutex<()>>,
    /// Bounds.
    pub limits: Limits,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl TaskSetup {
    /// The group that holds the subscription's offsets.
    #[must_use]
    pub fn group(&self) -> GroupId {
        GroupId::of(&self.app_id, &self.plan.task.subscription)
    }

    /// What the task does with a store that is older than what was committed: one that was written by these rules, if there is
    /// one, in a process that has run the task before or not.
    #[must_use]
    pub fn recovery(&self, written_by: Option<u32>, has_run: bool) -> Recovery {
        Recovery {
            policy: match self.subscription.on_crash_recovery {
                Asked::Replay => OnCrashRecovery::Replay,
                Asked::Accept => OnCrashRecovery::Accept,
                Asked::Stop => OnCrashRecovery::Stop,
            },
            halt_if_gap_exceeds: self.subscription.halt_if_gap_exceeds,
            // Windows are all there is to compute.
            deterministic: written_by == Some(rules(&self.subscription)),
            has_run,
        }
    }

    /// What the task does where retention removed what it was to read.
    #[must_use]
    pub fn on_retention_gap(&self) -> OnRetentionGap {
        match self.subscription.on_retention_gap {
            AskedOfGaps::Stop => OnRetentionGap::Stop,
            AskedOfGaps::Accept => OnRetentionGap::Accept,
        }
    }

    /// What the task promises.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        match self.subscription.processing_guarantee {
            ProcessingGuarantee::AtLeastOnce => Guarantee::AtLeastOnce,
            ProcessingGuarantee::ExactlyOnce => Guarantee::ExactlyOnce,
        }
    }

    /// The transactions by which it keeps that, if it takes any.
    #[must_use]
    pub fn transactions(&self, topic: &TopicName) -> Option<Transactions> {
        let task = &self.plan.task;
        match self.guarantee() {
            Guarantee::AtLeastOnce => None,
            Guarantee::ExactlyOnce => Some(Transactions::of(
                TransactionalId::of(&self.app_id, &task.subscription, task.partition),
                self.group(),
                topic.clone(),
                task.partition,
            )),
        }
    }

    /// What the task's store says it is.
    #[must_use]
    pub fn identity(&self) -> StoreIdentity {
        StoreIdentity::new(
            self.app_id.clone(),
            self.lineage,
            &self.plan.task,
            self.plan.store_epoch,
            self.plan.partitions,
            partition_key_text(&self.subscription),
        )
    }
}

/// What a store's identity says of the key that its state is kept by.
#[must_use]
pub fn partition_key_text(subscription: &CompiledSubscription) -> String {
    match &subscription.partition_key {
        CompiledPartitionKey::RecordKey => "<recordKey>".to_owned(),
        CompiledPartitionKey::Columns(columns) => columns.join(","),
    }
}
