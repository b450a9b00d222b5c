use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar,
    EnvVarSource, HTTPGetAction, KeyToPath, ObjectFieldSelector, PodSecurityContext, PodSpec,
    PodTemplateSpec, Probe, ProjectedVolumeSource, SeccompProfile, SecretProjection,
    SecretVolumeSource, SecurityContext, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use strum::IntoEnumIterator as _;
use turbine_crds::assignment::ASSIGNMENT_DIR;
use turbine_crds::compiled::{
    CHECKPOINT_SECRET_DIR, COMPILED_APP_DIR, CONTROL_PORT, CONTROL_TOKEN_DIR, CheckpointSecretFile,
    KAFKA_SECRET_DIR, STATE_DIR,
};
use turbine_crds::control::{HEALTHZ, READYZ};

use super::{Blueprint, BuildError, merge};
use crate::app::{diff, names};

const CONTAINER: &str = "worker";
const USER: i64 = 65_532;

/// Grace beyond what the worker's last commit may take: closing stores and the way of the signal.
const DRAIN_SECONDS: u64 = 30;
/// A commit waits for the outputs' acknowledgements at most this long (the producers' delivery timeout), if the app says nothing else.
const DELIVERY_SECONDS: u64 = 120;
/// However long the app lets a record be tried, 0 for ever: a node must be drained some time.
const LONGEST_DELIVERY_SECONDS: u64 = 900;

/// Template of the worker pods, with the user's overrides merged in.
pub(super) fn template(of: &Blueprint<'_>) -> Result<Value, BuildError> {
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(names::labels(of.app.name().as_str())),
            annotations: Some([(names::CONFIG_HASH.to_owned(), config_hash(of)?)].into()),
            ..ObjectMeta::default()
        }),
        spec: Some(spec(of)),
    };
    let mut template = serde_json::to_value(&template)?;
    if let Some(overrides) = of.app.pod_overrides() {
        merge::merge(&mut template, overrides.patch());
    }
    Ok(template)
}

/// What a worker reads once, at its start: a change of it has to restart the worker. The assignment
/// is not in it, workers follow that while they run.
fn config_hash(of: &Blueprint<'_>) -> Result<String, BuildError> {
    let mut app = serde_json::to_value(of.app.compiled())?;
    let subscriptions = app.get_mut("subscriptions").and_then(Value::as_array_mut);
    for subscription in subscriptions.into_iter().flatten() {
        // The count that is asked for is the operator's matter: workers run the layout that they are assigned.
        if let Some(fields) = subscription.as_object_mut() {
            fields.remove("partitions");
        }
    }
    Ok(diff::digest(&json!([app, of.app.restart_nonce()])))
}

/// Seconds between the signal to end and the kill, if the user sets no others.
fn grace_seconds(of: &Blueprint<'_>) -> u64 {
    let commit_ms = of
        .app
        .compiled()
        .subscriptions
        .iter()
        .map(|subscription| subscription.commit_interval_ms)
        .max()
        .unwrap_or(0);
    let delivery = delivery_seconds(&of.app.compiled().kafka.properties);
    DRAIN_SECONDS + delivery + commit_ms.div_ceil(1_000)
}

fn delivery_seconds(properties: &BTreeMap<String, String>) -> u64 {
    let set = ["message.timeout.ms", "delivery.timeout.ms"]
        .iter()
        .find_map(|name| properties.get(*name)?.trim().parse::<u64>().ok());
    match set {
        None => DELIVERY_SECONDS,
        Some(0) => LONGEST_DELIVERY_SECONDS,
        Some(ms) => ms.div_ceil(1_000).min(LONGEST_DELIVERY_SECONDS),
    }
}

/// What the worker's tasks may take of the grace: the rest is for closing stores. Of a short one that a user has set, a third.
fn stop_patience(of: &Blueprint<'_>) -> u64 {
    let set = of
        .app
        .pod_overrides()
        .and_then(|overrides| overrides.patch()["spec"]["terminationGracePeriodSeconds"].as_u64());
    let grace = set.unwrap_or_else(|| grace_seconds(of));
    grace - DRAIN_SECONDS.min(grace / 3)
}

fn spec(of: &Blueprint<'_>) -> PodSpec {
    PodSpec {
        service_account_name: Some(names::service_account(of.app.name().as_str())),
        automount_service_account_token: Some(false),
        // Each Service of the namespace would put variables into every pod, and some look like settings.
        enable_service_links: Some(false),
        termination_grace_period_seconds: i64::try_from(grace_seconds(of)).ok(),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            // A large volume is not walked at each start.
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(of)],
        volumes: Some(volumes(of)),
        ..PodSpec::default()
    }
}

fn container(of: &Blueprint<'_>) -> Container {
    Container {
        name: CONTAINER.to_owned(),
        image: Some(of.image.to_owned()),
        env: Some(vec![
            EnvVar {
                name: "POD_NAME".to_owned(),
                value_from: Some(EnvVarSource {
                    field_ref: Some(ObjectFieldSelector {
                        api_version: Some("v1".to_owned()),
                        field_path: "metadata.name".to_owned(),
                    }),
                    ..EnvVarSource::default()
                }),
                ..EnvVar::default()
            },
            EnvVar {
                name: "TURBINE_STOP_PATIENCE".to_owned(),
                value: Some(stop_patience(of).to_string()),
                ..EnvVar::default()
            },
        ]),
        ports: Some(vec![ContainerPort {
            name: Some("control".to_owned()),
            container_port: i32::from(CONTROL_PORT),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        resources: Some(of.app.worker().resources().clone()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        // A restore may take long and answers /healthz meanwhile; only a process that never comes
        // up at all runs into this limit.
        startup_probe: Some(probe(HEALTHZ, 2, 150)),
        liveness_probe: Some(probe(HEALTHZ, 10, 6)),
        readiness_probe: Some(probe(READYZ, 2, 2)),
        volume_mounts: Some(mounts(of)),
        ..Container::default()
    }
}

fn probe(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("control".to_owned()),
            scheme: Some("HTTP".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        success_threshold: Some(1),
        ..Probe::default()
    }
}

fn mounts(of: &Blueprint<'_>) -> Vec<VolumeMount> {
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    let mut mounts = vec![
        mount(names::VOLUME, STATE_DIR, false),
        mount("tmp", "/tmp", false),
        mount("app", COMPILED_APP_DIR, true),
        mount("assignment", ASSIGNMENT_DIR, true),
        mount("control", CONTROL_TOKEN_DIR, true),
    ];
    if !of.app.secrets().is_empty() {
        mounts.push(mount("kafka", KAFKA_SECRET_DIR, true));
    }
    if of.app.checkpoint_secret().is_some() {
        mounts.push(mount("checkpoints", CHECKPOINT_SECRET_DIR, true));
    }
    mounts
}

fn volumes(of: &Blueprint<'_>) -> Vec<Volume> {
    let name = of.app.name().as_str();
    let config_map = |volume: &str, name: String| Volume {
        name: volume.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name,
            default_mode: Some(0o444),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mut volumes = vec![
        Volume {
            name: "tmp".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
        config_map("app", names::app_config(name)),
        config_map("assignment", names::assignment_config(name)),
        Volume {
            name: "control".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(names::token_secret(name)),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
    ];
    if !of.app.secrets().is_empty() {
        volumes.push(kafka_secrets(of));
    }
    volumes.extend(of.app.checkpoint_secret().map(checkpoint_secret));
    volumes
}

/// The keys that the spec names, under the file names that the worker knows; nothing else of those Secrets.
fn kafka_secrets(of: &Blueprint<'_>) -> Volume {
    let sources = of
        .app
        .secrets()
        .iter()
        .map(|file| VolumeProjection {
            secret: Some(SecretProjection {
                name: file.secret().to_owned(),
                items: Some(vec![KeyToPath {
                    key: file.key().to_owned(),
                    path: file.file().as_ref().to_owned(),
                    mode: None,
                }]),
                optional: None,
            }),
            ..VolumeProjection::default()
        })
        .collect();
    Volume {
        name: "kafka".to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(0o440),
            sources: Some(sources),
        }),
        ..Volume::default()
    }
}

/// As files and not as variables: renewed credentials reach a running worker.
fn checkpoint_secret(name: &str) -> Volume {
    let sources = CheckpointSecretFile::iter()
        .map(|file| VolumeProjection {
            secret: Some(SecretProjection {
                name: name.to_owned(),
                items: Some(vec![KeyToPath {
                    key: file.as_ref().to_owned(),
                    path: file.as_ref().to_owned(),
                    mode: None,
                }]),
                optional: file.is_optional().then_some(true),
            }),
            ..VolumeProjection::default()
        })
        .collect();
    Volume {
        name: "checkpoints".to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(0o440),
            sources: Some(sources),
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::not_set(None, 120)]
    #[case::begun_seconds_count(Some(("message.timeout.ms", "90500")), 91)]
    #[case::its_other_name(Some(("delivery.timeout.ms", "300000")), 300)]
    #[case::for_ever(Some(("message.timeout.ms", "0")), 900)]
    #[case::longer_than_any_node_waits(Some(("message.timeout.ms", "2147483647")), 900)]
    #[case::of_something_else(Some(("socket.timeout.ms", "10")), 120)]
    fn a_stop_leaves_as_much_time_as_a_record_may_be_tried(
        #[case] set: Option<(&str, &str)>,
        #[case] seconds: u64,
    ) {
        let properties = set
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        assert_eq!(delivery_seconds(&properties), seconds);
    }
}
