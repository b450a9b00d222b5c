//! Changes of the layout from their request to their end, over workers that follow the wire.

use serde_json::{Value, json};
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::status::{Phase, RescaleStatus, RescaleStep};

use super::workers::task;
use super::world::{Memories, pass_seconds};
use super::{app, running, subscription, with};
use crate::cluster::Kind;

/// A running app of 4 tasks on 2 workers that can change their layout; its producers place by murmur2.
async fn able() -> Memories {
    let world = running().await;
    world.with(|state| state.workers_say.moods.able = true);
    world.apply_app(asks(None, 2));
    world.settle("a").await;
    assert!(world.is_ready("a"));
    world
}

fn asks(partitions: Option<i32>, replicas: i32) -> Value {
    let mut of = subscription("s", "in");
    of["partitionHash"] = json!("murmur2");
    if let Some(partitions) = partitions {
        of["input"]["partitions"] = json!(partitions);
    }
    let app = with(app(), "/spec/subscriptions", json!([of]));
    with(app, "/spec/replicas", json!(replicas))
}

fn plan(world: &Memories) -> RescaleStatus {
    world.status("a").rescale.unwrap()
}

fn document(world: &Memories) -> AssignmentDocument {
    world.with(|state| {
        let map = state.get(Kind::ConfigMap, "a-assignment").unwrap();
        serde_json::from_str(map["data"]["assignment.json"].as_str().unwrap()).unwrap()
    })
}

/// Lets producers have their time, as often as it takes.
async fn to_the_end(world: &Memories) {
    for _ in 0..4 {
        world.settle("a").await;
        if plan(world).over() {
            return;
        }
        pass_seconds(800);
    }
    panic!("{:#?}", world.status("a"));
}

fn assert_laid_out(world: &Memories, partitions: i32, replicas: i32) {
    let status = world.status("a");
    let layout = status.layout.clone().unwrap();
    let plan = status.rescale.clone().unwrap();
    assert_eq!(plan.step, RescaleStep::Settled);
    assert_eq!((layout.epoch, layout.replicas), (plan.epoch, replicas));
    let laid = &layout.subscriptions[0];
    assert_eq!(
        (laid.partitions, laid.store_epoch),
        (partitions, plan.epoch)
    );
    assert_eq!(status.phase, Some(Phase::Running));
    assert!(world.is_ready("a"), "{status:#?}");
    assert_eq!(world.condition("a", "RescaleBlocked").0, "False");
    assert_eq!(world.condition("a", "Rescaling").1, "Settled");
    assert_eq!(world.condition("a", "Stalled").0, "False");
    let document = document(world);
    assert_eq!(document.epoch, plan.epoch);
    // Each task on the pod that the plan named, since its state went there.
    for of in &document.tasks {
        let at = usize::try_from(of.partition).unwrap();
        assert_eq!(of.pod, format!("a-{}", plan.subscriptions[0].pods[at]));
        assert_eq!((of.partitions, of.store_epoch), (partitions, plan.epoch));
    }
    assert_eq!(document.tasks.len(), usize::try_from(partitions).unwrap());
    assert_eq!(
        world.with(|state| state.topics["in"]),
        partitions,
        "the topic"
    );
}

#[tokio::test]
async fn a_changed_count_grows_the_topic_and_moves_the_tasks() {
    let world = able().await;
    let pods = world.with(|state| state.uids_of(Kind::Pod));
    world.apply_app(asks(Some(8), 2));
    world.settle("a").await;
    // Another operator: this one holds figures back for a while.
    world.settle("a").await;
    // Tasks run while producers may still use the old count.
    let waiting = plan(&world);
    assert_eq!(waiting.step, RescaleStep::OldStateReleased);
    assert!(waiting.resumed_at.is_some() && waiting.paused_at.is_some());
    assert!(world.is_ready("a"));
    assert_eq!(world.status("a").phase, Some(Phase::Running));
    assert_eq!(world.condition("a", "Rescaling").0, "True");
    assert_eq!(waiting.tasks.len(), 8, "{:?}", waiting.tasks);
    to_the_end(&world).await;
    assert_laid_out(&world, 8, 2);
    assert_eq!(plan(&world).topics[0].ends, [100, 101, 102, 103]);
    // Nobody was restarted for it.
    assert_eq!(world.with(|state| state.uids_of(Kind::Pod)), pods);
    let signals = world.with(|state| state.signals.clone());
    assert_eq!(signals.iter().filter(|of| **of == "TopicGrown").count(), 1);
}

#[tokio::test]
async fn exactly_once_the_operator_seals_what_a_silent_worker_leaves() {
    let world = able().await;
    let exactly_once = |partitions| {
        with(
            asks(partitions, 2),
            "/spec/subscriptions/0/processingGuarantee",
            json!("exactlyOnce"),
        )
    };
    world.apply_app(exactly_once(None));
    world.settle("a").await;
    world.with(|state| {
        state.workers_say.moods.seal = true;
        state.dumb_when = Some((RescaleStep::Draining, "a-1".to_owned()));
    });
    world.apply_app(exactly_once(Some(8)));
    world.settle("a").await;
    let sealed = world.with(|state| state.sealed.clone());
    let of_pod: Vec<i32> = (0..)
        .zip(&plan(&world).subscriptions[0].old_pods)
        .filter(|(_, pod)| **pod == 1)
        .map(|(partition, _)| partition)
        .collect();
    assert_eq!(sealed, of_pod, "the others sealed their own");
    assert!(plan(&world).step >= RescaleStep::Stopped);
    world.with(|state| {
        state.dumb_when = None;
        state.workers_say.moods.silent.clear();
    });
    to_the_end(&world).await;
    assert_laid_out(&world, 8, 2);
}

#[tokio::test]
async fn wherever_an_operator_is_killed_the_next_one_goes_on() {
    let world = able().await;
    world.apply_app(asks(Some(8), 2));
    let mut killed = 0;
    for _ in 0..400 {
        if world.die_after("a", 1).await {
            killed += 1;
        } else if world.status("a").rescale.is_some_and(|plan| plan.over()) {
            break;
        } else {
            pass_seconds(800);
        }
    }
    assert!(killed > 30, "{killed}");
    to_the_end(&world).await;
    assert_laid_out(&world, 8, 2);
}

#[tokio::test]
async fn a_status_that_is_emptied_at_any_step_is_made_again_from_the_volumes() {
    let world = able().await;
    let lineage = world.status("a").layout.unwrap().lineage;
    world.apply_app(asks(Some(8), 2));
    let mut emptied = std::collections::BTreeSet::new();
    for _ in 0..400 {
        world.die_after("a", 1).await;
        let Some(now) = world.status("a").rescale else {
            continue;
        };
        if now.over() {
            break;
        }
        if emptied.insert(now.step) {
            world.with(|state| {
                state.change(Kind::TurbineApp, "a", |app| app["status"] = json!({}));
            });
        }
        pass_seconds(200);
    }
    assert!(emptied.len() > 8, "{emptied:?}");
    to_the_end(&world).await;
    assert_laid_out(&world, 8, 2);
    assert_eq!(world.status("a").layout.unwrap().lineage, lineage);
}

#[tokio::test]
async fn going_back_before_the_growth_changes_nothing() {
    let world = able().await;
    let before = document(&world);
    world.with(|state| state.workers_say.moods.hold_not = true);
    world.apply_app(asks(Some(8), 2));
    world.settle("a").await;
    assert_eq!(plan(&world).step, RescaleStep::Announced);
    assert!(world.is_ready("a"), "tasks run");
    assert_eq!(world.status("a").phase, Some(Phase::Rescaling));
    world.apply_app(asks(Some(4), 2));
    world.settle("a").await;
    assert_eq!(plan(&world).step, RescaleStep::Undone);
    assert_eq!(document(&world), before);
    assert_eq!(world.with(|state| state.topics["in"]), 4);
    assert_eq!(world.status("a").phase, Some(Phase::Running));
    // The next plan has an epoch of its own.
    world.with(|state| state.workers_say.moods.hold_not = false);
    world.apply_app(asks(Some(8), 2));
    to_the_end(&world).await;
    assert_laid_out(&world, 8, 2);
    assert_eq!(plan(&world).epoch, before.epoch + 2);
}

#[tokio::test]
async fn what_is_refused_leaves_the_app_as_it_is_and_says_why() {
    let world = able().await;
    let before = (document(&world), world.status("a").layout);
    world.with(|state| state.no_alter = true);
    world.apply_app(asks(Some(8), 2));
    world.settle("a").await;
    let (is, reason, words) = world.condition("a", "RescaleBlocked");
    assert_eq!((is.as_str(), reason.as_str()), ("True", "NotAuthorized"));
    assert!(words.contains("ALTER"), "{words}");
    assert_eq!(world.condition("a", "Stalled").1, "NotAuthorized");
    assert!(world.is_ready("a"));
    assert_eq!(world.status("a").rescale, None);
    assert_eq!((document(&world), world.status("a").layout), before);
    // The right is given: it begins by itself.
    world.with(|state| state.no_alter = false);
    to_the_end(&world).await;
    assert_laid_out(&world, 8, 2);
}

#[tokio::test]
async fn a_spec_with_another_subscription_waits_until_tasks_run_again() {
    let world = able().await;
    world.with(|state| {
        state.topics.insert("more".to_owned(), 2);
        state.workers_say.moods.pull_not = true;
    });
    world.apply_app(asks(Some(8), 2));
    world.settle("a").await;
    assert_eq!(plan(&world).step, RescaleStep::Stopped);
    assert_eq!(world.condition("a", "Ready").1, "Rescaling");
    let mut more = asks(Some(8), 2);
    let list = more["spec"]["subscriptions"].as_array_mut().unwrap();
    list.push(subscription("t", "more"));
    world.apply_app(more);
    world.settle("a").await;
    assert_eq!(plan(&world).step, RescaleStep::Stopped);
    let layout = world.status("a").layout.unwrap();
    assert_eq!(layout.subscriptions.len(), 1);
    world.with(|state| state.workers_say.moods.pull_not = false);
    to_the_end(&world).await;
    let status = world.status("a");
    let layout = status.layout.unwrap();
    assert_eq!(layout.subscriptions.len(), 2);
    assert_eq!(layout.epoch, status.rescale.unwrap().epoch + 1);
    // What was added is on the volumes as well.
    let marks = world.with(|state| {
        let claim = state.get(Kind::PersistentVolumeClaim, "state-a-1").unwrap();
        claim["metadata"]["annotations"]["turbine.dev/rescale"]
            .as_str()
            .map(str::to_owned)
    });
    assert!(marks.unwrap().contains("\"more\""));
}

#[tokio::test]
async fn a_lower_count_is_refused_once_the_topic_has_grown_and_waits() {
    let world = able().await;
    world.with(|state| state.workers_say.moods.pull_not = true);
    world.apply_app(asks(Some(8), 2));
    world.settle("a").await;
    world.apply_app(asks(Some(4), 2));
    world.settle("a").await;
    assert_eq!(world.condition("a", "RescaleBlocked").1, "NewerSpecWaits");
    assert_eq!(plan(&world).waiting_generation, Some(4));
    world.with(|state| state.workers_say.moods.pull_not = false);
    to_the_end(&world).await;
    world.settle("a").await;
    assert_eq!(
        world.condition("a", "RescaleBlocked").1,
        "PartitionCountNotLarger"
    );
}

#[tokio::test]
async fn a_topic_that_another_hand_grew_is_taken_as_a_request() {
    let world = able().await;
    world.with(|state| {
        state.topics.insert("in".to_owned(), 12);
    });
    to_the_end(&world).await;
    assert_laid_out(&world, 12, 2);
    let plan = plan(&world);
    assert!(plan.topics[0].foreign);
    // Where each old task stopped: none had met a record of the new placement.
    assert_eq!(plan.topics[0].ends, plan.subscriptions[0].stops);
}

#[tokio::test]
async fn more_workers_take_tasks_over_and_fewer_give_them_away_first() {
    let world = able().await;
    world.apply_app(asks(None, 3));
    to_the_end(&world).await;
    assert_laid_out(&world, 4, 3);
    let stays = |world: &Memories| {
        let plan = plan(world);
        let of = &plan.subscriptions[0];
        (0..of.pods.len())
            .filter(|at| of.old_pods[*at] == of.pods[*at])
            .count()
    };
    assert_eq!(stays(&world), 3, "only one task has to move");

    let fewer = with(
        asks(None, 1),
        "/spec/state/volume/onScaleDown",
        json!("delete"),
    );
    world.apply_app(fewer);
    to_the_end(&world).await;
    assert_laid_out(&world, 4, 1);
    let (pods, claims) = world.with(|state| {
        (
            state.names(Kind::Pod),
            state.names(Kind::PersistentVolumeClaim),
        )
    });
    assert_eq!(pods, ["a-0"]);
    assert_eq!(claims, ["state-a-0"]);
    assert!(plan(&world).release.iter().all(|of| of.empty));
}

#[tokio::test]
async fn a_pod_goes_only_once_its_volume_is_empty_on_record() {
    let world = able().await;
    world.with(|state| {
        let keeps = ("other".to_owned(), 1);
        let volume = state.workers_say.volumes.get_mut("a-1").unwrap();
        volume.stores.push(keeps);
    });
    world.apply_app(asks(None, 1));
    world.settle("a").await;
    assert_eq!(plan(&world).step, RescaleStep::OldStateReleased);
    assert_eq!(world.with(|state| state.names(Kind::Pod)), ["a-0", "a-1"]);
    world.settle("a").await;
    let blocked = plan(&world).blocked_by.unwrap();
    assert!(blocked.contains("state-a-1"), "{blocked}");
    world.with(|state| {
        let volume = state.workers_say.volumes.get_mut("a-1").unwrap();
        volume.stores.retain(|(name, _)| name != "other");
    });
    to_the_end(&world).await;
    assert_eq!(world.with(|state| state.names(Kind::Pod)), ["a-0"]);
    // Retained, as is the default.
    assert_eq!(
        world.with(|state| state.names(Kind::PersistentVolumeClaim)),
        ["state-a-0", "state-a-1"]
    );
}

#[tokio::test]
async fn workers_that_cannot_change_their_layout_keep_it() {
    let world = able().await;
    world.with(|state| state.workers_say.moods.able = false);
    world.apply_app(asks(Some(8), 2));
    world.settle("a").await;
    assert_eq!(
        world.condition("a", "RescaleBlocked").1,
        "RescaleNotSupported"
    );
    assert_eq!(world.status("a").rescale, None);
    assert_eq!(world.with(|state| state.topics["in"]), 4);
    assert!(world.with(|state| {
        let receipts = &state.workers_say.receipts;
        receipts[&task("s", 0)].epoch == 1
    }));
}

#[tokio::test]
async fn a_preview_says_what_would_happen_and_changes_nothing() {
    let world = able().await;
    let before = (document(&world), world.status("a").layout);
    let preview = |asked: Value| {
        world.with(|state| {
            state.change(Kind::TurbineApp, "a", |app| {
                app["metadata"]["annotations"]["turbine.dev/rescale-preview"] =
                    json!(asked.to_string());
            });
        });
    };
    preview(json!({"id": "1", "partitions": {"s": 8}, "replicas": 3}));
    world.settle("a").await;
    let answer = world.status("a").rescale_preview.unwrap();
    assert_eq!(
        (answer.id.as_str(), answer.refusals.len()),
        ("1", 0),
        "{answer:?}"
    );
    let topic = &answer.topics[0];
    assert_eq!((topic.name.as_str(), topic.from, topic.to), ("in", 4, 8));
    // Of 8 tasks at least 2 lie on the new worker, with 120 of the 960 key groups each.
    let to_new = answer.moves.iter().filter(|of| of.to_pod == 2);
    assert!(to_new.map(|of| of.key_groups).sum::<i32>() >= 240);
    let bytes: i64 = answer.moves.iter().map(|of| of.bytes).sum();
    assert!(bytes > 0 && bytes == answer.bytes_to_move);

    preview(json!({"id": "2", "partitions": {"s": 7}}));
    world.settle("a").await;
    let answer = world.status("a").rescale_preview.unwrap();
    assert_eq!(answer.id, "2");
    assert!(answer.refusals[0].contains("960"), "{answer:?}");
    assert_eq!(answer.topics, []);

    world.with(|state| {
        state.change(Kind::TurbineApp, "a", |app| {
            app["metadata"]["annotations"] = json!({});
        });
    });
    world.settle("a").await;
    let status = world.status("a");
    assert_eq!((status.rescale_preview, status.rescale), (None, None));
    assert_eq!((document(&world), world.status("a").layout), before);
    assert_eq!(world.with(|state| state.topics["in"]), 4);
}
