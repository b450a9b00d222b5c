//! What is refused, in which words, and that it goes away by itself once the cause does.

use serde_json::json;
use turbine_crds::control::{TaskHalt, TaskState};
use turbine_crds::status::Phase;

use super::{app, running, with, world};
use crate::app::Pace;
use crate::app::tests::subscription;
use crate::cluster::Kind;
use crate::kafka::TopicKept;

#[tokio::test]
async fn a_count_that_does_not_divide_960_starts_nothing_and_names_its_neighbours() {
    let world = world();
    world.with(|state| state.topics.insert("in".to_owned(), 7));
    world.apply_app(app());
    let outcome = world.settle("a").await;
    assert_eq!(outcome.pace, Pace::Blocked);
    let (is, reason, message) = world.condition("a", "TopicsReady");
    assert_eq!(
        (is.as_str(), reason.as_str()),
        ("False", "PartitionCountNotDivisor")
    );
    for word in ["`in`", "7 partitions", "6 and 8"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(world.condition("a", "Stalled").0, "True");
    world.with(|state| {
        assert!(!state.has(Kind::StatefulSet, "a"));
        assert!(!state.topics.contains_key("s-out"));
        state.topics.insert("in".to_owned(), 8);
    });
    world.settle("a").await;
    assert!(world.is_ready("a"));
    assert_eq!(world.condition("a", "Stalled").0, "False");
}

#[tokio::test]
async fn a_missing_input_is_named_never_made_and_waited_for() {
    let world = world();
    world.with(|state| state.topics.clear());
    world.apply_app(app());
    world.settle("a").await;
    assert_eq!(world.condition("a", "Ready").1, "InputTopicMissing");
    assert!(
        world.with(|state| state.topics.is_empty() && state.names(Kind::StatefulSet).is_empty())
    );
    world.with(|state| state.topics.insert("in".to_owned(), 4));
    world.settle("a").await;
    assert!(world.is_ready("a"));
}

#[tokio::test]
async fn without_kafka_nothing_starts_and_what_runs_goes_on() {
    let world = world();
    world.with(|state| state.kafka_down = true);
    world.apply_app(app());
    let outcome = world.settle("a").await;
    assert_eq!(outcome.pace, Pace::Blocked);
    assert_eq!(world.condition("a", "Ready").1, "KafkaUnreachable");
    assert_eq!(world.condition("a", "Stalled").0, "False");
    world.with(|state| state.kafka_down = false);
    world.settle("a").await;
    assert!(world.is_ready("a"));

    world.with(|state| state.kafka_down = true);
    world.settle("a").await;
    assert_eq!(world.condition("a", "TopicsReady").0, "Unknown");
    assert_eq!(world.condition("a", "Degraded").0, "True");
    assert_eq!(world.with(|state| state.names(Kind::Pod)).len(), 2);
    world.with(|state| state.kafka_down = false);
    world.settle("a").await;
    assert_eq!(world.condition("a", "Degraded").0, "False");
}

#[tokio::test]
async fn a_bad_spec_leaves_the_running_app_alone() {
    let world = running().await;
    let before = world.with(|state| state.get(Kind::StatefulSet, "a").cloned());
    let mut bad = app();
    bad["spec"]["subscriptions"][0]["partitionKey"] = json!("no_such_column");
    bad["spec"]["restartNonce"] = json!("would restart");
    world.apply_app(bad);
    world.settle("a").await;
    assert_eq!(world.condition("a", "SpecValid").0, "False");
    assert_eq!(world.condition("a", "Stalled").0, "True");
    assert!(!world.is_ready("a"));
    assert_eq!(world.status("a").phase, Some(Phase::Running));
    let spec = |set: Option<serde_json::Value>| set.unwrap()["spec"].clone();
    assert_eq!(
        spec(world.with(|state| state.get(Kind::StatefulSet, "a").cloned())),
        spec(before)
    );
    world.apply_app(app());
    world.settle("a").await;
    assert!(world.is_ready("a"));
}

#[tokio::test]
async fn another_topic_or_key_for_a_subscription_with_state_is_refused() {
    let world = running().await;
    world.with(|state| state.topics.insert("other".to_owned(), 4));
    world.apply_app(with(
        app(),
        "/spec/subscriptions",
        json!([subscription("s", "other")]),
    ));
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "SpecValid");
    assert_eq!((is.as_str(), reason.as_str()), ("False", "ChangeRefused"));
    assert!(
        message.contains("spec.subscriptions[0].input.topic"),
        "{message}"
    );
    assert_eq!(
        world.status("a").layout.unwrap().subscriptions[0].topic,
        "in"
    );
}

#[rstest::rstest]
#[case::size("/tumbling/size", json!("2m"), "windows[0].tumbling.size")]
#[case::keys("/keys", json!(["user", "ts"]), "windows[0].keys")]
#[case::function("/aggregates", json!([{"max": "amount", "as": "total"}]), "windows[0].aggregates")]
#[case::one_more("/aggregates", json!([{"sum": "amount", "as": "total"}, {"count": {}, "as": "n"}]), "windows[0].aggregates")]
#[tokio::test]
async fn a_window_that_changes_its_meaning_under_its_name_is_refused_and_the_old_one_runs_on(
    #[case] field: &str,
    #[case] value: serde_json::Value,
    #[case] named: &str,
) {
    let world = running().await;
    let accepted = world.status("a").accepted_revision;
    let changed = with(
        app(),
        &format!("/spec/subscriptions/0/windows/0{field}"),
        value.clone(),
    );
    world.apply_app(changed.clone());
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "SpecValid");
    assert_eq!((is.as_str(), reason.as_str()), ("False", "ChangeRefused"));
    assert!(message.contains(named), "{message}");
    assert_eq!(world.status("a").accepted_revision, accepted);

    world.apply_app(with(
        changed,
        "/spec/subscriptions/0/windows/0/name",
        json!("another"),
    ));
    world.settle("a").await;
    assert!(world.is_ready("a"), "under another name it runs");
}

#[tokio::test]
async fn a_name_that_comes_back_means_what_it_meant_before() {
    let world = running().await;
    let window = "/spec/subscriptions/0/windows/0";
    world.apply_app(with(app(), &format!("{window}/name"), json!("between")));
    world.settle("a").await;
    assert!(world.is_ready("a"));
    world.apply_app(with(app(), &format!("{window}/tumbling/size"), json!("7m")));
    world.settle("a").await;
    let (_, reason, message) = world.condition("a", "SpecValid");
    assert_eq!(reason, "ChangeRefused");
    assert!(message.contains("windows[0].tumbling.size"), "{message}");

    world.with(|state| state.topics.insert("other".to_owned(), 4));
    world.apply_app(with(
        app(),
        "/spec/subscriptions",
        json!([subscription("t", "other")]),
    ));
    world.settle("a").await;
    assert!(world.is_ready("a"));
    world.apply_app(with(
        app(),
        "/spec/subscriptions",
        json!([subscription("s", "other")]),
    ));
    world.settle("a").await;
    let (_, reason, message) = world.condition("a", "SpecValid");
    assert_eq!(reason, "ChangeRefused");
    assert!(
        message.contains("state and offsets of topic `in`"),
        "{message}"
    );
}

#[tokio::test]
async fn another_name_of_a_result_and_more_lateness_are_taken() {
    let world = running().await;
    let window = "/spec/subscriptions/0/windows/0";
    let renamed = with(
        app(),
        &format!("{window}/aggregates"),
        json!([{"sum": "amount", "as": "amounts"}]),
    );
    world.apply_app(with(
        renamed,
        &format!("{window}/allowedLateness"),
        json!("1m"),
    ));
    world.settle("a").await;
    assert!(world.is_ready("a"), "{:#?}", world.status("a"));
}

#[tokio::test]
async fn another_number_of_workers_is_blocked_and_going_back_clears_it() {
    let world = running().await;
    let before = world.status("a").layout;
    world.apply_app(with(app(), "/spec/replicas", json!(3)));
    world.settle("a").await;
    let (is, _, message) = world.condition("a", "RescaleBlocked");
    assert_eq!(is, "True");
    assert!(message.contains("spec.replicas is 3"), "{message}");
    assert_eq!(world.status("a").layout, before);
    assert_eq!(world.with(|state| state.names(Kind::Pod)).len(), 2);
    world.apply_app(app());
    world.settle("a").await;
    assert_eq!(world.condition("a", "RescaleBlocked").0, "False");
    assert!(world.is_ready("a"));
}

#[tokio::test]
async fn a_topic_grown_by_others_is_reported_and_the_layout_stays() {
    let world = running().await;
    world.with(|state| state.topics.insert("in".to_owned(), 8));
    world.settle("a").await;
    assert_eq!(world.condition("a", "RescaleBlocked").0, "True");
    let (is, _, message) = world.condition("a", "Degraded");
    assert_eq!(is, "True");
    assert!(message.contains("`in` has 8 partitions"), "{message}");
    assert_eq!(
        world.status("a").layout.unwrap().subscriptions[0].partitions,
        4
    );
}

#[tokio::test]
async fn an_object_of_our_name_that_is_not_ours_is_left_alone() {
    let world = world();
    let foreign = json!({"metadata": {"name": "a"}, "spec": {"replicas": 7}});
    world.with(|state| state.insert(Kind::StatefulSet, foreign));
    world.apply_app(app());
    // Its controller would make pods of it; only the operator acts here.
    let operator = world.operator();
    for _ in 0..3 {
        crate::app::pass(&operator, world::NAMESPACE, "a")
            .await
            .unwrap();
    }
    let (_, reason, message) = world.condition("a", "Stalled");
    assert_eq!(reason, "ForeignObject");
    assert!(message.contains("StatefulSet a"), "{message}");
    assert_eq!(
        world.with(|state| state.get(Kind::StatefulSet, "a").unwrap()["spec"]["replicas"].clone()),
        7
    );
}

#[tokio::test]
async fn a_foreign_volume_of_our_name_is_neither_used_nor_touched() {
    let world = world();
    let foreign = json!({"metadata": {"name": "state-a-1"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    world.with(|state| state.insert(Kind::PersistentVolumeClaim, foreign));
    world.apply_app(app());
    world.settle("a").await;
    assert_eq!(world.condition("a", "Stalled").1, "ForeignObject");
    assert!(world.with(|state| !state.has(Kind::StatefulSet, "a")));
    assert!(world.with(|state| {
        state.get(Kind::PersistentVolumeClaim, "state-a-1").unwrap()["metadata"]["labels"].is_null()
    }));
}

#[tokio::test]
async fn kept_volumes_and_refuse_show_the_choice_and_start_nothing() {
    let world = running().await;
    world.delete_app("a");
    world.apply_app(with(app(), "/spec/state/onRecreate", json!("refuse")));
    world.settle("a").await;
    let (_, reason, message) = world.condition("a", "Stalled");
    assert_eq!(reason, "KeptStateFound");
    for word in ["adopt", "discard", "state-a-0"] {
        assert!(message.contains(word), "{message}");
    }
    assert!(world.with(|state| !state.has(Kind::StatefulSet, "a")));
}

#[tokio::test]
async fn half_of_the_kept_volumes_are_not_enough() {
    let world = running().await;
    world.delete_app("a");
    world.with(|state| state.objects.retain(|(_, _, name), _| name != "state-a-1"));
    world.apply_app(app());
    world.settle("a").await;
    let (_, reason, message) = world.condition("a", "Stalled");
    assert_eq!(reason, "KeptStateUnusable");
    assert!(message.contains("state-a-1 is missing"), "{message}");
    assert!(world.with(|state| !state.has(Kind::StatefulSet, "a")));
}

#[tokio::test]
async fn the_second_app_with_one_identity_is_refused_by_name() {
    let world = running().await;
    let mut twin = app();
    twin["metadata"]["name"] = json!("twin");
    twin["spec"]["appId"] = json!("a");
    twin["spec"]["kafka"]["bootstrapServers"] = json!("another-name-of-the-same:9092");
    world.apply_app(twin);
    world.settle("twin").await;
    let (_, reason, message) = world.condition("twin", "Stalled");
    assert_eq!(reason, "IdentityTaken");
    assert!(message.contains("test/a"), "{message}");
    assert!(world.with(|state| !state.has(Kind::StatefulSet, "twin")));
    world.settle("a").await;
    assert!(world.is_ready("a"));
}

/// The app as the operator's watch shows it where it lives in that namespace.
fn in_namespace(world: &world::Memories, name: &str, namespace: &str) -> serde_json::Value {
    let mut app = world.with(|state| state.get(Kind::TurbineApp, name).unwrap().clone());
    app["metadata"]["namespace"] = json!(namespace);
    app
}

/// Both could be made at the same time, and each sees the other in a namespace that is not its own.
#[tokio::test]
async fn of_two_apps_of_one_name_in_two_namespaces_the_one_that_runs_stays_and_the_other_is_refused()
 {
    let orders = || with(app(), "/metadata/name", json!("orders"));
    let first = world();
    first.apply_app(orders());
    first.settle("orders").await;
    assert!(first.is_ready("orders"));

    let second = world();
    second.with(|state| {
        state.topics.insert("s-out".to_owned(), 4);
        state.elsewhere = vec![in_namespace(&first, "orders", "prod")];
    });
    second.apply_app(orders());
    second.settle("orders").await;
    let (_, reason, message) = second.condition("orders", "Stalled");
    assert_eq!(reason, "IdentityTaken");
    for word in ["prod/orders", "`orders`", "spec.appId"] {
        assert!(message.contains(word), "{message}");
    }
    for kind in [Kind::StatefulSet, Kind::Pod] {
        let made = second.with(|state| state.names(kind));
        assert_eq!(made, Vec::<String>::new());
    }

    // The one that runs is not moved by the other.
    let writes = first.with(|state| state.writes.len());
    first.with(|state| state.elsewhere = vec![in_namespace(&second, "orders", "dev")]);
    first.settle("orders").await;
    assert!(first.is_ready("orders"));
    assert_eq!(first.with(|state| state.writes.len()), writes);

    second.with(|state| state.elsewhere.clear());
    second.settle("orders").await;
    assert!(second.is_ready("orders"), "{:#?}", second.status("orders"));
}

#[tokio::test]
async fn a_missing_right_is_said_once_and_tried_again() {
    let world = world();
    world.with(|state| state.forbidden.insert(Kind::StatefulSet));
    world.apply_app(app());
    let operator = world.operator();
    let outcome = world.drive(&operator, "a").await.unwrap();
    assert_eq!(outcome.pace, Pace::Blocked);
    assert_eq!(world.condition("a", "Ready").1, "Forbidden");
    let before = world.with(|state| state.writes.len());
    world.drive(&operator, "a").await.unwrap();
    assert_eq!(world.with(|state| state.writes.len()), before);
    world.with(|state| state.forbidden.clear());
    world.drive(&operator, "a").await.unwrap();
    assert!(world.is_ready("a"), "{:#?}", world.status("a"));
}

#[tokio::test]
async fn a_missing_secret_is_named() {
    let world = world();
    let sasl = json!({
        "mechanism": "SCRAM-SHA-512",
        "username": {"secret": "login", "key": "user"},
        "password": {"secret": "login", "key": "password"},
    });
    world.apply_app(with(app(), "/spec/kafka/sasl", sasl));
    world.settle("a").await;
    let (_, reason, message) = world.condition("a", "Ready");
    assert_eq!(reason, "SecretMissing");
    assert!(
        message.contains("login") && message.contains("user"),
        "{message}"
    );
    world.with(|state| {
        let data = json!({"user": "dQ==", "password": "cA=="});
        state.insert(
            Kind::Secret,
            json!({"metadata": {"name": "login"}, "data": data}),
        );
    });
    world.settle("a").await;
    assert!(world.is_ready("a"));
}

#[tokio::test]
async fn a_paused_app_is_left_alone_and_says_so() {
    let world = running().await;
    world.with(|state| {
        state.change(Kind::TurbineApp, "a", |app| {
            app["metadata"]["annotations"] = json!({"turbine.dev/paused": "true"});
        });
    });
    world.apply_app(with(app(), "/spec/suspend", json!(true)));
    world.settle("a").await;
    assert_eq!(world.condition("a", "Reconciling").1, "Paused");
    assert_eq!(world.with(|state| state.names(Kind::Pod)).len(), 2);
    assert_eq!(world.status("a").observed_generation, Some(1));
}

#[tokio::test]
async fn a_way_to_kafka_is_proven_before_it_replaces_the_one_that_works() {
    let world = running().await;
    let accepted = world.status("a").accepted_revision;
    let template = |world: &world::Memories| {
        world.with(|state| state.get(Kind::StatefulSet, "a").unwrap()["spec"]["template"].clone())
    };
    let before = template(&world);
    world.with(|state| state.kafka_down = true);
    world.apply_app(with(
        app(),
        "/spec/kafka/bootstrapServers",
        json!("elsewhere:9092"),
    ));
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "Ready");
    assert_eq!(
        (is.as_str(), reason.as_str()),
        ("False", "KafkaUnreachable")
    );
    assert!(message.contains("runs on"), "{message}");
    assert_eq!(world.status("a").accepted_revision, accepted);
    assert_eq!(template(&world), before);

    world.with(|state| state.kafka_down = false);
    world.settle("a").await;
    assert!(world.is_ready("a"));
    assert_ne!(world.status("a").accepted_revision, accepted);
}

#[tokio::test]
async fn an_output_topic_of_another_count_than_asked_is_refused() {
    let world = world();
    world.with(|state| state.topics.insert("s-out".to_owned(), 2));
    let asking = with(app(), "/spec/subscriptions/0/output/partitions", json!(6));
    world.apply_app(asking);
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "TopicsReady");
    assert_eq!(
        (is.as_str(), reason.as_str()),
        ("False", "PartitionCountNotAsAsked")
    );
    for word in ["`s-out`", "2 partitions", "asks for 6"] {
        assert!(message.contains(word), "{message}");
    }
    assert!(world.with(|state| state.names(Kind::StatefulSet).is_empty()));

    world.apply_app(app());
    world.settle("a").await;
    assert!(world.is_ready("a"));
}

#[rstest::rstest]
#[case::usual(json!({}), 1, Some("delete"), &[])]
#[case::unseen(json!({"config": {"cleanup.policy": "delete"}}), 1, None, &[])]
#[case::as_asked(json!({"replicationFactor": 3, "config": {"cleanup.policy": "compact, delete"}}), 3, Some("delete,compact"), &[])]
#[case::fewer_copies(json!({"replicationFactor": 3}), 1, Some("delete"), &["replication factor of 1", "replicationFactor is 3"])]
#[case::another_policy(json!({"config": {"cleanup.policy": "delete"}}), 1, Some("compact"), &["cleanup.policy=compact", "asks for delete"])]
#[case::compacted(json!({}), 1, Some("compact"), &["cleanup.policy=compact", "the last one alone"])]
#[tokio::test]
async fn an_output_topic_that_was_there_and_keeps_records_otherwise_is_used_and_told(
    #[case] asked: serde_json::Value,
    #[case] replication: u32,
    #[case] policy: Option<&str>,
    #[case] told: &[&str],
) {
    let world = world();
    world.with(|state| {
        state.topics.insert("s-out".to_owned(), 4);
        let kept = TopicKept {
            replication,
            cleanup_policy: policy.map(str::to_owned),
        };
        // Nobody asks how inputs are kept.
        state.kept.insert("in".to_owned(), kept.clone());
        state.kept.insert("s-out".to_owned(), kept);
    });
    world.apply_app(with(app(), "/spec/topics", asked));
    world.settle("a").await;
    assert!(world.is_ready("a"), "{:#?}", world.status("a"));
    let (is, reason, message) = world.condition("a", "TopicsReady");
    let expected = if told.is_empty() {
        "TopicsFit"
    } else {
        "TopicsDiffer"
    };
    assert_eq!((is.as_str(), reason.as_str()), ("True", expected));
    for word in told {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(message.contains("`s-out`"), !told.is_empty(), "{message}");
    assert!(!message.contains("`in`"), "{message}");
}

#[rstest::rstest]
#[case::of_a_person(true, "True", "BadRecord")]
#[case::of_the_world(false, "False", "NotStalled")]
#[tokio::test]
async fn a_halted_task_stalls_the_app_if_waiting_does_not_help(
    #[case] person_must_act: bool,
    #[case] is: &str,
    #[case] reason: &str,
) {
    let world = running().await;
    world.with(|state| {
        let task = &mut state.workers.get_mut("a-0").unwrap().tasks[0];
        task.state = TaskState::Halted;
        task.halt = Some(TaskHalt {
            reason: "BadRecord".to_owned(),
            message: "in/0 at offset 7: cut off; correct the producer".to_owned(),
            person_must_act,
            offset: Some(7),
        });
    });
    world.settle("a").await;
    let found = world.condition("a", "Stalled");
    assert_eq!((found.0.as_str(), found.1.as_str()), (is, reason));
    assert_eq!(world.condition("a", "Degraded").1, "BadRecord");
}

#[tokio::test]
async fn a_worker_that_crashes_says_how_it_ended_and_what_helps() {
    let world = running().await;
    world.with(|state| {
        state.change(Kind::Pod, "a-1", |pod| {
            pod["status"]["conditions"] = json!([{
                "type": "Ready", "status": "False", "lastTransitionTime": "2027-01-15T07:00:00Z",
            }]);
            pod["status"]["containerStatuses"] = json!([{
                "name": "worker",
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
            }]);
        });
    });
    world.settle("a").await;
    for type_ in ["Degraded", "Stalled"] {
        let (is, reason, message) = world.condition("a", type_);
        assert_eq!((is.as_str(), reason.as_str()), ("True", "WorkerCrashes"));
        for word in ["a-1", "OOMKilled", "137", "limits.memory"] {
            assert!(message.contains(word), "{message}");
        }
    }
}
