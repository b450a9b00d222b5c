//! What of a window's panes goes to the journal, and what to the store of checkpoints.

use std::fmt;
use std::ops::Range;

use super::bucket::Bucket;
use super::slices::{Slice, SliceSet};
use super::stored;
use super::window::Window;
use crate::state::{Changes, KeyRange};

/// Panes that were handed out and that the store of checkpoints has. All starts of a window up
/// to the last that was handed out are dead, so one span stands for all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dead {
    first: i64,
    last: i64,
    slices: SliceSet,
}

/// Unsaved panes of one slice of one bucket.
struct Run<'a> {
    slice: Slice,
    window: &'a Window,
    start: i64,
    of: usize,
    places: Range<usize>,
}

impl Window {
    /// Adds every pane that changed since the last call.
    pub(crate) fn take_changes(&mut self, changes: &mut Changes) {
        for bucket in self.open.iter().chain(&self.closed) {
            for pane in bucket.changed() {
                self.put(bucket, pane, changes);
            }
        }
        for bucket in self.open.iter_mut().chain(&mut self.closed) {
            bucket.committed();
        }
    }

    fn put(&self, bucket: &Bucket, pane: usize, changes: &mut Changes) {
        changes.put(
            |out| self.write_key(bucket, pane, out),
            |out| self.write_value(bucket, pane, out),
        );
    }

    fn write_key(&self, bucket: &Bucket, pane: usize, out: &mut Vec<u8>) {
        let (slice, tuple) = (bucket.panes.slice(pane), bucket.panes.tuple(pane));
        stored::write_key(slice, &self.name, bucket.start, tuple, out);
    }

    fn write_value(&self, bucket: &Bucket, pane: usize, out: &mut Vec<u8>) {
        stored::encode_header(self.signature, out);
        bucket.panes.encode(pane, out);
    }

    /// The panes of a bucket that was handed out are gone.
    pub(super) fn bury(&mut self, start: i64, saved: &SliceSet) {
        if saved.is_empty() {
            return;
        }
        let dead = self.dead.get_or_insert(Dead {
            first: start,
            last: start,
            slices: SliceSet::default(),
        });
        dead.first = dead.first.min(start);
        dead.last = dead.last.max(start);
        dead.slices.join(saved);
    }

    pub(super) fn bury_slice(&mut self, start: i64, slice: Slice) {
        let mut slices = SliceSet::default();
        slices.insert(slice);
        self.bury(start, &slices);
    }
}

/// What of the store of checkpoints is dead, ascending.
pub(crate) fn dead(windows: &[Window]) -> Vec<KeyRange> {
    let ranges = windows.iter().flat_map(|window| {
        let dead = window.dead.iter();
        dead.flat_map(move |dead| {
            dead.slices
                .iter()
                .map(move |slice| dead.range(slice, window))
        })
    });
    let mut ranges: Vec<KeyRange> = ranges.collect();
    ranges.sort_unstable();
    ranges
}

/// The store of checkpoints lacks nothing of these windows.
pub(crate) fn saved(windows: &mut [Window]) {
    for window in windows {
        window.dead = None;
        for bucket in window.open.iter_mut().chain(&mut window.closed) {
            bucket.save();
        }
    }
}

/// Panes that the store of checkpoints lacks, in the order of their keys. Each is written out when its turn comes: written
/// out all at once they would take as much memory again as they do.
pub struct UnsavedPanes<'a> {
    runs: Vec<Run<'a>>,
    sorted: Vec<(&'a Window, &'a Bucket, Vec<usize>)>,
}

impl fmt::Debug for UnsavedPanes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnsavedPanes")
            .field("slices", &self.runs.len())
            .finish_non_exhaustive()
    }
}

impl<'a> UnsavedPanes<'a> {
    pub(crate) fn of(windows: &'a [Window]) -> Self {
        let mut sorted: Vec<(&Window, &Bucket, Vec<usize>)> = Vec::new();
        // Panes of a slice of a bucket are neighbours in the order of keys, so few runs have to be
        // sorted, not all panes.
        let mut runs: Vec<Run<'_>> = Vec::new();
        for window in windows {
            for bucket in window.closed.iter().chain(&window.open) {
                let Some(order) = bucket.unsaved_in_order() else {
                    continue;
                };
                let (panes, slices) = order.runs(&bucket.panes);
                runs.extend(slices.into_iter().map(|(slice, places)| Run {
                    slice,
                    window,
                    start: bucket.start,
                    of: sorted.len(),
                    places,
                }));
                sorted.push((window, bucket, panes));
            }
        }
        runs.sort_unstable_by_key(|run| {
            // A stored key has the name's length before the name.
            let name = run.window.name.as_bytes();
            (run.slice, name.len(), name, run.start)
        });
        Self { runs, sorted }
    }

    /// Gives the stored key and the value of each.
    ///
    /// # Errors
    /// The first that `put` returns; it is then asked no more.
    pub fn try_for_each<E>(
        &self,
        mut put: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for (window, bucket, pane) in self.panes() {
            key.clear();
            value.clear();
            window.write_key(bucket, pane, &mut key);
            window.write_value(bucket, pane, &mut value);
            put(&key, &value)?;
        }
        Ok(())
    }

    pub(crate) fn to_changes(&self) -> Changes {
        let mut changes = Changes::default();
        for (window, bucket, pane) in self.panes() {
            window.put(bucket, pane, &mut changes);
        }
        changes
    }

    fn panes(&self) -> impl Iterator<Item = (&'a Window, &'a Bucket, usize)> {
        self.runs.iter().flat_map(|run| {
            let (window, bucket, panes) = &self.sorted[run.of];
            let places = &panes[run.places.clone()];
            places.iter().map(move |pane| (*window, *bucket, *pane))
        })
    }
}

impl Dead {
    fn range(&self, slice: Slice, window: &Window) -> KeyRange {
        let bound = |start| {
            let mut key = Vec::new();
            stored::write_key(slice, &window.name, start, &[], &mut key);
            key
        };
        KeyRange {
            from: bound(self.first),
            to: bound(self.last + 1),
        }
    }
}
