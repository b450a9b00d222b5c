//! One task: a partition of a subscription, on a thread of its own.

mod begin;
mod error;
mod fold;
mod life;
mod setup;
mod spec;
mod stop;
mod thread;

pub use error::TaskError;
pub(crate) use life::{LINK_PATIENCE, Life};
pub use setup::{Limits, TaskSetup};
pub use spec::{SpecFault, pipeline_spec};
pub use stop::StopSignal;
pub use thread::run;
