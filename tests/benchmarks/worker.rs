//! Drains a preloaded topic through a tumbling sum.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::json;
use tempfile::TempDir;
use turbine_tests::bed::Bed;
use turbine_tests::cluster::unique;
use turbine_tests::events::EventPlan;
use turbine_tests::manifest::AppManifest;
use turbine_tests::process::tail;
use turbine_tests::scenario::Topics;
use turbine_tests::worker::WorkerPlan;

use crate::machine::{describe, say, usage};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long, default_value_t = 5_000_000)]
    records: u64,
    /// Numbers of keys; one run each.
    #[arg(long, value_delimiter = ',', default_value = "1000,1000000")]
    keys: Vec<u64>,
    #[arg(long, default_value_t = 12)]
    partitions: i32,
    /// Processing guarantees; one drain of the same topic each.
    #[arg(long, value_delimiter = ',', default_value = "atLeastOnce,exactlyOnce")]
    guarantees: Vec<String>,
    /// Letters added to each record; 66 make it about 150 bytes long.
    #[arg(long, default_value_t = 66)]
    padding: usize,
    /// What the worker sizes itself for, as by a container's limit; nothing enforces it here.
    #[arg(long, default_value = "1Gi")]
    memory: String,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 1800)]
    deadline_s: u64,
}

pub(crate) async fn measure(options: &Options) -> Result<()> {
    let bed = Bed::from_env()?;
    describe(&bed.program("turbine-worker"))?;
    for keys in &options.keys {
        let topics = Topics::new(&bed, "bench");
        let input = load(&topics, options, *keys).await?;
        for guarantee in &options.guarantees {
            drain(&bed, &topics, &input, options, *keys, guarantee).await?;
        }
    }
    Ok(())
}

async fn load(topics: &Topics, options: &Options, keys: u64) -> Result<String> {
    let input = topics.create("events", options.partitions).await?;
    let plan = EventPlan {
        records: options.records,
        keys,
        padding: options.padding,
        // sums of millions of records in one window fit
        magnitude: 32,
        ..EventPlan::default()
    };
    let bytes: usize = (0..1_000).map(|at| plan.event(at).value.len()).sum();
    let loading = Instant::now();
    let written =
        topics
            .kafka()
            .produce_events(&input, &plan, Some(plan.end_ms() + 3_600_000), None)?;
    say(&format!(
        "{keys} keys: {written} records of {} bytes in {} partitions, loaded in {:.0} s",
        bytes / 1_000,
        options.partitions,
        loading.elapsed().as_secs_f64()
    ))?;
    Ok(input)
}

async fn drain(
    bed: &Bed,
    topics: &Topics,
    input: &str,
    options: &Options,
    keys: u64,
    guarantee: &str,
) -> Result<()> {
    let output = topics.name(&format!("sums-{guarantee}"))?;
    let app = AppManifest::new(&unique("bench"), &bed.bootstrap, input, &output)
        .with(
            "spec.subscriptions.0.windows.0.aggregates",
            json!([{"sum": "bytes", "as": "bytes_sum"}]),
        )
        .with("spec.subscriptions.0.processingGuarantee", json!(guarantee));
    let folder = TempDir::new()?;
    let worker_plan = WorkerPlan::new(bed, &app, folder.path())?
        .argument("--memory")
        .argument(&options.memory);
    let group = format!(
        "turbine.{}.per-tenant",
        app.0["metadata"]["name"].as_str().context("a name")?
    );
    let ends = topics.kafka().ends(input)?;
    let written: i64 = ends.values().sum();
    let began = Instant::now();
    let mut worker = worker_plan.start()?;
    loop {
        tokio::time::sleep(Duration::from_millis(250)).await;
        if !worker.is_alive()? {
            bail!("the worker ended:\n{}", tail(&worker.output(), 40));
        }
        if topics.kafka().committed(&group, input)? == ends {
            break;
        }
        let output = worker.output();
        if output.contains("the task halts") {
            bail!("a task halts:\n{}", tail(&output, 4));
        }
        if began.elapsed() > Duration::from_secs(options.deadline_s) {
            bail!(
                "not drained after {} s:\n{}",
                options.deadline_s,
                tail(&worker.output(), 40)
            );
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let used = usage(worker.pid())?;
    worker.terminate()?;
    let status = worker.ended(Duration::from_mins(1)).await?;
    let results: i64 = topics.kafka().ends(&output)?.values().sum();
    #[expect(clippy::cast_precision_loss, reason = "millions of records")]
    let count = written as f64;
    say(&format!(
        "{keys} keys, {guarantee}: {:.0} events per CPU-second, {:.0} per second; {:.1} CPU-seconds in {seconds:.1} s; peak memory {:.0} MiB (sized for {}); {results} results; ended with {status}",
        count / used.cpu_seconds,
        count / seconds,
        used.cpu_seconds,
        used.peak_mib,
        options.memory,
    ))
}
