//! Client of the workers' control API.

mod client;

use std::fmt;

use async_trait::async_trait;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::control::{RescaleDocument, WorkerStatus};

pub use client::HttpWorkers;

/// The control API's token. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ControlToken(String);

impl ControlToken {
    #[must_use]
    pub fn new(token: String) -> Self {
        Self(token)
    }

    fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlToken")
    }
}

/// A worker that can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerTarget {
    pub pod: String,
    pub ip: String,
}

/// What asking a worker gave. Silence is normal while a pod starts, so it is no fault.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerAnswer {
    Status(Box<WorkerStatus>),
    /// No usable answer, and why.
    Silent(String),
}

/// Calls have short deadlines and no retries: the next pass asks again.
#[async_trait]
pub trait WorkersView: Send + Sync + fmt::Debug {
    async fn status(&self, target: &WorkerTarget, token: &ControlToken) -> WorkerAnswer;

    /// Gives the worker its document. An error says why it was not taken.
    async fn push(
        &self,
        target: &WorkerTarget,
        token: &ControlToken,
        document: &AssignmentDocument,
    ) -> Result<(), String>;

    /// Gives the worker a record of a plan. Taken means that it is on its volume.
    async fn tell(
        &self,
        target: &WorkerTarget,
        token: &ControlToken,
        document: &RescaleDocument,
    ) -> Result<(), String>;
}
