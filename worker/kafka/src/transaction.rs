//! A producer whose outputs count together with the group's offset, or not at all.

use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::topic_partition_list::TopicPartitionList;
use turbine_keygroups::Partition;
use turbine_protocol::rescale::seal::SealedReceipt;
use turbine_protocol::{CommittedReceipt, GroupId, Offset, TopicName, TransactionalId};

use crate::consume::one;
use crate::error::{Doing, KafkaError, Resource};
use crate::ffi::{self, TransactionError};
use crate::ownership::Remedy;
use crate::produce::OutputProducer;
use crate::settings::{KafkaSettings, QueueBudget, TRANSACTION_TIMEOUT_MS};

/// Between two tries of a call that the broker asks to repeat: a coordinator that moves has other work to do.
const RETRY: Duration = Duration::from_millis(20);

/// What a call may take beyond the time it was given.
const GRACE: Duration = Duration::from_secs(1);

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

    /// What the error asks for, and the error in words.
    fn judged(
        &self,
        producer: &OutputProducer,
        what: &'static str,
        after: Duration,
        error: TransactionError,
    ) -> (Remedy, KafkaError) {
        let remedy = Remedy::of(error.code, error.retriable);
        let told = match (remedy, producer.transactional()) {
            (Remedy::Lost, Some(transactional)) => transactional.ownership.lost(error.detail),
            (Remedy::TimeoutRefused, _) => KafkaError::TransactionTimeoutRefused {
                id: self.id.to_string(),
                asked: Duration::from_millis(TRANSACTION_TIMEOUT_MS),
            },
            _ => Doing {
                what,
                resource: Resource::Transaction(self.id.as_str()),
                bootstrap: producer.bootstrap(),
                after,
            }
            .code(error.code, &error.detail),
        };
        (remedy, told)
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
            let (_, error) = self.judged(producer, "take over", timeout, error);
            producer.explained(Resource::Transaction(self.id.as_str()), "take over", error)
        })
    }

    /// Begins a transaction. Makes no call to the broker.
    ///
    /// # Errors
    /// If the producer cannot go on.
    pub fn begin(&self, producer: &OutputProducer) -> Result<(), KafkaError> {
        ffi::begin_transaction(producer.client())
            .map_err(|error| self.judged(producer, "begin", Duration::ZERO, error).1)?;
        if let Some(transactional) = producer.transactional() {
            transactional.ownership.begins();
        }
        Ok(())
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
        let receipt = committed.receipt.to_string();
        self.send(producer, committed.offset, &receipt, timeout)
    }

    /// The same with a receipt that ends the right of this id's task to commit.
    ///
    /// # Errors
    /// As [`Transactions::send_offset`].
    pub fn send_seal(
        &self,
        producer: &OutputProducer,
        offset: Offset,
        seal: &SealedReceipt,
        timeout: Duration,
    ) -> Result<(), KafkaError> {
        self.send(producer, offset, &seal.to_string(), timeout)
    }

    fn send(
        &self,
        producer: &OutputProducer,
        offset: Offset,
        receipt: &str,
        timeout: Duration,
    ) -> Result<(), KafkaError> {
        let what = "send offsets to";
        let doing = Doing {
            what,
            resource: Resource::Transaction(self.id.as_str()),
            bootstrap: producer.bootstrap(),
            after: timeout,
        };
        let Some(transactional) = producer.transactional() else {
            return Err(doing.code(Code::Fatal, "the producer has no transactional id"));
        };
        transactional.ownership.writes();
        let deadline = Instant::now() + timeout;
        loop {
            let list = self
                .offsets(offset, receipt)
                .map_err(|error| doing.failed(&error))?;
            let group = self.group.clone();
            let sent = transactional
                .courier
                .within(timeout + GRACE, move |client| {
                    ffi::send_offsets(client, group.as_str(), &list, timeout)
                });
            let Some(sent) = sent else {
                return Err(doing.code(Code::OperationTimedOut, "no answer"));
            };
            match sent.map_err(|error| self.judged(producer, what, timeout, error)) {
                Ok(()) => return Ok(()),
                Err((Remedy::Retry, _)) if Instant::now() < deadline => std::thread::sleep(RETRY),
                Err((_, told)) => return Err(told),
            }
        }
    }

    fn offsets(
        &self,
        offset: Offset,
        receipt: &str,
    ) -> Result<TopicPartitionList, rdkafka::error::KafkaError> {
        let list = one(&self.topic, self.partition, Some(offset))?;
        if let Some(mut element) = list.find_partition(self.topic.as_str(), self.partition.get()) {
            element.set_metadata(receipt);
        }
        Ok(list)
    }

    /// Commits: outputs, dead letters and offset. After anything but [`CommitOutcome::Committed`] the broker alone knows.
    pub fn commit(&self, producer: &OutputProducer, timeout: Duration) -> CommitOutcome {
        if let Some(transactional) = producer.transactional() {
            transactional.ownership.commits();
        }
        match ffi::commit_transaction(producer.client(), timeout) {
            Ok(()) => CommitOutcome::Committed,
            Err(error) => match self.judged(producer, "commit", timeout, error) {
                (Remedy::Retry, told) => CommitOutcome::Unknown(told),
                (Remedy::Rebuild | Remedy::Lost | Remedy::TimeoutRefused, told) => {
                    CommitOutcome::Failed(told)
                }
            },
        }
    }

    /// Aborts what was written and not committed, so that readers of committed records do not wait until the next life
    /// of the task ends it. Does nothing once the commit was called. Whether it was aborted.
    ///
    /// # Errors
    /// If the broker does not obey in time. Nothing is lost by that: the next [`Transactions::take_over`] ends it.
    pub fn give_up(
        &self,
        producer: &OutputProducer,
        timeout: Duration,
    ) -> Result<bool, KafkaError> {
        let ours = producer.transactional().is_some_and(|transactional| {
            transactional.ownership.may_abort() && !transactional.courier.stuck()
        });
        if !ours {
            return Ok(false);
        }
        ffi::abort_transaction(producer.client(), timeout)
            .map(|()| true)
            .map_err(|error| self.judged(producer, "abort", timeout, error).1)
    }
}
