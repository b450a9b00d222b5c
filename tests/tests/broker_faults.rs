//! Brokers that die, freeze, restart and cannot be reached, under both guarantees at once: two workers read one topic while it
//! is written, something happens to the brokers, and what committed readers see is right. `./run test --faults` starts the
//! three brokers that this needs; the tests in `long` run with `./run test --faults N` alone.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::brokers::{Brokers, may_be_cut_off};
use turbine_tests::cluster::unique;
use turbine_tests::events::EventPlan;
use turbine_tests::kafka::{Kafka, Record};
use turbine_tests::manifest::AppManifest;
use turbine_tests::process::{Running, run};
use turbine_tests::scenario::Topics;
use turbine_tests::wait;
use turbine_tests::worker::WorkerPlan;

#[path = "broker_faults/long.rs"]
mod long;

const WITHIN: Duration = Duration::from_mins(3);
const PARTITIONS: i32 = 6;
const PER_SECOND: u64 = 1_000;
const GUARANTEES: [&str; 2] = ["exactlyOnce", "atLeastOnce"];

/// Written until told to stop; a minute of event time in each second.
fn events() -> EventPlan {
    EventPlan {
        records: 10_000_000,
        keys: 200,
        span_ms: 600_000_000,
        ..EventPlan::default()
    }
}

struct Producing {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Producing {
    fn start(kafka: &Kafka, topic: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (kafka, topic, told) = (kafka.clone(), topic.to_owned(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let plan = events();
            let records = plan
                .events()
                .map(Record::from)
                .take_while(|_| !told.load(Ordering::Relaxed));
            kafka.produce(&topic, records, Some(PER_SECOND))
        });
        Self { stop, thread }
    }

    fn end(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the producer panicked")?
    }
}

/// One worker.
struct Side {
    guarantee: &'static str,
    app: String,
    output: String,
    worker: Running,
}

impl Side {
    fn group(&self) -> String {
        format!("turbine.{}.per-tenant", self.app)
    }

    fn id(&self, partition: i32) -> String {
        format!("turbine.{}.per-tenant.{partition}", self.app)
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.worker.pid().to_string();
        run(Command::new("kill").args([signal, &pid])).map(drop)
    }

    fn said(&self, word: &str) -> usize {
        let said = self.worker.output();
        said.lines().filter(|line| line.contains(word)).count()
    }
}

struct Case {
    // dropped in this order: workers before the brokers are brought back
    sides: Vec<Side>,
    brokers: Brokers,
    bed: Bed,
    topics: Topics,
    input: String,
    folder: TempDir,
}

async fn begin(test: &str) -> Result<Option<Case>> {
    begin_with(test, |_, _, plan| plan).await
}

/// With workers that are started otherwise, by their guarantee.
async fn begin_with(
    test: &str,
    otherwise: impl Fn(&Bed, &str, WorkerPlan) -> WorkerPlan,
) -> Result<Option<Case>> {
    let Some(bed) = Bed::for_test(test, Needs::Broker)? else {
        return Ok(None);
    };
    let brokers = Brokers::new(&bed)?;
    let topics = Topics::new(&bed, "faults");
    let input = topics.create("events", PARTITIONS).await?;
    let mut case = Case {
        sides: Vec::new(),
        brokers,
        bed,
        topics,
        input,
        folder: TempDir::new()?,
    };
    for guarantee in GUARANTEES {
        let bed = case.bed.clone();
        case.start(guarantee, |plan| otherwise(&bed, guarantee, plan))?;
    }
    Ok(Some(case))
}

impl Case {
    fn start(
        &mut self,
        guarantee: &'static str,
        otherwise: impl FnOnce(WorkerPlan) -> WorkerPlan,
    ) -> Result<()> {
        let app = unique(&guarantee.to_lowercase());
        let output = self.topics.name(guarantee)?;
        let manifest = AppManifest::new(&app, &self.bed.bootstrap, &self.input, &output)
            .with("spec.subscriptions.0.processingGuarantee", json!(guarantee));
        let folder = self.folder.path().join(guarantee);
        std::fs::create_dir(&folder)?;
        let plan = otherwise(WorkerPlan::new(&self.bed, &manifest, &folder)?);
        let mut command = plan.command();
        may_be_cut_off(&mut command);
        self.sides.push(Side {
            guarantee,
            app,
            output,
            worker: Running::start(&mut command, guarantee, plan.log())?,
        });
        Ok(())
    }

    fn kafka(&self) -> &Kafka {
        self.topics.kafka()
    }

    fn exactly_once(&self) -> &Side {
        &self.sides[0]
    }

    /// Each side's offsets as the group has them, summed.
    fn offsets(&self, side: &Side) -> Result<i64> {
        let committed = self.kafka().committed(&side.group(), &self.input)?;
        Ok(committed.values().sum())
    }

    /// Every task of both sides commits.
    async fn wait_for_all(&self) -> Result<()> {
        for side in &self.sides {
            wait::until(
                &format!("{}: every task commits", side.guarantee),
                WITHIN,
                || async {
                    let committed = self.kafka().committed(&side.group(), &self.input)?;
                    let all = committed.len() == usize::try_from(PARTITIONS)?
                        && committed.values().all(|offset| *offset > 0);
                    Ok(all.then_some(()))
                },
            )
            .await?;
        }
        Ok(())
    }

    /// Both sides commit more than they have now.
    async fn wait_for_progress(&self) -> Result<()> {
        for side in &self.sides {
            let before =
                wait::until("offsets", WITHIN, || async { self.offsets(side).map(Some) }).await?;
            let more = i64::try_from(PER_SECOND)?;
            wait::until(&format!("{}: progress", side.guarantee), WITHIN, || async {
                Ok((self.offsets(side)? > before + more).then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// What both sides have written is right, nothing was given up, and they end in order.
    async fn finish(mut self, producing: Producing) -> Result<()> {
        let written = producing.end()?;
        let closing = events().end_ms() + 3_600_000;
        self.kafka().produce_closing(&self.input, closing)?;
        for side in &mut self.sides {
            let report = AppManifest::query(&self.bed.bootstrap, &self.input, &side.output)
                .compare(&self.bed.kafka_libs, WITHIN)?;
            report.check().with_context(|| side.guarantee)?;
            ensure!(
                report.input_rows == written + u64::try_from(PARTITIONS)?,
                "{written} records were acknowledged: {report:?}"
            );
            ensure!(report.closed > 1_000, "{report:?}");
            if side.guarantee == "exactlyOnce" {
                ensure!(report.repeated == 0, "{report:?}");
            }
            ensure!(
                side.said("the task halts") == 0,
                "{}: a task halted",
                side.guarantee
            );
            turbine_tests::diagnostics::say(&format!(
                "{}: {} records, {} results, {} repeated, {} restarts of tasks",
                side.guarantee,
                report.input_rows,
                report.closed,
                report.repeated,
                side.said("the task starts again"),
            ));
            side.worker.terminate()?;
            ensure!(side.worker.ended(WITHIN).await?.success());
        }
        Ok(())
    }
}

/// Each broker leads a third of all partitions, and holds a third of the coordinators.
async fn kill_leaders(times: u32) -> Result<()> {
    let Some(case) = begin("broker_faults::kills").await? else {
        return Ok(());
    };
    let producing = Producing::start(case.kafka(), &case.input);
    case.wait_for_all().await?;
    for broker in (1..=Brokers::COUNT).cycle().take(usize::try_from(times)?) {
        case.brokers.act("kill", broker)?;
        case.wait_for_progress().await?;
        case.brokers.act("start", broker)?;
        case.wait_for_progress().await?;
    }
    case.finish(producing).await
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_and_coordinators_that_are_killed_cost_no_record_and_no_result() -> Result<()> {
    kill_leaders(2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_freezes_during_commits_costs_no_record_and_no_result() -> Result<()> {
    let Some(case) = begin("broker_faults::freezes").await? else {
        return Ok(());
    };
    let producing = Producing::start(case.kafka(), &case.input);
    case.wait_for_all().await?;
    let side = case.exactly_once();
    let of_group = case.brokers.coordinator_of_group(&side.group())?;
    let of_id = case.brokers.coordinator_of_id(&side.id(0))?;
    case.brokers.act("pause", of_group)?;
    // The length of the fault is the test.
    tokio::time::sleep(Duration::from_secs(20)).await;
    case.brokers.act("resume", of_group)?;
    case.wait_for_progress().await?;
    if of_id != of_group {
        case.brokers.act("pause", of_id)?;
        case.wait_for_progress().await?;
        case.brokers.act("resume", of_id)?;
    }
    case.finish(producing).await
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_restarted_one_after_the_other_and_all_at_once_cost_no_record_and_no_result()
-> Result<()> {
    let Some(case) = begin("broker_faults::restarts").await? else {
        return Ok(());
    };
    let producing = Producing::start(case.kafka(), &case.input);
    case.wait_for_all().await?;
    for broker in 1..=Brokers::COUNT {
        case.brokers.act("restart", broker)?;
    }
    case.wait_for_progress().await?;
    case.brokers.restart_all()?;
    case.wait_for_progress().await?;
    case.finish(producing).await
}
