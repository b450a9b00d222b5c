//! Panes that are in the store of checkpoints and not in memory.

use std::hash::BuildHasher as _;
use std::ops::{ControlFlow, Range};

use arrow_array::Array as _;
use arrow_array::Int64Array;

use super::bucket::{Bucket, Hasher, NewPane};
use super::panes::Panes;
use super::slices::Slice;
use super::stored::{self, PaneKey};
use super::window::{Window, undecodable};
use crate::clock::EVENT_TIME_RANGE;
use crate::cold::ColdPanes;
use crate::error::{PipelineError, StateError};
use crate::keys::EncodedKeys;

/// So many panes are read between two looks at the memory that they fill.
const PANES_PER_LOOK: usize = 1024;

/// Panes that rows of a batch may need and that are not in memory.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    bytes: Vec<u8>,
    panes: Vec<WantedPane>,
}

#[derive(Debug)]
struct WantedPane {
    key: Range<usize>,
    window: usize,
}

impl Wanted {
    pub(crate) fn is_empty(&self) -> bool {
        self.panes.is_empty()
    }

    /// Distinct keys, ascending; and for each the index of its window.
    pub(crate) fn keys(&mut self) -> (Vec<&[u8]>, Vec<usize>) {
        let bytes = &self.bytes;
        self.panes
            .sort_unstable_by(|a, b| bytes[a.key.clone()].cmp(&bytes[b.key.clone()]));
        self.panes
            .dedup_by(|a, b| bytes[a.key.clone()] == bytes[b.key.clone()]);
        self.panes
            .iter()
            .map(|pane| (&bytes[pane.key.clone()], pane.window))
            .unzip()
    }
}

impl Window {
    /// Whether rows may fall where panes are cold.
    pub(crate) fn is_cold(&self) -> bool {
        self.open.iter().any(|bucket| !bucket.cold().is_empty())
    }

    /// Adds the panes that these rows may need and that are not in memory. `at` is the window's
    /// index, `slice` tells a row's slice.
    pub(crate) fn want(
        &mut self,
        at: usize,
        event_times: &Int64Array,
        keys: &EncodedKeys,
        mut slice: impl FnMut(usize) -> Slice,
        wanted: &mut Wanted,
    ) {
        for row in 0..event_times.len() {
            let event_time = event_times.value(row);
            if event_times.is_null(row) || !EVENT_TIME_RANGE.contains(&event_time) {
                continue;
            }
            let Ok(bucket) = self.bucket_at(self.start_of(event_time)) else {
                continue;
            };
            let bucket = &self.open[bucket];
            let tuple = keys.tuple(row);
            if bucket.cold().is_empty() || bucket.find(keys.hash(row), tuple).is_some() {
                continue;
            }
            let slice = slice(row);
            if bucket.cold().contains(slice) {
                let begin = wanted.bytes.len();
                let bytes = &mut wanted.bytes;
                stored::write_key(slice, &self.name, bucket.start, tuple, bytes);
                wanted.panes.push(WantedPane {
                    key: begin..wanted.bytes.len(),
                    window: at,
                });
            }
        }
    }

    /// Takes in a pane that was read; nothing is changed if it is in memory.
    pub(crate) fn take_in(
        &mut self,
        key: &[u8],
        value: &[u8],
        hasher: &Hasher,
    ) -> Result<(), StateError> {
        let pane = PaneKey::decode(key)?;
        let values = self.checked(key, pane, value)?;
        let new = NewPane {
            tuple: pane.tuple,
            hash: hasher.hash_one(pane.tuple),
            slice: Slice::of(pane.group),
        };
        let bucket = self.bucket(pane.start);
        if bucket.find(new.hash, new.tuple).is_some() {
            return Ok(());
        }
        bucket
            .add_stored(new, values)
            .ok_or_else(|| undecodable(key))
    }

    /// The store of checkpoints has panes of a slice, this one first; whether they are to be
    /// handed out yet.
    pub(crate) fn found(
        &mut self,
        key: &[u8],
        pane: PaneKey<'_>,
        value: &[u8],
    ) -> Result<bool, StateError> {
        let slice = Slice::of(pane.group);
        if self.is_dead(pane.start) {
            self.bury_slice(pane.start, slice);
            return Ok(false);
        }
        let values = self.checked(key, pane, value)?;
        // A window that was changed under its name is refused at the start, not at some row.
        Panes::new(self.empty.clone())
            .push_stored(slice, pane.tuple, values)
            .ok_or_else(|| undecodable(key))?;
        Ok(self.bucket(pane.start).found(slice))
    }

    /// The starts of open buckets and slices that are cold, the newest first.
    pub(crate) fn cold_slices(&self) -> Vec<(i64, Slice)> {
        self.open
            .iter()
            .rev()
            .flat_map(|bucket| bucket.cold().iter().map(|slice| (bucket.start, slice)))
            .collect()
    }

    /// Reads panes of a cold slice until the window fills more than `max_bytes`; how many.
    pub(crate) fn warm<C: ColdPanes + ?Sized>(
        &mut self,
        (start, slice): (i64, Slice),
        max_bytes: usize,
        hasher: &Hasher,
        cold: &C,
    ) -> Result<usize, PipelineError<C::Error>> {
        let (from, to) = self.key_range(start, slice, None);
        let (mut read, mut whole, mut fault) = (0, true, None);
        cold.scan(&from, Some(&to), &mut |key, value| {
            if read % PANES_PER_LOOK == 0 && self.live_bytes() >= max_bytes {
                whole = false;
                return ControlFlow::Break(());
            }
            read += 1;
            match self.take_in(key, value, hasher) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    fault = Some(error);
                    ControlFlow::Break(())
                }
            }
        })
        .map_err(PipelineError::Store)?;
        if let Some(error) = fault {
            return Err(PipelineError::State(error));
        }
        if whole {
            self.bucket(start).warmed(slice);
        }
        Ok(read)
    }

    /// Its buckets, each with the end of its window instance.
    pub(crate) fn buckets(&mut self) -> impl Iterator<Item = (i64, &mut Bucket)> {
        let size = self.size;
        let buckets = self.closed.iter_mut().chain(&mut self.open);
        buckets.map(move |bucket| (bucket.start + size, bucket))
    }

    /// Bytes of memory that panes fill.
    pub(crate) fn live_bytes(&self) -> usize {
        let buckets = self.open.iter().chain(&self.closed);
        buckets.map(Bucket::bytes).sum()
    }
}
