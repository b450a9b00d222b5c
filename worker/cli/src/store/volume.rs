//! Which stores are meant, and their opening.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use turbine_protocol::{StoreEpoch, Task};
use turbine_state::{MARKER_FILE, StateBudget, StateError, StoreReader, VolumeReader};

use super::checkpoints;
use super::copy::{self, CheckpointOption, Opened};

/// For caches and write buffers of one store at a time.
const MEMORY: usize = 64 << 20;

#[derive(Debug, Args)]
pub(crate) struct Stores {
    /// Folder of a stopped worker's state
    #[arg(long, value_name = "DIR")]
    pub(super) state: PathBuf,
    /// Only this subscription
    #[arg(long)]
    subscription: Option<String>,
    /// Only this partition
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
}

/// A place of a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) task: Task,
    pub(super) epoch: StoreEpoch,
}

impl Stores {
    pub(super) fn volume(&self) -> anyhow::Result<VolumeReader> {
        let place = self.state.display();
        if !self.state.join(MARKER_FILE).is_file() {
            anyhow::bail!(
                "--state {place}: there is no {MARKER_FILE} in it, so it is no folder of a worker's state"
            );
        }
        Ok(VolumeReader::new(&self.state, StateBudget::new(MEMORY, 1)?))
    }

    fn takes(&self, task: &Task) -> bool {
        let subscription = self.subscription.as_deref();
        subscription.is_none_or(|name| name == task.subscription.as_str())
            && self
                .partition
                .is_none_or(|number| number == task.partition.get())
    }

    fn stores(&self, volume: &VolumeReader) -> anyhow::Result<BTreeSet<Place>> {
        let found = volume.tasks()?.into_iter();
        Ok(found
            .map(|(task, epoch)| Place { task, epoch })
            .filter(|place| self.takes(&place.task))
            .collect())
    }

    /// The places that have a store, and those that have checkpoints only. Older stores of a task
    /// that has a newer one are not among them.
    pub(super) fn places(&self, volume: &VolumeReader) -> anyhow::Result<Vec<(Place, bool)>> {
        let stores = self.stores(volume)?;
        let copies = checkpoints::places(volume.root())?
            .into_iter()
            .filter(|place| self.takes(&place.task));
        let all: BTreeSet<Place> = stores.iter().cloned().chain(copies).collect();
        if all.is_empty() {
            anyhow::bail!(
                "no store is meant by that: check --subscription and --partition, and that the app has run"
            );
        }
        Ok(all
            .into_iter()
            .map(|place| {
                let store = stores.contains(&place);
                (place, store)
            })
            .collect())
    }

    /// The newest places of those tasks that have checkpoints.
    fn copies(&self, volume: &VolumeReader) -> anyhow::Result<BTreeSet<Place>> {
        let mut newest = BTreeMap::new();
        // Epochs of a task ascend.
        for place in checkpoints::places(volume.root())?
            .into_iter()
            .filter(|place| self.takes(&place.task))
            .collect::<BTreeSet<_>>()
        {
            newest.insert(place.task.clone(), place);
        }
        Ok(newest.into_values().collect())
    }

    /// The one store that is meant, or its checkpoint, open.
    pub(super) fn one(
        &self,
        copy: &CheckpointOption,
        err: &mut impl Write,
    ) -> anyhow::Result<Opened> {
        let mut volume = self.volume()?;
        let places = if copy.checkpoint.is_some() {
            self.copies(&volume)?
        } else {
            self.stores(&volume)?
        };
        let mut names = places.iter().map(|place| place.task.to_string());
        match (names.next(), names.next(), places.first()) {
            (Some(_), None, Some(place)) => match copy.checkpoint {
                Some(wanted) => {
                    let opened = copy::open(&volume, place, wanted)?;
                    for note in &opened.passed_over {
                        writeln!(err, "note: {note}")?;
                    }
                    Ok(opened)
                }
                None => open(&mut volume, place)?
                    .map(Opened::of_store)
                    .ok_or_else(|| anyhow::anyhow!("{}: {NO_STORE}", place.task)),
            },
            (Some(first), Some(second), _) => anyhow::bail!(
                "{} stores are meant by that ({first}, {second}{}): name one by --subscription and --partition",
                places.len(),
                if places.len() > 2 { ", ..." } else { "" }
            ),
            _ if copy.checkpoint.is_some() => anyhow::bail!(
                "no checkpoint is meant by that: check --subscription and --partition; checkpoints in a bucket are not looked at"
            ),
            _ => anyhow::bail!(
                "no store is meant by that: check --subscription and --partition, and that the app has run"
            ),
        }
    }
}

pub(super) const NO_STORE: &str =
    "its folder holds no whole store: its making never ended, or files are gone";

pub(super) fn open(
    volume: &mut VolumeReader,
    place: &Place,
) -> Result<Option<StoreReader>, StateError> {
    volume.open_store(&place.task, place.epoch)
}
