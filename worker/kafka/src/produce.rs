//! Writing outputs: in batches, each record to the partition its key belongs to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::{BaseProducer, Producer, PurgeConfig};
use turbine_keygroups::{RawPartitionCount, partition_of};
use turbine_protocol::{TopicName, TransactionalId};

use crate::admin::partition_count;
use crate::client::{Context, LinkHealth};
use crate::courier::Courier;
use crate::dead_letter::DeadLetter;
use crate::error::{Doing, KafkaError, Resource};
use crate::ffi::{self, ProduceBuffer, TopicHandle};
use crate::lifeline::Lifeline;
use crate::output::{OutputBatch, Parts, Rejected};
use crate::ownership::{Ownership, Remedy};
use crate::settings::{KafkaSettings, QueueBudget};

/// How often a topic that grew is noticed.
const REFRESH_INTERVAL: Duration = Duration::from_mins(1);
/// The client waits in whole milliseconds and spins through what is left of one, 20 times a second up to 1 % of a core. A little
/// more than whole ones leaves nothing.
const POLL_INTERVAL: Duration = Duration::from_micros(100_100);
/// What Kafka's format adds to key, value and headers of a record that is alone in its batch, at most: 61 bytes of the batch,
/// and lengths, times and attributes as numbers of variable length.
const FRAME: usize = 61 + 36;
/// What it adds to each header.
const HEADER_FRAME: usize = 10;

/// A topic that outputs go to.
pub struct OutputTopic {
    // The handle goes before the producer it belongs to.
    handle: TopicHandle,
    #[expect(
        dead_code,
        reason = "keeps the client alive for as long as the handle is"
    )]
    producer: Arc<BaseProducer<Context>>,
    name: TopicName,
    partitions: AtomicU32,
    next_for_null: AtomicU32,
    /// Most bytes of a batch, as far as is known.
    limit: Option<usize>,
}

impl fmt::Debug for OutputTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputTopic")
            .field("name", &self.name)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}

impl OutputTopic {
    /// The topic's name.
    #[must_use]
    pub fn name(&self) -> &TopicName {
        &self.name
    }

    /// The same, with the most bytes of a batch that the broker takes into it: a record that alone is more than that is
    /// refused before it is sent, for itself, and not by the broker, with all that was sent behind it. A record counts as it
    /// is, not as it may be compressed.
    #[must_use]
    pub fn limited_to(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    fn takes(&self, bytes: usize, headers: usize) -> bool {
        self.limit
            .is_none_or(|limit| bytes + FRAME + headers * HEADER_FRAME <= limit)
    }

    /// The partition count that records are placed by.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.partitions.load(Ordering::Relaxed)
    }
}

/// Writes one task's outputs.
///
/// A record with a key goes where Kafka's default partitioner puts it: `murmur2` modulo the
/// topic's count. Records without a key go to one partition per call, the next call's to the next
/// partition.
///
/// Order within a partition is the order of the calls. After any record has failed, what was
/// written behind it is not known: the producer is dropped and the task starts again from its
/// last commit.
pub struct OutputProducer {
    producer: Arc<BaseProducer<Context>>,
    bootstrap: String,
    transactional: Option<Transactional>,
    buffer: ProduceBuffer,
    refreshed: Option<Instant>,
    stop: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
}

impl fmt::Debug for OutputProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputProducer")
            .field("bootstrap", &self.bootstrap)
            .finish_non_exhaustive()
    }
}

/// What belongs to a transactional id.
#[derive(Debug)]
pub(crate) struct Transactional {
    pub(crate) ownership: Ownership,
    pub(crate) courier: Courier,
}

/// Gives up what a producer has not written yet, from another thread: frees a call that waits for
/// room in the queue.
#[derive(Clone)]
pub struct Abandon(Arc<BaseProducer<Context>>);

impl fmt::Debug for Abandon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Abandon")
    }
}

impl Abandon {
    /// Fails everything that is not acknowledged yet.
    pub fn abandon(&self) {
        self.0.purge(PurgeConfig::default().queue().inflight());
    }
}

impl OutputProducer {
    /// A producer, with a thread that serves it. Makes no call to the broker.
    ///
    /// # Errors
    /// If the client does not take its settings, or no thread can be had.
    pub fn open(settings: &KafkaSettings, budget: QueueBudget) -> Result<Self, KafkaError> {
        Self::open_with(settings, budget, None)
    }

    pub(crate) fn open_with(
        settings: &KafkaSettings,
        budget: QueueBudget,
        transactional_id: Option<&TransactionalId>,
    ) -> Result<Self, KafkaError> {
        let doing = Doing {
            what: "write",
            resource: Resource::Cluster,
            bootstrap: settings.bootstrap_servers(),
            after: Duration::ZERO,
        };
        let config = match transactional_id {
            Some(id) => settings.transactional_producer(budget, id.as_str()),
            None => settings.producer(budget),
        };
        let producer: BaseProducer<Context> = config
            .create_with_context(Context::default())
            .map_err(|error| doing.failed(&error))?;
        let producer = Arc::new(producer);
        let stop = Arc::new(AtomicBool::new(false));
        let poller = {
            let (producer, stop) = (Arc::clone(&producer), Arc::clone(&stop));
            let lifeline = Lifeline::new(settings.bootstrap_servers());
            // Failures are served while the task thread waits for room or for a flush; without
            // this thread both would wait forever.
            std::thread::Builder::new()
                .name("kafka-out".to_owned())
                .spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        producer.poll(POLL_INTERVAL);
                        lifeline.hold(producer.client(), Instant::now());
                    }
                })
                .map_err(|error| KafkaError::Settings {
                    detail: format!("no thread for the producer: {error}"),
                })?
        };
        let transactional = match transactional_id {
            None => None,
            Some(id) => Some(Transactional {
                ownership: Ownership::new(id.clone()),
                courier: Courier::start(Arc::clone(&producer))?,
            }),
        };
        Ok(Self {
            producer,
            bootstrap: settings.bootstrap_servers().to_owned(),
            transactional,
            buffer: ProduceBuffer::default(),
            refreshed: None,
            stop,
            poller: Some(poller),
        })
    }

    /// A topic to write to, with its partition count as the broker has it now.
    ///
    /// # Errors
    /// If it does not exist or the broker does not say.
    pub fn topic(&self, name: &TopicName, timeout: Duration) -> Result<OutputTopic, KafkaError> {
        let doing = self.doing("write to", Resource::Topic(name), timeout);
        let partitions = partition_count(self.producer.client(), &doing, name, timeout)?;
        let handle = TopicHandle::new(&self.producer, name.as_str())
            .ok_or_else(|| doing.code(Code::InvalidTopic, "the client does not take the name"))?;
        Ok(OutputTopic {
            handle,
            producer: Arc::clone(&self.producer),
            name: name.clone(),
            partitions: AtomicU32::new(partitions.get()),
            next_for_null: AtomicU32::new(0),
            limit: None,
        })
    }

    pub(crate) fn client(&self) -> &BaseProducer<Context> {
        &self.producer
    }

    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// What a producer with a transactional id has beside.
    pub(crate) fn transactional(&self) -> Option<&Transactional> {
        self.transactional.as_ref()
    }

    /// From here on the broker may count the time of the transaction.
    fn writes(&self) {
        if let Some(transactional) = &self.transactional {
            transactional.ownership.writes();
        }
    }

    /// The client may know better why a call ran out of time.
    pub(crate) fn explained(
        &self,
        resource: Resource<'_>,
        what: &'static str,
        error: KafkaError,
    ) -> KafkaError {
        let doing = self.doing(what, resource, Duration::ZERO);
        self.producer.context().explain(&doing, error)
    }

    fn doing<'a>(
        &'a self,
        what: &'static str,
        resource: Resource<'a>,
        after: Duration,
    ) -> Doing<'a> {
        Doing {
            what,
            resource,
            bootstrap: &self.bootstrap,
            after,
        }
    }

    /// Asks again for the partition counts of `topics`, once a minute at most, so that a topic
    /// that grew gets its records where consumers look for them. Call it between commits.
    ///
    /// # Errors
    /// If the broker does not say in time; the counts stay as they are and are asked for at the
    /// next call.
    pub fn refresh_counts<'a>(
        &mut self,
        topics: impl IntoIterator<Item = &'a OutputTopic>,
        now: Instant,
        timeout: Duration,
    ) -> Result<(), KafkaError> {
        let due = self
            .refreshed
            .is_none_or(|last| now.saturating_duration_since(last) >= REFRESH_INTERVAL);
        if !due {
            return Ok(());
        }
        for topic in topics {
            let doing = self.doing("write to", Resource::Topic(&topic.name), timeout);
            let count = partition_count(self.producer.client(), &doing, &topic.name, timeout)?;
            topic.partitions.store(count.get(), Ordering::Relaxed);
        }
        self.refreshed = Some(now);
        Ok(())
    }

    fn place(topic: &OutputTopic) -> Result<Placement, KafkaError> {
        let count = RawPartitionCount::try_from(topic.partitions()).map_err(|_| {
            KafkaError::TopicMissing {
                topic: topic.name.clone(),
            }
        })?;
        let null = topic.next_for_null.fetch_add(1, Ordering::Relaxed) % count.get();
        Ok(Placement {
            count,
            null: null.cast_signed(),
        })
    }

    /// Writes a batch. Waits while the queue is full: memory is bounded by the budget given at
    /// [`OutputProducer::open`]. Returns the records that can never be written to this topic; the
    /// others of the batch are on their way.
    ///
    /// # Errors
    /// If a record written earlier failed, or the client takes no more.
    pub fn produce(
        &mut self,
        topic: &OutputTopic,
        batch: &OutputBatch,
    ) -> Result<Vec<Rejected>, KafkaError> {
        self.check()?;
        self.writes();
        let placement = Self::place(topic)?;
        let mut rejected: Vec<Rejected> = Vec::new();
        if topic.limit.is_some() {
            let sizes = batch.iter().map(|parts| size(Some(parts)));
            let too_large = sizes
                .enumerate()
                .filter(|(_, bytes)| !topic.takes(*bytes, 0));
            rejected.extend(too_large.map(|(index, bytes)| Rejected {
                index,
                reason: too_large_for(topic, bytes),
            }));
        }
        // Almost always empty, and then the index among those given is the index in the batch.
        let left_out: Vec<usize> = rejected.iter().map(|one| one.index).collect();
        let mut broken = None;
        self.buffer.produce(
            &topic.handle,
            batch
                .iter()
                .enumerate()
                .filter(|(index, _)| left_out.binary_search(index).is_err())
                .map(|(_, (key, value))| (placement.of(key), key, value)),
            |given, code| {
                let index = index_in_batch(given, &left_out);
                match refusal(topic, code, || size(batch.get(index))) {
                    Ok(reason) => rejected.push(Rejected { index, reason }),
                    Err(error) => broken = broken.take().or(Some(error)),
                }
            },
        );
        rejected.sort_by_key(|one| one.index);
        match broken {
            // Others behind the lost one may be on their way: from here the order is broken.
            Some(error) => {
                self.producer.context().not_delivered(error.clone());
                Err(error)
            }
            None => Ok(rejected),
        }
    }

    /// Writes a dead letter: key, value and headers as they were, then our own headers. If it is
    /// too large for the topic it loses its value, and a header says so. It is placed like an
    /// output.
    ///
    /// # Errors
    /// If a record written earlier failed, or the client does not take this one.
    pub fn produce_dead_letter<'a, H>(
        &mut self,
        topic: &OutputTopic,
        letter: &DeadLetter<'a, H>,
    ) -> Result<(), KafkaError>
    where
        H: Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
    {
        let headers = letter.headers();
        match self.produce_record(topic, letter.key, letter.value, headers.iter()) {
            Err(KafkaError::RecordTooLarge { .. }) if letter.value.is_some() => {
                let headers = headers.without_value(letter.value.map_or(0, <[u8]>::len));
                self.produce_record(topic, letter.key, None, headers.iter())
            }
            other => other,
        }
    }

    /// Writes one record with its headers, in their order. It is placed like an output.
    ///
    /// # Errors
    /// If a record written earlier failed, or the client does not take this one: of these,
    /// [`KafkaError::RecordTooLarge`] leaves the producer as it is.
    pub fn produce_record<'h>(
        &mut self,
        topic: &OutputTopic,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)>,
    ) -> Result<(), KafkaError> {
        self.check()?;
        let headers: Vec<(&[u8], Option<&[u8]>)> = headers.collect();
        let bytes = size(Some((key, value)))
            + headers
                .iter()
                .map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len))
                .sum::<usize>();
        if !topic.takes(bytes, headers.len()) {
            return Err(too_large_for(topic, bytes));
        }
        self.writes();
        let partition = Self::place(topic)?.of(key);
        ffi::produce_with_headers(
            &self.producer,
            &topic.handle,
            partition,
            key,
            value,
            headers.into_iter(),
            None,
        )
        .map_err(
            |code| match refusal(topic, code, || size(Some((key, value)))) {
                Ok(error) | Err(error) => error,
            },
        )
    }

    /// The first failure since the producer was made, if there was one.
    ///
    /// # Errors
    /// If there was.
    pub fn check(&self) -> Result<(), KafkaError> {
        // First, since all that is under way fails with it.
        let fatal = self.producer.client().fatal_error();
        match (fatal, &self.transactional) {
            (Some((code, detail)), Some(transactional))
                if Remedy::of(code, false) == Remedy::Lost =>
            {
                Err(transactional.ownership.lost(detail))
            }
            (fatal, _) => match (self.producer.context().undelivered(), fatal) {
                (Some(error), _) => Err(error),
                // An idempotent producer asks for its number before it writes.
                (
                    None,
                    Some((
                        code @ (Code::ClusterAuthorizationFailed
                        | Code::TopicAuthorizationFailed
                        | Code::TransactionalIdAuthorizationFailed),
                        detail,
                    )),
                ) => Err(self
                    .doing("write to", Resource::Cluster, Duration::ZERO)
                    .code(code, &detail)),
                (None, Some((_, detail))) => Err(KafkaError::Fatal {
                    what: "write",
                    detail,
                }),
                (None, None) => Ok(()),
            },
        }
    }

    /// Returns once everything written is acknowledged by all replicas that have to.
    ///
    /// # Errors
    /// The first failure of any record since the producer was made, even if it was returned
    /// before. [`KafkaError::TimedOut`] if the deadline came first; what is not acknowledged then
    /// may still be written later.
    pub fn flush_acked(&self, deadline: Instant) -> Result<(), KafkaError> {
        let started = Instant::now();
        let timeout = deadline.saturating_duration_since(started);
        let flushed = ffi::flush(&self.producer, timeout);
        // With an empty queue every failure has been handed to the poller, which may still be at
        // it: an event leaves the queue's length only when it is destroyed.
        while flushed && ffi::queued(&self.producer) > 0 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        self.check()?;
        if flushed {
            self.producer.context().settled();
            Ok(())
        } else {
            Err(KafkaError::TimedOut {
                what: format!(
                    "{} outputs at {}: their acknowledgement",
                    ffi::queued(&self.producer),
                    self.bootstrap
                ),
                after: timeout,
            })
        }
    }

    /// Records written and not yet acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        ffi::queued(&self.producer)
    }

    /// The trouble on the way to the broker that the client is getting over, since the last flush.
    #[must_use]
    pub fn link(&self) -> Option<LinkHealth> {
        self.producer.context().trouble()
    }

    /// A handle by which another thread can free a call of this producer that waits.
    #[must_use]
    pub fn abandon_handle(&self) -> Abandon {
        Abandon(Arc::clone(&self.producer))
    }
}

impl Drop for OutputProducer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(poller) = self.poller.take()
            && poller.join().is_err()
        {
            tracing::error!("the thread that served the producer panicked");
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Placement {
    count: RawPartitionCount,
    null: i32,
}

impl Placement {
    fn of(self, key: Option<&[u8]>) -> i32 {
        key.map_or(self.null, |key| partition_of(key, self.count).get())
    }
}

fn size(record: Option<Parts<'_>>) -> usize {
    let (key, value) = record.unwrap_or_default();
    key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)
}

fn too_large_for(topic: &OutputTopic, bytes: usize) -> KafkaError {
    KafkaError::RecordTooLarge {
        topic: topic.name.to_string(),
        bytes,
    }
}

/// The index in a batch of the record that was the `given`-th of those that were not left out.
fn index_in_batch(given: usize, left_out: &[usize]) -> usize {
    let mut index = given;
    for out in left_out {
        if *out <= index {
            index += 1;
        }
    }
    index
}

/// `Ok` if the fault is this record's alone, `Err` if the producer cannot go on.
fn refusal(
    topic: &OutputTopic,
    code: Code,
    bytes: impl FnOnce() -> usize,
) -> Result<KafkaError, KafkaError> {
    match code {
        Code::MessageSizeTooLarge => Ok(too_large_for(topic, bytes())),
        code => Err(KafkaError::Other {
            what: "write to a topic",
            code,
            detail: format!("topic `{}`", topic.name),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_among_those_given_leads_back_to_the_batch() {
        let left_out = [0, 3, 4];
        let given: Vec<usize> = (0..8).filter(|index| !left_out.contains(index)).collect();
        for (at, index) in given.into_iter().enumerate() {
            assert_eq!(index_in_batch(at, &left_out), index);
        }
        assert_eq!(index_in_batch(7, &[]), 7);
    }
}
