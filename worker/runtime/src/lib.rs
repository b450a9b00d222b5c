//! The data plane: tasks that read, decode, fold, write and commit, and the API by which they are
//! told what to run and asked how they fare.
//!
//! The way of a record: [`turbine_kafka::PartitionReader`] → [`decode`] → [`task`] (the engine's
//! windows) → `sink` → `commit`. A later stage never calls an earlier one. Each task does all
//! of it on one plain thread of its own; tokio serves the control API and nothing else.

pub mod clock;
mod commit;
pub mod config;
pub mod control;
pub mod decode;
pub mod local;
pub mod memory;
pub mod program;
pub mod sink;
pub mod task;
pub mod worker;
