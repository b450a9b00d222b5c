//! Many apps in phase Running on fake nodes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use tempfile::TempDir;
use turbine_crds::app::TurbineApp;
use turbine_tests::api_proxy::ApiProxy;
use turbine_tests::bed::Bed;
use turbine_tests::cluster::{TestNamespace, condition, is_ready};
use turbine_tests::manifest::AppManifest;
use turbine_tests::operator::OperatorPlan;
use turbine_tests::scenario::Topics;

use crate::machine::{describe, say, usage};
use crate::stub;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long, default_value_t = 1_000)]
    apps: usize,
    /// How long the idle apps are watched.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Give up if not all apps run after this many seconds.
    #[arg(long, default_value_t = 1800)]
    deadline_s: u64,
}

/// Storage class of the fake nodes.
const CLASS: &str = "fake";

pub(crate) async fn measure(options: &Options) -> Result<()> {
    let bed = Bed::from_env()?;
    describe(&bed.program("turbine-operator"))?;
    bed.script("kwok.sh", &["up", "10", &options.apps.to_string()])?;
    let namespace = TestNamespace::create("bench").await?;
    let outcome = watch(&bed, options, &namespace).await;
    drop(namespace);
    bed.script("kwok.sh", &["down"])?;
    outcome
}

async fn watch(bed: &Bed, options: &Options, namespace: &TestNamespace) -> Result<()> {
    let topics = Topics::new(bed, "bench");
    let input = topics.create("events", 1).await?;
    let output = topics.create("scores", 1).await?;
    let stub = tokio::spawn(stub::serve());
    let folder = TempDir::new()?;
    let plan = OperatorPlan::new(bed, namespace, folder.path())?;
    let proxy = ApiProxy::start(plan.client().await?).await?;
    let operator = plan
        .through(proxy.kubeconfig(folder.path())?)
        .start()
        .await?;

    let began = Instant::now();
    for at in 0..options.apps {
        let app: TurbineApp =
            serde_json::from_value(manifest(bed, &namespace.name, at, &input, &output).0)?;
        namespace
            .apps()
            .create(&PostParams::default(), &app)
            .await?;
    }
    wait_until_all_run(options, namespace, began).await?;
    let started = proxy.traffic();
    say(&format!(
        "{} apps run after {:.0} s; the start took {} requests, {} writes; operator {:.0} MiB resident, {:.1} CPU-seconds",
        options.apps,
        began.elapsed().as_secs_f64(),
        started.requests,
        started.writes,
        usage(operator.pid())?.resident_mib,
        usage(operator.pid())?.cpu_seconds,
    ))?;
    // the last answers of the start are on their way
    tokio::time::sleep(Duration::from_secs(30)).await;

    proxy.reset();
    let before = usage(operator.pid())?;
    let end = Instant::now() + Duration::from_secs(options.minutes * 60);
    let mut highest: f64 = 0.0;
    while Instant::now() < end {
        highest = highest.max(usage(operator.pid())?.resident_mib);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let idle = proxy.traffic();
    let after = usage(operator.pid())?;
    if stub.is_finished() {
        bail!("the stub of the control API ended: {:?}", stub.await);
    }
    let mut paths: BTreeMap<String, usize> = BTreeMap::new();
    for write in proxy.writes() {
        *paths
            .entry(format!("{} {}", write.method, write.path))
            .or_default() += 1;
    }
    say(&format!(
        "{} minutes idle: {} writes about apps, {} of Lease and events, {} requests; {highest:.0} MiB resident at most, {:.0} MiB peak since the start; {:.1} CPU-seconds",
        options.minutes,
        idle.writes,
        idle.bookkeeping,
        idle.requests,
        after.peak_mib,
        after.cpu_seconds - before.cpu_seconds,
    ))?;
    for (path, count) in paths.iter().take(20) {
        say(&format!("  {count} x {path}"))?;
    }
    operator.stop().await
}

fn manifest(bed: &Bed, namespace: &str, at: usize, input: &str, output: &str) -> AppManifest {
    AppManifest::new(&format!("bench-{at:04}"), &bed.bootstrap, input, output)
        .with("metadata.namespace", json!(namespace))
        .with("spec.worker.image", json!("turbine.test/no-worker:1"))
        .with(
            "spec.worker.resources",
            json!({"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"memory": "128Mi"}}),
        )
        .with(
            "spec.state.volume",
            json!({"size": "1Mi", "storageClassName": CLASS}),
        )
        .with(
            "spec.podOverrides",
            json!({"spec": {
                "nodeSelector": {"type": "kwok"},
                "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            }}),
        )
}

async fn wait_until_all_run(
    options: &Options,
    namespace: &TestNamespace,
    began: Instant,
) -> Result<()> {
    let deadline = began + Duration::from_secs(options.deadline_s);
    let mut said = Instant::now();
    loop {
        let apps = namespace.apps().list(&ListParams::default()).await?;
        let ready = apps.iter().filter(|app| is_ready(app)).count();
        if ready == options.apps {
            return Ok(());
        }
        if said.elapsed() > Duration::from_secs(30) {
            said = Instant::now();
            say(&format!(
                "  {ready} of {} apps run after {:.0} s",
                options.apps,
                began.elapsed().as_secs_f64()
            ))?;
        }
        if Instant::now() > deadline {
            let waiting = apps
                .iter()
                .find(|app| !is_ready(app))
                .context("an app that is not ready")?;
            bail!(
                "{ready} of {} apps run; one that does not: {:?}",
                options.apps,
                condition(waiting, "Ready")
            );
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}
