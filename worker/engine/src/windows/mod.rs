//! Windows: which panes are open, and how they are stored and shown.

mod bucket;
mod close;
mod cold;
mod order;
mod panes;
mod save;
mod slices;
mod stored;
mod window;

pub(crate) use bucket::{Hasher, NewPane};
pub(crate) use close::Room;
pub(crate) use cold::Wanted;
pub use save::UnsavedPanes;
pub(crate) use save::{dead, saved};
pub(crate) use slices::Slice;
pub(crate) use stored::{PaneKey, header_signature, key_after};
pub(crate) use window::{Place, Window};
