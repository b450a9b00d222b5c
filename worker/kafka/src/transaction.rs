//! A producer whose outputs count together with the group's offset, or not at all.

use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;
use turbine_keygroups::Partition;
use turbine_protocol::{CommittedReceipt, GroupId, TopicName, TransactionalId};

use crate::consume::one;
use crate::error::{Doing, KafkaError, Resource};
use crate::ffi::{self, TransactionError};
use crate::produce::OutputProducer;
use crate::settings::{KafkaSettings, QueueBudget};

/// Between two tries of a call that the broker asks to repeat: a coordinator that moves has other work to do.
const RETRY: Duration = Duration::from_millis(20);

/// What became of a call to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The broker has committed.
    Committed,
    /// It did not answer in time, or asks for another try. It may have committed.
    Unknown(KafkaError),
    /// Any other answer. It may have committed all the same, if somebody else ended the transaction.
    Failed(KafkaError),
}

/// The transactions of one task.
#[derive(Debug)]
pub struct Transactions {
    id: TransactionalId,
    group: GroupId,
    topic: TopicName,
    partition: Partition,
}

impl Transactions {
    /// Of a task that reads this partition for this group.
    #[must_use]
    pub fn of(id: TransactionalId, group: GroupId, topic: TopicName, partition: Partition) -> Self {
        Self {
            id,
            group,
            topic,
            partition,
        }
    }

    /// A producer under the id. Makes no call to the broker.
    ///
    /// # Errors
    /// If the client does not take its settings.
    pub fn producer(
        &self,
        settings: &KafkaSettings,
        budget: QueueBudget,
    ) -> Result<OutputProducer, KafkaError> {
        OutputProducer::open_with(settings, budget, Some(&self.id))
    }

    fn told(
        &self,
        what: &'static str,
        settings: &str,
        after: Duration,
        error: TransactionError,
    ) -> KafkaError {
        if error.code == Code::Fenced || error.code == Code::ProducerFenced {
            return KafkaError::Fenced {
                id: self.id.to_string(),
                detail: error.detail,
            };
        }
        let resource = Resource::Transaction(self.id.as_str());
        Doing {
            what,
            resource,
            bootstrap: settings,
            after,
        }
        .code(error.code, &error.detail)
    }

    /// Takes the id over: whoever used it before can write no more, and what they left open is aborted. Returns once that
    /// is so.
    ///
    /// # Errors
    /// If the broker does not answer in time, or a right is missing.
    pub fn take_over(
        &self,
        producer: &OutputProducer,
        timeout: Duration,
    ) -> Result<(), KafkaError> {
        ffi::init_transactions(producer.client(), timeout).map_err(|error| {
            let error = self.told("take over", producer.bootstrap(), timeout, error);
            producer.explained(Resource::Transaction(self.id.as_str()), "take over", error)
        })
    }

    /// Begins a transaction. Makes no call to the broker.
    ///
    /// # Errors
    /// If the producer cannot go on.
    pub fn begin(&self, producer: &OutputProducer) -> Result<(), KafkaError> {
        ffi::begin_transaction(producer.client())
            .map_err(|error| self.told("begin", producer.bootstrap(), Duration::ZERO, error))
    }

    /// Puts the offset, with its receipt, into the transaction.
    ///
    /// # Errors
    /// If it is not in there, or that is not known.
    pub fn send_offset(
        &self,
        producer: &OutputProducer,
        committed: &CommittedReceipt,
        timeout: Duration,
    ) -> Result<(), KafkaError> {
        let what = "send offsets to";
        let doing = Doing {
            what,
            resource: Resource::Group(self.group.as_str()),
            bootstrap: producer.bootstrap(),
            after: timeout,
        };
        let list = one(&self.topic, self.partition, Some(committed.offset))
            .map_err(|error| doing.failed(&error))?;
        if let Some(mut element) = list.find_partition(self.topic.as_str(), self.partition.get()) {
            element.set_metadata(committed.receipt.to_string());
        }
        let deadline = Instant::now() + timeout;
        loop {
            match ffi::send_offsets(producer.client(), self.group.as_str(), &list, timeout) {
                Ok(()) => return Ok(()),
                Err(error) if error.retriable && Instant::now() < deadline => {
                    std::thread::sleep(RETRY);
                }
                Err(error) => {
                    return Err(self.told(what, producer.bootstrap(), timeout, error));
                }
            }
        }
    }

    /// Commits: outputs, dead letters and offset. After anything but [`CommitOutcome::Committed`] the broker alone knows.
    pub fn commit(&self, producer: &OutputProducer, timeout: Duration) -> CommitOutcome {
        match ffi::commit_transaction(producer.client(), timeout) {
            Ok(()) => CommitOutcome::Committed,
            Err(error) => {
                let retriable = error.retriable;
                let told = self.told("commit", producer.bootstrap(), timeout, error);
                if retriable {
                    CommitOutcome::Unknown(told)
                } else {
                    CommitOutcome::Failed(told)
                }
            }
        }
    }
}
