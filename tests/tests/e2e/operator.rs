//! The operator at a real cluster and a real broker: killed after every write, idle when all is done, careful with what
//! runs, and able to go on where something was stuck.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};
use turbine_crds::status::Phase;
use turbine_tests::api_proxy::ApiProxy;
use turbine_tests::cluster::{condition, is_ready, pod_ready};
use turbine_tests::events::EventPlan;
use turbine_tests::manifest::AppManifest;
use turbine_tests::scenario::Scenario;
use turbine_tests::wait;

const SOON: Duration = Duration::from_mins(1);
const START: Duration = Duration::from_mins(3);

struct Case {
    scenario: Scenario,
    input: String,
    output: String,
    manifest: AppManifest,
    app: String,
}

async fn prepare(test: &str, partitions: i32) -> Result<Option<Case>> {
    let Some(scenario) = Scenario::begin(test).await? else {
        return Ok(None);
    };
    let input = scenario.topics.create("events", partitions).await?;
    let output = scenario.topics.name("scores")?;
    let manifest = scenario.app(&input, &output);
    let app = manifest.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    Ok(Some(Case {
        scenario,
        input,
        output,
        manifest,
        app,
    }))
}

impl Case {
    fn apply(&self, change: impl FnOnce(AppManifest) -> AppManifest) -> Result<()> {
        self.scenario
            .namespace
            .apply(&change(self.manifest.clone()).text())
            .map(drop)
    }

    async fn ready(&self) -> Result<turbine_crds::app::TurbineApp> {
        self.scenario
            .namespace
            .wait_until_ready(&self.app, START)
            .await
    }

    async fn pods(&self) -> Result<Vec<Pod>> {
        self.scenario.namespace.worker_pods(&self.app).await
    }

    async fn pod_uids(&self) -> Result<Vec<Option<String>>> {
        Ok(self
            .pods()
            .await?
            .into_iter()
            .map(|pod| pod.metadata.uid)
            .collect())
    }

    async fn claims(&self) -> Result<BTreeMap<String, PersistentVolumeClaim>> {
        let claims = self
            .scenario
            .namespace
            .api::<PersistentVolumeClaim>()
            .list(&ListParams::default())
            .await?;
        Ok(claims
            .into_iter()
            .map(|claim| (claim.name_any(), claim))
            .collect())
    }

    /// Records, and the windows closed.
    fn feed(&self, seed: u64, start_ms: i64) -> Result<()> {
        let plan = EventPlan {
            records: 5_000,
            keys: 100,
            seed,
            start_ms,
            ..EventPlan::default()
        };
        self.scenario
            .kafka()
            .produce_events(&self.input, &plan, Some(plan.end_ms() + 120_000), None)
            .map(drop)
    }

    fn check_results(&self) -> Result<()> {
        let query = self.scenario.query(&self.input, &self.output);
        query.compare(&self.scenario.bed.kafka_libs, START)?.check()
    }

    /// Everything that the operator made for an app, without what must differ between two lives.
    fn children(&self, app: &str) -> Result<Value> {
        let kinds = "statefulsets,services,configmaps,serviceaccounts,poddisruptionbudgets,controllerrevisions,pvc,secrets";
        let label = format!("turbine.dev/app={app}");
        let text = self.scenario.namespace.kubectl(&[
            "get",
            kinds,
            "-l",
            &label,
            "-o",
            "json",
            "--sort-by=.metadata.name",
        ])?;
        let tapp: Value = serde_json::from_str(
            &self
                .scenario
                .namespace
                .kubectl(&["get", "tapp", app, "-o", "json"])?,
        )?;
        let lineage = tapp["status"]["layout"]["lineage"]
            .as_str()
            .context("a lineage")?
            .to_owned();
        let uid = tapp["metadata"]["uid"]
            .as_str()
            .context("a uid")?
            .to_owned();
        let text = text
            .replace(&lineage, "LINEAGE")
            .replace(&uid, "UID")
            .replace(app, "APP");
        let mut objects: Value = serde_json::from_str(&text)?;
        let mut kept = Vec::new();
        for object in objects["items"].as_array_mut().context("items")? {
            // StatefulSet controller's own record of revisions, named by a hash of the names in it
            if object["kind"] == "ControllerRevision"
                && object["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
            {
                continue;
            }
            if object["kind"] == "Secret" {
                let keys: Vec<String> = object["data"]
                    .as_object()
                    .context("data")?
                    .keys()
                    .cloned()
                    .collect();
                object["data"] = json!(keys);
            }
            strip(object);
            kept.push(object.clone());
        }
        ensure!(kept.len() > 6, "too little to compare: {kept:#?}");
        Ok(Value::Array(kept))
    }
}

/// Removes what the server draws for each object, hashes over names, and states of the moment.
fn strip(object: &mut Value) {
    const DRAWN: [&str; 14] = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
        "status",
        "clusterIP",
        "clusterIPs",
        "volumeName",
        "turbine.dev/applied",
        "turbine.dev/config-hash",
        "volume.kubernetes.io/selected-node",
        "revision",
        "pv.kubernetes.io/bind-completed",
    ];
    match object {
        Value::Object(fields) => {
            fields.retain(|name, _| !DRAWN.contains(&name.as_str()));
            if let Some(Value::String(name)) = fields.get_mut("name") {
                // names of revisions end in a hash of the spec, which names the topics
                *name = name.split('.').next().unwrap_or_default().to_owned();
            }
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_every_single_write_of_a_start_it_reaches_the_same_end() -> Result<()> {
    let Some(case) = prepare("operator::killed_after_every_write", 4).await? else {
        return Ok(());
    };
    let plan = case.scenario.operator()?;

    // what an undisturbed start leads to
    let calm_app = case.scenario.app(&case.input, &case.output);
    let calm = calm_app.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    let operator = plan.start().await?;
    case.scenario.namespace.apply(&calm_app.text())?;
    case.scenario
        .namespace
        .wait_until_ready(&calm, START)
        .await?;
    operator.stop().await?;

    let proxy = ApiProxy::start(plan.client().await?).await?;
    let disturbed = plan.through(proxy.kubeconfig(case.scenario.folder.path())?);
    case.apply(|app| app)?;
    let mut deaths = Vec::new();
    loop {
        proxy.reset();
        // the first write is carried out, and whoever made it is gone before it learns of that
        proxy.fall_silent_at_write(1);
        let operator = disturbed.spawn()?;
        tokio::select! {
            silence = proxy.silence() => silence?,
            ready = case.ready() => {
                let app = ready?;
                ensure!(is_ready(&app));
                break;
            }
        }
        operator.kill()?;
        deaths.extend(
            proxy
                .writes()
                .into_iter()
                .map(|write| format!("{} {}", write.method, write.path)),
        );
        ensure!(deaths.len() < 120, "no end is in sight: {deaths:#?}");
    }
    ensure!(
        deaths.len() >= 10,
        "a start has more writes than that: {deaths:#?}"
    );
    for kind in [
        "configmaps",
        "services",
        "serviceaccounts",
        "poddisruptionbudgets",
        "statefulsets",
        "secrets",
        "status",
    ] {
        ensure!(
            deaths.iter().any(|death| death.contains(kind)),
            "no death after a write of {kind}: {deaths:#?}"
        );
    }
    assert_eq!(case.children(&case.app)?, case.children(&calm)?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_runs_is_not_written_to_not_even_by_a_new_operator() -> Result<()> {
    let Some(case) = prepare("operator::no_write", 4).await? else {
        return Ok(());
    };
    let plan = case.scenario.operator()?;
    let proxy = ApiProxy::start(plan.client().await?).await?;
    let plan = plan.through(proxy.kubeconfig(case.scenario.folder.path())?);
    let operator = plan.start().await?;
    case.apply(|app| app)?;
    case.ready().await?;
    ensure!(!proxy.writes().is_empty(), "the start went past the proxy");
    operator.stop().await?;

    proxy.reset();
    let operator = plan.start().await?;
    // a pass for certain: an annotation that means nothing wakes the controller
    case.scenario
        .namespace
        .kubectl(&["annotate", "tapp", &case.app, "touched=yes"])?;
    wait::holds(
        "that nothing is written",
        Duration::from_secs(15),
        || async { Ok(proxy.writes().is_empty()) },
    )
    .await
    .with_context(|| format!("{:#?}", proxy.writes()))?;
    let passes = operator.metrics().await?;
    ensure!(
        passes
            .lines()
            .any(|line| !line.starts_with('#') && line.contains("pass") && !line.ends_with(" 0")),
        "{passes}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_that_does_not_fit_leaves_the_running_app_alone() -> Result<()> {
    let Some(case) = prepare("operator::bad_spec", 4).await? else {
        return Ok(());
    };
    let _operator = case.scenario.operator()?.start().await?;
    case.apply(|app| app)?;
    case.ready().await?;
    let before = case.pod_uids().await?;

    // the server takes it: no rule of the schema can know how a pod's parts hang together
    case.apply(|app| {
        app.with(
            "spec.podOverrides",
            json!({"spec": {"containers": [{"name": "worker", "volumeMounts": "none"}]}}),
        )
    })?;
    let refused = case
        .scenario
        .namespace
        .wait_for_condition(&case.app, "SpecValid", "False", None, SOON)
        .await?;
    let message = &condition(&refused, "SpecValid")
        .context("SpecValid")?
        .message;
    assert!(message.contains("podOverrides"), "{message}");
    assert!(!is_ready(&refused), "Ready speaks of the newest generation");

    // more workers would move state: refused, and the layout runs on
    case.apply(|app| app.with("spec.replicas", json!(3)))?;
    let blocked = case
        .scenario
        .namespace
        .wait_for_condition(&case.app, "RescaleBlocked", "True", None, SOON)
        .await?;
    let layout = blocked
        .status
        .and_then(|status| status.layout)
        .context("a layout")?;
    assert_eq!(layout.replicas, 1);
    case.scenario
        .namespace
        .kubectl(&["scale", &format!("tapp/{}", case.app), "--replicas=2"])?;
    case.scenario
        .namespace
        .wait_for_app(&case.app, "RescaleBlocked to speak of 2", SOON, |app| {
            condition(app, "RescaleBlocked")
                .is_some_and(|found| found.status == "True" && found.message.contains('2'))
        })
        .await?;
    assert_eq!(case.pod_uids().await?, before, "no pod was touched");
    case.feed(1, turbine_tests::events::START_MS)?;
    case.check_results()?;

    // back to what runs
    case.apply(|app| app)?;
    case.ready().await?;
    assert_eq!(case.pod_uids().await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_and_resumed_an_app_goes_on_where_it_stopped() -> Result<()> {
    let Some(case) = prepare("operator::suspend", 4).await? else {
        return Ok(());
    };
    let _operator = case.scenario.operator()?.start().await?;
    case.apply(|app| app)?;
    case.ready().await?;
    case.feed(1, turbine_tests::events::START_MS)?;
    case.check_results()?;

    case.apply(|app| app.with("spec.suspend", json!(true)))?;
    case.scenario
        .namespace
        .wait_for_condition(&case.app, "Ready", "False", Some("Suspended"), START)
        .await?;
    case.scenario
        .namespace
        .wait_for_no_pods(&case.app, START)
        .await?;
    assert_eq!(case.claims().await?.len(), 1, "the volume stays");
    case.feed(2, turbine_tests::events::START_MS + 900_000)?;

    case.apply(|app| app)?;
    case.ready().await?;
    let report = case
        .scenario
        .query(&case.input, &case.output)
        .compare(&case.scenario.bed.kafka_libs, START)?;
    report.check()?;
    assert_eq!(
        report.repeated, 0,
        "an orderly stop repeats nothing: {report:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_made_anew_adopts_its_kept_volumes_and_says_so() -> Result<()> {
    let Some(case) = prepare("operator::adopt", 4).await? else {
        return Ok(());
    };
    let _operator = case.scenario.operator()?.start().await?;
    case.apply(|app| app)?;
    let first = case.ready().await?;
    case.feed(1, turbine_tests::events::START_MS)?;
    case.check_results()?;

    case.scenario.namespace.delete_app(&case.app, START).await?;
    case.scenario
        .namespace
        .wait_for_no_pods(&case.app, START)
        .await?;
    let kept: Vec<_> = case
        .claims()
        .await?
        .into_values()
        .map(|claim| claim.metadata.uid)
        .collect();
    assert_eq!(kept.len(), 1, "volumes are kept");
    assert_eq!(
        case.scenario.kafka().partitions(&case.output)?,
        Some(4),
        "topics are kept"
    );

    case.feed(2, turbine_tests::events::START_MS + 900_000)?;
    case.apply(|app| app)?;
    let again = case.ready().await?;
    let lineage = |app: turbine_crds::app::TurbineApp| {
        app.status
            .and_then(|status| status.layout)
            .map(|layout| layout.lineage)
    };
    assert_eq!(lineage(again.clone()), lineage(first), "the same state");
    assert_eq!(
        case.claims()
            .await?
            .into_values()
            .map(|claim| claim.metadata.uid)
            .collect::<Vec<_>>(),
        kept
    );
    let events = case
        .scenario
        .namespace
        .kubectl(&["get", "events", "-o", "json"])?;
    let told = again
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .any(|of| of.message.contains("adopt"))
        || events.to_lowercase().contains("adopt");
    assert!(told, "nobody is told of the adoption: {events}");
    let report = case
        .scenario
        .query(&case.input, &case.output)
        .compare(&case.scenario.bed.kafka_libs, START)?;
    report.check()?;
    assert_eq!(
        report.repeated, 0,
        "it resumed, it did not begin anew: {report:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_and_topics_go_with_the_app_where_the_spec_says_so() -> Result<()> {
    let Some(case) = prepare("operator::delete", 2).await? else {
        return Ok(());
    };
    let _operator = case.scenario.operator()?.start().await?;
    case.apply(|app| {
        app.with("spec.state.volume.onDelete", json!("delete"))
            .with("spec.topics", json!({"onDelete": "delete"}))
    })?;
    case.ready().await?;
    case.scenario.namespace.delete_app(&case.app, START).await?;
    wait::until("volumes and output to go", START, || async {
        let output = case.scenario.kafka().partitions(&case.output)?;
        Ok((case.claims().await?.is_empty() && output.is_none()).then_some(()))
    })
    .await?;
    assert_eq!(
        case.scenario.kafka().partitions(&case.input)?,
        Some(2),
        "what Turbine did not make stays"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_stuck_on_a_missing_image_is_replaced_once_the_spec_is_right_again() -> Result<()> {
    let Some(case) = prepare("operator::stuck_image", 2).await? else {
        return Ok(());
    };
    let _operator = case.scenario.operator()?.start().await?;
    case.apply(|app| app)?;
    case.ready().await?;
    let claims: Vec<_> = case
        .claims()
        .await?
        .into_values()
        .map(|claim| claim.metadata.uid)
        .collect();

    case.apply(|app| {
        app.with(
            "spec.worker.image",
            json!("turbine.test/worker:no-such-tag"),
        )
    })?;
    wait::until("the image to be missed", START, || async {
        let stuck = case.pods().await?.iter().any(|pod| {
            let statuses = pod
                .status
                .as_ref()
                .and_then(|status| status.container_statuses.as_ref());
            statuses.into_iter().flatten().any(|status| {
                let waiting = status
                    .state
                    .as_ref()
                    .and_then(|state| state.waiting.as_ref());
                waiting
                    .and_then(|waiting| waiting.reason.as_deref())
                    .is_some_and(|reason| reason.contains("Image"))
            })
        });
        Ok(stuck.then_some(()))
    })
    .await?;
    case.scenario
        .namespace
        .wait_for_app(&case.app, "a condition that names the image", SOON, |app| {
            app.status
                .iter()
                .flat_map(|status| &status.conditions)
                .any(|of| of.message.contains("no-such-tag"))
        })
        .await?;

    case.apply(|app| app)?;
    case.ready().await?;
    assert_eq!(
        case.claims()
            .await?
            .into_values()
            .map(|claim| claim.metadata.uid)
            .collect::<Vec<_>>(),
        claims,
        "the volume stayed"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_grows_around_a_running_pod() -> Result<()> {
    let Some(case) = prepare("operator::grow", 2).await? else {
        return Ok(());
    };
    let _operator = case.scenario.operator()?.start().await?;
    case.apply(|app| app)?;
    case.ready().await?;
    let before = case.pod_uids().await?;
    case.apply(|app| app.with("spec.state.volume.size", json!("512Mi")))?;
    wait::until("the claim's capacity to be 512Mi", START, || async {
        let grown = case.claims().await?.into_values().all(|claim| {
            let capacity = claim
                .status
                .and_then(|status| status.capacity)
                .unwrap_or_default();
            capacity
                .get("storage")
                .is_some_and(|size| size.0 == "512Mi")
        });
        Ok(grown.then_some(()))
    })
    .await?;
    case.ready().await?;
    let set = case
        .scenario
        .namespace
        .api::<StatefulSet>()
        .get(&case.app)
        .await?;
    let template = serde_json::to_value(&set)?["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"].clone();
    assert_eq!(template, "512Mi", "a worker added later gets the new size");
    assert_eq!(case.pod_uids().await?, before, "no pod was restarted");
    case.feed(1, turbine_tests::events::START_MS)?;
    case.check_results()
}

#[tokio::test(flavor = "multi_thread")]
async fn new_resources_roll_pod_by_pod_and_nothing_is_repeated() -> Result<()> {
    let Some(case) = prepare("operator::roll", 4).await? else {
        return Ok(());
    };
    let _operator = case.scenario.operator()?.start().await?;
    case.apply(|app| app.with("spec.replicas", json!(2)))?;
    case.ready().await?;
    case.feed(1, turbine_tests::events::START_MS)?;
    let before = case.pod_uids().await?;
    case.apply(|app| {
        app.with("spec.replicas", json!(2))
            .with("spec.worker.resources.requests.cpu", json!("60m"))
    })?;
    // at no moment are both away
    let mut lowest = usize::MAX;
    wait::until("both pods to be new and ready", START, || {
        let looking = case.pods();
        let lowest = &mut lowest;
        let before = &before;
        let result = futures::executor::block_on(looking);
        let done = result.map(|pods| {
            let ready = pods.iter().filter(|pod| pod_ready(pod)).count();
            *lowest = ready.min(*lowest);
            (ready == 2 && pods.iter().all(|pod| !before.contains(&pod.metadata.uid))).then_some(())
        });
        async move { done }
    })
    .await?;
    assert!(lowest >= 1, "pod by pod");
    let app = case.ready().await?;
    assert_eq!(
        app.status.and_then(|status| status.phase),
        Some(Phase::Running)
    );
    let report = case
        .scenario
        .query(&case.input, &case.output)
        .compare(&case.scenario.bed.kafka_libs, START)?;
    report.check()?;
    assert_eq!(report.repeated, 0, "each worker drained first: {report:?}");
    Ok(())
}
