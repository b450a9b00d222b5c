//! A worker process that is killed with SIGKILL at random times and started again on its state, until it has read all its
//! input. What it wrote must equal the independent computation: exactly once, each window and key once; at least once, no
//! window missing and the last result of each the right one. So must the open windows in the state that it leaves.
//!
//! A seed gives the records and the times of the kills. What the worker was doing at such a time is up to the machine, so
//! that a seed that failed may have to be run more than once.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::cluster::unique;
use turbine_tests::diagnostics::say;
use turbine_tests::events::{EventPlan, mix};
use turbine_tests::kafka::{Kafka, Record};
use turbine_tests::manifest::AppManifest;
use turbine_tests::process::tail;
use turbine_tests::scenario::Topics;
use turbine_tests::worker::WorkerPlan;
use turbine_tests::{stored, wait};

const WITHIN: Duration = Duration::from_mins(2);
const PARTITIONS: i32 = 4;
/// Without `TURBINE_CRASHES`.
const FEW: u64 = 6;
/// Kills of one topic; a long form takes as many topics as it needs, each with a seed of its own.
const KILLS_OF_A_RUN: u64 = 25;
/// Records for each life of the worker, and their event time: more than one window.
const RECORDS: u64 = 3_000;
const SPAN_MS: i64 = 90_000;
const PER_SECOND: u64 = 5_000;

/// Numbers from a seed, one after the other.
#[derive(Debug)]
pub(super) struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, thrown: 0 }
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.thrown += 1;
        mix(self.seed, self.thrown, 0) % bound
    }

    fn millis(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.below(below))
    }
}

/// When a life of the worker ends.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// After its start, whatever it has come to by then.
    AfterStart(Duration),
    /// After it has written to the output.
    AfterOutput(Duration),
}

/// The ends of at least `kills` lives: half of them while records flow, and some of them two in quick succession, so that
/// a worker dies in the middle of its recovery.
fn moments(dice: &mut Dice, kills: u64) -> Vec<Moment> {
    let mut moments = Vec::new();
    while moments.len() as u64 <= kills.saturating_sub(1) {
        match dice.below(4) {
            0 | 1 => moments.push(Moment::AfterOutput(dice.millis(300))),
            2 => moments.push(Moment::AfterStart(dice.millis(1_500))),
            _ => {
                moments.push(Moment::AfterOutput(dice.millis(100)));
                moments.push(Moment::AfterStart(dice.millis(300)));
            }
        }
    }
    moments
}

/// Records in the output, those that were aborted and the markers included.
fn written(kafka: &Kafka, output: &str) -> Result<i64> {
    match kafka.partitions(output)? {
        Some(_) => Ok(kafka.ends(output)?.values().sum()),
        None => Ok(0),
    }
}

/// Gives the number of kills.
async fn crash(bed: &Bed, guarantee: &str, seed: u64, kills: u64) -> Result<usize> {
    let topics = Topics::new(bed, "crash");
    let (kafka, input) = (
        topics.kafka().clone(),
        topics.create("events", PARTITIONS).await?,
    );
    let output = topics.name("scores")?;
    let name = unique("crash");
    let app = AppManifest::new(&name, &bed.bootstrap, &input, &output)
        .with("spec.subscriptions.0.processingGuarantee", json!(guarantee))
        .with("spec.subscriptions.0.commitInterval", json!("50ms"));
    let folder = TempDir::new()?;
    let plan = WorkerPlan::new(bed, &app, folder.path())?;

    let mut dice = Dice::new(seed);
    let moments = moments(&mut dice, kills);
    let parts = moments.len() as u64;
    let events = EventPlan {
        records: parts * RECORDS,
        keys: 300,
        seed,
        // The last windows are open for half of their time.
        span_ms: parts.cast_signed() * SPAN_MS / 60_000 * 60_000 + 30_000,
        ..EventPlan::default()
    };
    let lives = async {
        for (number, moment) in (0..).zip(&moments) {
            let before = written(&kafka, &output)?;
            let producing = {
                let (kafka, topic, part) =
                    (kafka.clone(), input.clone(), events.part(number, parts));
                tokio::task::spawn_blocking(move || {
                    kafka.produce(&topic, part.map(Record::from), Some(PER_SECOND))
                })
            };
            let worker = plan.start()?;
            let pause = match moment {
                Moment::AfterStart(pause) => pause,
                Moment::AfterOutput(pause) => {
                    wait::until(&format!("output in life {number}"), WITHIN, || async {
                        Ok((written(&kafka, &output)? > before).then_some(()))
                    })
                    .await?;
                    pause
                }
            };
            // The time is the test: whatever the kill hits.
            tokio::time::sleep(*pause).await;
            worker.kill()?;
            producing.await??;
        }
        let mut worker = plan.start()?;
        let group = format!("turbine.{name}.per-tenant");
        let ends = kafka.ends(&input)?;
        wait::until("the input to be read to its end", WITHIN, || async {
            Ok((kafka.committed(&group, &input)? == ends).then_some(()))
        })
        .await?;
        worker.terminate()?;
        let status = worker.ended(WITHIN).await?;
        ensure!(
            status.success(),
            "the worker was told to stop and ended with {status}"
        );
        Ok(events.records)
    };
    let checked = match lives.await {
        Ok(rows) => check(bed, guarantee, &input, &output, &plan, rows),
        Err(error) => Err(error),
    };
    match checked {
        Ok(()) => Ok(moments.len()),
        Err(error) => {
            let log = std::fs::read_to_string(plan.log()).unwrap_or_default();
            let kept = folder.keep();
            Err(error.context(format!(
                "{guarantee}, seed {seed}, {moments:?}; state and log are kept in {}; run it again by \
                 ./run test --crashes {kills} {seed}\n{}",
                kept.display(),
                tail(&log, 60)
            )))
        }
    }
}

/// Everything was read and committed, so nothing is waited for. Windows that are still open are in the state.
fn check(
    bed: &Bed,
    guarantee: &str,
    input: &str,
    output: &str,
    plan: &WorkerPlan,
    rows: u64,
) -> Result<()> {
    let mut query = AppManifest::query(&bed.bootstrap, input, output);
    query.show_open = true;
    let report = query.compare(&bed.kafka_libs, Duration::ZERO)?;
    report.check()?;
    ensure!(report.input_rows == rows, "{rows} were written: {report:?}");
    ensure!(
        report.closed > 1_000 && report.late_rows > 0 && report.open.len() > 10,
        "too little was tested: {report:?}"
    );
    if guarantee == "exactlyOnce" {
        ensure!(report.repeated == 0, "results came twice: {report:?}");
    }
    let held = stored::open_panes(bed, plan.state(), PARTITIONS)?;
    stored::same(&report.open, &held)
}

pub(super) fn number(variable: &str, otherwise: u64) -> Result<u64> {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{variable}={text} is no number")),
        Err(_) => Ok(otherwise),
    }
}

async fn crashes(test: &str, guarantee: &str) -> Result<()> {
    let Some(bed) = Bed::for_test(test, Needs::Broker)? else {
        return Ok(());
    };
    let all = usize::try_from(number("TURBINE_CRASHES", FEW)?)?;
    let now = std::time::UNIX_EPOCH.elapsed()?.as_secs();
    let mut seed = number("TURBINE_CRASH_SEED", now)?;
    let mut done = 0;
    while done < all {
        let kills = KILLS_OF_A_RUN.min((all - done) as u64);
        done += crash(&bed, guarantee, seed, kills).await?;
        say(&format!(
            "{guarantee}: {done} kills of {all}; right with seed {seed}"
        ));
        seed += 1;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_every_result_is_there_once_whenever_the_worker_is_killed() -> Result<()> {
    crashes("crashes::exactly_once", "exactlyOnce").await
}

#[tokio::test(flavor = "multi_thread")]
async fn at_least_once_every_last_result_is_right_whenever_the_worker_is_killed() -> Result<()> {
    crashes("crashes::at_least_once", "atLeastOnce").await
}
