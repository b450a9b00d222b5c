//! Windows: which panes are open, and how they are stored and shown.

mod bucket;
mod close;
mod save;
mod slices;
mod stored;
mod window;

pub(crate) use bucket::{Hasher, NewPane};
pub(crate) use save::unsaved;
pub(crate) use slices::Slice;
pub(crate) use stored::PaneKey;
pub(crate) use window::{Place, Window};
