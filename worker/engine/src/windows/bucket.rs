use std::hash::BuildHasher;

use hashbrown::HashTable;
use turbine_keygroups::Group;

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
    groups: Vec<Group>,
    /// Panes that are in the store, so that their end must delete them there.
    stored: BitSet,
    /// Panes that changed since changes were last taken; `changed` lists them.
    dirty: BitSet,
    changed: Vec<usize>,
    pub(crate) accumulators: Vec<Accumulator>,
}

/// Where a pane is found: its number, and where its key begins, so that a look-up need not ask a
/// third table for it.
#[derive(Debug, Clone, Copy)]
struct Slot {
    pane: usize,
    key: usize,
}

/// One bit per pane: small enough to stay in the processor's caches where the panes do not.
#[derive(Debug, Default)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn grow_to(&mut self, bits: usize) {
        self.0.resize(bits.div_ceil(64), 0);
    }

    fn contains(&self, bit: usize) -> bool {
        self.0[bit / 64] & (1 << (bit % 64)) != 0
    }

    /// Whether it was not there before.
    fn insert(&mut self, bit: usize) -> bool {
        let word = &mut self.0[bit / 64];
        let before = *word;
        *word |= 1 << (bit % 64);
        *word != before
    }

    fn remove(&mut self, bit: usize) {
        self.0[bit / 64] &= !(1 << (bit % 64));
    }
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
    pub(crate) group: Group,
}

impl Bucket {
    pub(crate) fn new(start: i64, accumulators: Vec<Accumulator>) -> Self {
        Self {
            start,
            index: HashTable::new(),
            keys: Keys::default(),
            groups: Vec::new(),
            stored: BitSet::default(),
            dirty: BitSet::default(),
            changed: Vec::new(),
            accumulators,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn group(&self, pane: usize) -> Group {
        self.groups[pane]
    }

    pub(crate) fn tuple(&self, pane: usize) -> &[u8] {
        self.keys.get(pane)
    }

    pub(crate) fn is_stored(&self, pane: usize) -> bool {
        self.stored.contains(pane)
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
        self.groups.push(pane.group);
        self.stored.grow_to(at + 1);
        self.dirty.grow_to(at + 1);
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
        let pane = self.insert(pane, hasher);
        self.stored.insert(pane);
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
        if self.dirty.insert(pane) {
            self.changed.push(pane);
        }
        for accumulator in &mut self.accumulators {
            accumulator.fold(pane, columns, row);
        }
    }

    /// The panes that changed since the last call; they count as stored from now on.
    pub(crate) fn take_dirty(&mut self) -> Vec<usize> {
        for pane in &self.changed {
            self.dirty.remove(*pane);
            self.stored.insert(*pane);
        }
        std::mem::take(&mut self.changed)
    }

    /// Panes with a result that is not all null, in stored key order.
    pub(crate) fn results_in_order(&self) -> Vec<usize> {
        let mut panes: Vec<usize> = (0..self.len())
            .filter(|pane| !self.accumulators.iter().all(|a| a.is_null(*pane)))
            .collect();
        panes.sort_unstable_by_key(|pane| (self.groups[*pane].prefix(), self.keys.get(*pane)));
        panes
    }
}
