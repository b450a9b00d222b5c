//! What both planes of Turbine speak: the `TurbineApp` resource, its rules, and the documents that
//! the operator hands to the workers (compiled app, assignment) and reads back from them (worker status).
//!
//! Nothing here does I/O.

pub mod app;
pub mod assignment;
mod compile;
pub mod compiled;
pub mod control;
pub mod crd;
pub mod defaults;
pub mod quantity;
pub mod rules;
pub mod status;
pub mod text;
pub mod validated;
