//! What is asked of the broker outside the data path. All calls block.

mod groups;
mod growth;
mod rights;
mod topics;

use std::fmt;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::admin::AdminClient;
use rdkafka::client::Client;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::metadata::Metadata;
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{LogBounds, Offset, TopicName};

pub(crate) use groups::committed_of;
pub use groups::{CommittedOffset, DeleteOutcome};
pub use growth::{CountsByBroker, GrowOutcome};
pub(crate) use rights::listed;
pub use rights::{MissingRight, NeededRights, Right};
pub use topics::{CreateOutcome, NewTopic, TopicLayout, TopicPresence};

use crate::client::{AFTERWARDS, Context, LinkHealth, serve};
use crate::error::{Doing, KafkaError, Resource, bounds};
use crate::lifeline::Lifeline;
use crate::settings::KafkaSettings;

/// One broker of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its id.
    pub id: i32,
    /// `host:port` as it advertises itself.
    pub address: String,
}

/// Asks about topics, offsets and groups, and changes them. Every call blocks, at most for the
/// timeout it is given; async code calls it on a blocking thread.
pub struct Admin {
    settings: KafkaSettings,
    // Metadata and watermarks are asked through a consumer: a producer's question may create the
    // topic it asks about.
    reader: BaseConsumer<Context>,
    requests: AdminClient<Context>,
    lifelines: Lifelines,
}

/// Those of the two clients.
struct Lifelines {
    reader: Lifeline,
    requests: Lifeline,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Admin {
    /// Makes the clients; makes no call to the broker.
    ///
    /// # Errors
    /// If the client does not take its settings.
    pub fn open(settings: &KafkaSettings) -> Result<Self, KafkaError> {
        let doing = Doing {
            what: "open",
            resource: Resource::Cluster,
            bootstrap: settings.bootstrap_servers(),
            after: Duration::ZERO,
        };
        let config = settings.admin();
        Ok(Self {
            settings: settings.clone(),
            reader: config
                .create_with_context(Context::default())
                .map_err(|error| doing.failed(&error))?,
            requests: config
                .create_with_context(Context::default())
                .map_err(|error| doing.failed(&error))?,
            lifelines: Lifelines {
                reader: Lifeline::new(settings.bootstrap_servers()),
                requests: Lifeline::new(settings.bootstrap_servers()),
            },
        })
    }

    /// What is about to be done. Nobody serves these clients between calls, so they are looked after here.
    fn doing<'a>(
        &'a self,
        what: &'static str,
        resource: Resource<'a>,
        after: Duration,
    ) -> Doing<'a> {
        let now = Instant::now();
        self.lifelines.reader.hold(self.reader.client(), now);
        self.lifelines.requests.hold(self.requests.inner(), now);
        Doing {
            what,
            resource,
            bootstrap: self.settings.bootstrap_servers(),
            after,
        }
    }

    fn explained(&self, doing: &Doing<'_>, error: KafkaError) -> KafkaError {
        serve(&self.reader, AFTERWARDS);
        self.reader.context().explain(doing, error)
    }

    /// The trouble on the way to the broker that the client is getting over.
    #[must_use]
    pub fn link(&self) -> Option<LinkHealth> {
        serve(&self.reader, Duration::ZERO);
        self.reader.context().trouble()
    }

    /// The id of the cluster. Two addresses with one id are the same Kafka.
    ///
    /// # Errors
    /// If no broker answers in time.
    pub fn cluster_id(&self, timeout: Duration) -> Result<String, KafkaError> {
        let doing = self.doing("ask for the id of", Resource::Cluster, timeout);
        self.reader
            .client()
            .fetch_cluster_id(timeout)
            .ok_or_else(|| {
                let error = doing.code(Code::OperationTimedOut, "");
                self.explained(&doing, error)
            })
    }

    /// All brokers of the cluster, by id.
    ///
    /// # Errors
    /// If no broker answers in time.
    pub fn brokers(&self, timeout: Duration) -> Result<Vec<Broker>, KafkaError> {
        let doing = self.doing("list the brokers of", Resource::Cluster, timeout);
        // Brokers come with any answer; asking for one topic that cannot exist keeps it short.
        let metadata = self.metadata(&doing, None, timeout)?;
        let mut brokers: Vec<Broker> = metadata
            .brokers()
            .iter()
            .map(|broker| Broker {
                id: broker.id(),
                address: format!("{}:{}", broker.host(), broker.port()),
            })
            .collect();
        brokers.sort_by_key(|broker| broker.id);
        Ok(brokers)
    }

    fn metadata(
        &self,
        doing: &Doing<'_>,
        topic: Option<&TopicName>,
        timeout: Duration,
    ) -> Result<Metadata, KafkaError> {
        self.reader
            .client()
            .fetch_metadata(topic.map(TopicName::as_str), timeout)
            .map_err(|error| self.explained(doing, doing.failed(&error)))
    }

    /// Where a partition's log begins and ends; the end is the true one, records of open
    /// transactions included.
    ///
    /// # Errors
    /// If the topic or the partition does not exist, or the broker does not answer.
    pub fn watermarks(
        &self,
        topic: &TopicName,
        partition: Partition,
        timeout: Duration,
    ) -> Result<LogBounds, KafkaError> {
        let doing = self.doing(
            "read the ends of",
            Resource::Partition(topic, partition.get()),
            timeout,
        );
        let (low, high) = self
            .reader
            .client()
            .fetch_watermarks(topic.as_str(), partition.get(), timeout)
            .map_err(|error| self.explained(&doing, doing.failed(&error)))?;
        bounds(low, high)
    }

    /// The offset of the first record of `partition` with a time of `millis` (since the Unix
    /// epoch) or later; `None` if there is none yet.
    ///
    /// # Errors
    /// If the broker does not answer, or not for this partition.
    pub fn offset_at(
        &self,
        topic: &TopicName,
        partition: Partition,
        millis: i64,
        timeout: Duration,
    ) -> Result<Option<Offset>, KafkaError> {
        let doing = self.doing(
            "look up a time in",
            Resource::Partition(topic, partition.get()),
            timeout,
        );
        let mut list = rdkafka::topic_partition_list::TopicPartitionList::with_capacity(1);
        list.add_partition(topic.as_str(), partition.get())
            .set_offset(rdkafka::Offset::Offset(millis))
            .map_err(|error| doing.failed(&error))?;
        let answer = self
            .reader
            .offsets_for_times(list, timeout)
            .map_err(|error| self.explained(&doing, doing.failed(&error)))?;
        let Some(element) = answer.find_partition(topic.as_str(), partition.get()) else {
            return Ok(None);
        };
        element.error().map_err(|error| doing.failed(&error))?;
        match element.offset() {
            rdkafka::Offset::Offset(raw) => crate::error::offset(doing.what, raw).map(Some),
            // The broker's word for "no such record".
            rdkafka::Offset::End | rdkafka::Offset::Invalid => Ok(None),
            other => Err(KafkaError::Senseless {
                what: "an offset for a time",
                detail: format!("{other:?}"),
            }),
        }
    }
}

/// How many partitions a topic has, by any broker's word.
pub(crate) fn partition_count<C: ClientContext>(
    client: &Client<C>,
    doing: &Doing<'_>,
    topic: &TopicName,
    timeout: Duration,
) -> Result<RawPartitionCount, KafkaError> {
    let metadata = client
        .fetch_metadata(Some(topic.as_str()), timeout)
        .map_err(|error| doing.failed(&error))?;
    match topics::presence(&metadata, doing, topic)? {
        TopicPresence::Present(layout) => Ok(layout.partitions),
        TopicPresence::Missing => Err(doing.code(Code::UnknownTopicOrPartition, "")),
    }
}
