//! Topics: what there is, and making and deleting them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rdkafka::admin::{
    AdminOptions, NewTopic as ClientNewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::metadata::Metadata;
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::TopicName;

use super::{Admin, Broker, DeleteOutcome};
use crate::client::{AFTERWARDS, Context, serve};
use crate::error::{Doing, KafkaError, Resource, partition};

/// How a topic is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicLayout {
    /// How many partitions it has.
    pub partitions: RawPartitionCount,
    /// Copies of each partition; of the partition that has fewest.
    pub replication: u32,
    /// Partitions that nobody leads at the moment: they can be neither read nor written.
    pub leaderless: Vec<Partition>,
}

/// Whether a topic exists. That the broker does not answer, or may not tell us, is an error
/// instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicPresence {
    /// It does not.
    Missing,
    /// It does, like this.
    Present(TopicLayout),
}

/// A topic to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: TopicName,
    /// How many partitions.
    pub partitions: RawPartitionCount,
    /// Copies of each partition; `None`: the broker's default.
    pub replication: Option<u32>,
    /// Topic settings, by Kafka's names.
    pub config: BTreeMap<String, String>,
}

/// What became of an order to make a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateOutcome {
    /// It was made.
    Created,
    /// It was there before, however it is laid out.
    AlreadyThere,
}

pub(super) fn presence(
    metadata: &Metadata,
    doing: &Doing<'_>,
    topic: &TopicName,
) -> Result<TopicPresence, KafkaError> {
    let found = metadata
        .topics()
        .iter()
        .find(|found| found.name() == topic.as_str());
    let Some(found) = found else {
        return Ok(TopicPresence::Missing);
    };
    if let Some(error) = found.error() {
        return match Code::from(error) {
            Code::UnknownTopicOrPartition | Code::UnknownTopic => Ok(TopicPresence::Missing),
            code => Err(doing.code(code, "metadata")),
        };
    }
    let partitions = found.partitions();
    let count = u32::try_from(partitions.len())
        .ok()
        .and_then(|count| RawPartitionCount::try_from(count).ok());
    let Some(count) = count else {
        // A topic in the middle of being made or deleted has no partitions.
        return Ok(TopicPresence::Missing);
    };
    let mut leaderless = Vec::new();
    for found in partitions {
        if found.leader() < 0 {
            let number = u32::try_from(found.id()).unwrap_or(u32::MAX);
            leaderless.push(partition(number)?);
        }
    }
    let replication = partitions
        .iter()
        .map(|found| found.replicas().len())
        .min()
        .and_then(|least| u32::try_from(least).ok())
        .unwrap_or(0);
    Ok(TopicPresence::Present(TopicLayout {
        partitions: count,
        replication,
        leaderless,
    }))
}

impl Admin {
    /// Whether a topic exists and how it is laid out.
    ///
    /// # Errors
    /// If no broker answers in time, or it may not tell us.
    pub fn topic(&self, topic: &TopicName, timeout: Duration) -> Result<TopicPresence, KafkaError> {
        let doing = self.doing("describe", Resource::Topic(topic), timeout);
        let metadata = self.metadata(&doing, Some(topic), timeout)?;
        presence(&metadata, &doing, topic)
    }

    /// Makes a topic. It may take a moment until every broker knows it: see
    /// [`Admin::await_partition_count`].
    ///
    /// # Errors
    /// If the broker refuses or does not answer. After [`KafkaError::TimedOut`] the topic may
    /// still come.
    pub fn create_topic(
        &self,
        topic: &NewTopic,
        timeout: Duration,
    ) -> Result<CreateOutcome, KafkaError> {
        let doing = self.doing("create", Resource::Topic(&topic.name), timeout);
        let count = i32::try_from(topic.partitions.get()).unwrap_or(i32::MAX);
        // -1 asks for the broker's default.
        let copies = match topic.replication {
            None => -1,
            Some(copies) => i32::try_from(copies).unwrap_or(i32::MAX),
        };
        let mut order =
            ClientNewTopic::new(topic.name.as_str(), count, TopicReplication::Fixed(copies));
        for (name, value) in &topic.config {
            order = order.set(name, value);
        }
        let answer = block_on(self.requests.create_topics([&order], &options(timeout)))
            .map_err(|error| self.explained(&doing, doing.failed(&error)))?;
        match answer.into_iter().next() {
            Some(Ok(_)) => Ok(CreateOutcome::Created),
            Some(Err((_, Code::TopicAlreadyExists))) => Ok(CreateOutcome::AlreadyThere),
            Some(Err((_, code))) => Err(doing.code(code, &code.to_string())),
            None => Err(no_answer(&doing)),
        }
    }

    /// Waits until every broker of the cluster answers `count` partitions for a topic. A client
    /// may ask any of them, and one that lags behind would send records to the wrong place.
    ///
    /// # Errors
    /// [`KafkaError::CountNotSeen`] with what which broker said last, if the deadline comes first.
    pub fn await_partition_count(
        &self,
        topic: &TopicName,
        count: RawPartitionCount,
        deadline: Instant,
    ) -> Result<(), KafkaError> {
        let left = || deadline.saturating_duration_since(Instant::now());
        for broker in self.brokers(left())? {
            let mut said: Option<String> = None;
            loop {
                let client = OneBroker::open(self, &broker)?;
                match client.partitions(topic, left().min(ONE_QUESTION)) {
                    Ok(Some(seen)) if seen == count => break,
                    Ok(Some(other)) => said = Some(format!("answers {}", other.get())),
                    Ok(None) => said = Some("does not know the topic".to_owned()),
                    // A question cut short by the deadline says less than an answer before it.
                    Err(error) => said = said.or_else(|| Some(error.to_string())),
                }
                if left().is_zero() {
                    return Err(KafkaError::CountNotSeen {
                        topic: topic.clone(),
                        expected: count.get(),
                        detail: format!(
                            "broker {} ({}) {}",
                            broker.id,
                            broker.address,
                            said.unwrap_or_else(|| "was not asked in time".to_owned())
                        ),
                    });
                }
                std::thread::sleep(left().min(BETWEEN_QUESTIONS));
            }
        }
        Ok(())
    }

    /// A topic's settings as they are in force, by Kafka's names.
    ///
    /// # Errors
    /// If the topic does not exist, we may not see them, or the broker does not answer.
    pub fn topic_config(
        &self,
        topic: &TopicName,
        timeout: Duration,
    ) -> Result<BTreeMap<String, String>, KafkaError> {
        let doing = self.doing("describe the settings of", Resource::Topic(topic), timeout);
        let resource = ResourceSpecifier::Topic(topic.as_str());
        let answer = block_on(
            self.requests
                .describe_configs([&resource], &options(timeout)),
        )
        .map_err(|error| self.explained(&doing, doing.failed(&error)))?;
        match answer.into_iter().next() {
            Some(Ok(resource)) => Ok(resource
                .entries
                .into_iter()
                .filter_map(|entry| Some((entry.name, entry.value?)))
                .collect()),
            Some(Err(code)) => Err(doing.code(code, &code.to_string())),
            None => Err(no_answer(&doing)),
        }
    }

    /// Deletes a topic with all its records.
    ///
    /// # Errors
    /// If the broker refuses or does not answer.
    pub fn delete_topic(
        &self,
        topic: &TopicName,
        timeout: Duration,
    ) -> Result<DeleteOutcome, KafkaError> {
        let doing = self.doing("delete", Resource::Topic(topic), timeout);
        let answer = block_on(
            self.requests
                .delete_topics(&[topic.as_str()], &options(timeout)),
        )
        .map_err(|error| self.explained(&doing, doing.failed(&error)))?;
        match answer.into_iter().next() {
            Some(Ok(_)) => Ok(DeleteOutcome::Deleted),
            Some(Err((_, Code::UnknownTopicOrPartition | Code::UnknownTopic))) => {
                Ok(DeleteOutcome::NotThere)
            }
            Some(Err((_, code))) => Err(doing.code(code, &code.to_string())),
            None => Err(no_answer(&doing)),
        }
    }
}

const ONE_QUESTION: Duration = Duration::from_secs(5);
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);

pub(super) fn options(timeout: Duration) -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(timeout))
        .operation_timeout(Some(timeout))
}

pub(super) fn no_answer(doing: &Doing<'_>) -> KafkaError {
    KafkaError::Senseless {
        what: doing.what,
        detail: "no result".to_owned(),
    }
}

/// A client that knows one broker's address only, for one question: from its answer the client learns of the others and may ask
/// them next. So an answer is taken only if that broker gave it.
pub(super) struct OneBroker<'a> {
    admin: &'a Admin,
    reader: BaseConsumer<Context>,
    broker: &'a Broker,
}

impl<'a> OneBroker<'a> {
    pub(super) fn open(admin: &'a Admin, broker: &'a Broker) -> Result<Self, KafkaError> {
        let doing = admin.doing("ask one broker of", Resource::Cluster, Duration::ZERO);
        let reader = admin
            .settings
            .through(broker.address.clone())
            .admin()
            .create_with_context(Context::default())
            .map_err(|error| doing.failed(&error))?;
        Ok(Self {
            admin,
            reader,
            broker,
        })
    }

    pub(super) fn partitions(
        self,
        topic: &TopicName,
        timeout: Duration,
    ) -> Result<Option<RawPartitionCount>, KafkaError> {
        let doing = self
            .admin
            .doing("describe", Resource::Topic(topic), timeout);
        let metadata = self
            .reader
            .client()
            .fetch_metadata(Some(topic.as_str()), timeout)
            .map_err(|error| {
                serve(&self.reader, AFTERWARDS);
                let context = self.reader.context();
                context.explain(&doing, doing.failed(&error))
            })?;
        // Below 0: the connection made from the given address, before the broker's id was known.
        let by = metadata.orig_broker_id();
        if by >= 0 && by != self.broker.id {
            return Err(KafkaError::Senseless {
                what: "a question to one broker",
                detail: format!("broker {by} answered for broker {}", self.broker.id),
            });
        }
        match presence(&metadata, &doing, topic)? {
            TopicPresence::Present(layout) => Ok(Some(layout.partitions)),
            TopicPresence::Missing => Ok(None),
        }
    }
}
