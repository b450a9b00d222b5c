//! How a record is counted once: names at the broker, epochs, entries and their receipts, the
//! order in which a task starts and commits, and which pod runs which task.
//!
//! Data to data: nothing here reads a clock, a file or a socket. What the worker and the operator
//! decide is decided here, so that every decision is tested without either.

pub mod client_properties;
pub mod commit;
pub mod edges;
pub mod entry;
pub mod epochs;
pub mod fault;
pub mod holder;
pub mod identity;
pub mod journal;
pub mod layout;
pub mod names;
pub mod offset;
pub mod receipt;
mod refusal;
pub mod start;
pub mod transaction;

pub use entry::{Change, Entry, EntryChecksum, EntryTooLarge, Frontier, Position, StoredEntry};
pub use epochs::{EntryNumber, LayoutEpoch, Lineage, StoreEpoch};
pub use fault::{Category, Fault};
pub use identity::{
    Difference, Differences, FORMAT_VERSION, MOVED_FORMAT_VERSION, StoreIdentity, VolumeMarker,
};
pub use layout::Task;
pub use names::{AppId, GroupId, HopName, SubscriptionName, TopicName, TransactionalId};
pub use offset::{LogBounds, Offset};
pub use receipt::{CommittedReceipt, HandedOut, History, Receipt, Retrace};
