//! A worker without Kubernetes on a real broker: the same results, through kills, and an orderly end.

use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::cluster::unique;
use turbine_tests::events::EventPlan;
use turbine_tests::manifest::AppManifest;
use turbine_tests::process;
use turbine_tests::scenario::Topics;
use turbine_tests::wait;
use turbine_tests::worker::WorkerPlan;

const WITHIN: Duration = Duration::from_mins(2);

struct Case {
    bed: Bed,
    topics: Topics,
    input: String,
    output: String,
    _folder: TempDir,
    plan: WorkerPlan,
}

async fn begin(test: &str, partitions: i32) -> Result<Option<Case>> {
    let Some(bed) = Bed::for_test(test, Needs::Broker)? else {
        return Ok(None);
    };
    let topics = Topics::new(&bed, "worker");
    let input = topics.create("events", partitions).await?;
    let output = topics.name("scores")?;
    let app = AppManifest::new(&unique("worker"), &bed.bootstrap, &input, &output);
    let folder = TempDir::new()?;
    let plan = WorkerPlan::new(&bed, &app, folder.path())?;
    Ok(Some(Case {
        bed,
        topics,
        input,
        output,
        _folder: folder,
        plan,
    }))
}

impl Case {
    fn results(&self) -> Result<i64> {
        Ok(match self.topics.kafka().partitions(&self.output)? {
            Some(_) => self.topics.kafka().ends(&self.output)?.values().sum(),
            None => 0,
        })
    }

    async fn wait_for_results(&self, more_than: i64) -> Result<i64> {
        wait::until(
            &format!("more than {more_than} results"),
            WITHIN,
            || async {
                let now = self.results()?;
                Ok((now > more_than).then_some(now))
            },
        )
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains_and_a_second_run_goes_on_without_repeating() -> Result<()> {
    let Some(case) = begin("worker::sigterm", 4).await? else {
        return Ok(());
    };
    let events = EventPlan {
        records: 20_000,
        keys: 200,
        ..EventPlan::default()
    };
    case.topics
        .kafka()
        .produce_events(&case.input, &events, None, None)?;
    let mut worker = case.plan.start()?;
    case.wait_for_results(0).await?;
    worker.terminate()?;
    let status = worker.ended(WITHIN).await?;
    assert!(status.success(), "{status}: {}", worker.output());

    case.topics
        .kafka()
        .produce_closing(&case.input, events.end_ms() + 3_600_000)?;
    let _worker = case.plan.start()?;
    let report = AppManifest::query(&case.bed.bootstrap, &case.input, &case.output)
        .compare(&case.bed.kafka_libs, WITHIN)?;
    report.check()?;
    assert_eq!(
        report.repeated, 0,
        "an orderly stop repeats nothing: {report:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sigkill_loses_nothing() -> Result<()> {
    let Some(case) = begin("worker::sigkill", 6).await? else {
        return Ok(());
    };
    let events = EventPlan {
        records: 60_000,
        keys: 500,
        ..EventPlan::default()
    };
    let producing = {
        let (kafka, topic, events) = (
            case.topics.kafka().clone(),
            case.input.clone(),
            events.clone(),
        );
        tokio::task::spawn_blocking(move || {
            kafka.produce_events(
                &topic,
                &events,
                Some(events.end_ms() + 3_600_000),
                Some(6_000),
            )
        })
    };
    let mut seen = 0;
    for _ in 0..3 {
        let worker = case.plan.start()?;
        seen = case.wait_for_results(seen).await?;
        worker.kill()?;
    }
    let _worker = case.plan.start()?;
    producing.await??;
    AppManifest::query(&case.bed.bootstrap, &case.input, &case.output)
        .compare(&case.bed.kafka_libs, WITHIN)?
        .check()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_does_not_divide_960_is_refused_by_the_worker_too() -> Result<()> {
    let Some(case) = begin("worker::divisor", 7).await? else {
        return Ok(());
    };
    let outcome = process::attempt(&mut case.plan.command())?;
    let text = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.success, "{text}");
    for word in [case.input.as_str(), "7", "6", "8"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    assert_eq!(
        case.topics.kafka().partitions(&case.output)?,
        None,
        "nothing was made"
    );
    Ok(())
}
