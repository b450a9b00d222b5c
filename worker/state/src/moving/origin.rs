//! Where the parts of a moved store came from, and how far each had come.

use serde::{Deserialize, Serialize};
use turbine_keygroups::Partition;
use turbine_protocol::{EntryChecksum, EntryNumber, Frontier, Position, StoreEpoch};

use crate::task_state::Progress;

/// What a moved store remembers of one old task that it draws from. A start reads the tail of the old partition from these
/// positions on, compares the last entry with the receipt, and judges rows of keys of this origin against what had closed
/// there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    /// The old task's partition.
    pub partition: Partition,
    /// The epoch of the old store.
    pub store_epoch: StoreEpoch,
    /// Number of its last entry.
    pub number: EntryNumber,
    /// Checksum of that entry.
    pub checksum: EntryChecksum,
    /// Where its cursors stood.
    pub positions: Vec<Position>,
    /// How far event time had closed.
    pub frontier: Frontier,
    /// That entry counted once the broker had its receipt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_transaction: bool,
    /// It was stopped in order after that entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleanly_stopped: bool,
    /// The engine's clocks and timers in the engine's own form: how far each window had closed is in them. Kept as they
    /// are, under a key of their own.
    #[serde(skip)]
    pub clocks: Vec<u8>,
}

impl Origin {
    /// Of an old store that had come so far.
    #[must_use]
    pub fn new(partition: Partition, store_epoch: StoreEpoch, progress: &Progress) -> Self {
        let Progress {
            number,
            checksum,
            positions,
            frontier,
            by_transaction,
            cleanly_stopped,
            clocks,
        } = progress.clone();
        Self {
            partition,
            store_epoch,
            number,
            checksum,
            positions,
            frontier,
            by_transaction,
            cleanly_stopped,
            clocks,
        }
    }
}

/// How far a new store has come that has committed nothing: it stands where its own partition was left, or at its start
/// if that is new, and as far in event time as the last of those it is made of.
pub(crate) fn first_progress(task: Partition, origins: &[Origin]) -> Progress {
    let own: Vec<Position> = origins
        .iter()
        .filter(|origin| origin.partition == task)
        .flat_map(|origin| origin.positions.iter().cloned())
        .collect();
    let positions = if own.is_empty() {
        let mut topics: Vec<_> = origins
            .iter()
            .flat_map(|origin| origin.positions.iter())
            .map(|position| position.topic.clone())
            .collect();
        topics.sort();
        topics.dedup();
        topics
            .into_iter()
            .map(|topic| Position {
                topic,
                partition: task,
                next: turbine_protocol::Offset::ZERO,
            })
            .collect()
    } else {
        own
    };
    Progress {
        number: EntryNumber::ZERO,
        checksum: EntryChecksum(0),
        positions,
        frontier: origins
            .iter()
            .map(|origin| origin.frontier)
            .min()
            .unwrap_or_default(),
        by_transaction: false,
        cleanly_stopped: false,
        clocks: Vec::new(),
    }
}
