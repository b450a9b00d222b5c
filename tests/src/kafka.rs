//! Topics and records, by a client of the tests' own.

mod placement;
mod read;
mod record;
mod write;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode;

pub use placement::partition_of;
pub use record::{Record, Stored};

use crate::wait;

const TIMEOUT: Duration = Duration::from_secs(30);

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
}
