//! What the operator does about the broker's topics: nothing runs on a topic that does not fit, and all goes on by itself
//! once it does.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use turbine_tests::cluster::{condition, is_ready};
use turbine_tests::events::EventPlan;
use turbine_tests::scenario::Scenario;

const SOON: Duration = Duration::from_mins(1);
const START: Duration = Duration::from_mins(3);

fn name(app: &turbine_tests::manifest::AppManifest) -> Result<String> {
    Ok(app.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn seven_partitions_are_refused_by_name_without_a_pod_and_eight_run_without_a_touch()
-> Result<()> {
    let Some(scenario) = Scenario::begin("seven_partitions_are_refused").await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", 7).await?;
    let output = scenario.topics.name("scores")?;
    let manifest = scenario.app(&input, &output);
    let app = name(&manifest)?;
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;

    let refused = scenario
        .namespace
        .wait_for_condition(&app, "Stalled", "True", None, SOON)
        .await?;
    for kind in ["Stalled", "TopicsReady", "Ready"] {
        let found = condition(&refused, kind).context(kind)?;
        let expected = if kind == "Stalled" { "True" } else { "False" };
        assert_eq!(found.status, expected, "{found:?}");
        for word in [input.as_str(), "7", "6", "8"] {
            assert!(
                found.message.contains(word),
                "{word} is not in {}: {}",
                kind,
                found.message
            );
        }
    }
    assert!(
        scenario.namespace.worker_pods(&app).await?.is_empty(),
        "no pod before its topics fit"
    );
    assert_eq!(
        scenario.kafka().partitions(&output)?,
        None,
        "no output before the input fits"
    );
    let events = scenario.namespace.kubectl(&["get", "events"])?;
    assert!(
        events
            .lines()
            .any(|line| line.contains("PartitionCountNotDivisor")
                && line.contains("7 partitions")
                && line.contains("6 and 8")),
        "{events}"
    );
    let generation = refused.metadata.generation;

    scenario.kafka().delete_topic(&input).await?;
    scenario.kafka().create_topic(&input, 8, &[]).await?;
    let running = scenario.namespace.wait_until_ready(&app, START).await?;
    assert_eq!(
        running.metadata.generation, generation,
        "nobody touched the app"
    );

    let plan = EventPlan {
        records: 5_000,
        keys: 100,
        ..EventPlan::default()
    };
    scenario
        .kafka()
        .produce_events(&input, &plan, Some(plan.end_ms() + 3_600_000), None)?;
    let query = scenario.query(&input, &output);
    query.compare(&scenario.bed.kafka_libs, START)?.check()?;

    // The running app asked for 9: refused by name, and it goes on.
    let nine = manifest.with("spec.subscriptions.0.input.partitions", json!(9));
    let refused = scenario.namespace.try_apply(&nine.text())?;
    let told = format!("{}{}", refused.stdout, refused.stderr);
    assert!(!refused.success, "{told}");
    for word in [input.as_str(), "9 partitions", "8 and 10"] {
        assert!(told.contains(word), "{word} is not in: {told}");
    }
    let more = EventPlan {
        start_ms: plan.end_ms() + 2 * 3_600_000,
        seed: 2,
        ..plan
    };
    scenario
        .kafka()
        .produce_events(&input, &more, Some(more.end_ms() + 3_600_000), None)?;
    query.compare(&scenario.bed.kafka_libs, START)?.check()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_input_is_waited_for_and_never_made() -> Result<()> {
    let Some(scenario) = Scenario::begin("a_missing_input").await? else {
        return Ok(());
    };
    let input = scenario.topics.name("events")?;
    let manifest = scenario.app(&input, &scenario.topics.name("scores")?);
    let app = name(&manifest)?;
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;
    let missing = scenario
        .namespace
        .wait_for_condition(
            &app,
            "TopicsReady",
            "False",
            Some("InputTopicMissing"),
            SOON,
        )
        .await?;
    let message = &condition(&missing, "TopicsReady")
        .context("TopicsReady")?
        .message;
    assert!(message.contains(&input), "{message}");
    assert_eq!(scenario.kafka().partitions(&input)?, None);
    scenario.kafka().create_topic(&input, 4, &[]).await?;
    scenario
        .namespace
        .wait_until_ready(&app, START)
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_broker_is_named_and_the_app_starts_once_it_is_there() -> Result<()> {
    let Some(scenario) = Scenario::begin("an_unreachable_broker").await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", 2).await?;
    let manifest = scenario.app(&input, &scenario.topics.name("scores")?);
    let app = name(&manifest)?;
    scenario.bed.script("kafka.sh", &["stop", "1"])?;
    let broker = BrokerBack(&scenario);
    let operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;
    let bootstrap = scenario.bed.bootstrap.clone();
    let waiting = scenario
        .namespace
        .wait_for_app(
            &app,
            "a condition that names the broker",
            SOON,
            move |app| {
                condition(app, "Ready").is_some_and(|ready| {
                    ready.status != "True" && ready.message.contains(&bootstrap)
                })
            },
        )
        .await?;
    assert!(!is_ready(&waiting));
    drop(broker);
    scenario.namespace.wait_until_ready(&app, START).await?;
    drop(operator);
    Ok(())
}

/// Other tests need the broker, whatever becomes of this one.
struct BrokerBack<'a>(&'a Scenario);

impl Drop for BrokerBack<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.bed.script("kafka.sh", &["start", "1"]) {
            turbine_tests::diagnostics::say(&format!("the broker does not start: {error:#}"));
        }
    }
}
