//! One task: a partition of a subscription, on a thread of its own.

mod begin;
mod blocked;
mod cold;
mod counts;
mod error;
mod fenced;
mod find;
mod fold;
mod halted;
mod life;
mod look;
mod placement;
mod rates;
mod receipt;
mod recover;
mod restore;
mod rights;
mod setup;
mod show;
mod spec;
mod stop;
mod thread;

pub(crate) use cold::Cold;
pub use counts::{CountWatch, PartitionCounts};
pub use error::TaskError;
pub(crate) use life::{LINK_PATIENCE, Life};
pub use look::{LookError, look, refused};
pub use placement::Growth;
pub(crate) use receipt::{receipt_of, stored};
pub use setup::{Limits, TaskSetup, partition_key_text};
pub use spec::{SpecFault, pipeline_spec};
pub use stop::StopSignal;
pub use thread::{Ended, run};
