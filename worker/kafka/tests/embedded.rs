//! Against the broker within the process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Bed, WAIT, deadline, offset, read_to_end};
use rstest::rstest;
use turbine_kafka::{Admin, EmbeddedBroker, KafkaError, OutputBatch};

fn with_bed(test: impl FnOnce(&Bed<'_>)) {
    let broker = EmbeddedBroker::start().unwrap();
    test(&Bed {
        settings: broker.settings().unwrap(),
        make_topic: &|topic, count| broker.create_topic(topic, count).unwrap(),
        run: "embedded".to_owned(),
    });
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
fn holds(#[case] test: fn(&Bed<'_>)) {
    with_bed(test);
}

#[test]
fn a_broker_that_was_away_is_used_again_and_nothing_is_lost() {
    let broker = EmbeddedBroker::start().unwrap();
    let bed = Bed {
        settings: broker.settings().unwrap(),
        make_topic: &|topic, count| broker.create_topic(topic, count).unwrap(),
        run: "away".to_owned(),
    };
    let topic = bed.topic("away", 1);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let mut reader = bed.reader(&topic, 0, 0);
    assert_eq!(read_to_end(&mut reader), []);

    broker.go_down().unwrap();
    let mut batch = OutputBatch::new();
    batch.push(Some(b"k"), Some(b"v"));
    producer.produce(&output, &batch).unwrap();
    let soon = Instant::now() + Duration::from_millis(300);
    assert!(matches!(
        producer.flush_acked(soon),
        Err(KafkaError::TimedOut { .. })
    ));
    let until = deadline();
    while reader.link().is_none() {
        assert!(Instant::now() < until, "the loss does not show");
        assert!(
            reader
                .read(1, Duration::from_millis(50))
                .unwrap()
                .is_empty()
        );
    }

    broker.come_back().unwrap();
    producer.flush_acked(deadline()).unwrap();
    let until = deadline();
    while reader.position() < offset(1) {
        assert!(
            Instant::now() < until,
            "the record does not come: {:?}",
            reader.link()
        );
        reader.read(1, Duration::from_millis(50)).unwrap();
    }
    assert_eq!(reader.partition_count(WAIT).unwrap().get(), 1);
    assert_eq!(reader.link(), None);
}

#[test]
fn an_abandoned_producer_stops_waiting_and_says_that_outputs_are_lost() {
    let broker = EmbeddedBroker::start().unwrap();
    let bed = Bed {
        settings: broker.settings().unwrap(),
        make_topic: &|topic, count| broker.create_topic(topic, count).unwrap(),
        run: "abandoned".to_owned(),
    };
    let topic = bed.topic("abandoned", 1);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    broker.go_down().unwrap();
    let abandon = producer.abandon_handle();
    let (done, wait) = std::sync::mpsc::channel();
    let blocked = std::thread::spawn(move || {
        let mut batch = OutputBatch::new();
        for _ in 0..100 {
            batch.push(None, Some(&vec![b'x'; 500_000]));
        }
        let result = producer
            .produce(&output, &batch)
            .and_then(|_| producer.flush_acked(deadline()));
        done.send(()).unwrap();
        result
    });
    let until = deadline();
    while wait.recv_timeout(Duration::from_millis(20)).is_err() {
        assert!(Instant::now() < until, "the producer still waits");
        abandon.abandon();
    }
    assert!(matches!(
        blocked.join().unwrap(),
        Err(KafkaError::NotAcknowledged { .. })
    ));
}

#[test]
fn the_cluster_has_an_id_and_brokers() {
    with_bed(|bed| {
        let admin = Admin::open(&bed.settings).unwrap();
        assert!(!admin.cluster_id(WAIT).unwrap().is_empty());
        let brokers = admin.brokers(WAIT).unwrap();
        assert_eq!(brokers.len(), 1);
        assert_eq!(brokers[0].address, bed.settings.bootstrap_servers());
    });
}
