use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::bucket::{Bucket, NewPane, Position};
use super::save::Dead;
use super::slices::Slice;
use super::stored::{self, PaneKey, hex};
use crate::aggregates::{Accumulator, Refusal};
use crate::batch::{LateRows, RowFault};
use crate::clock::{EVENT_TIME_RANGE, Frontier};
use crate::columns::{Columns, TypedColumn};
use crate::error::StateError;
use crate::keys::{EncodedKeys, KeySet, Reader};
use crate::spec::{PipelineSpec, WINDOW_END_COLUMN, WINDOW_START_COLUMN, WindowSpec};

/// A window of the spec with its open panes.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) name: Arc<str>,
    /// Which of the pipeline's key sets is this window's.
    pub(crate) key_set: usize,
    pub(crate) keys: KeySet,
    pub(crate) schema: SchemaRef,
    pub(crate) size: i64,
    lateness: i64,
    pub(super) signature: u32,
    outputs: Vec<Arc<str>>,
    pub(super) empty: Vec<Accumulator>,
    refusing: Vec<usize>,
    pub(crate) closed_to: Option<i64>,
    /// Every pane of a window instance that ends at or before this was handed out.
    pub(crate) drained_to: Option<i64>,
    /// What the store of checkpoints still has of them.
    pub(super) dead: Option<Dead>,
    /// Ascending by start.
    pub(super) open: Vec<Bucket>,
    /// Where the last row was found: most rows go where the one before went.
    last: usize,
    /// Per row of the batch at hand, its pane if that was open before the batch.
    ahead: Vec<Option<usize>>,
    /// Closed, not yet handed out; ascending by start.
    pub(crate) closed: VecDeque<Bucket>,
}

/// Where a row belongs in one window.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Late {
        by_data: bool,
    },
    /// The bucket's start, where it was found if it is there, and the pane if that is.
    Open {
        start: i64,
        bucket: Option<usize>,
        pane: Option<usize>,
    },
}

impl Place {
    /// Whether a row here would make a pane.
    pub(crate) fn makes_pane(self) -> bool {
        matches!(self, Self::Open { pane: None, .. })
    }

    pub(crate) fn is_late(self) -> bool {
        matches!(self, Self::Late { .. })
    }
}

impl Window {
    /// None where the spec's validation would have refused the window.
    pub(crate) fn new(
        spec: &PipelineSpec,
        window: &WindowSpec,
        typed: &[TypedColumn],
        key_set: usize,
        keys: KeySet,
        (closed_to, drained_to): (Option<i64>, Option<i64>),
    ) -> Option<Self> {
        let empty: Vec<Accumulator> = window
            .aggregates
            .iter()
            .map(|a| Accumulator::new(a.function, typed))
            .collect::<Option<_>>()?;
        let mut fields = KeySet::fields(spec, &window.keys);
        fields.push(Field::new(WINDOW_START_COLUMN, DataType::Int64, false));
        fields.push(Field::new(WINDOW_END_COLUMN, DataType::Int64, false));
        for (aggregate, accumulator) in window.aggregates.iter().zip(&empty) {
            fields.push(Field::new(
                &aggregate.output,
                accumulator.result_type(),
                true,
            ));
        }
        let refusing = (0..empty.len())
            .filter(|at| empty[*at].can_refuse())
            .collect();
        Some(Self {
            name: window.name.as_str().into(),
            key_set,
            keys,
            schema: Arc::new(Schema::new(fields)),
            size: window.kind.size_ms().cast_signed(),
            lateness: window.allowed_lateness_ms.cast_signed(),
            signature: stored::signature(spec, window),
            outputs: window
                .aggregates
                .iter()
                .map(|a| a.output.as_str().into())
                .collect(),
            empty,
            refusing,
            closed_to,
            drained_to,
            dead: None,
            open: Vec::new(),
            last: 0,
            ahead: Vec::new(),
            closed: VecDeque::new(),
        })
    }

    pub(crate) fn open_panes(&self) -> usize {
        self.open.iter().map(Bucket::len).sum()
    }

    pub(crate) fn open_windows(&self) -> usize {
        self.open.len()
    }

    /// Whether panes closed that were not handed out.
    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Whether it can refuse a row.
    pub(crate) fn can_refuse(&self) -> bool {
        !self.refusing.is_empty()
    }

    /// Finds the panes of a batch's rows in one loop of independent look-ups, so that the waits
    /// for memory overlap; one by one between the folds they would add up. Panes are neither
    /// removed nor renumbered within a batch, so what is found stays right.
    pub(crate) fn look_ahead(&mut self, event_times: &Int64Array, keys: &EncodedKeys) {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.clear();
        ahead.extend(event_times.iter().enumerate().map(|(row, event_time)| {
            let event_time = event_time.filter(|ms| EVENT_TIME_RANGE.contains(ms))?;
            let at = self.bucket_at(self.start_of(event_time)).ok()?;
            self.open[at].find(keys.hash(row), keys.tuple(row))
        }));
        self.ahead = ahead;
    }

    /// The start of the window that a time lies in: the floor, below the epoch too.
    #[inline]
    pub(super) fn start_of(&self, event_time: i64) -> i64 {
        if let Some(bucket) = self.open.get(self.last)
            && (bucket.start..bucket.start + self.size).contains(&event_time)
        {
            return bucket.start;
        }
        event_time - event_time.rem_euclid(self.size)
    }

    /// Where a row of this time and key belongs as the clocks stand. Changes no pane.
    pub(crate) fn locate(
        &mut self,
        row: usize,
        event_time: i64,
        frontier: &Frontier,
        keys: &EncodedKeys,
    ) -> Place {
        let start = self.start_of(event_time);
        let due = start + self.size + self.lateness;
        let reached = |clock: Option<i64>| clock.is_some_and(|clock| clock >= due);
        if reached(frontier.get()) {
            return Place::Late {
                by_data: reached(frontier.data()),
            };
        }
        if self
            .closed_to
            .is_some_and(|closed_to| closed_to >= start + self.size)
        {
            return Place::Late { by_data: true };
        }
        let bucket = self.bucket_at(start).ok();
        // A pane that was not there before the batch may have come with an earlier row of it.
        let pane = bucket.and_then(|at| {
            self.ahead[row].or_else(|| self.open[at].find(keys.hash(row), keys.tuple(row)))
        });
        Place::Open {
            start,
            bucket,
            pane,
        }
    }

    pub(super) fn bucket_at(&mut self, start: i64) -> Result<usize, usize> {
        if self
            .open
            .get(self.last)
            .is_some_and(|bucket| bucket.start == start)
        {
            return Ok(self.last);
        }
        let found = self
            .open
            .binary_search_by_key(&start, |bucket| bucket.start);
        if let Ok(at) = found {
            self.last = at;
        }
        found
    }

    /// The bucket of this start, made if it is not there.
    pub(super) fn bucket(&mut self, start: i64) -> &mut Bucket {
        let at = self.bucket_at(start).unwrap_or_else(|at| {
            self.open.insert(at, Bucket::new(start, self.empty.clone()));
            self.last = at;
            at
        });
        &mut self.open[at]
    }

    /// Whether the row can be folded at its place. Changes nothing.
    pub(crate) fn check(
        &self,
        place: Place,
        columns: &Columns<'_>,
        row: usize,
    ) -> Result<(), RowFault> {
        let Place::Open { bucket, pane, .. } = place else {
            return Ok(());
        };
        let checked = match bucket {
            Some(at) => self.open[at].check(pane, &self.refusing, columns, row),
            None => self.refusing.iter().try_for_each(|at| {
                self.empty[*at]
                    .check(None, columns, row)
                    .map_err(|refusal| (*at, refusal))
            }),
        };
        checked.map_err(|(aggregate, refusal)| {
            let (window, output) = (self.name.clone(), self.outputs[aggregate].clone());
            match refusal {
                Refusal::Overflow { sum, value } => RowFault::Overflow {
                    window,
                    output,
                    sum,
                    value,
                },
                Refusal::NotFinite => RowFault::NotFinite { window, output },
                Refusal::FloatOverflow => RowFault::FloatOverflow { window, output },
            }
        })
    }

    /// Folds a row that [`Self::check`] let pass.
    pub(crate) fn fold<'p>(
        &mut self,
        place: Place,
        columns: &Columns<'_>,
        row: usize,
        late: &mut LateRows,
        new_pane: impl FnOnce() -> NewPane<'p>,
    ) {
        match place {
            Place::Late { by_data: true } => late.by_data += 1,
            Place::Late { by_data: false } => late.by_coasting += 1,
            Place::Open {
                bucket: Some(at),
                pane: Some(pane),
                ..
            } => {
                self.open[at].fold(pane, columns, row);
            }
            Place::Open { start, .. } => {
                let bucket = self.bucket(start);
                let pane = bucket.add(new_pane());
                bucket.fold(pane, columns, row);
            }
        }
    }

    /// Closes every bucket that is due.
    pub(crate) fn close_due(&mut self, frontier: Option<i64>) {
        self.closed_to = self
            .closed_to
            .max(frontier.map(|frontier| frontier - self.lateness));
        let Some(closed_to) = self.closed_to else {
            return;
        };
        let due = self
            .open
            .partition_point(|bucket| bucket.start + self.size <= closed_to);
        self.closed.extend(self.open.drain(..due));
        self.last = 0;
    }

    /// Whether a window of this start is due.
    pub(super) fn is_due(&self, start: i64, frontier: Option<i64>) -> bool {
        let due = start + self.size + self.lateness;
        frontier.is_some_and(|frontier| frontier >= due)
    }

    /// The last pane that was handed out of a window instance some of whose panes were not.
    /// Without effect where the window was defined otherwise since: what is left of it is then
    /// refused when it is met.
    pub(crate) fn resume_draining(&mut self, last: PaneKey<'_>) {
        let end = last.start.saturating_add(self.size);
        let closed = self.closed_to.is_some_and(|to| end <= to);
        let handed_out = self.drained_to.is_some_and(|to| end <= to);
        if closed && !handed_out && last.start.rem_euclid(self.size) == 0 {
            self.bucket(last.start).handed_out = Some(Position {
                slice: Slice::of(last.group),
                tuple: last.tuple.to_vec(),
            });
        }
    }

    /// Whether a pane is one of a window instance that was handed out whole.
    pub(super) fn is_dead(&self, start: i64) -> bool {
        self.drained_to
            .is_some_and(|to| start.saturating_add(self.size) <= to)
    }

    /// The running values in a stored pane of this window.
    pub(super) fn checked<'v>(
        &self,
        key: &[u8],
        pane: PaneKey<'_>,
        value: &'v [u8],
    ) -> Result<Reader<'v>, StateError> {
        let values = stored::decode_header(key, value, &self.name, self.signature)?;
        let damaged = |what| StateError::Key {
            key: hex(key),
            what,
        };
        if !self.keys.accepts(pane.tuple) {
            return Err(damaged("its key columns do not fit the window's"));
        }
        let starts = EVENT_TIME_RANGE.start() - self.size..=*EVENT_TIME_RANGE.end();
        if pane.start.rem_euclid(self.size) != 0 || !starts.contains(&pane.start) {
            return Err(damaged("its start is no boundary of the window"));
        }
        Ok(values)
    }
}

pub(super) fn undecodable(key: &[u8]) -> StateError {
    StateError::Value {
        key: hex(key),
        what: "its aggregates do not decode",
    }
}
