//! Records as they were fetched: borrowed from the client's memory, freed together.

use std::fmt;
use std::sync::Arc;

use turbine_protocol::Offset;

use crate::consume::Shared;
use crate::doing::offset;
use crate::error::KafkaError;
use crate::ffi::Message;

/// When a record was made or stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamp {
    /// Set by the producer; milliseconds since the Unix epoch.
    Created(i64),
    /// Set by the broker; milliseconds since the Unix epoch.
    Appended(i64),
}

/// Records in the order of the log. Their memory is freed when the batch is dropped. A batch may
/// move between threads, but not be shared by them.
pub struct RecordBatch {
    pub(crate) messages: Vec<Message>,
    pub(crate) bytes: usize,
    pub(crate) next: Offset,
    #[expect(
        dead_code,
        reason = "keeps the client alive for as long as its messages are"
    )]
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for RecordBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordBatch")
            .field("records", &self.messages.len())
            .field("bytes", &self.bytes)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl RecordBatch {
    /// How many records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The position behind this batch: that of its last record plus one, or further if markers of
    /// transactions lie between it and the end.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.next
    }

    /// Drops the records from an offset on; the reader has handed them out all the same.
    pub fn cut_at(&mut self, end: Offset) {
        let behind =
            |message: &Message| Offset::try_from(message.offset()).is_ok_and(|at| at >= end);
        while self.messages.last().is_some_and(behind) {
            if let Some(message) = self.messages.pop() {
                self.bytes -= message.key().map_or(0, <[u8]>::len);
                self.bytes -= message.value().map_or(0, <[u8]>::len);
            }
        }
        self.next = self.next.min(end);
    }

    /// The key of record `index`; `None` if it has none, which is not the empty key.
    ///
    /// # Panics
    /// If there is no such record.
    #[must_use]
    pub fn key(&self, index: usize) -> Option<&[u8]> {
        self.messages[index].key()
    }

    /// The value of record `index`; `None` for a null value, which is not an empty one.
    ///
    /// # Panics
    /// If there is no such record.
    #[must_use]
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        self.messages[index].value()
    }

    /// The offset of record `index`.
    ///
    /// # Errors
    /// If the broker gave a marker value for one.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn offset(&self, index: usize) -> Result<Offset, KafkaError> {
        offset("a record's offset", self.messages[index].offset())
    }

    /// The time of record `index`, if it has one.
    ///
    /// # Panics
    /// If there is no such record.
    #[must_use]
    pub fn timestamp(&self, index: usize) -> Option<Timestamp> {
        self.messages[index].timestamp().map(|(millis, by_broker)| {
            if by_broker {
                Timestamp::Appended(millis)
            } else {
                Timestamp::Created(millis)
            }
        })
    }

    /// The headers of record `index`, in its order, repeats included.
    #[must_use]
    pub fn headers(&self, index: usize) -> Headers<'_> {
        Headers {
            message: self.messages.get(index),
            at: 0,
        }
    }
}

/// Headers of one record: name, and value if it is not null.
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    message: Option<&'a Message>,
    at: usize,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.message?.header(self.at)?;
        self.at += 1;
        Some(header)
    }
}
