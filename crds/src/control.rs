//! What a worker's control API answers on `/status`, and the paths of that API.

use serde::{Deserialize, Serialize};
pub use turbine_keygroups::Verdict;

/// `GET`, open: the process lives.
pub const HEALTHZ: &str = "/healthz";
/// `GET`, open: 200 if every assigned task runs, else 503.
pub const READYZ: &str = "/readyz";
/// `GET`, token: Prometheus text.
pub const METRICS: &str = "/metrics";
/// `GET`, token: a [`WorkerStatus`].
pub const STATUS: &str = "/status";
/// `PUT`, token: an [`crate::assignment::AssignmentDocument`]. 409 if its epoch is below the one that the worker runs.
pub const ASSIGNMENT: &str = "/assignment";

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkerStatus {
    pub pod: String,
    pub version: String,
    pub app_id: String,
    /// Layout epoch that the worker runs; none before its first assignment.
    pub epoch: Option<i64>,
    pub draining: bool,
    pub tasks: Vec<TaskStatus>,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    pub subscription: String,
    pub partition: i32,
    pub store_epoch: i64,
    pub state: TaskState,
    /// Next offset to read, as committed with the state.
    pub position: Option<i64>,
    /// High watermark of the partition, as last seen.
    pub end_offset: Option<i64>,
    /// Epoch milliseconds.
    pub frontier_ms: Option<i64>,
    pub records: u64,
    pub dead_letters: u64,
    pub late_rows: u64,
    /// What is known of the placement of its records.
    #[serde(default)]
    pub placement: Verdict,
    /// Records whose key belongs to another partition, since the task started.
    #[serde(default)]
    pub misplaced: u64,
    pub halt: Option<TaskHalt>,
}

#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum TaskState {
    Starting,
    Restoring,
    Running,
    /// Stopped by itself; needs a person or a changed world.
    Halted,
    /// Ended by order.
    Stopped,
}

/// Why a task stopped by itself.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TaskHalt {
    /// Constant in CamelCase, for conditions.
    pub reason: String,
    /// What happened, where, and what to do.
    pub message: String,
    /// Waiting alone will not help.
    #[serde(default)]
    pub person_must_act: bool,
    /// Offset in front of which the task stands, if it is about a record.
    pub offset: Option<i64>,
}
