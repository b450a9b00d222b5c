//! Records that a client placed by CRC32, under apps that key by murmur2: nothing wrong in any state, the condition that
//! says so, and the way back.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use turbine_crds::app::TurbineApp;
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::cluster::{condition, is_ready, unique};
use turbine_tests::events::EventPlan;
use turbine_tests::kafka::{Kafka, Record, Stored, partition_of};
use turbine_tests::manifest::AppManifest;
use turbine_tests::scenario::{Scenario, Topics};
use turbine_tests::wait;
use turbine_tests::worker::WorkerPlan;

const COUNT: i32 = 6;
const START: Duration = Duration::from_mins(3);
const SOON: Duration = Duration::from_mins(2);

fn plan(seed: u64) -> EventPlan {
    EventPlan {
        records: 20_000,
        keys: 200,
        seed,
        ..EventPlan::default()
    }
}

/// What `placement clear` answers, and its exit code.
fn clear(bed: &Bed, arguments: &[&str]) -> Result<(Option<i32>, Value)> {
    let output = Command::new(bed.program("turbine-cli"))
        .args(["placement", "clear", "--output", "json"])
        .args(arguments)
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout).context(told)?;
    Ok((output.status.code(), answer))
}

fn tasks(report: &Value) -> Result<&Vec<Value>> {
    report["tasks"].as_array().context("a list of tasks")
}

/// The number that follows `before` in a text.
fn number_after(text: &str, before: &str) -> Result<i64> {
    let (_, rest) = text
        .split_once(before)
        .with_context(|| format!("`{before}` is not in: {text}"))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().with_context(|| format!("{before}: {text}"))
}

/// The condition names a record of the topic, and where Kafka's own partitioner would have put it.
fn names_a_misplaced_record(message: &str, topic: &str, kafka: &Kafka) -> Result<()> {
    ensure!(message.contains(&format!("topic `{topic}`")), "{message}");
    let (partition, offset) = (
        number_after(message, "partition ")?,
        number_after(message, "offset ")?,
    );
    let record = kafka
        .read_all(topic)?
        .into_iter()
        .find(|of| (i64::from(of.partition), of.offset) == (partition, offset))
        .context("the record of the condition")?;
    let key = record.key.context("a key")?;
    let belongs = partition_of(&key, COUNT);
    assert_ne!(belongs, record.partition);
    assert_eq!(
        number_after(message, "belongs to partition ")?,
        i64::from(belongs)
    );
    // the whole hash, sign bit cleared: modulo 2^31 - 1 it is itself, but for one hash in 2^31
    assert_eq!(
        number_after(message, "murmur2 hash ")?,
        i64::from(partition_of(&key, i32::MAX))
    );
    ensure!(message.contains("CRC32"), "{message}");
    Ok(())
}

async fn misplaced(scenario: &Scenario, app: &str) -> Result<TurbineApp> {
    scenario
        .namespace
        .wait_for_app(app, "the verdict, and which client it was", SOON, |app| {
            condition(app, "PlacementVerified").is_some_and(|of| {
                of.status == "False" && of.reason == "Misplaced" && of.message.contains("CRC32")
            })
        })
        .await
}

fn app_name(manifest: &AppManifest) -> Result<String> {
    let name = manifest.0["metadata"]["name"].as_str();
    Ok(name.context("a name")?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_declared_hash_misplaced_records_go_to_the_dead_letters_until_the_producer_is_right()
-> Result<()> {
    let Some(scenario) = Scenario::begin("misplaced::declared").await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", COUNT).await?;
    let output = scenario.topics.name("scores")?;
    let dead = scenario.topics.name("dead")?;
    let manifest = scenario
        .app(&input, &output)
        .with("spec.subscriptions.0.partitionHash", json!("murmur2"))
        .with("spec.subscriptions.0.input.onError", json!("dlq"))
        .with("spec.subscriptions.0.input.dlq", json!(dead));
    let app = app_name(&manifest)?;
    let (kafka, bed) = (scenario.kafka(), &scenario.bed);
    let wrong = plan(1);
    kafka.produce_by_crc32(&input, wrong.events().map(Record::from))?;
    kafka.produce_closing(&input, wrong.end_ms() + 3_600_000)?;
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;

    let found = misplaced(&scenario, &app).await?;
    let verdict = condition(&found, "PlacementVerified").context("the condition")?;
    names_a_misplaced_record(&verdict.message, &input, kafka)?;
    let mut query = scenario.query(&input, &output);
    query.placed_only = true;
    let report = query.compare(&bed.kafka_libs, START)?;
    report.check()?;
    assert!(report.misplaced_rows > 10_000, "{report:?}");
    let letters = wait::until("every dead letter", SOON, || async {
        let letters = kafka.read_all(&dead)?;
        Ok((letters.len() as u64 >= report.misplaced_rows).then_some(letters))
    })
    .await?;
    assert_eq!(letters.len() as u64, report.misplaced_rows);
    let lies = |letter: &Stored| -> Result<i32> {
        let partition = letter.header("turbine_dlq_source_partition");
        Ok(partition.context("its partition")?.parse()?)
    };
    for letter in &letters {
        let key = letter.key.as_deref().context("a key")?;
        assert_ne!(partition_of(key, COUNT), lies(letter)?);
    }
    let degraded = scenario
        .namespace
        .wait_for_condition(&app, "Degraded", "True", Some("Misplaced"), SOON)
        .await?;
    assert!(is_ready(&degraded), "records in place go on");
    let events = scenario.namespace.kubectl(&["get", "events"])?;
    assert!(events.contains("Misplaced"), "{events}");

    // The producer is right now: nothing of others is in any state, and the verdict can go.
    let namespace = scenario.namespace.name.as_str();
    let (code, looked) = clear(bed, &[&app, "--namespace", namespace, "--dry-run"])?;
    assert_eq!(code, Some(0), "{looked:#}");
    assert_eq!(tasks(&looked)?.len(), usize::try_from(COUNT)?);
    for task in tasks(&looked)? {
        assert_eq!(
            (&task["verdict"], &task["cleared"], &task["foreignPanes"]),
            (&json!("misplaced"), &json!(false), &json!(0)),
            "{looked:#}"
        );
    }
    let (code, cleared) = clear(bed, &[&app, "--namespace", namespace])?;
    assert_eq!(code, Some(0), "{cleared:#}");
    assert!(tasks(&cleared)?.iter().all(|task| task["cleared"] == true));
    let right = EventPlan {
        start_ms: wrong.end_ms() + 2 * 3_600_000,
        ..plan(2)
    };
    kafka.produce_events(&input, &right, Some(right.end_ms() + 3_600_000), None)?;
    let verified = scenario
        .namespace
        .wait_for_condition(&app, "PlacementVerified", "True", None, SOON)
        .await?;
    assert_eq!(
        condition(&verified, "Degraded").map(|of| of.status.as_str()),
        Some("False")
    );
    query.compare(&bed.kafka_libs, START)?.check()
}

/// CRC32 keeps a key in one partition, so results by key are right; where they lie is shown and refused nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn under_an_undeclared_hash_nothing_is_refused_and_the_placement_is_shown() -> Result<()> {
    let Some(scenario) = Scenario::begin("misplaced::undeclared").await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", COUNT).await?;
    let output = scenario.topics.name("scores")?;
    let manifest = scenario.app(&input, &output);
    let app = app_name(&manifest)?;
    let kafka = scenario.kafka();
    kafka.produce_by_crc32(&input, plan(1).events().map(Record::from))?;
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;

    let found = misplaced(&scenario, &app).await?;
    let verdict = condition(&found, "PlacementVerified").context("the condition")?;
    names_a_misplaced_record(&verdict.message, &input, kafka)?;
    assert!(
        verdict.message.contains("partitionHash is not declared"),
        "{}",
        verdict.message
    );
    let ready = scenario.namespace.wait_until_ready(&app, START).await?;
    assert_eq!(
        condition(&ready, "Degraded").map(|of| of.status.as_str()),
        Some("False")
    );
    scenario
        .query(&input, &output)
        .compare(&scenario.bed.kafka_libs, START)?
        .check()?;

    // The windows that are still open belong to other partitions, key by key.
    let namespace = scenario.namespace.name.as_str();
    let (code, looked) = clear(&scenario.bed, &[&app, "-n", namespace, "--dry-run"])?;
    assert_eq!(code, Some(1), "{looked:#}");
    assert_foreign_keys_are_foreign(&looked)
}

fn assert_foreign_keys_are_foreign(looked: &Value) -> Result<()> {
    let mut named = 0;
    for task in tasks(looked)? {
        for foreign in task["foreign"].as_array().context("a list of keys")? {
            let key = foreign["key"].as_str().context("a key")?;
            let belongs = partition_of(key.as_bytes(), COUNT);
            assert_eq!(foreign["belongsTo"], belongs, "{key}");
            assert_ne!(task["partition"], belongs, "{key}");
            assert_eq!(
                foreign["keyGroup"],
                partition_of(key.as_bytes(), 960),
                "{key}"
            );
            named += 1;
        }
    }
    assert!(named > 50, "{looked:#}");
    Ok(())
}

/// A worker without Kubernetes: asked by its address while it runs, by its folder when it has stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_workers_state_is_looked_through_by_its_address_and_by_its_folder() -> Result<()> {
    let Some(bed) = Bed::for_test("misplaced::folder", Needs::Broker)? else {
        return Ok(());
    };
    let topics = Topics::new(&bed, "folder");
    let folder = TempDir::new()?;
    let input = topics.create("events", COUNT).await?;
    let output = topics.name("scores")?;
    let app = AppManifest::new(&unique("folder"), &bed.bootstrap, &input, &output);
    let worker = WorkerPlan::new(&bed, &app, folder.path())?;
    let kafka = topics.kafka();
    kafka.produce_by_crc32(&input, plan(1).events().map(Record::from))?;

    let mut running = worker.start()?;
    let state = worker.state().to_str().context("a path")?.to_owned();
    let token = format!("{state}/control.token");
    let address = wait::until("the control API", SOON, || async {
        let said = running.output();
        let address = said
            .split_once("control API at ")
            .and_then(|(_, rest)| rest.split_once(',').map(|(address, _)| address.to_owned()));
        Ok(address)
    })
    .await?;
    let by_address = ["--worker", &address, "--token-file", &token];
    let (code, looked) = wait::until("a verdict of every task", SOON, || async {
        let (code, looked) = clear(&bed, &[&by_address[..], &["--dry-run"]].concat())?;
        let all = tasks(&looked)?
            .iter()
            .all(|task| task["verdict"] == "misplaced" && task["refused"].is_null());
        Ok((all && tasks(&looked)?.len() == 6).then_some((code, looked)))
    })
    .await?;
    assert_eq!(code, Some(1));
    assert_foreign_keys_are_foreign(&looked)?;

    let file = worker.app().to_str().context("a path")?;
    let by_folder = ["--state", &state, "--file", file];
    let in_use = Command::new(bed.program("turbine-cli"))
        .args(["placement", "clear"])
        .args(by_folder)
        .output()?;
    let told = String::from_utf8_lossy(&in_use.stdout).into_owned();
    assert_eq!(in_use.status.code(), Some(2), "{told}");
    let refused = told
        .lines()
        .filter(|line| line.contains("not looked through"));
    assert_eq!(refused.count(), 6, "{told}");
    assert!(told.contains("in use"), "{told}");

    running.terminate()?;
    assert!(running.ended(SOON).await?.success());
    let one = [&by_folder[..], &["--partition", "3"]].concat();
    let (code, cleared) = clear(&bed, &one)?;
    assert_eq!((code, tasks(&cleared)?.len()), (Some(1), 1), "{cleared:#}");
    assert_eq!(cleared["tasks"][0]["cleared"], true);
    assert_eq!(cleared["tasks"][0]["verdict"], "misplaced");
    let (_, again) = clear(&bed, &[&by_folder[..], &["--dry-run"]].concat())?;
    for task in tasks(&again)? {
        let expected = if task["partition"] == 3 {
            "unknown"
        } else {
            "misplaced"
        };
        assert_eq!(task["verdict"], expected, "{again:#}");
    }

    // What was touched by hand is taken by the next start, and nothing of it is lost.
    let _running = worker.start()?;
    kafka.produce_closing(&input, plan(1).end_ms() + 3_600_000)?;
    AppManifest::query(&bed.bootstrap, &input, &output)
        .compare(&bed.kafka_libs, SOON)?
        .check()
}

/// What is allowed knowingly, on the cluster and by hand.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_does_not_divide_960_runs_if_that_is_asked_for_and_says_so() -> Result<()> {
    let Some(scenario) = Scenario::begin("misplaced::seven").await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", 7).await?;
    let output = scenario.topics.name("scores")?;
    let manifest = scenario
        .app(&input, &output)
        .with("spec.allowNonDivisorPartitions", json!(true))
        .with("spec.subscriptions.0.partitionHash", json!("murmur2"));
    let app = app_name(&manifest)?;
    let events = plan(1);
    let kafka = scenario.kafka();
    kafka.produce_events(&input, &events, Some(events.end_ms() + 3_600_000), None)?;
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;
    scenario.namespace.wait_until_ready(&app, START).await?;
    let verified = scenario
        .namespace
        .wait_for_condition(&app, "PlacementVerified", "True", None, SOON)
        .await?;
    let warned = condition(&verified, "NonDivisorPartitions").context("the condition")?;
    assert_eq!(warned.status, "True");
    for words in [input.as_str(), "7 partitions", "6 and 8"] {
        assert!(warned.message.contains(words), "{}", warned.message);
    }
    let log = scenario.namespace.kubectl(&["logs", &format!("{app}-0")])?;
    assert!(
        log.contains("7 partitions") && log.contains("6 and 8"),
        "{log}"
    );
    scenario
        .query(&input, &output)
        .compare(&scenario.bed.kafka_libs, START)?
        .check()?;
    // records of others are told by the whole hash, where a group would say another partition
    let namespace = scenario.namespace.name.as_str();
    let (code, looked) = clear(&scenario.bed, &[&app, "-n", namespace, "--dry-run"])?;
    assert_eq!(code, Some(0), "{looked:#}");
    assert_eq!(tasks(&looked)?.len(), 7);

    let by_hand = scenario.topics.name("by-hand")?;
    let manifest = AppManifest::new(&unique("hand"), &scenario.bed.bootstrap, &input, &by_hand);
    let worker = WorkerPlan::new(&scenario.bed, &manifest, scenario.folder.path())?
        .argument("--until-caught-up");
    let mut command = worker.command();
    command.env("TURBINE_ALLOW_NON_DIVISOR_PARTITIONS", "1");
    let ended = turbine_tests::process::attempt(&mut command)?;
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(ended.success, "{said}");
    assert!(said.contains("7 partitions"), "{said}");
    scenario
        .query(&input, &by_hand)
        .compare(&scenario.bed.kafka_libs, SOON)?
        .check()
}
