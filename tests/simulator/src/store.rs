//! What a task keeps on its volume: entries in the crate's own form, and the receipts by which they are known.

use std::collections::BTreeMap;

use turbine_keygroups::Partition;
use turbine_protocol::rescale::{RecordKey, StoredReading};
use turbine_protocol::{Entry, EntryNumber, Lineage, Position, Receipt, StoreEpoch, Task};
use uuid::Uuid;

use crate::scenario::WINDOW;

/// A key's state: a null key's is that of the partition it lies in.
pub(crate) type PaneKey = (RecordKey, Option<u32>);

/// Records per key and window, by id.
pub(crate) type Panes = BTreeMap<(PaneKey, i64), Vec<usize>>;

/// What one commit says to the outside.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delta {
    /// Records applied, with whether they were late.
    pub(crate) applied: Vec<(usize, bool)>,
    /// Windows closed, with the records in them.
    pub(crate) closed: Vec<((PaneKey, i64), Vec<usize>)>,
    /// Under which partition count, and in which layout from the first.
    pub(crate) count: u32,
    pub(crate) generation: usize,
}

/// State as of one commit.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// The reading as it stands in the entry; a restart knows nothing else.
    reading: Vec<u8>,
    pub(crate) said: StoredReading,
    pub(crate) panes: Panes,
    pub(crate) number: EntryNumber,
    pub(crate) receipt: Receipt,
    pub(crate) next: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) epoch: StoreEpoch,
    pub(crate) partition: u32,
    pub(crate) committed: Snapshot,
    pub(crate) prepared: Option<Snapshot>,
}

pub(crate) fn partition(number: u32) -> Partition {
    i32::try_from(number).unwrap().try_into().unwrap()
}

pub(crate) fn window_of(event_time: i64) -> i64 {
    event_time.div_euclid(WINDOW)
}

pub(crate) fn window_end(window: i64) -> i64 {
    (window + 1) * WINDOW
}

impl Snapshot {
    pub(crate) fn of(
        reading: &StoredReading,
        panes: &Panes,
        epoch: StoreEpoch,
        number: EntryNumber,
    ) -> Self {
        let stored = serde_json::to_vec(reading).unwrap();
        let positions: Vec<Position> = reading
            .cursors()
            .iter()
            .map(|cursor| Position {
                topic: "in".parse().unwrap(),
                partition: cursor.partition(),
                next: cursor.next(),
            })
            .collect();
        let task = Task {
            subscription: "s".parse().unwrap(),
            partition: reading.task(),
        };
        let entry = Entry {
            task: &task,
            store_epoch: epoch,
            number,
            positions: &positions,
            frontier: reading.frontier(),
            clocks: &stored,
            changes: &[],
        };
        let receipt = Receipt {
            lineage: Lineage::new(Uuid::from_u128(1)),
            store_epoch: epoch,
            number,
            checksum: entry.checksum().unwrap(),
            frontier: reading.frontier(),
            retrace: None,
        };
        Self {
            panes: panes.clone(),
            number,
            receipt,
            // The own partition's cursor is the first, whatever the layout.
            next: reading.cursors()[0].next().get(),
            reading: stored,
            said: reading.clone(),
        }
    }

    pub(crate) fn stored(&self) -> StoredReading {
        serde_json::from_slice(&self.reading).unwrap()
    }
}

impl Store {
    pub(crate) fn new(reading: &StoredReading, panes: &Panes, epoch: StoreEpoch) -> Self {
        Self {
            epoch,
            partition: reading.task().index(),
            committed: Snapshot::of(reading, panes, epoch, EntryNumber::ZERO),
            prepared: None,
        }
    }
}
