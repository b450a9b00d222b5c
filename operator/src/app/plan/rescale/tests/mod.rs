//! The plan on worlds that are made by hand; every world that it can come to is in `tests/rescale`.

mod refusals;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use turbine_crds::app::OnDelete;
use turbine_crds::status::{
    LayoutStatus, LayoutSubscription, RescaleStatus, RescaleStep, RescaleSubscription,
};
use turbine_protocol::layout::Task;
use turbine_protocol::rescale::{Closing, Moment};

use super::*;

const TOPIC: &str = "events";
const SUBSCRIPTION: &str = "per-tenant";

fn task(partition: i32) -> Task {
    Task {
        subscription: SUBSCRIPTION.parse().unwrap(),
        partition: partition.try_into().unwrap(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// 4 partitions on 2 pods, each task with 1000 bytes; 8 are asked for.
fn world() -> World {
    let pods = |pod: i32| {
        let tasks = (0..4).filter(|partition| partition % 2 == pod);
        let word = WorkerWord {
            heard: (0, 0),
            heard_id: String::new(),
            tasks: tasks
                .map(|partition| {
                    let word = TaskWord {
                        state_bytes: 1000,
                        frontier_ms: Some(1_000),
                        ..TaskWord::default()
                    };
                    (task(partition), word)
                })
                .collect(),
            copied: CopyAhead::Done,
            free_bytes: Some(1_000_000),
            stores: BTreeSet::from([(SUBSCRIPTION.to_owned(), 3)]),
        };
        (pod, PodFacts::Answers(Box::new(word)))
    };
    let claim = |pod: i32| {
        let claim = ClaimFacts {
            name: format!("state-fraud-{pod}"),
            uid: format!("uid-{pod}"),
            resource_version: "7".to_owned(),
            mark: None,
        };
        (pod, claim)
    };
    World {
        now: at(0),
        fresh: "record".to_owned(),
        wanted: Wanted {
            generation: 5,
            deleting: false,
            suspended: false,
            replicas: 2,
            producer_refresh_ms: 600_000,
            order_grace_ms: 120_000,
            on_scale_down: OnDelete::Retain,
            subscriptions: vec![WantedSubscription {
                name: SUBSCRIPTION.to_owned(),
                topic: TOPIC.to_owned(),
                partitions: Some(8),
                exactly_once: true,
                keyed: true,
                hash_declared: true,
                out_of_orderness_ms: 0,
            }],
        },
        layout: Some(LayoutStatus {
            lineage: "lineage".to_owned(),
            epoch: 3,
            replicas: 2,
            subscriptions: vec![LayoutSubscription {
                name: SUBSCRIPTION.to_owned(),
                topic: TOPIC.to_owned(),
                partitions: 4,
                store_epoch: 3,
                pods: Vec::new(),
            }],
        }),
        rescale: None,
        placement: (0..4).map(|p| (task(p), p % 2)).collect(),
        broker: Ok(BrokerFacts {
            ends: BTreeMap::from([(TOPIC.to_owned(), vec![10, 11, 12, 13])]),
            counts: vec![BTreeMap::from([(TOPIC.to_owned(), 4)]); 2],
            ..BrokerFacts::default()
        }),
        pods: (0..2).map(pods).collect(),
        claims: (0..2).map(claim).collect(),
        set: Some(SetFacts {
            uid: "set".to_owned(),
            resource_version: "9".to_owned(),
            replicas: 2,
        }),
    }
}

fn broker(world: &mut World) -> &mut BrokerFacts {
    world.broker.as_mut().unwrap()
}

fn counts(world: &mut World, counts: [i32; 2]) {
    broker(world).counts = counts
        .iter()
        .map(|count| BTreeMap::from([(TOPIC.to_owned(), *count)]))
        .collect();
}

fn word(world: &mut World, pod: i32) -> &mut WorkerWord {
    match world.pods.get_mut(&pod).unwrap() {
        PodFacts::Answers(word) => word,
        PodFacts::Silent(_) => panic!("pod {pod} is silent"),
    }
}

fn each_task(world: &mut World, change: impl Fn(i32, &mut TaskWord)) {
    for pod in [0, 1] {
        for (task, of) in &mut word(world, pod).tasks {
            change(i32::from(task.partition), of);
        }
    }
}

/// Stores the record that is due, writes it on the claims and tells it to the workers.
fn store(world: &mut World) -> RescaleStatus {
    let Next::Record(journal) = decide(world) else {
        panic!("no record: {:?}", decide(world));
    };
    put(world, *journal)
}

fn put(world: &mut World, journal: Journal) -> RescaleStatus {
    for claim in world.claims.values_mut() {
        claim.mark = Some(Journal {
            layout: journal.layout.clone(),
            rescale: journal.rescale.durable(),
        });
    }
    for facts in world.pods.values_mut() {
        if let PodFacts::Answers(word) = facts {
            word.heard = journal.rescale.number();
            word.heard_id.clone_from(&journal.rescale.id);
        }
    }
    world.layout = Some(journal.layout);
    world.rescale = Some(journal.rescale.clone());
    journal.rescale
}

/// A world in which the plan was announced and every old task holds.
fn announced() -> World {
    let mut world = world();
    store(&mut world);
    let plan = store(&mut world);
    assert_eq!(plan.step, RescaleStep::Announced);
    each_task(&mut world, |partition, of| {
        of.hold = Some(Hold {
            epoch: plan.epoch,
            number: 100 + i64::from(partition),
            count: 8,
        });
    });
    world
}

/// A world in which the order to stop was given.
fn draining() -> World {
    let mut world = announced();
    store(&mut world);
    counts(&mut world, [8, 8]);
    store(&mut world);
    let plan = store(&mut world);
    assert_eq!(plan.step, RescaleStep::Draining);
    world
}
