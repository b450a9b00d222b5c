//! The rules of a `TurbineApp`, judged by the CEL of the resource definition and by Rust side by side.

mod changes;
mod common;
mod compiled;
mod definition;
mod examples;
mod generated;
mod refusals;
