use hashbrown::HashTable;

use super::order::Order;
use super::panes::Panes;
use super::slices::{PaneSet, SLICES, Slice, SliceSet};
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
    pub(crate) panes: Panes,
    /// Panes that changed since the last commit took what changed.
    changed: PaneSet,
    /// Panes that changed since the last checkpoint, those that changed since the last commit
    /// left out.
    unsaved: PaneSet,
    /// Where the store of checkpoints has panes of this bucket.
    saved: SliceSet,
    /// Where it may have panes that are not in memory.
    cold: SliceSet,
    /// Where the next eviction begins, so that all slices take turns.
    hand: Slice,
    /// Once the bucket is closed, how far it was handed out.
    pub(super) handed_out: Option<Position>,
    /// Its panes in order and how many of them were handed out, as long as no pane comes or goes.
    pub(super) draining: Option<(Order, usize)>,
}

/// A pane's place in the order of stored keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) slice: Slice,
    pub(crate) tuple: Vec<u8>,
}

impl Position {
    /// Whether a pane was handed out when all up to here were.
    pub(crate) fn covers(&self, slice: Slice, tuple: &[u8]) -> bool {
        (slice, tuple) <= (self.slice, self.tuple.as_slice())
    }
}

/// What the index holds of a pane: its number, and above it bits of its hash. These place it
/// anew when the index grows, and tell nearly every other key apart, without a look at keys.
#[derive(Debug, Clone, Copy)]
struct Slot(u64);

impl Slot {
    /// Bits of the pane's number: more panes than these can count have no room in any memory.
    const PANE_BITS: u32 = 34;
    /// Spreads the bits of a hash over all 64, as the index needs them.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

    #[inline]
    fn new(hash: u64, pane: usize) -> Self {
        Self(hash >> Self::PANE_BITS << Self::PANE_BITS | pane as u64)
    }

    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "it was made of a number of this type"
    )]
    fn pane(self) -> usize {
        (self.0 & ((1 << Self::PANE_BITS) - 1)) as usize
    }

    /// Whether the hash of its key may be this one.
    #[inline]
    fn is_of(self, hash: u64) -> bool {
        self.0 >> Self::PANE_BITS == hash >> Self::PANE_BITS
    }

    /// The hash by which the index places it.
    #[inline]
    fn place(self) -> u64 {
        Self::place_of(self.0)
    }

    #[inline]
    fn place_of(hash: u64) -> u64 {
        (hash >> Self::PANE_BITS).wrapping_mul(Self::SPREAD)
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
            panes: Panes::new(accumulators),
            changed: PaneSet::default(),
            unsaved: PaneSet::default(),
            saved: SliceSet::default(),
            cold: SliceSet::default(),
            hand: Slice::FIRST,
            handed_out: None,
            draining: None,
        }
    }

    /// Panes in memory.
    pub(crate) fn len(&self) -> usize {
        self.panes.len()
    }

    /// Bytes of memory that it fills.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.panes.bytes() + self.index.allocation_size()
    }

    /// Where the store of checkpoints has panes of this bucket.
    pub(crate) fn saved(&self) -> &SliceSet {
        &self.saved
    }

    /// Where the store of checkpoints may have panes that are not in memory.
    pub(crate) fn cold(&self) -> &SliceSet {
        &self.cold
    }

    /// The store of checkpoints has panes of this slice; whether they are still to be handed out.
    pub(crate) fn found(&mut self, slice: Slice) -> bool {
        self.saved.insert(slice);
        let live = self
            .handed_out
            .as_ref()
            .is_none_or(|position| position.slice <= slice);
        if live {
            self.cold.insert(slice);
        }
        live
    }

    /// All panes of the slice are in memory.
    pub(crate) fn warmed(&mut self, slice: Slice) {
        self.cold.remove(slice);
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, tuple: &[u8]) -> Option<usize> {
        self.index
            .find(Slot::place_of(hash), |slot| {
                slot.is_of(hash) && self.panes.is_tuple(slot.pane(), tuple)
            })
            .map(|slot| slot.pane())
    }

    fn insert(&mut self, hash: u64, pane: usize) {
        self.changed.grow_to(pane + 1);
        self.unsaved.grow_to(pane + 1);
        let slot = Slot::new(hash, pane);
        self.index
            .insert_unique(slot.place(), slot, |other| other.place());
    }

    pub(crate) fn add(&mut self, pane: NewPane<'_>) -> usize {
        let at = self.panes.push(pane.slice, pane.tuple);
        self.insert(pane.hash, at);
        at
    }

    /// Adds a pane as it was stored; none if the bytes are no values of these aggregates.
    pub(crate) fn add_stored(&mut self, pane: NewPane<'_>, values: Reader<'_>) -> Option<()> {
        let at = self.panes.push_stored(pane.slice, pane.tuple, values)?;
        self.insert(pane.hash, at);
        self.saved.insert(pane.slice);
        self.draining = None;
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
            self.panes.accumulators[*at]
                .check(pane, columns, row)
                .map_err(|refusal| (*at, refusal))
        })
    }

    #[inline]
    pub(crate) fn fold(&mut self, pane: usize, columns: &Columns<'_>, row: usize) {
        self.changed.insert(pane);
        for accumulator in &mut self.panes.accumulators {
            accumulator.fold(pane, columns, row);
        }
    }

    pub(super) fn was_handed_out(&self, pane: usize) -> bool {
        self.handed_out
            .as_ref()
            .is_some_and(|to| to.covers(self.panes.slice(pane), self.panes.tuple(pane)))
    }

    /// Panes that changed since [`Self::committed`] was last called.
    pub(crate) fn changed(&self) -> impl Iterator<Item = usize> {
        self.changed
            .iter()
            .filter(|pane| !self.was_handed_out(*pane))
    }

    /// What changed is in the journal.
    pub(crate) fn committed(&mut self) {
        self.changed.move_to(&mut self.unsaved);
    }

    /// Panes that are in the journal and not in the store of checkpoints as they are; none if
    /// there are none.
    pub(crate) fn unsaved_in_order(&self) -> Option<Order> {
        (!self.unsaved.is_empty()).then(|| Order::new(&self.panes, self.unsaved()))
    }

    fn unsaved(&self) -> impl Iterator<Item = usize> + Clone {
        self.unsaved
            .iter()
            .filter(|pane| !self.was_handed_out(*pane))
    }

    /// The store of checkpoints has every pane as it is.
    pub(crate) fn save(&mut self) {
        if self.unsaved.is_empty() {
            return;
        }
        let mut saved = self.saved;
        for pane in self.unsaved() {
            saved.insert(self.panes.slice(pane));
        }
        self.saved = saved;
        self.unsaved.clear();
    }

    /// Drops panes that the store of checkpoints has as they are, slice by slice, until about
    /// `excess` bytes are freed; how many. Slices are those of key groups: their stored keys are
    /// neighbours, so what is cold can be read in order, is known from a few keys at a start, and
    /// a row's slice is asked for only where it finds no pane.
    pub(crate) fn evict(&mut self, excess: usize) -> usize {
        let is_clean =
            |bucket: &Self, pane| !bucket.changed.contains(pane) && !bucket.unsaved.contains(pane);
        let mut clean = [0_usize; SLICES];
        for pane in 0..self.len() {
            if is_clean(self, pane) {
                clean[self.panes.slice(pane).index()] += 1;
            }
        }
        let wanted = excess.div_ceil((self.panes.bytes() / self.len().max(1)).max(1));
        let mut leaving = SliceSet::default();
        let mut count = 0;
        for slice in Slice::all_from(self.hand) {
            if count >= wanted {
                self.hand = slice;
                break;
            }
            if clean[slice.index()] > 0 {
                leaving.insert(slice);
                count += clean[slice.index()];
            }
        }
        if count == 0 {
            return 0;
        }
        let stays: Vec<usize> = (0..self.len())
            .filter(|pane| !leaving.contains(self.panes.slice(*pane)) || !is_clean(self, *pane))
            .collect();
        self.keep(&stays);
        self.cold.join(&leaving);
        count
    }

    fn keep(&mut self, panes: &[usize]) {
        let mut hashes = vec![0; self.len()];
        for slot in &self.index {
            hashes[slot.pane()] = slot.0;
        }
        self.index = HashTable::with_capacity(panes.len());
        self.panes.retain(panes);
        let renumbered = |set: &PaneSet| {
            let mut kept = PaneSet::default();
            kept.grow_to(panes.len());
            for (to, pane) in panes.iter().enumerate() {
                if set.contains(*pane) {
                    kept.insert(to);
                }
            }
            kept
        };
        self.changed = renumbered(&self.changed);
        self.unsaved = renumbered(&self.unsaved);
        for (to, pane) in panes.iter().enumerate() {
            self.insert(hashes[*pane], to);
        }
        self.draining = None;
    }
}
