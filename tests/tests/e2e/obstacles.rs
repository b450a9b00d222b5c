//! What stands between a spec and its run: secrets, rights, storage classes, settings. Each is named in a condition, and the app
//! goes on by itself once it is out of the way.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use turbine_crds::app::TurbineApp;
use turbine_tests::cluster::{condition, is_ready, kubectl, with_input};
use turbine_tests::events::EventPlan;
use turbine_tests::manifest::AppManifest;
use turbine_tests::process;
use turbine_tests::scenario::Scenario;

const SOON: Duration = Duration::from_mins(1);
const START: Duration = Duration::from_mins(3);

fn name(app: &AppManifest) -> Result<String> {
    Ok(app.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned())
}

fn client_file(name: &str) -> Result<String> {
    let folder = PathBuf::from(std::env::var("TURBINE_KAFKA_CLIENT")?);
    Ok(std::fs::read_to_string(folder.join(name))?)
}

/// The app with TLS and a login, both from Secrets.
fn secured(app: AppManifest) -> Result<AppManifest> {
    let servers = std::env::var("TURBINE_KAFKA_SASL_BOOTSTRAP")?;
    Ok(app.with(
        "spec.kafka",
        json!({
            "bootstrapServers": servers,
            "tls": {"ca": {"secret": "kafka-ca", "key": "ca.crt"}},
            "sasl": {
                "mechanism": "SCRAM-SHA-512",
                "username": {"secret": "kafka-login", "key": "username"},
                "password": {"secret": "kafka-login", "key": "password"},
            },
        }),
    ))
}

fn secret(name: &str, data: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
        .to_string()
}

fn login(user: &str, password: &str) -> Result<String> {
    Ok(secret(
        "kafka-login",
        &json!({"username": client_file(user)?.trim(), "password": client_file(password)?.trim()}),
    ))
}

/// Waits until the app is not ready for this reason, in words that hold `words`.
async fn wait_for_reason(
    scenario: &Scenario,
    app: &str,
    reason: &str,
    words: &[&str],
) -> Result<TurbineApp> {
    let wanted = reason.to_owned();
    let found = scenario
        .namespace
        .wait_for_app(app, reason, SOON, move |app| {
            condition(app, "Ready").is_some_and(|ready| ready.reason == wanted)
        })
        .await?;
    let ready = condition(&found, "Ready").context("Ready")?;
    for word in words {
        ensure!(ready.message.contains(word), "{word} is not in {ready:?}");
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_and_then_missing_rights_are_named_and_a_secured_app_computes_the_right_results()
-> Result<()> {
    let Some(scenario) = Scenario::begin("a_missing_secret").await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", 4).await?;
    let output = scenario.topics.name("scores")?;
    let manifest = secured(scenario.app(&input, &output))?;
    let app = name(&manifest)?;
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;
    wait_for_reason(&scenario, &app, "SecretMissing", &["kafka-ca", "ca.crt"]).await?;

    scenario.namespace.apply(&secret(
        "kafka-ca",
        &json!({"ca.crt": client_file("ca.crt")?}),
    ))?;
    scenario
        .namespace
        .apply(&login("limited-user", "limited-password")?)?;
    let refused = wait_for_reason(&scenario, &app, "KafkaRightMissing", &[]).await?;
    ensure!(!is_ready(&refused));
    ensure!(
        scenario.namespace.worker_pods(&app).await?.is_empty(),
        "no pod without rights"
    );

    scenario.namespace.apply(&login("user", "password")?)?;
    scenario.namespace.wait_until_ready(&app, START).await?;
    let events = EventPlan {
        records: 5_000,
        keys: 100,
        ..EventPlan::default()
    };
    scenario
        .kafka()
        .produce_events(&input, &events, Some(events.end_ms() + 3_600_000), None)?;
    scenario
        .query(&input, &output)
        .compare(&scenario.bed.kafka_libs, START)?
        .check()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_storage_class_is_named_and_asks_for_a_person() -> Result<()> {
    let Some(scenario) = Scenario::begin("an_unknown_storage_class").await? else {
        return Ok(());
    };
    let class = turbine_tests::cluster::unique("class");
    let input = scenario.topics.create("events", 2).await?;
    let manifest = scenario
        .app(&input, &scenario.topics.name("scores")?)
        .with("spec.state.volume.storageClassName", json!(class));
    let app = name(&manifest)?;
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;
    wait_for_reason(
        &scenario,
        &app,
        "VolumePending",
        &[&class, "delete the app"],
    )
    .await?;
    scenario
        .namespace
        .wait_for_condition(&app, "Stalled", "True", Some("VolumePending"), START)
        .await?;

    let pods = scenario.namespace.worker_pods(&app).await?;
    ensure!(pods.len() == 1, "it waits, and nothing else is tried");

    // The class comes, and nobody touches the app.
    let made = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": class},
        "provisioner": "k8s.test/local",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    let created = with_input(kubectl().args(["create", "-f", "-"]), &made.to_string())?;
    ensure!(created.success, "{}", created.stderr);
    let ready = scenario.namespace.wait_until_ready(&app, START).await;
    process::run(kubectl().args(["delete", "storageclass", &class]))?;
    let stalled = condition(&ready?, "Stalled").map(|of| of.status.clone());
    ensure!(stalled.as_deref() == Some("False"), "{stalled:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_to_kafka_that_does_not_work_never_replaces_one_that_does() -> Result<()> {
    let Some(scenario) = Scenario::begin("a_way_to_kafka").await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", 2).await?;
    let manifest = scenario.app(&input, &scenario.topics.name("scores")?);
    let app = name(&manifest)?;
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;
    scenario.namespace.wait_until_ready(&app, START).await?;
    let before = pods(&scenario, &app).await?;

    let dead = "127.0.0.1:9";
    let missing = json!({"ca": {"secret": "no-such-secret", "key": "ca.crt"}});
    for (changed, reason, word) in [
        (
            manifest
                .clone()
                .with("spec.kafka.bootstrapServers", json!(dead)),
            "KafkaUnreachable",
            dead,
        ),
        (
            manifest.clone().with("spec.kafka.tls", missing),
            "SecretMissing",
            "no-such-secret",
        ),
        (
            manifest
                .clone()
                .with("spec.kafka.properties", json!({"nonsense.key": "1"})),
            "KafkaSettingsRefused",
            "nonsense.key",
        ),
    ] {
        scenario.namespace.apply(&changed.text())?;
        wait_for_reason(&scenario, &app, reason, &[word, "runs on"]).await?;
        assert_eq!(pods(&scenario, &app).await?, before, "{reason}");
    }
    // back to the first spec, without what the others had added
    scenario
        .namespace
        .kubectl(&["replace", "-f", &written(&scenario, &manifest)?])?;
    scenario.namespace.wait_until_ready(&app, START).await?;
    assert_eq!(pods(&scenario, &app).await?, before);
    Ok(())
}

fn written(scenario: &Scenario, manifest: &AppManifest) -> Result<String> {
    let path = scenario.folder.path().join("first.yaml");
    std::fs::write(&path, manifest.text())?;
    Ok(path.display().to_string())
}

/// Identities of the worker pods: another one is another process.
async fn pods(scenario: &Scenario, app: &str) -> Result<Vec<Option<String>>> {
    let pods = scenario.namespace.worker_pods(app).await?;
    Ok(pods.into_iter().map(|pod| pod.metadata.uid).collect())
}
