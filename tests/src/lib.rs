//! What tests and benchmarks of Turbine share: topics, records with given keys and times, everything that was committed,
//! objects in the cluster, waiting with a deadline, killing by kind, and the independent computation of results.
//!
//! The test bed (`tests/bed`) starts the real parts; this library only uses them.

pub mod api_proxy;
pub mod bed;
pub mod brokers;
pub mod chart;
pub mod cluster;
pub mod diagnostics;
pub mod events;
pub mod expected;
pub mod http;
pub mod java;
pub mod kafka;
pub mod manifest;
pub mod operator;
pub mod process;
pub mod scenario;
pub mod stored;
pub mod wait;
pub mod worker;
