//! The assignment document: which pod runs which task, under one layout epoch.

use serde::{Deserialize, Serialize};

/// File name of the document in its ConfigMap and in the pod.
pub const ASSIGNMENT_FILE: &str = "assignment.json";
/// Folder of the pod in which the ConfigMap of the assignment is mounted.
pub const ASSIGNMENT_DIR: &str = "/etc/turbine/assignment";

/// Given to workers by file and by push; the one with the higher epoch and version holds.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssignmentDocument {
    pub app_id: String,
    pub lineage: String,
    /// Layout epoch.
    pub epoch: i64,
    /// Sorted by subscription and partition.
    pub tasks: Vec<AssignedTask>,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssignedTask {
    pub subscription: String,
    pub partition: i32,
    /// Partition count of the input in this layout.
    pub partitions: i32,
    pub store_epoch: i64,
    /// Name of the pod that runs the task.
    pub pod: String,
}
