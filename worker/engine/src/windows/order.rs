//! Panes in the order of their stored keys.

use std::ops::Range;

use super::panes::Panes;
use super::slices::{SLICES, Slice};

/// A slice, and the places of its panes.
pub(crate) type Run = (Slice, Range<usize>);

/// Below this many panes nothing is gained by sorting over prefixes.
const SMALL: usize = 16;

/// Panes of a bucket, slice by slice; each slice is sorted when it is asked for, so that no sort
/// is longer than a slice, and its memory no more.
#[derive(Debug)]
pub(crate) struct Order {
    panes: Vec<usize>,
    /// The slices that there are, ascending, and where their panes end.
    runs: Vec<(Slice, usize)>,
    /// How many runs are sorted.
    sorted: usize,
}

impl Order {
    pub(crate) fn new(of: &Panes, panes: impl Iterator<Item = usize> + Clone) -> Self {
        let mut counts = [0_usize; SLICES];
        for pane in panes.clone() {
            counts[of.slice(pane).index()] += 1;
        }
        let mut runs = Vec::new();
        let mut end = 0;
        // From now on a count is where the slice's next pane goes.
        for (slice, count) in Slice::all().zip(&mut counts) {
            let begin = end;
            end += *count;
            if end > begin {
                runs.push((slice, end));
            }
            *count = begin;
        }
        let mut sorted = vec![0; end];
        for pane in panes {
            let at = &mut counts[of.slice(pane).index()];
            sorted[*at] = pane;
            *at += 1;
        }
        Self {
            panes: sorted,
            runs,
            sorted: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.panes.len()
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = Slice> {
        self.runs.iter().map(|(slice, _)| *slice)
    }

    fn range(&self, run: usize) -> Range<usize> {
        let begin = if run == 0 { 0 } else { self.runs[run - 1].1 };
        begin..self.runs[run].1
    }

    fn sort_runs(&mut self, of: &Panes, to: usize) {
        while self.sorted < to {
            let range = self.range(self.sorted);
            sort(of, &mut self.panes[range]);
            self.sorted += 1;
        }
    }

    /// These places of the order.
    pub(crate) fn get(&mut self, of: &Panes, places: Range<usize>) -> &[usize] {
        let runs = self.runs.partition_point(|(_, end)| *end < places.end);
        self.sort_runs(of, (runs + 1).min(self.runs.len()));
        &self.panes[places]
    }

    /// The places of one slice's panes, which are sorted from then on.
    pub(crate) fn run(&mut self, of: &Panes, slice: Slice) -> Range<usize> {
        match self.runs.binary_search_by_key(&slice, |(slice, _)| *slice) {
            Ok(run) => {
                self.sort_runs(of, run + 1);
                self.range(run)
            }
            Err(_) => 0..0,
        }
    }

    /// All panes, each slice sorted.
    pub(crate) fn runs(mut self, of: &Panes) -> (Vec<usize>, Vec<Run>) {
        self.sort_runs(of, self.runs.len());
        let runs = (0..self.runs.len())
            .map(|run| (self.runs[run].0, self.range(run)))
            .collect();
        (self.panes, runs)
    }
}

/// Sorts panes of one slice by their tuples. Eight bytes of each tuple, taken where the tuples
/// begin to differ, decide nearly every comparison without a look at the tuples themselves.
fn sort(of: &Panes, panes: &mut [usize]) {
    let Some(first) = panes.first().map(|pane| of.tuple(*pane)) else {
        return;
    };
    if panes.len() <= SMALL {
        panes.sort_unstable_by_key(|pane| of.tuple(*pane));
        return;
    }
    let common = panes.iter().fold(first.len(), |common, pane| {
        let same = first[..common].iter().zip(of.tuple(*pane));
        same.take_while(|(a, b)| a == b).count()
    });
    let mut keyed: Vec<(u64, usize)> = panes
        .iter()
        .map(|pane| (prefix(&of.tuple(*pane)[common..]), *pane))
        .collect();
    keyed.sort_unstable_by(|(a, left), (b, right)| {
        a.cmp(b).then_with(|| of.tuple(*left).cmp(of.tuple(*right)))
    });
    for (pane, (_, sorted)) in panes.iter_mut().zip(keyed) {
        *pane = sorted;
    }
}

/// The first bytes as a number of the same order; equal for some that are not the same.
fn prefix(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }
    }
}
