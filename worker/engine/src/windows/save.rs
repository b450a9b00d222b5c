//! What of a window's panes goes to the journal, and what to the store of checkpoints.

use std::ops::Range;

use super::bucket::Bucket;
use super::slices::{Slice, SliceSet};
use super::stored;
use super::window::Window;
use crate::state::{Changes, KeyRange, Unsaved};

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
        let panes = &bucket.panes;
        let (slice, tuple) = (panes.slice(pane), panes.tuple(pane));
        changes.put(
            |out| stored::write_key(slice, &self.name, bucket.start, tuple, out),
            |out| {
                stored::encode_header(self.signature, out);
                panes.encode(pane, out);
            },
        );
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

/// What the store of checkpoints lacks of these windows; from now on it counts as stored.
pub(crate) fn unsaved(windows: &mut [Window]) -> Unsaved {
    let mut unsaved = Unsaved {
        puts: puts(windows),
        dead: Vec::new(),
    };
    for window in windows {
        if let Some(dead) = window.dead.take() {
            unsaved
                .dead
                .extend(dead.slices.iter().map(|slice| dead.range(slice, window)));
        }
        for bucket in window.open.iter_mut().chain(&mut window.closed) {
            bucket.save();
        }
    }
    unsaved.dead.sort_unstable();
    unsaved
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

fn puts(windows: &[Window]) -> Changes {
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
    let mut puts = Changes::default();
    for run in runs {
        let (window, bucket, panes) = &sorted[run.of];
        for pane in &panes[run.places] {
            window.put(bucket, *pane, &mut puts);
        }
    }
    puts
}
