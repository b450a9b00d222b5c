//! Partition counts, and what the workers say of the placement of records.

use serde_json::json;
use turbine_crds::control::{MisplacedRecord, TaskHalt, TaskState, Verdict};

use super::world::Memories;
use super::{app, running, with, world};
use crate::app::Pace;
use crate::cluster::Kind;

/// Valid counts and their neighbours, by trial division.
#[tokio::test]
async fn every_count_of_the_broker_up_to_a_thousand_is_judged_before_a_pod_starts() {
    for count in (1..=1_001_i32).chain([1_920]) {
        let world = world();
        world.with(|state| state.topics.insert("in".to_owned(), count));
        world.apply_app(app());
        world.settle("a").await;
        let valid = |near: &i32| 960 % near == 0;
        if valid(&count) {
            assert!(world.is_ready("a"), "{count}");
            continue;
        }
        let below = (1..count.min(961)).rev().find(valid).unwrap();
        let nearest = match (count..=960).find(valid) {
            Some(above) => format!("counts are {below} and {above};"),
            None => format!("count is {below};"),
        };
        let begin = format!(
            "topic `in` has {count} partitions, which does not divide 960; the nearest valid {nearest}"
        );
        let (is, reason, message) = world.condition("a", "TopicsReady");
        assert_eq!((&*is, &*reason), ("False", "PartitionCountNotDivisor"));
        assert!(message.starts_with(&begin), "{message}");
        assert!(
            world.with(|state| state.names(Kind::Pod).is_empty()),
            "{count}"
        );
    }
}

fn allowed() -> serde_json::Value {
    with(app(), "/spec/allowNonDivisorPartitions", json!(true))
}

async fn on_seven() -> Memories {
    let world = world();
    world.with(|state| state.topics.insert("in".to_owned(), 7));
    world.apply_app(allowed());
    world.settle("a").await;
    assert!(world.is_ready("a"), "{:#?}", world.status("a"));
    world
}

#[tokio::test]
async fn a_count_that_is_allowed_knowingly_runs_and_says_so() {
    let world = on_seven().await;
    let (is, _, message) = world.condition("a", "NonDivisorPartitions");
    assert_eq!(is, "True");
    for words in [
        "topic `in` has 7 partitions",
        "6 and 8",
        "allowNonDivisorPartitions",
    ] {
        assert!(message.contains(words), "{message}");
    }
    let compiled = world.with(|state| state.get(Kind::ConfigMap, "a-app").cloned().unwrap());
    let compiled = compiled["data"].to_string();
    assert!(compiled.contains("allowNonDivisorPartitions"), "{compiled}");

    // State lies on them: the flag cannot go, and what runs goes on.
    world.apply_app(app());
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "SpecValid");
    assert_eq!(
        (is.as_str(), reason.as_str()),
        ("True", "Valid"),
        "{message}"
    );
    let (is, reason, message) = world.condition("a", "Stalled");
    assert_eq!((is.as_str(), reason.as_str()), ("True", "ChangeRefused"));
    assert!(
        message.contains("spec.allowNonDivisorPartitions"),
        "{message}"
    );
    assert_eq!(world.condition("a", "NonDivisorPartitions").0, "True");
    world.apply_app(allowed());
    assert_eq!(world.settle("a").await.pace, Pace::Settled);
    assert!(world.is_ready("a"));

    // No layout but the present one.
    world.apply_app(with(allowed(), "/spec/replicas", json!(3)));
    world.settle("a").await;
    assert_eq!(world.condition("a", "RescaleBlocked").0, "True");
}

#[tokio::test]
async fn a_valid_count_has_no_such_condition() {
    let world = running().await;
    world.apply_app(allowed());
    world.settle("a").await;
    let conditions = world.status("a").conditions;
    assert!(
        conditions
            .iter()
            .all(|of| of.type_ != "NonDivisorPartitions"),
        "{conditions:#?}"
    );
}

fn declared() -> serde_json::Value {
    with(
        app(),
        "/spec/subscriptions/0/partitionHash",
        json!("murmur2"),
    )
}

fn first() -> MisplacedRecord {
    MisplacedRecord {
        offset: 17,
        key_hash: 1_027_372_012,
        belongs_to: 2.try_into().unwrap(),
        looks_like: "it looks like CRC32: librdkafka's default".to_owned(),
    }
}

fn set(world: &Memories, verdict: Verdict) {
    world.with(|state| {
        for task in state
            .workers
            .values_mut()
            .flat_map(|worker| &mut worker.tasks)
        {
            task.placement = verdict;
            task.misplaced_first = None;
        }
    });
}

fn condemn(world: &Memories, partition: i32) {
    world.with(|state| {
        let tasks = state
            .workers
            .values_mut()
            .flat_map(|worker| &mut worker.tasks);
        for task in tasks.filter(|task| task.partition == partition) {
            task.placement = Verdict::Misplaced;
            task.misplaced_first = Some(first());
        }
    });
}

#[tokio::test]
async fn the_condition_follows_the_verdicts_of_the_tasks() {
    let world = running().await;
    let (is, reason, _) = world.condition("a", "PlacementVerified");
    assert_eq!((is.as_str(), reason.as_str()), ("Unknown", "TooFewKeys"));
    set(&world, Verdict::Verified);
    world.settle("a").await;
    assert_eq!(world.condition("a", "PlacementVerified").0, "True");

    // A worker that is silent for a while has not changed its verdict.
    let kept = world.with(|state| state.workers.remove("a-0").unwrap());
    world.settle("a").await;
    assert_eq!(world.condition("a", "PlacementVerified").0, "True");
    world.with(|state| state.workers.insert("a-0".to_owned(), kept));

    condemn(&world, 3);
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "PlacementVerified");
    assert_eq!((is.as_str(), reason.as_str()), ("False", "Misplaced"));
    for words in [
        "topic `in` partition 3 offset 17",
        "murmur2 hash 1027372012",
        "belongs to partition 2",
        "CRC32",
        "placement clear a",
        "partitionHash is not declared",
    ] {
        assert!(message.contains(words), "{words} is not in: {message}");
    }
    assert_eq!(
        world.condition("a", "Degraded").0,
        "False",
        "nothing is refused because of an undeclared hash"
    );
    assert!(world.is_ready("a"));

    set(&world, Verdict::Unknown);
    world.settle("a").await;
    assert_eq!(world.condition("a", "PlacementVerified").0, "Unknown");
}

#[tokio::test]
async fn against_a_declared_hash_misplaced_records_degrade_the_app() {
    let world = world();
    world.apply_app(declared());
    world.settle("a").await;
    condemn(&world, 1);
    condemn(&world, 3);
    let outcome = world.settle("a").await;
    let (is, reason, message) = world.condition("a", "Degraded");
    assert_eq!((is.as_str(), reason.as_str()), ("True", "Misplaced"));
    for words in [
        "partition 1 offset 17",
        "partition 3 offset 17",
        "touch no state",
    ] {
        assert!(message.contains(words), "{words} is not in: {message}");
    }
    assert_eq!(outcome.pace, Pace::Settled);
    assert!(world.is_ready("a"), "the records in place go on");
    set(&world, Verdict::Unknown);
    world.settle("a").await;
    assert_eq!(world.condition("a", "Degraded").0, "False");
}

/// A topic that grew is told as such: no verdict, no word of misplaced records.
#[tokio::test]
async fn a_growth_is_no_verdict() {
    let world = world();
    world.apply_app(declared());
    world.settle("a").await;
    set(&world, Verdict::Verified);
    world.settle("a").await;
    world.with(|state| {
        for task in state
            .workers
            .values_mut()
            .flat_map(|worker| &mut worker.tasks)
        {
            task.state = TaskState::Halted;
            task.placement = Verdict::Unknown;
            task.halt = Some(TaskHalt {
                reason: "TopicGrown".to_owned(),
                message: "topic `in` grew from 4 to 6 partitions".to_owned(),
                person_must_act: true,
                offset: Some(7),
            });
        }
    });
    world.settle("a").await;
    assert_eq!(world.condition("a", "Degraded").1, "TopicGrown");
    assert_eq!(
        world.condition("a", "PlacementVerified").1,
        "Verified",
        "a task that does not run has read no verdict"
    );
}

/// A settled app is asked about nothing but its workers for a while: a verdict among their answers must wake it.
#[tokio::test]
async fn a_verdict_wakes_a_settled_app() {
    let world = running().await;
    let outcome = world.settle("a").await;
    assert_eq!(outcome.pace, Pace::Settled);
    let watch = outcome.watch.unwrap();
    assert!(watch.still_holds(&world.operator()).await);
    set(&world, Verdict::Verified);
    assert!(!watch.still_holds(&world.operator()).await);
    set(&world, Verdict::Unknown);
    assert!(watch.still_holds(&world.operator()).await);
    condemn(&world, 1);
    assert!(!watch.still_holds(&world.operator()).await);
}
