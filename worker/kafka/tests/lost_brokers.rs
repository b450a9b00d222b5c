//! A client that a broker told of a cluster without brokers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "common/blinding_proxy.rs"]
mod blinding_proxy;
mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use blinding_proxy::BlindingProxy;
use common::{Record, WAIT, budget, deadline, offset, partition, receipt, records};
use turbine_kafka::{
    EmbeddedBroker, KafkaError, KafkaSettings, OutputBatch, OutputProducer, OutputTopic,
    PartitionReader,
};
use turbine_protocol::{CommittedReceipt, GroupId, TopicName};

/// Clients ask about the cluster when a leader is gone, and now and then.
fn asks_often() -> BTreeMap<String, String> {
    let interval = ("topic.metadata.refresh.interval.ms", "200");
    BTreeMap::from([interval].map(|(name, value)| (name.to_owned(), value.to_owned())))
}

/// A broker, and the way to it that can be blinded.
struct Way {
    broker: EmbeddedBroker,
    proxy: BlindingProxy,
}

impl Way {
    fn start() -> Self {
        let broker = EmbeddedBroker::start().unwrap();
        let proxy = BlindingProxy::start(broker.bootstrap_servers());
        Self { broker, proxy }
    }

    fn topic(&self, name: &str) -> TopicName {
        let topic = name.parse().unwrap();
        let one = 1.try_into().unwrap();
        self.broker.create_topic(&topic, one).unwrap();
        topic
    }

    fn reader(&self, topic: &TopicName) -> PartitionReader {
        reader(self.proxy.address(), topic)
    }

    /// Lets answers name no broker until one was given, while `ask` makes the client ask.
    fn blind(&self, mut ask: impl FnMut()) {
        self.proxy.blind();
        let until = deadline();
        while self.proxy.blinded() == 0 {
            assert!(Instant::now() < until, "nobody asked about the cluster");
            ask();
        }
        self.proxy.see();
    }
}

fn settings(bootstrap: &str) -> KafkaSettings {
    KafkaSettings::new(bootstrap, None, None, asks_often()).unwrap()
}

fn reader(bootstrap: &str, topic: &TopicName) -> PartitionReader {
    let group = GroupId::of(&"lost".parse().unwrap(), &"s".parse().unwrap());
    PartitionReader::open(
        &settings(bootstrap),
        &group,
        topic,
        partition(0),
        offset(0),
        budget(),
    )
    .unwrap()
}

fn producer(bootstrap: &str) -> OutputProducer {
    OutputProducer::open(&settings(bootstrap), budget()).unwrap()
}

fn write(producer: &mut OutputProducer, topic: &OutputTopic, value: &str) {
    let mut batch = OutputBatch::new();
    batch.push(Some(b"k"), Some(value.as_bytes()));
    producer.produce(topic, &batch).unwrap();
    producer.flush_acked(deadline()).unwrap();
}

/// A question that the reader's client asks anew each time; what comes of it does not matter.
fn ask(reader: &PartitionReader) {
    let _ = reader.partition_count(Duration::from_secs(1));
}

#[test]
fn a_reader_goes_on_after_an_answer_that_named_no_broker() {
    let way = Way::start();
    let topic = way.topic("read");
    let mut producer = producer(way.broker.bootstrap_servers());
    let output = producer.topic(&topic, WAIT).unwrap();
    let mut reader = way.reader(&topic);
    write(&mut producer, &output, "before");
    assert_eq!(next(&mut reader), record("before"));

    way.blind(|| ask(&reader));

    write(&mut producer, &output, "after");
    assert_eq!(next(&mut reader), record("after"));
}

#[test]
fn offsets_are_committed_after_an_answer_that_named_no_broker_though_nothing_is_read() {
    let way = Way::start();
    let topic = way.topic("committed");
    let reader = way.reader(&topic);
    let commit = |number| {
        let committed = CommittedReceipt {
            offset: offset(number),
            ..receipt()
        };
        reader.commit(&committed, Duration::from_secs(1))
    };
    until_ok(|| commit(1));

    way.blind(|| ask(&reader));

    until_ok(|| commit(2));
    let committed = reader.committed(WAIT).unwrap().unwrap();
    assert_eq!(committed.offset, offset(2));
}

fn until_ok(mut call: impl FnMut() -> Result<(), KafkaError>) {
    let until = deadline();
    while let Err(error) = call() {
        assert!(Instant::now() < until, "{error}");
    }
}

#[test]
fn a_producer_goes_on_after_an_answer_that_named_no_broker() {
    let way = Way::start();
    let topic = way.topic("written");
    let mut producer = producer(way.proxy.address());
    let output = producer.topic(&topic, WAIT).unwrap();
    write(&mut producer, &output, "before");

    // it asks by itself
    way.blind(|| std::thread::sleep(Duration::from_millis(20)));

    write(&mut producer, &output, "after");
    let mut reader = reader(way.broker.bootstrap_servers(), &topic);
    assert_eq!(next(&mut reader), record("before"));
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
