//! Panes side by side: keys in one buffer, running values in one column per aggregate.

use super::slices::Slice;
use crate::aggregates::Accumulator;
use crate::keys::Reader;

/// Panes, by their number.
#[derive(Debug)]
pub(crate) struct Panes {
    keys: Keys,
    slices: Vec<Slice>,
    pub(crate) accumulators: Vec<Accumulator>,
}

#[derive(Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    longest: usize,
}

impl Keys {
    #[inline]
    fn start(&self, pane: usize) -> usize {
        if pane == 0 { 0 } else { self.ends[pane - 1] }
    }

    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.longest = self.longest.max(key.len());
    }

    fn retain(&mut self, panes: &[usize]) {
        let mut end = 0;
        self.longest = 0;
        for (to, pane) in panes.iter().enumerate() {
            let key = self.start(*pane)..self.ends[*pane];
            let length = key.len();
            self.longest = self.longest.max(length);
            self.bytes.copy_within(key, end);
            end += length;
            // What is overwritten belongs to a pane whose bytes are moved already.
            self.ends[to] = end;
        }
        self.bytes.truncate(end);
        self.ends.truncate(panes.len());
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

impl Panes {
    pub(crate) fn new(accumulators: Vec<Accumulator>) -> Self {
        Self {
            keys: Keys::default(),
            slices: Vec::new(),
            accumulators,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slices.len()
    }

    #[inline]
    pub(crate) fn slice(&self, pane: usize) -> Slice {
        self.slices[pane]
    }

    #[inline]
    pub(crate) fn tuple(&self, pane: usize) -> &[u8] {
        &self.keys.bytes[self.keys.start(pane)..self.keys.ends[pane]]
    }

    /// Whether the pane's tuple is this one. Tuples of one set are prefix-free, so bytes that
    /// equal the tuple are the whole key.
    #[inline]
    pub(crate) fn is_tuple(&self, pane: usize, tuple: &[u8]) -> bool {
        let start = self.keys.start(pane);
        let found = self.keys.bytes.get(start..start + tuple.len());
        found.is_some_and(|found| same(found, tuple))
    }

    /// Adds a pane without values; its number.
    pub(crate) fn push(&mut self, slice: Slice, tuple: &[u8]) -> usize {
        for accumulator in &mut self.accumulators {
            accumulator.push_pane();
        }
        self.push_key(slice, tuple)
    }

    /// Adds a pane with stored values; none, and then no more use of it, if the bytes are no
    /// values of these aggregates.
    pub(crate) fn push_stored(
        &mut self,
        slice: Slice,
        tuple: &[u8],
        mut values: Reader<'_>,
    ) -> Option<usize> {
        for accumulator in &mut self.accumulators {
            accumulator.decode_pane(&mut values)?;
        }
        values.0.is_empty().then(|| self.push_key(slice, tuple))
    }

    fn push_key(&mut self, slice: Slice, tuple: &[u8]) -> usize {
        self.keys.push(tuple);
        self.slices.push(slice);
        self.slices.len() - 1
    }

    /// Appends the stored form of a pane's running values.
    pub(crate) fn encode(&self, pane: usize, out: &mut Vec<u8>) {
        for accumulator in &self.accumulators {
            accumulator.encode(pane, out);
        }
    }

    /// Whether the pane has no result.
    pub(crate) fn is_null(&self, pane: usize) -> bool {
        self.accumulators.iter().all(|a| a.is_null(pane))
    }

    /// Keeps these panes, which ascend, renumbered from 0, and frees what the others took.
    pub(crate) fn retain(&mut self, panes: &[usize]) {
        self.keys.retain(panes);
        for (to, pane) in panes.iter().enumerate() {
            self.slices[to] = self.slices[*pane];
        }
        self.slices.truncate(panes.len());
        self.slices.shrink_to_fit();
        for accumulator in &mut self.accumulators {
            accumulator.retain(panes);
        }
    }

    /// Bytes that no key with its values goes beyond, where values are about alike.
    pub(crate) fn most_bytes(&self) -> usize {
        let values: usize = self.accumulators.iter().map(Accumulator::bytes).sum();
        self.keys.longest + values / self.len().max(1)
    }

    /// Bytes of memory that the panes fill. What is only reserved is not counted: the operating
    /// system gives it no memory before it is touched. Keys count twice: they lie in one buffer, and when that grows the old
    /// one is there beside the new one.
    pub(crate) fn bytes(&self) -> usize {
        2 * self.keys.bytes.len()
            + self.keys.ends.len() * size_of::<usize>()
            + self.slices.len() * size_of::<Slice>()
            + self
                .accumulators
                .iter()
                .map(Accumulator::bytes)
                .sum::<usize>()
    }
}

/// Whether two slices of one length are the same. Keys are mostly short, and then this is a few
/// instructions where a general comparison is a call.
#[inline]
fn same(left: &[u8], right: &[u8]) -> bool {
    fn ends<const N: usize>(left: &[u8], right: &[u8]) -> bool {
        left.first_chunk::<N>() == right.first_chunk()
            && left.last_chunk::<N>() == right.last_chunk()
    }
    match left.len() {
        8..=16 => ends::<8>(left, right),
        17..=32 => ends::<16>(left, right),
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn one_byte_makes_a_difference_wherever_it_is() {
        for length in 0..70_usize {
            let left: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0]).collect();
            assert!(same(&left, &left.clone()));
            for at in 0..length {
                let mut right = left.clone();
                right[at] ^= 1;
                assert!(!same(&left, &right), "byte {at} of {length}");
            }
        }
    }
}
