//! What every client has in common: its log goes to ours, and its last trouble is remembered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rdkafka::ClientContext;
use rdkafka::Message as _;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::error::KafkaError;

/// Trouble on the way to the broker that the client is getting over by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkHealth {
    /// The client's words.
    pub detail: String,
    /// When it was last reported.
    pub at: Instant,
}

/// A lock whose holder panicked guards plain data that is whole at every moment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(crate) struct Context {
    trouble: Mutex<Option<LinkHealth>>,
    undelivered: Mutex<Option<KafkaError>>,
}

impl Context {
    pub(crate) fn trouble(&self) -> Option<LinkHealth> {
        lock(&self.trouble).clone()
    }

    pub(crate) fn settled(&self) {
        let mut trouble = lock(&self.trouble);
        if trouble.is_some() {
            *trouble = None;
        }
    }

    /// The first record that failed since the producer was made.
    pub(crate) fn undelivered(&self) -> Option<KafkaError> {
        lock(&self.undelivered).clone()
    }

    pub(crate) fn not_delivered(&self, error: KafkaError) {
        lock(&self.undelivered).get_or_insert(error);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => {
                tracing::error!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Warning => {
                tracing::warn!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn error(&self, error: ClientError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason, "client error");
        *lock(&self.trouble) = Some(LinkHealth {
            detail: format!("{error}: {reason}"),
            at: Instant::now(),
        });
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, record)) = result {
            self.not_delivered(undelivered(error, record.topic(), record.partition()));
        }
    }
}

fn undelivered(error: &ClientError, topic: &str, partition: i32) -> KafkaError {
    use rdkafka::error::RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge) => KafkaError::RecordTooLarge {
            topic: topic.to_owned(),
            bytes: 0,
        },
        Some(Code::TopicAuthorizationFailed) => KafkaError::NotAllowed {
            operation: "write to",
            resource: format!("topic `{topic}`"),
        },
        _ => KafkaError::NotAcknowledged {
            topic: topic.to_owned(),
            partition,
            detail: error.to_string(),
        },
    }
}
