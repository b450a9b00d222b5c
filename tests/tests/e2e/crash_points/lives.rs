//! A worker of one app that dies, lives again, and is compared in the end.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use turbine_tests::bed::Bed;
use turbine_tests::cluster::unique;
use turbine_tests::events::{Event, EventPlan};
use turbine_tests::kafka::Record;
use turbine_tests::manifest::AppManifest;
use turbine_tests::process::Running;
use turbine_tests::scenario::Topics;
use turbine_tests::worker::WorkerPlan;
use turbine_tests::{stored, wait};

use super::cases::{Case, Checkpoints, Fault, Guarantee};

const WITHIN: Duration = Duration::from_mins(1);
const PARTITIONS: i32 = 3;
const PER_SECOND: u64 = 1_500;
/// Between two events: five windows a second go by.
const STEP_MS: u64 = 200;
/// More than a life writes before it dies.
const MOST_EVENTS: u64 = PER_SECOND * 120;
/// Written after the last death, so that a worker that goes on has something to do.
const AFTERWARDS: u64 = 1_500;

/// A worker of one app that lives several times.
pub(super) struct Lives {
    bed: Bed,
    topics: Topics,
    input: String,
    output: String,
    group: String,
    pub(super) folder: TempDir,
    pub(super) plan: WorkerPlan,
    events: EventPlan,
    written: u64,
}

impl Lives {
    pub(super) async fn begin(bed: &Bed, case: &Case) -> Result<Self> {
        let topics = Topics::new(bed, "point");
        let input = topics.create("events", PARTITIONS).await?;
        let output = topics.name("scores")?;
        let name = unique("point");
        let folder = TempDir::new()?;
        let secrets = folder.path().join("secrets");
        std::fs::create_dir(&secrets)?;
        std::fs::write(secrets.join("AWS_ACCESS_KEY_ID"), "turbine")?;
        std::fs::write(secrets.join("AWS_SECRET_ACCESS_KEY"), "turbine-secret")?;
        let mut checkpoints = json!({"interval": "1s", "retain": 2});
        if case.checkpoints == Checkpoints::Bucket {
            let endpoint = std::env::var("TURBINE_S3_ENDPOINT")
                .context("no object store is up; start it first: tests/bed/s3.sh up")?;
            checkpoints["store"] = json!({
                "s3": {"bucket": "state", "endpoint": endpoint, "credentialsSecret": "bucket"}
            });
        }
        let app = AppManifest::new(&name, &bed.bootstrap, &input, &output)
            .with(
                "spec.subscriptions.0.processingGuarantee",
                json!(case.guarantee.to_string()),
            )
            .with("spec.subscriptions.0.commitInterval", json!("50ms"))
            .with("spec.state.checkpoints", checkpoints);
        Ok(Self {
            bed: bed.clone(),
            plan: WorkerPlan::new(bed, &app, folder.path())?
                .argument("--checkpoint-secrets")
                .argument(&secrets.to_string_lossy()),
            topics,
            input,
            output,
            group: format!("turbine.{name}.per-tenant"),
            folder,
            events: EventPlan {
                records: MOST_EVENTS,
                keys: 40,
                seed: case.seed,
                span_ms: (MOST_EVENTS * STEP_MS).cast_signed(),
                ..EventPlan::default()
            },
            written: 0,
        })
    }

    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(self.plan.log()).unwrap_or_default()
    }

    /// The events from here on, as long as `wanted` says so.
    fn next_events<W: Fn() -> bool>(&self, wanted: W) -> impl Iterator<Item = Event> + use<W> {
        let (plan, from) = (self.events.clone(), self.written);
        (from..MOST_EVENTS)
            .take_while(move |_| wanted())
            .map(move |index| plan.event(index))
    }

    /// A worker with a fault, and the file of its passes.
    fn faulty_plan(&self, fault: Fault) -> (WorkerPlan, PathBuf) {
        let passes = self.folder.path().join(format!("{}.passes", fault.point));
        let plan = self
            .plan
            .clone()
            .program(self.bed.program("turbine-worker-faults"))
            .environment("TURBINE_FAULT", &fault.to_string())
            .environment("TURBINE_FAULT_LOG", &passes.to_string_lossy());
        (plan, passes)
    }

    /// The next events, until told to stop.
    fn flow(&self) -> Flow {
        let flows = Arc::new(AtomicBool::new(true));
        let (kafka, topic) = (self.topics.kafka().clone(), self.input.clone());
        let told = Arc::clone(&flows);
        let events = self.next_events(move || told.load(Ordering::Relaxed));
        let producing = tokio::task::spawn_blocking(move || {
            kafka.produce(&topic, events.map(Record::from), Some(PER_SECOND))
        });
        Flow { flows, producing }
    }

    /// A life with a fault, while records come in, until `over` has an answer.
    async fn faulty<T>(
        &mut self,
        fault: Fault,
        over: impl AsyncFnOnce(&mut Running, &str) -> Result<T>,
    ) -> Result<T> {
        let (plan, passes) = self.faulty_plan(fault);
        let mut worker = plan.start()?;
        let flow = self.flow();
        let ended = over(&mut worker, &passes.to_string_lossy()).await;
        self.written += flow.end().await?;
        ended.with_context(|| times(fault, &passes))
    }

    /// A life that ends at a point, and nowhere else.
    pub(super) async fn die(&mut self, fault: Fault) -> Result<()> {
        self.faulty(fault, async |worker, passes| {
            let status = worker.ended(WITHIN).await?;
            ensure!(status.signal() == Some(9), "it ended otherwise: {status}");
            ensure!(passed(passes, fault), "it was killed elsewhere");
            Ok(())
        })
        .await
    }

    /// A life whose disk is full from some write on: it stops with what it lacks, and ends in order.
    pub(super) async fn fill_disk(&mut self, fault: Fault) -> Result<()> {
        let log = self.plan.log().to_owned();
        self.faulty(fault, async |worker, passes| {
            wait::until("the full disk to be told", WITHIN, || async {
                let said = std::fs::read_to_string(&log)?;
                let told = said.lines().any(|line| {
                    line.contains("StorageFull") && line.contains("no space left on the volume")
                });
                Ok((passed(passes, fault) && told).then_some(()))
            })
            .await?;
            ensure!(worker.is_alive()?, "one full disk ended the process");
            worker.terminate()?;
            let _whole_or_not = worker.ended(WITHIN).await?;
            Ok(())
        })
        .await
    }

    /// How often a task said that the disk is full, and began anew.
    fn full(&self) -> usize {
        let said = self.said();
        said.lines()
            .filter(|line| line.contains("StorageFull") && line.contains("the task starts again"))
            .count()
    }

    fn committed(&self) -> Result<BTreeMap<i32, i64>> {
        let kafka = self.topics.kafka();
        kafka.committed_beside_open(&self.group, &self.input)
    }

    /// A life whose disk is full from some write on until there is room. Nobody touches it: it goes on to an orderly end.
    pub(super) async fn outlive_full_disk(&mut self, fault: Fault) -> Result<()> {
        let (plan, passes) = self.faulty_plan(fault);
        let room = self.folder.path().join("room");
        let worker = plan
            .environment("TURBINE_FAULT_UNTIL", &room.to_string_lossy())
            .start()?;
        let flow = self.flow();
        let outlived = self.wait_out(&room).await;
        self.written += flow.end().await?;
        outlived.with_context(|| times(fault, &passes))?;
        self.finish_with(worker).await
    }

    async fn wait_out(&self, room: &Path) -> Result<()> {
        let tasks = usize::try_from(PARTITIONS)?;
        let tried = async |times: usize| {
            let what = format!("the full disk to be met {times} times");
            wait::until(&what, WITHIN, || async {
                Ok((self.full() >= times).then_some(()))
            })
            .await
        };
        // What was written before the disk was full is committed by then.
        tried(2 * tasks).await?;
        let before = self.committed()?;
        tried(self.full() + tasks).await?;
        ensure!(
            self.committed()? == before,
            "something was committed that was not written: {before:?}"
        );
        std::fs::write(room, "")?;
        wait::until("all tasks to commit again", WITHIN, || async {
            let now = self.committed()?;
            let all = before
                .iter()
                .all(|(partition, offset)| now.get(partition).is_some_and(|now| now > offset));
            Ok((before.len() == tasks && all).then_some(()))
        })
        .await
    }

    /// A life without a fault, until everything is read and committed, to an orderly end.
    pub(super) async fn finish(&mut self) -> Result<()> {
        let worker = self.plan.start()?;
        self.finish_with(worker).await
    }

    async fn finish_with(&mut self, mut worker: Running) -> Result<()> {
        let kafka = self.topics.kafka();
        let end = self.written + AFTERWARDS;
        let rest = self.next_events(|| true).take(usize::try_from(AFTERWARDS)?);
        kafka.produce(&self.input, rest.map(Record::from), None)?;
        let ends = kafka.ends(&self.input)?;
        wait::until("the input to be read to its end", WITHIN, || async {
            Ok((kafka.committed(&self.group, &self.input)? == ends).then_some(()))
        })
        .await?;
        worker.terminate()?;
        let status = worker.ended(WITHIN).await?;
        ensure!(
            status.success(),
            "the worker was told to stop and ended with {status}"
        );
        self.written = end;
        Ok(())
    }

    /// Everything was read and committed, so nothing is waited for.
    pub(super) fn check(&self, guarantee: Guarantee) -> Result<()> {
        let mut query = AppManifest::query(&self.bed.bootstrap, &self.input, &self.output);
        query.show_open = true;
        let report = query.compare(&self.bed.kafka_libs, Duration::ZERO)?;
        report.check()?;
        ensure!(
            report.input_rows == self.written,
            "{} were written: {report:?}",
            self.written
        );
        ensure!(
            report.closed > 100 && report.late_rows > 0 && report.open.len() > 5,
            "too little was tested: {report:?}"
        );
        if guarantee == Guarantee::ExactlyOnce {
            ensure!(report.repeated == 0, "results came twice: {report:?}");
        }
        let held = stored::open_panes(&self.bed, self.plan.state(), PARTITIONS)?;
        stored::same(&report.open, &held)
    }
}

/// Records on their way into the input.
struct Flow {
    flows: Arc<AtomicBool>,
    producing: JoinHandle<Result<u64>>,
}

impl Flow {
    /// Stops them; how many were written.
    async fn end(self) -> Result<u64> {
        self.flows.store(false, Ordering::Relaxed);
        self.producing.await?
    }
}

fn times(fault: Fault, passes: &Path) -> String {
    let passed = std::fs::read_to_string(passes).unwrap_or_default();
    format!("{fault}, passed {} times", passed.lines().count())
}

fn passed(log: &str, fault: Fault) -> bool {
    let line = format!("{} {}", fault.point, fault.pass);
    std::fs::read_to_string(log).is_ok_and(|passes| passes.lines().any(|pass| pass == line))
}
