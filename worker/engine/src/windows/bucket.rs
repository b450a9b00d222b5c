use std::hash::BuildHasher;

use hashbrown::HashTable;
use turbine_keygroups::Group;

use crate::aggregates::{Accumulator, Refusal};
use crate::columns::Columns;
use crate::keys::Reader;

/// Seeded per process: keys come from outside, and no result depends on hash order.
pub(crate) type Hasher = foldhash::fast::RandomState;

/// The pane changed since changes were last taken.
const DIRTY: u8 = 1;
/// The pane is in the store, so its end must delete it there.
const STORED: u8 = 2;

/// All panes of one window instance `[start, end)`. Keys lie in one buffer, running values in one
/// column per aggregate, so a new pane costs no allocation of its own and a close frees all at
/// once.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) start: i64,
    index: HashTable<usize>,
    keys: Keys,
    groups: Vec<Group>,
    flags: Vec<u8>,
    dirty: Vec<usize>,
    pub(crate) accumulators: Vec<Accumulator>,
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
            flags: Vec::new(),
            dirty: Vec::new(),
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
        self.flags[pane] & STORED != 0
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, tuple: &[u8]) -> Option<usize> {
        self.index
            .find(hash, |pane| self.keys.get(*pane) == tuple)
            .copied()
    }

    fn insert(&mut self, pane: NewPane<'_>, flags: u8, hasher: &Hasher) -> usize {
        let at = self.keys.push(pane.tuple);
        self.groups.push(pane.group);
        self.flags.push(flags);
        let keys = &self.keys;
        self.index
            .insert_unique(pane.hash, at, |other| hasher.hash_one(keys.get(*other)));
        at
    }

    pub(crate) fn add(&mut self, pane: NewPane<'_>, hasher: &Hasher) -> usize {
        for accumulator in &mut self.accumulators {
            accumulator.push_pane();
        }
        self.insert(pane, 0, hasher)
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
        self.insert(pane, STORED, hasher);
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
        if self.flags[pane] & DIRTY == 0 {
            self.flags[pane] |= DIRTY;
            self.dirty.push(pane);
        }
        for accumulator in &mut self.accumulators {
            accumulator.fold(pane, columns, row);
        }
    }

    /// The panes that changed since the last call; they count as stored from now on.
    pub(crate) fn take_dirty(&mut self) -> Vec<usize> {
        for pane in &self.dirty {
            self.flags[*pane] = STORED;
        }
        std::mem::take(&mut self.dirty)
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
