//! State on a volume: one store per task, what it says it is, and commits that are there or not
//! there as one.
//!
//! Everything above speaks to [`TaskState`], so that how state is kept can change without them.

mod budget;
pub mod checkpoint;
mod error;
pub mod fault;
mod files;
mod journal;
pub mod moving;
mod playback;
mod reader;
mod restored;
mod rows;
mod store;
mod task_state;
mod volume;

pub use budget::{BudgetTooSmall, StateBudget};
pub use error::StateError;
pub use reader::{StoreReader, VolumeReader};
pub use restored::RestoredStore;
pub use store::TaskStore;
pub use task_state::{GiveRows, Progress, Show, StateSizes, TakeRow, TaskState, Visit};
pub use volume::{FoundStore, MARKER_FILE, Room, StateVolume};
