//! Sets of key groups and of panes, as bits.

use turbine_keygroups::{GROUP_COUNT, Group};

/// What a key group's rank is multiplied by in the prefix of its stored keys.
const STRIDE: u16 = 64;
/// Key groups, and the null group.
pub(crate) const SLICES: usize = GROUP_COUNT as usize + 1;

/// The panes of one key group in one bucket: one contiguous range of stored keys. Slices are
/// ordered as the keys are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slice(u16);

impl Slice {
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) fn of(group: Group) -> Self {
        Self(u16::from_be_bytes(group.prefix()) / STRIDE)
    }

    /// All there can be, ascending.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..=GROUP_COUNT).map(Self)
    }

    /// All there can be, ascending from this one on, then from the first.
    pub(crate) fn all_from(first: Self) -> impl Iterator<Item = Self> {
        (first.0..=GROUP_COUNT).chain(0..first.0).map(Self)
    }

    /// The first two bytes of its stored keys.
    pub(crate) fn prefix(self) -> [u8; 2] {
        (self.0 * STRIDE).to_be_bytes()
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A set of slices of one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SliceSet([u64; SLICES.div_ceil(64)]);

impl SliceSet {
    pub(crate) fn insert(&mut self, slice: Slice) {
        self.0[slice.index() / 64] |= 1 << (slice.0 % 64);
    }

    pub(crate) fn remove(&mut self, slice: Slice) {
        self.0[slice.index() / 64] &= !(1 << (slice.0 % 64));
    }

    pub(crate) fn contains(&self, slice: Slice) -> bool {
        self.0[slice.index() / 64] & (1 << (slice.0 % 64)) != 0
    }

    pub(crate) fn join(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Its slices, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slice> {
        ones(&self.0).filter_map(|bit| u16::try_from(bit).ok().map(Slice))
    }
}

/// One bit per pane: small enough to stay in the processor's caches where the panes do not.
#[derive(Debug, Default)]
pub(crate) struct PaneSet {
    words: Vec<u64>,
    some: bool,
}

impl PaneSet {
    #[inline]
    pub(crate) fn grow_to(&mut self, panes: usize) {
        self.words.resize(panes.div_ceil(64), 0);
    }

    #[inline]
    pub(crate) fn insert(&mut self, pane: usize) {
        self.words[pane / 64] |= 1 << (pane % 64);
        self.some = true;
    }

    pub(crate) fn contains(&self, pane: usize) -> bool {
        self.words[pane / 64] & (1 << (pane % 64)) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.some
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + Clone {
        let words: &[u64] = if self.some { &self.words } else { &[] };
        ones(words)
    }

    /// Moves all panes into another set over the same panes.
    pub(crate) fn move_to(&mut self, other: &mut Self) {
        if !self.some {
            return;
        }
        for (word, more) in other.words.iter_mut().zip(&mut self.words) {
            *word |= std::mem::take(more);
        }
        other.some = true;
        self.some = false;
    }

    pub(crate) fn clear(&mut self) {
        if self.some {
            self.words.fill(0);
            self.some = false;
        }
    }
}

fn ones(words: &[u64]) -> impl Iterator<Item = usize> + Clone {
    words.iter().enumerate().flat_map(|(at, word)| Ones {
        rest: *word,
        base: at * 64,
    })
}

#[derive(Clone)]
struct Ones {
    rest: u64,
    base: usize,
}

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = self.rest.trailing_zeros() as usize;
        (self.rest != 0).then(|| {
            self.rest &= self.rest - 1;
            self.base + bit
        })
    }
}
