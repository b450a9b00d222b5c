use super::*;

fn waits(world: &World) -> Wait {
    match decide(world) {
        Next::Wait(wait) => wait,
        other => panic!("{other:?}"),
    }
}

fn step_after(world: &World) -> RescaleStep {
    match decide(world) {
        Next::Record(journal) => journal.rescale.step,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_record_is_on_the_claims_before_anything_follows_from_it() {
    let mut world = announced();
    let mark = world.claims.get_mut(&1).unwrap().mark.take().unwrap();
    let expected = Act::Mark {
        claim: "state-fraud-1".to_owned(),
        uid: "uid-1".to_owned(),
        resource_version: "7".to_owned(),
        mark: Box::new(mark),
    };
    assert_eq!(decide(&world), Next::Act(vec![expected]));
}

#[test]
fn growing_needs_the_hold_of_every_task() {
    let mut world = announced();
    assert_eq!(step_after(&world), RescaleStep::Growing);
    word(&mut world, 1).tasks.get_mut(&task(3)).unwrap().hold = None;
    assert_eq!(waits(&world), Wait::Holds(vec!["per-tenant/3".to_owned()]));
}

#[test]
fn a_hold_of_another_plan_or_for_another_count_is_none() {
    let mut world = announced();
    let hold = |world: &mut World, epoch, count| {
        word(world, 1).tasks.get_mut(&task(3)).unwrap().hold = Some(Hold {
            epoch,
            number: 1,
            count,
        });
    };
    for (epoch, count) in [(3, 8), (5, 8), (4, 6)] {
        hold(&mut world, epoch, count);
        assert!(matches!(waits(&world), Wait::Holds(_)), "{epoch} {count}");
    }
    hold(&mut world, 4, 8);
    assert_eq!(step_after(&world), RescaleStep::Growing);
}

#[test]
fn ends_count_only_if_every_broker_still_had_the_old_count_after_them() {
    let mut world = announced();
    let Next::Record(journal) = decide(&world) else {
        panic!("{:?}", decide(&world));
    };
    assert_eq!(journal.rescale.topics[0].ends, [10, 11, 12, 13]);
    assert_eq!(journal.rescale.subscriptions[0].holds, [100, 101, 102, 103]);

    counts(&mut world, [4, 8]);
    let Next::Record(journal) = decide(&world) else {
        panic!("{:?}", decide(&world));
    };
    let topic = &journal.rescale.topics[0];
    assert_eq!(journal.rescale.step, RescaleStep::TopicGrown);
    assert!(topic.foreign && topic.ends.is_empty());

    counts(&mut world, [4, 4]);
    broker(&mut world).ends.get_mut(TOPIC).unwrap().pop();
    assert_eq!(waits(&world), Wait::Ends(TOPIC.to_owned()));
}

#[test]
fn going_back_is_an_undo_before_the_growth_and_none_after() {
    let mut world = announced();
    let back = |world: &mut World| world.wanted.subscriptions[0].partitions = Some(4);
    let mut undone = world.clone();
    back(&mut undone);
    assert_eq!(store(&mut undone).step, RescaleStep::Undone);
    assert_eq!(decide(&undone), Next::Rest);
    // The next plan has an epoch of its own.
    undone.wanted.subscriptions[0].partitions = Some(8);
    assert_eq!(store(&mut undone).epoch, 5);

    assert_eq!(store(&mut world).step, RescaleStep::Growing);
    back(&mut world);
    let grow = Act::Grow {
        topic: TOPIC.to_owned(),
        to: 8,
        epoch: 4,
    };
    assert_eq!(decide(&world), Next::Act(vec![grow]));
}

#[test]
fn a_third_count_stops_a_growth_and_names_it() {
    let mut world = announced();
    store(&mut world);
    counts(&mut world, [4, 6]);
    let wait = waits(&world);
    assert!(wait.person_must_act());
    assert!(wait.to_string().contains("a broker answers 6"), "{wait}");
}

#[test]
fn tasks_stop_once_every_broker_has_the_new_count() {
    let mut world = announced();
    store(&mut world);
    counts(&mut world, [8, 4]);
    assert_eq!(store(&mut world).step, RescaleStep::TopicGrown);
    assert!(matches!(waits(&world), Wait::Count { to: 8, .. }));
    counts(&mut world, [8, 8]);
    world.now = at(30);
    let plan = store(&mut world);
    assert_eq!(plan.step, RescaleStep::Draining);
    // Until then a producer may have been told the old count.
    assert_eq!(plan.topics[0].grown_at, Some(at(30)));
}

#[test]
fn exactly_once_what_was_sealed_is_where_a_task_stopped() {
    let mut world = draining();
    each_task(&mut world, |partition, of| {
        of.stopped = Some(StopWord {
            epoch: 4,
            offset: 20 + i64::from(partition),
            first_new: None,
        });
    });
    let seals = |of: &[i32]| {
        let act = |partition: &i32| Act::Seal {
            task: task(*partition),
            epoch: 4,
        };
        Next::Act(of.iter().map(act).collect())
    };
    assert_eq!(decide(&world), seals(&[0, 1, 2, 3]));
    for partition in 0..4 {
        let receipt = ReceiptFacts {
            epoch: 4,
            sealed: true,
            number: 9,
            // The task committed once more after its word.
            offset: 30 + i64::from(partition),
        };
        broker(&mut world).receipts.insert(task(partition), receipt);
    }
    let plan = store(&mut world);
    assert_eq!(plan.step, RescaleStep::Stopped);
    assert_eq!(plan.subscriptions[0].stops, [30, 31, 32, 33]);
}

#[test]
fn a_task_that_answers_and_has_not_stopped_is_not_fenced() {
    let mut world = draining();
    assert!(matches!(waits(&world), Wait::Stops(_)));
    world
        .pods
        .insert(1, PodFacts::Silent("no route".to_owned()));
    let Next::Act(acts) = decide(&world) else {
        panic!("{:?}", decide(&world));
    };
    let sealed: Vec<&Task> = acts
        .iter()
        .filter_map(|act| match act {
            Act::Seal { task, .. } => Some(task),
            _ => None,
        })
        .collect();
    assert_eq!(sealed, [&task(1), &task(3)]);
}

#[test]
fn at_least_once_only_the_tasks_own_word_counts() {
    let mut world = draining();
    world.wanted.subscriptions[0].exactly_once = false;
    each_task(&mut world, |partition, of| {
        of.stopped = Some(StopWord {
            epoch: 4,
            offset: 20 + i64::from(partition),
            first_new: None,
        });
    });
    let mut lost = world.clone();
    lost.pods.insert(1, PodFacts::Silent("no route".to_owned()));
    assert!(matches!(waits(&lost), Wait::Stops(of) if of.len() == 2));
    let plan = store(&mut world);
    assert_eq!(plan.subscriptions[0].stops, [20, 21, 22, 23]);
}

#[test]
fn a_status_that_was_emptied_or_is_older_than_the_volumes_is_made_from_them() {
    let mut world = draining();
    let stored = world.rescale.clone().unwrap();
    let layout = world.layout.clone().unwrap();
    let mut old = world.clone();
    old.rescale = Some(RescaleStatus {
        version: stored.version - 1,
        step: RescaleStep::TopicGrown,
        ..stored.clone()
    });
    (world.layout, world.rescale) = (None, None);
    // Above a record that was stored and had not come to the volumes.
    let rescale = RescaleStatus {
        version: stored.version + 2,
        ..stored
    };
    let rebuilt = Journal { layout, rescale };
    let rebuilt = Next::Record(Box::new(rebuilt));
    assert_eq!(decide(&world), rebuilt);
    assert_eq!(decide(&old), rebuilt);
}

#[test]
fn a_record_without_what_its_step_rests_on_is_damaged() {
    let mut world = draining();
    world.rescale.as_mut().unwrap().topics[0].ends.pop();
    let wait = waits(&world);
    assert!(wait.person_must_act());
    let text = wait.to_string();
    assert!(
        text.contains("ends of topic `events` are 3 and not 4"),
        "{text}"
    );
}

#[test]
fn a_volume_is_not_touched_before_its_emptiness_is_on_record() {
    let mut world = world();
    world.wanted.replicas = 1;
    world.wanted.subscriptions[0].partitions = None;
    world.wanted.on_scale_down = OnDelete::Delete;
    let mut plan = store(&mut world);
    plan.step = RescaleStep::OldStateReleased;
    for of in &mut plan.subscriptions {
        (of.holds, of.stops) = (vec![1; 4], vec![1; 4]);
        of.manifests = vec!["sum".to_owned(); 4];
    }
    plan.release = vec![turbine_crds::status::ReleasedClaim {
        claim: "state-fraud-1".to_owned(),
        uid: "uid-1".to_owned(),
        empty: false,
    }];
    let layout = world.layout.clone().unwrap();
    put(
        &mut world,
        Journal {
            layout,
            rescale: plan,
        },
    );
    assert!(matches!(waits(&world), Wait::OldState(_)));

    word(&mut world, 1).stores.clear();
    let plan = store(&mut world);
    assert!(plan.release[0].empty);
    let resize = Act::Resize {
        uid: "set".to_owned(),
        resource_version: "9".to_owned(),
        replicas: 1,
        epoch: 4,
    };
    assert_eq!(decide(&world), Next::Act(vec![resize]));

    world.set.as_mut().unwrap().replicas = 1;
    assert!(matches!(waits(&world), Wait::OldState(_)));
    world.pods.remove(&1);
    let delete = Act::DeleteClaim {
        claim: "state-fraud-1".to_owned(),
        uid: "uid-1".to_owned(),
        resource_version: "7".to_owned(),
    };
    assert_eq!(decide(&world), Next::Act(vec![delete]));
}

/// A world in which the new tasks run and the old state is being released. The growth was at 0, a producer may use the old count for
/// 600 s and try a record again for 120 s.
fn released() -> World {
    let mut world = draining();
    let mut plan = world.rescale.clone().unwrap();
    plan.step = RescaleStep::OldStateReleased;
    plan.subscriptions[0].stops = vec![20; 4];
    plan.subscriptions[0].manifests = vec!["sum".to_owned(); 8];
    let layout = world.layout.clone().unwrap();
    let rescale = plan.clone();
    put(&mut world, Journal { layout, rescale });
    for (partition, pod) in (0..).zip(&plan.subscriptions[0].pods) {
        word(&mut world, *pod)
            .tasks
            .entry(task(partition))
            .or_default();
    }
    world
}

fn ask_for_ends(world: &mut World, end: i64, seconds: i64) {
    world.now = at(seconds);
    let broker = broker(world);
    broker.ends.insert(TOPIC.to_owned(), vec![end; 8]);
    broker.ends_asked_at = Some(at(seconds));
}

#[test]
fn an_end_is_proposed_once_producers_must_have_refreshed_and_not_all_the_time() {
    let mut world = released();
    ask_for_ends(&mut world, 50, 719);
    assert!(
        matches!(decide(&world), Next::Wait(Wait::OldState(_))),
        "{:?}",
        decide(&world)
    );
    ask_for_ends(&mut world, 50, 720);
    let plan = store(&mut world);
    assert_eq!(plan.topics[0].proposed, [50; 4]);
    assert_eq!(plan.topics[0].proposed_at, Some(at(720)));
    ask_for_ends(&mut world, 60, 839);
    assert!(
        matches!(decide(&world), Next::Wait(_)),
        "{:?}",
        decide(&world)
    );
    // A reader that met a record of the old placement in between agrees to a later one alone.
    ask_for_ends(&mut world, 60, 840);
    assert_eq!(store(&mut world).topics[0].proposed, [60; 4]);
}

#[test]
fn an_end_is_on_record_when_its_own_task_and_all_with_a_tail_have_agreed_to_it() {
    let mut world = released();
    ask_for_ends(&mut world, 50, 720);
    let plan = store(&mut world);
    let pods = plan.subscriptions[0].pods.clone();
    let agreed = |end: i64, seconds| Closing::Agreed {
        end: end.try_into().unwrap(),
        asked_at: Moment(at(seconds).as_millisecond()),
    };
    let closes = |world: &World| match decide(world) {
        Next::Record(journal) => journal.rescale.topics[0].closes.clone(),
        Next::Rest | Next::Refuse(_) | Next::Act(_) | Next::Wait(_) => Vec::new(),
    };
    // Partition 2 is read by its own task, and by 6, which half of its keys move to.
    let say = |world: &mut World, reader: i32, closing| {
        let pod = pods[usize::try_from(reader).unwrap()];
        word_of(world, pod, reader).closing.insert(2, closing);
    };
    say(&mut world, 6, agreed(50, 720));
    assert_eq!(closes(&world), Vec::<i64>::new());
    for other in [Closing::Open, agreed(49, 720), agreed(50, 719)] {
        say(&mut world, 2, other);
        assert_eq!(closes(&world), Vec::<i64>::new(), "{other:?}");
    }
    say(&mut world, 2, agreed(50, 720));
    assert_eq!(closes(&world), [-1, -1, 50, -1]);
}

#[test]
fn of_two_records_of_one_number_the_one_on_the_volumes_holds() {
    let mut world = draining();
    let stored = world.rescale.clone().unwrap();
    let marked = RescaleStatus {
        id: "another".to_owned(),
        ..stored.clone()
    };
    let claim = world.claims.get_mut(&1).unwrap();
    claim.mark.as_mut().unwrap().rescale = marked.clone();
    let Next::Record(journal) = decide(&world) else {
        panic!("{:?}", decide(&world));
    };
    let expected = RescaleStatus {
        version: stored.version + 2,
        id: "record".to_owned(),
        ..marked
    };
    assert_eq!(journal.rescale, expected);
}

#[test]
fn workers_that_heard_another_record_of_this_number_are_overruled() {
    let mut world = draining();
    let stored = world.rescale.clone().unwrap();
    for (version, id) in [(stored.version, "another"), (stored.version + 3, "record")] {
        let mut world = world.clone();
        word(&mut world, 1).heard = (stored.epoch, version);
        word(&mut world, 1).heard_id = id.to_owned();
        assert_eq!(store(&mut world).version, version + 1);
    }
    word(&mut world, 1).heard = (stored.epoch, stored.version - 1);
    assert!(matches!(decide(&world), Next::Act(_)));
}

#[test]
fn a_subscription_that_was_added_after_the_plan_is_on_the_volumes_as_well() {
    let mut world = released();
    let mut layout = world.layout.clone().unwrap();
    layout.subscriptions.push(LayoutSubscription {
        name: "later".to_owned(),
        topic: "other".to_owned(),
        partitions: 2,
        store_epoch: 5,
        pods: Vec::new(),
    });
    world.layout = Some(layout.clone());
    let Next::Act(acts) = decide(&world) else {
        panic!("{:?}", decide(&world));
    };
    assert_eq!(acts.len(), 2);
    for act in acts {
        assert!(matches!(act, Act::Mark { mark, .. } if mark.layout == layout));
    }
}

#[test]
fn what_a_plan_does_not_move_stays_on_its_pods() {
    let mut world = draining();
    let plan = world.rescale.clone().unwrap();
    let mut layout = world.layout.clone().unwrap();
    layout.subscriptions.push(LayoutSubscription {
        name: "other".to_owned(),
        topic: "other".to_owned(),
        partitions: 2,
        store_epoch: 2,
        pods: Vec::new(),
    });
    for (partition, pod) in [(0, 1), (1, 0)] {
        let task = Task {
            subscription: "other".parse().unwrap(),
            partition: partition.try_into().unwrap(),
        };
        world.placement.insert(task, pod);
    }
    let rescale = RescaleStatus {
        step: RescaleStep::StateMoved,
        subscriptions: vec![RescaleSubscription {
            stops: vec![20; 4],
            manifests: vec!["sum".to_owned(); 8],
            ..plan.subscriptions[0].clone()
        }],
        ..plan.clone()
    };
    put(&mut world, Journal { layout, rescale });
    store(&mut world);
    let laid = world.layout.unwrap();
    assert_eq!((laid.epoch, laid.replicas), (4, 2));
    let of = |at: usize| {
        (
            laid.subscriptions[at].store_epoch,
            laid.subscriptions[at].pods.clone(),
        )
    };
    assert_eq!(of(0), (4, plan.subscriptions[0].pods.clone()));
    assert_eq!(of(1), (2, vec![1, 0]));
}

fn word_of(world: &mut World, pod: i32, partition: i32) -> &mut TaskWord {
    word(world, pod).tasks.get_mut(&task(partition)).unwrap()
}

#[test]
fn a_newer_spec_waits_and_the_condition_says_so() {
    let mut world = announced();
    let plan = store(&mut world);
    assert_eq!(plan.step, RescaleStep::Growing);
    let next = decide(&world);
    assert_eq!(blocked(&world, &next), None);
    assert_eq!(shown(&world, &plan, &next).waiting_generation, None);

    world.wanted.generation = 6;
    world.wanted.subscriptions[0].partitions = Some(4);
    let next = decide(&world);
    assert_eq!(shown(&world, &plan, &next).waiting_generation, Some(6));
    let (reason, words) = blocked(&world, &next).unwrap();
    assert_eq!(reason, "NewerSpecWaits");
    assert!(
        words.contains("generation 6 waits") && words.contains("cannot shrink"),
        "{words}"
    );
}
