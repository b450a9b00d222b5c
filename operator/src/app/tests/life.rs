//! Start, change, stop and end of an app.

use serde_json::json;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::control::{MissingRecords, OpenTransaction, TaskCheckpoint};
use turbine_crds::status::{Phase, TopicRole};

use super::world::{Memories, NAMESPACE};
use super::{app, running, subscription, with, world};
use crate::app::{Pace, pass};
use crate::cluster::Kind;

fn document(world: &Memories) -> AssignmentDocument {
    world.with(|state| {
        let map = state.get(Kind::ConfigMap, "a-assignment").unwrap();
        serde_json::from_str(map["data"]["assignment.json"].as_str().unwrap()).unwrap()
    })
}

#[tokio::test]
async fn an_app_comes_to_run_and_says_so() {
    let world = running().await;
    let status = world.status("a");
    assert_eq!(status.phase, Some(Phase::Running));
    assert_eq!(status.observed_generation, Some(1));
    assert!(
        status
            .conditions
            .iter()
            .all(|of| of.observed_generation == Some(1))
    );
    assert_eq!((status.replicas, status.ready_replicas), (Some(2), Some(2)));
    assert_eq!(status.partitions.as_deref(), Some("4"));
    let layout = status.layout.unwrap();
    assert_eq!((layout.epoch, layout.replicas), (1, 2));
    assert_eq!(
        world.with(|state| state.topics.get("s-out").copied()),
        Some(4)
    );
    let out = status
        .topics
        .iter()
        .find(|topic| topic.name == "s-out")
        .unwrap();
    assert!(out.created && out.role == TopicRole::Output);
    assert_eq!(
        document(&world)
            .tasks
            .iter()
            .filter(|task| task.pod == "a-0")
            .count(),
        2
    );
}

#[tokio::test]
async fn a_second_pass_writes_nothing() {
    let world = running().await;
    let before = world.with(|state| state.writes.len());
    // Of the same operator, and of one that remembers nothing.
    let operator = world.operator();
    for operator in [&operator, &operator, &world.operator()] {
        let outcome = pass(operator, NAMESPACE, "a").await.unwrap();
        assert_eq!(outcome.pace, Pace::Settled);
        assert!(!outcome.changed);
    }
    assert_eq!(world.with(|state| state.writes.len()), before);
}

#[tokio::test]
async fn the_layout_is_on_record_before_any_topic_or_pod_exists() {
    let world = world();
    world.apply_app(app());
    // Killed after each write of the start, whatever exists must be on record.
    for _ in 0..60 {
        if !world.die_after("a", 1).await {
            break;
        }
        let status = world.status("a");
        let (topic, set) = world.with(|state| {
            (
                state.topics.contains_key("s-out"),
                state.has(Kind::StatefulSet, "a"),
            )
        });
        if topic || set {
            assert!(status.layout.is_some());
            assert!(
                status
                    .topics
                    .iter()
                    .any(|topic| topic.name == "s-out" && topic.created)
            );
            assert!(status.accepted_revision.is_some());
        }
    }
    world.settle("a").await;
    assert!(world.is_ready("a"));
}

#[tokio::test]
async fn a_new_generation_is_unknown_first_and_ready_last() {
    let world = running().await;
    world.apply_app(with(app(), "/spec/restartNonce", json!("again")));
    assert!(world.die_after("a", 1).await);
    let status = world.status("a");
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(world.condition("a", "Ready").0, "Unknown");
    assert_eq!(world.condition("a", "Reconciling").0, "True");
    world.settle("a").await;
    assert!(world.is_ready("a"));
    let last = world.with(|state| state.writes.last().cloned()).unwrap();
    assert!(last.starts_with("status "), "{last}");
}

#[tokio::test]
async fn an_added_subscription_moves_no_task_and_gets_stores_of_its_own() {
    let world = running().await;
    let before = document(&world);
    world.with(|state| state.topics.insert("more".to_owned(), 3));
    world.apply_app(with(
        app(),
        "/spec/subscriptions",
        json!([subscription("b", "more"), subscription("s", "in")]),
    ));
    world.settle("a").await;
    assert!(world.is_ready("a"), "{:#?}", world.status("a"));
    let after = document(&world);
    assert_eq!(after.epoch, before.epoch + 1);
    for task in &before.tasks {
        assert!(after.tasks.contains(task), "{task:?} moved");
    }
    let new: Vec<_> = after
        .tasks
        .iter()
        .filter(|task| task.subscription == "b")
        .collect();
    assert_eq!(new.len(), 3);
    assert!(new.iter().all(|task| task.store_epoch == after.epoch));
}

#[tokio::test]
async fn a_subscription_that_comes_back_finds_its_stores() {
    let world = running().await;
    world.with(|state| state.topics.insert("more".to_owned(), 2));
    let both = with(
        app(),
        "/spec/subscriptions",
        json!([subscription("b", "more"), subscription("s", "in")]),
    );
    world.apply_app(both.clone());
    world.settle("a").await;
    let before = document(&world);
    world.apply_app(app());
    world.settle("a").await;
    let without = document(&world);
    assert!(without.tasks.iter().all(|task| task.subscription == "s"));
    assert_eq!(without.epoch, before.epoch + 1);
    world.apply_app(both);
    world.settle("a").await;
    let back = document(&world);
    assert_eq!(back.tasks, before.tasks);
    assert_eq!(back.epoch, before.epoch + 2);
}

#[tokio::test]
async fn a_suspended_app_stops_its_pods_and_keeps_the_rest() {
    let world = running().await;
    let before = world.status("a").layout;
    world.apply_app(with(app(), "/spec/suspend", json!(true)));
    world.settle("a").await;
    assert_eq!(world.status("a").phase, Some(Phase::Suspended));
    assert_eq!(world.condition("a", "Ready").1, "Suspended");
    assert_eq!(
        world.with(|state| state.names(Kind::Pod)),
        Vec::<String>::new()
    );
    assert_eq!(
        world
            .with(|state| state.names(Kind::PersistentVolumeClaim))
            .len(),
        2
    );
    assert_eq!(world.status("a").layout, before);
    world.apply_app(app());
    world.settle("a").await;
    assert!(world.is_ready("a"));
}

#[tokio::test]
async fn an_app_can_be_suspended_while_kafka_is_away() {
    let world = running().await;
    world.with(|state| state.kafka_down = true);
    world.apply_app(with(app(), "/spec/suspend", json!(true)));
    world.settle("a").await;
    assert_eq!(world.status("a").phase, Some(Phase::Suspended));
}

#[tokio::test]
async fn volumes_grow_around_running_pods() {
    let world = running().await;
    let pods = |world: &Memories| {
        world.with(|state| {
            state
                .names(Kind::Pod)
                .iter()
                .map(|pod| state.get(Kind::Pod, pod).unwrap()["metadata"]["uid"].clone())
                .collect::<Vec<_>>()
        })
    };
    let before = pods(&world);
    world.apply_app(with(app(), "/spec/state/volume/size", json!("2Gi")));
    world.settle("a").await;
    assert!(world.is_ready("a"));
    world.with(|state| {
        for claim in state.names(Kind::PersistentVolumeClaim) {
            assert_eq!(state.get(Kind::PersistentVolumeClaim, &claim).unwrap()["spec"]["resources"]["requests"]["storage"], "2Gi");
        }
        let set = state.get(Kind::StatefulSet, "a").unwrap();
        assert_eq!(set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"], "2Gi");
        assert!(state.signals.contains(&"VolumeGrown") && state.signals.contains(&"StatefulSetMadeAgain"));
    });
    assert_eq!(pods(&world), before);
}

#[tokio::test]
async fn workers_scaled_beside_the_app_are_set_back() {
    let world = running().await;
    world.with(|state| {
        state.change(Kind::StatefulSet, "a", |set| {
            set["spec"]["replicas"] = json!(5)
        })
    });
    world.settle("a").await;
    world.with(|state| {
        assert_eq!(
            state.get(Kind::StatefulSet, "a").unwrap()["spec"]["replicas"],
            2
        );
        assert!(state.signals.contains(&"ScaledBack"));
    });
    assert_eq!(world.status("a").layout.unwrap().epoch, 1);
}

#[tokio::test]
async fn deletion_keeps_volumes_and_topics_unless_asked() {
    let world = running().await;
    world.delete_app("a");
    world.settle("a").await;
    world.with(|state| {
        assert!(!state.has(Kind::TurbineApp, "a"));
        assert_eq!(state.names(Kind::PersistentVolumeClaim).len(), 2);
        assert!(state.topics.contains_key("s-out"));
    });
}

#[tokio::test]
async fn deletion_removes_what_the_spec_asks_and_only_that() {
    let world = world();
    world.with(|state| state.topics.insert("dead".to_owned(), 1));
    let mut spec = with(app(), "/spec/topics", json!({"onDelete": "delete"}));
    spec["spec"]["state"]["volume"]["onDelete"] = json!("delete");
    spec["spec"]["subscriptions"][0]["input"]["onError"] = json!("dlq");
    spec["spec"]["subscriptions"][0]["input"]["dlq"] = json!("dead");
    world.apply_app(spec);
    world.settle("a").await;
    assert!(world.is_ready("a"));
    world.delete_app("a");
    world.settle("a").await;
    world.with(|state| {
        assert!(!state.has(Kind::TurbineApp, "a"));
        assert_eq!(
            state.names(Kind::PersistentVolumeClaim),
            Vec::<String>::new()
        );
        // `in` is an input, `dead` was there before the app.
        assert_eq!(
            state.topics.keys().cloned().collect::<Vec<_>>(),
            ["dead", "in"]
        );
    });
}

#[tokio::test]
async fn deletion_does_not_wait_for_kafka_for_ever() {
    let world = world();
    world.apply_app(with(app(), "/spec/topics", json!({"onDelete": "delete"})));
    world.settle("a").await;
    world.with(|state| state.kafka_down = true);
    // The clock of this world stands far behind the time of deletion plus the deadline.
    world.delete_app("a");
    world.with(|state| {
        state.change(Kind::TurbineApp, "a", |app| {
            app["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z")
        });
    });
    world.settle("a").await;
    world.with(|state| {
        assert!(!state.has(Kind::TurbineApp, "a"));
        assert!(state.signals.contains(&"LeftBehind"));
        assert!(state.topics.contains_key("s-out"));
    });
}

#[tokio::test]
async fn an_app_made_anew_resumes_from_its_kept_volumes() {
    let world = running().await;
    let before = world.status("a").layout.unwrap();
    world.delete_app("a");
    world.apply_app(app());
    world.settle("a").await;
    assert!(world.is_ready("a"), "{:#?}", world.status("a"));
    let after = world.status("a").layout.unwrap();
    assert_eq!(after, before);
    let told = world.with(|state| {
        let told = state.signals.iter().filter(|of| **of == "StateAdopted");
        told.count()
    });
    assert_eq!(told, 1, "people are told once");
}

#[tokio::test]
async fn an_app_made_anew_may_discard_what_was_kept() {
    let world = running().await;
    let before = world.status("a").layout.unwrap();
    let claims = world.with(|state| state.names(Kind::PersistentVolumeClaim));
    world.delete_app("a");
    world.apply_app(with(app(), "/spec/state/onRecreate", json!("discard")));
    world.settle("a").await;
    assert!(world.is_ready("a"));
    assert_ne!(world.status("a").layout.unwrap().lineage, before.lineage);
    assert_eq!(
        world.with(|state| state.names(Kind::PersistentVolumeClaim)),
        claims
    );
    assert!(world.with(|state| state.signals.contains(&"VolumeDeleted")));
}

#[tokio::test]
async fn a_lost_status_is_rebuilt_from_the_volumes_whatever_the_policy() {
    for policy in ["refuse", "discard", "adopt"] {
        let world = world();
        world.apply_app(with(app(), "/spec/state/onRecreate", json!(policy)));
        world.settle("a").await;
        let before = world.status("a").layout;
        world.with(|state| {
            state.change(Kind::TurbineApp, "a", |app| {
                app.as_object_mut().unwrap().remove("status");
            });
        });
        world.settle("a").await;
        assert!(world.is_ready("a"), "{policy}");
        assert_eq!(world.status("a").layout, before, "{policy}");
    }
}

#[tokio::test]
async fn old_accepted_specs_go_and_the_running_one_stays() {
    let world = running().await;
    for nonce in 0..8 {
        world.apply_app(with(app(), "/spec/restartNonce", json!(nonce.to_string())));
        world.settle("a").await;
    }
    let kept = world.with(|state| state.names(Kind::ControllerRevision));
    assert_eq!(kept.len(), 5);
    assert!(kept.contains(&world.status("a").accepted_revision.unwrap()));
}

#[tokio::test]
async fn the_stuck_pod_of_an_old_revision_is_replaced_and_only_that_one() {
    let world = running().await;
    let stuck = |pod: &str, revision: &str, since: &str| {
        world.with(|state| {
            state.change(Kind::Pod, pod, |pod| {
                pod["metadata"]["labels"]["controller-revision-hash"] = json!(revision);
                pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": since}]);
                pod["status"]["containerStatuses"] = json!([{"name": "worker", "state": {"waiting": {
                    "reason": "ImagePullBackOff", "message": "no such image",
                }}}]);
            });
        });
    };
    let now = "2027-01-15T07:59:55Z";
    let long_ago = "2027-01-15T07:00:00Z";
    let current = world.with(|state| {
        state.get(Kind::Pod, "a-0").unwrap()["metadata"]["labels"]["controller-revision-hash"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    let operator = world.operator();
    let replaced = async || {
        let before = world.with(|state| state.names(Kind::Pod));
        pass(&operator, NAMESPACE, "a").await.unwrap();
        let after = world.with(|state| state.names(Kind::Pod));
        before
            .into_iter()
            .filter(|pod| !after.contains(pod))
            .collect::<Vec<_>>()
    };
    // Of the current revision: the image may still come.
    stuck("a-0", &current, long_ago);
    // Of an old one, but only just.
    stuck("a-1", "old", now);
    assert_eq!(replaced().await, Vec::<String>::new());
    let (is, reason, message) = world.condition("a", "Degraded");
    assert_eq!((is.as_str(), reason.as_str()), ("True", "ImagePullFailed"));
    assert!(
        message.contains("a-0") && message.contains("no such image"),
        "{message}"
    );

    stuck("a-1", "old", long_ago);
    assert_eq!(replaced().await, ["a-1"]);
    assert!(world.with(|state| state.signals.contains(&"StuckPodReplaced")));
    assert!(world.with(|state| state.has(Kind::PersistentVolumeClaim, "state-a-1")));
}

#[tokio::test]
async fn a_volume_that_does_not_come_is_named_with_the_scheduler_s_words() {
    let world = running().await;
    world.with(|state| {
        state.change(Kind::PersistentVolumeClaim, "state-a-1", |claim| {
            claim["spec"]["storageClassName"] = json!("does-not-exist");
            claim["status"] = json!({"phase": "Pending"});
        });
        state.change(Kind::Pod, "a-1", |pod| {
            pod["status"] = json!({"phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims",
            }]});
        });
    });
    pass(&world.operator(), NAMESPACE, "a").await.unwrap();
    let (is, reason, message) = world.condition("a", "Ready");
    assert_eq!((is.as_str(), reason.as_str()), ("False", "VolumePending"));
    for word in ["state-a-1", "does-not-exist", "0/1 nodes are available"] {
        assert!(message.contains(word), "{message}");
    }
}

#[tokio::test]
async fn a_port_that_somebody_added_to_the_service_is_gone_after_one_pass() {
    let world = running().await;
    let service = |world: &Memories| {
        world.with(|state| state.get(Kind::Service, "a-workers").unwrap().clone())
    };
    let before = service(&world);
    world.with(|state| {
        state.change(Kind::Service, "a-workers", |service| {
            let ports = service["spec"]["ports"].as_array_mut().unwrap();
            ports.push(json!({"name": "x", "port": 1}));
        });
    });
    world.settle("a").await;
    let after = service(&world);
    assert_eq!(after["spec"], before["spec"]);
    assert_ne!(
        after["metadata"]["uid"], before["metadata"]["uid"],
        "an apply would have left the port where it was"
    );
}

/// The task runs, and whoever looks at the app sees that its results are not whole.
#[tokio::test]
async fn state_that_lacks_records_degrades_the_app_and_stops_nothing() {
    let world = running().await;
    world.with(|state| {
        let tasks = &mut state.workers.get_mut("a-0").unwrap().tasks;
        tasks[0].missing = Some(MissingRecords {
            from: 100,
            to: 250,
            count: 150,
        });
    });
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "Degraded");
    assert_eq!((is.as_str(), reason.as_str()), ("True", "StateIncomplete"));
    assert!(
        message.contains("from offset 100 to 250 (150 offsets)"),
        "{message}"
    );
    assert!(world.is_ready("a"));
}

#[tokio::test]
async fn checkpoints_that_fail_degrade_the_app_in_words_that_stay_and_stop_nothing() {
    let world = running().await;
    let fails = |error: Option<&str>| {
        world.with(|state| {
            let tasks = &mut state.workers.get_mut("a-0").unwrap().tasks;
            tasks[0].checkpoint = Some(TaskCheckpoint {
                last: None,
                error: error.map(str::to_owned),
            });
        });
    };
    fails(Some("the bucket says no, request 1"));
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "Degraded");
    assert_eq!(
        (is.as_str(), reason.as_str()),
        ("True", "CheckpointsFailing")
    );
    assert!(world.is_ready("a"));

    fails(Some("the bucket says no, request 2"));
    world.settle("a").await;
    assert_eq!(world.condition("a", "Degraded").2, message);
    fails(None);
    world.settle("a").await;
    assert_eq!(world.condition("a", "Degraded").0, "False");
}

/// The tasks run, nothing is asked of the workers, and the input's producer is to be looked for.
#[tokio::test]
async fn an_open_transaction_in_an_input_degrades_the_app_by_name_and_passes_with_it() {
    let world = running().await;
    let report = |hidden| {
        world.with(|state| {
            let tasks = &mut state.workers.get_mut("a-0").unwrap().tasks;
            tasks[0].open_transaction = Some(OpenTransaction {
                offset: 17,
                since_ms: 1_798_761_600_000, // 2027-01-01T00:00:00Z
                hidden,
            });
        });
    };
    report(3);
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "Degraded");
    assert_eq!((is.as_str(), reason.as_str()), ("True", "TransactionOpen"));
    assert!(
        message.contains("at offset 17 since 2027-01-01T00:00:00Z"),
        "{message}"
    );
    assert!(world.is_ready("a"));

    report(900);
    world.settle("a").await;
    assert_eq!(
        world.condition("a", "Degraded").2,
        message,
        "words that stay"
    );
    world.with(|state| {
        state.workers.get_mut("a-0").unwrap().tasks[0].open_transaction = None;
    });
    world.settle("a").await;
    assert_eq!(world.condition("a", "Degraded").0, "False");
}
