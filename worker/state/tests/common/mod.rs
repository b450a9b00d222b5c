//! Stores as tests need them.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{
    AppId, Change, Entry, EntryNumber, Frontier, Lineage, Position, StoreEpoch, StoreIdentity, Task,
};
use turbine_state::{StateBudget, StateError, StateVolume, TaskState, TaskStore};
use uuid::Uuid;

pub(crate) fn budget() -> StateBudget {
    StateBudget::new(32 << 20, 4).unwrap()
}

pub(crate) fn volume(root: &Path) -> StateVolume {
    StateVolume::open(root, budget()).unwrap()
}

pub(crate) fn partition(number: i32) -> Partition {
    number.try_into().unwrap()
}

pub(crate) fn app(name: &str) -> AppId {
    name.parse().unwrap()
}

pub(crate) fn lineage(id: u128) -> Lineage {
    Lineage::new(Uuid::from_u128(id))
}

pub(crate) fn task() -> Task {
    Task {
        subscription: "s".parse().unwrap(),
        partition: partition(3),
    }
}

pub(crate) fn identity() -> StoreIdentity {
    StoreIdentity::new(
        app("a"),
        lineage(1),
        &task(),
        StoreEpoch::try_from(1).unwrap(),
        RawPartitionCount::try_from(12).unwrap(),
        "user".to_owned(),
    )
}

pub(crate) fn positions(next: i64) -> Vec<Position> {
    vec![Position {
        topic: "in".parse().unwrap(),
        partition: partition(3),
        next: next.try_into().unwrap(),
    }]
}

/// Commits the number after the last one.
pub(crate) fn commit(
    store: &mut TaskStore,
    next: i64,
    changes: &[(&[u8], Option<&[u8]>)],
) -> Result<EntryNumber, StateError> {
    let number = store.progress().number.next();
    let changes: Vec<Change<'_>> = changes
        .iter()
        .map(|(key, value)| Change { key, value: *value })
        .collect();
    store.commit(&Entry {
        task: &task(),
        store_epoch: store.identity().store_epoch,
        number,
        positions: &positions(next),
        frontier: Frontier(Some(next * 1000)),
        clocks: &next.to_be_bytes(),
        changes: &changes,
    })?;
    Ok(number)
}

/// Saves what these changes made of the keys.
pub(crate) fn save(
    store: &mut TaskStore,
    changes: &[(&[u8], Option<&[u8]>)],
) -> Result<(), StateError> {
    let ends: Vec<Vec<u8>> = changes
        .iter()
        .map(|(key, _)| [*key, &[0]].concat())
        .collect();
    let dead: Vec<Range<&[u8]>> = changes
        .iter()
        .zip(&ends)
        .filter(|((_, value), _)| value.is_none())
        .map(|((key, _), end)| *key..&end[..])
        .collect();
    let mut puts = changes
        .iter()
        .filter_map(|(key, value)| Some((*key, (*value)?)));
    store.save(&dead, &mut puts)
}

pub(crate) fn content(store: &TaskStore) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    store
        .scan(&[], None, &mut |key, value| {
            all.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

pub(crate) fn close(store: TaskStore) {
    Box::new(store).close().unwrap();
}
