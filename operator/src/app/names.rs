//! Names and labels of what belongs to an app. Names of children follow from the app's name alone,
//! so that an object is found again without a memory.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::cluster::Kind;

/// Label that carries the app's name on everything that belongs to it.
pub const APP: &str = "turbine.dev/app";
/// Label that carries the `appId` on volumes, by which an app made anew finds them.
pub const APP_ID: &str = "turbine.dev/app-id";
/// Selects what operators of this kind made, of all apps.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by=turbine-operator";
/// Annotation of an applied object: what was applied last. A change of it also shows that a field must go.
pub const APPLIED: &str = "turbine.dev/applied";
/// Annotation of the pod template whose change restarts the workers.
pub const CONFIG_HASH: &str = "turbine.dev/config-hash";
/// Annotations of a volume: the life of the app whose state it holds, the layout that ran on it,
/// and the resource that it was provisioned for.
pub const LINEAGE: &str = "turbine.dev/lineage";
pub const LAYOUT: &str = "turbine.dev/layout";
/// Annotation of a volume: the last record of a change of the layout, with the layout that it is about.
pub const RESCALE: &str = "turbine.dev/rescale";
pub const APP_UID: &str = "turbine.dev/app-uid";
/// Annotation of the `TurbineApp` that makes the operator keep its hands off.
pub const PAUSED: &str = "turbine.dev/paused";
pub const FINALIZER: &str = "turbine.dev/cleanup";
/// Name of the claim template.
pub const VOLUME: &str = "state";

pub fn service_account(app: &str) -> String {
    format!("{app}-worker")
}

pub use turbine_crds::control::TOKEN_SUFFIX;

pub fn token_secret(app: &str) -> String {
    format!("{app}{TOKEN_SUFFIX}")
}

pub fn app_config(app: &str) -> String {
    format!("{app}-app")
}

pub fn assignment_config(app: &str) -> String {
    format!("{app}-assignment")
}

pub fn service(app: &str) -> String {
    format!("{app}-workers")
}

pub fn stateful_set(app: &str) -> String {
    app.to_owned()
}

pub fn disruption_budget(app: &str) -> String {
    app.to_owned()
}

/// Everything that an app is made of, by kind and name.
pub fn objects(app: &str) -> [(Kind, String); 7] {
    [
        (Kind::ServiceAccount, service_account(app)),
        (Kind::Secret, token_secret(app)),
        (Kind::ConfigMap, app_config(app)),
        (Kind::ConfigMap, assignment_config(app)),
        (Kind::Service, service(app)),
        (Kind::PodDisruptionBudget, disruption_budget(app)),
        (Kind::StatefulSet, stateful_set(app)),
    ]
}

/// Names of the pods of a layout, by ordinal.
pub fn pods(app: &str, replicas: i32) -> Vec<String> {
    (0..replicas).map(|at| format!("{app}-{at}")).collect()
}

/// Names of the claims of a layout, by ordinal.
pub fn claims(app: &str, replicas: i32) -> Vec<String> {
    (0..replicas)
        .map(|at| format!("{VOLUME}-{app}-{at}"))
        .collect()
}

/// Labels that select an app's pods. They can never change: a `StatefulSet`'s selector cannot.
pub fn selector(app: &str) -> BTreeMap<String, String> {
    [
        ("app.kubernetes.io/name", "turbine-worker"),
        ("app.kubernetes.io/instance", app),
        (APP, app),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Labels of everything that belongs to an app.
pub fn labels(app: &str) -> BTreeMap<String, String> {
    let mut labels = selector(app);
    labels.insert(
        "app.kubernetes.io/managed-by".to_owned(),
        "turbine-operator".to_owned(),
    );
    labels.insert(
        "app.kubernetes.io/component".to_owned(),
        "worker".to_owned(),
    );
    labels
}

/// The selector as text, for the scale subresource.
pub fn selector_text(app: &str) -> String {
    selector(app)
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect::<Vec<_>>()
        .join(",")
}

/// What ties a child to its app, so that Kubernetes removes it with the app.
pub fn owner(app: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "turbine.dev/v1alpha1".to_owned(),
        kind: "TurbineApp".to_owned(),
        name: app.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
