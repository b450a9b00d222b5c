use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thiserror::Error;
use turbine_crds::app::{OnError, OnNullKey};
use turbine_crds::compiled::{CompiledApp, CompiledSubscription};
use turbine_kafka::{Admin, EmbeddedBroker, KafkaError, KafkaSettings, NewTopic, TopicPresence};
use turbine_keygroups::{InvalidPartitionCount, RawPartitionCount};
use turbine_protocol::TopicName;
use turbine_protocol::names::NameError;

use crate::control::assignment::count_refusal;

const WAIT: Duration = Duration::from_secs(15);

/// Topics that are not as the app needs them.
#[derive(Debug, Error)]
pub enum TopicError {
    /// A name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The broker.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// An input that does not exist.
    #[error(
        "input topic `{topic}` does not exist: inputs are never created, create it with a partition count that divides 960"
    )]
    NoInput {
        /// The topic.
        topic: String,
    },
    /// A count that cannot carry keyed state.
    #[error("{0}")]
    Count(String),
    /// The input has another count than asked for.
    #[error("input topic `{topic}` has {found} partitions, the app asks for {asked}")]
    OtherCount {
        /// The topic.
        topic: String,
        /// Count at the broker.
        found: u32,
        /// Count in the app.
        asked: i32,
    },
    /// A count in the app.
    #[error(transparent)]
    Invalid(#[from] InvalidPartitionCount),
}

/// Who makes topics.
#[derive(Debug)]
pub enum Topics<'a> {
    /// A Kafka cluster: inputs must be there, the others are made if missing.
    Cluster(&'a KafkaSettings),
    /// A broker of this process, which has no topics: all are made, inputs with this count where
    /// the app asks for none.
    Embedded(&'a EmbeddedBroker, RawPartitionCount),
}

impl Topics<'_> {
    /// Sees to the topics of an app; the counts of its inputs, by subscription.
    ///
    /// # Errors
    /// If an input does not fit, or a topic cannot be made.
    pub fn prepare(
        &self,
        app: &CompiledApp,
    ) -> Result<BTreeMap<String, RawPartitionCount>, TopicError> {
        match self {
            Self::Cluster(settings) => {
                let admin = Admin::open(settings)?;
                let counts = counts_of_inputs(&admin, app)?;
                for (topic, partitions) in made_topics(app, &counts)? {
                    make(&admin, app, topic, partitions)?;
                }
                Ok(counts)
            }
            Self::Embedded(broker, default) => {
                let mut counts = BTreeMap::new();
                let mut inputs = BTreeMap::new();
                for subscription in &app.subscriptions {
                    let count = match subscription.partitions {
                        Some(asked) => asked.try_into()?,
                        None => *default,
                    };
                    check(app, subscription, count)?;
                    inputs.insert(subscription.topic.parse::<TopicName>()?, count);
                    counts.insert(subscription.name.clone(), count);
                }
                for (topic, partitions) in inputs.into_iter().chain(made_topics(app, &counts)?) {
                    broker.create_topic(&topic, partitions)?;
                }
                Ok(counts)
            }
        }
    }
}

/// The partition counts of an app's inputs at the broker, by subscription.
///
/// # Errors
/// If an input is missing, its count cannot carry keyed state, or the app asks for another one.
pub fn counts_of_inputs(
    admin: &Admin,
    app: &CompiledApp,
) -> Result<BTreeMap<String, RawPartitionCount>, TopicError> {
    let mut counts = BTreeMap::new();
    for subscription in &app.subscriptions {
        let topic: TopicName = subscription.topic.parse()?;
        let count = match admin.topic(&topic, WAIT)? {
            TopicPresence::Present(layout) => layout.partitions,
            TopicPresence::Missing => {
                return Err(TopicError::NoInput {
                    topic: topic.to_string(),
                });
            }
        };
        check(app, subscription, count)?;
        counts.insert(subscription.name.clone(), count);
    }
    Ok(counts)
}

fn check(
    app: &CompiledApp,
    subscription: &CompiledSubscription,
    count: RawPartitionCount,
) -> Result<(), TopicError> {
    if !app.allow_non_divisor_partitions
        && let Some(refusal) = count_refusal(&subscription.topic, count)
    {
        return Err(TopicError::Count(refusal));
    }
    match subscription.partitions {
        Some(asked) if u32::try_from(asked) != Ok(count.get()) => Err(TopicError::OtherCount {
            topic: subscription.topic.clone(),
            found: count.get(),
            asked,
        }),
        _ => Ok(()),
    }
}

/// Outputs and dead letters with the counts they are made with.
fn made_topics(
    app: &CompiledApp,
    counts: &BTreeMap<String, RawPartitionCount>,
) -> Result<BTreeMap<TopicName, RawPartitionCount>, TopicError> {
    let mut topics = BTreeMap::new();
    for subscription in &app.subscriptions {
        let Some(input) = counts.get(&subscription.name) else {
            continue;
        };
        let output = match subscription.output.partitions {
            Some(asked) => asked.try_into()?,
            None => *input,
        };
        topics.insert(subscription.output.topic.parse()?, output);
        let wanted =
            subscription.on_error == OnError::Dlq || subscription.on_null_key == OnNullKey::Dlq;
        if let Some(dlq) = subscription.dlq.as_ref().filter(|_| wanted) {
            topics.entry(dlq.parse()?).or_insert(*input);
        }
    }
    Ok(topics)
}

fn make(
    admin: &Admin,
    app: &CompiledApp,
    name: TopicName,
    partitions: RawPartitionCount,
) -> Result<(), TopicError> {
    if matches!(admin.topic(&name, WAIT)?, TopicPresence::Present(_)) {
        return Ok(());
    }
    let topic = NewTopic {
        name,
        partitions,
        replication: app
            .topics
            .replication_factor
            .and_then(|copies| u32::try_from(copies).ok()),
        config: app.topics.config.clone(),
    };
    admin.create_topic(&topic, WAIT)?;
    admin.await_partition_count(&topic.name, partitions, Instant::now() + WAIT)?;
    tracing::info!(topic = %topic.name, partitions = partitions.get(), "topic created");
    Ok(())
}
