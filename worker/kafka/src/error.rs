//! What can go wrong at the broker, told apart by who has to act.

use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use thiserror::Error;
use turbine_protocol::{Category, Fault, GroupId, Offset, TopicName};

use crate::admin::{MissingRight, listed};

/// A fault at the broker or on the way to it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KafkaError {
    /// No broker answers.
    #[error(
        "no broker answers at {bootstrap} ({detail}): check `kafka.bootstrapServers`, the network and that the brokers run"
    )]
    Unreachable {
        /// The addresses asked.
        bootstrap: String,
        /// What the client says.
        detail: String,
    },
    /// The broker did not accept who we are.
    #[error(
        "the broker refused the login ({detail}): check the secrets named in `kafka.tls` and `kafka.sasl`"
    )]
    Authentication {
        /// What the client says.
        detail: String,
    },
    /// A right is missing.
    #[error("not allowed to {operation} {resource}: grant the right to the app's Kafka user")]
    NotAllowed {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On what.
        resource: String,
    },
    /// Rights are missing that the task will need.
    #[error(
        "these rights are missing: {}: grant them to the app's Kafka user",
        listed(missing)
    )]
    RightsMissing {
        /// All of them.
        missing: Vec<MissingRight>,
    },
    /// The topic does not exist.
    #[error("topic `{topic}` does not exist: create it, or correct its name")]
    TopicMissing {
        /// The topic.
        topic: TopicName,
    },
    /// The topic exists and has no such partition.
    #[error(
        "topic `{topic}` has no partition {partition}: it was deleted and made again with fewer"
    )]
    PartitionMissing {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: i32,
    },
    /// The broker does not make the topic as asked.
    #[error(
        "the broker refuses to create topic `{topic}` ({detail}): correct `topics` in the spec or the broker's policy"
    )]
    TopicRefused {
        /// The topic.
        topic: TopicName,
        /// What the broker says.
        detail: String,
    },
    /// Not every broker knows the topic's partition count yet.
    #[error("topic `{topic}` should have {expected} partitions; {detail}")]
    CountNotSeen {
        /// The topic.
        topic: TopicName,
        /// The count awaited.
        expected: u32,
        /// Which broker says what.
        detail: String,
    },
    /// The offset to read is not in the log.
    #[error(
        "offset {offset} is not in {topic}/{partition}: retention removed it, or the topic was made anew. Where retention was \
         faster, `input.onRetentionGap: accept` goes on at the first record that is there"
    )]
    OffsetOutOfRange {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: i32,
        /// The offset that was asked for.
        offset: Offset,
    },
    /// A record is larger than the client or the topic takes.
    #[error(
        "a record of {bytes} bytes is too large for topic `{topic}`: raise the topic's `max.message.bytes` (and `message.max.bytes` in `kafka.properties`), or make records smaller"
    )]
    RecordTooLarge {
        /// The topic.
        topic: String,
        /// Size of key, value and headers; 0 if the broker refused it and did not say.
        bytes: usize,
    },
    /// The broker takes no such record into the topic, whenever it comes.
    #[error(
        "the broker refuses the records for topic `{topic}` as invalid: a topic with \
         cleanup.policy=compact takes only records with a key, so set output.messageKey, or change \
         the topic's cleanup.policy or message.timestamp settings"
    )]
    RecordInvalid {
        /// The topic.
        topic: String,
    },
    /// A produced record was not acknowledged, or it is not known whether it was written.
    #[error("a record for topic `{topic}` partition {partition} was not acknowledged: {detail}")]
    NotAcknowledged {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// What the client says.
        detail: String,
    },
    /// A call did not end in time; what it did is not known.
    #[error("{what} did not end within {after:?}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        after: Duration,
    },
    /// A transaction that has not ended decides about a group's offset.
    #[error(
        "the offset of group `{group}` for topic `{topic}` waits for the end of a transaction, for {after:?} so far. The broker \
         ends one that was left open, within a minute; if this stays for longer, the broker has lost its end: \
         `kafka-transactions.sh find-hanging` names it, and docs/delivery.md says what ending it by hand means"
    )]
    OffsetPending {
        /// The group.
        group: GroupId,
        /// The topic that it reads.
        topic: TopicName,
        /// For how long it was waited.
        after: Duration,
    },
    /// Somebody else uses the transactional id.
    #[error(
        "transactional id `{id}` was taken over by another producer ({detail}): a newer worker runs this task, or another \
         app with the same `appId` uses the same Kafka cluster; this one writes nothing more"
    )]
    Fenced {
        /// The id.
        id: String,
        /// What the client says.
        detail: String,
    },
    /// The broker gave a transaction up because it was open for too long.
    #[error(
        "the broker gave up the transaction of `{id}`, which was open for {open:?} (at most {allowed:?} are allowed): the worker \
         stood still or did not reach the broker; nothing of it counts, and the task goes on from its last commit"
    )]
    TransactionTimedOut {
        /// The transactional id.
        id: String,
        /// Since the transaction's first record.
        open: Duration,
        /// What was agreed with the broker.
        allowed: Duration,
    },
    /// The broker does not allow transactions to be as long as ours may be.
    #[error(
        "the broker refuses a transaction timeout of {asked:?} for `{id}`: set its `transaction.max.timeout.ms` to that or more, \
         or choose `processingGuarantee: atLeastOnce`"
    )]
    TransactionTimeoutRefused {
        /// The transactional id.
        id: String,
        /// What was asked for.
        asked: Duration,
    },
    /// A setting that the client does not take.
    #[error("the Kafka client refuses its settings: {detail}")]
    Settings {
        /// What the client says.
        detail: String,
    },
    /// The broker answered something that cannot be.
    #[error("the broker's answer to {what} makes no sense: {detail}")]
    Senseless {
        /// What was asked.
        what: &'static str,
        /// What came back.
        detail: String,
    },
    /// The client cannot go on; it has to be made anew.
    #[error("the Kafka client stopped for good while it was to {what}: {detail}")]
    Fatal {
        /// What was tried.
        what: &'static str,
        /// What the client says.
        detail: String,
    },
    /// Any other answer of the broker or the client.
    #[error("could not {what}: {code:?} ({detail})")]
    Other {
        /// What was tried.
        what: &'static str,
        /// The client's code.
        code: Code,
        /// What the client says.
        detail: String,
    },
}

impl KafkaError {
    /// Who takes the transactional id over may get past this: it looks like this where a dead life of the task left a transaction
    /// open, and where a broker is down as well nothing tells the two apart.
    #[must_use]
    pub fn ends_by_take_over(&self) -> bool {
        self.is_without_answer() || matches!(self, Self::OffsetPending { .. })
    }

    /// Nobody answered in time. Which of the two it is called depends on whether any connection was refused meanwhile, not on
    /// whether the one that was asked would have answered.
    #[must_use]
    pub fn is_without_answer(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Unreachable { .. })
    }
}

impl Fault for KafkaError {
    fn category(&self) -> Category {
        match self {
            Self::Unreachable { .. }
            | Self::Authentication { .. }
            | Self::NotAllowed { .. }
            | Self::RightsMissing { .. }
            | Self::TopicMissing { .. }
            | Self::PartitionMissing { .. }
            | Self::CountNotSeen { .. }
            | Self::OffsetOutOfRange { .. }
            | Self::NotAcknowledged { .. }
            | Self::TimedOut { .. }
            | Self::OffsetPending { .. }
            | Self::Fenced { .. }
            | Self::TransactionTimedOut { .. }
            | Self::TransactionTimeoutRefused { .. }
            | Self::Senseless { .. }
            | Self::Fatal { .. }
            | Self::Other { .. } => Category::Kafka,
            Self::TopicRefused { .. }
            | Self::RecordTooLarge { .. }
            | Self::RecordInvalid { .. }
            | Self::Settings { .. } => Category::User,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "KafkaUnreachable",
            Self::Authentication { .. } => "KafkaAuthenticationFailed",
            Self::NotAllowed { .. } | Self::RightsMissing { .. } => "KafkaRightMissing",
            Self::TopicMissing { .. } => "TopicMissing",
            Self::PartitionMissing { .. } => "PartitionMissing",
            Self::TopicRefused { .. } => "TopicRefused",
            Self::CountNotSeen { .. } => "PartitionCountNotSeen",
            Self::OffsetOutOfRange { .. } => "OffsetOutOfRange",
            Self::RecordTooLarge { .. } => "RecordTooLarge",
            Self::RecordInvalid { .. } => "RecordInvalid",
            Self::NotAcknowledged { .. } => "OutputNotAcknowledged",
            Self::TimedOut { .. } => "KafkaTimedOut",
            Self::OffsetPending { .. } => "GroupOffsetPending",
            Self::Fenced { .. } => "Fenced",
            Self::TransactionTimedOut { .. } => "TransactionTimedOut",
            Self::TransactionTimeoutRefused { .. } => "TransactionTimeoutRefused",
            Self::Settings { .. } => "KafkaSettingsRefused",
            Self::Senseless { .. } => "KafkaAnswerSenseless",
            Self::Fatal { .. } => "KafkaClientFatal",
            Self::Other { .. } => "KafkaError",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            // Rights, logins and topics come while we wait; nobody has to touch this program.
            Self::Unreachable { .. }
            | Self::Authentication { .. }
            | Self::NotAllowed { .. }
            | Self::RightsMissing { .. }
            | Self::TopicMissing { .. }
            | Self::CountNotSeen { .. }
            | Self::NotAcknowledged { .. }
            | Self::TimedOut { .. }
            | Self::OffsetPending { .. }
            | Self::TransactionTimedOut { .. }
            | Self::TransactionTimeoutRefused { .. }
            | Self::Senseless { .. }
            | Self::Fatal { .. }
            | Self::Other { .. } => true,
            // To take the id back would only fence the other one in turn.
            Self::Fenced { .. }
            | Self::PartitionMissing { .. }
            | Self::TopicRefused { .. }
            | Self::OffsetOutOfRange { .. }
            | Self::RecordTooLarge { .. }
            | Self::RecordInvalid { .. }
            | Self::Settings { .. } => false,
        }
    }
}
