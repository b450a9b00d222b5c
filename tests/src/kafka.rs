//! Topics and records, by a client of the tests' own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers as _, Message as _, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::sync::Mutex;

use turbine_kafka::Lifeline;

use crate::events::{Event, EventPlan};
use crate::wait;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A record to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// None: murmur2 of the key, as Kafka's own clients place it.
    pub partition: Option<i32>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Epoch milliseconds. None: now.
    pub timestamp_ms: Option<i64>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self {
            key: Some(event.key),
            value: Some(event.value),
            ..Self::default()
        }
    }
}

/// A record as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Stored {
    /// The value as JSON.
    ///
    /// # Errors
    /// It is none.
    pub fn json(&self) -> Result<serde_json::Value> {
        let value = self.value.as_deref().context("a record without a value")?;
        serde_json::from_slice(value).with_context(|| String::from_utf8_lossy(value).into_owned())
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

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

/// One Kafka cluster.
#[derive(Debug, Clone)]
pub struct Kafka {
    bootstrap: String,
}

impl Kafka {
    pub fn new(bootstrap: &str) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
        }
    }

    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("allow.auto.create.topics", "false");
        config
    }

    fn consumer(&self) -> Result<BaseConsumer> {
        let mut config = self.config();
        // rdkafka wants a group even where none is joined
        config
            .set("group.id", "turbine-tests")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error");
        Ok(config.create()?)
    }

    /// Makes a topic and waits until its partitions have leaders.
    ///
    /// # Errors
    /// It exists, or the broker refuses.
    pub async fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        config: &[(&str, &str)],
    ) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
        for (key, value) in config {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new()
            .operation_timeout(Some(TIMEOUT))
            .request_timeout(Some(TIMEOUT));
        for result in admin.create_topics([&topic], &options).await? {
            result.map_err(|(topic, code)| anyhow!("topic {topic} was not made: {code}"))?;
        }
        wait::until(&format!("leaders of {name}"), TIMEOUT, || async {
            Ok((self.partitions(name)? == Some(partitions)).then_some(()))
        })
        .await
    }

    /// Gives a topic more partitions and waits until they have leaders.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn grow_topic(&self, name: &str, partitions: i32) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let grown = NewPartitions::new(name, usize::try_from(partitions)?);
        let options = AdminOptions::new()
            .operation_timeout(Some(TIMEOUT))
            .request_timeout(Some(TIMEOUT));
        for result in admin.create_partitions([&grown], &options).await? {
            result.map_err(|(topic, code)| anyhow!("topic {topic} did not grow: {code}"))?;
        }
        wait::until(&format!("leaders of {name}"), TIMEOUT, || async {
            Ok((self.partitions(name)? == Some(partitions)).then_some(()))
        })
        .await
    }

    /// Deletes a topic and waits until it is gone; one that is not there is no error.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn delete_topic(&self, name: &str) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let options = AdminOptions::new()
            .operation_timeout(Some(TIMEOUT))
            .request_timeout(Some(TIMEOUT));
        for result in admin.delete_topics(&[name], &options).await? {
            match result {
                Ok(_)
                | Err((
                    _,
                    RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic,
                )) => {}
                Err((topic, code)) => bail!("topic {topic} was not deleted: {code}"),
            }
        }
        wait::until(&format!("end of {name}"), TIMEOUT, || async {
            Ok(self.partitions(name)?.is_none().then_some(()))
        })
        .await
    }

    /// Tells the broker to delete topics and waits for nothing; topics that are not there are no error.
    ///
    /// # Errors
    /// The broker refuses.
    pub fn forget(&self, names: &[&str]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
        for result in futures::executor::block_on(admin.delete_topics(names, &options))? {
            match result {
                Ok(_)
                | Err((
                    _,
                    RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic,
                )) => {}
                Err((topic, code)) => bail!("topic {topic} was not deleted: {code}"),
            }
        }
        Ok(())
    }

    /// How many partitions a topic has; none if there is no such topic or it has partitions without a leader.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn partitions(&self, topic: &str) -> Result<Option<i32>> {
        let consumer = self.consumer()?;
        let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT)?;
        let Some(found) = metadata.topics().iter().find(|each| each.name() == topic) else {
            return Ok(None);
        };
        let led = found
            .partitions()
            .iter()
            .all(|each| each.leader() >= 0 && each.error().is_none());
        if found.error().is_some() || found.partitions().is_empty() || !led {
            return Ok(None);
        }
        Ok(Some(i32::try_from(found.partitions().len())?))
    }

    /// High watermark of each partition.
    ///
    /// # Errors
    /// The broker does not answer, or there is no such topic.
    pub fn ends(&self, topic: &str) -> Result<BTreeMap<i32, i64>> {
        let consumer = self.consumer()?;
        let count = self
            .partitions(topic)?
            .with_context(|| format!("no topic {topic}"))?;
        (0..count)
            .map(|partition| {
                Ok((
                    partition,
                    consumer.fetch_watermarks(topic, partition, TIMEOUT)?.1,
                ))
            })
            .collect()
    }

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
            .set("linger.ms", "20")
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

    /// Offsets that a consumer group has committed; partitions without one are left out.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn committed(&self, group: &str, topic: &str) -> Result<BTreeMap<i32, i64>> {
        self.committed_at(group, topic, "read_committed")
    }

    /// The same, without waiting for the end of transactions that hold newer offsets.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn committed_beside_open(&self, group: &str, topic: &str) -> Result<BTreeMap<i32, i64>> {
        self.committed_at(group, topic, "read_uncommitted")
    }

    fn committed_at(
        &self,
        group: &str,
        topic: &str,
        isolation: &str,
    ) -> Result<BTreeMap<i32, i64>> {
        let consumer: BaseConsumer = self
            .config()
            .set("group.id", group)
            .set("isolation.level", isolation)
            .create()?;
        let count = self
            .partitions(topic)?
            .with_context(|| format!("no topic {topic}"))?;
        let mut asked = TopicPartitionList::new();
        for partition in 0..count {
            asked.add_partition(topic, partition);
        }
        let answer = consumer.committed_offsets(asked, TIMEOUT)?;
        let known = answer
            .elements()
            .into_iter()
            .filter_map(|each| match each.offset() {
                Offset::Offset(offset) => Some((each.partition(), offset)),
                Offset::Beginning
                | Offset::End
                | Offset::Stored
                | Offset::Invalid
                | Offset::OffsetTail(_) => None,
            });
        Ok(known.collect())
    }

    /// Everything committed, up to the ends as they are now, in order of partition and offset.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn read_all(&self, topic: &str) -> Result<Vec<Stored>> {
        let mut read = Vec::new();
        self.visit_all(topic, |record| {
            read.push(record);
            Ok(())
        })?;
        read.sort_by_key(|each| (each.partition, each.offset));
        Ok(read)
    }

    /// Calls `take` for everything committed, up to the ends as they are now, in order within a partition.
    ///
    /// # Errors
    /// The broker does not answer, or `take` refuses a record.
    pub fn visit_all(&self, topic: &str, mut take: impl FnMut(Stored) -> Result<()>) -> Result<()> {
        let mut open = self.ends(topic)?;
        let consumer = self.consumer()?;
        let mut assignment = TopicPartitionList::new();
        for partition in open.keys() {
            assignment.add_partition_offset(topic, *partition, Offset::Beginning)?;
        }
        consumer.assign(&assignment)?;
        open.retain(|_, end| *end > 0);
        let patience = Duration::from_mins(2);
        let mut progress = Instant::now();
        while !open.is_empty() {
            if progress.elapsed() > patience {
                bail!("{topic} was not read to its end in time; still open: {open:?}");
            }
            match consumer.poll(Duration::from_millis(200)) {
                None => {}
                Some(Ok(message)) => {
                    progress = Instant::now();
                    if open
                        .get(&message.partition())
                        .is_some_and(|end| message.offset() + 1 >= *end)
                    {
                        open.remove(&message.partition());
                    }
                    take(stored(&message))?;
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    open.remove(&partition);
                }
                Some(Err(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Calls `take` for each record as it arrives, until it answers false.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn follow(&self, topic: &str, mut take: impl FnMut(&Stored) -> Result<bool>) -> Result<()> {
        let consumer = self.consumer()?;
        let mut assignment = TopicPartitionList::new();
        for partition in self.ends(topic)?.keys() {
            assignment.add_partition_offset(topic, *partition, Offset::Beginning)?;
        }
        consumer.assign(&assignment)?;
        loop {
            match consumer.poll(Duration::from_millis(500)) {
                None | Some(Err(KafkaError::PartitionEOF(_))) => {}
                Some(Ok(message)) => {
                    if !take(&stored(&message))? {
                        return Ok(());
                    }
                }
                Some(Err(error)) => return Err(error.into()),
            }
        }
    }
}

fn stored(message: &rdkafka::message::BorrowedMessage<'_>) -> Stored {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers
            .iter()
            .map(|each| (each.key.to_owned(), each.value.unwrap_or_default().to_vec()))
            .collect()
    });
    Stored {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
    }
}

/// Where Kafka's own clients put a key.
///
/// Written here once more, and held to Kafka's own values, so that the tests do not place keys by the code under test.
pub fn partition_of(key: &[u8], count: i32) -> i32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the hash takes the length modulo 2^32"
    )]
    let mut hash = 0x9747_b28c_u32 ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut k = word
            .iter()
            .rev()
            .fold(0_u32, |k, byte| k << 8 | u32::from(*byte));
        k = k.wrapping_mul(MULTIPLIER);
        k ^= k >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ k.wrapping_mul(MULTIPLIER);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest
            .iter()
            .rev()
            .fold(0_u32, |k, byte| k << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^= hash >> 15;
    (hash & 0x7fff_ffff).cast_signed() % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_placed_as_kafka_places_them() {
        // values of org.apache.kafka.common.utils.Utils.murmur2, from Kafka's own UtilsTest
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(
                partition_of(key.as_bytes(), i32::MAX),
                (hash & 0x7fff_ffff) % i32::MAX,
                "{key}"
            );
        }
    }
}
