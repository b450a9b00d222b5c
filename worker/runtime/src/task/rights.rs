//! Whether a task may do all that it will do, asked before it does any of it: a right that is missing shows at once and by
//! name, and not at the first bad record or the first closed window, when work is done that cannot be committed. The same
//! goes for the size of records that its topics take.

use turbine_crds::app::{OnError, OnNullKey};
use turbine_crds::compiled::CompiledSubscription;
use turbine_kafka::{KafkaSettings, NeededRights, OutputTopic};
use turbine_protocol::TopicName;

use super::error::TaskError;
use super::setup::TaskSetup;

/// The topic that dead letters go to, if the subscription writes any.
pub(super) fn dead_letter_topic(
    subscription: &CompiledSubscription,
) -> Result<Option<TopicName>, TaskError> {
    let wanted =
        subscription.on_error == OnError::Dlq || subscription.on_null_key == OnNullKey::Dlq;
    match &subscription.dlq {
        _ if !wanted => Ok(None),
        Some(name) => Ok(Some(name.parse()?)),
        None => Err(TaskError::NoDeadLetterTopic {
            subscription: subscription.name.clone(),
        }),
    }
}

/// How large a record its topics take, where that may be asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sizes {
    output: Option<usize>,
    dead_letters: Option<usize>,
}

impl Sizes {
    /// What a producer of the task is to be told.
    pub(super) fn fitted(self, kafka: &KafkaSettings) -> KafkaSettings {
        let known: Vec<usize> = [self.output, self.dead_letters]
            .into_iter()
            .flatten()
            .collect();
        kafka.writing_within(&known)
    }

    pub(super) fn of_output(self, topic: OutputTopic) -> OutputTopic {
        topic.limited_to(self.output)
    }

    pub(super) fn of_dead_letters(self, topic: OutputTopic) -> OutputTopic {
        topic.limited_to(self.dead_letters)
    }
}

/// The right to see a topic's settings is not asked for: without it the broker judges, by refusing.
fn size_of(setup: &TaskSetup, topic: &TopicName) -> Option<usize> {
    match setup.admin.topic_config(topic, setup.limits.broker_wait) {
        Ok(config) => config.get("max.message.bytes")?.parse().ok(),
        Err(error) => {
            tracing::debug!(%topic, %error, "how large its records may be is not known");
            None
        }
    }
}

/// # Errors
/// If a topic or a right is missing, with its name; it is asked for again at the next try.
pub(super) fn check_rights(setup: &TaskSetup, input: &TopicName) -> Result<Sizes, TaskError> {
    if setup.admin.is_embedded(setup.limits.broker_wait) {
        return Ok(Sizes::default());
    }
    let subscription = &*setup.subscription;
    let output: TopicName = subscription.output.topic.parse()?;
    let dead_letters = dead_letter_topic(subscription)?;
    let write: Vec<&TopicName> = [Some(&output), dead_letters.as_ref()]
        .into_iter()
        .flatten()
        .collect();
    let needed = NeededRights {
        read: &[input],
        write: &write,
        group: &setup.group(),
    };
    setup.admin.check_rights(needed, setup.limits.broker_wait)?;
    Ok(Sizes {
        output: size_of(setup, &output),
        dead_letters: dead_letters.and_then(|topic| size_of(setup, &topic)),
    })
}
