//! Whatever happened in whatever order, and wherever operators died: once the causes are gone the app
//! is what its spec says, on the state it had, and nothing is left to be written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::world::Memories;
use super::{app, running, subscription, with};
use crate::cluster::Kind;

/// Something that people, brokers and clusters do.
#[derive(Debug, Clone)]
enum Event {
    Spec(&'static str),
    InputHas(Option<i32>),
    KafkaDown(bool),
    ChildDeleted(Kind),
    ScaledByHand(i64),
    OperatorDiesAfter(usize),
    OperatorWorks,
}

fn event() -> impl Strategy<Value = Event> {
    const SPECS: [&str; 7] = [
        "base",
        "suspended",
        "restarted",
        "wider",
        "more replicas",
        "invalid",
        "window changed",
    ];
    const CHILDREN: [Kind; 6] = [
        Kind::ConfigMap,
        Kind::Service,
        Kind::ServiceAccount,
        Kind::PodDisruptionBudget,
        Kind::StatefulSet,
        Kind::Pod,
    ];
    prop_oneof![
        3 => select(SPECS.to_vec()).prop_map(Event::Spec),
        1 => select(vec![None, Some(4), Some(7), Some(8)]).prop_map(Event::InputHas),
        1 => any::<bool>().prop_map(Event::KafkaDown),
        2 => select(CHILDREN.to_vec()).prop_map(Event::ChildDeleted),
        1 => (0..2_i64).prop_map(Event::ScaledByHand),
        3 => (1..9_usize).prop_map(Event::OperatorDiesAfter),
        3 => Just(Event::OperatorWorks),
    ]
}

fn spec(name: &str) -> Value {
    match name {
        "suspended" => with(app(), "/spec/suspend", json!(true)),
        "restarted" => with(app(), "/spec/restartNonce", json!("again")),
        "wider" => with(
            app(),
            "/spec/subscriptions/0/windows/0/allowedLateness",
            json!("1m"),
        ),
        "more replicas" => with(app(), "/spec/replicas", json!(3)),
        "invalid" => with(
            app(),
            "/spec/subscriptions",
            json!([subscription("s", "in"), subscription("s", "in")]),
        ),
        "window changed" => with(
            app(),
            "/spec/subscriptions/0/windows/0/tumbling/size",
            json!("2m"),
        ),
        _ => app(),
    }
}

async fn happens(world: &Memories, event: &Event) {
    match event {
        Event::Spec(name) => world.apply_app(spec(name)),
        Event::InputHas(count) => world.with(|state| match count {
            Some(count) => {
                state.topics.insert("in".to_owned(), *count);
            }
            None => {
                state.topics.remove("in");
            }
        }),
        Event::KafkaDown(down) => world.with(|state| state.kafka_down = *down),
        Event::ChildDeleted(kind) => world.with(|state| {
            if let Some(name) = state.names(*kind).first() {
                state.remove(*kind, name, false);
            }
        }),
        Event::ScaledByHand(replicas) => world.with(|state| {
            if state.has(Kind::StatefulSet, "a") {
                state.change(Kind::StatefulSet, "a", |of| {
                    of["spec"]["replicas"] = json!(replicas);
                });
            }
        }),
        Event::OperatorDiesAfter(writes) => {
            world.die_after("a", *writes).await;
        }
        Event::OperatorWorks => {
            world.settle("a").await;
        }
    }
}

/// What an app is made of, without what counts the steps on the way.
fn made_of(world: &Memories) -> BTreeMap<String, Value> {
    let picture = world.picture();
    let mut parts = BTreeMap::new();
    for (name, object) in picture["objects"].as_object().unwrap() {
        if name.starts_with("ControllerRevision/") || name.starts_with("TurbineApp/") {
            continue;
        }
        let of = |field: &str| object[field].clone();
        parts.insert(
            name.clone(),
            json!([of("spec"), of("data"), object["metadata"]["labels"]]),
        );
    }
    parts.insert("topics".to_owned(), picture["topics"].clone());
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_app_ends_as_its_spec_says_whatever_happened_before(events in proptest::collection::vec(event(), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let calm = running().await;
            let world = running().await;
            let lineage = world.status("a").layout.unwrap().lineage;
            for event in &events {
                happens(&world, event).await;
                let layout = world.status("a").layout;
                prop_assert_eq!(layout.map(|of| of.lineage), Some(lineage.clone()), "the state's name is lost by {:?}", event);
            }
            happens(&world, &Event::KafkaDown(false)).await;
            happens(&world, &Event::InputHas(Some(4))).await;
            happens(&world, &Event::Spec("base")).await;
            world.settle("a").await;

            prop_assert!(world.is_ready("a"), "{:#?}", world.status("a"));
            prop_assert_eq!(made_of(&world), made_of(&calm));
            let written = world.with(|state| state.writes.len());
            world.settle("a").await;
            let more = world.with(|state| state.writes.split_off(written));
            prop_assert_eq!(more, Vec::<String>::new(), "a second operator writes");
            Ok(())
        })?;
    }
}
