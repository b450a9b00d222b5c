//! Growing a topic, and what has to be known around it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rdkafka::admin::NewPartitions;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode as Code;
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::TopicName;

use super::Admin;
use super::rights::{Right, lacking};
use super::topics::{OneBroker, no_answer, options};
use crate::error::{Doing, KafkaError, Resource};
use crate::ffi;

/// What became of an order to grow a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowOutcome {
    /// This call grew it.
    Grown,
    /// It has this count already.
    HasIt,
}

/// Counts of topics, by the word of each broker by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountsByBroker {
    /// What each broker that answered said; a topic that it does not know is not in there.
    pub answers: Vec<BTreeMap<TopicName, RawPartitionCount>>,
    /// Brokers that did not answer in time.
    pub silent: u32,
}

impl Admin {
    /// Grows a topic to `to` partitions.
    ///
    /// # Errors
    /// If the broker refuses or does not answer. After [`KafkaError::TimedOut`] it may still be done.
    pub fn grow_topic(
        &self,
        topic: &TopicName,
        to: RawPartitionCount,
        timeout: Duration,
    ) -> Result<GrowOutcome, KafkaError> {
        let doing = self.doing("grow", Resource::Topic(topic), timeout);
        let count = usize::try_from(to.get()).unwrap_or(usize::MAX);
        let order = NewPartitions::new(topic.as_str(), count);
        let answer = block_on(self.requests.create_partitions([&order], &options(timeout)))
            .map_err(|error| self.explained(&doing, doing.failed(&error)))?;
        match answer.into_iter().next() {
            Some(Ok(_)) => Ok(GrowOutcome::Grown),
            // Its word for a count that is not higher.
            Some(Err((_, Code::InvalidPartitions))) if self.has(&doing, topic, to, timeout)? => {
                Ok(GrowOutcome::HasIt)
            }
            Some(Err((_, code))) => Err(doing.code(code, &code.to_string())),
            None => Err(no_answer(&doing)),
        }
    }

    fn has(
        &self,
        doing: &Doing<'_>,
        topic: &TopicName,
        count: RawPartitionCount,
        timeout: Duration,
    ) -> Result<bool, KafkaError> {
        super::partition_count(self.reader.client(), doing, topic, timeout)
            .map(|found| found == count)
    }

    /// Asks each broker for the counts of topics: one that lags behind gives producers the former ones.
    ///
    /// # Errors
    /// If no broker can be asked which others there are.
    pub fn counts_by_broker(
        &self,
        topics: &[TopicName],
        timeout: Duration,
    ) -> Result<CountsByBroker, KafkaError> {
        let deadline = Instant::now() + timeout;
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut counts = CountsByBroker::default();
        for broker in self.brokers(left())? {
            let mut answer = BTreeMap::new();
            let asked = topics.iter().try_for_each(|topic| {
                let client = OneBroker::open(self, &broker)?;
                if let Some(count) = client.partitions(topic, left())? {
                    answer.insert(topic.clone(), count);
                }
                Ok::<(), KafkaError>(())
            });
            match asked {
                Ok(()) => counts.answers.push(answer),
                Err(error) => {
                    tracing::debug!(broker = broker.id, %error, "a broker was not heard about counts");
                    counts.silent = counts.silent.saturating_add(1);
                }
            }
        }
        Ok(counts)
    }

    /// Those of the topics that this user may not alter, as far as brokers say.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub fn not_alterable(
        &self,
        topics: &[TopicName],
        timeout: Duration,
    ) -> Result<Vec<TopicName>, KafkaError> {
        let names: Vec<&str> = topics.iter().map(TopicName::as_str).collect();
        let doing = self.doing("describe the topics of", Resource::Cluster, timeout);
        let told = ffi::topic_operations(&self.reader, &names, timeout)
            .map_err(|code| self.explained(&doing, doing.code(code, &code.to_string())))?;
        let mut found = Vec::new();
        for topic in topics {
            let Some((_, told)) = told.iter().find(|(name, _)| name == topic.as_str()) else {
                continue;
            };
            if lacking(Resource::Topic(topic), Right::Alter, told.clone()) {
                found.push(topic.clone());
            }
        }
        Ok(found)
    }
}
