//! Records as they are written and as they are read.

use anyhow::{Context as _, Result};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};

use crate::events::Event;

/// A record to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// None: murmur2 of the key, as Kafka's own clients place it.
    pub partition: Option<i32>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Epoch milliseconds. None: now.
    pub timestamp_ms: Option<i64>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self {
            key: Some(event.key),
            value: Some(event.value),
            ..Self::default()
        }
    }
}

/// A record as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Stored {
    /// The value as JSON.
    ///
    /// # Errors
    /// It is none.
    pub fn json(&self) -> Result<serde_json::Value> {
        let value = self.value.as_deref().context("a record without a value")?;
        serde_json::from_slice(value).with_context(|| String::from_utf8_lossy(value).into_owned())
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

impl From<&BorrowedMessage<'_>> for Stored {
    fn from(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map_or_else(Vec::new, |headers| {
            headers
                .iter()
                .map(|each| (each.key.to_owned(), each.value.unwrap_or_default().to_vec()))
                .collect()
        });
        Self {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers,
        }
    }
}
