//! A topic that outputs go to: where each record belongs in it, and what it takes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::BaseProducer;
use turbine_keygroups::{RawPartitionCount, partition_of};
use turbine_protocol::TopicName;

use crate::client::Context;
use crate::error::KafkaError;
use crate::ffi::TopicHandle;

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
    pub(super) fn new(
        producer: &Arc<BaseProducer<Context>>,
        handle: TopicHandle,
        name: &TopicName,
        partitions: RawPartitionCount,
    ) -> Self {
        Self {
            handle,
            producer: Arc::clone(producer),
            name: name.clone(),
            partitions: AtomicU32::new(partitions.get()),
            next_for_null: AtomicU32::new(0),
            limit: None,
        }
    }

    pub(super) fn handle(&self) -> &TopicHandle {
        &self.handle
    }

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

    /// The partition count that records are placed by.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.partitions.load(Ordering::Relaxed)
    }

    pub(super) fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    pub(super) fn takes(&self, bytes: usize, headers: usize) -> bool {
        self.limit
            .is_none_or(|limit| bytes + FRAME + headers * HEADER_FRAME <= limit)
    }

    pub(super) fn set_partitions(&self, count: RawPartitionCount) {
        self.partitions.store(count.get(), Ordering::Relaxed);
    }

    /// Where the records of one call go.
    pub(super) fn place(&self) -> Result<Placement, KafkaError> {
        let count = RawPartitionCount::try_from(self.partitions()).map_err(|_| {
            KafkaError::TopicMissing {
                topic: self.name.clone(),
            }
        })?;
        let null = self.next_for_null.fetch_add(1, Ordering::Relaxed) % count.get();
        Ok(Placement {
            count,
            null: null.cast_signed(),
        })
    }

    pub(super) fn too_large(&self, bytes: usize) -> KafkaError {
        KafkaError::RecordTooLarge {
            topic: self.name.to_string(),
            bytes,
        }
    }

    /// `Ok` if the fault is this record's alone, `Err` if the producer cannot go on.
    pub(super) fn refusal(
        &self,
        code: Code,
        bytes: impl FnOnce() -> usize,
    ) -> Result<KafkaError, KafkaError> {
        match code {
            Code::MessageSizeTooLarge => Ok(self.too_large(bytes())),
            code => Err(KafkaError::Other {
                what: "write to a topic",
                code,
                detail: format!("topic `{}`", self.name),
            }),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Placement {
    count: RawPartitionCount,
    null: i32,
}

impl Placement {
    pub(super) fn of(self, key: Option<&[u8]>) -> i32 {
        key.map_or(self.null, |key| partition_of(key, self.count).get())
    }
}
