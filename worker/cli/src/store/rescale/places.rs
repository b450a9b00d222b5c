//! Where old state comes from and new state goes to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tempfile::TempDir;
use turbine_protocol::{StoreEpoch, StoreIdentity, SubscriptionName, VolumeMarker};
use turbine_state::checkpoint::{Archive, CheckpointMeta, Checkpointer, S3Bucket, Snapshot};
use turbine_state::moving::{Move, MovePlan};
use turbine_state::{MARKER_FILE, StateBudget, StateVolume};

use super::{MEMORY, STORES};

/// Name of the folder for what is on its way. No subscription has such a name.
const WORK: &str = "_rescale";

/// A place with old state.
pub(super) enum OldPlace {
    /// The volume of a worker.
    Volume(PathBuf),
    /// Checkpoints alone.
    Archive(Arc<Checkpointer>),
}

impl OldPlace {
    /// The places that `--state` names: volumes, or one place of checkpoints.
    pub(super) fn all(names: &[String]) -> anyhow::Result<Vec<Self>> {
        let places = names
            .iter()
            .map(|name| Self::new(name))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let archives = places
            .iter()
            .filter(|place| matches!(place, Self::Archive(_)));
        if archives.count() > 0 && places.len() > 1 {
            anyhow::bail!(
                "--state: name one place of checkpoints, or folders of workers' state only"
            );
        }
        Ok(places)
    }

    fn new(name: &str) -> anyhow::Result<Self> {
        match archive(name)? {
            bucket @ Archive::Bucket { .. } => Ok(Self::Archive(open(name, &bucket)?)),
            Archive::Folder(folder) if folder.join(MARKER_FILE).is_file() => {
                Ok(Self::Volume(folder))
            }
            Archive::Folder(folder) => {
                if !folder.is_dir() {
                    anyhow::bail!("--state {name}: there is no such folder");
                }
                let archive = open(name, &Archive::Folder(folder))?;
                if archive.subscriptions()?.is_empty() {
                    anyhow::bail!(
                        "--state {name}: there is no {MARKER_FILE} and no checkpoint in it, so it is neither a folder of a \
                         worker's state nor one with an app's checkpoints"
                    );
                }
                Ok(Self::Archive(archive))
            }
        }
    }
}

fn open(name: &str, archive: &Archive) -> anyhow::Result<Arc<Checkpointer>> {
    let opened = Checkpointer::of_archive(archive).with_context(|| format!("cannot use {name}"))?;
    Ok(Arc::new(opened))
}

/// What a DIR or URL means.
fn archive(name: &str) -> anyhow::Result<Archive> {
    if let Some(path) = name.strip_prefix("file://") {
        return Ok(Archive::Folder(PathBuf::from(path)));
    }
    let Some(rest) = name.strip_prefix("s3://") else {
        if name.contains("://") {
            anyhow::bail!("{name}: a URL begins with s3:// or file://");
        }
        return Ok(Archive::Folder(PathBuf::from(name)));
    };
    let wanted = "write s3://BUCKET/PREFIX/APP, or s3://BUCKET/APP without a prefix";
    let (bucket, path) = rest
        .split_once('/')
        .with_context(|| format!("{name}: {wanted}"))?;
    let path = path.trim_end_matches('/');
    let (prefix, app) = path.rsplit_once('/').unwrap_or(("", path));
    let environment = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok());
    let endpoint = environment(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]);
    Ok(Archive::Bucket {
        bucket: S3Bucket {
            bucket: bucket.to_owned(),
            region: environment(&["AWS_REGION", "AWS_DEFAULT_REGION"])
                .unwrap_or_else(|| "us-east-1".to_owned()),
            // Servers that are not AWS mostly have no names for buckets.
            path_style: endpoint.is_some(),
            endpoint,
            prefix: prefix.to_owned(),
            credentials: None,
        },
        app: app.parse().with_context(|| format!("{name}: {wanted}"))?,
    })
}

/// Where new state goes.
pub(super) enum NewPlace {
    /// A volume for a worker.
    Volume { root: PathBuf },
    /// Checkpoints.
    Archive {
        name: String,
        archive: Arc<Checkpointer>,
        /// Where new stores are made; none for a temporary folder.
        work: Option<PathBuf>,
    },
}

/// The folder of the move; a temporary one goes at the end.
pub(super) enum Work {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl Work {
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Kept(path) => path.clone(),
            Self::Temporary(folder) => folder.path().join(WORK),
        }
    }
}

impl NewPlace {
    /// What `--out` names: of volumes a volume is made, of checkpoints checkpoints; in a bucket are always checkpoints.
    pub(super) fn new(name: &str, from: &[OldPlace], work: Option<&Path>) -> anyhow::Result<Self> {
        let archive = archive(name)?;
        let of_volumes = from
            .iter()
            .any(|place| matches!(place, OldPlace::Volume(_)));
        let folder = match &archive {
            Archive::Folder(folder) => Some(folder.clone()),
            Archive::Bucket { .. } => None,
        };
        if let Some(root) = folder.clone().filter(|_| of_volumes) {
            return Ok(Self::Volume { root });
        }
        let work = work.map(|folder| folder.join(WORK));
        Ok(Self::Archive {
            name: name.to_owned(),
            work: folder.map(|folder| folder.join(WORK)).or(work),
            archive: open(name, &archive)?,
        })
    }

    /// Whether nothing is there, or an earlier try of a move.
    pub(super) fn is_free(
        &self,
        subscription: &SubscriptionName,
        plan: &MovePlan,
        epoch: StoreEpoch,
    ) -> anyhow::Result<()> {
        if self.begun() {
            return Ok(());
        }
        match self {
            Self::Volume { root } => {
                let names = match fs::read_dir(root) {
                    Ok(names) => names.collect::<Result<Vec<_>, _>>(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    Err(error) => Err(error),
                };
                let names = names.with_context(|| format!("cannot read {}", root.display()))?;
                // The folder of a try that ended before it had begun is not the user's.
                if names.iter().any(|name| name.file_name() != WORK) {
                    anyhow::bail!(
                        "--out {}: the folder is not empty; name one that is, or is not there yet",
                        root.display()
                    );
                }
                Ok(())
            }
            Self::Archive { name, archive, .. } => {
                let there = archive.stores_of(subscription)?;
                let taken = there
                    .into_iter()
                    .find(|(partition, of)| *of == epoch && partition.index() < plan.to().get());
                match taken {
                    Some((partition, _)) => anyhow::bail!(
                        "--out {name}: there are checkpoints of {subscription}/{partition} of epoch {epoch} already; remove \
                         those of this epoch, or name another place"
                    ),
                    None => Ok(()),
                }
            }
        }
    }

    /// Whether an earlier try was broken off that this one can take up.
    fn begun(&self) -> bool {
        let work = match self {
            Self::Volume { root } => Some(root.join(WORK)),
            Self::Archive { work, .. } => work.clone(),
        };
        work.is_some_and(|work| Move::begun_in(&work))
    }

    /// Whether so many bytes can be written.
    pub(super) fn has_room(&self, bytes: u64) -> anyhow::Result<()> {
        let folder = match self {
            Self::Volume { root } => root.clone(),
            Self::Archive {
                work: Some(work), ..
            } => work.clone(),
            Self::Archive { work: None, .. } => std::env::temp_dir(),
        };
        let budget = StateBudget::new(MEMORY, STORES)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let volume = StateVolume::open(&folder, budget)?;
        match volume.free_bytes() {
            Some(free) if free < bytes => anyhow::bail!(
                "{}: about {bytes} bytes have to be written and {free} are free: make room, or name another folder",
                folder.display()
            ),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn work_folder(&self) -> anyhow::Result<Work> {
        Ok(match self {
            Self::Volume { root } => Work::Kept(root.join(WORK)),
            Self::Archive {
                work: Some(work), ..
            } => Work::Kept(work.clone()),
            Self::Archive { work: None, .. } => Work::Temporary(
                tempfile::Builder::new()
                    .prefix("turbine-rescale-")
                    .tempdir()
                    .context("no folder for files on their way can be made: name one by --work")?,
            ),
        })
    }

    /// The place of a new store; none if it becomes a checkpoint.
    pub(super) fn store_path(&self, identity: &StoreIdentity) -> Option<PathBuf> {
        match self {
            Self::Volume { root } => Some(
                root.join(identity.subscription.as_str())
                    .join(identity.partition.get().to_string())
                    .join(identity.store_epoch.to_string()),
            ),
            Self::Archive { .. } => None,
        }
    }

    /// Writes a new store as a checkpoint.
    pub(super) fn save(&self, folder: &Path, meta: CheckpointMeta) -> anyhow::Result<()> {
        if let Self::Archive { archive, .. } = self {
            let snapshot = Snapshot::of_folder(folder.to_owned());
            archive.save(snapshot, meta).wait()?;
        }
        Ok(())
    }

    /// Makes a folder of stores the volume of a worker. Before this no worker takes it for one.
    pub(super) fn complete(&self, marker: &VolumeMarker) -> anyhow::Result<()> {
        if let Self::Volume { root } = self {
            StateVolume::open(root, StateBudget::new(MEMORY, STORES)?)?.mark(marker)?;
        }
        Ok(())
    }

    /// A volume on which old stores can be linked.
    pub(super) fn root(&self) -> Option<&Path> {
        match self {
            Self::Volume { root } => Some(root),
            Self::Archive { work, .. } => work.as_deref(),
        }
    }
}
