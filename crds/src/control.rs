//! What a worker's control API answers on `/status`, and the paths of that API.

mod rescale;

pub use rescale::{
    HeardPlan, HeldFrontier, HeldStore, OldEnd, OldEndState, PulledPart, PulledStore, RESCALE,
    RescaleDocument, StoppedTask, TaskRescale, WorkerRescale,
};
use serde::{Deserialize, Serialize};
pub use turbine_keygroups::{MisplacedRecord, Verdict};

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
/// `POST`, token: a [`ClearPlacement`]; answers a [`PlacementReport`].
pub const CLEAR_PLACEMENT: &str = "/placement/clear";
/// Carries the token where `Authorization` cannot: the API server keeps that header to itself when it passes a
/// request on to a pod.
pub const TOKEN_HEADER: &str = "turbine-control-token";

/// What follows the app's name in the name of the Secret with the token.
pub const TOKEN_SUFFIX: &str = "-control";
/// Key in that Secret, and name of the file in the pod.
pub const TOKEN_KEY: &str = "token";

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
    /// What it says of changes of the layout; none: it cannot make any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescale: Option<WorkerRescale>,
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
    /// The first such record, while the verdict stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misplaced_first: Option<MisplacedRecord>,
    /// How much is done, while a checkpoint is brought back or what an older store lacks is read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_percent: Option<u8>,
    /// What its state lacks since it went on behind it (`onCrashRecovery: accept`, `input.onRetentionGap: accept`), as far as
    /// this process knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingRecords>,
    /// Where an open transaction of another producer holds it up, once it has for some seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_transaction: Option<OpenTransaction>,
    /// How its checkpoints stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<TaskCheckpoint>,
    pub halt: Option<TaskHalt>,
}

/// Records that count in results that were written before, and not in the state.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MissingRecords {
    /// The first offset.
    pub from: i64,
    /// The offset behind the last.
    pub to: i64,
    /// Offsets between; at most so many records.
    pub count: u64,
}

/// A transaction in the input that is neither committed nor aborted: nothing behind its first record is read before it is.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OpenTransaction {
    /// Where the task waits: the last stable offset of the partition.
    pub offset: i64,
    /// Since when, in epoch milliseconds.
    pub since_ms: i64,
    /// Offsets from there to the end of the log; at most so many records.
    pub hidden: u64,
}

/// How the checkpoints of a task stand, as far as its worker knows.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct TaskCheckpoint {
    /// The newest one; none if none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastCheckpoint>,
    /// Why the last try did not end well; none once one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A checkpoint that is there.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LastCheckpoint {
    /// Its number, by which its manifest is named.
    pub number: u64,
    /// Epoch milliseconds.
    pub made_at_ms: i64,
    /// Of all its files.
    pub bytes: u64,
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

/// Which tasks are looked through, and whether their verdict is then forgotten.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClearPlacement {
    /// None: all subscriptions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// None: all partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Look and report only.
    #[serde(default)]
    pub dry_run: bool,
}

impl ClearPlacement {
    /// Whether a task is among those asked for.
    #[must_use]
    pub fn takes(&self, subscription: &str, partition: i32) -> bool {
        let of = |wanted: &Option<String>| wanted.as_deref().is_none_or(|of| of == subscription);
        of(&self.subscription) && self.partition.is_none_or(|of| of == partition)
    }
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct PlacementReport {
    /// By subscription and partition.
    pub tasks: Vec<TaskPlacement>,
    /// Workers that could not be asked; the verdicts of their tasks stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<SilentWorker>,
}

/// A worker that could not be asked.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SilentWorker {
    pub pod: String,
    pub why: String,
}

/// What one task's store holds of other partitions' keys.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TaskPlacement {
    pub subscription: String,
    pub partition: i32,
    /// Why the task was not looked through; its verdict stands then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The verdict before.
    pub verdict: Verdict,
    /// The record that it rested on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misplaced_first: Option<MisplacedRecord>,
    /// The verdict was forgotten: records are judged anew from here on.
    pub cleared: bool,
    /// Stored panes that were looked at.
    pub panes: u64,
    /// Panes whose key belongs to another partition.
    pub foreign_panes: u64,
    /// Panes that cannot be judged: of a window that the app no longer has, on a partition count that does not divide
    /// 960.
    pub unknown_panes: u64,
    /// The keys of the foreign panes, at most [`MOST_FOREIGN_KEYS`].
    pub foreign: Vec<ForeignKey>,
    /// There are more of them.
    pub more_foreign: bool,
}

/// Keys that a report names for one task.
pub const MOST_FOREIGN_KEYS: usize = 10_000;

/// A key in the state of a partition that it does not belong to.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct ForeignKey {
    pub key_group: u16,
    /// As text, or `0x` and hexadecimal digits where it is none; none for windows that the app no longer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub belongs_to: i32,
    pub panes: u64,
}
