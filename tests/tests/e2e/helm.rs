//! The chart: what it renders is taken by the API server, values are checked, releases do not collide, and uninstalling
//! leaves apps alone.
//!
//! The upgrade from an earlier release is not here: there is no earlier release yet.

use std::time::Duration;

use anyhow::{Context as _, Result};
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::chart::{Release, folder, helm};
use turbine_tests::cluster::{TestNamespace, kubectl, with_input};
use turbine_tests::process;
use turbine_tests::scenario::Scenario;

const START: Duration = Duration::from_mins(3);

/// Combinations that together use every value.
const VARIANTS: &[&[&str]] = &[
    &[],
    &["crds.install=true"],
    &[
        "networkPolicy.enabled=true",
        "networkPolicy.extraEgress[0].ports[0].port=9999",
    ],
    &[
        "replicas=2",
        "rbac.aggregateRoles=false",
        "logFormat=text",
        "logLevel=debug",
    ],
    &[
        "fullnameOverride=another",
        "priorityClassName=system-cluster-critical",
        "imagePullSecrets[0].name=registry",
        "podLabels.team=streams",
        "podAnnotations.note=yes",
        "nodeSelector.disk=fast",
        "tolerations[0].operator=Exists",
        "serviceAccount.annotations.role=operator",
        "topologySpreadConstraints[0].maxSkew=1",
        "topologySpreadConstraints[0].topologyKey=zone",
        "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
        "topologySpreadConstraints[0].labelSelector.matchLabels.team=streams",
        "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
        "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey=zone",
        "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector.matchLabels.team=streams",
    ],
];

fn watched(namespace: &TestNamespace) -> String {
    format!("watch.namespaces={{{}}}", namespace.name)
}

#[tokio::test]
async fn lint_finds_nothing_and_the_api_server_takes_every_variant_as_it_is() -> Result<()> {
    let Some(bed) = Bed::for_test("helm::lint", Needs::Api)? else {
        return Ok(());
    };
    let namespace = TestNamespace::create("helm").await?;
    let lint = process::run(helm().args(["lint", "--strict"]).arg(folder()))?;
    assert!(
        !lint.contains("[WARNING]") && !lint.contains("[ERROR]"),
        "{lint}"
    );
    let release = Release::prepare(&bed, "turbine", &namespace.name);
    let scopes = [watched(&namespace), "watch.namespaces=null".to_owned()];
    for variant in VARIANTS {
        for scope in &scopes {
            let mut sets = variant.to_vec();
            sets.push(scope);
            let rendered = release.render(&sets, &[])?;
            // strict: a field that the server does not know is an error, not a field that is dropped
            let arguments = [
                "-n",
                &namespace.name,
                "apply",
                "--server-side",
                "--dry-run=server",
                "--validate=strict",
            ];
            let outcome = with_input(
                kubectl()
                    .args(arguments)
                    .args(["--force-conflicts", "-f", "-"]),
                &rendered,
            )?;
            assert!(outcome.success, "{sets:?}: {}\n{rendered}", outcome.stderr);
            assert!(
                !outcome.stderr.contains("Warning"),
                "{sets:?}: {}",
                outcome.stderr
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn values_that_do_not_exist_or_do_not_fit_are_refused_by_name() -> Result<()> {
    let Some(bed) = Bed::for_test("helm::values", Needs::Api)? else {
        return Ok(());
    };
    let release = Release::prepare(&bed, "turbine", "default");
    for (set, word) in [
        ("replica=2", "replica"),
        ("watch.namespace=a", "namespace"),
        ("logLevel=loud", "logLevel"),
        ("replicas=many", "replicas"),
        ("watch.namespaces={Not_A_Name}", "watch"),
        ("networkPolicy.kafkaPorts[0]=70000", "kafkaPorts"),
    ] {
        let error = format!(
            "{:#}",
            release
                .render(&[set], &[])
                .err()
                .with_context(|| format!("{set} was taken"))?
        );
        assert!(error.contains(word), "{set}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn the_rules_name_no_wildcard_and_no_secret_can_be_listed() -> Result<()> {
    let Some(bed) = Bed::for_test("helm::rules", Needs::Api)? else {
        return Ok(());
    };
    let release = Release::prepare(&bed, "turbine", "default");
    for scope in ["watch.namespaces={default}", "watch.namespaces=null"] {
        let rendered = release.render(&[scope], &["templates/rbac.yaml"])?;
        let mut rules = 0;
        for document in serde_yaml::Deserializer::from_str(&rendered) {
            let object: serde_json::Value = serde::Deserialize::deserialize(document)?;
            for rule in object["rules"].as_array().into_iter().flatten() {
                rules += 1;
                assert!(!rule.to_string().contains('*'), "{rule}");
                let secrets = rule["resources"]
                    .as_array()
                    .is_some_and(|all| all.contains(&"secrets".into()));
                let verbs = rule["verbs"].as_array().context("verbs")?;
                let reads_all = verbs.contains(&"list".into()) || verbs.contains(&"watch".into());
                assert!(!(secrets && reads_all), "{rule}");
            }
        }
        assert!(rules > 10, "{rendered}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn uninstalling_leaves_the_app_and_its_workers_alone_and_upgrading_values_restarts_no_worker()
-> Result<()> {
    let Some(scenario) = Scenario::begin("helm::uninstall").await? else {
        return Ok(());
    };
    let namespace = &scenario.namespace;
    let scope = watched(namespace);
    let release = Release::install(&scenario.bed, "turbine", &namespace.name, &[&scope])?;
    let input = scenario.topics.create("events", 2).await?;
    let manifest = scenario.app(&input, &scenario.topics.name("scores")?);
    let app = manifest.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    namespace.apply(&manifest.text())?;
    namespace.wait_until_ready(&app, START).await?;
    let identities = |pods: Vec<k8s_openapi::api::core::v1::Pod>| -> Vec<_> {
        pods.into_iter().map(|pod| pod.metadata.uid).collect()
    };
    let before = identities(namespace.worker_pods(&app).await?);

    release.upgrade(&[&scope, "logLevel=debug", "replicas=2"])?;
    let operators = namespace.kubectl(&[
        "get",
        "deployment",
        "turbine",
        "-o",
        "jsonpath={.status.readyReplicas}",
    ])?;
    assert_eq!(operators, "2");
    namespace.kubectl(&["annotate", "tapp", &app, "touched=yes"])?;
    namespace.wait_until_ready(&app, START).await?;
    assert_eq!(
        identities(namespace.worker_pods(&app).await?),
        before,
        "an upgrade of the operator restarts no worker"
    );

    release.uninstall()?;
    let crd =
        process::run(kubectl().args(["get", "crd", "turbineapps.turbine.dev", "-o", "name"]))?;
    assert!(crd.contains("turbineapps.turbine.dev"));
    let kept = namespace.worker_pods(&app).await?;
    assert!(
        kept.iter().all(turbine_tests::cluster::pod_ready),
        "workers run on"
    );
    assert_eq!(identities(kept), before);
    // a new release takes over where the old one left off
    let _again = Release::install(&scenario.bed, "turbine", &namespace.name, &[&scope])?;
    namespace.kubectl(&[
        "patch",
        "tapp",
        &app,
        "--type=merge",
        "-p",
        r#"{"spec":{"suspend":true}}"#,
    ])?;
    namespace
        .wait_for_condition(&app, "Ready", "False", Some("Suspended"), START)
        .await?;
    namespace.wait_for_no_pods(&app, START).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_releases_in_two_namespaces_run_their_own_apps_and_a_third_that_overlaps_is_refused()
-> Result<()> {
    let Some(left) = Scenario::begin("helm::two_releases").await? else {
        return Ok(());
    };
    let Some(right) = Scenario::begin("helm::two_releases").await? else {
        return Ok(());
    };
    let bed = &left.bed;
    // the same release name in both: cluster-scoped names must keep them apart
    let _first = Release::install(
        bed,
        "turbine",
        &left.namespace.name,
        &[&watched(&left.namespace)],
    )?;
    let second = Release::install(
        bed,
        "turbine",
        &right.namespace.name,
        &[&watched(&right.namespace)],
    )?;
    for scenario in [&left, &right] {
        let input = scenario.topics.create("events", 2).await?;
        let manifest = scenario.app(&input, &scenario.topics.name("scores")?);
        scenario.namespace.apply(&manifest.text())?;
        scenario
            .namespace
            .wait_until_ready(
                manifest.0["metadata"]["name"].as_str().context("a name")?,
                START,
            )
            .await?;
    }

    let mut overlapping = Release::prepare(bed, "overlap", &right.namespace.name);
    let outcome = overlapping.try_install(&[&watched(&left.namespace)])?;
    assert!(
        !outcome.success && outcome.stderr.contains(&left.namespace.name),
        "{}",
        outcome.stderr
    );
    let mut everywhere = Release::prepare(bed, "everywhere", &right.namespace.name);
    let outcome = everywhere.try_install(&[])?;
    assert!(
        !outcome.success && outcome.stderr.contains("watch.namespaces"),
        "{}",
        outcome.stderr
    );

    // the first goes on when the second is gone
    second.uninstall()?;
    let input = left.topics.create("more", 2).await?;
    let manifest = left.app(&input, &left.topics.name("more-scores")?);
    left.namespace.apply(&manifest.text())?;
    left.namespace
        .wait_until_ready(
            manifest.0["metadata"]["name"].as_str().context("a name")?,
            START,
        )
        .await
        .map(drop)
}
