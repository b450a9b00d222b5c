use rstest::rstest;

use super::*;

fn refused(world: &World) -> Vec<Refusal> {
    match decide(world) {
        Next::Refuse(refusals) | Next::Wait(Wait::Refused(refusals)) => refusals,
        other => panic!("{other:?}"),
    }
}

fn wanted(world: &mut World) -> &mut WantedSubscription {
    &mut world.wanted.subscriptions[0]
}

fn second_reader(world: &mut World, partitions: Option<i32>) {
    let mut other = world.wanted.subscriptions[0].clone();
    other.name = "per-user".to_owned();
    other.partitions = partitions;
    world.wanted.subscriptions.push(other);
    let layout = world.layout.as_mut().unwrap();
    let mut laid = layout.subscriptions[0].clone();
    laid.name = "per-user".to_owned();
    layout.subscriptions.push(laid);
}

/// Each refusal names what, the value and the way out.
#[rstest]
#[case("PartitionCountNotDivisor", &["`events`", "7 partitions", "6 and 8"], |world: &mut World| wanted(world).partitions = Some(7))]
#[case("PartitionCountNotLarger", &["`events`", "4", "asks for 2", "ask for 4 or more"], |world: &mut World| wanted(world).partitions = Some(2))]
#[case("PartitionCountNotLarger", &["has 8", "asks for 4"], |world: &mut World| { wanted(world).partitions = Some(4); counts(world, [8, 8]); })]
#[case("PartitionCountsDiffer", &["per-tenant", "per-user", "8", "12"], |world: &mut World| second_reader(world, Some(12)))]
#[case("TopicGrownOtherwise", &["to 6", "for 4", "asks for 8", "ask for 6 first"], |world: &mut World| counts(world, [6, 6]))]
#[case("InputTopicMissing", &["`events`", "4 partitions"], |world: &mut World| broker(world).counts = vec![BTreeMap::new()])]
#[case("Unkeyed", &["per-tenant", "partitionKey"], |world: &mut World| wanted(world).keyed = false)]
#[case("PartitionHashUndeclared", &["per-tenant", "partitionHash: murmur2"], |world: &mut World| wanted(world).hash_declared = false)]
#[case("Misplaced", &["per-tenant/3", "placement clear"], |world: &mut World| word(world, 1).tasks.get_mut(&task(3)).unwrap().misplaced = true)]
#[case("RecentGrowth", &["`events`", "5000 ms", "600000 ms", "producerRefresh"], |world: &mut World| { broker(world).grown_at.insert(TOPIC.to_owned(), at(-5)); })]
#[case("DiskShort", &["pod 0", "1999 bytes", "2000", "spec.state.volume.size"], |world: &mut World| { world.wanted.replicas = 1; word(world, 0).free_bytes = Some(1999); })]
#[case("DiskUnknown", &["pod 0"], |world: &mut World| { world.wanted.replicas = 1; word(world, 0).free_bytes = None; })]
#[case("NotAuthorized", &["`events`", "ALTER"], |world: &mut World| { broker(world).rights.no_alter.insert(TOPIC.to_owned()); })]
#[case("NotAuthorized", &["per-tenant/2", "transactional id"], |world: &mut World| { broker(world).rights.no_seal.insert(task(2)); })]
#[case("TaskSilent", &["per-tenant/1", "no route"], |world: &mut World| { world.pods.insert(1, PodFacts::Silent("no route".to_owned())); })]
#[case("TaskSilent", &["per-tenant/0", "pod 0"], |world: &mut World| { world.pods.remove(&0); })]
#[case("TaskSilent", &["per-tenant/2", "does not run it"], |world: &mut World| { word(world, 0).tasks.remove(&task(2)); })]
#[case("RetentionShort", &["`events`", "719999 ms", "720000 ms", "retention.ms"], |world: &mut World| { broker(world).retention_ms.insert(TOPIC.to_owned(), 719_999); })]
#[case("KafkaUnreachable", &["refused the connection"], |world: &mut World| world.broker = Err("refused the connection".to_owned()))]
#[case("KafkaUnreachable", &["1 brokers"], |world: &mut World| broker(world).silent = 1)]
#[case("Suspended", &["spec.suspend"], |world: &mut World| world.wanted.suspended = true)]
fn refused_before_anything_is_begun(
    #[case] reason: &str,
    #[case] words: &[&str],
    #[case] change: fn(&mut World),
) {
    let mut fresh = world();
    assert!(matches!(decide(&fresh), Next::Record(_)));
    change(&mut fresh);
    let refusals = refused(&fresh);
    let found = refusals.iter().find(|of| of.reason() == reason);
    let text = found.unwrap_or_else(|| panic!("{refusals:?}")).to_string();
    for part in words {
        assert!(text.contains(part), "`{part}` in: {text}");
    }
}

/// 7 partitions are laid out by the whole hash.
#[test]
fn pods_of_a_layout_that_does_not_divide_960_change_only_with_the_count() {
    let mut world = world();
    world.layout.as_mut().unwrap().subscriptions[0].partitions = 7;
    counts(&mut world, [7, 7]);
    world.wanted.replicas = 3;
    world.wanted.subscriptions[0].partitions = None;
    let refusals = refused(&world);
    assert!(
        matches!(
            &refusals[..],
            [Refusal::LayoutNotDivisor {
                laid: 7,
                replicas: 2,
                ..
            }]
        ),
        "{refusals:?}"
    );
}

/// A topic that was grown by hand is a request that no right to grow it is needed for.
#[test]
fn a_grown_topic_is_a_request_if_its_count_is_valid() {
    let mut world = world();
    world.wanted.subscriptions[0].partitions = None;
    assert_eq!(decide(&world), Next::Rest);
    counts(&mut world, [8, 4]);
    broker(&mut world).rights.no_alter.insert(TOPIC.to_owned());
    let Next::Record(journal) = decide(&world) else {
        panic!("{:?}", decide(&world));
    };
    let topic = &journal.rescale.topics[0];
    assert_eq!((topic.from, topic.to, topic.foreign), (4, 8, true));
    counts(&mut world, [9, 4]);
    assert_eq!(refused(&world)[0].reason(), "PartitionCountNotDivisor");
}

#[test]
fn readers_of_one_topic_change_together() {
    let mut world = world();
    second_reader(&mut world, None);
    let other = |partition: i32| Task {
        subscription: "per-user".parse().unwrap(),
        partition: partition.try_into().unwrap(),
    };
    for partition in 0..4 {
        world.placement.insert(other(partition), partition % 2);
        let tasks = &mut word(&mut world, partition % 2).tasks;
        tasks.insert(other(partition), TaskWord::default());
    }
    let Next::Record(journal) = decide(&world) else {
        panic!("{:?}", decide(&world));
    };
    let counts: Vec<_> = journal
        .rescale
        .subscriptions
        .iter()
        .map(|of| (of.from, of.to))
        .collect();
    assert_eq!(counts, [(4, 8), (4, 8)]);
}

#[test]
fn a_wide_spread_of_frontiers_is_a_warning() {
    let mut world = world();
    word(&mut world, 1)
        .tasks
        .get_mut(&task(1))
        .unwrap()
        .frontier_ms = Some(61_000);
    let dry = dry_run(&world, 1);
    assert_eq!(
        dry.warnings,
        [Warning::SpreadOfFrontiers {
            subscription: SUBSCRIPTION.to_owned(),
            spread_ms: 60_000,
            out_of_orderness_ms: 0
        }]
    );
    assert!(matches!(decide(&world), Next::Record(_)));
}

/// From 4 to 8 every task gives half of its groups away: `p` keeps the even multiples and `p + 4` takes the odd ones.
#[test]
fn a_dry_run_says_what_moves() {
    let dry = dry_run(&world(), 1_000);
    assert_eq!(dry.topics, BTreeMap::from([(TOPIC.to_owned(), (4, 8))]));
    assert!(dry.refusals.is_empty() && dry.warnings.is_empty());
    let moves: Vec<_> = dry
        .moves
        .iter()
        .map(|of| (of.old_partition, of.new_partition, of.groups, of.bytes))
        .collect();
    let expected: Vec<_> = (0..8).map(|new| (new % 4, new, 120, 500)).collect();
    assert_eq!(moves, expected);
    // New tasks come to the pod that runs fewest, so all lie on the pod of the one that gives.
    assert_eq!((dry.bytes_to_move, dry.pause_ms), (0, 0));
}

#[test]
fn a_dry_run_counts_the_bytes_that_change_their_pod() {
    let mut world = world();
    world.wanted.replicas = 1;
    world.wanted.subscriptions[0].partitions = None;
    let dry = dry_run(&world, 1_000);
    // Two tasks of 1000 bytes come from the pod that goes.
    assert_eq!((dry.bytes_to_move, dry.pause_ms), (2000, 2000));
    assert!(dry.topics.is_empty());
}

/// From 7, which does not divide 960, each new task takes of each of its groups what each old task has.
#[test]
fn out_of_the_escape_every_old_task_gives_to_every_new_one() {
    let parts = movement::parts(7, 8, 5);
    assert_eq!(parts, (0..7).map(|old| (old, 120)).collect());
}
