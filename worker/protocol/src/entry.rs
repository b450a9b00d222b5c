//! An entry: what one commit of one task adds, its stored form, and the checksum by which its
//! receipt knows it.

mod codec;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use turbine_keygroups::Partition;

pub use codec::{EntryTooLarge, StoredEntry};

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

/// CRC-32C over an entry's stored form, which says every field, in a form in which no two entries
/// are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryChecksum(pub u32);

impl fmt::Display for EntryChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl Entry<'_> {
    /// The checksum over everything this entry says.
    ///
    /// # Errors
    /// If a key, a value or the clocks are longer than the stored form can say.
    pub fn checksum(&self) -> Result<EntryChecksum, EntryTooLarge> {
        let mut stored = Vec::new();
        self.encode(&mut stored)
    }
}
