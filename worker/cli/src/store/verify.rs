//! `turbine-cli store verify`: whether stores and their checkpoints are whole.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::ControlFlow;

use serde::Serialize;
use turbine_engine::{Clocks, StoredPane};
use turbine_keygroups::{Group, PartitionCount};
use turbine_protocol::VolumeMarker;
use turbine_state::{StateError, StoreReader, VolumeReader};

use super::volume::{NO_STORE, Place, open};
use super::{VerifyArgs, checkpoints};
use crate::Verdict;
use crate::placement::Output;
use crate::progress::Progress;
use crate::table::printable;

/// Of one store that many are named; the rest is counted.
const MOST: usize = 20;
/// Nobody takes a store away and leaves its checkpoints but a lost or emptied folder.
const ONLY_CHECKPOINTS: &str = "there are checkpoints and no store: its folder is gone; a start of the worker restores it from the newest one";
/// Panes after which progress is drawn.
const STRETCH: u64 = 65_536;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    subscription: String,
    partition: i32,
    store_epoch: i64,
    /// False: there are only checkpoints.
    store: bool,
    panes: u64,
    key_groups: usize,
    checkpoints: usize,
    problems: Problems,
}

/// What is wrong: the first of it in words.
#[derive(Debug, Default, Serialize)]
struct Problems {
    named: Vec<String>,
    more: u64,
}

impl Problems {
    fn add(&mut self, what: impl Into<String>) {
        if self.named.len() < MOST {
            self.named.push(what.into());
        } else {
            self.more += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

pub(super) fn run(arguments: &VerifyArgs, out: &mut impl Write) -> anyhow::Result<Verdict> {
    let mut volume = arguments.stores.volume()?;
    let marker = volume.marker()?;
    let mut reports = Vec::new();
    for (place, store) in arguments.stores.places(&volume)? {
        reports.push(one(&mut volume, marker.as_ref(), &place, store)?);
    }
    match arguments.output {
        Output::Text => write(&reports, out)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &reports)?;
            writeln!(out)?;
        }
    }
    let whole = reports.iter().all(|report| report.problems.is_empty());
    Ok(if whole { Verdict::Good } else { Verdict::Bad })
}

fn one(
    volume: &mut VolumeReader,
    marker: Option<&VolumeMarker>,
    place: &Place,
    store: bool,
) -> anyhow::Result<Report> {
    let mut report = Report {
        subscription: place.task.subscription.to_string(),
        partition: place.task.partition.get(),
        store_epoch: place.epoch.get(),
        store,
        panes: 0,
        key_groups: 0,
        checkpoints: 0,
        problems: Problems::default(),
    };
    let mut identity = None;
    if store {
        match open(volume, place) {
            Ok(Some(store)) => {
                identity = Some(store.identity().clone());
                head(&store, marker, place, &mut report.problems);
                panes(&store, &mut report)?;
            }
            Ok(None) => report.problems.add(NO_STORE),
            Err(error) => report.problems.add(damage(error)?),
        }
    } else {
        report.problems.add(ONLY_CHECKPOINTS);
    }
    let choice = checkpoints::look(volume.root(), place, identity.as_ref())?;
    report.checkpoints = choice.intact.len() + choice.refused.len();
    for refused in &choice.refused {
        report.problems.add(format!(
            "checkpoint `{}`: {}",
            refused.name, refused.refusal
        ));
    }
    for wrong in checkpoints::damage(volume.root(), place, &choice.intact)? {
        report.problems.add(wrong);
    }
    Ok(report)
}

/// The words of an error that says that what lies there is wrong; any other ends the look.
fn damage(error: StateError) -> Result<String, StateError> {
    match error {
        StateError::Damaged { .. } => Ok(error.to_string()),
        other => Err(other),
    }
}

/// What the store says of itself.
fn head(
    store: &StoreReader,
    marker: Option<&VolumeMarker>,
    place: &Place,
    problems: &mut Problems,
) {
    let identity = store.identity();
    if identity.task() != place.task || identity.store_epoch != place.epoch {
        problems.add(format!(
            "it says that it is {} of epoch {}, and lies in the folder of another",
            identity.task(),
            identity.store_epoch
        ));
    }
    if let Some(marker) = marker.filter(|marker| marker.app_id != identity.app_id) {
        problems.add(format!(
            "it is of app `{}`, and the volume is of app `{}`",
            identity.app_id, marker.app_id
        ));
    }
    for progress in [Some(store.progress()), store.prepared()]
        .into_iter()
        .flatten()
    {
        if !progress
            .positions
            .iter()
            .any(|position| position.partition == identity.partition)
        {
            problems.add(format!(
                "entry {} has no position for its own partition",
                progress.number
            ));
        }
        if !progress.clocks.is_empty()
            && let Err(error) = serde_json::from_slice::<Clocks>(&progress.clocks)
        {
            problems.add(format!(
                "the clocks of entry {} do not decode: {error}",
                progress.number
            ));
        }
    }
}

/// Every key and value.
fn panes(store: &StoreReader, report: &mut Report) -> anyhow::Result<()> {
    let identity = store.identity();
    let count = PartitionCount::try_from(identity.partitions).ok();
    let mut definitions: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut groups: BTreeSet<Group> = BTreeSet::new();
    let mut progress = Progress::of(
        format!("verifying {}", identity.task()),
        store.estimated_keys(),
        io::stderr(),
    );
    let read = store.scan(&[], &mut |key, value| {
        report.panes += 1;
        if report.panes.is_multiple_of(STRETCH) {
            progress.reached(report.panes);
        }
        match StoredPane::decode(key) {
            Err(error) => report.problems.add(error.to_string()),
            Ok(pane) => {
                groups.insert(pane.group);
                if let Some(wrong) = misplaced(&pane, count, store) {
                    let key = crate::keys::hex(key);
                    report.problems.add(format!("stored key {key}: {wrong}"));
                }
                match StoredPane::signature(key, value) {
                    Err(error) => report.problems.add(error.to_string()),
                    Ok(definition) => note(&mut definitions, pane.window, definition),
                }
            }
        }
        ControlFlow::Continue(())
    });
    drop(progress);
    report.key_groups = groups.len();
    if let Err(error) = read {
        let panes = report.panes;
        let words = damage(error)?;
        report
            .problems
            .add(format!("after {panes} panes reading ended: {words}"));
    }
    for (window, found) in definitions {
        if found.len() > 1 {
            report.problems.add(format!(
                "window `{window}` has panes of {} definitions",
                found.len()
            ));
        }
    }
    Ok(())
}

fn note(definitions: &mut BTreeMap<String, BTreeSet<u32>>, window: &str, definition: u32) {
    if let Some(found) = definitions.get_mut(window) {
        found.insert(definition);
    } else {
        definitions.insert(window.to_owned(), BTreeSet::from([definition]));
    }
}

/// Why a pane cannot be this store's. On a partition count that does not divide 960 the group alone
/// does not tell.
fn misplaced(
    pane: &StoredPane<'_>,
    count: Option<PartitionCount>,
    store: &StoreReader,
) -> Option<String> {
    if pane.parts().is_none() {
        return Some("its key tuple does not decode".to_owned());
    }
    let (Group::Keyed(group), Some(count)) = (pane.group, count) else {
        return None;
    };
    let owner = group.owner(count);
    (owner != store.identity().partition)
        .then(|| format!("key group {group} belongs to partition {owner} of {count}"))
}

fn write(reports: &[Report], out: &mut impl Write) -> io::Result<()> {
    for report in reports {
        let Report {
            subscription,
            partition,
            panes,
            key_groups,
            checkpoints,
            ..
        } = report;
        let verdict = if report.problems.is_empty() {
            "whole"
        } else {
            "NOT whole"
        };
        let store = if report.store {
            format!("{panes} panes in {key_groups} key groups, ")
        } else {
            "no store, ".to_owned()
        };
        writeln!(
            out,
            "{subscription}/{partition} (epoch {}): {verdict}: {store}{checkpoints} checkpoints on the volume",
            report.store_epoch
        )?;
        for problem in &report.problems.named {
            writeln!(out, "  {}", printable(problem))?;
        }
        if report.problems.more > 0 {
            writeln!(out, "  and {} more", report.problems.more)?;
        }
    }
    Ok(())
}
