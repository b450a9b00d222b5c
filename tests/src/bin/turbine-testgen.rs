//! Makes topics and events for demos, tests and benchmarks, shows results as they come, and checks them against the
//! independent computation.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use turbine_tests::events::{EventPlan, START_MS};
use turbine_tests::expected::Query;
use turbine_tests::kafka::Kafka;

#[derive(Parser)]
#[command(name = "turbine-testgen", version, about)]
struct Arguments {
    /// Brokers, `host:port`.
    #[arg(
        long,
        env = "TURBINE_KAFKA_BOOTSTRAP",
        global = true,
        default_value = "localhost:9092"
    )]
    bootstrap: String,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Makes a topic.
    CreateTopic {
        #[arg(long)]
        topic: String,
        #[arg(long, default_value_t = 12)]
        partitions: i32,
        /// Say nothing if it is there with this count.
        #[arg(long)]
        if_missing: bool,
        /// Topic setting, `name=value`; may be repeated.
        #[arg(long, value_parser = setting)]
        config: Vec<(String, String)>,
    },
    /// Deletes a topic.
    DeleteTopic {
        #[arg(long)]
        topic: String,
    },
    /// Writes events `{tenant_id, cpu, bytes, ts}`, keyed by tenant, out of order, the same for the same seed.
    Produce(Produce),
    /// Shows the records of a topic as they come.
    Follow {
        #[arg(long)]
        topic: String,
        /// End after this many.
        #[arg(long)]
        limit: Option<u64>,
    },
    /// Compares an output topic with the independent computation; fails if they differ.
    Verify(Verify),
}

#[derive(Args)]
struct Produce {
    #[arg(long)]
    topic: String,
    #[arg(long, default_value_t = 200_000)]
    records: u64,
    #[arg(long, default_value_t = 1_000)]
    keys: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Records per second. Default: as fast as the broker takes them.
    #[arg(long)]
    rate: Option<u64>,
    /// Event time of the first record, epoch milliseconds.
    #[arg(long, default_value_t = START_MS)]
    start_ms: i64,
    /// Event time from the first to the last record.
    #[arg(long, default_value_t = 600_000)]
    span_ms: i64,
    /// Each event lies up to this long before its place.
    #[arg(long, default_value_t = 20_000)]
    disorder_ms: i64,
    /// Letters added to each record; 60 make it about 150 bytes long.
    #[arg(long, default_value_t = 0)]
    padding: usize,
    /// At the end, on each partition one event an hour later, so that every window closes.
    #[arg(long)]
    final_watermark: bool,
}

#[derive(Args)]
struct Verify {
    #[arg(long)]
    input: String,
    #[arg(long)]
    output: String,
    #[arg(long, default_value_t = 60_000)]
    size_ms: u64,
    #[arg(long, default_value_t = 0)]
    lateness_ms: u64,
    #[arg(long, default_value_t = 0)]
    out_of_orderness_ms: u64,
    #[arg(long, default_value = "ts")]
    time: String,
    /// Key column; may be repeated.
    #[arg(long, default_value = "tenant_id")]
    key: Vec<String>,
    /// `NAME=FUNCTION[:COLUMN]`; may be repeated.
    #[arg(long, required = true)]
    agg: Vec<String>,
    /// Take right results of windows that only the clock has closed (idle policy `coast`).
    #[arg(long)]
    open_windows_allowed: bool,
    /// How long to wait for results.
    #[arg(long, default_value_t = 60)]
    wait_s: u64,
    /// Folder of Kafka's client jars.
    #[arg(long, env = "TURBINE_KAFKA_LIBS")]
    kafka_libs: PathBuf,
}

fn setting(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => bail!("`{text}` is not name=value"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let Arguments { bootstrap, verb } = Arguments::parse();
    let kafka = Kafka::new(&bootstrap);
    let mut out = std::io::stdout().lock();
    match verb {
        Verb::CreateTopic {
            topic,
            partitions,
            if_missing,
            config,
        } => {
            if if_missing && kafka.partitions(&topic)? == Some(partitions) {
                return Ok(());
            }
            let config: Vec<_> = config
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            kafka.create_topic(&topic, partitions, &config).await?;
            writeln!(out, "topic {topic} with {partitions} partitions")?;
        }
        Verb::DeleteTopic { topic } => kafka.delete_topic(&topic).await?,
        Verb::Produce(how) => {
            let plan = EventPlan {
                records: how.records,
                keys: how.keys,
                seed: how.seed,
                start_ms: how.start_ms,
                span_ms: how.span_ms,
                disorder_ms: how.disorder_ms,
                padding: how.padding,
                ..EventPlan::default()
            };
            let closing = how.final_watermark.then(|| plan.end_ms() + 3_600_000);
            let written = kafka.produce_events(&how.topic, &plan, closing, how.rate)?;
            writeln!(out, "{written} records in {}", how.topic)?;
        }
        Verb::Follow { topic, limit } => {
            let mut left = limit;
            kafka.follow(&topic, |record| {
                let value = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default());
                if writeln!(out, "{value}").is_err() {
                    // the reader of the pipe has seen enough
                    return Ok(false);
                }
                left = left.map(|left| left.saturating_sub(1));
                Ok(left != Some(0))
            })?;
        }
        Verb::Verify(how) => {
            let query = Query {
                bootstrap,
                input: how.input,
                output: how.output,
                size_ms: how.size_ms,
                lateness_ms: how.lateness_ms,
                out_of_orderness_ms: how.out_of_orderness_ms,
                time: how.time,
                keys: how.key,
                aggregates: how.agg,
                open_windows_allowed: how.open_windows_allowed,
                placed_only: false,
                show_open: false,
            };
            let report = query.compare(&how.kafka_libs, Duration::from_secs(how.wait_s))?;
            report.check()?;
            writeln!(
                out,
                "right: {} windows of {} records ({} late), {} results, {} of them repeated",
                report.closed, report.input_rows, report.late_rows, report.rows, report.repeated
            )?;
        }
    }
    Ok(())
}
