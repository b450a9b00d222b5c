//! The data side of a change of the partition count under traffic: through which cursors the tasks of the new layout read, so that
//! every record is applied once by the owner of its key, in its producer's order, and nothing becomes late by the change.
//!
//! A topic grows from `N` partitions to `N'`. Producers learn of it one by one, so for a while records of one key lie in two
//! partitions. Nobody waits for them: a new task reads its own partition (*kept* and *moved-in*) and the old partitions that its
//! keys come from (*tails*), each with its own filter ([`Growth::claim`]). Moved-in waits for the tails at a [`Gate`]. The frontier
//! advances to what all cursors vouch for ([`Reading::advance`]).
//!
//! Nothing here runs in a worker yet.

mod closed_to;
mod closing;
mod cursor;
mod gate;
mod growth;
mod plan;
mod reading;
pub mod seal;
pub mod steps;
mod time;
mod vouch;

pub use closed_to::ClosedTo;
pub use closing::{Closing, Proposal, Round};
pub use cursor::{Cursor, CursorKind};
pub use gate::{Gate, TailAt};
pub use growth::{Claim, Growth, NotAGrowth, RecordKey};
pub use plan::{OldStop, Plan, Planned, Unfit};
pub use reading::{
    CountFound, End, Hold, Layout, NotNow, Open, Reading, Row, Stop, StoredReading, Taken,
};
pub use time::{Millis, Moment, Waits};
pub use vouch::{Ends, Question, Seen};
