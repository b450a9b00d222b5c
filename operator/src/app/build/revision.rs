use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use turbine_crds::app::TurbineAppSpec;

use super::{BuildError, Built};
use crate::app::{diff, names};
use crate::cluster::Kind;

/// The record of an accepted spec. Its name follows from the spec, so that making it twice makes one.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn revision(
    namespace: &str,
    app: &str,
    uid: &str,
    number: i64,
    spec: &TurbineAppSpec,
) -> Result<Built, BuildError> {
    let spec = serde_json::to_value(spec)?;
    let name = format!("{app}-spec-{}", diff::digest(&spec));
    let mut labels = names::labels(app);
    // The pods' labels would make a StatefulSet take the record for one of its own.
    labels.remove("app.kubernetes.io/name");
    labels.insert(
        "app.kubernetes.io/component".to_owned(),
        "accepted-spec".to_owned(),
    );
    let revision = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            owner_references: Some(vec![names::owner(app, uid)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(json!({ "spec": sorted(spec) }))),
        revision: number,
    };
    Ok(Built {
        kind: Kind::ControllerRevision,
        name,
        object: serde_json::to_value(&revision)?,
    })
}

/// The same with the fields of every object in order. The API server writes data in that order when it applies a patch, and
/// takes data in another order for changed, which a record's may not be: the garbage collector could not take its owner off.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields
                .into_iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// The spec in a record read back.
///
/// # Errors
/// What does not fit, as text.
pub fn spec_of(revision: &Value) -> Result<TurbineAppSpec, String> {
    let spec = revision.pointer("/data/spec").ok_or("it holds no spec")?;
    serde_json::from_value(spec.clone()).map_err(|error| error.to_string())
}
