//! The checkpoints that lie on a volume, read without a store.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use turbine_keygroups::Partition;
use turbine_protocol::{StoreEpoch, StoreIdentity, SubscriptionName, Task};
use turbine_state::checkpoint::{
    CHECKPOINTS_FOLDER, Checksum, Choice, Found, Manifest, Objects, Sequence, choose,
};

use super::volume::Place;

/// The stores that have checkpoints here.
pub(super) fn places(root: &Path) -> anyhow::Result<Vec<Place>> {
    let root = root.join(CHECKPOINTS_FOLDER);
    let mut found = Vec::new();
    for subscription in named::<SubscriptionName>(&root)? {
        let folder = root.join(subscription.as_str());
        for number in named::<i32>(&folder)? {
            let Ok(partition) = Partition::try_from(number) else {
                continue;
            };
            let epochs = named::<i64>(&folder.join(number.to_string()))?;
            found.extend(
                epochs
                    .into_iter()
                    .filter_map(|epoch| StoreEpoch::try_from(epoch).ok())
                    .map(|epoch| Place {
                        task: Task {
                            subscription: subscription.clone(),
                            partition,
                        },
                        epoch,
                    }),
            );
        }
    }
    Ok(found)
}

fn folder(root: &Path, place: &Place) -> PathBuf {
    root.join(CHECKPOINTS_FOLDER)
        .join(place.task.subscription.as_str())
        .join(place.task.partition.get().to_string())
        .join(place.epoch.to_string())
}

pub(super) fn files(root: &Path, place: &Place) -> PathBuf {
    folder(root, place).join("files")
}

/// What can be taken and what cannot: of the store that is `expected`, or else of the one that the
/// newest manifest says.
pub(super) fn look(
    root: &Path,
    place: &Place,
    expected: Option<&StoreIdentity>,
) -> anyhow::Result<Choice> {
    let manifests = folder(root, place).join("manifests");
    let mut found = Vec::new();
    for name in names(&manifests)? {
        let Some(sequence) = Sequence::of_manifest(&name) else {
            continue;
        };
        let path = manifests.join(&name);
        let stored = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        found.push(Found {
            sequence,
            read: Manifest::from_json(sequence, &stored),
        });
    }
    found.sort_by_key(|one| one.sequence);
    let own = found
        .iter()
        .rev()
        .find_map(|one| Some(one.read.as_ref().ok()?.identity.clone()));
    let folder = files(root, place);
    let mut objects = Objects::new();
    for name in names(&folder)? {
        let size = fs::metadata(folder.join(&name))?.len();
        objects.insert(name, size);
    }
    Ok(match expected.or(own.as_ref()) {
        Some(expected) => choose(&found, &objects, expected),
        // No manifest can be read.
        None => Choice {
            intact: Vec::new(),
            refused: found
                .into_iter()
                .rev()
                .filter_map(|one| {
                    Some(turbine_state::checkpoint::Refused {
                        name: one.sequence.manifest_name(),
                        refusal: one.read.err()?,
                    })
                })
                .collect(),
        },
    })
}

/// What is wrong with the content of checkpoints whose files are all there. Each file is read once.
pub(super) fn damage(
    root: &Path,
    place: &Place,
    intact: &[Manifest],
) -> anyhow::Result<Vec<String>> {
    let folder = files(root, place);
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut read: BTreeMap<String, bool> = BTreeMap::new();
    for manifest in intact {
        for file in &manifest.files {
            let name = file.object_name();
            let whole = if let Some(whole) = read.get(&name) {
                *whole
            } else {
                let path = folder.join(&name);
                let content =
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let whole = Checksum::of(&content) == file.sha256;
                read.insert(name.clone(), whole);
                whole
            };
            if !whole {
                let name = wrong.entry(name).or_default();
                name.push(manifest.sequence.to_string());
            }
        }
    }
    Ok(wrong
        .into_iter()
        .map(|(file, checkpoints)| {
            format!(
                "file `{file}` of checkpoint {} is not what was written: its checksum does not fit",
                checkpoints.join(", ")
            )
        })
        .collect())
}

/// Names in a folder, ascending; none if it is not there.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.with_context(|| format!("cannot read {}", folder.display())),
    }
}

fn named<T: FromStr>(folder: &Path) -> anyhow::Result<Vec<T>> {
    Ok(names(folder)?
        .into_iter()
        .filter_map(|name| name.parse().ok())
        .collect())
}
