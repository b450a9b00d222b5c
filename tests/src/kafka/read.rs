//! Reading records and the offsets of groups.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use super::{Kafka, Stored, TIMEOUT};

impl Kafka {
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
                    take(Stored::from(&message))?;
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
                    if !take(&Stored::from(&message))? {
                        return Ok(());
                    }
                }
                Some(Err(error)) => return Err(error.into()),
            }
        }
    }
}
