//! What a plan is made from. All of it was read before; nothing here asks anybody.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use turbine_crds::app::OnDelete;
use turbine_crds::status::{LayoutStatus, RescaleStatus};
use turbine_protocol::layout::Task;
use turbine_protocol::rescale::Closing;

use super::next::Journal;
pub use crate::kafka::{BrokerFacts, KafkaRights, ReceiptFacts};

/// Everything a step is decided from.
#[derive(Debug, Clone)]
pub struct World {
    pub now: Timestamp,
    /// Id of a record that may be made now.
    pub fresh: String,
    pub wanted: Wanted,
    /// The layout on record. `None`: the status was emptied.
    pub layout: Option<LayoutStatus>,
    /// The plan on record.
    pub rescale: Option<RescaleStatus>,
    /// Ordinal of the pod of each task of the layout, those of subscriptions that do not run included.
    pub placement: BTreeMap<Task, i32>,
    /// `Err`: why Kafka could not be asked.
    pub broker: Result<BrokerFacts, String>,
    /// Pods by ordinal. One that is not in here is one of which nothing is known.
    pub pods: BTreeMap<i32, PodFacts>,
    /// Claims by ordinal of their pods.
    pub claims: BTreeMap<i32, ClaimFacts>,
    pub set: Option<SetFacts>,
}

/// What the spec of one generation asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub generation: i64,
    pub deleting: bool,
    pub suspended: bool,
    pub replicas: i32,
    pub producer_refresh_ms: u64,
    pub order_grace_ms: u64,
    /// What becomes of the volumes of pods that go.
    pub on_scale_down: OnDelete,
    pub subscriptions: Vec<WantedSubscription>,
}

/// A subscription that runs, as the spec has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedSubscription {
    pub name: String,
    pub topic: String,
    /// `input.partitions`.
    pub partitions: Option<i32>,
    pub exactly_once: bool,
    pub keyed: bool,
    /// `partitionHash` is declared.
    pub hash_declared: bool,
    pub out_of_orderness_ms: u64,
}

/// What is known of a worker pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodFacts {
    Answers(Box<WorkerWord>),
    /// Nobody knows what it does.
    Silent(String),
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerWord {
    /// Epoch and version of the newest plan that it follows.
    pub heard: (i64, i64),
    /// Id of that record.
    pub heard_id: String,
    pub tasks: BTreeMap<Task, TaskWord>,
    pub copied: CopyAhead,
    /// Bytes free on its volume; `None` if it cannot say.
    pub free_bytes: Option<u64>,
    /// Stores on its volume, by subscription and store epoch.
    pub stores: BTreeSet<(String, i64)>,
}

/// How far copies for the plan that was heard are made ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyAhead {
    Copying,
    /// Made, or not to be had: then all is moved while nothing runs.
    Done,
}

/// What a worker says of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskWord {
    /// Commit that held the frontier, once it is synced.
    pub hold: Option<Hold>,
    pub stopped: Option<StopWord>,
    /// The store that was pulled, once it is whole and synced.
    pub manifest: Option<Manifest>,
    /// By old partition that it reads, its own included: how it stands with the end there.
    pub closing: BTreeMap<i32, Closing>,
    pub moved_in_open: bool,
    pub state_bytes: u64,
    /// Of a new store: what it takes from other pods, and what of it is here.
    pub bytes_to_move: u64,
    pub bytes_moved: u64,
    /// What keeps it from going on, in its worker's words.
    pub blocked_by: Option<String>,
    pub frontier_ms: Option<i64>,
    /// Verdict `misplaced`.
    pub misplaced: bool,
}

/// A hold names its plan: one that was synced for a plan that was undone says nothing about the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    pub epoch: i64,
    /// Number of the commit.
    pub number: i64,
    /// The new partition count, as the task knows it.
    pub count: i32,
}

/// Where a task stopped, by its own word, and that it never starts again under an older epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopWord {
    pub epoch: i64,
    pub offset: i64,
    /// The first record of a placement that the count it knew does not explain.
    pub first_new: Option<i64>,
}

/// A store that was pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub epoch: i64,
    pub checksum: String,
    /// Key groups taken, by old partition.
    pub parts: BTreeMap<i32, u32>,
}

/// A claim as it was read in this pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimFacts {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    /// The plan that was written on it.
    pub mark: Option<Journal>,
}

/// The `StatefulSet` as it was read in this pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetFacts {
    pub uid: String,
    pub resource_version: String,
    pub replicas: i32,
}
