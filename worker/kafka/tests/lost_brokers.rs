//! A client that a broker told of a cluster without brokers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

#[path = "common/blinding_proxy.rs"]
mod blinding_proxy;
mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use blinding_proxy::BlindingProxy;
use common::{Bed, Record, WAIT, deadline, records};
use turbine_kafka::{EmbeddedBroker, KafkaSettings, OutputBatch, PartitionReader};

/// Clients ask about the cluster when a leader is gone, and now and then.
fn asks_often() -> BTreeMap<String, String> {
    let interval = ("topic.metadata.refresh.interval.ms", "200");
    BTreeMap::from([interval].map(|(name, value)| (name.to_owned(), value.to_owned())))
}

#[test]
fn reading_and_writing_go_on_after_an_answer_that_named_no_broker() {
    let broker = EmbeddedBroker::start().unwrap();
    let proxy = BlindingProxy::start(broker.bootstrap_servers());
    let bed = Bed {
        settings: KafkaSettings::new(proxy.address(), None, None, asks_often()).unwrap(),
        make_topic: &|topic, count| broker.create_topic(topic, count).unwrap(),
        run: "blinded".to_owned(),
    };
    let topic = bed.topic("blinded", 1);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let mut reader = bed.reader(&topic, 0, 0);
    let mut batch = OutputBatch::new();
    batch.push(Some(b"k"), Some(b"before"));
    producer.produce(&output, &batch).unwrap();
    producer.flush_acked(deadline()).unwrap();
    assert_eq!(next(&mut reader), record("before"));

    proxy.blind();
    let until = deadline();
    while proxy.blinded() < 2 {
        assert!(
            Instant::now() < until,
            "{} clients asked about the cluster",
            proxy.blinded()
        );
        assert!(
            reader
                .read(1, Duration::from_millis(50))
                .unwrap()
                .is_empty()
        );
    }
    proxy.see();

    batch.clear();
    batch.push(Some(b"k"), Some(b"after"));
    producer.produce(&output, &batch).unwrap();
    producer.flush_acked(deadline()).unwrap();
    assert_eq!(next(&mut reader), record("after"));
}

fn record(value: &str) -> Record {
    (Some(b"k".to_vec()), Some(value.into()))
}

fn next(reader: &mut PartitionReader) -> Record {
    let until = deadline();
    loop {
        assert!(
            Instant::now() < until,
            "no record comes: {:?}",
            reader.link()
        );
        let batch = reader.read(1, Duration::from_millis(100)).unwrap();
        if let Some(record) = records(&batch).pop() {
            return record;
        }
    }
}
