//! Writing records.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use turbine_kafka::Lifeline;

use super::{Kafka, Record, partition_of};
use crate::events::{Event, EventPlan};

/// Remembers the first record that was refused.
#[derive(Debug, Default)]
struct Deliveries(Mutex<Option<KafkaError>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let (Err((error, _)), Ok(mut first)) = (result, self.0.lock()) {
            first.get_or_insert_with(|| error.clone());
        }
    }
}

impl Kafka {
    /// Writes records in order, at most `rate` a second, and waits until the broker has them all.
    ///
    /// # Errors
    /// One of them was not taken.
    pub fn produce(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = Record>,
        rate: Option<u64>,
    ) -> Result<u64> {
        // the same place as Kafka's own clients give a key
        self.produce_with(&[("partitioner", "murmur2_random")], topic, records, rate)
    }

    /// As [`Self::produce`], in large batches of lz4: cheap to read.
    ///
    /// # Errors
    /// One of them was not taken.
    pub fn produce_packed(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<u64> {
        let packed = [
            ("partitioner", "murmur2_random"),
            ("compression.type", "lz4"),
            ("linger.ms", "1000"),
            ("batch.size", "262144"),
        ];
        self.produce_with(&packed, topic, records, None)
    }

    /// As [`Self::produce`], placed as librdkafka does when nobody chooses a partitioner: by CRC32.
    ///
    /// # Errors
    /// One of them was not taken.
    pub fn produce_by_crc32(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<u64> {
        self.produce_with(
            &[("partitioner", "consistent_random")],
            topic,
            records,
            None,
        )
    }

    fn produce_with(
        &self,
        settings: &[(&str, &str)],
        topic: &str,
        records: impl IntoIterator<Item = Record>,
        rate: Option<u64>,
    ) -> Result<u64> {
        let mut config = self.config();
        // one order per partition even when a request is repeated
        config
            .set("enable.idempotence", "true")
            // While a partition waits for an answer and records of it are older than this, the client spins (confluentinc/librdkafka
            // #3692): a slow broker would be made slower by all who write to it.
            .set("linger.ms", "200")
            .set("queue.buffering.max.messages", "1000000")
            .set("message.timeout.ms", "180000");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        let producer: ThreadedProducer<Deliveries> =
            config.create_with_context(Deliveries::default())?;
        let began = Instant::now();
        let lifeline = Lifeline::new(&self.bootstrap);
        let mut written = 0_u64;
        for record in records {
            lifeline.hold(producer.client(), Instant::now());
            if let Some(rate) = rate {
                let due = Duration::from_nanos(written.saturating_mul(1_000_000_000) / rate.max(1));
                if let Some(early) = due.checked_sub(began.elapsed()) {
                    std::thread::sleep(early);
                }
            }
            Self::send(&producer, topic, &record)?;
            written += 1;
        }
        // Longer than any record may take, so that what is not taken is told by its own error.
        let end = Instant::now() + Duration::from_mins(4);
        while let Err(error) = producer.flush(Duration::from_secs(1)) {
            lifeline.hold(producer.client(), Instant::now());
            if Instant::now() > end {
                return Err(error.into());
            }
        }
        let mut first = producer
            .context()
            .0
            .lock()
            .map_err(|_| anyhow!("the delivery callback panicked"))?;
        match first.take() {
            Some(error) => Err(error).with_context(|| format!("a record for {topic} was refused")),
            None => Ok(written),
        }
    }

    fn send(producer: &ThreadedProducer<Deliveries>, topic: &str, record: &Record) -> Result<()> {
        let mut message: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
        if let Some(partition) = record.partition {
            message = message.partition(partition);
        }
        if let Some(key) = &record.key {
            message = message.key(key);
        }
        if let Some(value) = &record.value {
            message = message.payload(value);
        }
        if let Some(timestamp) = record.timestamp_ms {
            message = message.timestamp(timestamp);
        }
        if !record.headers.is_empty() {
            let headers =
                record
                    .headers
                    .iter()
                    .fold(OwnedHeaders::new(), |headers, (key, value)| {
                        headers.insert(Header {
                            key,
                            value: Some(value),
                        })
                    });
            message = message.headers(headers);
        }
        loop {
            match producer.send(message) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    message = again;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }

    /// Writes the events of a plan; then, on each partition, one event at `closing_ms`, if given, whose key belongs there.
    ///
    /// # Errors
    /// A record was not taken.
    pub fn produce_events(
        &self,
        topic: &str,
        plan: &EventPlan,
        closing_ms: Option<i64>,
        rate: Option<u64>,
    ) -> Result<u64> {
        let written = self.produce(topic, plan.events().map(Record::from), rate)?;
        match closing_ms {
            None => Ok(written),
            Some(closing_ms) => Ok(written + self.produce_closing(topic, closing_ms)?),
        }
    }

    /// One event at `time_ms` on each partition.
    ///
    /// # Errors
    /// A record was not taken.
    pub fn produce_closing(&self, topic: &str, time_ms: i64) -> Result<u64> {
        let count = self
            .partitions(topic)?
            .with_context(|| format!("no topic {topic}"))?;
        let mut found: BTreeMap<i32, Event> = BTreeMap::new();
        let mut number = 0;
        while found.len() < usize::try_from(count)? {
            let event = EventPlan::closing_event(number, time_ms);
            found
                .entry(partition_of(&event.key, count))
                .or_insert(event);
            number += 1;
        }
        self.produce(topic, found.into_values().map(Record::from), None)
    }
}
