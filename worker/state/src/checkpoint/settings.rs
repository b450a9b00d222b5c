//! Where checkpoints go and how many are kept.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use turbine_protocol::AppId;

/// Where checkpoints go and how many are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// How many are kept per store; never fewer than [`super::LEAST_RETAINED`].
    pub retain: NonZeroUsize,
    /// Where they go.
    pub destination: Destination,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self {
            retain: const { NonZeroUsize::new(3).unwrap() },
            destination: Destination::Volume,
        }
    }
}

/// Where checkpoints go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The volume of the stores, as links to their files: no room is taken twice.
    Volume,
    /// A folder of another volume, which is there already, with copies of the files.
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Whose checkpoints; each app has a folder of its own in it.
        app: AppId,
    },
    /// A bucket of S3 or of what speaks like it.
    S3 {
        /// Where, and how to get there.
        bucket: S3Bucket,
        /// Whose checkpoints; each app has a prefix of its own.
        app: AppId,
    },
}

/// A bucket of S3 or of what speaks like it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Bucket {
    /// The bucket's name.
    pub bucket: String,
    /// Its region.
    pub region: String,
    /// Address of the service, with scheme; `None` for that of AWS in the region. `http://` is taken as it is given.
    pub endpoint: Option<String>,
    /// Put before all paths; empty for none.
    pub prefix: String,
    /// The bucket's name stands in the path instead of the host's name.
    pub path_style: bool,
    /// Files with the credentials. `None`: what the environment gives (`AWS_...` variables, web identity, instance role).
    pub credentials: Option<S3Credentials>,
}

/// Files with credentials. They are read for every request: when they are renewed, the next one carries the new ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Credentials {
    /// The id of the access key.
    pub access_key_id: PathBuf,
    /// The secret part of the access key.
    pub secret_access_key: PathBuf,
    /// The token of credentials that end. The file need not be there.
    pub session_token: PathBuf,
}
