//! Event-time windows over Arrow batches: a deterministic machine without I/O and without a
//! clock. Time is an argument, state comes in and goes out as bytes.
//!
//! # Order of rules for one row
//!
//! Rows are judged one by one in log order, so results never depend on where batches are cut:
//!
//! 1. **Event time.** Missing, outside [`EVENT_TIME_RANGE`] (years 1 to 9999, UTC) or further
//!    ahead of the wall clock than `max_future_ms`: the row is in error.
//! 2. **Null key.** A null partition key goes to the null group, is in error or is dropped and
//!    counted, as [`OnNullKey`] says. A composite key with a null part is a null key.
//! 3. **Lateness.** For each window, the row belongs to `[start, end)` with
//!    `start = floor(t / size) * size`, below the epoch too. If that window has closed, the row is
//!    late for it, dropped there and counted. Windows are judged apart.
//! 4. **Placement.** A row that would make a pane must have a key that murmur2 puts into the
//!    task's own partition, or it is in error ([`RowFault::Misplaced`]); a row that folds into a
//!    pane has the key of the row that made it. With [`PlacementCheck::Observe`] it is reported
//!    and folded. Null keys prove nothing and are never misplaced.
//! 5. **Aggregates.** All of the row's aggregates in all of its windows are checked before any is
//!    changed. An integer sum that would leave the 64-bit range, or a float input or sum that is
//!    not finite, puts the row in error.
//! 6. **Frontier.** Only a row that passed all this moves the frontier. A row in error has no
//!    effect at all: no aggregate, no window, no clock, no counter but its own.
//!
//! # Frontier
//!
//! The **data frontier** is the running maximum of event time, less `out_of_orderness_ms`. The
//! **frontier** is the data frontier, or what idling moved it to if that is further. Neither ever
//! goes back, also not through a restart with another `out_of_orderness_ms`.
//!
//! A window closes as soon as `frontier >= end + allowed_lateness_ms`, and once: `closed_to` of
//! each window (the highest such `end`) is stored with the clocks, so that a longer lateness in a
//! later spec reopens nothing. Between the row that moves the frontier and the end of the batch
//! closed panes take no row, since each row is judged against the frontier as it stands at that
//! row.
//!
//! # Idling
//!
//! Idle means that nothing is left to read, not that nothing came: the caller says for how long
//! the task has stood at the end of its log, by a monotonic clock, in [`Pipeline::on_idle`]. With
//! [`IdlePolicy::Coast`] and from the timeout on, the frontier is where it stood when the idle
//! spell began plus the spell's length; so it moves as fast as the wall clock and does not depend
//! on what the wall clock shows. Downtime does not count: a spell never outlives the process. With
//! [`IdlePolicy::Hold`] the frontier waits, and the same log always gives the same results. Before
//! the first row there is no frontier and nothing to move. A row that is late only because of
//! coasting is counted apart.
//!
//! # Aggregates
//!
//! | aggregate | input | result | nulls |
//! |---|---|---|---|
//! | count of rows | | int64 | counted |
//! | count of a column | any | int64, number of values | left out |
//! | sum | int64, float64 | the same type, exact for integers; null without values | left out |
//! | min, max | any | the same type; null without values | left out |
//! | mean | int64, float64 | float64, for integers the correctly rounded quotient of the exact sum; null without values | left out |
//!
//! Text is ordered by its UTF-8 bytes, `false` before `true`, `-0.0` before `0.0`. Float sums are
//! taken in log order. A result is never NaN or infinite: a value that is, or that would make a
//! sum so, puts its row in error and the aggregate keeps its last good value.
//!
//! # Results
//!
//! One table per window: the key columns in their own types (null stays null), then
//! `window_start_ms`, `window_end_ms`, then the aggregates. Panes whose aggregates are all null
//! are left out. Rows are ordered by window end, then by stored key order.
//! With [`PartitionKey::RecordKey`] the record's key is the first key of each window, as the
//! binary column `record_key`.
//!
//! # State
//!
//! Open panes live in memory. They are stored twice, and [`Pipeline::restore`] builds the pipeline
//! anew from both and the [`Clocks`]:
//!
//! - A **commit** gives the journal what changed since the last one ([`Pipeline::take_changes`]):
//!   panes and their values, in no order, and no deletes. [`Pipeline::clocks`] goes into the same
//!   atomic write, with the positions of the input.
//! - A **checkpoint** gives its store what that lacks ([`Pipeline::take_unsaved`]): panes that
//!   changed since the last checkpoint, in the order of keys, and the ranges of keys that are dead.
//!
//! Which panes are dead, the clocks say: `drained_to` of each window is how far its closed panes
//! were handed out by [`Pipeline::drain_closed`]. A stored pane of a window that ends at or before
//! it is never taken in again; the next checkpoint deletes it. A pane that is due and was not
//! handed out comes out after the restore.
//!
//! Keys begin with the two bytes of the pane's key group, then come the window's name, its start
//! and the key tuple, so that all panes of one key group in one window instance, a **slice**, are one range.
//!
//! # Memory
//!
//! Memory does not have to follow the number of keys. After a checkpoint [`Pipeline::evict`] drops
//! panes by slices until [`Pipeline::live_bytes`] is low enough; a slice from which panes were
//! dropped is **cold**. Before a batch is folded, rows that fall into cold slices and find no pane
//! in memory have their panes looked up in one [`ColdPanes::get_many`]; so each row meets what it
//! would meet with everything in memory, and results never depend on what was dropped.
//! [`Pipeline::restore`] starts with every slice cold, [`Pipeline::warm`] reads slices in
//! order while there is room, and [`Pipeline::drain_closed`] merges what is in memory and what is
//! cold, some panes at a time. [`AllLive`] stands for the store where nothing is ever cold.

//! # The same rows again
//!
//! A pipeline of an older state comes to a later one by taking the rows between once more, without results
//! ([`Pipeline::retrace`], [`Pipeline::catch_up`]). Which rows a window takes that is open at the later frontier does not
//! depend on where batches were cut or whether idling moved the frontier meanwhile: none of its rows was ever late. Windows
//! that had closed were handed out, so what is folded into them again is dropped. Where a close was handed out in part, the
//! panes that were are known by their number, since their order is fixed ([`HandingOut`]).

mod aggregates;
mod batch;
mod clock;
mod cold;
mod columns;
mod error;
mod keys;
mod owners;
mod pipeline;
mod placement;
mod spec;
mod state;
mod stored_pane;
mod windows;

pub use batch::{InputBatch, LateRows, Outcome, RowError, RowFault};
pub use clock::{Clocks, EVENT_TIME_RANGE, HandingOut, Trail};
pub use cold::{AllLive, ColdPanes, NothingCold, ShowPane};
pub use error::{BatchError, Category, PipelineError, RestoreError, SpecError, StateError};
pub use owners::{PaneOwner, PaneOwners};
pub use pipeline::{ClosedRows, Pipeline, RestoreReport};
pub use placement::{Placement, PlacementCheck};
pub use spec::{
    Aggregate, AggregateSpec, Column, ColumnType, IdlePolicy, MAX_DURATION_MS, OnNullKey,
    OnRowError, PartitionKey, PipelineSpec, RECORD_KEY_COLUMN, WINDOW_END_COLUMN,
    WINDOW_START_COLUMN, WindowKind, WindowSpec,
};
pub use state::{Change, Changes, KeyRange, Unsaved};
pub use stored_pane::{StoredPane, TuplePart};
pub use windows::UnsavedPanes;
