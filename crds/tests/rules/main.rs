//! The rules of a `TurbineApp`, judged by the CEL of the resource definition and by Rust side by side.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::type_complexity
)]

mod changes;
mod common;
mod compiled;
mod definition;
mod examples;
mod generated;
mod refusals;
