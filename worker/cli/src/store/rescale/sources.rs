//! The old stores: one per partition, from volumes or from checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{StoreEpoch, StoreIdentity, SubscriptionName, Task};
use turbine_state::checkpoint::{Archive, CHECKPOINTS_FOLDER, Checkpointer, Choice, Manifest};
use turbine_state::moving::MoveError;
use turbine_state::{StateBudget, VolumeReader};

use super::places::OldPlace;
use super::{MEMORY, STORES};

/// The state of one old partition.
pub(super) enum Source {
    /// A store that is stopped.
    Store {
        folder: PathBuf,
        identity: StoreIdentity,
        entry: i64,
        bytes: u64,
    },
    /// A checkpoint.
    Checkpoint {
        archive: Arc<Checkpointer>,
        manifest: Box<Manifest>,
    },
}

impl Source {
    pub(super) fn identity(&self) -> &StoreIdentity {
        match self {
            Self::Store { identity, .. } => identity,
            Self::Checkpoint { manifest, .. } => &manifest.identity,
        }
    }

    pub(super) fn entry(&self) -> i64 {
        match self {
            Self::Store { entry, .. } => *entry,
            Self::Checkpoint { manifest, .. } => manifest.entry.get(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Store { bytes, .. } => *bytes,
            Self::Checkpoint { manifest, .. } => manifest.bytes(),
        }
    }
}

/// The state of all old partitions.
pub(super) struct Sources {
    subscription: SubscriptionName,
    found: BTreeMap<Partition, Source>,
    notes: Vec<String>,
    /// The highest layout epoch that a volume ran under.
    ran: i64,
    /// Held while stores are copied: no worker takes them meanwhile.
    _volumes: Vec<VolumeReader>,
}

impl Sources {
    pub(super) fn find(
        places: Vec<OldPlace>,
        subscription: Option<&str>,
        from: RawPartitionCount,
    ) -> anyhow::Result<Self> {
        let mut volumes = Vec::new();
        let mut archives = Vec::new();
        let mut subscriptions = BTreeSet::new();
        let mut ran = 0;
        for place in places {
            match place {
                OldPlace::Volume(root) => {
                    let volume = VolumeReader::new(&root, StateBudget::new(MEMORY, STORES)?);
                    if let Some(marker) = volume.marker()? {
                        ran = ran.max(marker.layout_epoch.get());
                    }
                    let tasks = volume.tasks()?;
                    subscriptions.extend(tasks.into_iter().map(|(task, _)| task.subscription));
                    let own = Archive::Folder(root.join(CHECKPOINTS_FOLDER));
                    archives.push(Arc::new(Checkpointer::of_archive(&own)?));
                    volumes.push(volume);
                }
                OldPlace::Archive(archive) => archives.push(archive),
            }
        }
        for archive in &archives {
            subscriptions.extend(archive.subscriptions()?);
        }
        let subscription = chosen(&subscriptions, subscription)?;
        let mut sources = Self {
            subscription,
            found: BTreeMap::new(),
            notes: Vec::new(),
            ran,
            _volumes: Vec::new(),
        };
        for volume in &mut volumes {
            sources.stores(volume)?;
        }
        for archive in &archives {
            sources.checkpoints(archive)?;
        }
        sources.are_all(from)?;
        Ok(Self {
            _volumes: volumes,
            ..sources
        })
    }

    fn stores(&mut self, volume: &mut VolumeReader) -> anyhow::Result<()> {
        for (task, epoch) in volume.tasks()? {
            if task.subscription != self.subscription {
                continue;
            }
            let Some(store) = volume.open_store(&task, epoch)? else {
                continue;
            };
            let saved = store.saved();
            let last = store.prepared().unwrap_or(store.progress()).number;
            if last != saved {
                return Err(MoveError::NotSaved {
                    partition: task.partition,
                    saved,
                    last,
                }
                .into());
            }
            let source = Source::Store {
                folder: store.path().to_owned(),
                identity: store.identity().clone(),
                entry: saved.get(),
                bytes: store.table_bytes(),
            };
            self.add(task.partition, source)?;
        }
        Ok(())
    }

    /// Checkpoints of partitions that have no store.
    fn checkpoints(&mut self, archive: &Arc<Checkpointer>) -> anyhow::Result<()> {
        let mut newest = BTreeMap::new();
        for (partition, epoch) in archive.stores_of(&self.subscription)? {
            // Epochs of a partition ascend.
            newest.insert(partition, epoch);
        }
        for (partition, epoch) in newest {
            if let Some(Source::Store { .. }) = self.found.get(&partition) {
                continue;
            }
            let task = Task {
                subscription: self.subscription.clone(),
                partition,
            };
            let Choice { intact, refused } = archive.look_at(&task, epoch)?;
            let Some(manifest) = intact.into_iter().next() else {
                let reasons: Vec<_> = refused.iter().map(ToString::to_string).collect();
                anyhow::bail!(
                    "no checkpoint of {task} can be taken: {}",
                    reasons.join("; ")
                );
            };
            let own = manifest.sequence.manifest_name();
            for newer in refused.iter().filter(|refused| refused.name > own) {
                self.notes.push(format!("{task}: {newer}"));
            }
            self.notes.push(format!(
                "{task}: its checkpoint reaches to entry {}; what was committed after it is not in it, and is read again at \
                 the start",
                manifest.entry
            ));
            let source = Source::Checkpoint {
                archive: Arc::clone(archive),
                manifest: Box::new(manifest),
            };
            self.add(partition, source)?;
        }
        Ok(())
    }

    fn add(&mut self, partition: Partition, source: Source) -> anyhow::Result<()> {
        let epoch = source.identity().store_epoch;
        match self
            .found
            .get(&partition)
            .map(|found| found.identity().store_epoch)
        {
            // What a task left where it was before.
            Some(found) if found > epoch => Ok(()),
            Some(found) if found == epoch => anyhow::bail!(
                "there is state of {}/{partition} of epoch {epoch} in two of the places given: name the one that is right",
                self.subscription
            ),
            Some(_) | None => {
                self.found.insert(partition, source);
                Ok(())
            }
        }
    }

    /// Each partition of the count has its state, and it is of that count.
    fn are_all(&mut self, from: RawPartitionCount) -> anyhow::Result<()> {
        for (partition, source) in &self.found {
            let kept = source.identity().partitions;
            if kept != from {
                anyhow::bail!(
                    "--from {from}: the state of {}/{partition} was kept under {kept} partitions",
                    self.subscription
                );
            }
        }
        for partition in Partition::all(from) {
            if !self.found.contains_key(&partition) {
                return Err(MoveError::Missing { partition }.into());
            }
        }
        // Those of another count were refused.
        self.found
            .retain(|partition, _| partition.index() < from.get());
        Ok(())
    }

    pub(super) fn subscription(&self) -> &SubscriptionName {
        &self.subscription
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Partition, &Source)> {
        self.found.iter()
    }

    pub(super) fn bytes(&self) -> BTreeMap<Partition, u64> {
        let bytes = self
            .found
            .iter()
            .map(|(partition, source)| (*partition, source.bytes()));
        bytes.collect()
    }

    /// The epoch of the new stores: above all that the old ones know.
    pub(super) fn next_epoch(&self) -> anyhow::Result<StoreEpoch> {
        let stores = self
            .found
            .values()
            .map(|source| source.identity().store_epoch.get());
        let highest = stores.chain([self.ran]).max().unwrap_or(0);
        StoreEpoch::try_from(highest.saturating_add(1)).context("the epoch of the new stores")
    }

    /// Whether all old stores lie on the volume of a folder, or of the nearest one above it that exists.
    pub(super) fn share_volume(&self, folder: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let device = |path: &Path| {
            let there = path.ancestors().find(|path| path.exists())?;
            Some(there.metadata().ok()?.dev())
        };
        let own = device(folder);
        self.found.values().all(|source| match source {
            Source::Store { folder, .. } => device(folder) == own,
            Source::Checkpoint { .. } => false,
        })
    }
}

fn chosen(
    there: &BTreeSet<SubscriptionName>,
    wanted: Option<&str>,
) -> anyhow::Result<SubscriptionName> {
    let names: Vec<_> = there.iter().map(SubscriptionName::as_str).collect();
    match (wanted, there.iter().next()) {
        (Some(wanted), _) => there
            .iter()
            .find(|name| name.as_str() == wanted)
            .cloned()
            .with_context(|| {
                format!(
                    "--subscription {wanted}: there is state of {} only",
                    names.join(", ")
                )
            }),
        (None, Some(one)) if there.len() == 1 => Ok(one.clone()),
        (None, Some(_)) => anyhow::bail!(
            "there is state of several subscriptions ({}): name one by --subscription",
            names.join(", ")
        ),
        (None, None) => anyhow::bail!("--state: there is no state in it; has the app run?"),
    }
}
