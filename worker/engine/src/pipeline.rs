mod again;
mod memory;
mod row;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use turbine_keygroups::{MisplacedRecord, Verdict};

use crate::batch::{InputBatch, LateRows, Outcome, RowError, RowFault};
use crate::clock::{Clocks, Frontier, HandingOut, Trail};
use crate::cold::ColdPanes;
use crate::columns::{Columns, typed_columns};
use crate::error::{BatchError, PipelineError, SpecError};
use crate::keys::{EncodedKeys, KeySet, MAX_KEY_BYTES, PartitionKeyReader};
use crate::placement::Checker;
use crate::spec::{IdlePolicy, OnRowError, PipelineSpec};
use crate::state::{Changes, KeyRange, Unsaved};
use crate::windows::{self, Hasher, Place, Room, UnsavedPanes, Window};

/// The computation of one task. See the crate's documentation for its rules.
#[derive(Debug)]
pub struct Pipeline {
    spec: PipelineSpec,
    frontier: Frontier,
    partition_key: PartitionKeyReader,
    placement: Checker,
    key_sets: Vec<(KeySet, EncodedKeys)>,
    windows: Vec<Window>,
    /// Clocks of windows that the spec no longer has; their state is kept, so are these.
    former: WindowClocks,
    trail: Trail,
    handing_out: HandingOut,
    hasher: Hasher,
    places: Vec<Place>,
    scratch: Vec<u8>,
    part_bytes: usize,
    /// The batch has a key that is too long.
    has_long_key: bool,
}

#[derive(Debug, Clone)]
struct WindowClocks {
    closed_to: BTreeMap<String, i64>,
    drained_to: BTreeMap<String, i64>,
    draining: BTreeMap<String, Vec<u8>>,
}

/// Results of closed panes of one window.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedRows {
    /// The window's index in the spec.
    pub window: usize,
    /// The window's name.
    pub name: Arc<str>,
    /// Keys, `window_start_ms`, `window_end_ms`, aggregates; at least one row.
    pub rows: RecordBatch,
}

/// What was found in stored state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Slices that may be needed: a slice is what one key group has in one window instance.
    pub slices: u64,
    /// Slices whose results were handed out before; the next [`Pipeline::take_unsaved`] deletes
    /// them.
    pub handed_out: u64,
    /// Slices of windows that the spec does not have, by name. They stay in the store, untouched.
    pub unknown_windows: BTreeMap<String, u64>,
}

impl Pipeline {
    /// A pipeline without state.
    ///
    /// # Errors
    /// If the spec breaks a rule; the error says which.
    pub fn new(spec: PipelineSpec) -> Result<Self, SpecError> {
        Self::with_clocks(spec, &Clocks::default())
    }

    fn with_clocks(spec: PipelineSpec, clocks: &Clocks) -> Result<Self, SpecError> {
        spec.validate()?;
        let typed = typed_columns(&spec);
        let mut former = WindowClocks {
            closed_to: clocks.closed_to.clone(),
            drained_to: clocks.drained_to.clone(),
            draining: clocks.draining.clone(),
        };
        let mut key_sets: Vec<(KeySet, EncodedKeys)> = Vec::new();
        let mut windows = Vec::with_capacity(spec.windows.len());
        for window in &spec.windows {
            let keys = KeySet::new(&spec, &typed, &window.keys);
            let key_set = key_sets
                .iter()
                .position(|(other, _)| *other == keys)
                .unwrap_or_else(|| {
                    key_sets.push((keys.clone(), EncodedKeys::default()));
                    key_sets.len() - 1
                });
            let reached = (
                former.closed_to.remove(&window.name),
                former.drained_to.remove(&window.name),
            );
            former.draining.remove(&window.name);
            windows.extend(Window::new(&spec, window, &typed, key_set, keys, reached));
        }
        Ok(Self {
            frontier: Frontier::new(spec.out_of_orderness_ms.cast_signed(), clocks),
            partition_key: PartitionKeyReader::new(&spec, &typed),
            placement: Checker::new(spec.placement, clocks.placement.clone()),
            key_sets,
            windows,
            former,
            trail: clocks.trail,
            handing_out: clocks.handing_out.unwrap_or(HandingOut {
                due: clocks.frontier,
                panes: Some(0),
            }),
            hasher: Hasher::default(),
            places: Vec::new(),
            scratch: Vec::new(),
            part_bytes: usize::MAX,
            has_long_key: false,
            spec,
        })
    }

    /// From now on [`Self::drain_closed`] gives no more at once than about so many bytes of keys and values, and never less
    /// than one pane.
    pub fn bound_parts(&mut self, bytes: usize) {
        self.part_bytes = bytes.max(1);
    }

    /// The spec it was made of.
    #[must_use]
    pub fn spec(&self) -> &PipelineSpec {
        &self.spec
    }

    /// The columns of a window's results, by the window's index in the spec.
    #[must_use]
    pub fn result_schema(&self, window: usize) -> Option<SchemaRef> {
        self.windows.get(window).map(|window| window.schema.clone())
    }

    /// Open panes that are in memory, over all windows.
    #[must_use]
    pub fn open_panes(&self) -> usize {
        self.windows.iter().map(Window::open_panes).sum()
    }

    /// Windows that are open: a window of the spec counts once for each of its spans of time with open panes.
    #[must_use]
    pub fn open_windows(&self) -> usize {
        self.windows.iter().map(Window::open_windows).sum()
    }

    /// The clocks as they stand, to be stored in one write with the changes and the input's
    /// positions.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        let WindowClocks {
            mut closed_to,
            mut drained_to,
            mut draining,
        } = self.former.clone();
        for window in &self.windows {
            let name = || window.name.to_string();
            closed_to.extend(window.closed_to.map(|to| (name(), to)));
            drained_to.extend(window.drained_to.map(|to| (name(), to)));
            draining.extend(window.last_handed_out().map(|key| (name(), key)));
        }
        Clocks {
            max_event_time: self.frontier.max_event_time(),
            data_frontier: self.frontier.data(),
            frontier: self.frontier.get(),
            closed_to,
            drained_to,
            draining,
            handing_out: self.has_closed().then_some(self.handing_out),
            trail: self.trail,
            placement: self.placement.evidence.clone(),
        }
    }

    /// Shows the canonical partition key of each row, none for a null key, as placement checks
    /// need it.
    ///
    /// # Errors
    /// If the batch does not fit the spec.
    pub fn partition_keys(
        &self,
        input: InputBatch<'_>,
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), BatchError> {
        let columns = Columns::bind(&self.spec, input)?;
        let mut scratch = Vec::new();
        for row in 0..input.rows.num_rows() {
            visit(row, self.partition_key.read(&columns, row, &mut scratch));
        }
        Ok(())
    }

    /// What is known of the placement of rows.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.placement.evidence.verdict()
    }

    /// A misplaced row was found, and the topic has not grown: the verdict stays until it is
    /// cleared.
    pub fn condemn(&mut self, record: MisplacedRecord) {
        self.placement.evidence.saw_misplaced(record);
    }

    /// The record that the verdict `misplaced` rests on.
    #[must_use]
    pub fn first_misplaced(&self) -> Option<&MisplacedRecord> {
        self.placement.evidence.misplaced()
    }

    /// Further misplaced rows tell better where they come from.
    pub fn misplaced_look_like(&mut self, cause: String) {
        self.placement.evidence.looks_like(cause);
    }

    /// A person says that the producers are right now: the verdict is forgotten and what comes is
    /// judged anew.
    pub fn clear_verdict(&mut self) {
        self.placement.clear();
    }

    /// Takes rows in log order. `now_ms` is the wall clock in epoch milliseconds; only the guard
    /// against times too far ahead looks at it.
    ///
    /// Where placement is enforced, the batch ends before the first misplaced row, whatever
    /// [`OnRowError`] says: it may be the first sign that the topic grew, and then no row after it
    /// may be folded. Once that is ruled out the rest goes through [`Self::process_unmoved`].
    ///
    /// Panes that rows may need and that are not in memory are read from `cold` first, in one
    /// call; a batch that falls where everything is in memory makes none.
    ///
    /// # Errors
    /// If the batch does not fit the spec, or a pane cannot be read; then nothing was taken, and
    /// the batch can be given again. Faults of single rows are in the outcome.
    pub fn process<C: ColdPanes + ?Sized>(
        &mut self,
        input: InputBatch<'_>,
        now_ms: i64,
        cold: &C,
    ) -> Result<Outcome, PipelineError<C::Error>> {
        self.take(input, now_ms, OnRowError::Stop, cold)
    }

    /// As [`Self::process`], for rows that were read before the topic was found not to have grown:
    /// a misplaced row is an error like any other.
    ///
    /// # Errors
    /// As [`Self::process`].
    pub fn process_unmoved<C: ColdPanes + ?Sized>(
        &mut self,
        input: InputBatch<'_>,
        now_ms: i64,
        cold: &C,
    ) -> Result<Outcome, PipelineError<C::Error>> {
        self.take(input, now_ms, self.spec.on_row_error, cold)
    }

    fn take<C: ColdPanes + ?Sized>(
        &mut self,
        input: InputBatch<'_>,
        now_ms: i64,
        on_misplaced: OnRowError,
        cold: &C,
    ) -> Result<Outcome, PipelineError<C::Error>> {
        let columns = Columns::bind(&self.spec, input)?;
        let rows = input.rows.num_rows();
        for (keys, encoded) in &mut self.key_sets {
            encoded.fill(keys, &columns, rows, &self.hasher);
        }
        if self.windows.iter().any(Window::is_cold) {
            self.load(&columns, input, cold)?;
        }
        Ok(self.fold(input, &columns, now_ms, on_misplaced))
    }

    fn fold(
        &mut self,
        input: InputBatch<'_>,
        columns: &Columns<'_>,
        now_ms: i64,
        on_misplaced: OnRowError,
    ) -> Outcome {
        let rows = input.rows.num_rows();
        self.note_handed_out();
        for window in &mut self.windows {
            window.look_ahead(input.event_times, &self.key_sets[window.key_set].1);
        }
        if rows > 0 {
            self.frontier.end_spell();
        }
        let mut outcome = Outcome {
            rows_taken: rows,
            late: vec![LateRows::default(); self.windows.len()],
            ..Outcome::default()
        };
        let is_long = |(_, keys): &(KeySet, EncodedKeys)| keys.longest() > MAX_KEY_BYTES;
        self.has_long_key = self.key_sets.iter().any(is_long);
        let can_refuse = self.windows.iter().any(Window::can_refuse);
        for row in 0..rows {
            let event_time = input
                .event_times
                .is_valid(row)
                .then(|| input.event_times.value(row));
            if let Err(fault) =
                self.take_row(row, event_time, now_ms, columns, can_refuse, &mut outcome)
            {
                let on_error = match fault {
                    RowFault::Misplaced { .. } => on_misplaced,
                    _ => self.spec.on_row_error,
                };
                outcome.row_errors.push(RowError { row, fault });
                if on_error == OnRowError::Stop {
                    outcome.rows_taken = row;
                    break;
                }
            }
        }
        let passed = |error: &&RowError| error.row < outcome.rows_taken;
        let in_error = outcome.row_errors.iter().filter(passed).count();
        self.trail.rows += (outcome.rows_taken - in_error) as u64;
        self.close_due();
        outcome
    }

    /// The task has stood at the end of its log for `idle_for_ms`, by a monotonic clock; 0 if it
    /// does not stand there. Call it at least as often as results shall come out while idle.
    pub fn on_idle(&mut self, idle_for_ms: u64) {
        if self.spec.idle_policy == IdlePolicy::Hold || idle_for_ms < self.spec.idle_timeout_ms {
            self.frontier.end_spell();
            return;
        }
        self.note_handed_out();
        self.frontier.coast(idle_for_ms);
        self.close_due();
    }

    /// Whatever closes from here on comes after the frontier as it is, if nothing is left of what closed before.
    fn note_handed_out(&mut self) {
        if !self.has_closed() {
            self.handing_out = HandingOut {
                due: self.frontier.get(),
                panes: Some(0),
            };
        }
    }

    fn close_due(&mut self) {
        let frontier = self.frontier.get();
        for window in &mut self.windows {
            window.close_due(frontier);
        }
    }

    /// Whether [`Self::drain_closed`] would give something.
    #[must_use]
    pub fn has_closed(&self) -> bool {
        self.windows.iter().any(Window::has_closed)
    }

    /// Results of at most `max_panes` panes that closed, each pane once: windows in the
    /// spec's order, within a window by its end, then by stored key. Call it until
    /// [`Self::has_closed`] says that nothing is left. From now on [`Self::clocks`] says that
    /// these panes are dead, so the results must go out before those clocks are stored. No more
    /// than `max_panes` cold panes are in memory at once; they are read in order from `cold`.
    ///
    /// # Errors
    /// If a pane cannot be read, or Arrow refuses a table, which is a bug. Results that the call
    /// would have given may be lost: the pipeline must be restored from the store.
    pub fn drain_closed<C: ColdPanes + ?Sized>(
        &mut self,
        max_panes: usize,
        cold: &C,
    ) -> Result<Vec<ClosedRows>, PipelineError<C::Error>> {
        let (closed, panes) = self.drain(max_panes, cold)?;
        if let Some(so_far) = &mut self.handing_out.panes {
            *so_far += panes as u64;
        }
        self.note_handed_out();
        Ok(closed)
    }

    /// Results, and of how many panes.
    fn drain<C: ColdPanes + ?Sized>(
        &mut self,
        max_panes: usize,
        cold: &C,
    ) -> Result<(Vec<ClosedRows>, usize), PipelineError<C::Error>> {
        let mut closed = Vec::new();
        let mut room = Room {
            panes: max_panes,
            bytes: self.part_bytes,
        };
        for (at, window) in self.windows.iter_mut().enumerate() {
            let name = window.name.clone();
            let tables = window.drain_closed(&mut room, cold)?;
            closed.extend(tables.into_iter().map(|rows| {
                let name = name.clone();
                ClosedRows {
                    window: at,
                    name,
                    rows,
                }
            }));
        }
        Ok((closed, max_panes - room.panes))
    }

    /// What a commit has to give the journal: every pane that changed since the last call, with
    /// its value now, in no order. Panes that were handed out are not among them: the clocks of
    /// the same commit say that they are dead. What is given counts as stored from now on: if
    /// writing it fails, the pipeline must be restored from the store.
    #[must_use]
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        for window in &mut self.windows {
            window.take_changes(&mut changes);
        }
        changes
    }

    /// What a checkpoint has to give its store: every pane that changed since the last call, with
    /// its value now, and what of the store is dead. A pane that opened and was handed out between
    /// two calls never appears. What is given counts as stored from now on: if writing it fails,
    /// the pipeline must be restored.
    ///
    /// Call it only when everything that was folded or handed out is committed: [`Self::process`],
    /// [`Self::on_idle`] and [`Self::drain_closed`] were not called since the last
    /// [`Self::take_changes`], and its commit is done. Else the store would be ahead of its
    /// positions.
    #[must_use]
    pub fn take_unsaved(&mut self) -> Unsaved {
        let unsaved = Unsaved {
            puts: UnsavedPanes::of(&self.windows).to_changes(),
            dead: windows::dead(&self.windows),
        };
        windows::saved(&mut self.windows);
        unsaved
    }

    /// As [`Self::take_unsaved`], for stores that take pane after pane: `save` is given the dead ranges, which come first,
    /// and the panes. What was given counts as stored once it has returned.
    ///
    /// # Errors
    /// What `save` returns; the pipeline is as it was.
    pub fn save_unsaved<E>(
        &mut self,
        save: impl FnOnce(&[KeyRange], &UnsavedPanes<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        save(
            &windows::dead(&self.windows),
            &UnsavedPanes::of(&self.windows),
        )?;
        windows::saved(&mut self.windows);
        Ok(())
    }
}
