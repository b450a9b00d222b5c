//! One drain of the topic by one system, watched from outside, both in the same way.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use tempfile::TempDir;
use turbine_tests::bed::Bed;
use turbine_tests::cluster::unique;
use turbine_tests::java;
use turbine_tests::process::{Running, tail};
use turbine_tests::scenario::Topics;

use super::answer::{Answer, Verdict};
use super::{Guarantee, Options, System, calibrate, ours};
use crate::machine::{Usage, usage};

const LOOK: Duration = Duration::from_millis(100);
/// A leg counts if the calibration after it took as long as before, within this share.
const STEADY: f64 = 0.15;

/// The topic to drain.
pub(super) struct Input {
    pub(super) topic: String,
    pub(super) records: u64,
    pub(super) answer: Answer,
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) system: System,
    pub(super) guarantee: Guarantee,
    pub(super) commit_interval_ms: u64,
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            system,
            guarantee,
            commit_interval_ms,
        } = self;
        write!(
            f,
            "{system}, {guarantee}, a commit each {commit_interval_ms} ms"
        )
    }
}

/// What it took.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    records: f64,
    pub(super) seconds: f64,
    pub(super) used: Usage,
    /// Events per CPU-second between 30 % and 95 % of the records.
    pub(super) warm: Option<f64>,
    pub(super) broker_cpu_seconds: f64,
    calibration: (f64, f64),
    verdict: Verdict,
}

impl Figures {
    pub(super) fn per_cpu_second(&self) -> f64 {
        self.records / self.used.cpu_seconds
    }

    pub(super) fn per_second(&self) -> f64 {
        self.records / self.seconds
    }

    fn moved(&self) -> f64 {
        self.calibration.1 / self.calibration.0 - 1.0
    }

    /// Whether the machine was as fast after it as before.
    pub(super) fn is_steady(&self) -> bool {
        self.moved().abs() <= STEADY
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} events per CPU-second",
            self.per_cpu_second().round()
        )?;
        if let Some(warm) = self.warm {
            write!(f, " ({warm:.0} between 30 % and 95 % of the records)")?;
        }
        write!(
            f,
            ", {:.0} per second; {:.1} CPU-seconds in {:.1} s; broker {:.1} CPU-seconds; peak memory {:.0} MiB; {}; calibration {:.3} s, then {:.3} s ({:+.0} %){}",
            self.per_second(),
            self.used.cpu_seconds,
            self.seconds,
            self.broker_cpu_seconds,
            self.used.peak_mib,
            self.verdict,
            self.calibration.0,
            self.calibration.1,
            self.moved() * 100.0,
            if self.is_steady() {
                ""
            } else {
                ": NOT STEADY, dropped"
            },
        )
    }
}

/// Everything that legs have in common.
pub(super) struct Ground<'a> {
    pub(super) bed: &'a Bed,
    pub(super) topics: &'a Topics,
    pub(super) options: &'a Options,
    pub(super) input: &'a Input,
}

impl Ground<'_> {
    pub(super) async fn run(&self, leg: Leg) -> Result<Figures> {
        let name = unique("bench");
        let output = self.topics.name(&name)?;
        self.topics
            .kafka()
            .create_topic(&output, self.options.partitions, &[])
            .await?;
        let folder = TempDir::new()?;
        let (mut command, group) = match leg.system {
            System::Ours => self.ours(leg, &name, &output, folder.path())?,
            System::Peer => (self.peer(leg, &name, &output, folder.path())?, name.clone()),
        };
        let before = calibrate::seconds();
        let broker = broker()?;
        let broker_before = usage(broker)?.cpu_seconds;
        let began = Instant::now();
        let mut process = Running::start(
            &mut command,
            &leg.system.to_string(),
            &folder.path().join("log"),
        )?;
        let samples = self.watch(&mut process, &group, began).await?;
        let seconds = began.elapsed().as_secs_f64();
        let used = usage(process.pid())?;
        let broker_cpu_seconds = usage(broker)?.cpu_seconds - broker_before;
        process.terminate()?;
        let _status = process.ended(Duration::from_mins(2)).await?;
        let after = calibrate::seconds();
        let verdict = self.input.answer.compare(self.topics.kafka(), &output)?;
        self.clean(&name, &output)?;
        verdict
            .check(leg.guarantee == Guarantee::ExactlyOnce)
            .with_context(|| format!("{leg}\n{}", tail(&process.output(), 20)))?;
        #[expect(clippy::cast_precision_loss, reason = "millions of records")]
        let records = self.input.records as f64;
        Ok(Figures {
            records,
            seconds,
            used,
            warm: warm(&samples, records),
            broker_cpu_seconds,
            calibration: (before, after),
            verdict,
        })
    }

    fn ours(&self, leg: Leg, name: &str, output: &str, folder: &Path) -> Result<(Command, String)> {
        let app = ours::app(
            name,
            &self.bed.bootstrap,
            &self.input.topic,
            output,
            leg,
            self.options,
        );
        let plan = ours::plan(self.bed, &app, folder, self.options)?;
        Ok((plan.command(), ours::group(name)))
    }

    /// The peer's program with its settings.
    pub(super) fn peer(
        &self,
        leg: Leg,
        name: &str,
        output: &str,
        folder: &Path,
    ) -> Result<Command> {
        let source = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/benchmarks/peers/kafka-streams/TumblingCountSum.java"
        ));
        let options = self.options;
        let heap = [
            format!("-Xms{}", options.heap),
            format!("-Xmx{}", options.heap),
        ];
        let machine: Vec<&str> = heap
            .iter()
            .map(String::as_str)
            .chain(options.jvm.split_whitespace())
            .collect();
        let mut command = java::virtual_machine(source, &machine, &self.bed.kafka_libs)?;
        command
            .args(["--bootstrap", &self.bed.bootstrap])
            .args(["--application", name])
            .args(["--input", &self.input.topic])
            .args(["--output", output])
            .args(["--guarantee", leg.guarantee.of_streams()])
            .args(["--commit-interval-ms", &leg.commit_interval_ms.to_string()])
            .args(["--grace-ms", &options.disorder_ms.to_string()])
            .args(["--threads", &options.threads.to_string()])
            .args(["--cache-bytes", &options.cache_bytes.to_string()])
            .args(["--emit", &options.emit])
            .arg("--state-dir")
            .arg(folder.join("state"));
        for property in &options.peer_property {
            command.args(["--property", property]);
        }
        Ok(command)
    }

    /// Until the group has committed the ends of the topic: records that are committed, and processor time so far.
    async fn watch(
        &self,
        process: &mut Running,
        group: &str,
        began: Instant,
    ) -> Result<Vec<(f64, f64)>> {
        let progress = Progress::new(&self.bed.bootstrap, group, &self.input.topic)?;
        let ends = self.topics.kafka().ends(&self.input.topic)?;
        let all: i64 = ends.values().sum();
        let mut samples = Vec::new();
        let mut committed = 0;
        loop {
            tokio::time::sleep(LOOK).await;
            if !process.is_alive()? {
                bail!("it ended:\n{}", tail(&process.output(), 40));
            }
            // a broker that is busy may not answer; the deadline ends that too
            if let Ok(now) = progress.committed(ends.len()) {
                committed = now;
                #[expect(clippy::cast_precision_loss, reason = "millions of records")]
                samples.push((committed as f64, usage(process.pid())?.cpu_seconds));
            }
            if committed == all {
                return Ok(samples);
            }
            if process.output().contains("the task halts") {
                bail!("a task halts:\n{}", tail(&process.output(), 4));
            }
            if began.elapsed() > Duration::from_secs(self.options.deadline_s) {
                bail!(
                    "only {committed} of {all} records were committed after {} s:\n{}",
                    self.options.deadline_s,
                    tail(&process.output(), 40)
                );
            }
        }
    }

    /// Deletes the output and what the peer keeps at the broker.
    fn clean(&self, name: &str, output: &str) -> Result<()> {
        let progress = Progress::new(&self.bed.bootstrap, name, output)?;
        let metadata = progress
            .consumer
            .fetch_metadata(None, Duration::from_secs(30))?;
        let own = format!("{name}-");
        let mut gone: Vec<&str> = metadata
            .topics()
            .iter()
            .map(rdkafka::metadata::MetadataTopic::name)
            .filter(|topic| topic.starts_with(&own))
            .collect();
        gone.push(output);
        self.topics.kafka().forget(&gone)
    }
}

/// Asks for a group's offsets over one connection.
struct Progress {
    consumer: BaseConsumer,
    topic: String,
}

impl Progress {
    fn new(bootstrap: &str, group: &str, topic: &str) -> Result<Self> {
        Ok(Self {
            consumer: ClientConfig::new()
                .set("bootstrap.servers", bootstrap)
                .set("group.id", group)
                .set("enable.auto.commit", "false")
                // else an open transaction keeps the answer back
                .set("isolation.level", "read_uncommitted")
                .create()?,
            topic: topic.to_owned(),
        })
    }

    fn committed(&self, partitions: usize) -> Result<i64> {
        let mut asked = rdkafka::TopicPartitionList::new();
        for partition in 0..i32::try_from(partitions)? {
            asked.add_partition(&self.topic, partition);
        }
        let answer = self
            .consumer
            .committed_offsets(asked, Duration::from_secs(30))?;
        Ok(answer
            .elements()
            .iter()
            .filter_map(|each| match each.offset() {
                rdkafka::Offset::Offset(offset) => Some(offset),
                rdkafka::Offset::Beginning
                | rdkafka::Offset::End
                | rdkafka::Offset::Stored
                | rdkafka::Offset::Invalid
                | rdkafka::Offset::OffsetTail(_) => None,
            })
            .sum())
    }
}

/// Events per CPU-second by linear regression. Commits lag behind by the same time at both ends, which the slope does not see.
fn warm(samples: &[(f64, f64)], records: f64) -> Option<f64> {
    let inner: Vec<(f64, f64)> = samples
        .iter()
        .copied()
        .filter(|(committed, _)| *committed >= 0.3 * records && *committed <= 0.95 * records)
        .collect();
    if inner.len() < 5 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousand samples")]
    let count = inner.len() as f64;
    let (events, cpu) = inner
        .iter()
        .fold((0.0, 0.0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
    let (events, cpu) = (events / count, cpu / count);
    let (both, square) = inner.iter().fold((0.0, 0.0), |sum, each| {
        let (e, c) = (each.0 - events, each.1 - cpu);
        (sum.0 + e * c, sum.1 + c * c)
    });
    (square > 0.0).then(|| both / square)
}

fn broker() -> Result<u32> {
    let state = std::env::var("TURBINE_BED_STATE").context("TURBINE_BED_STATE is not set")?;
    let file = Path::new(&state).join("kafka/broker1/pid");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    Ok(text.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_leaves_out_the_start_and_a_lag_of_commits() {
        // 10 CPU-seconds of start, then 1,000 events each, committed 2 CPU-seconds late
        let samples: Vec<(f64, f64)> = (12..=112)
            .map(|cpu| (f64::from(cpu - 12) * 1_000.0, f64::from(cpu)))
            .collect();
        let slope = warm(&samples, 100_000.0).unwrap();
        assert!((slope - 1_000.0).abs() < 1e-6, "{slope}");
    }
}
