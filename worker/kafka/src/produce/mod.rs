//! Writing outputs: in batches, each record to the partition its key belongs to.

mod acks;
mod topic;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::{BaseProducer, Producer as _};
use turbine_protocol::{TopicName, TransactionalId};

use crate::admin::partition_count;
use crate::client::Context;
use crate::courier::Courier;
use crate::dead_letter::DeadLetter;
use crate::doing::{Doing, Resource};
use crate::error::KafkaError;
use crate::ffi::{self, ProduceBuffer, TopicHandle};
use crate::lifeline::Lifeline;
use crate::output::{OutputBatch, Parts, Rejected};
use crate::ownership::Ownership;
use crate::settings::{KafkaSettings, QueueBudget};

pub use self::acks::Abandon;
pub use self::topic::OutputTopic;

/// How often a topic that grew is noticed.
const REFRESH_INTERVAL: Duration = Duration::from_mins(1);
/// The client waits in whole milliseconds and spins through what is left of one, 20 times a second up to 1 % of a core. A little
/// more than whole ones leaves nothing.
const POLL_INTERVAL: Duration = Duration::from_micros(100_100);

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
        Ok(OutputTopic::new(&self.producer, handle, name, partitions))
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
            let doing = self.doing("write to", Resource::Topic(topic.name()), timeout);
            let count = partition_count(self.producer.client(), &doing, topic.name(), timeout)?;
            topic.set_partitions(count);
        }
        self.refreshed = Some(now);
        Ok(())
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
        let placement = topic.place()?;
        let mut rejected: Vec<Rejected> = Vec::new();
        if topic.has_limit() {
            let sizes = batch.iter().map(|parts| size(Some(parts)));
            let too_large = sizes
                .enumerate()
                .filter(|(_, bytes)| !topic.takes(*bytes, 0));
            rejected.extend(too_large.map(|(index, bytes)| Rejected {
                index,
                reason: topic.too_large(bytes),
            }));
        }
        // Almost always empty, and then the index among those given is the index in the batch.
        let left_out: Vec<usize> = rejected.iter().map(|one| one.index).collect();
        let mut broken = None;
        self.buffer.produce(
            topic.handle(),
            batch
                .iter()
                .enumerate()
                .filter(|(index, _)| left_out.binary_search(index).is_err())
                .map(|(_, (key, value))| (placement.of(key), key, value)),
            |given, code| {
                let index = index_in_batch(given, &left_out);
                match topic.refusal(code, || size(batch.get(index))) {
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
            return Err(topic.too_large(bytes));
        }
        self.writes();
        let partition = topic.place()?.of(key);
        ffi::produce_with_headers(
            &self.producer,
            topic.handle(),
            partition,
            key,
            value,
            headers.into_iter(),
            None,
        )
        .map_err(
            |code| match topic.refusal(code, || size(Some((key, value)))) {
                Ok(error) | Err(error) => error,
            },
        )
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

fn size(record: Option<Parts<'_>>) -> usize {
    let (key, value) = record.unwrap_or_default();
    key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)
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
