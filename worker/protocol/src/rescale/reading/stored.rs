//! What of a task's reading goes into its entries.

use serde::{Deserialize, Serialize};

use super::{
    ClosedTo, Closing, Cursor, CursorKind, Frontier, Growth, LayoutEpoch, Offset, Partition,
    RawPartitionCount,
};

/// Who asked for a hold of the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Hold {
    /// The plan of this layout epoch. Named, since a hold for a plan that was undone must not count for the next one.
    Plan(LayoutEpoch),
    /// Nobody: the task found the topic grown.
    Found,
}

/// Which partition counts a task knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// The input has this count.
    Steady {
        /// Partitions of the input.
        count: RawPartitionCount,
        /// The count before the last growth, which no producer may use any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grown_from: Option<RawPartitionCount>,
    },
    /// The task has the old placement's keys, and the input grows or has grown: its frontier stands still.
    Ahead {
        /// The growth.
        growth: Growth,
        /// Why.
        hold: Hold,
        /// The first record that was left to the new owner of its key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left_from: Option<Offset>,
        /// The count before the growth before this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grown_from: Option<RawPartitionCount>,
    },
    /// The task has the new placement's keys, and reads both placements.
    Through {
        /// The plan's epoch: words about ends count only if they are of it. One of an earlier plan that comes late would end a tail
        /// in front of its records.
        epoch: LayoutEpoch,
        /// The growth.
        growth: Growth,
        /// The own partition's end before the growth: in front of it lies nothing of the new placement.
        moved_in_from: Offset,
    },
}

/// What of a task's reading goes into its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredReading {
    pub(in crate::rescale) task: Partition,
    pub(in crate::rescale) layout: Layout,
    pub(in crate::rescale) cursors: Vec<Cursor>,
    pub(in crate::rescale) closed_to: ClosedTo,
    pub(in crate::rescale) frontier: Frontier,
}

impl StoredReading {
    /// A task of an input that does not grow.
    #[must_use]
    pub fn steady(task: Partition, count: RawPartitionCount, next: Offset) -> Self {
        Self {
            task,
            layout: Layout::Steady {
                count,
                grown_from: None,
            },
            cursors: vec![Cursor::new(CursorKind::Whole, task, next, None)],
            closed_to: ClosedTo::default(),
            frontier: Frontier::default(),
        }
    }

    /// The task's partition.
    #[must_use]
    pub fn task(&self) -> Partition {
        self.task
    }

    /// Which counts it knows of.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Its cursors.
    #[must_use]
    pub fn cursors(&self) -> &[Cursor] {
        &self.cursors
    }

    /// How far event time has closed.
    #[must_use]
    pub fn frontier(&self) -> Frontier {
        self.frontier
    }

    /// What had closed for its keys elsewhere.
    #[must_use]
    pub fn closed_to(&self) -> &ClosedTo {
        &self.closed_to
    }

    /// What the frontier is held for.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        match self.layout {
            Layout::Ahead { hold, .. } => Some(hold),
            Layout::Steady { .. } | Layout::Through { .. } => None,
        }
    }

    /// The end it has agreed to for an old partition.
    #[must_use]
    pub fn closing_of(&self, partition: Partition) -> Option<Closing> {
        let mut readers = self
            .cursors
            .iter()
            .filter(|cursor| reads_old(cursor, partition));
        readers.next().map(Cursor::closing)
    }
}

pub(super) fn reads_old(cursor: &Cursor, partition: Partition) -> bool {
    cursor.partition == partition && matches!(cursor.kind, CursorKind::Kept | CursorKind::Tail)
}
