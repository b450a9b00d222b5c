//! Whose state a stored pane is, for a look through a store key by key.

use std::collections::BTreeMap;

use turbine_keygroups::{
    Group, KeyGroup, Partition, PartitionCount, partition_of_hash, positive_hash,
};

use crate::columns::typed_columns;
use crate::error::{SpecError, StateError};
use crate::keys::{KeySet, PartitionKeyReader};
use crate::placement::Placement;
use crate::spec::PipelineSpec;
use crate::windows::PaneKey;

/// Finds the owners of stored panes of one task.
#[derive(Debug)]
pub struct PaneOwners {
    placement: Placement,
    partition_key: PartitionKeyReader,
    windows: BTreeMap<String, KeySet>,
}

/// Whose a stored pane is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaneOwner {
    /// The task's own, or of the null group, which every partition has for itself.
    Own,
    /// Of a key that belongs to another partition.
    Foreign {
        /// The key's group.
        group: KeyGroup,
        /// The key's canonical bytes; none for a window that the spec no longer has.
        key: Option<Vec<u8>>,
        /// Where it belongs.
        owner: Partition,
    },
    /// Of a window that the spec no longer has, so that its key cannot be read, on a partition
    /// count that does not divide 960, where the group alone does not tell the partition.
    Unknown,
}

impl PaneOwners {
    /// For stores of a pipeline that has this spec, and lies as `placement` says.
    ///
    /// # Errors
    /// If the spec breaks a rule.
    pub fn new(spec: &PipelineSpec, placement: Placement) -> Result<Self, SpecError> {
        spec.validate()?;
        let typed = typed_columns(spec);
        Ok(Self {
            placement,
            partition_key: PartitionKeyReader::new(spec, &typed),
            windows: spec
                .windows
                .iter()
                .map(|window| (window.name.clone(), KeySet::new(spec, &typed, &window.keys)))
                .collect(),
        })
    }

    /// Whose the pane under a stored key is.
    ///
    /// # Errors
    /// If the key is no pane's.
    pub fn owner(&self, stored_key: &[u8]) -> Result<PaneOwner, StateError> {
        let pane = PaneKey::decode(stored_key)?;
        let Group::Keyed(group) = pane.group else {
            return Ok(PaneOwner::Own);
        };
        let key = self
            .windows
            .get(pane.window)
            .and_then(|keys| self.partition_key.of_tuple(keys, pane.tuple));
        let count = self.placement.count;
        let owner = match (&key, PartitionCount::try_from(count)) {
            (Some(key), _) => partition_of_hash(positive_hash(key), count),
            (None, Ok(count)) => group.owner(count),
            (None, Err(_)) => return Ok(PaneOwner::Unknown),
        };
        Ok(if owner == self.placement.partition {
            PaneOwner::Own
        } else {
            PaneOwner::Foreign { group, key, owner }
        })
    }
}
