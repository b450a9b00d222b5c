use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use thiserror::Error;
use turbine_crds::app::{OnError, OnNullKey};
use turbine_crds::compiled::{CompiledApp, CompiledSubscription};
use turbine_kafka::{Admin, EmbeddedBroker, KafkaError, KafkaSettings, NewTopic, TopicPresence};
use turbine_keygroups::{InvalidPartitionCount, RawPartitionCount};
use turbine_protocol::names::NameError;
use turbine_protocol::{Category, Fault, TopicName};

use super::patience::Patience;
use crate::control::assignment::count_refusal;

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

impl Fault for TopicError {
    fn category(&self) -> Category {
        match self {
            Self::Kafka(error) => error.category(),
            Self::Name(_)
            | Self::NoInput { .. }
            | Self::Count(_)
            | Self::OtherCount { .. }
            | Self::Invalid(_) => Category::User,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => "SpecInvalid",
            Self::Kafka(error) => error.reason(),
            Self::NoInput { .. } => "InputTopicMissing",
            Self::Count(_) | Self::Invalid(_) => "PartitionCountInvalid",
            Self::OtherCount { .. } => "PartitionCountNotAsAsked",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            Self::Kafka(error) => error.passes_by_itself(),
            // Somebody creates it meanwhile, or a broker that has just started learns of it.
            Self::NoInput { .. } => true,
            Self::Name(_) | Self::Count(_) | Self::OtherCount { .. } | Self::Invalid(_) => false,
        }
    }
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
    /// Sees to the topics of an app; the counts of its inputs, by subscription. Waits for a broker that is not ready, for
    /// rights and for inputs; `told` hears of what it waits for each time, and for how long.
    ///
    /// # Errors
    /// If an input does not fit, or a topic will never be made.
    pub fn prepare(
        &self,
        app: &CompiledApp,
        patience: Patience,
        told: impl FnMut(&TopicError, Duration),
    ) -> Result<BTreeMap<String, RawPartitionCount>, TopicError> {
        match self {
            Self::Cluster(settings) => {
                let mut ordered = BTreeSet::new();
                let prepare = || {
                    let admin = Admin::open(settings)?;
                    let counts = counts_of_inputs(&admin, app, patience.answer)?;
                    for (topic, partitions) in made_topics(app, &counts)? {
                        make(
                            &admin,
                            app,
                            topic,
                            partitions,
                            patience.answer,
                            &mut ordered,
                        )?;
                    }
                    Ok(counts)
                };
                patience.persist(prepare, told)
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
fn counts_of_inputs(
    admin: &Admin,
    app: &CompiledApp,
    wait: Duration,
) -> Result<BTreeMap<String, RawPartitionCount>, TopicError> {
    let mut counts = BTreeMap::new();
    for subscription in &app.subscriptions {
        let topic: TopicName = subscription.topic.parse()?;
        let count = match admin.topic(&topic, wait)? {
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

/// Makes a topic unless it is there. One that this start has `ordered` counts as there only once every broker knows it, also
/// where the try that ordered it broke off.
fn make(
    admin: &Admin,
    app: &CompiledApp,
    name: TopicName,
    partitions: RawPartitionCount,
    wait: Duration,
    ordered: &mut BTreeSet<TopicName>,
) -> Result<(), TopicError> {
    if let TopicPresence::Present(layout) = admin.topic(&name, wait)? {
        if ordered.contains(&name) {
            admin.await_partition_count(&name, layout.partitions, Instant::now() + wait)?;
        }
        return Ok(());
    }
    ordered.insert(name.clone());
    let topic = NewTopic {
        name,
        partitions,
        replication: app
            .topics
            .replication_factor
            .and_then(|copies| u32::try_from(copies).ok()),
        config: app.topics.config.clone(),
    };
    admin.create_topic(&topic, wait)?;
    admin.await_partition_count(&topic.name, partitions, Instant::now() + wait)?;
    tracing::info!(topic = %topic.name, partitions = partitions.get(), "topic created");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::local::load;

    const QUICK: Patience = Patience {
        answer: Duration::from_secs(1),
        first: Duration::from_millis(1),
        most: Duration::from_millis(20),
    };

    /// It reads `clicks` and writes `clicks-per-page`.
    fn laptop() -> CompiledApp {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/laptop.yaml");
        load(&file).unwrap().compiled().clone()
    }

    fn create(broker: &EmbeddedBroker, topic: &str, partitions: u32) {
        let partitions = partitions.try_into().unwrap();
        broker
            .create_topic(&topic.parse().unwrap(), partitions)
            .unwrap();
    }

    /// The embedded broker cannot be asked to create a topic, so the order for the output fails there.
    #[test]
    fn a_broker_that_goes_away_while_topics_are_made_is_waited_for_by_name() {
        let broker = EmbeddedBroker::start().unwrap();
        let settings = broker.settings().unwrap();
        let (mut made_input, mut went_down, mut came_back) = (false, false, false);
        let counts = Topics::Cluster(&settings)
            .prepare(&laptop(), QUICK, |error, _| {
                let words = error.to_string();
                match error.reason() {
                    "InputTopicMissing" => {
                        assert!(words.contains("`clicks`"), "{words}");
                        create(&broker, "clicks", 3);
                        made_input = true;
                    }
                    "KafkaError" if !went_down => {
                        assert!(words.contains("could not create"), "{words}");
                        broker.go_down().unwrap();
                        went_down = true;
                    }
                    // Which of the two depends on whether the refused connection was told in time.
                    "KafkaUnreachable" | "KafkaTimedOut" if went_down && !came_back => {
                        let named = [broker.bootstrap_servers(), "`clicks`"];
                        assert!(named.iter().any(|name| words.contains(name)), "{words}");
                        broker.come_back().unwrap();
                        create(&broker, "clicks-per-page", 3);
                        came_back = true;
                    }
                    // On a busy machine any question may be cut short, and is asked again.
                    "KafkaUnreachable" | "KafkaTimedOut" => {}
                    _ => panic!("{words}"),
                }
            })
            .unwrap();
        assert!(made_input && came_back);
        let expected: RawPartitionCount = 3.try_into().unwrap();
        assert_eq!(counts, BTreeMap::from([("pages".to_owned(), expected)]));
    }

    #[test]
    fn an_input_that_cannot_carry_keyed_state_is_not_waited_for() {
        let broker = EmbeddedBroker::start().unwrap();
        create(&broker, "clicks", 7);
        let settings = broker.settings().unwrap();
        let patience = Patience {
            answer: Duration::from_secs(15),
            ..QUICK
        };
        let refused = Topics::Cluster(&settings)
            .prepare(&laptop(), patience, |error, _| panic!("waits for {error}"))
            .unwrap_err();
        assert_eq!(refused.reason(), "PartitionCountInvalid", "{refused}");
    }
}
