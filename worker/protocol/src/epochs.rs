//! The numbers that tell lives, layouts and commits apart.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// Random id of an app's state, made once when the app is first set up. Kept state that carries
/// another lineage belongs to another life or another app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lineage(Uuid);

/// A text that is no lineage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no lineage: a UUID is expected")]
pub struct NotALineage(pub String);

impl Lineage {
    /// The lineage with this id. Whoever sets up an app draws it at random, once.
    #[must_use]
    pub fn new(id: Uuid) -> Self {
        Self(id)
    }

    /// The id.
    #[must_use]
    pub fn get(self) -> Uuid {
        self.0
    }
}

impl FromStr for Lineage {
    type Err = NotALineage;

    fn from_str(text: &str) -> Result<Self, NotALineage> {
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| NotALineage(text.to_owned()))
    }
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// A number beyond what Kubernetes and Kafka can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} is out of range: 0 to 9223372036854775807 is expected")]
pub struct OutOfRange(pub i128);

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name(i64);

        impl $name {
            /// The number; never negative.
            #[must_use]
            pub fn get(self) -> i64 {
                self.0
            }
        }

        impl TryFrom<i64> for $name {
            type Error = OutOfRange;

            fn try_from(number: i64) -> Result<Self, OutOfRange> {
                if number >= 0 {
                    Ok(Self(number))
                } else {
                    Err(OutOfRange(i128::from(number)))
                }
            }
        }

        impl From<$name> for i64 {
            fn from(number: $name) -> Self {
                number.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Number of the layout: it grows with every change of partition counts or of which pod runs
    /// which task.
    LayoutEpoch
}

number! {
    /// The layout epoch in which a task's store was made. It names the store's folder and stands
    /// in its receipts.
    StoreEpoch
}

number! {
    /// Number of a commit within one store epoch. A fresh store stands at 0; its first commit is
    /// 1.
    EntryNumber
}

impl EntryNumber {
    /// Where a fresh store stands.
    pub const ZERO: Self = Self(0);

    /// The number of the commit after this one.
    #[must_use]
    pub fn next(self) -> Self {
        // 2^63 commits, one per millisecond, take 292 million years.
        Self(self.0.saturating_add(1))
    }
}

impl StoreEpoch {
    /// The layout epoch in which the store was made.
    #[must_use]
    pub fn layout(self) -> LayoutEpoch {
        LayoutEpoch(self.0)
    }
}

impl From<LayoutEpoch> for StoreEpoch {
    fn from(epoch: LayoutEpoch) -> Self {
        Self(epoch.0)
    }
}
