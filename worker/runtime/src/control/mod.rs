//! The control API and what it shows: which tasks run, how they fare, and what to run instead.

pub mod assignment;
pub mod health;
pub mod metrics;
pub(crate) mod recent;
pub mod server;
pub mod status;
pub mod token;
