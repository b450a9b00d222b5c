//! Against a real broker: without encryption at `TURBINE_KAFKA_BOOTSTRAP`, with a login at
//! `TURBINE_KAFKA_SASL_BOOTSTRAP`, with a certificate at `TURBINE_KAFKA_TLS_BOOTSTRAP`;
//! `TURBINE_KAFKA_CLIENT` is the folder of the certificates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Bed, WAIT, deadline, offset, partition};
use rstest::rstest;
use turbine_kafka::{
    Admin, ClientCertificate, CommitOutcome, CreateOutcome, DeleteOutcome, GrowOutcome, KafkaError,
    KafkaSettings, Mechanism, NewTopic, OutputBatch, Sasl, Secret, Tls, TopicPresence,
    Transactions,
};
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::rescale::seal::{GroupReceipt, SealedReceipt};
use turbine_protocol::{GroupId, TopicName, TransactionalId};

fn new_topic(name: &TopicName, partitions: RawPartitionCount) -> NewTopic {
    NewTopic {
        name: name.clone(),
        partitions,
        replication: Some(1),
        config: BTreeMap::new(),
    }
}

fn with_bed(test: impl FnOnce(&Bed<'_>, &Admin)) {
    let settings = KafkaSettings::plaintext(env("TURBINE_KAFKA_BOOTSTRAP")).unwrap();
    let admin = Admin::open(&settings).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let bed = Bed {
        settings,
        make_topic: &|name, count| {
            admin.create_topic(&new_topic(name, count), WAIT).unwrap();
            admin
                .await_partition_count(name, count, deadline())
                .unwrap();
        },
        run: format!("r{}", now.as_nanos()),
    };
    test(&bed, &admin);
}

#[rstest]
#[case(common::keys_go_where_every_kafka_client_looks_for_them)]
#[case(common::null_and_empty_stay_apart)]
#[case(common::a_dead_letter_is_the_record_as_it_was)]
#[case(common::a_record_too_large_is_rejected_alone)]
#[case(common::a_receipt_comes_back_with_its_offset)]
#[case(common::much_output_passes_a_small_queue_in_order)]
#[case(common::a_flush_does_not_wait_in_steps)]
#[case(common::the_end_is_seen_and_moves_on)]
#[case(common::an_offset_outside_the_log_is_told)]
#[case(common::a_seek_reads_again)]
#[case(common::a_scan_reads_its_stretches_and_no_more)]
#[case(common::missing_and_unreachable_are_told_apart)]
#[case(common::every_codec_is_written_and_read)]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn holds(#[case] test: fn(&Bed<'_>)) {
    with_bed(|bed, _| test(bed));
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_topic_is_made_once_described_and_deleted() {
    with_bed(|bed, admin| {
        let name: TopicName = format!("made-{}", bed.run).parse().unwrap();
        let count = 6.try_into().unwrap();
        let mut topic = new_topic(&name, count);
        topic
            .config
            .insert("retention.ms".to_owned(), "123456789".to_owned());
        assert_eq!(
            admin.create_topic(&topic, WAIT).unwrap(),
            CreateOutcome::Created
        );
        admin
            .await_partition_count(&name, count, deadline())
            .unwrap();
        assert_eq!(
            admin.create_topic(&topic, WAIT).unwrap(),
            CreateOutcome::AlreadyThere
        );
        let config = admin.topic_config(&name, WAIT).unwrap();
        assert_eq!(
            config.get("retention.ms").map(String::as_str),
            Some("123456789")
        );
        match admin.topic(&name, WAIT).unwrap() {
            TopicPresence::Present(layout) => {
                assert_eq!((layout.partitions, layout.replication), (count, 1));
                assert_eq!(layout.leaderless, []);
            }
            TopicPresence::Missing => panic!("the topic is there"),
        }

        let soon = std::time::Instant::now() + Duration::from_secs(1);
        let wrong = admin.await_partition_count(&name, 12.try_into().unwrap(), soon);
        assert!(
            matches!(&wrong, Err(KafkaError::CountNotSeen { expected: 12, detail, .. })
                if detail.contains("answers 6")),
            "{wrong:?}"
        );

        assert_eq!(
            admin.delete_topic(&name, WAIT).unwrap(),
            DeleteOutcome::Deleted
        );
        assert_eq!(
            admin.delete_topic(&name, WAIT).unwrap(),
            DeleteOutcome::NotThere
        );
    });
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn what_the_broker_does_not_make_is_refused_with_its_reason() {
    with_bed(|bed, admin| {
        let name: TopicName = format!("refused-{}", bed.run).parse().unwrap();
        let mut copies = new_topic(&name, 1.try_into().unwrap());
        copies.replication = Some(99);
        let mut setting = new_topic(&name, 1.try_into().unwrap());
        setting
            .config
            .insert("no.such.setting".to_owned(), "1".to_owned());
        for topic in [copies, setting] {
            let refusal = admin.create_topic(&topic, WAIT).unwrap_err();
            assert!(
                matches!(&refusal, KafkaError::TopicRefused { topic, .. } if *topic == name),
                "{refusal:?}"
            );
        }
    });
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn ends_and_times_of_a_log_are_found() {
    with_bed(|bed, admin| {
        let topic = bed.topic("times", 1);
        let bounds = admin.watermarks(&topic, partition(0), WAIT).unwrap();
        assert_eq!((bounds.start(), bounds.end()), (offset(0), offset(0)));
        assert_eq!(
            admin.offset_at(&topic, partition(0), 0, WAIT).unwrap(),
            None
        );

        let mut producer = bed.producer();
        let output = producer.topic(&topic, WAIT).unwrap();
        let mut batch = OutputBatch::new();
        batch.push(None, Some(b"first"));
        batch.push(None, Some(b"second"));
        producer.produce(&output, &batch).unwrap();
        producer.flush_acked(deadline()).unwrap();
        let bounds = admin.watermarks(&topic, partition(0), WAIT).unwrap();
        assert_eq!((bounds.start(), bounds.end()), (offset(0), offset(2)));
        let at = |millis| admin.offset_at(&topic, partition(0), millis, WAIT).unwrap();
        assert_eq!(at(0), Some(offset(0)));
        assert_eq!(at(i64::MAX), None);
    });
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_groups_offsets_go_with_the_group() {
    with_bed(|bed, admin| {
        common::a_receipt_comes_back_with_its_offset(bed);
        let group = bed.group("s");
        assert_eq!(
            admin.delete_group(&group, WAIT).unwrap(),
            DeleteOutcome::Deleted
        );
        assert_eq!(
            admin.delete_group(&group, WAIT).unwrap(),
            DeleteOutcome::NotThere
        );
        let topic = format!("receipts-{}", bed.run).parse().unwrap();
        let left = admin
            .committed(&group, &topic, 3.try_into().unwrap(), WAIT)
            .unwrap();
        assert_eq!(left, [None, None, None]);
    });
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn an_offset_that_waits_for_a_transaction_is_told_from_a_broker_that_does_not_answer() {
    with_bed(|bed, admin| {
        let input = bed.topic("pending", 1);
        let group = bed.group("s");
        let (app, subscription) = (bed.run.parse().unwrap(), "s".parse().unwrap());
        let transactions = Transactions::of(
            TransactionalId::of(&app, &subscription, partition(0)),
            group.clone(),
            input.clone(),
            partition(0),
        );
        let producer = transactions
            .producer(&bed.settings, common::budget())
            .unwrap();
        transactions.take_over(&producer, WAIT).unwrap();
        transactions.begin(&producer).unwrap();
        transactions
            .send_offset(&producer, &common::receipt(), WAIT)
            .unwrap();

        let shortly = Duration::from_secs(2);
        let error = admin
            .committed_at(&group, &input, partition(0), shortly)
            .unwrap_err();
        assert!(
            matches!(error, KafkaError::OffsetPending { .. }),
            "{error:?}"
        );
        assert!(error.ends_by_take_over());

        assert_eq!(
            transactions.commit(&producer, WAIT),
            CommitOutcome::Committed
        );
        let committed = admin
            .committed_at(&group, &input, partition(0), WAIT)
            .unwrap()
            .unwrap();
        assert_eq!(committed.offset, common::receipt().offset);
    });
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn every_address_of_a_cluster_gives_its_id() {
    with_bed(|_, admin| {
        let id = admin.cluster_id(WAIT).unwrap();
        for broker in admin.brokers(WAIT).unwrap() {
            let through = KafkaSettings::plaintext(broker.address).unwrap();
            let other = Admin::open(&through).unwrap();
            assert_eq!(other.cluster_id(WAIT).unwrap(), id);
        }
    });
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// A file of the folder with a client's certificates.
fn client_file(name: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(&env("TURBINE_KAFKA_CLIENT")).join(name)).unwrap()
}

fn login(user: &str, password: &str, mechanism: Mechanism) -> Admin {
    let bootstrap = env("TURBINE_KAFKA_SASL_BOOTSTRAP");
    let tls = Tls {
        ca: Some(client_file("ca.crt")),
        client: None,
    };
    let sasl = Sasl {
        mechanism,
        username: user.to_owned(),
        password: Secret::new(password),
    };
    let settings = KafkaSettings::new(bootstrap, Some(tls), Some(sasl), BTreeMap::new()).unwrap();
    Admin::open(&settings).unwrap()
}

#[rstest]
#[case(Mechanism::Plain)]
#[case(Mechanism::ScramSha512)]
#[ignore = "needs a real broker at TURBINE_KAFKA_SASL_BOOTSTRAP and TURBINE_KAFKA_TLS_BOOTSTRAP"]
fn a_login_with_its_password_works_and_with_another_is_told(#[case] mechanism: Mechanism) {
    let admin = login("turbine", "turbine-secret", mechanism);
    assert!(!admin.cluster_id(WAIT).unwrap().is_empty());
    let admin = login("turbine", "wrong", mechanism);
    let error = admin.cluster_id(Duration::from_secs(5)).unwrap_err();
    assert!(
        matches!(error, KafkaError::Authentication { .. }),
        "{error:?}"
    );
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_SASL_BOOTSTRAP and TURBINE_KAFKA_TLS_BOOTSTRAP"]
fn a_missing_right_is_named() {
    let admin = login("limited", "limited-secret", Mechanism::ScramSha512);
    let topic: TopicName = "not-ours".parse().unwrap();
    let errors = [
        (admin.topic(&topic, WAIT).unwrap_err(), "topic `not-ours`"),
        (
            admin
                .create_topic(&new_topic(&topic, 1.try_into().unwrap()), WAIT)
                .unwrap_err(),
            "topic `not-ours`",
        ),
        (
            admin
                .committed(
                    &GroupId::of(&"a".parse().unwrap(), &"s".parse().unwrap()),
                    &topic,
                    1.try_into().unwrap(),
                    WAIT,
                )
                .unwrap_err(),
            "group `turbine.a.s`",
        ),
    ];
    for (error, named) in errors {
        assert!(
            matches!(&error, KafkaError::NotAllowed { resource, .. } if resource == named),
            "{error:?}"
        );
    }
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_SASL_BOOTSTRAP and TURBINE_KAFKA_TLS_BOOTSTRAP"]
fn a_client_certificate_is_a_login_and_a_stranger_is_not_trusted() {
    let bootstrap = env("TURBINE_KAFKA_TLS_BOOTSTRAP");
    let client = Some(ClientCertificate {
        certificate: client_file("client.crt"),
        key: Secret::new(client_file("client.key")),
    });
    let open = |ca: Option<String>| {
        let tls = Tls {
            ca,
            client: client.clone(),
        };
        let settings =
            KafkaSettings::new(bootstrap.clone(), Some(tls), None, BTreeMap::new()).unwrap();
        Admin::open(&settings).unwrap()
    };
    let admin = open(Some(client_file("ca.crt")));
    assert!(!admin.cluster_id(WAIT).unwrap().is_empty());
    let error = open(None).cluster_id(Duration::from_secs(5)).unwrap_err();
    assert!(
        matches!(error, KafkaError::Authentication { .. }),
        "{error:?}"
    );
}

/// What a commit of one record costs on a broker that has nothing else to do: `cargo test --test real commit_costs -- --ignored
/// --nocapture` prints it.
#[rstest]
#[case(1)]
#[case(100)]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_commit_costs_milliseconds(#[case] records: usize) {
    const ROUNDS: usize = 200;
    with_bed(|bed, _| {
        let input = bed.topic(&format!("cost-in-{records}"), 1);
        let topic = bed.topic(&format!("cost-out-{records}"), 1);
        let (app, subscription) = (bed.run.parse().unwrap(), "s".parse().unwrap());
        let transactions = Transactions::of(
            TransactionalId::of(&app, &subscription, partition(0)),
            bed.group("s"),
            input,
            partition(0),
        );
        let mut producer = transactions
            .producer(&bed.settings, common::budget())
            .unwrap();
        transactions.take_over(&producer, WAIT).unwrap();
        let output = producer.topic(&topic, WAIT).unwrap();
        let mut batch = OutputBatch::new();
        for _ in 0..records {
            batch.push(Some(b"key"), Some(b"a value of a few bytes"));
        }
        let mut parts: [Vec<Duration>; 3] = Default::default();
        for _ in 0..ROUNDS {
            transactions.begin(&producer).unwrap();
            let began = std::time::Instant::now();
            assert_eq!(producer.produce(&output, &batch).unwrap(), []);
            transactions
                .send_offset(&producer, &common::receipt(), WAIT)
                .unwrap();
            let sent = began.elapsed();
            assert_eq!(
                transactions.commit(&producer, WAIT),
                CommitOutcome::Committed
            );
            let whole = began.elapsed();
            for (part, time) in parts
                .iter_mut()
                .zip([sent, whole.saturating_sub(sent), whole])
            {
                part.push(time);
            }
        }
        for (part, name) in parts
            .iter_mut()
            .zip(["records and offset", "commit", "both"])
        {
            part.sort_unstable();
            let (median, most) = (part[ROUNDS / 2], part[ROUNDS * 99 / 100]);
            println!("{records} records, {name}: median {median:?}, 99 of 100 below {most:?}");
        }
    });
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_topic_grows_once_and_every_broker_says_so() {
    with_bed(|bed, admin| {
        let name = bed.topic("grows", 4);
        let count = 8.try_into().unwrap();
        assert_eq!(
            admin.grow_topic(&name, count, WAIT).unwrap(),
            GrowOutcome::Grown
        );
        admin
            .await_partition_count(&name, count, deadline())
            .unwrap();
        assert_eq!(
            admin.grow_topic(&name, count, WAIT).unwrap(),
            GrowOutcome::HasIt
        );
        let lower = 4.try_into().unwrap();
        assert!(admin.grow_topic(&name, lower, WAIT).is_err());
        let counts = admin
            .counts_by_broker(std::slice::from_ref(&name), WAIT)
            .unwrap();
        assert_eq!(counts.silent, 0);
        assert!(!counts.answers.is_empty());
        assert!(
            counts
                .answers
                .iter()
                .all(|answer| answer.get(&name) == Some(&count))
        );
        // This user may do everything.
        let none: Vec<TopicName> = Vec::new();
        assert_eq!(admin.not_alterable(&[name], WAIT).unwrap(), none);
    });
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_seal_is_committed_at_the_same_offset_and_whoever_had_the_id_commits_no_more() {
    with_bed(|bed, admin| {
        let (input, group) = (bed.topic("sealed", 1), bed.group("s"));
        let transactions = || {
            Transactions::of(
                TransactionalId::of(
                    &bed.run.parse().unwrap(),
                    &"s".parse().unwrap(),
                    partition(0),
                ),
                group.clone(),
                input.clone(),
                partition(0),
            )
        };
        let old = transactions();
        let task = old.producer(&bed.settings, common::budget()).unwrap();
        old.take_over(&task, WAIT).unwrap();
        old.begin(&task).unwrap();
        let committed = common::receipt();
        old.send_offset(&task, &committed, WAIT).unwrap();
        assert_eq!(old.commit(&task, WAIT), CommitOutcome::Committed);

        let sealed = SealedReceipt {
            sealed_by: 9.try_into().unwrap(),
            last: committed.receipt,
        };
        let operator = transactions();
        let producer = operator.producer(&bed.settings, common::budget()).unwrap();
        operator.take_over(&producer, WAIT).unwrap();
        operator.begin(&producer).unwrap();
        operator
            .send_seal(&producer, committed.offset, &sealed, WAIT)
            .unwrap();
        assert_eq!(operator.commit(&producer, WAIT), CommitOutcome::Committed);
        let found = admin
            .committed_at(&group, &input, partition(0), WAIT)
            .unwrap()
            .unwrap();
        assert_eq!(found.offset, committed.offset);
        assert_eq!(
            found.metadata.parse::<GroupReceipt>().unwrap(),
            GroupReceipt::Sealed(sealed)
        );

        old.begin(&task).unwrap();
        let fenced = old.send_offset(&task, &committed, WAIT).is_err()
            || old.commit(&task, WAIT) != CommitOutcome::Committed;
        assert!(fenced, "a task that was sealed still commits");
    });
}
