//! What the operator tells workers of a change of the layout, and what they answer in their status.

use serde::{Deserialize, Serialize};

use crate::status::RescaleStatus;

/// `PUT`, token: a [`RescaleDocument`]. 409 if the worker heard of a higher epoch and version.
pub const RESCALE: &str = "/rescale";

/// A record of a plan, given to each worker once it is on record everywhere. A worker follows the one with the highest epoch and version
/// that it ever heard, and keeps it on its volume.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RescaleDocument {
    pub app_id: String,
    /// A plan of another life of the app is refused.
    pub lineage: String,
    /// Milliseconds after which every producer has seen a new count.
    pub producer_refresh_ms: u64,
    /// Milliseconds for which a producer tries a record again.
    pub order_grace_ms: u64,
    pub plan: RescaleStatus,
}

/// What a worker says of changes of the layout; one that says nothing cannot make any.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRescale {
    /// The newest record that it follows, once that is on its volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<HeardPlan>,
    /// Copies for the plan that was heard are made ahead, or are not to be had.
    #[serde(default)]
    pub copied_ahead: bool,
    /// Bytes free on its volume; none if it cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Stores on its volume.
    #[serde(default)]
    pub stores: Vec<HeldStore>,
    /// Old and new tasks of the plan, and all tasks that run.
    #[serde(default)]
    pub tasks: Vec<TaskRescale>,
}

/// Which record it is.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeardPlan {
    pub epoch: i64,
    pub version: i64,
    pub id: String,
}

/// The stores of a subscription that were made in one layout epoch.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeldStore {
    pub subscription: String,
    pub store_epoch: i64,
}

/// How a task stands in a change of the layout.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct TaskRescale {
    pub subscription: String,
    pub partition: i32,
    /// The commit that held its frontier, once it is durable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HeldFrontier>,
    /// Where it stopped, once it never starts again under an older epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StoppedTask>,
    /// The store that was pulled, once it is whole and durable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulled: Option<PulledStore>,
    /// How it stands with the ends of the old partitions that it reads, its own included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<OldEnd>,
    /// Its moved-in cursor has not caught up.
    #[serde(default)]
    pub moved_in_open: bool,
    pub state_bytes: u64,
    /// Of a new store: what it takes from other pods, and what of it is here.
    #[serde(default)]
    pub bytes_to_move: u64,
    #[serde(default)]
    pub bytes_moved: u64,
    /// What keeps it from going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
}

/// A frontier that is held for one plan: a hold for a plan that was undone says nothing about the next.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeldFrontier {
    /// The plan's epoch.
    pub epoch: i64,
    /// Number of the commit.
    pub number: i64,
    /// The new partition count, as the task knows it.
    pub count: i32,
}

/// Where a task stopped.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StoppedTask {
    /// The epoch of the plan that it stopped for.
    pub epoch: i64,
    /// The offset that it would have read next.
    pub offset: i64,
    /// The first record that it left to a new owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_from: Option<i64>,
}

/// A store that was pulled.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PulledStore {
    /// The plan's epoch.
    pub epoch: i64,
    /// Of its manifest.
    pub checksum: String,
    /// What was taken from which old partition.
    pub parts: Vec<PulledPart>,
}

#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PulledPart {
    pub old_partition: i32,
    pub key_groups: u32,
}

/// How a task stands with the end of the old placement in an old partition.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OldEnd {
    pub partition: i32,
    pub state: OldEndState,
}

#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum OldEndState {
    /// Nothing is agreed.
    Open,
    /// It agrees, in a durable entry, to the end that was proposed at this time (epoch milliseconds).
    Agreed { end: i64, asked_at_ms: i64 },
    /// The end that is on record.
    Closed { end: i64 },
}
