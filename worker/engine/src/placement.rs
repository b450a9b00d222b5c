//! Whether rows lie in the partition that murmur2 gives their key.
//!
//! A pane's key group is computed once, when the pane is made. A row that folds into a pane has
//! the key of the row that made it, so a check at that moment is a check of every such row and
//! costs none of the others anything. A row that is too late for every window is looked at by
//! itself.

use turbine_keygroups::{
    Evidence, Group, KeyGroup, Partition, PartitionCount, RawPartitionCount, partition_of_hash,
    positive_hash,
};

/// Where the rows of a task have to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The task's partition.
    pub partition: Partition,
    /// Partition count of its topic.
    pub count: RawPartitionCount,
    /// What becomes of rows that lie elsewhere.
    pub check: PlacementCheck,
}

/// What becomes of a row whose key belongs to another partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementCheck {
    /// It is in error ([`crate::RowFault::Misplaced`]) and folded nowhere.
    Enforce,
    /// It is folded as any other and reported: nobody said by which hash rows are placed.
    Observe,
}

/// What the check says of a row that is about to make a pane.
#[derive(Debug)]
pub(crate) enum Judged {
    /// It may be folded.
    Fits {
        group: Group,
        /// The key's hash, where it proves something.
        hash: Option<u32>,
    },
    /// It belongs to another partition.
    Foreign {
        group: Group,
        hash: u32,
        owner: Partition,
    },
}

/// The check of a pipeline and what it has seen.
#[derive(Debug)]
pub(crate) struct Checker {
    placement: Option<Placement>,
    pub(crate) evidence: Evidence,
    /// Panes of foreign keys were restored, made before the check was enforced. Rows would fold
    /// into them unseen, so now each row is looked at.
    every_row: bool,
}

impl Checker {
    pub(crate) fn new(placement: Option<Placement>, evidence: Evidence) -> Self {
        Self {
            evidence: match placement {
                Some(placement) => evidence.under(placement.count),
                None => evidence,
            },
            placement,
            every_row: false,
        }
    }

    pub(crate) fn every_row(&self) -> bool {
        self.every_row
    }

    /// A pane of this group was restored.
    pub(crate) fn restored(&mut self, group: Group) {
        let (Some(placement), Group::Keyed(group)) = (self.placement, group) else {
            return;
        };
        if placement.check == PlacementCheck::Observe {
            return;
        }
        // Only of a count that divides 960 does the group tell the partition.
        self.every_row |= match PartitionCount::try_from(placement.count) {
            Ok(count) => group.owner(count) != placement.partition,
            Err(_) => true,
        };
    }

    pub(crate) fn judge(&self, key: Option<&[u8]>) -> Judged {
        let Some(key) = key else {
            return Judged::Fits {
                group: Group::Null,
                hash: None,
            };
        };
        let hash = positive_hash(key);
        let group = Group::Keyed(KeyGroup::of_hash(hash));
        let Some(placement) = self.placement else {
            return Judged::Fits { group, hash: None };
        };
        let owner = partition_of_hash(hash, placement.count);
        if owner == placement.partition {
            return Judged::Fits {
                group,
                hash: Some(hash),
            };
        }
        Judged::Foreign { group, hash, owner }
    }

    /// Forgets the verdict: what comes is judged anew.
    pub(crate) fn clear(&mut self) {
        self.evidence.clear();
        if let Some(placement) = self.placement {
            self.evidence = std::mem::take(&mut self.evidence).under(placement.count);
        }
    }

    /// Whether a row of another partition is in error.
    pub(crate) fn refuses(&self) -> bool {
        self.placement
            .is_some_and(|placement| placement.check == PlacementCheck::Enforce)
    }
}
