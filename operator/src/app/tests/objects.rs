//! The objects of an app, as YAML.

use serde_json::{Value, json};

use super::{app, running, with, world};
use crate::cluster::Kind;

const ALL: [(Kind, &str); 7] = [
    (Kind::ServiceAccount, "a-worker"),
    (Kind::Secret, "a-control"),
    (Kind::ConfigMap, "a-app"),
    (Kind::ConfigMap, "a-assignment"),
    (Kind::Service, "a-workers"),
    (Kind::PodDisruptionBudget, "a"),
    (Kind::StatefulSet, "a"),
];

fn shown(picture: &Value, kind: Kind, name: &str) -> Value {
    let mut object = picture["objects"][format!("{kind}/{name}")].clone();
    object.as_object_mut().unwrap().remove("status");
    object
}

#[tokio::test]
async fn of_a_plain_app() {
    let world = running().await;
    let picture = world.picture();
    for (kind, name) in ALL {
        insta::assert_yaml_snapshot!(format!("plain-{kind}-{name}"), shown(&picture, kind, name));
    }
}

#[tokio::test]
async fn of_an_app_with_login_and_overrides() {
    let world = world();
    world.with(|state| {
        let data = json!({"user": "dQ==", "password": "cA==", "ca": "Y2E="});
        state.insert(
            Kind::Secret,
            json!({"metadata": {"name": "kafka"}, "data": data}),
        );
    });
    let mut spec = with(
        app(),
        "/spec/kafka",
        json!({
            "bootstrapServers": "kafka:9093",
            "tls": {"ca": {"secret": "kafka", "key": "ca"}},
            "sasl": {
                "mechanism": "PLAIN",
                "username": {"secret": "kafka", "key": "user"},
                "password": {"secret": "kafka", "key": "password"},
            },
        }),
    );
    spec["spec"]["podOverrides"] = json!({
        "metadata": {"annotations": {"team": "fraud"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "containers": [{"name": "worker", "env": [{"name": "TZ", "value": "UTC"}]}],
        },
    });
    spec["spec"]["state"]["volume"]["storageClassName"] = json!("fast");
    world.apply_app(spec);
    world.settle("a").await;
    let picture = world.picture();
    insta::assert_yaml_snapshot!("login-StatefulSet", shown(&picture, Kind::StatefulSet, "a"));
}

#[tokio::test]
async fn of_an_app_with_checkpoints_in_a_bucket() {
    let world = world();
    world.apply_app(with(
        app(),
        "/spec/state/checkpoints",
        json!({"store": {"s3": {
            "bucket": "state",
            "endpoint": "http://minio:9000",
            "credentialsSecret": "turbine-s3",
        }}}),
    ));
    world.settle("a").await;
    let set = shown(&world.picture(), Kind::StatefulSet, "a");
    let pod = &set["spec"]["template"]["spec"];
    let only = |list: &Value| {
        let named = |one: &&Value| one["name"] == "checkpoints";
        list.as_array().unwrap().iter().find(named).cloned()
    };
    insta::assert_yaml_snapshot!(
        "checkpoints-in-a-bucket",
        json!({
            "mount": only(&pod["containers"][0]["volumeMounts"]),
            "volume": only(&pod["volumes"]),
        })
    );
}

fn template(world: &super::Memories) -> Value {
    world.with(|state| state.get(Kind::StatefulSet, "a").unwrap()["spec"]["template"].clone())
}

#[tokio::test]
async fn a_new_assignment_restarts_nobody_and_a_new_configuration_does() {
    let world = running().await;
    let before = template(&world);
    world.apply_app(with(app(), "/spec/worker", json!({"logLevel": "debug"})));
    world.settle("a").await;
    let debug = template(&world);
    assert_ne!(before, debug);
    world.apply_app(with(app(), "/spec/restartNonce", json!("1")));
    world.settle("a").await;
    assert_ne!(template(&world), before);
    world.apply_app(app());
    world.settle("a").await;
    assert_eq!(template(&world), before);
    world.with(|state| {
        state.change(Kind::ConfigMap, "a-assignment", |map| {
            map["data"]["assignment.json"] = json!("lost")
        });
    });
    world.settle("a").await;
    assert_eq!(template(&world), before);
}

#[tokio::test]
async fn nothing_in_an_object_names_the_operator_s_version() {
    let world = running().await;
    let template = template(&world).to_string();
    assert!(!template.contains(env!("CARGO_PKG_VERSION")), "{template}");
}
