//! Stores of apps that never ran, and what should become of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use turbine_keygroups::{Group, Partition, RawPartitionCount, group_of, partition_of};
use turbine_protocol::{
    Change, Entry, Frontier, Lineage, Position, StoreEpoch, StoreIdentity, Task,
};
use uuid::Uuid;

use super::*;
use crate::rows::Rows;
use crate::{StateBudget, StateVolume, TaskState as _, TaskStore, VolumeReader};

mod checkpoints;
mod files;
mod killed;
mod refused;
mod rows;

pub(super) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn budget() -> StateBudget {
    StateBudget::new(64 << 20, 8).unwrap()
}

pub(super) fn partition(number: u32) -> Partition {
    i32::try_from(number).unwrap().try_into().unwrap()
}

pub(super) fn epoch(number: i64) -> StoreEpoch {
    number.try_into().unwrap()
}

pub(super) fn task(number: u32) -> Task {
    Task {
        subscription: "s".parse().unwrap(),
        partition: partition(number),
    }
}

pub(super) fn identity(number: u32, count: u32) -> StoreIdentity {
    StoreIdentity::new(
        "a".parse().unwrap(),
        Lineage::new(Uuid::from_u128(1)),
        &task(number),
        epoch(1),
        RawPartitionCount::try_from(count).unwrap(),
        "user".to_owned(),
    )
}

pub(super) fn positions(number: u32, next: i64) -> Vec<Position> {
    vec![Position {
        topic: "in".parse().unwrap(),
        partition: partition(number),
        next: next.try_into().unwrap(),
    }]
}

/// The stored key of a user, or of one of those without a key.
pub(super) fn stored(user: Option<&str>, rest: &str) -> Vec<u8> {
    let group = Group::of(user.map(str::as_bytes));
    let user = user.unwrap_or("nobody");
    [&group.prefix()[..], user.as_bytes(), b"/", rest.as_bytes()].concat()
}

/// What happens to state.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// A user's row is written in the store of the user's partition.
    Put(String, u8),
    /// A row without a key is written in the store of this partition.
    Null(u32, u8),
    /// A user's row is removed.
    Remove(String),
    /// All rows of the user's key group in the user's store are removed, by one range.
    RemoveGroup(String),
}

/// The stores of an app with `count` partitions, and what they hold.
pub(super) struct App {
    pub(super) count: u32,
    pub(super) stores: BTreeMap<u32, TaskStore>,
    pub(super) content: BTreeMap<u32, Content>,
    volume: StateVolume,
}

impl App {
    pub(super) fn new(root: &Path, count: u32) -> Self {
        let volume = StateVolume::open(root, budget()).unwrap();
        let stores = (0..count)
            .map(|number| {
                let store = volume
                    .create_store(&identity(number, count), &positions(number, 0))
                    .unwrap();
                (number, store)
            })
            .collect();
        Self {
            count,
            stores,
            content: (0..count).map(|number| (number, Content::new())).collect(),
            volume,
        }
    }

    /// The partition that Kafka puts a user's records into.
    fn home(&self, user: &str) -> u32 {
        partition_of(
            user.as_bytes(),
            RawPartitionCount::try_from(self.count).unwrap(),
        )
        .index()
    }

    /// Commits and saves what was done, as one entry of each store.
    pub(super) fn save(&mut self, acts: &[Act]) {
        let mut puts: BTreeMap<u32, Content> = BTreeMap::new();
        let mut dead: BTreeMap<u32, Vec<Range<Vec<u8>>>> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Put(user, value) => {
                    let key = stored(Some(user), "pane");
                    puts.entry(self.home(user))
                        .or_default()
                        .insert(key, vec![*value; 40]);
                }
                Act::Null(number, value) => {
                    let number = number % self.count;
                    let key = stored(None, &value.to_string());
                    let value = [&number.to_be_bytes()[..], &[*value; 40]].concat();
                    puts.entry(number).or_default().insert(key, value);
                }
                Act::Remove(user) => {
                    let key = stored(Some(user), "pane");
                    let end = [&key[..], &[0]].concat();
                    dead.entry(self.home(user)).or_default().push(key..end);
                }
                Act::RemoveGroup(user) => {
                    let prefix = Group::from(group_of(user.as_bytes())).prefix();
                    let end = (u16::from_be_bytes(prefix) + 1).to_be_bytes();
                    let dead = dead.entry(self.home(user)).or_default();
                    dead.push(prefix.to_vec()..end.to_vec());
                }
            }
        }
        for (number, store) in &mut self.stores {
            let puts = puts.remove(number).unwrap_or_default();
            let dead = dead.remove(number).unwrap_or_default();
            let content = self.content.get_mut(number).unwrap();
            for range in &dead {
                content.retain(|key, _| !range.contains(key));
            }
            content.extend(puts.clone());

            let entry = store.progress().number.next();
            let changes: Vec<_> = puts
                .iter()
                .map(|(key, value)| Change {
                    key,
                    value: Some(value),
                })
                .collect();
            let next = i64::from(*number) * 1000 + entry.get();
            store
                .commit(&Entry {
                    task: &task(*number),
                    store_epoch: epoch(1),
                    number: entry,
                    positions: &positions(*number, next),
                    frontier: Frontier(Some(next * 10)),
                    clocks: &next.to_be_bytes(),
                    changes: &changes,
                })
                .unwrap();
            let dead: Vec<Range<&[u8]>> = dead
                .iter()
                .map(|range| &range.start[..]..&range.end[..])
                .collect();
            let mut rows = puts.iter().map(|(key, value)| (&key[..], &value[..]));
            store.save(&dead, &mut rows).unwrap();
        }
    }

    /// Brings the files of all stores to the lowest level.
    pub(super) fn compact(&mut self) {
        self.stop();
        for number in 0..self.count {
            let (rows, _) = Rows::open_at_rest(&self.path(number), &budget())
                .unwrap()
                .unwrap();
            rows.compact_whole().unwrap();
        }
        self.start();
    }

    /// Runs again after a stop.
    pub(super) fn start(&mut self) {
        for number in 0..self.count {
            let store = self.volume.open_store(&identity(number, self.count));
            self.stores.insert(number, store.unwrap().unwrap());
        }
    }

    pub(super) fn stop(&mut self) {
        for store in std::mem::take(&mut self.stores).into_values() {
            Box::new(store).close().unwrap();
        }
    }

    pub(super) fn path(&self, number: u32) -> PathBuf {
        self.volume.store_path(&task(number), epoch(1))
    }

    /// What the new stores have to hold: each user's rows with the owner of the user, rows without a key where they were.
    pub(super) fn expected(&self, to: u32) -> BTreeMap<u32, Content> {
        let mut all: BTreeMap<u32, Content> =
            (0..to).map(|number| (number, Content::new())).collect();
        for (old, content) in &self.content {
            for (key, value) in content {
                let text = &key[2..];
                let user = text.split(|byte| *byte == b'/').next().unwrap();
                let owner = if user == b"nobody" {
                    *old
                } else {
                    partition_of(user, RawPartitionCount::try_from(to).unwrap()).index()
                };
                let before = all
                    .get_mut(&owner)
                    .unwrap()
                    .insert(key.clone(), value.clone());
                assert_eq!(before, None);
            }
        }
        all
    }

    /// A move that has taken all old stores.
    pub(super) fn moving(&self, folder: &Path, to: u32) -> Move {
        let plan = MovePlan::new(self.count.try_into().unwrap(), to).unwrap();
        let mut moving = Move::open(folder, plan, epoch(2), budget());
        for number in 0..self.count {
            moving
                .take_store(partition(number), &self.path(number))
                .unwrap();
        }
        moving
    }
}

pub(super) fn content(store: &Path) -> Content {
    let mut all = Content::new();
    let reader = VolumeReader::new(store, budget())
        .open_copy(store)
        .unwrap()
        .unwrap();
    reader
        .scan(&[], &mut |key, value| {
            all.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

/// Names of what lies in a folder, ascending.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
