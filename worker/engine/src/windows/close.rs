//! Closed panes are handed out in the order of their stored keys, some at a time.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_select::concat::concat_batches;

use super::bucket::{Bucket, Position};
use super::order::Order;
use super::panes::Panes;
use super::slices::Slice;
use super::stored::{self, PaneKey};
use super::window::{Window, undecodable};
use crate::cold::ColdPanes;
use crate::error::{BatchError, PipelineError, StateError};
use crate::keys::Reader;

/// The most rows in one result table.
const MAX_RESULT_ROWS: usize = 8192;

/// Result tables of at most [`MAX_RESULT_ROWS`] rows; small ones of neighbouring buckets are
/// joined.
#[derive(Default)]
struct Tables {
    full: Vec<RecordBatch>,
    small: Vec<RecordBatch>,
    small_rows: usize,
}

/// How much is handed out at once. The first pane has room, however large it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) panes: usize,
    /// Of keys and values, as they are stored.
    pub(crate) bytes: usize,
}

impl Room {
    pub(crate) fn is_used_up(self) -> bool {
        self.panes == 0 || self.bytes == 0
    }

    /// Takes so many panes of at most `bytes` each, or as many as there is room for.
    fn take_all(&mut self, panes: usize, bytes: usize) -> usize {
        let fitting = (self.bytes / bytes.max(1)).max(1);
        let taken = panes.min(self.panes).min(fitting);
        self.panes -= taken;
        self.bytes = self.bytes.saturating_sub(taken.saturating_mul(bytes));
        taken
    }

    fn take(&mut self, bytes: usize) {
        self.panes = self.panes.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Part of a slice in the order of its keys: panes in memory, and of the store those that are not.
struct Merge<'a> {
    window: &'a Window,
    live: &'a Panes,
    page: &'a mut Panes,
    room: &'a mut Room,
    scratch: Vec<u8>,
}

impl Window {
    /// Result tables of closed panes for which there is room, ordered by window end and stored key.
    pub(crate) fn drain_closed<C: ColdPanes + ?Sized>(
        &mut self,
        room: &mut Room,
        cold: &C,
    ) -> Result<Vec<RecordBatch>, PipelineError<C::Error>> {
        let mut tables = Tables::default();
        while !room.is_used_up() {
            let Some(mut bucket) = self.closed.pop_front() else {
                break;
            };
            let drained = self.drain(&mut bucket, room, cold, &mut tables);
            let start = bucket.start;
            match drained {
                Ok(true) => {
                    self.bury(start, bucket.saved());
                    self.drained_to = self.drained_to.max(Some(start + self.size));
                }
                Ok(false) => self.closed.push_front(bucket),
                Err(error) => {
                    self.closed.push_front(bucket);
                    return Err(error);
                }
            }
        }
        Ok(tables.finish(self)?)
    }

    /// Drops closed buckets, oldest first, as if they had been handed out: all of them, or those that were due at a frontier.
    pub(crate) fn forget_closed(&mut self, due: Option<Option<i64>>) {
        while let Some(bucket) = self.closed.front() {
            let start = bucket.start;
            if due.is_some_and(|frontier| !self.is_due(start, frontier)) {
                return;
            }
            let saved = *bucket.saved();
            self.closed.pop_front();
            self.bury(start, &saved);
            self.drained_to = self.drained_to.max(Some(start + self.size));
        }
    }

    /// The stored key of the last pane that was handed out, while others of its window instance
    /// are not.
    pub(crate) fn last_handed_out(&self) -> Option<Vec<u8>> {
        let bucket = self.closed.front()?;
        let position = bucket.handed_out.as_ref()?;
        let mut key = Vec::new();
        let (slice, tuple) = (position.slice, &position.tuple);
        stored::write_key(slice, &self.name, bucket.start, tuple, &mut key);
        Some(key)
    }

    /// Hands out panes of one bucket; whether none is left.
    fn drain<C: ColdPanes + ?Sized>(
        &self,
        bucket: &mut Bucket,
        room: &mut Room,
        cold: &C,
        tables: &mut Tables,
    ) -> Result<bool, PipelineError<C::Error>> {
        let (mut order, next) = bucket
            .draining
            .take()
            .unwrap_or_else(|| (bucket.left_in_order(), 0));
        if bucket.cold().is_empty() {
            let end = next + room.take_all(order.len() - next, bucket.panes.most_bytes());
            let panes = order.get(&bucket.panes, next..end);
            tables.add(self, &bucket.panes, bucket.start, panes)?;
            let last = panes.last().map(|pane| bucket.position(*pane));
            let finished = end == order.len();
            bucket.handed_out = last.or(bucket.handed_out.take());
            bucket.draining = Some((order, end));
            return Ok(finished);
        }
        let mut page = Panes::new(self.empty.clone());
        let next = self.page(bucket, (&mut order, next), (&mut page, room), cold)?;
        let all: Vec<usize> = (0..page.len()).collect();
        tables.add(self, &page, bucket.start, &all)?;
        if let Some(last) = all.last() {
            bucket.handed_out = Some(Position::of(&page, *last));
        }
        bucket.draining = Some((order, next));
        Ok(!room.is_used_up())
    }

    /// Fills a page from memory and store; the next place of the order.
    fn page<C: ColdPanes + ?Sized>(
        &self,
        bucket: &Bucket,
        (order, mut next): (&mut Order, usize),
        (page, room): (&mut Panes, &mut Room),
        cold: &C,
    ) -> Result<usize, PipelineError<C::Error>> {
        let mut slices = *bucket.cold();
        order.slices().for_each(|slice| slices.insert(slice));
        let begin = bucket.handed_out.as_ref();
        let mut merge = Merge {
            window: self,
            live: &bucket.panes,
            page,
            room,
            scratch: Vec::new(),
        };
        for slice in slices.iter() {
            let run = order.run(&bucket.panes, slice);
            let places = run.start.max(next)..run.end.max(next);
            if merge.is_full() {
                break;
            }
            if begin.is_some_and(|begin| slice < begin.slice) {
                continue;
            }
            let mut live = order.get(&bucket.panes, places);
            let before = live.len();
            if bucket.cold().contains(slice) {
                let after = begin.filter(|begin| begin.slice == slice);
                let after = after.map(|begin| begin.tuple.as_slice());
                merge.stored(bucket.start, slice, after, &mut live, cold)?;
            }
            while !merge.is_full() && merge.take_live(&mut live) {}
            next += before - live.len();
        }
        Ok(next)
    }

    /// The stored keys of one slice of a bucket, behind `after` if there is one.
    pub(super) fn key_range(
        &self,
        start: i64,
        slice: Slice,
        after: Option<&[u8]>,
    ) -> (Vec<u8>, Vec<u8>) {
        let key = |start, tuple: &[u8]| {
            let mut key = Vec::new();
            stored::write_key(slice, &self.name, start, tuple, &mut key);
            key
        };
        let from = match after {
            None => key(start, &[]),
            // No key lies between a key and the same with a zero byte behind it.
            Some(tuple) => [key(start, tuple).as_slice(), &[0]].concat(),
        };
        (from, key(start + 1, &[]))
    }

    fn table(&self, panes: &Panes, start: i64, of: &[usize]) -> Result<RecordBatch, BatchError> {
        let mut columns = self.keys.arrays(of.iter().map(|pane| panes.tuple(*pane)));
        for bound in [start, start + self.size] {
            let bounds: ArrayRef = Arc::new(Int64Array::from_value(bound, of.len()));
            columns.push(bounds);
        }
        columns.extend(panes.accumulators.iter().map(|a| a.results(of)));
        RecordBatch::try_new(self.schema.clone(), columns).map_err(refused)
    }

    fn join(&self, tables: &[RecordBatch]) -> Result<RecordBatch, BatchError> {
        match tables {
            [one] => Ok(one.clone()),
            many => concat_batches(&self.schema, many).map_err(refused),
        }
    }
}

impl Position {
    fn of(panes: &Panes, pane: usize) -> Self {
        Self {
            slice: panes.slice(pane),
            tuple: panes.tuple(pane).to_vec(),
        }
    }
}

impl Bucket {
    fn position(&self, pane: usize) -> Position {
        Position::of(&self.panes, pane)
    }

    /// Panes in memory that were not handed out.
    fn left_in_order(&self) -> Order {
        let panes = &self.panes;
        Order::new(
            panes,
            (0..panes.len()).filter(|pane| !self.was_handed_out(*pane)),
        )
    }
}

impl Merge<'_> {
    fn is_full(&self) -> bool {
        self.room.is_used_up()
    }

    /// Moves the first of these panes to the page; whether there was one.
    fn take_live(&mut self, live: &mut &[usize]) -> bool {
        let Some((first, rest)) = live.split_first() else {
            return false;
        };
        *live = rest;
        self.scratch.clear();
        self.live.encode(*first, &mut self.scratch);
        let (slice, tuple) = (self.live.slice(*first), self.live.tuple(*first));
        self.room.take(tuple.len() + self.scratch.len());
        // What was encoded just now decodes.
        self.page
            .push_stored(slice, tuple, Reader(&self.scratch))
            .is_some()
    }

    /// Moves panes of the store to the page, and those in memory that come before them or stand
    /// for them.
    fn stored<C: ColdPanes + ?Sized>(
        &mut self,
        start: i64,
        slice: Slice,
        after: Option<&[u8]>,
        live: &mut &[usize],
        cold: &C,
    ) -> Result<(), PipelineError<C::Error>> {
        let (from, to) = self.window.key_range(start, slice, after);
        let mut fault = None;
        cold.scan(
            &from,
            Some(&to),
            &mut |key, value| match self.one(key, value, slice, live) {
                Ok(()) if self.is_full() => ControlFlow::Break(()),
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    fault = Some(error);
                    ControlFlow::Break(())
                }
            },
        )
        .map_err(PipelineError::Store)?;
        fault.map_or(Ok(()), |error| Err(PipelineError::State(error)))
    }

    fn one(
        &mut self,
        key: &[u8],
        value: &[u8],
        slice: Slice,
        live: &mut &[usize],
    ) -> Result<(), StateError> {
        let pane = PaneKey::decode(key)?;
        while let Some(first) = live.first() {
            let of = self.live.tuple(*first);
            if of > pane.tuple {
                break;
            }
            let same = of == pane.tuple;
            self.take_live(live);
            // What is in memory is newer, or the same.
            if same || self.is_full() {
                return Ok(());
            }
        }
        let values = self.window.checked(key, pane, value)?;
        self.room.take(pane.tuple.len() + value.len());
        self.page
            .push_stored(slice, pane.tuple, values)
            .map(drop)
            .ok_or_else(|| undecodable(key))
    }
}

impl Tables {
    /// Adds these panes, those without a result left out.
    fn add(
        &mut self,
        window: &Window,
        panes: &Panes,
        start: i64,
        of: &[usize],
    ) -> Result<(), BatchError> {
        let mut rest = of;
        let mut shown = Vec::with_capacity(of.len().min(MAX_RESULT_ROWS));
        while !rest.is_empty() {
            shown.clear();
            while let Some((first, others)) = rest.split_first()
                && shown.len() < MAX_RESULT_ROWS
            {
                if !panes.is_null(*first) {
                    shown.push(*first);
                }
                rest = others;
            }
            if shown.is_empty() {
                continue;
            }
            if self.small_rows + shown.len() > MAX_RESULT_ROWS {
                self.flush(window)?;
            }
            self.small.push(window.table(panes, start, &shown)?);
            self.small_rows += shown.len();
        }
        Ok(())
    }

    fn flush(&mut self, window: &Window) -> Result<(), BatchError> {
        if !self.small.is_empty() {
            self.full.push(window.join(&self.small)?);
            self.small.clear();
            self.small_rows = 0;
        }
        Ok(())
    }

    fn finish(mut self, window: &Window) -> Result<Vec<RecordBatch>, BatchError> {
        self.flush(window)?;
        Ok(self.full)
    }
}

fn refused(error: impl std::fmt::Display) -> BatchError {
    BatchError::Result {
        message: error.to_string(),
    }
}
