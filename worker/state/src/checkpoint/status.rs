//! How the checkpoints of a store stand.

use std::time::Duration;

use turbine_protocol::EntryNumber;

use super::error::CheckpointError;
use super::manifest::{Manifest, Sequence};
use super::place::Bytes;

/// How the checkpoints of a store stand, as far as this process knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    /// The newest one that is known to be there.
    pub last: Option<LastCheckpoint>,
    /// How many are being written or wait for it.
    pub running: usize,
    /// How far the one that is being written came, or the last one did.
    pub progress: Bytes,
    /// Why the last try did not end well; `None` once one does.
    pub error: Option<CheckpointError>,
}

/// A checkpoint that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// Its number.
    pub sequence: Sequence,
    /// Number of the last commit in it.
    pub entry: EntryNumber,
    /// When it was made, in milliseconds since the Unix epoch.
    pub made_at_ms: i64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Bytes that it added to those before; `None` if another life of this program wrote it.
    pub new_bytes: Option<u64>,
}

impl LastCheckpoint {
    pub(crate) fn of(manifest: &Manifest, new_bytes: Option<u64>) -> Self {
        Self {
            sequence: manifest.sequence,
            entry: manifest.entry,
            made_at_ms: manifest.made_at_ms,
            bytes: manifest.bytes(),
            new_bytes,
        }
    }

    /// How old it is at a time in milliseconds since the Unix epoch; 0 if the clock went back.
    #[must_use]
    pub fn age(&self, now_ms: i64) -> Duration {
        let millis = now_ms.saturating_sub(self.made_at_ms);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}
