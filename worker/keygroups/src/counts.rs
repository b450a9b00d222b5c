use std::fmt;

use serde::{Deserialize, Serialize};

/// The partition counts that divide 960, ascending.
pub const VALID_COUNTS: [u32; 28] = [
    1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 32, 40, 48, 60, 64, 80, 96, 120, 160, 192,
    240, 320, 480, 960,
];

/// A partition count that divides 960: what a keyed stateful subscription and every internal
/// topic is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct PartitionCount(u32);

/// Any partition count of at least one, as an unkeyed or stateless topic may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct RawPartitionCount(u32);

/// A partition count that was refused, with the nearest ones that would not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPartitionCount {
    /// What was asked for.
    pub count: i64,
    /// The greatest valid count below it, if any.
    pub below: Option<u32>,
    /// The least valid count above it, if any.
    pub above: Option<u32>,
}

impl fmt::Display for InvalidPartitionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        if count < 1 {
            return write!(f, "a partition count is at least 1, not {count}");
        }
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{count} partition{plural}, which does not divide 960; ")?;
        match (self.below, self.above) {
            (Some(below), Some(above)) => {
                write!(f, "the nearest valid counts are {below} and {above}")
            }
            (Some(one), None) | (None, Some(one)) => {
                write!(f, "the nearest valid count is {one}")
            }
            (None, None) => write!(f, "valid counts are the divisors of 960"),
        }
    }
}

impl std::error::Error for InvalidPartitionCount {}

/// The greatest valid count below `count` and the least above it. A valid count is not its own
/// neighbour: `nearest_valid(8)` is 6 and 10.
#[must_use]
pub fn nearest_valid(count: u32) -> (Option<u32>, Option<u32>) {
    let below = VALID_COUNTS.iter().rev().find(|valid| **valid < count);
    let above = VALID_COUNTS.iter().find(|valid| **valid > count);
    (below.copied(), above.copied())
}

/// The refusal of a count below 1, in the same words everywhere.
#[must_use]
pub fn no_partition_refusal(topic: &str) -> String {
    format!("topic `{topic}` cannot have fewer than 1 partition; the nearest valid count is 1")
}

/// The refusal of a keyed topic whose count does not divide 960: the same words at admission, in
/// the operator, in the worker and in the command line tool.
///
/// Meant for counts that [`PartitionCount`] refuses.
#[must_use]
pub fn divisor_refusal(topic: &str, count: u32) -> String {
    let (below, above) = nearest_valid(count);
    let refusal = InvalidPartitionCount {
        count: i64::from(count),
        below,
        above,
    };
    let cure = match above {
        Some(above) => {
            format!("grow the topic to {above} before the app first runs, or create it anew")
        }
        None => "create the topic anew with a valid count".to_owned(),
    };
    format!(
        "topic `{topic}` has {refusal}; state is kept by key in 960 groups and can follow keys \
         only through counts that divide 960: {cure}"
    )
}

/// What is said at every start of an app that runs on such a count knowingly, in the operator's
/// condition as in the worker's log.
///
/// Meant for counts that [`PartitionCount`] refuses.
#[must_use]
pub fn divisor_warning(topic: &str, count: u32) -> String {
    let (below, above) = nearest_valid(count);
    let refusal = InvalidPartitionCount {
        count: i64::from(count),
        below,
        above,
    };
    format!(
        "topic `{topic}` has {refusal}; allowNonDivisorPartitions runs the app on it all the same: \
         placement is judged by the whole hash, and state can follow its keys to a valid count only"
    )
}

impl PartitionCount {
    /// The count.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl RawPartitionCount {
    /// The count.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

fn refuse(count: i64) -> InvalidPartitionCount {
    let (below, above) = match u32::try_from(count) {
        Ok(count) => nearest_valid(count),
        Err(_) if count < 0 => (None, Some(1)),
        Err(_) => (Some(960), None),
    };
    InvalidPartitionCount {
        count,
        below,
        above,
    }
}

impl TryFrom<u32> for PartitionCount {
    type Error = InvalidPartitionCount;

    fn try_from(count: u32) -> Result<Self, InvalidPartitionCount> {
        if VALID_COUNTS.binary_search(&count).is_ok() {
            Ok(Self(count))
        } else {
            Err(refuse(i64::from(count)))
        }
    }
}

impl TryFrom<i32> for PartitionCount {
    type Error = InvalidPartitionCount;

    fn try_from(count: i32) -> Result<Self, InvalidPartitionCount> {
        u32::try_from(count)
            .map_err(|_| refuse(i64::from(count)))?
            .try_into()
    }
}

impl TryFrom<u32> for RawPartitionCount {
    type Error = InvalidPartitionCount;

    fn try_from(count: u32) -> Result<Self, InvalidPartitionCount> {
        if count >= 1 {
            Ok(Self(count))
        } else {
            Err(refuse(0))
        }
    }
}

impl TryFrom<i32> for RawPartitionCount {
    type Error = InvalidPartitionCount;

    fn try_from(count: i32) -> Result<Self, InvalidPartitionCount> {
        u32::try_from(count)
            .map_err(|_| refuse(i64::from(count)))?
            .try_into()
    }
}

impl TryFrom<RawPartitionCount> for PartitionCount {
    type Error = InvalidPartitionCount;

    fn try_from(count: RawPartitionCount) -> Result<Self, InvalidPartitionCount> {
        count.get().try_into()
    }
}

impl From<PartitionCount> for RawPartitionCount {
    fn from(count: PartitionCount) -> Self {
        Self(count.0)
    }
}

impl From<PartitionCount> for u32 {
    fn from(count: PartitionCount) -> u32 {
        count.0
    }
}

impl From<RawPartitionCount> for u32 {
    fn from(count: RawPartitionCount) -> u32 {
        count.0
    }
}

impl fmt::Display for PartitionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RawPartitionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
