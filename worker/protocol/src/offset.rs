//! Offsets and the bounds of a log. Kafka's marker values (-1, -1001, ...) are told apart where
//! they enter, so no arithmetic here can meet one.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The offset of a record, or of the record that comes next; never a marker value.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "i64", into = "i64")]
pub struct Offset(i64);

/// A negative number where an offset was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} is no offset: offsets are not negative")]
pub struct NotAnOffset(pub i64);

impl Offset {
    /// The first offset a log can have.
    pub const ZERO: Self = Self(0);

    /// The number as Kafka's protocol has it; never negative.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }

    /// The offset behind this one; at the end of the range, itself.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// How many offsets lie from `earlier` up to this one; 0 if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0).max(0).unsigned_abs()
    }
}

impl TryFrom<i64> for Offset {
    type Error = NotAnOffset;

    fn try_from(offset: i64) -> Result<Self, NotAnOffset> {
        if offset >= 0 {
            Ok(Self(offset))
        } else {
            Err(NotAnOffset(offset))
        }
    }
}

impl From<Offset> for i64 {
    fn from(offset: Offset) -> Self {
        offset.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a partition's log begins and ends: the offset of its first record that is still there,
/// and the offset the next record will get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogBounds {
    start: Offset,
    end: Offset,
}

/// A log that would end before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a log cannot start at {start} and end at {end}")]
pub struct NotBounds {
    /// Offset of the first record.
    pub start: Offset,
    /// Offset behind the last record.
    pub end: Offset,
}

impl LogBounds {
    /// # Errors
    /// If `end` lies before `start`.
    pub fn new(start: Offset, end: Offset) -> Result<Self, NotBounds> {
        if start <= end {
            Ok(Self { start, end })
        } else {
            Err(NotBounds { start, end })
        }
    }

    /// Offset of the first record that is still there.
    #[must_use]
    pub fn start(self) -> Offset {
        self.start
    }

    /// Offset the next record will get (the high watermark).
    #[must_use]
    pub fn end(self) -> Offset {
        self.end
    }

    /// How many offsets a reader at `position` has in front of it. A position that retention has
    /// passed counts from the log's start; one that is unknown has no lag.
    #[must_use]
    pub fn lag(self, position: Option<Offset>) -> Option<u64> {
        position.map(|position| self.end.since(position.max(self.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::try_from(offset).unwrap()
    }

    #[test]
    fn kafkas_markers_are_no_offsets() {
        for marker in [-1, -2, -1000, -1001, -1002, i64::MIN] {
            assert_eq!(Offset::try_from(marker), Err(NotAnOffset(marker)));
        }
    }

    #[test]
    fn an_emptied_log_has_no_lag_whatever_the_position() {
        let emptied = LogBounds::new(at(5000), at(5000)).unwrap();
        assert_eq!(emptied.lag(Some(at(100))), Some(0));
        assert_eq!(emptied.lag(None), None);
    }

    #[test]
    fn lag_counts_from_the_log_start_if_retention_passed_the_position() {
        let log = LogBounds::new(at(200), at(250)).unwrap();
        assert_eq!(log.lag(Some(at(100))), Some(50));
        assert_eq!(log.lag(Some(at(240))), Some(10));
    }
}
