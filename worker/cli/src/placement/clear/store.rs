//! The state of a stopped worker, on its volume.

use std::path::Path;

use turbine_crds::assignment::{ASSIGNMENT_FILE, AssignmentDocument};
use turbine_crds::compiled::CompiledSubscription;
use turbine_crds::control::{ClearPlacement, PlacementReport, TaskPlacement};
use turbine_engine::{Clocks, PaneOwners, Placement, PlacementCheck};
use turbine_protocol::{Entry, Frontier};
use turbine_runtime::local::load;
use turbine_runtime::task::{look as look_through, partition_key_text, pipeline_spec, refused};
use turbine_state::{MARKER_FILE, StateBudget, StateVolume, TaskState as _, TaskStore};

use crate::progress::Progress;

/// For caches and write buffers of one store at a time.
const MEMORY: usize = 64 << 20;

pub(super) fn look(
    state: &Path,
    file: &Path,
    wanted: &ClearPlacement,
) -> anyhow::Result<PlacementReport> {
    let app = load(file)?;
    let place = state.display();
    if !state.join(MARKER_FILE).is_file() {
        anyhow::bail!(
            "--state {place}: there is no {MARKER_FILE} in it, so it is no folder of a worker's state"
        );
    }
    let volume = StateVolume::open(state, StateBudget::new(MEMORY, 1)?)?;
    if let Some(marker) = volume.marker()?
        && marker.app_id != *app.app_id()
    {
        anyhow::bail!(
            "--state {place}: it is the state of app `{}`, and {} is app `{}`",
            marker.app_id,
            file.display(),
            app.app_id()
        );
    }
    let mut report = PlacementReport::default();
    for (task, epoch) in volume.tasks()? {
        let (subscription, partition) = (task.subscription.as_str(), task.partition.get());
        if !wanted.takes(subscription, partition) {
            continue;
        }
        let refused = |why: String| refused(subscription, partition, why);
        let store = match volume.open_any(&task, epoch) {
            Ok(Some(store)) => store,
            Ok(None) => {
                let why =
                    "its folder holds no whole store: its making never ended, or files are gone";
                report.tasks.push(refused(why.to_owned()));
                continue;
            }
            Err(error) => {
                report.tasks.push(refused(error.to_string()));
                continue;
            }
        };
        let compiled = app
            .compiled()
            .subscriptions
            .iter()
            .find(|of| of.name == subscription);
        report.tasks.push(match compiled {
            Some(compiled) => one(store, compiled, wanted.dry_run)
                .unwrap_or_else(|error| refused(format!("{error:#}"))),
            None => refused(format!(
                "{} has no subscription of this name",
                file.display()
            )),
        });
    }
    report.tasks.extend(missing(state, wanted, &report.tasks));
    Ok(report)
}

/// Tasks that the folder's own assignment names and that have no folder. Volumes of pods hold no assignment.
fn missing(state: &Path, wanted: &ClearPlacement, found: &[TaskPlacement]) -> Vec<TaskPlacement> {
    let assigned = std::fs::read(state.join(ASSIGNMENT_FILE))
        .ok()
        .and_then(|text| serde_json::from_slice::<AssignmentDocument>(&text).ok())
        .map_or_else(Vec::new, |document| document.tasks);
    assigned
        .iter()
        .filter(|task| wanted.takes(&task.subscription, task.partition))
        .filter(|task| {
            !found
                .iter()
                .any(|of| (&of.subscription, of.partition) == (&task.subscription, task.partition))
        })
        .map(|task| {
            let why = "the assignment names it, and it has no folder here".to_owned();
            refused(&task.subscription, task.partition, why)
        })
        .collect()
}

fn one(
    mut store: TaskStore,
    subscription: &CompiledSubscription,
    dry_run: bool,
) -> anyhow::Result<TaskPlacement> {
    let identity = store.identity().clone();
    let key = partition_key_text(subscription);
    if identity.key != key {
        anyhow::bail!(
            "its state is kept by `{}`, and the file's partitionKey is `{key}`",
            identity.key
        );
    }
    let placement = Placement {
        partition: identity.partition,
        count: identity.partitions,
        check: PlacementCheck::Observe,
    };
    let owners = PaneOwners::new(&pipeline_spec(subscription, placement)?, placement)?;
    let mut progress = Progress::of(
        format!("looking through {}", identity.task()),
        store.estimated_keys(),
        std::io::stderr(),
    );
    let mut found = look_through(&store, &owners, &mut |panes| progress.reached(panes))?;
    drop(progress);
    let stored = store.progress().clone();
    if stored.clocks.is_empty() {
        found.cleared = !dry_run;
        return Ok(found);
    }
    let mut clocks: Clocks = serde_json::from_slice(&stored.clocks)?;
    found.verdict = clocks.placement.verdict();
    found.misplaced_first = clocks.placement.misplaced().cloned();
    if dry_run {
        return Ok(found);
    }
    if store.prepared().is_some() {
        found.refused = Some(
            "its last commit is not decided: start the worker once, the broker decides it, and ask again"
                .to_owned(),
        );
        return Ok(found);
    }
    clocks.placement.clear();
    store.commit(&Entry {
        task: &identity.task(),
        store_epoch: identity.store_epoch,
        number: stored.number.next(),
        positions: &stored.positions,
        frontier: Frontier(clocks.frontier),
        clocks: &serde_json::to_vec(&clocks)?,
        changes: &[],
    })?;
    found.cleared = true;
    Ok(found)
}
