//! An entry: what one commit of one task adds, and the checksum by which its receipt knows it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use turbine_keygroups::Partition;

use crate::epochs::{EntryNumber, StoreEpoch};
use crate::layout::Task;
use crate::names::TopicName;
use crate::offset::Offset;

/// How far event time has closed, in milliseconds since the Unix epoch; `None` before the first
/// record.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Frontier(pub Option<i64>);

/// A text that is no frontier.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no frontier: milliseconds or `-` are expected")]
pub struct NotAFrontier(pub String);

impl fmt::Display for Frontier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(millis) => millis.fmt(f),
            None => f.write_str("-"),
        }
    }
}

impl FromStr for Frontier {
    type Err = NotAFrontier;

    fn from_str(text: &str) -> Result<Self, NotAFrontier> {
        if text == "-" {
            return Ok(Self(None));
        }
        match text.parse::<i64>() {
            Ok(millis) if millis.to_string() == text => Ok(Self(Some(millis))),
            _ => Err(NotAFrontier(text.to_owned())),
        }
    }
}

/// Where one cursor of a task stands: the offset it reads next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The topic read.
    pub topic: TopicName,
    /// The partition read.
    pub partition: Partition,
    /// The offset of the record that is read next.
    pub next: Offset,
}

/// One key's new value, or its removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// The stored key, group prefix included.
    pub key: &'a [u8],
    /// The new value; `None` removes the key.
    pub value: Option<&'a [u8]>,
}

/// What one commit of one task adds to its state. Written as one; there or not there as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The task that commits.
    pub task: &'a Task,
    /// The life of the store this belongs to.
    pub store_epoch: StoreEpoch,
    /// One more than that of the commit before.
    pub number: EntryNumber,
    /// The positions of all cursors after this commit.
    pub positions: &'a [Position],
    /// How far event time has closed with this commit.
    pub frontier: Frontier,
    /// The engine's clocks and timers, in the engine's own form.
    pub clocks: &'a [u8],
    /// The keys that changed since the commit before.
    pub changes: &'a [Change<'a>],
}

/// CRC-32C over an entry's content: every field, in a form in which no two entries are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryChecksum(pub u32);

impl fmt::Display for EntryChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

struct Digest(u32);

impl Digest {
    fn raw(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    fn number(&mut self, number: i64) {
        self.raw(&number.to_be_bytes());
    }

    fn length(&mut self, length: usize) {
        self.raw(&(length as u64).to_be_bytes());
    }

    /// The length goes first: without it `ab`, `c` and `a`, `bc` would read the same.
    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.raw(bytes);
    }

    fn present<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.raw(&[0]),
            Some(value) => {
                self.raw(&[1]);
                write(self, value);
            }
        }
    }
}

impl Entry<'_> {
    /// The checksum over everything this entry says.
    #[must_use]
    pub fn checksum(&self) -> EntryChecksum {
        let mut digest = Digest(0);
        digest.bytes(self.task.subscription.as_str().as_bytes());
        digest.number(i64::from(self.task.partition.get()));
        digest.number(self.store_epoch.get());
        digest.number(self.number.get());
        digest.length(self.positions.len());
        for position in self.positions {
            digest.bytes(position.topic.as_str().as_bytes());
            digest.number(i64::from(position.partition.get()));
            digest.number(position.next.get());
        }
        digest.present(self.frontier.0, Digest::number);
        digest.bytes(self.clocks);
        digest.length(self.changes.len());
        for change in self.changes {
            digest.bytes(change.key);
            digest.present(change.value, Digest::bytes);
        }
        EntryChecksum(digest.0)
    }
}
