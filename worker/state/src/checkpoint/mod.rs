//! Checkpoints: copies of stores that outlive a volume.
//!
//! ```text
//! <place>/<subscription>/<partition>/<store epoch>/manifests/<20-digit number>.json
//! <place>/<subscription>/<partition>/<store epoch>/files/<file name>-<SHA-256>
//! ```
//!
//! The place is `_checkpoints` on the volume itself, where files are hard links and take no room, or a bucket
//! (`<prefix>/<app>` in it). A file of the same name and content is kept once, however many checkpoints have it. The
//! **manifest** is written last and alone makes a checkpoint real; it has the size and SHA-256 of every file and one over
//! itself. Whatever is broken off before it is as if it had never begun.
//!
//! # Use
//!
//! 1. [`Checkpointer::open`] once per process; [`Checkpointer::check`] tries the rights.
//! 2. On the task's thread, when the store holds all that is to be in the checkpoint: [`Checkpointer::snapshot`] of its open
//!    database (a flush and links; milliseconds), then [`Checkpointer::save`], which returns at once. Files are read,
//!    summed, written and, after the manifest, pruned on threads of the checkpointer. [`Saving`] tells progress and
//!    outcome; dropping it leaves the work going. [`Checkpointer::status`] tells number, age, bytes and error.
//! 3. At the start of a task without a store: [`Checkpointer::restore`] into the store's path. `None` says that there never
//!    was a checkpoint; [`CheckpointError::NoneIntact`] that there are some and none can be taken, so that a store is
//!    never silently empty. [`Checkpointer::look`] shows what is there without restoring.
//!
//! Calls that wait may be made from any thread, also from within an asynchronous runtime, which they block.
//!
//! One process at a time writes the checkpoints of a store: the one that the assignment says. Any number may read. A reader
//! whose checkpoint is pruned meanwhile takes a newer one.

mod archive;
mod checkpointer;
mod choice;
mod error;
pub(crate) mod local;
pub(crate) mod manifest;
mod object;
mod object_error;
mod place;
mod prune;
mod refusal;
mod restore;
mod settings;
mod snapshot;
mod status;
mod sums;
#[cfg(test)]
mod tests;
mod upload;

pub use archive::Archive;
pub use checkpointer::{CHECKPOINTS_FOLDER, Checkpointer, Saving};
pub use choice::{Choice, Found, Objects, choose};
pub use error::{CheckpointError, Right};
pub use manifest::{
    Checksum, FileName, KeyRange, MANIFEST_VERSION, Manifest, ManifestFile, Sequence,
};
pub use place::Bytes;
pub use prune::{LEAST_RETAINED, PrunePlan, plan as prune_plan};
pub use refusal::{Refusal, Refused};
pub use restore::{RESTORING, Restored};
pub use settings::{CheckpointSettings, Destination, S3Bucket, S3Credentials};
pub use snapshot::Snapshot;
pub use status::{CheckpointStatus, LastCheckpoint};
pub use upload::{CheckpointMeta, Saved};
