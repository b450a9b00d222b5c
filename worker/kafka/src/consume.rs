//! Reading one partition in batches, without an allocation per record.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::topic_partition_list::TopicPartitionList;
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{CommittedReceipt, GroupId, Offset, TopicName};

use crate::admin::{CommittedOffset, committed_of, partition_count};
use crate::batch::RecordBatch;
use crate::client::{AFTERWARDS, Context, LinkHealth, serve};
use crate::doing::{Doing, Resource};
use crate::error::KafkaError;
use crate::ffi::{self, Message, PartitionQueue};
use crate::lifeline::Lifeline;
use crate::settings::{KafkaSettings, QueueBudget};

/// What batches and the reader share. The queue goes before the consumer it was taken from, and
/// both outlive every message: a client cannot be destroyed while messages hold on to it.
pub(crate) struct Shared {
    queue: PartitionQueue,
    consumer: BaseConsumer<Context>,
}

/// Reads one partition of one topic, from an offset on, as a member of no group.
pub struct PartitionReader {
    shared: Arc<Shared>,
    bootstrap: String,
    group: GroupId,
    topic: TopicName,
    partition: Partition,
    next: Offset,
    at_end: bool,
    broken: Option<KafkaError>,
    lifeline: Lifeline,
}

impl fmt::Debug for PartitionReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionReader")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("next", &self.next)
            .field("at_end", &self.at_end)
            .finish_non_exhaustive()
    }
}

impl PartitionReader {
    /// A reader that begins at `start`. Makes no call to the broker: trouble shows at
    /// [`PartitionReader::read`] and [`PartitionReader::link`].
    ///
    /// # Errors
    /// If the client does not take its settings.
    pub fn open(
        settings: &KafkaSettings,
        group: &GroupId,
        topic: &TopicName,
        partition: Partition,
        start: Offset,
        budget: QueueBudget,
    ) -> Result<Self, KafkaError> {
        let doing = Doing {
            what: "read",
            resource: Resource::Partition(topic, partition.get()),
            bootstrap: settings.bootstrap_servers(),
            after: Duration::ZERO,
        };
        let consumer: BaseConsumer<Context> = settings
            .reader(group.as_str(), budget)
            .create_with_context(Context::default())
            .map_err(|error| doing.failed(&error))?;
        let queue = PartitionQueue::split(&consumer, topic.as_str(), partition.get())
            .ok_or_else(|| doing.code(Code::InvalidArgument, "no queue for the partition"))?;
        let list = one(topic, partition, Some(start)).map_err(|error| doing.failed(&error))?;
        consumer
            .assign(&list)
            .map_err(|error| doing.failed(&error))?;
        Ok(Self {
            shared: Arc::new(Shared { queue, consumer }),
            bootstrap: settings.bootstrap_servers().to_owned(),
            group: group.clone(),
            topic: topic.clone(),
            partition,
            next: start,
            at_end: false,
            broken: None,
            lifeline: Lifeline::new(settings.bootstrap_servers()),
        })
    }

    /// The client, for a call that the broker answers.
    fn asking(&self) -> &BaseConsumer<Context> {
        let consumer = &self.shared.consumer;
        self.lifeline.hold(consumer.client(), Instant::now());
        consumer
    }

    fn doing(&self, what: &'static str, after: Duration) -> Doing<'_> {
        Doing {
            what,
            resource: Resource::Partition(&self.topic, self.partition.get()),
            bootstrap: &self.bootstrap,
            after,
        }
    }

    /// Up to `max_records` records, as soon as any are there; none if `wait` is over first or the
    /// end was reached.
    ///
    /// # Errors
    /// What ends the reading of this partition: the offset is not in the log, the topic is gone,
    /// a right is missing. Records before the fault are handed out first. A lost connection is no
    /// error: the client gets over it, see [`PartitionReader::link`].
    pub fn read(&mut self, max_records: usize, wait: Duration) -> Result<RecordBatch, KafkaError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let max_records = max_records.max(1);
        let mut messages = Vec::new();
        let mut now = Instant::now();
        let deadline = now + wait;
        loop {
            serve(&self.shared.consumer, Duration::ZERO);
            self.lifeline.hold(self.shared.consumer.client(), now);
            let left = deadline.saturating_duration_since(now);
            // The batch call waits until its batch is full. So wait for one, then take what is
            // there.
            let slice = left.min(SERVE_INTERVAL);
            let taken = self.take(slice, 1, &mut messages)?;
            if taken > 0 {
                if max_records > 1 {
                    self.take(Duration::ZERO, max_records - 1, &mut messages)?;
                }
                break;
            }
            if left.is_zero() {
                break;
            }
            now = Instant::now();
        }
        Ok(self.sort_out(messages))
    }

    fn explained(&self, doing: &Doing<'_>, error: KafkaError) -> KafkaError {
        serve(&self.shared.consumer, AFTERWARDS);
        self.shared.consumer.context().explain(doing, error)
    }

    fn take(
        &self,
        wait: Duration,
        max: usize,
        into: &mut Vec<Message>,
    ) -> Result<usize, KafkaError> {
        self.shared
            .queue
            .consume(wait, max, into)
            .map_err(|code| self.doing("read", wait).code(code, "batch read"))
    }

    fn sort_out(&mut self, mut messages: Vec<Message>) -> RecordBatch {
        let mut bytes = 0;
        let mut fault = None;
        let mut heard = false;
        let mut next = self.next;
        let mut at_end = self.at_end;
        messages.retain(|message| match message.event() {
            None => {
                if let Ok(offset) = Offset::try_from(message.offset()) {
                    next = offset.next();
                }
                at_end = false;
                heard = true;
                bytes += message.key().map_or(0, <[u8]>::len);
                bytes += message.value().map_or(0, <[u8]>::len);
                true
            }
            Some(Code::PartitionEOF) => {
                // The end may lie behind the last record: markers of transactions take offsets.
                if let Ok(end) = Offset::try_from(message.offset()) {
                    next = next.max(end);
                }
                at_end = true;
                heard = true;
                false
            }
            Some(code) => {
                fault.get_or_insert((code, message.event_text()));
                false
            }
        });
        if heard {
            self.shared.consumer.context().settled();
        }
        self.broken = fault.map(|(code, text)| self.fault(code, &text, next));
        self.next = next;
        self.at_end = at_end;
        RecordBatch {
            messages,
            bytes,
            next,
            shared: Arc::clone(&self.shared),
        }
    }

    fn fault(&self, code: Code, text: &str, next: Offset) -> KafkaError {
        match code {
            Code::AutoOffsetReset | Code::OffsetOutOfRange => KafkaError::OffsetOutOfRange {
                topic: self.topic.clone(),
                partition: self.partition.get(),
                offset: next,
            },
            code => self.doing("read", Duration::ZERO).code(code, text),
        }
    }

    /// The offset behind everything handed out.
    #[must_use]
    pub fn position(&self) -> Offset {
        self.next
    }

    /// The offset that the next record of the log will get, as the last fetch saw it: the true
    /// end, records of open transactions included. `None` before the first fetch.
    #[must_use]
    pub fn high_watermark(&self) -> Option<Offset> {
        let (_, high) = ffi::cached_watermarks(
            &self.shared.consumer,
            self.topic.as_str(),
            self.partition.get(),
        )?;
        Offset::try_from(high).ok()
    }

    /// Whether everything was handed out up to the high watermark, as last seen.
    #[must_use]
    pub fn at_end(&self) -> bool {
        self.at_end && self.high_watermark().is_none_or(|high| self.next >= high)
    }

    /// Where the log ends, if everything readable was handed out and records of an open transaction
    /// lie in front of that end.
    #[must_use]
    pub fn waits_for_transaction(&self) -> Option<Offset> {
        self.high_watermark()
            .filter(|high| self.at_end && self.next < *high)
    }

    /// The trouble on the way to the broker that the client is getting over, reported since the
    /// broker was last heard (a record, an end, an answer to a question or a commit).
    #[must_use]
    pub fn link(&self) -> Option<LinkHealth> {
        self.shared.consumer.context().trouble()
    }

    /// Goes on from another offset.
    ///
    /// # Errors
    /// If the client does not obey in time.
    pub fn seek(&mut self, to: Offset, timeout: Duration) -> Result<(), KafkaError> {
        self.asking()
            .seek(
                self.topic.as_str(),
                self.partition.get(),
                rdkafka::Offset::Offset(to.get()),
                timeout,
            )
            .map_err(|error| {
                self.doing("go to another offset in", timeout)
                    .failed(&error)
            })?;
        self.next = to;
        self.at_end = false;
        self.broken = None;
        Ok(())
    }

    /// Stops fetching; what was fetched is dropped.
    ///
    /// # Errors
    /// If the client does not obey.
    pub fn pause(&self) -> Result<(), KafkaError> {
        let doing = self.doing("pause", Duration::ZERO);
        let list = one(&self.topic, self.partition, None).map_err(|error| doing.failed(&error))?;
        self.shared
            .consumer
            .pause(&list)
            .map_err(|error| doing.failed(&error))
    }

    /// Fetches again, from [`PartitionReader::position`] on.
    ///
    /// # Errors
    /// If the client does not obey.
    pub fn resume(&self) -> Result<(), KafkaError> {
        let doing = self.doing("resume", Duration::ZERO);
        let list = one(&self.topic, self.partition, None).map_err(|error| doing.failed(&error))?;
        self.shared
            .consumer
            .resume(&list)
            .map_err(|error| doing.failed(&error))
    }

    /// Commits the group's offset for this partition with the receipt as its metadata.
    ///
    /// # Errors
    /// If the broker does not take it. After [`KafkaError::TimedOut`] it is not known whether it
    /// did.
    pub fn commit(
        &self,
        committed: &CommittedReceipt,
        timeout: Duration,
    ) -> Result<(), KafkaError> {
        let doing = Doing {
            what: "commit offsets of",
            resource: Resource::Group(self.group.as_str()),
            bootstrap: &self.bootstrap,
            after: timeout,
        };
        let list = one(&self.topic, self.partition, Some(committed.offset))
            .map_err(|error| doing.failed(&error))?;
        if let Some(mut element) = list.find_partition(self.topic.as_str(), self.partition.get()) {
            element.set_metadata(committed.receipt.to_string());
        }
        ffi::commit(self.asking(), &list, timeout)
            .map_err(|code| self.explained(&doing, doing.code(code, "offset commit")))?;
        self.shared.consumer.context().settled();
        Ok(())
    }

    /// How many partitions the topic has now, by any broker's word.
    ///
    /// # Errors
    /// If the topic is gone or no broker answers in time.
    pub fn partition_count(&self, timeout: Duration) -> Result<RawPartitionCount, KafkaError> {
        let doing = Doing {
            what: "describe",
            resource: Resource::Topic(&self.topic),
            bootstrap: &self.bootstrap,
            after: timeout,
        };
        let client = self.asking().client();
        let count = partition_count(client, &doing, &self.topic, timeout)
            .map_err(|error| self.explained(&doing, error))?;
        self.shared.consumer.context().settled();
        Ok(count)
    }

    /// The group's committed offset for this partition, waiting for pending transactions.
    ///
    /// # Errors
    /// If the broker does not answer, or not with an offset.
    pub fn committed(&self, timeout: Duration) -> Result<Option<CommittedOffset>, KafkaError> {
        let doing = Doing {
            what: "read offsets of",
            resource: Resource::Group(self.group.as_str()),
            bootstrap: &self.bootstrap,
            after: timeout,
        };
        let list = one(&self.topic, self.partition, None).map_err(|error| doing.failed(&error))?;
        let answer = self
            .asking()
            .committed_offsets(list, timeout)
            .map_err(|error| self.explained(&doing, doing.failed(&error)))?;
        match answer.find_partition(self.topic.as_str(), self.partition.get()) {
            Some(element) => committed_of(&doing, &element),
            None => Ok(None),
        }
    }
}

/// How long records may be waited for before logs and errors of the client are served.
const SERVE_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn one(
    topic: &TopicName,
    partition: Partition,
    at: Option<Offset>,
) -> Result<TopicPartitionList, rdkafka::error::KafkaError> {
    let mut list = TopicPartitionList::with_capacity(1);
    let mut element = list.add_partition(topic.as_str(), partition.get());
    if let Some(at) = at {
        element.set_offset(rdkafka::Offset::Offset(at.get()))?;
    }
    Ok(list)
}
