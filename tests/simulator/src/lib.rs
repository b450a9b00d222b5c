//! A rescale in virtual time: partitions, producers, tasks and an operator, driven by a seed through faults of all kinds, with the
//! production code of `turbine_protocol::rescale` deciding what is read, taken, late, closed and sealed.
//!
//! Each schedule is judged afterwards by what lies in the log ([`run`]). A schedule repeats exactly from its seed. [`Broken`] breaks
//! one rule in what drives the production code, never in that code: each must be found out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::struct_excessive_bools,
    reason = "it is run by tests only; a world is made of flags"
)]

mod broker;
mod check;
mod log;
mod operator;
mod producer;
mod scenario;
mod store;
mod task;
mod world;

pub use check::Violation;
pub use scenario::{Broken, SHAPES, Scenario};
pub use world::{Outcome, run};
