//! `turbine-cli store rescale`: the stores of a stopped app for a larger partition count.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Args;
use turbine_engine::Clocks;
use turbine_keygroups::{Group, Partition, RawPartitionCount, Verdict as Placement};
use turbine_protocol::{LayoutEpoch, VolumeMarker};
use turbine_state::checkpoint::CheckpointMeta;
use turbine_state::moving::{GroupSums, Move, MovePlan, OldStore, TaskPlan};
use turbine_state::{StateBudget, StoreReader, VolumeReader};

use crate::Verdict;
use crate::placement::Output;
use crate::progress::Progress;

mod places;
mod report;
mod sources;

use places::{NewPlace, OldPlace};
use report::Report;
use sources::{Source, Sources};

/// For caches and write buffers of the stores that are open at a time: an old one, a part of it, a new one.
const MEMORY: usize = 128 << 20;
const STORES: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct RescaleArgs {
    /// The partition count that the state was kept under; any, also one that does not divide 960
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    from: u32,
    /// The partition count that it is for: larger, and a divisor of 960
    #[arg(long, value_name = "M")]
    to: u32,
    /// Where the stopped app's state is: a worker's state folder (may be repeated, one per worker), a folder with the app's
    /// checkpoints, or `s3://BUCKET/PREFIX/APP`
    #[arg(long, value_name = "DIR|URL", required = true)]
    state: Vec<String>,
    /// Where the new stores go: an empty folder, or `s3://BUCKET/PREFIX/APP`
    #[arg(long, value_name = "DIR|URL")]
    out: String,
    /// The subscription; needed if there are several
    #[arg(long)]
    subscription: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Folder for files on their way, if --out is a bucket. With it, an interrupted run is taken up where it was
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(super) fn run(
    arguments: &RescaleArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let began = Instant::now();
    let from = RawPartitionCount::try_from(arguments.from)?;
    let plan = MovePlan::new(from, arguments.to)?;
    let places = OldPlace::all(&arguments.state)?;
    let into = NewPlace::new(&arguments.out, &places, arguments.work.as_deref())?;
    let sources = Sources::find(places, arguments.subscription.as_deref(), from)?;
    for note in sources.notes() {
        writeln!(err, "note: {note}")?;
    }
    let epoch = sources.next_epoch()?;
    into.is_free(sources.subscription(), &plan, epoch)?;
    let mut report = Report::new(&sources, &plan, epoch);
    if arguments.dry_run {
        report.write(arguments.output, out)?;
        return Ok(Verdict::Good);
    }
    into.has_room(report.bytes_to_write(&into, &sources))?;
    let budget = StateBudget::new(MEMORY, STORES)?;
    let work = into.work_folder()?;
    let mut moving = Move::open(&work.path(), plan.clone(), epoch, budget.clone());
    let olds = take(&sources, &mut moving, &budget)?;
    // No lock of an old volume is needed any more: all that is read from here on are copies.
    drop(sources);
    for task in plan.tasks() {
        let made = one(&moving, task, &olds, &into, &budget)?;
        report.made(task.task(), made);
    }
    let identity = moving
        .olds()
        .values()
        .next()
        .map(|old| old.identity().clone())
        .context("no old store was taken")?;
    into.complete(&VolumeMarker {
        app_id: identity.app_id,
        lineage: identity.lineage,
        layout_epoch: LayoutEpoch::try_from(epoch.get())?,
    })?;
    moving.finish()?;
    report.took(began.elapsed());
    report.write(arguments.output, out)?;
    Ok(Verdict::Good)
}

/// Takes copies of the old stores, and reads them through; what they hold, by old partition.
fn take(
    sources: &Sources,
    moving: &mut Move,
    budget: &StateBudget,
) -> anyhow::Result<BTreeMap<Partition, GroupSums>> {
    let mut sums = BTreeMap::new();
    for (partition, source) in sources.iter() {
        match source {
            Source::Store { folder, .. } => moving.take_store(*partition, folder)?,
            Source::Checkpoint { archive, manifest } => {
                let what = format!("pulling old partition {partition}");
                let mut progress = Progress::of(what, manifest.bytes(), io::stderr());
                moving.take_checkpoint(*partition, archive, manifest, |bytes| {
                    progress.reached(bytes.done);
                })?;
            }
        }
        let old = &moving.olds()[partition];
        refuse_misplaced(*partition, old)?;
        let copy = VolumeReader::new(moving.folder(), budget.clone())
            .open_copy(old.folder())?
            .with_context(|| format!("the copy of old partition {partition} holds no store"))?;
        sums.insert(
            *partition,
            read(&copy, format!("reading old partition {partition}"))?,
        );
    }
    Ok(sums)
}

/// A verdict of the task's stands in its clocks.
fn refuse_misplaced(partition: Partition, old: &OldStore) -> anyhow::Result<()> {
    let clocks = &old.progress().clocks;
    if clocks.is_empty() {
        return Ok(());
    }
    let clocks: Clocks = serde_json::from_slice(clocks)
        .with_context(|| format!("the clocks of old partition {partition} do not decode"))?;
    if clocks.placement.verdict() == Placement::Misplaced {
        anyhow::bail!(
            "old partition {partition} has the verdict `misplaced`: its producers put keys elsewhere than murmur2 does, so \
             state cannot follow them; correct the producers, then `turbine-cli placement clear`"
        );
    }
    Ok(())
}

fn read(store: &StoreReader, what: String) -> anyhow::Result<GroupSums> {
    let mut progress = Progress::of(what, store.estimated_keys(), io::stderr());
    let sums = GroupSums::of(store, |keys| progress.reached(keys))?;
    drop(progress);
    if let Some(stray) = sums.stray() {
        anyhow::bail!(
            "{} has a key of no key group ({}): see `turbine-cli store verify`",
            store.path().display(),
            crate::keys::hex(stray)
        );
    }
    Ok(sums)
}

/// Makes one new store, reads it back, and gives it its place.
fn one(
    moving: &Move,
    task: &TaskPlan,
    olds: &BTreeMap<Partition, GroupSums>,
    into: &NewPlace,
    budget: &StateBudget,
) -> anyhow::Result<report::Made> {
    let partition = task.task();
    let place = into.store_path(&moving.identity(partition)?);
    let placed = place.as_ref().filter(|place| place.exists());
    let folder = match placed {
        Some(place) => place.clone(),
        None => moving.build(task)?,
    };
    let store = VolumeReader::new(moving.folder(), budget.clone())
        .open_copy(&folder)?
        .with_context(|| format!("the new store of partition {partition} cannot be opened"))?;
    let found = read(&store, format!("verifying new partition {partition}"))?;
    verify(moving, task, olds, &found)?;
    let meta = CheckpointMeta {
        identity: store.identity().clone(),
        progress: store.progress().clone(),
        made_at_ms: now_ms(),
    };
    let bytes = store.table_bytes();
    drop(store);
    match &place {
        Some(place) => moving.place(task, place)?,
        None => into.save(&folder, meta)?,
    }
    Ok(report::Made {
        keys: found.keys(),
        key_groups: found.iter().count(),
        bytes,
    })
}

/// Each key must be the owner's, and each group what the old stores had of it, no more and no less.
fn verify(
    moving: &Move,
    task: &TaskPlan,
    olds: &BTreeMap<Partition, GroupSums>,
    found: &GroupSums,
) -> anyhow::Result<()> {
    let partition = task.task();
    let count = moving.plan().to();
    for (group, _) in found.iter() {
        if let Group::Keyed(group) = group
            && group.owner(count) != partition
        {
            anyhow::bail!(
                "the new store of partition {partition} has keys of key group {group}, which belongs to partition {}: this is \
                 a fault of the program; the old state is as it was",
                group.owner(count)
            );
        }
    }
    let mut expected = GroupSums::default();
    for draw in task.draws() {
        if let Some(sums) = olds.get(&draw.from()) {
            expected.merge(sums, |group| draw.takes(group));
        }
    }
    if let Some((group, had, has)) = expected.differences(found).into_iter().next() {
        anyhow::bail!(
            "the new store of partition {partition} has {} keys of key group {group} with checksum {:032x}, the old stores had \
             {} with {:032x}: this is a fault of the program or of the disk; the old state is as it was",
            has.keys,
            has.checksum,
            had.keys,
            had.checksum
        );
    }
    Ok(())
}

fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
