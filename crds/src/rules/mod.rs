//! The rules of a `TurbineApp`: once as CEL for the API server, once in Rust for everything else, with the same words.

use std::fmt;

use crate::app::TurbineApp;
use crate::validated::ValidatedApp;

/// A field that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldError {
    /// For example `spec.subscriptions[0].input.partitions`.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Checks every rule that one version of an app can be judged by.
///
/// # Errors
/// All broken rules at once, in the order of the fields.
pub fn validate(app: &TurbineApp) -> Result<ValidatedApp, Vec<FieldError>> {
    todo!()
}

/// Checks what may not change between two versions of an app: its identity, the class of its volumes, and their size,
/// which may only grow.
///
/// # Errors
/// All changes that are refused.
pub fn validate_update(old: &TurbineApp, new: &TurbineApp) -> Result<(), Vec<FieldError>> {
    todo!()
}
