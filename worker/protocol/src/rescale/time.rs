//! Moments and spans of the wall clock, as data.

use serde::{Deserialize, Serialize};

/// A moment of the wall clock, in milliseconds since the Unix epoch. Event time is another thing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub i64);

/// A length of time, in milliseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Moment {
    /// The moment so much earlier.
    #[must_use]
    pub fn before(self, span: Millis) -> Self {
        Self(self.0.saturating_sub_unsigned(span.0))
    }

    /// The moment so much later.
    #[must_use]
    pub fn after(self, span: Millis) -> Self {
        Self(self.0.saturating_add_unsigned(span.0))
    }

    /// How long it is since `earlier`; nothing if that is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

/// What the way of records to the broker is trusted to take at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// From the moment a producer is given a record until it lies below its partition's high watermark, or never will.
    pub order_grace: Millis,
    /// From a growth until a producer uses the new count.
    pub producer_refresh: Millis,
    /// How old a broker's answer about the count can be.
    pub metadata_grace: Millis,
}
