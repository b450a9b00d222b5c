//! A checkpoint in place of a store.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use clap::Args;
use tempfile::TempDir;
use turbine_state::checkpoint::{Choice, Manifest, Sequence};
use turbine_state::{StoreReader, VolumeReader};

use super::checkpoints;
use super::volume::{NO_STORE, Place};

#[derive(Debug, Args)]
pub(crate) struct CheckpointOption {
    /// Read this checkpoint on the volume in place of the store: its number as `store inspect` prints it, or `latest`, the newest
    /// that has all its files
    #[arg(long, value_name = "NUMBER|latest")]
    pub(super) checkpoint: Option<Wanted>,
}

/// Which checkpoint of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Latest,
    Number(Sequence),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        text.parse()
            .map(|number| Self::Number(Sequence(number)))
            .map_err(|_| "a checkpoint is a number, or `latest`".to_owned())
    }
}

/// A store, or a checkpoint of one, that can be read.
pub(super) struct Opened {
    pub(super) store: StoreReader,
    pub(super) path: PathBuf,
    pub(super) checkpoint: Option<Sequence>,
    /// Bytes of the checkpoint's files.
    pub(super) bytes: Option<u64>,
    /// Newer checkpoints that cannot be taken, in words.
    pub(super) passed_over: Vec<String>,
    /// Goes once the store is closed.
    _links: Option<TempDir>,
}

impl Opened {
    pub(super) fn of_store(store: StoreReader) -> Self {
        Self {
            path: store.path().to_owned(),
            store,
            checkpoint: None,
            bytes: None,
            passed_over: Vec::new(),
            _links: None,
        }
    }
}

/// Opens a checkpoint of a store, through a folder of links that have the names of a store's files. Symbolic ones, in the
/// system's folder for such: the volume need not be writable, and what happens to a link does not happen to the file.
pub(super) fn open(volume: &VolumeReader, place: &Place, wanted: Wanted) -> anyhow::Result<Opened> {
    let choice = checkpoints::look(volume.root(), place, None)?;
    let (manifest, passed_over) =
        pick(choice, wanted).map_err(|refused| anyhow::anyhow!("{}: {refused}", place.task))?;
    let files = checkpoints::files(volume.root(), place);
    let links = link(&manifest, &files)?;
    let number = manifest.sequence;
    let store = volume
        .open_copy(links.path())
        .with_context(|| format!("checkpoint {number} of {}", place.task))?
        .ok_or_else(|| anyhow::anyhow!("checkpoint {number} of {}: {NO_STORE}", place.task))?;
    if *store.identity() != manifest.identity {
        anyhow::bail!(
            "checkpoint {number} of {} holds another store than its manifest says",
            place.task
        );
    }
    Ok(Opened {
        store,
        path: files,
        checkpoint: Some(number),
        bytes: Some(manifest.bytes()),
        passed_over,
        _links: Some(links),
    })
}

fn link(manifest: &Manifest, files: &Path) -> anyhow::Result<TempDir> {
    let files = files
        .canonicalize()
        .with_context(|| format!("cannot read {}", files.display()))?;
    let links = tempfile::Builder::new()
        .prefix("turbine-checkpoint-")
        .tempdir()
        .context("no folder for links to a checkpoint can be made: name another one by TMPDIR")?;
    for file in &manifest.files {
        let link = links.path().join(file.name.as_str());
        symlink(files.join(file.object_name()), &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
    }
    Ok(links)
}

/// The checkpoint that is wanted, and what is to be said of newer ones.
fn pick(choice: Choice, wanted: Wanted) -> Result<(Manifest, Vec<String>), String> {
    let Choice { intact, refused } = choice;
    match wanted {
        Wanted::Latest => {
            let newest = intact
                .into_iter()
                .next()
                .ok_or("no checkpoint has all its files: `store verify` says what is wrong")?;
            let own = newest.sequence.manifest_name();
            let newer = refused.iter().filter(|refused| refused.name > own);
            let words = newer.map(ToString::to_string).collect();
            Ok((newest, words))
        }
        Wanted::Number(number) => {
            if let Some(refused) = refused
                .iter()
                .find(|refused| refused.name == number.manifest_name())
            {
                return Err(refused.to_string());
            }
            let there: Vec<_> = intact
                .iter()
                .map(|manifest| manifest.sequence.to_string())
                .collect();
            let found = intact
                .into_iter()
                .find(|manifest| manifest.sequence == number);
            let manifest = found.ok_or_else(|| {
                format!(
                    "there is no checkpoint {number}; there are: {}",
                    if there.is_empty() {
                        "none".to_owned()
                    } else {
                        there.join(", ")
                    }
                )
            })?;
            Ok((manifest, Vec::new()))
        }
    }
}
