//! Reading many partitions of one topic at once, to look at their records.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use rdkafka::ClientContext as _;
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode as Code};
use rdkafka::topic_partition_list::TopicPartitionList;
use turbine_keygroups::Partition;
use turbine_protocol::{LogBounds, Offset, TopicName};

use crate::client::{AFTERWARDS, Context, serve};
use crate::consume::one;
use crate::doing::{Doing, Resource};
use crate::error::KafkaError;
use crate::ffi::Borrowed;
use crate::lifeline::Lifeline;
use crate::settings::{KafkaSettings, QueueBudget};

/// A record that a scan came by.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// Where it lies.
    pub partition: Partition,
    /// Its offset.
    pub offset: Offset,
    /// Its key; `None` if it has none, which is not the empty key.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` if it is null, which is not an empty one.
    pub value: Option<&'a [u8]>,
    /// Its time in milliseconds since the Unix epoch, if it has one.
    pub time: Option<i64>,
    /// Its headers, in its order, repeats included.
    pub headers: SeenHeaders<'a>,
}

/// Headers of one record that a scan came by: name, and value if it is not null.
#[derive(Debug, Clone)]
pub struct SeenHeaders<'a> {
    message: Option<Borrowed<'a>>,
    at: usize,
}

impl<'a> Iterator for SeenHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.message?.header(self.at)?;
        self.at += 1;
        Some(header)
    }
}

/// What is still to be read of a stretch.
#[derive(Debug, Clone, Copy)]
struct Rest {
    next: Offset,
    end: Offset,
}

/// Reads a stretch of each of a topic's partitions, committed records only, as a member of no
/// group and without a trace at the broker.
pub struct TopicScan {
    consumer: BaseConsumer<Context>,
    bootstrap: String,
    topic: TopicName,
    open: BTreeMap<Partition, Rest>,
    done: u64,
    lifeline: Lifeline,
}

impl fmt::Debug for TopicScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicScan")
            .field("topic", &self.topic)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl TopicScan {
    /// A scan of the given stretches. Makes no call to the broker.
    ///
    /// # Errors
    /// If the client does not take its settings.
    pub fn open(
        settings: &KafkaSettings,
        topic: &TopicName,
        stretches: &BTreeMap<Partition, LogBounds>,
        budget: QueueBudget,
    ) -> Result<Self, KafkaError> {
        let doing = Doing {
            what: "read",
            resource: Resource::Topic(topic),
            bootstrap: settings.bootstrap_servers(),
            after: Duration::ZERO,
        };
        let consumer: BaseConsumer<Context> = settings
            .scan(budget)
            .create_with_context(Context::default())
            .map_err(|error| doing.failed(&error))?;
        let open: BTreeMap<Partition, Rest> = stretches
            .iter()
            .filter(|(_, stretch)| stretch.start() < stretch.end())
            .map(|(partition, stretch)| {
                let (next, end) = (stretch.start(), stretch.end());
                (*partition, Rest { next, end })
            })
            .collect();
        let mut list = TopicPartitionList::with_capacity(open.len());
        for (partition, rest) in &open {
            list.add_partition(topic.as_str(), partition.get())
                .set_offset(rdkafka::Offset::Offset(rest.next.get()))
                .map_err(|error| doing.failed(&error))?;
        }
        consumer
            .assign(&list)
            .map_err(|error| doing.failed(&error))?;
        Ok(Self {
            consumer,
            bootstrap: settings.bootstrap_servers().to_owned(),
            topic: topic.clone(),
            open,
            done: 0,
            lifeline: Lifeline::new(settings.bootstrap_servers()),
        })
    }

    fn doing(&self, after: Duration) -> Doing<'_> {
        Doing {
            what: "read",
            resource: Resource::Topic(&self.topic),
            bootstrap: &self.bootstrap,
            after,
        }
    }

    /// Whether every stretch was read to its end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// How many offsets of the stretches lie behind what was read: records, and places without
    /// one, which transactions and compaction leave.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.done
    }

    /// Hands records to `take` for as long as `wait`, or until all is read. Returns whether
    /// anything came.
    ///
    /// # Errors
    /// What ends the reading: the topic is gone, a right is missing, the login is refused. A lost
    /// connection is no error: the client gets over it, see [`TopicScan::silence`].
    pub fn read(
        &mut self,
        wait: Duration,
        mut take: impl FnMut(Seen<'_>),
    ) -> Result<bool, KafkaError> {
        let deadline = Instant::now() + wait;
        let mut heard = false;
        while !self.open.is_empty() {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                break;
            }
            self.lifeline.hold(self.consumer.client(), now);
            let ended = match self.consumer.poll(left) {
                None => continue,
                Some(Ok(message)) => {
                    let Ok(partition) = Partition::try_from(message.partition()) else {
                        continue;
                    };
                    let Ok(offset) = Offset::try_from(message.offset()) else {
                        continue;
                    };
                    heard = true;
                    let Some(rest) = self.open.get_mut(&partition) else {
                        continue;
                    };
                    if offset < rest.end {
                        take(Seen {
                            partition,
                            offset,
                            key: message.key(),
                            value: message.payload(),
                            time: message.timestamp().to_millis(),
                            headers: SeenHeaders {
                                message: Borrowed::of(&message),
                                at: 0,
                            },
                        });
                    }
                    let next = offset.next().min(rest.end).max(rest.next);
                    self.done += next.since(rest.next);
                    rest.next = next;
                    if next < rest.end {
                        continue;
                    }
                    partition
                }
                // Also in front of a transaction that is open: what lies behind is not committed.
                Some(Err(ClientError::PartitionEOF(partition))) => {
                    heard = true;
                    match Partition::try_from(partition) {
                        Ok(partition) => partition,
                        Err(_) => continue,
                    }
                }
                Some(Err(error)) => {
                    self.weigh(&error)?;
                    continue;
                }
            };
            self.close(ended)?;
        }
        if heard {
            self.consumer.context().settled();
        }
        Ok(heard)
    }

    /// Why nothing came for as long as `after`.
    #[must_use]
    pub fn silence(&self, after: Duration) -> KafkaError {
        serve(&self.consumer, AFTERWARDS);
        let doing = self.doing(after);
        self.consumer
            .context()
            .explain(&doing, doing.code(Code::OperationTimedOut, ""))
    }

    fn close(&mut self, partition: Partition) -> Result<(), KafkaError> {
        let Some(rest) = self.open.remove(&partition) else {
            return Ok(());
        };
        self.done += rest.end.since(rest.next);
        let doing = self.doing(Duration::ZERO);
        let list = one(&self.topic, partition, None).map_err(|error| doing.failed(&error))?;
        // What is written behind the stretch is of no interest, however fast it comes.
        self.consumer
            .pause(&list)
            .map_err(|error| doing.failed(&error))
    }

    fn weigh(&self, error: &ClientError) -> Result<(), KafkaError> {
        match error.rdkafka_error_code() {
            // The client asks for the group's coordinator, of which we want nothing.
            Some(Code::GroupAuthorizationFailed) => Ok(()),
            Some(
                Code::TopicAuthorizationFailed
                | Code::UnknownTopicOrPartition
                | Code::UnknownTopic
                | Code::UnknownPartition
                | Code::Authentication
                | Code::SaslAuthenticationFailed
                | Code::SSL
                | Code::Fatal,
            ) => Err(self.doing(Duration::ZERO).failed(error)),
            _ => {
                self.consumer.context().error(error.clone(), "");
                Ok(())
            }
        }
    }
}
