//! What a new store was made of, and whether that is all it should be made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use turbine_keygroups::{
    GROUP_COUNT, Group, KeyGroup, Partition, PartitionCount, RankRange, RawPartitionCount,
};
use turbine_protocol::{EntryNumber, StoreEpoch};

use super::plan::TaskPlan;
use crate::checkpoint::{Checksum, FileName};

/// What a new store was made of. It is a record of the store's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveManifest {
    /// The partition count before.
    pub from: RawPartitionCount,
    /// The partition count of the new store.
    pub to: PartitionCount,
    /// By old partition.
    pub pieces: Vec<Piece>,
}

/// What was taken of one old task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Piece {
    /// The old task's partition.
    pub partition: Partition,
    /// The epoch of the old store.
    pub store_epoch: StoreEpoch,
    /// The last entry in it.
    pub entry: EntryNumber,
    /// The key groups taken.
    pub ranges: Vec<RankRange>,
    /// The null group as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub null: bool,
    /// The old store's tables that may have keys of these groups.
    pub files: Vec<PieceFile>,
}

/// A table of an old store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PieceFile {
    /// Its name in the old store's folder.
    pub name: FileName,
    /// Its length in bytes.
    pub size: u64,
    /// Of its content; none if it came from a store and not from a checkpoint, which alone has checksums of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Checksum>,
}

/// In what the pieces of a new store are not those that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Uncovered {
    /// A group of an old task was not taken.
    #[error("key group {group} of old partition {from} is in no piece")]
    Missing {
        /// The key group; 960 is that of records without a key.
        group: u16,
        /// The old partition.
        from: Partition,
    },
    /// A group of an old task was taken more than once.
    #[error("key group {group} of old partition {from} is in {times} pieces")]
    Twice {
        /// The key group; 960 is that of records without a key.
        group: u16,
        /// The old partition.
        from: Partition,
        /// In how many.
        times: usize,
    },
    /// A group of an old task was taken that belongs to another new task.
    #[error("key group {group} of old partition {from} is in a piece and belongs to another task")]
    Foreign {
        /// The key group; 960 is that of records without a key.
        group: u16,
        /// The old partition.
        from: Partition,
    },
}

impl MoveManifest {
    /// Whether the pieces are what the task needs: each (group, old task) once, and no other.
    ///
    /// # Errors
    /// The first in which they are not.
    pub fn covers(&self, task: &TaskPlan) -> Result<(), Uncovered> {
        let mut taken: BTreeMap<(Partition, u16), usize> = BTreeMap::new();
        for piece in &self.pieces {
            let keyed = piece.ranges.iter().flat_map(|range| range.groups());
            let null = piece.null.then_some(Group::Null);
            for group in keyed.map(Group::Keyed).chain(null) {
                *taken.entry((piece.partition, group.number())).or_default() += 1;
            }
        }
        for draw in task.draws() {
            let from = draw.from();
            let keyed = draw.ranges().iter().flat_map(|range| range.groups());
            let null = draw.null().then_some(GROUP_COUNT);
            for group in keyed.map(KeyGroup::number).chain(null) {
                match taken.remove(&(from, group)) {
                    Some(1) => {}
                    None => return Err(Uncovered::Missing { group, from }),
                    Some(times) => return Err(Uncovered::Twice { group, from, times }),
                }
            }
        }
        match taken.into_keys().next() {
            Some((from, group)) => Err(Uncovered::Foreign { group, from }),
            None => Ok(()),
        }
    }

    /// Bytes of all tables that were taken in.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let files = self.pieces.iter().flat_map(|piece| &piece.files);
        files.map(|file| file.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moving::plan::MovePlan;

    /// The manifest of new task `at` of 4 to 6.
    fn made(at: usize) -> (MoveManifest, TaskPlan) {
        let plan = MovePlan::new(4.try_into().unwrap(), 6).unwrap();
        let task = plan.tasks()[at].clone();
        let pieces = task
            .draws()
            .iter()
            .map(|draw| Piece {
                partition: draw.from(),
                store_epoch: 1.try_into().unwrap(),
                entry: 7.try_into().unwrap(),
                ranges: draw.ranges().to_vec(),
                null: draw.null(),
                files: Vec::new(),
            })
            .collect();
        let manifest = MoveManifest {
            from: plan.from(),
            to: plan.to(),
            pieces,
        };
        (manifest, task)
    }

    #[test]
    fn pieces_of_the_plan_cover_it_and_are_read_back_as_written() {
        for at in 0..6 {
            let (manifest, task) = made(at);
            assert_eq!(manifest.covers(&task), Ok(()));
            let stored = serde_json::to_vec(&manifest).unwrap();
            assert_eq!(
                serde_json::from_slice::<MoveManifest>(&stored).unwrap(),
                manifest
            );
        }
    }

    #[test]
    fn a_group_that_is_missing_twice_or_foreign_is_named() {
        let (whole, task) = made(1);
        let mut missing = whole.clone();
        let lost = missing.pieces[0].ranges.pop().unwrap();
        let group = lost.groups().next().unwrap().number();
        let from = whole.pieces[0].partition;
        assert_eq!(
            missing.covers(&task),
            Err(Uncovered::Missing { group, from })
        );

        let mut twice = whole.clone();
        twice.pieces.push(Piece {
            ranges: vec![lost],
            null: false,
            ..whole.pieces[0].clone()
        });
        assert_eq!(
            twice.covers(&task),
            Err(Uncovered::Twice {
                group,
                from,
                times: 2
            })
        );

        let (other, _) = made(2);
        let mut foreign = whole.clone();
        foreign.pieces.extend(other.pieces);
        assert!(matches!(
            foreign.covers(&task),
            Err(Uncovered::Foreign { .. })
        ));

        let mut without_null = whole;
        for piece in &mut without_null.pieces {
            piece.null = false;
        }
        let from = 1.try_into().unwrap();
        assert_eq!(
            without_null.covers(&task),
            Err(Uncovered::Missing { group: 960, from })
        );
    }

    #[test]
    fn a_range_that_is_none_is_not_read() {
        for text in [r#"{"first":3,"last":2}"#, r#"{"first":0,"last":960}"#] {
            assert!(serde_json::from_str::<RankRange>(text).is_err(), "{text}");
        }
    }
}
