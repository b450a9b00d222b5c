//! More keys than fit into a container's memory: a worker pod with a limit reads them all, keeps below it, and every sum is right.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::json;
use turbine_tests::cluster::restarts;
use turbine_tests::events::{START_MS, mix};
use turbine_tests::kafka::{Record, Stored};
use turbine_tests::scenario::Scenario;

use crate::machine::say;

/// All of it lies in one day.
const SPAN_MS: u64 = 3_600_000;
const START: Duration = Duration::from_mins(5);
const LOOK: Duration = Duration::from_secs(5);
const SEED: u64 = 7;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Keys, each of which has an open pane at the end.
    #[arg(long, default_value_t = 20_000_000)]
    keys: u32,
    /// Records: the first of each key, then more of keys by chance, most of which have left memory by then.
    #[arg(long, default_value_t = 30_000_000)]
    records: u64,
    #[arg(long, default_value_t = 12)]
    partitions: i32,
    /// The container's limit.
    #[arg(long, default_value = "1Gi")]
    limit: String,
    #[arg(long, default_value = "16Gi")]
    volume: String,
    #[arg(long, default_value = "exactlyOnce")]
    guarantee: String,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 7200)]
    deadline_s: u64,
}

/// What the records of one key add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Totals {
    count: u32,
    sum: u64,
    most: u32,
}

#[derive(Deserialize)]
struct Row<'a> {
    tenant_id: &'a str,
    n: u32,
    bytes_sum: u64,
    bytes_max: u32,
}

/// The keys in an order of no meaning, all of them; then keys by chance.
fn key(index: u64, keys: u32) -> u32 {
    // odd and not a multiple of 5: every key comes once for any number of keys that is a product of twos and fives
    const STEP: u64 = 0x9E37_79B1;
    let keys = u64::from(keys);
    let key = if index < keys {
        index * STEP % keys
    } else {
        mix(SEED, index, 0) % keys
    };
    u32::try_from(key).unwrap_or_default()
}

fn bytes(index: u64) -> u32 {
    u32::try_from(mix(SEED, index, 1) >> 34).unwrap_or_default()
}

fn record(index: u64, options: &Options) -> Record {
    let tenant = format!("tenant-{:08}", key(index, options.keys));
    let ts = START_MS + i64::try_from(SPAN_MS * index / options.records).unwrap_or_default();
    let cpu = mix(SEED, index, 2) % 1_000;
    let value = format!(
        r#"{{"tenant_id":"{tenant}","cpu":{cpu}.5,"bytes":{},"ts":{ts}}}"#,
        bytes(index)
    );
    Record {
        key: Some(tenant.into_bytes()),
        value: Some(value.into_bytes()),
        ..Record::default()
    }
}

fn expected(options: &Options) -> Result<Vec<Totals>> {
    let mut totals = vec![Totals::default(); usize::try_from(options.keys)?];
    for index in 0..options.records {
        let of = totals
            .get_mut(usize::try_from(key(index, options.keys))?)
            .context("a key")?;
        of.count += 1;
        of.sum += u64::from(bytes(index));
        of.most = of.most.max(bytes(index));
    }
    ensure!(
        totals.iter().all(|of| of.count > 0),
        "some keys have no record: choose a number of keys that is a product of twos and fives, and as many records"
    );
    Ok(totals)
}

/// Takes a result out of what is expected.
fn take(totals: &mut [Totals], record: &Stored) -> Result<()> {
    let value = record
        .value
        .as_deref()
        .context("a result without a value")?;
    let row: Row<'_> = serde_json::from_slice(value)?;
    let number: usize = row
        .tenant_id
        .strip_prefix("tenant-")
        .context("a key of another kind")?
        .parse()?;
    let wanted = totals
        .get_mut(number)
        .with_context(|| format!("no such key: {}", row.tenant_id))?;
    let found = Totals {
        count: row.n,
        sum: row.bytes_sum,
        most: row.bytes_max,
    };
    ensure!(
        *wanted == found,
        "{}: {found:?} instead of {wanted:?} (nothing where its result came before)",
        row.tenant_id
    );
    *wanted = Totals::default();
    Ok(())
}

pub(crate) async fn measure(options: &Options) -> Result<()> {
    let scenario = Scenario::begin("memory")
        .await?
        .context("this machine cannot run pods")?;
    let _operator = scenario.operator()?.spawn()?;
    let input = scenario.topics.create("events", options.partitions).await?;
    let output = scenario.topics.name("sums")?;
    let totals = expected(options)?;
    let records = (0..options.records).map(|index| record(index, options));
    let written = scenario.kafka().produce_packed(&input, records)?;
    let closing = scenario
        .kafka()
        .produce_closing(&input, START_MS + 2 * 86_400_000)?;
    say(&format!(
        "{} keys, {written} records in {} partitions; a pod with {}",
        options.keys, options.partitions, options.limit
    ))?;

    let subscription = |field: &str| format!("spec.subscriptions.0.{field}");
    let manifest = scenario
        .app(&input, &output)
        .with(
            &subscription("processingGuarantee"),
            json!(options.guarantee),
        )
        .with(&subscription("windows.0.tumbling.size"), json!("1d"))
        .with("spec.state.volume.size", json!(options.volume))
        .with("spec.worker.resources.limits.memory", json!(options.limit));
    let name = manifest.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    scenario.namespace.apply(&manifest.text())?;
    scenario.namespace.wait_until_ready(&name, START).await?;
    let (seconds, container) =
        drained(&scenario, &name, &input, written + closing, options).await?;

    let results = compare(&scenario, &output, &totals, options).await?;
    let mib = |bytes: u64| bytes >> 20;
    say(&format!(
        "{written} records of {} keys in {seconds:.0} s ({:.0} per second); memory of the container: {} MiB of {} at the most, page cache included; killed for memory {} times; {results} results, every count, sum and maximum right",
        options.keys,
        precise(written) / seconds,
        mib(container.peak),
        mib(container.limit),
        container.kills,
    ))
}

/// Reads all results; how many. A large window is committed in parts, which go on when the last record is committed.
async fn compare(
    scenario: &Scenario,
    output: &str,
    totals: &[Totals],
    options: &Options,
) -> Result<u64> {
    let began = Instant::now();
    loop {
        let mut left = totals.to_vec();
        let mut results = 0;
        let written: i64 = scenario.kafka().ends(output)?.values().sum();
        if written >= i64::from(options.keys) {
            scenario.kafka().visit_all(output, |record| {
                results += 1;
                take(&mut left, &record)
            })?;
            if left.iter().all(|of| of.count == 0) {
                return Ok(results);
            }
        }
        ensure!(
            began.elapsed() < Duration::from_secs(options.deadline_s),
            "{} keys have no result",
            left.iter().filter(|of| of.count > 0).count()
        );
        tokio::time::sleep(LOOK).await;
    }
}

#[expect(clippy::cast_precision_loss, reason = "millions of records")]
fn precise(count: u64) -> f64 {
    count as f64
}

/// As the kernel counts it.
#[derive(Debug, Clone, Copy)]
struct Container {
    limit: u64,
    peak: u64,
    kills: u64,
}

impl Container {
    fn read(scenario: &Scenario, pod: &str) -> Result<Self> {
        let told = scenario.bed.script(
            "container-memory.sh",
            &[pod, "-n", &scenario.namespace.name],
        )?;
        let numbers: Vec<u64> = told
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        match numbers[..] {
            [limit, peak, kills] => Ok(Self { limit, peak, kills }),
            _ => bail!("not three numbers: {told}"),
        }
    }
}

/// Waits until all of it is committed; the seconds that it took, and the container's memory then.
async fn drained(
    scenario: &Scenario,
    app: &str,
    input: &str,
    records: u64,
    options: &Options,
) -> Result<(f64, Container)> {
    let began = Instant::now();
    let mut said = 0;
    let group = format!("turbine.{app}.per-tenant");
    let ends = scenario.kafka().ends(input)?;
    loop {
        tokio::time::sleep(LOOK).await;
        let pods: Vec<Pod> = scenario.namespace.worker_pods(app).await?;
        let pod = pods.first().context("a worker pod")?;
        ensure!(
            restarts(pod) == 0,
            "the worker was started again: {:?}",
            pod.status
        );
        let committed = scenario.kafka().committed(&group, input)?;
        let name = pod.metadata.name.as_deref().context("a name")?;
        let container = Container::read(scenario, name)?;
        ensure!(container.kills == 0, "killed for memory: {container:?}");
        let done: i64 = committed.values().sum();
        let percent = done.max(0).unsigned_abs() * 100 / records.max(1);
        if percent >= said + 5 {
            said = percent;
            say(&format!(
                "{percent} % after {:.0} s, {} MiB at the most",
                began.elapsed().as_secs_f64(),
                container.peak >> 20
            ))?;
        }
        if committed == ends {
            return Ok((began.elapsed().as_secs_f64(), container));
        }
        if began.elapsed() > Duration::from_secs(options.deadline_s) {
            bail!("not drained after {} s: {committed:?}", options.deadline_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pass_has_every_key_once() {
        let mut keys: Vec<u32> = (0..2_000).map(|index| key(index, 2_000)).collect();
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..2_000));
    }
}
