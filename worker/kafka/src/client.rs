//! What every client has in common: its log goes to ours, and its last trouble is remembered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::Message as _;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode as Code};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::doing::Doing;
use crate::error::KafkaError;

/// Trouble with the broker that the client tries to get over by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkHealth {
    /// The client's words.
    pub detail: String,
    /// When it was last reported.
    pub at: Instant,
    pub(crate) code: Code,
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

    /// A call that ran out of time says little if the client knows better: nobody there, login
    /// refused, right missing.
    pub(crate) fn explain(&self, doing: &Doing<'_>, error: KafkaError) -> KafkaError {
        match (error, self.trouble()) {
            (KafkaError::TimedOut { .. } | KafkaError::Unreachable { .. }, Some(trouble)) => {
                doing.code(trouble.code, &trouble.detail)
            }
            (error, _) => error,
        }
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
        // Readers and writers get the same properties, and each says of those of the other that they have no effect.
        if facility == "CONFWARN" {
            tracing::debug!(target: "librdkafka", facility, "{message}");
            return;
        }
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
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        let mut trouble = lock(&self.trouble);
        if let Some(before) = trouble.as_mut()
            && says_less(code, before.code)
        {
            before.at = Instant::now();
            return;
        }
        *trouble = Some(LinkHealth {
            detail: if reason.is_empty() {
                error.to_string()
            } else {
                reason.to_owned()
            },
            at: Instant::now(),
            code,
        });
    }
}

/// That all brokers are down follows from what was said before. That a connection broke says less than why logins fail on those
/// that did not: on a busy machine one and the same refusal shows as either.
fn says_less(code: Code, before: Code) -> bool {
    let refused = matches!(
        before,
        Code::SSL | Code::Authentication | Code::SaslAuthenticationFailed
    );
    match code {
        Code::AllBrokersDown => true,
        Code::BrokerTransportFailure => refused,
        _ => false,
    }
}

/// Lets a consumer hand over what is no record, for as long as `wait`: logs, and errors, which are
/// kept by its context.
pub(crate) fn serve(consumer: &BaseConsumer<Context>, wait: Duration) {
    // A poll may end at the first event it has dealt with.
    let deadline = Instant::now() + wait;
    for _ in 0..EVENTS_AT_ONCE {
        if let Some(Err(error)) = consumer.poll(Duration::ZERO) {
            consumer.context().error(error, "");
        }
    }
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        if let Some(Err(error)) = consumer.poll(left) {
            consumer.context().error(error, "");
        }
    }
}

const EVENTS_AT_ONCE: usize = 8;
/// For errors to arrive that explain why a call failed.
pub(crate) const AFTERWARDS: Duration = Duration::from_millis(50);

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
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge) => KafkaError::RecordTooLarge {
            topic: topic.to_owned(),
            bytes: 0,
        },
        Some(Code::InvalidRecord) => KafkaError::RecordInvalid {
            topic: topic.to_owned(),
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
