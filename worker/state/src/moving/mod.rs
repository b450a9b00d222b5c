//! A change of the partition count: new stores from the files of old ones. Rows are never the unit.
//!
//! # Way
//!
//! 1. [`MovePlan::new`] says what each new task takes of which old one. It reads nothing: a dry run ends here.
//! 2. [`Move::open`] names a folder for the move, on the volume of the new stores. [`Move::take_store`] and
//!    [`Move::take_checkpoint`] bring copies of the old stores into it. Tables are links where both are on one volume. What
//!    a checkpoint's manifest says of its files is compared; files that are there already are not brought again.
//! 3. [`Move::build`] makes the store of one new task. If it draws from one old store ([`Way::Clip`]), that is a copy made of
//!    links, less the files of other groups, with the rest of them hidden by range deletes; a later compaction frees their
//!    room. If it draws from several ([`Way::Merge`]), what it takes of each is written once more, without keys or deletes
//!    of other groups, and the files are taken in together.
//! 4. [`Move::place`] gives it its place, by a rename.
//!
//! Each step can be repeated, also after a crash in the middle: what is whole stays, what is not is begun anew.
//!
//! # What a new store says
//!
//! Its identity has the new count and epoch, and a format of its own ([`turbine_protocol::MOVED_FORMAT_VERSION`]), since it
//! is only read right with its [`Origin`]s: of each old task that it draws from, the positions, the last entry and the
//! clocks. It has committed nothing. [`MoveManifest`] says of which files it was made; it is compared with the plan before
//! the store has its place: each key group of each old task once. The null group never moves.
//!
//! This worker does not start on such a store yet: it refuses it ([`crate::StateError::Moved`]).

mod build;
mod cut;
mod error;
mod make;
mod manifest;
mod old;
mod origin;
mod plan;
mod sums;

pub use build::Move;
pub use error::MoveError;
pub use manifest::{MoveManifest, Piece, PieceFile, Uncovered};
pub use old::OldStore;
pub use origin::Origin;
pub use plan::{Draw, Estimate, MovePlan, PlanRefusal, TaskPlan, Way};
pub use sums::{GroupSum, GroupSums};

#[cfg(test)]
mod tests;
