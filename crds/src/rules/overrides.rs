//! `podOverrides`: reads as a `PodTemplateSpec` and leaves alone what the operator owns.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use serde_json::Value;

use super::report::{Path, Report};
use super::words;
use crate::compiled::CONTROL_PORT;

/// Name of the worker's container.
pub const WORKER_CONTAINER: &str = "worker";
/// Names of the volumes that the operator mounts.
pub const VOLUMES: [&str; 7] = [
    "state",
    "app",
    "assignment",
    "kafka",
    "control",
    "checkpoints",
    "tmp",
];
/// Beginning of the variables that say where a worker finds its files.
const VARIABLE_PREFIX: &str = "TURBINE_";
/// Beginnings of the labels that the operator sets.
pub const LABEL_PREFIXES: [&str; 2] = ["app.kubernetes.io/", "turbine.dev/"];
/// Name of the worker's port.
pub const PORT_NAME: &str = "control";

/// Checks a patch; gives it read as a template if nothing is wrong with it.
pub(super) fn check(report: &mut Report, path: &Path, patch: &Value) -> Option<PodTemplateSpec> {
    let template: PodTemplateSpec = match serde_path_to_error::deserialize(patch) {
        Ok(template) => template,
        Err(error) => {
            let at = match error.path().to_string() {
                root if root == "." => path.clone(),
                inner => path.field(&inner),
            };
            let error = error.into_inner().to_string();
            report.refuse(&at, words::OVERRIDE_SHAPE, &[("error", &error)]);
            return None;
        }
    };
    match serde_json::to_value(&template) {
        Ok(read) => check_known(report, path, patch, &read),
        Err(error) => report.refuse(
            path,
            words::OVERRIDE_SHAPE,
            &[("error", &error.to_string())],
        ),
    }
    check_nulls(report, path, patch);
    check_metadata(report, &path.field("metadata"), patch.get("metadata"));
    check_spec(report, &path.field("spec"), &template, patch);
    Some(template)
}

fn owned(report: &mut Report, path: &Path, instead: &str) {
    report.refuse(path, words::OVERRIDE_OWNED, &[("instead", instead)]);
}

/// What was given and did not come back is no field of the type.
fn check_known(report: &mut Report, path: &Path, given: &Value, read: &Value) {
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            for (key, value) in given {
                let path = path.field(key);
                match read.get(key) {
                    Some(read) => check_known(report, &path, value, read),
                    None if value.is_null() => {}
                    None => report.refuse(&path, words::OVERRIDE_UNKNOWN, &[]),
                }
            }
        }
        (Value::Array(given), Value::Array(read)) => {
            for (at, (given, read)) in given.iter().zip(read).enumerate() {
                check_known(report, &path.index(at), given, read);
            }
        }
        _ => {}
    }
}

/// A null takes a field away; these hold what the operator put there.
fn check_nulls(report: &mut Report, path: &Path, patch: &Value) {
    for pointer in [
        "metadata",
        "metadata/labels",
        "metadata/annotations",
        "spec",
        "spec/containers",
        "spec/volumes",
    ] {
        if patch
            .pointer(&format!("/{pointer}"))
            .is_some_and(Value::is_null)
        {
            owned(
                report,
                &path.field(&pointer.replace('/', ".")),
                "leave it out",
            );
        }
    }
}

fn check_metadata(report: &mut Report, path: &Path, metadata: Option<&Value>) {
    for (field, value) in metadata.and_then(Value::as_object).into_iter().flatten() {
        let path = path.field(field);
        match field.as_str() {
            "labels" | "annotations" => {
                for key in value
                    .as_object()
                    .into_iter()
                    .flat_map(serde_json::Map::keys)
                {
                    if LABEL_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
                        owned(report, &path.key(key), "use a name of your own");
                    }
                }
            }
            _ => owned(report, &path, "set labels and annotations only"),
        }
    }
}

fn check_spec(report: &mut Report, path: &Path, template: &PodTemplateSpec, patch: &Value) {
    let Some(spec) = &template.spec else { return };
    for (given, field, instead) in [
        (
            spec.restart_policy.is_some(),
            "restartPolicy",
            "workers always restart",
        ),
        (
            spec.hostname.is_some(),
            "hostname",
            "pods are reached by their own names",
        ),
        (
            spec.subdomain.is_some(),
            "subdomain",
            "pods are reached by their own names",
        ),
    ] {
        if given {
            owned(report, &path.field(field), instead);
        }
    }
    let volumes = path.field("volumes");
    for (at, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = volumes.index(at).field("name");
        report.text_length(&path, &volume.name, 1, 63);
        if VOLUMES.contains(&volume.name.as_str()) {
            owned(report, &path, "give your volume another name");
        }
    }
    let containers = path.field("containers");
    for (at, container) in spec.containers.iter().enumerate() {
        let path = containers.index(at);
        if container.name == WORKER_CONTAINER {
            let given = patch.pointer(&format!("/spec/containers/{at}"));
            check_worker(report, &path, container, given);
        } else {
            check_other(report, &path, container);
        }
    }
    let init = path.field("initContainers");
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = init.index(at);
        if container.name == WORKER_CONTAINER {
            owned(
                report,
                &path.field("name"),
                "give your container another name",
            );
        }
        check_other(report, &path, container);
    }
}

fn check_worker(report: &mut Report, path: &Path, worker: &Container, given: Option<&Value>) {
    for (field, instead) in [
        ("image", "use `spec.worker.image`"),
        ("resources", "use `spec.worker.resources`"),
        ("command", "the image's entry point runs the worker"),
        ("args", "the image's entry point runs the worker"),
        ("ports", "add ports to a container of your own"),
    ] {
        // A null would take the field away.
        if given.is_some_and(|given| given.get(field).is_some()) {
            owned(report, &path.field(field), instead);
        }
    }
    for field in ["env", "volumeMounts"] {
        if given.is_some_and(|given| given.get(field).is_some_and(Value::is_null)) {
            owned(report, &path.field(field), "leave it out");
        }
    }
    for (at, variable) in worker.env.iter().flatten().enumerate() {
        if variable.name == "POD_NAME" || variable.name.starts_with(VARIABLE_PREFIX) {
            let path = path.field("env").index(at).field("name");
            owned(report, &path, "use another name");
        }
    }
    for (at, mount) in worker.volume_mounts.iter().flatten().enumerate() {
        if VOLUMES.contains(&mount.name.as_str()) {
            let path = path.field("volumeMounts").index(at).field("name");
            owned(report, &path, "mount a volume of your own");
        }
    }
}

fn check_other(report: &mut Report, path: &Path, container: &Container) {
    report.text_length(&path.field("name"), &container.name, 1, 63);
    for (at, port) in container.ports.iter().flatten().enumerate() {
        let path = path.field("ports").index(at);
        if port.name.as_deref() == Some(PORT_NAME) {
            owned(report, &path.field("name"), "use another name");
        }
        if port.container_port == i32::from(CONTROL_PORT) {
            owned(report, &path.field("containerPort"), "use another port");
        }
    }
}
