//! Exactly once on a real broker: whatever is killed whenever, a reader of committed records sees every result and every
//! dead letter once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer as _};
use serde_json::json;
use tempfile::TempDir;
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::cluster::{restarts, unique};
use turbine_tests::events::EventPlan;
use turbine_tests::kafka::Record;
use turbine_tests::manifest::AppManifest;
use turbine_tests::scenario::{Scenario, Topics};
use turbine_tests::wait;
use turbine_tests::worker::WorkerPlan;

const WITHIN: Duration = Duration::from_mins(2);
const START: Duration = Duration::from_mins(3);
const GUARANTEE: &str = "spec.subscriptions.0.processingGuarantee";

struct Case {
    bed: Bed,
    topics: Topics,
    folder: TempDir,
    input: String,
    output: String,
    app: AppManifest,
}

async fn begin(test: &str, partitions: i32) -> Result<Option<Case>> {
    let Some(bed) = Bed::for_test(test, Needs::Broker)? else {
        return Ok(None);
    };
    let topics = Topics::new(&bed, "once");
    let input = topics.create("events", partitions).await?;
    let output = topics.name("scores")?;
    let app = AppManifest::new(&unique("once"), &bed.bootstrap, &input, &output)
        .with(GUARANTEE, json!("exactlyOnce"));
    Ok(Some(Case {
        bed,
        topics,
        folder: TempDir::new()?,
        input,
        output,
        app,
    }))
}

impl Case {
    fn plan(&self) -> Result<WorkerPlan> {
        WorkerPlan::new(&self.bed, &self.app, self.folder.path())
    }

    fn committed(&self, topic: &str) -> Result<usize> {
        Ok(match self.topics.kafka().partitions(topic)? {
            Some(_) => self.topics.kafka().read_all(topic)?.len(),
            None => 0,
        })
    }

    async fn wait_for_more(&self, topic: &str, than: usize) -> Result<usize> {
        wait::until(&format!("more than {than} in {topic}"), WITHIN, || async {
            let now = self.committed(topic)?;
            Ok((now > than).then_some(now))
        })
        .await
    }

    /// Every window has one result, the right one.
    fn check(&self) -> Result<()> {
        let report = AppManifest::query(&self.bed.bootstrap, &self.input, &self.output)
            .compare(&self.bed.kafka_libs, WITHIN)?;
        report.check()?;
        assert_eq!(report.repeated, 0, "{report:?}");
        assert!(report.closed > 1_000, "{report:?}");
        Ok(())
    }
}

fn events() -> EventPlan {
    EventPlan {
        records: 60_000,
        keys: 500,
        ..EventPlan::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_again_and_again_writes_every_result_once() -> Result<()> {
    let Some(case) = begin("exactly_once::kills", 6).await? else {
        return Ok(());
    };
    let producing = {
        let (kafka, topic, events) = (case.topics.kafka().clone(), case.input.clone(), events());
        tokio::task::spawn_blocking(move || {
            let end = events.end_ms() + 3_600_000;
            kafka.produce_events(&topic, &events, Some(end), Some(6_000))
        })
    };
    let plan = case.plan()?;
    let mut seen = 0;
    for round in 0..6 {
        let worker = plan.start()?;
        seen = case.wait_for_more(&case.output, seen).await?;
        // Another part of the interval each time; the kill is the test, whatever it hits.
        tokio::time::sleep(Duration::from_millis(37 * round)).await;
        worker.kill()?;
    }
    let mut worker = plan.start()?;
    producing.await??;
    case.check()?;
    worker.terminate()?;
    assert!(worker.ended(WITHIN).await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_written_once_as_well() -> Result<()> {
    const LETTERS: i64 = 12_000;
    let Some(mut case) = begin("exactly_once::letters", 2).await? else {
        return Ok(());
    };
    let dead = case.topics.name("dead")?;
    case.app = case
        .app
        .with("spec.subscriptions.0.input.onError", json!("dlq"))
        .with("spec.subscriptions.0.input.dlq", json!(dead));
    let plan = case.plan()?;
    let producing = {
        let (kafka, topic) = (case.topics.kafka().clone(), case.input.clone());
        tokio::task::spawn_blocking(move || {
            let bad = (0..LETTERS).map(|number| Record {
                partition: Some(i32::from(number % 2 == 1)),
                value: Some(format!("{{ {number}").into_bytes()),
                ..Record::default()
            });
            kafka.produce(&topic, bad, Some(2_000))
        })
    };
    let mut seen = 0;
    for _ in 0..4 {
        let worker = plan.start()?;
        seen = case.wait_for_more(&dead, seen).await?;
        worker.kill()?;
    }
    let _worker = plan.start()?;
    producing.await??;
    let all = usize::try_from(LETTERS)?;
    case.wait_for_more(&dead, all - 1).await?;
    let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for letter in case.topics.kafka().read_all(&dead)? {
        *counts.entry(letter.value.context("a value")?).or_default() += 1;
    }
    assert_eq!(counts.len(), all);
    assert!(counts.values().all(|count| *count == 1));
    Ok(())
}

/// A change of the guarantee keeps state and goes on from where the last commit stands.
#[tokio::test(flavor = "multi_thread")]
async fn the_guarantee_can_change_under_an_app_with_state() -> Result<()> {
    let Some(mut case) = begin("exactly_once::switch", 4).await? else {
        return Ok(());
    };
    let producing = {
        let (kafka, topic, events) = (case.topics.kafka().clone(), case.input.clone(), events());
        tokio::task::spawn_blocking(move || {
            let end = events.end_ms() + 3_600_000;
            kafka.produce_events(&topic, &events, Some(end), Some(10_000))
        })
    };
    let mut seen = 0;
    for guarantee in ["atLeastOnce", "exactlyOnce", "atLeastOnce", "exactlyOnce"] {
        case.app = case.app.with(GUARANTEE, json!(guarantee));
        let worker = case.plan()?.start()?;
        seen = case.wait_for_more(&case.output, seen).await?;
        worker.kill()?;
    }
    let _worker = case.plan()?.start()?;
    producing.await??;
    AppManifest::query(&case.bed.bootstrap, &case.input, &case.output)
        .compare(&case.bed.kafka_libs, WITHIN)?
        .check()
}

/// Somebody takes the id of one task over: it writes nothing more and says why, the others go on, and a new start is
/// right.
#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_task_stops_and_says_who_has_its_id() -> Result<()> {
    let Some(case) = begin("exactly_once::fenced", 4).await? else {
        return Ok(());
    };
    let events = events();
    let name = case.app.0["metadata"]["name"].as_str().context("a name")?;
    let kafka = case.topics.kafka();
    let plan = case.plan()?;
    let mut worker = plan.start()?;
    kafka.produce_events(&case.input, &events, None, None)?;
    let seen = case.wait_for_more(&case.output, 0).await?;

    let id = format!("turbine.{name}.per-tenant.0");
    let thief: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &case.bed.bootstrap)
        .set("transactional.id", &id)
        .create()?;
    thief.init_transactions(WITHIN)?;
    let later = EventPlan {
        start_ms: events.end_ms() + 3_600_000,
        seed: 2,
        ..events.clone()
    };
    kafka.produce_events(&case.input, &later, Some(later.end_ms() + 3_600_000), None)?;
    let halt = wait::until("the halt", WITHIN, || async {
        let said = worker.output();
        let halt = said.lines().find(|line| {
            line.contains("the task halts") && line.contains("Fenced") && line.contains(&id)
        });
        Ok(halt.map(str::to_owned))
    })
    .await?;
    // The thief commits nothing.
    let known = "nobody has committed since entry";
    assert!(halt.contains(known), "{halt}");
    case.wait_for_more(&case.output, seen).await?;
    worker.terminate()?;
    assert!(worker.ended(WITHIN).await?.success());
    let _worker = plan.start()?;
    case.check()
}

/// Another life of the app without its state is refused before it takes an id: the one that runs is not fenced.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_without_the_state_fences_nobody() -> Result<()> {
    let Some(case) = begin("exactly_once::stranger", 4).await? else {
        return Ok(());
    };
    let events = events();
    let kafka = case.topics.kafka();
    let running = case.plan()?.start()?;
    kafka.produce_events(&case.input, &events, None, None)?;
    case.wait_for_more(&case.output, 0).await?;
    let elsewhere = TempDir::new()?;
    let stranger = WorkerPlan::new(&case.bed, &case.app, elsewhere.path())?.start()?;
    wait::until("the refusal", WITHIN, || async {
        Ok(stranger.output().contains("ForeignLineage").then_some(()))
    })
    .await?;
    kafka.produce_closing(&case.input, events.end_ms() + 3_600_000)?;
    case.check()?;
    assert!(!running.output().contains("Fenced"), "{}", running.output());
    Ok(())
}

/// A volume is lost, its offsets are deleted, a second life commits, and the first volume comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_another_life_has_overtaken_is_refused() -> Result<()> {
    let Some(case) = begin("exactly_once::overtaken", 4).await? else {
        return Ok(());
    };
    let events = events();
    let kafka = case.topics.kafka();
    let name = case.app.0["metadata"]["name"].as_str().context("a name")?;
    let first = case.plan()?;
    // All that a volume holds of the state: the store, its checkpoints and the journal.
    let parts = ["per-tenant", "_checkpoints", "_journal"];
    let (volume, away) = (first.state(), case.folder.path().join("away"));
    std::fs::create_dir(&away)?;
    let mut worker = first.start()?;
    kafka.produce_events(&case.input, &events, None, None)?;
    let seen = case.wait_for_more(&case.output, 0).await?;
    worker.terminate()?;
    assert!(worker.ended(WITHIN).await?.success());

    for part in parts {
        std::fs::rename(volume.join(part), away.join(part))?;
    }
    let group = format!("turbine.{name}.per-tenant");
    let to = ["--bootstrap-server", &case.bed.bootstrap, "--group", &group];
    let delete = [&["tool", "groups", "--delete"][..], &to].concat();
    case.bed.script("kafka.sh", &delete)?;
    let elsewhere = TempDir::new()?;
    let latest = case
        .app
        .clone()
        .with("spec.subscriptions.0.input.startFrom", json!("latest"));
    let second = WorkerPlan::new(&case.bed, &latest, elsewhere.path())?.on_state(first.state());
    let mut worker = second.start()?;
    wait::until("the second life's receipts", WITHIN, || async {
        Ok((kafka.committed(&group, &case.input)?.len() == 4).then_some(()))
    })
    .await?;
    let later = EventPlan {
        start_ms: events.end_ms() + 3_600_000,
        seed: 2,
        ..events
    };
    kafka.produce_events(&case.input, &later, None, None)?;
    case.wait_for_more(&case.output, seen).await?;
    worker.terminate()?;
    assert!(worker.ended(WITHIN).await?.success());

    for part in parts {
        std::fs::remove_dir_all(volume.join(part))?;
        std::fs::rename(away.join(part), volume.join(part))?;
    }
    let written = case.committed(&case.output)?;
    let mut worker = first.start()?;
    let reasons = ["ReceiptBehindStore", "StoreBehindReceipt", "OtherHistory"];
    wait::until("every task refuses", WITHIN, || async {
        let said = worker.output();
        let halts = said.lines().filter(|line| {
            line.contains("the task halts") && reasons.iter().any(|reason| line.contains(reason))
        });
        Ok((halts.count() >= 4).then_some(()))
    })
    .await?;
    worker.terminate()?;
    assert!(worker.ended(WITHIN).await?.success());
    assert_eq!(
        case.committed(&case.output)?,
        written,
        "nothing was written"
    );
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// A volume as it was before: what it lacks is read again without results, whenever that is broken off.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_volume_reads_again_what_it_lacks_and_every_result_is_there_once() -> Result<()> {
    let Some(case) = begin("exactly_once::older", 4).await? else {
        return Ok(());
    };
    let events = events();
    let kafka = case.topics.kafka();
    let plan = case.plan()?;
    let mut worker = plan.start()?;
    kafka.produce_events(&case.input, &events, None, None)?;
    let seen = case.wait_for_more(&case.output, 0).await?;
    worker.terminate()?;
    assert!(worker.ended(WITHIN).await?.success());
    let (state, kept) = (plan.state(), case.folder.path().join("kept"));
    copy(state, &kept)?;

    let later = EventPlan {
        records: 400_000,
        start_ms: events.end_ms(),
        seed: 2,
        ..events.clone()
    };
    let name = case.app.0["metadata"]["name"].as_str().context("a name")?;
    let group = format!("turbine.{name}.per-tenant");
    let mut worker = plan.start()?;
    kafka.produce_events(&case.input, &later, None, None)?;
    let all = i64::try_from(events.records + later.records)?;
    wait::until("all is committed", WITHIN, || async {
        let offsets = kafka.committed(&group, &case.input)?;
        Ok((offsets.values().sum::<i64>() >= all).then_some(()))
    })
    .await?;
    worker.terminate()?;
    assert!(worker.ended(WITHIN).await?.success());
    let written = case.committed(&case.output)?;
    assert!(written > seen);
    std::fs::remove_dir_all(state)?;
    copy(&kept, state)?;

    for round in 0..4 {
        let worker = plan.start()?;
        wait::until("its tasks have begun", WITHIN, || async {
            let said = worker.output();
            let again = round > 0 || said.contains("is read again");
            Ok((again && said.matches("start decided").count() >= 4).then_some(()))
        })
        .await?;
        // Another part of it each time; the kill is the test, whatever it hits.
        tokio::time::sleep(Duration::from_millis(20 * round)).await;
        worker.kill()?;
        assert_eq!(case.committed(&case.output)?, written, "nothing is written");
    }
    let mut worker = plan.start()?;
    kafka.produce_closing(&case.input, later.end_ms() + 3_600_000)?;
    case.check()?;
    worker.terminate()?;
    assert!(worker.ended(WITHIN).await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_killed_again_and_again_write_every_result_once() -> Result<()> {
    let Some(scenario) = Scenario::begin("exactly_once::pods").await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", 6).await?;
    let output = scenario.topics.name("scores")?;
    let manifest = scenario
        .app(&input, &output)
        .with(GUARANTEE, json!("exactlyOnce"))
        .with("spec.replicas", json!(2));
    let app = manifest.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;
    scenario.namespace.wait_until_ready(&app, START).await?;
    let producing = {
        let (kafka, topic, events) = (scenario.kafka().clone(), input.clone(), events());
        tokio::task::spawn_blocking(move || {
            let end = events.end_ms() + 3_600_000;
            kafka.produce_events(&topic, &events, Some(end), Some(3_000))
        })
    };
    for kill in 0..3 {
        let pod = format!("{app}-{}", kill % 2);
        scenario
            .bed
            .kill_container(&scenario.namespace.name, &pod)?;
        wait::until("the container to start again", START, || async {
            let pods = scenario.namespace.worker_pods(&app).await?;
            let again = pods
                .iter()
                .any(|of| of.metadata.name.as_ref() == Some(&pod) && restarts(of) > kill / 2);
            Ok(again.then_some(()))
        })
        .await?;
    }
    producing.await??;
    let report = scenario
        .query(&input, &output)
        .compare(&scenario.bed.kafka_libs, START)?;
    report.check()?;
    assert_eq!(report.repeated, 0, "{report:?}");
    Ok(())
}
