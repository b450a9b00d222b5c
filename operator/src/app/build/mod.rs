//! Kubernetes objects of an app: a validated app and its layout in, JSON ready to be applied out.
//! Pure, and independent of the operator's own version: a new operator restarts nobody.

mod claims;
mod config_maps;
mod disruption_budget;
mod merge;
mod pod;
mod revision;
mod service;
mod service_account;
mod stateful_set;
mod token;

use serde::Serialize;
use serde_json::Value;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::status::LayoutStatus;
use turbine_crds::validated::ValidatedApp;

pub use claims::{Provision, claim_marks};
pub use revision::{revision, spec_of};
pub use token::{token, token_secret, token_secret_marks};

use super::diff;
use crate::cluster::Kind;

/// What all objects of an app are made from.
#[derive(Debug, Clone, Copy)]
pub struct Blueprint<'a> {
    pub app: &'a ValidatedApp,
    /// Uid of the `TurbineApp`.
    pub uid: &'a str,
    pub layout: &'a LayoutStatus,
    pub document: &'a AssignmentDocument,
    /// Image of the worker container.
    pub image: &'a str,
    /// Pods to run: those of the layout, or none.
    pub replicas: i32,
    /// Size in the claim template. It follows the claims, which grow first.
    pub volume_size: &'a str,
}

/// One object, ready to be applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    pub kind: Kind,
    pub name: String,
    pub object: Value,
}

/// Why an object could not be written as JSON. Only a value that JSON lacks can cause it.
#[derive(Debug, thiserror::Error)]
#[error("an object of the app cannot be written as JSON ({0}): this is a defect of the operator")]
pub struct BuildError(#[from] serde_json::Error);

/// Everything that is applied, in the order in which it is applied. The token's Secret is not among
/// it: it is made once and its content never applied again.
///
/// # Errors
/// If an object cannot be written as JSON.
pub fn objects(of: &Blueprint<'_>) -> Result<Vec<Built>, BuildError> {
    Ok(vec![
        built(Kind::ServiceAccount, &service_account::build(of))?,
        built(Kind::ConfigMap, &config_maps::app(of)?)?,
        built(Kind::ConfigMap, &config_maps::assignment(of)?)?,
        built(Kind::Service, &service::build(of))?,
        built(Kind::PodDisruptionBudget, &disruption_budget::build(of))?,
        built_from(Kind::StatefulSet, stateful_set::build(of)?),
    ])
}

fn built(kind: Kind, object: &impl Serialize) -> Result<Built, BuildError> {
    Ok(built_from(kind, serde_json::to_value(object)?))
}

fn built_from(kind: Kind, mut object: Value) -> Built {
    diff::stamp(&mut object);
    let name = object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    Built { kind, name, object }
}
