//! A topic that somebody grows under a running app with a declared hash: nothing of the new placement touches state, event
//! time is held, and a person is told.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use turbine_tests::cluster::condition;
use turbine_tests::events::EventPlan;
use turbine_tests::scenario::Scenario;
use turbine_tests::wait;

const START: Duration = Duration::from_mins(3);
const SOON: Duration = Duration::from_mins(2);

/// Under traffic: one producer that does not see the growth, and one that begins after it.
async fn growth_under_traffic(test: &str, to: i32) -> Result<()> {
    let Some(scenario) = Scenario::begin(test).await? else {
        return Ok(());
    };
    let input = scenario.topics.create("events", 4).await?;
    let output = scenario.topics.name("scores")?;
    let manifest = scenario
        .app(&input, &output)
        .with("spec.subscriptions.0.partitionHash", json!("murmur2"));
    let app = manifest.0["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    let _operator = scenario.operator()?.start().await?;
    scenario.namespace.apply(&manifest.text())?;
    scenario.namespace.wait_until_ready(&app, START).await?;

    let before = EventPlan {
        records: 60_000,
        keys: 500,
        ..EventPlan::default()
    };
    let old_producer = {
        let (kafka, topic, plan) = (scenario.kafka().clone(), input.clone(), before.clone());
        tokio::task::spawn_blocking(move || kafka.produce_events(&topic, &plan, None, Some(2_000)))
    };
    wait::until("the first results", SOON, || async {
        let rows: i64 = scenario.kafka().ends(&output)?.values().sum();
        Ok((rows > 0).then_some(()))
    })
    .await?;
    scenario.kafka().grow_topic(&input, to).await?;
    let after = EventPlan {
        records: 20_000,
        keys: 500,
        seed: 2,
        start_ms: before.end_ms() + 3_600_000,
        ..EventPlan::default()
    };
    scenario
        .kafka()
        .produce_events(&input, &after, None, Some(10_000))?;

    let words = format!("grew from 4 to {to} partitions");
    let halted = scenario
        .namespace
        .wait_for_app(&app, "all four tasks stand still", SOON, |app| {
            let tasks = app
                .status
                .iter()
                .flat_map(|status| &status.subscriptions)
                .flat_map(|of| &of.halted);
            tasks.count() == 4
        })
        .await?;
    old_producer.await??;
    let tasks = halted
        .status
        .iter()
        .flat_map(|status| &status.subscriptions)
        .flat_map(|of| &of.halted);
    for task in tasks {
        assert_eq!(task.reason, "TopicGrown", "{task:?}");
        assert!(task.message.contains(&words), "{}", task.message);
    }
    let degraded = scenario
        .namespace
        .wait_for_condition(&app, "Degraded", "True", Some("TopicGrown"), SOON)
        .await?;
    for kind in ["Degraded", "Ready"] {
        let found = condition(&degraded, kind).context(kind)?;
        for word in [input.as_str(), &words, "new name"] {
            assert!(
                found.message.contains(word),
                "{word} is not in {kind}: {}",
                found.message
            );
        }
    }

    let placement = condition(&degraded, "PlacementVerified").context("PlacementVerified")?;
    assert_ne!(placement.status, "False", "{}", placement.message);

    // What is there is right; windows that the app has not closed any more are missing.
    let report = scenario
        .query(&input, &output)
        .compare(&scenario.bed.kafka_libs, Duration::from_secs(1))?;
    assert_eq!(
        (report.wrong, report.early, report.extra),
        (0, 0, 0),
        "{report:#?}"
    );
    assert!(report.missing > 0, "event time is held: {report:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_growth_to_six_stops_the_tasks_in_front_of_the_new_placement() -> Result<()> {
    growth_under_traffic("a_growth_to_six", 6).await
}

/// No old partition ever shows a record of the new placement.
#[tokio::test(flavor = "multi_thread")]
async fn a_growth_to_eight_is_found_by_asking() -> Result<()> {
    growth_under_traffic("a_growth_to_eight", 8).await
}
