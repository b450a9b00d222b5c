//! What is in memory, what is not, and how it comes back.

use std::ops::ControlFlow;

use turbine_keygroups::Group;

use super::{Pipeline, RestoreReport};
use crate::batch::InputBatch;
use crate::clock::Clocks;
use crate::cold::ColdPanes;
use crate::columns::Columns;
use crate::error::{PipelineError, RestoreError, StateError};
use crate::spec::PipelineSpec;
use crate::windows::{PaneKey, Slice, Wanted, Window, key_after};

impl Pipeline {
    /// A pipeline with the state and clocks of an earlier one: `cold` is the store of checkpoints
    /// with the changes of later commits in it, `clocks` is what [`Self::clocks`] gave at the last
    /// of these commits.
    ///
    /// It reads no pane before it is needed: memory and time do not follow the number of panes. It
    /// looks at one key and value per key group and open window instance, one [`ColdPanes::scan`]
    /// for each. [`Self::warm`] reads more.
    ///
    /// # Errors
    /// If the spec breaks a rule, the store cannot be read, or what was looked at is damaged, of
    /// another format, or of a window that was defined otherwise. What was not looked at is checked
    /// where it is read. Nothing is ever skipped.
    pub fn restore<C: ColdPanes + ?Sized>(
        spec: PipelineSpec,
        clocks: &Clocks,
        cold: &C,
    ) -> Result<(Self, RestoreReport), RestoreError<C::Error>> {
        let mut pipeline = Self::with_clocks(spec, clocks)?;
        pipeline
            .resume_draining(clocks)
            .map_err(RestoreError::State)?;
        let mut report = RestoreReport::default();
        let mut from = Vec::new();
        loop {
            let mut next = Ok(None);
            cold.scan(&from, None, &mut |key, value| {
                next = pipeline.found(key, value, &mut report).map(Some);
                ControlFlow::Break(())
            })
            .map_err(RestoreError::Store)?;
            match next.map_err(RestoreError::State)? {
                Some(next) => from = next,
                None => break,
            }
        }
        pipeline.close_due();
        if clocks.handing_out.is_none() && pipeline.has_closed() {
            // Closed by other rules than those that the clocks were made by.
            pipeline.handing_out.panes = None;
        }
        Ok((pipeline, report))
    }

    /// The store has this pane, the first of its slice; the first key behind the slice.
    fn found(
        &mut self,
        key: &[u8],
        value: &[u8],
        report: &mut RestoreReport,
    ) -> Result<Vec<u8>, StateError> {
        let pane = PaneKey::decode(key)?;
        match self
            .windows
            .iter_mut()
            .find(|window| *window.name == *pane.window)
        {
            Some(window) => {
                if window.found(key, pane, value)? {
                    self.placement.restored(pane.group);
                    report.slices += 1;
                } else {
                    report.handed_out += 1;
                }
            }
            None => {
                *report
                    .unknown_windows
                    .entry(pane.window.to_owned())
                    .or_default() += 1;
            }
        }
        Ok(key_after(key, pane))
    }

    pub(super) fn resume_draining(&mut self, clocks: &Clocks) -> Result<(), StateError> {
        for window in &mut self.windows {
            if let Some(key) = clocks.draining.get(&*window.name) {
                window.resume_draining(PaneKey::decode(key)?);
            }
        }
        Ok(())
    }

    /// About how many bytes of memory the panes fill. Costs little: it looks at no pane.
    #[must_use]
    pub fn live_bytes(&self) -> usize {
        self.windows.iter().map(Window::live_bytes).sum()
    }

    /// Drops panes from memory that the store of checkpoints has as they are, until
    /// [`Self::live_bytes`] is at or below `to_bytes` or none is left; how many. After
    /// [`Self::take_unsaved`] that is every pane, and its write must be done first. Results never
    /// depend on it: what is needed again is read from the store.
    ///
    /// Windows that end first go first: fewer rows fall into them, and a closed one is read in
    /// order when it is handed out.
    pub fn evict(&mut self, to_bytes: usize) -> usize {
        let mut buckets: Vec<_> = self.windows.iter_mut().flat_map(Window::buckets).collect();
        let mut live: usize = buckets.iter().map(|(_, bucket)| bucket.bytes()).sum();
        buckets.sort_by_key(|(end, _)| *end);
        let mut evicted = 0;
        for (_, bucket) in buckets {
            if live <= to_bytes {
                break;
            }
            let before = bucket.bytes();
            evicted += bucket.evict(live - to_bytes);
            live = (live + bucket.bytes()).saturating_sub(before);
        }
        evicted
    }

    /// Reads cold panes into memory, those of the newest windows first, until
    /// [`Self::live_bytes`] is about `to_bytes`; how many were read. Never needed for results:
    /// reading in order is cheaper than key by key.
    ///
    /// # Errors
    /// If the store cannot be read, or a pane is damaged; the pipeline is as good as before.
    pub fn warm<C: ColdPanes + ?Sized>(
        &mut self,
        to_bytes: usize,
        cold: &C,
    ) -> Result<usize, PipelineError<C::Error>> {
        let mut read = 0;
        for at in 0..self.windows.len() {
            for slice in self.windows[at].cold_slices() {
                let room = to_bytes.saturating_sub(self.live_bytes());
                if room == 0 {
                    return Ok(read);
                }
                let window = &mut self.windows[at];
                let max_bytes = window.live_bytes() + room;
                read += window.warm(slice, max_bytes, &self.hasher, cold)?;
            }
        }
        Ok(read)
    }

    /// Reads the panes that rows of the batch may need and that are not in memory, all in one
    /// call. Rows that turn out late or in error are not told apart here: a pane that was read
    /// for nothing does no harm.
    pub(super) fn load<C: ColdPanes + ?Sized>(
        &mut self,
        columns: &Columns<'_>,
        input: InputBatch<'_>,
        cold: &C,
    ) -> Result<(), PipelineError<C::Error>> {
        let mut wanted = Wanted::default();
        let mut slices: Vec<Option<Slice>> = vec![None; input.rows.num_rows()];
        for (at, window) in self.windows.iter_mut().enumerate() {
            if !window.is_cold() {
                continue;
            }
            let keys = &self.key_sets[window.key_set].1;
            let (partition_key, scratch) = (&self.partition_key, &mut self.scratch);
            let slice = |row: usize| {
                *slices[row].get_or_insert_with(|| {
                    Slice::of(Group::of(partition_key.read(columns, row, scratch)))
                })
            };
            window.want(at, input.event_times, keys, slice, &mut wanted);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let (keys, of) = wanted.keys();
        let (windows, hasher) = (&mut self.windows, &self.hasher);
        let mut fault = None;
        cold.get_many(&keys, &mut |at, value| {
            if let (Some(key), Some(window)) = (keys.get(at), of.get(at))
                && fault.is_none()
            {
                fault = windows[*window].take_in(key, value, hasher).err();
            }
        })
        .map_err(PipelineError::Store)?;
        fault.map_or(Ok(()), |error| Err(PipelineError::State(error)))
    }
}
