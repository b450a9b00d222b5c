use std::hash::BuildHasher;

use hashbrown::HashTable;

use super::slices::{PaneSet, Slice, SliceSet};
use crate::aggregates::{Accumulator, Refusal};
use crate::columns::Columns;
use crate::keys::Reader;

/// Seeded per process: keys come from outside, and no result depends on hash order.
pub(crate) type Hasher = foldhash::fast::RandomState;

/// All panes of one window instance `[start, end)`. Keys lie in one buffer, running values in one
/// column per aggregate, so a new pane costs no allocation of its own and a close frees all at
/// once.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) start: i64,
    index: HashTable<Slot>,
    keys: Keys,
    slices: Vec<Slice>,
    /// Panes that changed since the last commit took what changed.
    changed: PaneSet,
    /// Panes that changed since the last checkpoint, those that changed since the last commit
    /// left out.
    unsaved: PaneSet,
    /// Where the store of checkpoints has panes of this bucket.
    saved: SliceSet,
    pub(crate) accumulators: Vec<Accumulator>,
}

/// Where a pane is found: its number, and where its key begins, so that a look-up need not ask a
/// third table for it.
#[derive(Debug, Clone, Copy)]
struct Slot {
    pane: usize,
    key: usize,
}

#[derive(Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn get(&self, pane: usize) -> &[u8] {
        let start = if pane == 0 { 0 } else { self.ends[pane - 1] };
        &self.bytes[start..self.ends[pane]]
    }

    fn push(&mut self, key: &[u8]) -> usize {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.ends.len() - 1
    }
}

/// A pane that is not there yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewPane<'a> {
    pub(crate) tuple: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) slice: Slice,
}

impl Bucket {
    pub(crate) fn new(start: i64, accumulators: Vec<Accumulator>) -> Self {
        Self {
            start,
            index: HashTable::new(),
            keys: Keys::default(),
            slices: Vec::new(),
            changed: PaneSet::default(),
            unsaved: PaneSet::default(),
            saved: SliceSet::default(),
            accumulators,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slices.len()
    }

    pub(crate) fn slice(&self, pane: usize) -> Slice {
        self.slices[pane]
    }

    pub(crate) fn tuple(&self, pane: usize) -> &[u8] {
        self.keys.get(pane)
    }

    /// Where the store of checkpoints has panes of this bucket.
    pub(crate) fn saved(&self) -> &SliceSet {
        &self.saved
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, tuple: &[u8]) -> Option<usize> {
        // Key tuples of one set are prefix-free, so bytes that equal the tuple are the whole key.
        let bytes = &self.keys.bytes;
        self.index
            .find(hash, |slot| {
                bytes.get(slot.key..slot.key + tuple.len()) == Some(tuple)
            })
            .map(|slot| slot.pane)
    }

    fn insert(&mut self, pane: NewPane<'_>, hasher: &Hasher) -> usize {
        let key = self.keys.bytes.len();
        let at = self.keys.push(pane.tuple);
        self.slices.push(pane.slice);
        self.changed.grow_to(at + 1);
        self.unsaved.grow_to(at + 1);
        let keys = &self.keys;
        self.index
            .insert_unique(pane.hash, Slot { pane: at, key }, |other| {
                hasher.hash_one(keys.get(other.pane))
            });
        at
    }

    pub(crate) fn add(&mut self, pane: NewPane<'_>, hasher: &Hasher) -> usize {
        for accumulator in &mut self.accumulators {
            accumulator.push_pane();
        }
        self.insert(pane, hasher)
    }

    /// Adds a pane as it was stored; none if the bytes are no values of these aggregates.
    pub(crate) fn add_stored(
        &mut self,
        pane: NewPane<'_>,
        mut values: Reader<'_>,
        hasher: &Hasher,
    ) -> Option<()> {
        for accumulator in &mut self.accumulators {
            accumulator.decode_pane(&mut values)?;
        }
        if !values.0.is_empty() {
            return None;
        }
        self.saved.insert(pane.slice);
        let _ = self.insert(pane, hasher);
        Some(())
    }

    /// Whether every aggregate can take the row; else which cannot, and why.
    pub(crate) fn check(
        &self,
        pane: Option<usize>,
        refusing: &[usize],
        columns: &Columns<'_>,
        row: usize,
    ) -> Result<(), (usize, Refusal)> {
        refusing.iter().try_for_each(|at| {
            self.accumulators[*at]
                .check(pane, columns, row)
                .map_err(|refusal| (*at, refusal))
        })
    }

    #[inline]
    pub(crate) fn fold(&mut self, pane: usize, columns: &Columns<'_>, row: usize) {
        self.changed.insert(pane);
        for accumulator in &mut self.accumulators {
            accumulator.fold(pane, columns, row);
        }
    }

    /// Panes that changed since [`Self::committed`] was last called.
    pub(crate) fn changed(&self) -> impl Iterator<Item = usize> {
        self.changed.iter()
    }

    /// What changed is in the journal.
    pub(crate) fn committed(&mut self) {
        self.changed.move_to(&mut self.unsaved);
    }

    /// Panes that are in the journal and not in the store of checkpoints as they are, in stored
    /// key order.
    pub(crate) fn unsaved_in_order(&self) -> Vec<usize> {
        if self.unsaved.is_empty() {
            return Vec::new();
        }
        self.in_order(self.unsaved.iter())
    }

    /// The store of checkpoints has every pane as it is.
    pub(crate) fn save(&mut self) {
        for pane in self.unsaved.iter() {
            self.saved.insert(self.slices[pane]);
        }
        self.unsaved.clear();
    }

    /// Panes with a result that is not all null, in stored key order.
    pub(crate) fn results_in_order(&self) -> Vec<usize> {
        self.in_order(
            (0..self.len()).filter(|pane| !self.accumulators.iter().all(|a| a.is_null(*pane))),
        )
    }

    fn in_order(&self, panes: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut panes: Vec<usize> = panes.collect();
        panes.sort_unstable_by_key(|pane| (self.slices[*pane], self.keys.get(*pane)));
        panes
    }
}
