//! Sealed receipts: how the right of an old task to commit ends, and who may start after it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::epochs::{LayoutEpoch, StoreEpoch};
use crate::offset::Offset;
use crate::receipt::{NotAReceipt, Receipt};

const VERSION: &str = "v2";

/// A task's last receipt with the layout epoch that ended its right to commit: `v2:<layoutEpoch>:` and the receipt, committed at the
/// same offset. It keeps the last entry's whole identity: an entry that was prepared and of which nobody knows is judged by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealedReceipt {
    /// The epoch that sealed it.
    pub sealed_by: LayoutEpoch,
    /// What the task committed last.
    pub last: Receipt,
}

/// What the metadata of a task's committed offset can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupReceipt {
    /// A receipt of a task that may commit.
    Open(Receipt),
    /// A receipt of one that may not.
    Sealed(SealedReceipt),
}

impl fmt::Display for SealedReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}:{}", self.sealed_by, self.last)
    }
}

impl fmt::Display for GroupReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(receipt) => receipt.fmt(f),
            Self::Sealed(sealed) => sealed.fmt(f),
        }
    }
}

impl FromStr for GroupReceipt {
    type Err = NotAReceipt;

    fn from_str(text: &str) -> Result<Self, NotAReceipt> {
        let Some(rest) = text
            .strip_prefix(VERSION)
            .and_then(|rest| rest.strip_prefix(':'))
        else {
            return text.parse().map(Self::Open);
        };
        let form = || NotAReceipt::Form(text.chars().take(100).collect());
        let (epoch, last) = rest.split_once(':').ok_or_else(form)?;
        let sealed = SealedReceipt {
            sealed_by: epoch
                .parse::<i64>()
                .ok()
                .and_then(|epoch| epoch.try_into().ok())
                .ok_or_else(form)?,
            last: last.parse()?,
        };
        // One receipt has one text.
        if sealed.to_string() == text {
            Ok(Self::Sealed(sealed))
        } else {
            Err(form())
        }
    }
}

/// What the one who fences an old task does, once it holds the task's transactional id and has read its stable receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealing {
    /// Commit this at the offset it was read with, in a transaction under the task's id.
    Commit(SealedReceipt),
    /// It is done: the offset is where the task stopped.
    Done,
    /// A later epoch has been here. Whoever still seals for this one was deposed: it writes nothing.
    TooLate {
        /// The epoch found.
        found: LayoutEpoch,
    },
}

/// Decides over the receipt found.
#[must_use]
pub fn seal(found: GroupReceipt, epoch: LayoutEpoch) -> Sealing {
    match found {
        GroupReceipt::Open(last) => match last.store_epoch.layout() {
            older if older < epoch => Sealing::Commit(SealedReceipt {
                sealed_by: epoch,
                last,
            }),
            // The successor has begun: it did so only after the seal.
            found => Sealing::TooLate { found },
        },
        GroupReceipt::Sealed(sealed) if sealed.sealed_by < epoch => {
            Sealing::Commit(SealedReceipt {
                sealed_by: epoch,
                ..sealed
            })
        }
        GroupReceipt::Sealed(sealed) if sealed.sealed_by == epoch => Sealing::Done,
        GroupReceipt::Sealed(sealed) => Sealing::TooLate {
            found: sealed.sealed_by,
        },
    }
}

/// How a task may begin, exactly once, by the receipt it reads after it took its transactional id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Its store is new: before anything else it commits a receipt of `(store epoch, 0)`.
    CommitFirst,
    /// Its own life goes on from this receipt.
    GoOn(Receipt),
}

/// Why a task may not begin. It never begins a transaction then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MayNotBegin {
    /// The assignment is old.
    #[error(
        "the group was sealed or written by epoch {found}, and this assignment is of {assigned}: wait for a newer assignment"
    )]
    Overtaken {
        /// The epoch found.
        found: LayoutEpoch,
        /// The epoch of the assignment.
        assigned: LayoutEpoch,
    },
    /// The task before it may still commit.
    #[error(
        "the receipt of store epoch {found} is not sealed: the task before this one may still commit; seal it first"
    )]
    NotSealed {
        /// The store epoch in the receipt.
        found: StoreEpoch,
    },
}

/// Decides by the receipt found, if any.
///
/// # Errors
/// If a newer epoch has been here, or an older one has not ended.
pub fn begin(
    found: Option<GroupReceipt>,
    assigned: LayoutEpoch,
    store_epoch: StoreEpoch,
) -> Result<Beginning, MayNotBegin> {
    let overtaken = |found| Err(MayNotBegin::Overtaken { found, assigned });
    match found {
        None => Ok(Beginning::CommitFirst),
        Some(GroupReceipt::Sealed(sealed)) if sealed.sealed_by > assigned => {
            overtaken(sealed.sealed_by)
        }
        Some(GroupReceipt::Sealed(sealed)) if sealed.last.store_epoch >= store_epoch => {
            overtaken(sealed.sealed_by)
        }
        // Sealed for a task that never began.
        Some(GroupReceipt::Sealed(sealed)) if sealed.sealed_by < store_epoch.layout() => {
            Err(MayNotBegin::NotSealed {
                found: sealed.last.store_epoch,
            })
        }
        Some(GroupReceipt::Sealed(_)) => Ok(Beginning::CommitFirst),
        Some(GroupReceipt::Open(receipt)) if receipt.store_epoch == store_epoch => {
            Ok(Beginning::GoOn(receipt))
        }
        Some(GroupReceipt::Open(receipt)) if receipt.store_epoch > store_epoch => {
            overtaken(receipt.store_epoch.layout())
        }
        Some(GroupReceipt::Open(receipt)) => Err(MayNotBegin::NotSealed {
            found: receipt.store_epoch,
        }),
    }
}

/// Whether the entry that a task had prepared when it ended counts: only if the group's receipt is that entry's, whole, at its
/// offset; a bare number is no identity.
#[must_use]
pub fn prepared_counts(found: GroupReceipt, at: Offset, prepared: &Receipt, next: Offset) -> bool {
    let last = match found {
        GroupReceipt::Open(receipt) => receipt,
        GroupReceipt::Sealed(sealed) => sealed.last,
    };
    last == *prepared && at == next
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
