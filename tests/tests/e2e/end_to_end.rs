//! Records flow through an app that the chart's operator runs, and what comes out equals the independent computation,
//! undisturbed and through failures.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use turbine_crds::app::TurbineApp;
use turbine_crds::status::Phase;
use turbine_tests::chart::Release;
use turbine_tests::cluster::{pod_ready, restarts};
use turbine_tests::events::EventPlan;
use turbine_tests::scenario::Scenario;
use turbine_tests::wait;

const PARTITIONS: i32 = 12;
const START: Duration = Duration::from_mins(3);
const RESULTS: Duration = Duration::from_mins(3);

struct Flow {
    scenario: Scenario,
    input: String,
    output: String,
    app: String,
    _release: Release,
    operator: String,
}

/// The chart in the test's namespace, the topic, and an app of three workers that is applied and not waited for.
async fn begin(test: &str) -> Result<Option<Flow>> {
    let Some(scenario) = Scenario::begin(test).await? else {
        return Ok(None);
    };
    let namespace = scenario.namespace.name.clone();
    let watched = format!("watch.namespaces={{{namespace}}}");
    let release = Release::install(&scenario.bed, "turbine", &namespace, &[&watched])?;
    let input = scenario.topics.create("events", PARTITIONS).await?;
    let output = scenario.topics.name("scores")?;
    let manifest = scenario
        .app(&input, &output)
        .with("spec.replicas", 3.into());
    let app = manifest.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    scenario.namespace.apply(&manifest.text())?;
    let selector = "app.kubernetes.io/name=turbine-operator";
    let operator = scenario.namespace.kubectl(&[
        "get",
        "pods",
        "-l",
        selector,
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ])?;
    Ok(Some(Flow {
        scenario,
        input,
        output,
        app,
        _release: release,
        operator,
    }))
}

fn plan() -> EventPlan {
    EventPlan {
        records: 200_000,
        keys: 1_000,
        ..EventPlan::default()
    }
}

fn closing(plan: &EventPlan) -> i64 {
    plan.end_ms() + 3_600_000
}

impl Flow {
    async fn pods(&self) -> Result<Vec<Pod>> {
        self.scenario.namespace.worker_pods(&self.app).await
    }

    /// Waits until the worker's container has come back more often than `before` and is ready.
    async fn wait_for_restart(&self, pod: &str, before: i32) -> Result<()> {
        let back = move |pod: Option<&Pod>| {
            pod.is_some_and(|pod| restarts(pod) > before && pod_ready(pod))
        };
        self.scenario
            .namespace
            .wait_for::<Pod>(pod, "to be back after SIGKILL", START, back)
            .await
            .map(drop)
    }

    async fn kill_worker(&self, at: usize) -> Result<()> {
        let pods = self.pods().await?;
        let pod = pods.get(at).context("a worker pod")?;
        let name = pod.metadata.name.as_deref().context("a name")?;
        self.scenario
            .bed
            .kill_container(&self.scenario.namespace.name, name)?;
        self.wait_for_restart(name, restarts(pod)).await
    }

    async fn delete_worker(&self, at: usize) -> Result<()> {
        let pods = self.pods().await?;
        let pod = pods.get(at).context("a worker pod")?;
        let (name, uid) = (
            pod.metadata.name.clone().context("a name")?,
            pod.metadata.uid.clone(),
        );
        self.scenario.namespace.kubectl(&["delete", "pod", &name])?;
        let anew = move |pod: Option<&Pod>| {
            pod.is_some_and(|pod| pod.metadata.uid != uid && pod_ready(pod))
        };
        self.scenario
            .namespace
            .wait_for::<Pod>(&name, "to be made anew", START, anew)
            .await
            .map(drop)
    }

    /// Waits until as many records as that have been committed to the output.
    async fn wait_for_output(&self, records: i64) -> Result<()> {
        wait::until(&format!("{records} results"), RESULTS, || async {
            let ends = self.scenario.kafka().ends(&self.output)?;
            Ok((ends.values().sum::<i64>() >= records).then_some(()))
        })
        .await
    }
}

fn phase(app: &TurbineApp) -> Option<Phase> {
    app.status.as_ref()?.phase
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_equals_the_independent_computation() -> Result<()> {
    let Some(flow) = begin("the_output_equals_the_independent_computation").await? else {
        return Ok(());
    };
    let plan = plan();
    let written =
        flow.scenario
            .kafka()
            .produce_events(&flow.input, &plan, Some(closing(&plan)), None)?;
    let app = flow
        .scenario
        .namespace
        .wait_until_ready(&flow.app, START)
        .await?;
    let status = app.status.context("a status")?;
    assert_eq!(status.ready_replicas, Some(3));
    assert_eq!(
        status.layout.context("a layout")?.subscriptions[0].partitions,
        PARTITIONS
    );
    assert_eq!(
        flow.scenario.kafka().partitions(&flow.output)?,
        Some(PARTITIONS),
        "an output has the input's count"
    );

    let report = flow
        .scenario
        .query(&flow.input, &flow.output)
        .compare(&flow.scenario.bed.kafka_libs, RESULTS)?;
    report.check()?;
    assert_eq!(report.input_rows, written);
    assert!(
        report.closed > 9_000,
        "10 minutes of 1,000 keys: {report:?}"
    );
    assert!(
        report.late_rows > 0,
        "some rows must be late, or lateness was not tested: {report:?}"
    );
    assert_eq!(
        report.repeated, 0,
        "nothing failed, so nothing is repeated: {report:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_through_kills_a_deleted_pod_and_a_restarted_broker() -> Result<()> {
    let Some(flow) = begin("nothing_is_lost_through_kills").await? else {
        return Ok(());
    };
    let namespace = &flow.scenario.namespace;

    // the operator dies in the middle of the start
    namespace
        .wait_for_app(&flow.app, "a first phase", START, |app| {
            phase(app).is_some()
        })
        .await?;
    flow.scenario
        .bed
        .kill_container(&namespace.name, &flow.operator)?;
    let app = namespace.wait_until_ready(&flow.app, START).await?;
    let lineage = app
        .status
        .and_then(|status| status.layout)
        .context("a layout")?
        .lineage;

    let plan = plan();
    let producing = {
        let (kafka, topic, plan) = (
            flow.scenario.kafka().clone(),
            flow.input.clone(),
            plan.clone(),
        );
        tokio::task::spawn_blocking(move || kafka.produce_events(&topic, &plan, None, Some(4_000)))
    };
    flow.wait_for_output(500).await?;
    for at in 0..3 {
        flow.kill_worker(at).await?;
    }
    flow.delete_worker(1).await?;
    flow.scenario.bed.restart_broker(1)?;
    let written = producing.await??;
    flow.scenario
        .kafka()
        .produce_closing(&flow.input, closing(&plan))?;
    assert_eq!(written, plan.records);

    let report = flow
        .scenario
        .query(&flow.input, &flow.output)
        .compare(&flow.scenario.bed.kafka_libs, RESULTS)?;
    report.check()?;
    assert!(report.closed > 9_000, "{report:?}");
    let app = namespace.wait_until_ready(&flow.app, START).await?;
    let layout = app
        .status
        .and_then(|status| status.layout)
        .context("a layout")?;
    assert_eq!(
        layout.lineage, lineage,
        "the state went on, it was not begun anew"
    );
    Ok(())
}
