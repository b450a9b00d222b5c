//! The stages of the way of a record, each alone over fixed input. `tests/bed/gates.sh` counts their instructions and compares
//! the counts with `kernels.tsv`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use arrow_array::RecordBatch;
use clap::Args;
use tempfile::TempDir;
use turbine_crds::compiled::CompiledSubscription;
use turbine_crds::rules::validate;
use turbine_engine::{AllLive, InputBatch, Pipeline, Placement, PlacementCheck};
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{
    Change, Entry, Frontier, Lineage, Position, StoreEpoch, StoreIdentity, Task,
};
use turbine_runtime::decode::{Decoded, JsonDecoder};
use turbine_runtime::sink::ResultEncoder;
use turbine_runtime::task::pipeline_spec;
use turbine_state::{StateBudget, StateVolume, TaskState as _};
use turbine_tests::events::EventPlan;
use turbine_tests::manifest::AppManifest;

use crate::machine::{self, say};

/// A stage that can be run again and again.
type Run = Box<dyn FnMut() -> Result<()>>;

struct Kernel {
    name: &'static str,
    /// Records or rows of one run.
    items: u32,
    /// Input, buffers and the stage itself; none of it is counted.
    prepare: fn(u32) -> Result<Run>,
}

/// One line per stage; a new one needs its figure in `kernels.tsv` as well (`./run bench gates --update`).
const KERNELS: &[Kernel] = &[
    Kernel {
        name: "decode",
        items: 1_000,
        prepare: decode,
    },
    Kernel {
        name: "decode-any-shape",
        items: 1_000,
        prepare: decode_any_shape,
    },
    Kernel {
        name: "fold",
        items: 20_000,
        prepare: fold,
    },
    Kernel {
        name: "journal",
        items: 1_000,
        prepare: journal,
    },
    Kernel {
        name: "encode",
        items: 1_000,
        prepare: encode,
    },
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which kernels; all if none is named
    names: Vec<String>,
    /// Print their names only
    #[arg(long)]
    list: bool,
    /// One run of each for a tool that counts what `counted_kernel` does; prints nothing
    #[arg(long)]
    once: bool,
}

pub(crate) fn measure(options: &Options) -> Result<()> {
    for name in &options.names {
        ensure!(
            KERNELS.iter().any(|kernel| kernel.name == name),
            "no kernel `{name}`; see --list"
        );
    }
    if !options.list && !options.once {
        machine::describe(&std::env::current_exe()?)?;
    }
    for kernel in KERNELS {
        if !options.names.is_empty() && !options.names.iter().any(|name| name == kernel.name) {
            continue;
        }
        if options.list {
            say(kernel.name)?;
            continue;
        }
        let mut run = (kernel.prepare)(kernel.items)?;
        // Buffers have their size, and what learns has learned.
        for _ in 0..3 {
            run()?;
        }
        if options.once {
            counted_kernel(&mut run)?;
        } else {
            let ns = best(&mut run)?.as_secs_f64() * 1e9 / f64::from(kernel.items);
            say(&format!(
                "{}: {ns:.1} ns per item, best of many",
                kernel.name
            ))?;
        }
    }
    Ok(())
}

/// Counted from its start to its end: a function of its own, by whose name the tool finds it.
#[inline(never)]
fn counted_kernel(run: &mut Run) -> Result<()> {
    run()
}

fn best(run: &mut Run) -> Result<Duration> {
    let (began, mut best) = (Instant::now(), Duration::MAX);
    while began.elapsed() < Duration::from_secs(1) {
        let started = Instant::now();
        run()?;
        best = best.min(started.elapsed());
    }
    Ok(best)
}

/// The subscription that the worker's benchmark runs as well.
fn subscription() -> Result<CompiledSubscription> {
    let app = AppManifest::new("kernels", "broker:9092", "events", "results");
    let app = validate(&serde_json::from_value(app.0)?)
        .map_err(|faults| anyhow::anyhow!("the manifest is refused: {faults:?}"))?;
    let subscription = app.compiled().subscriptions.first();
    Ok(subscription.context("the app has no subscription")?.clone())
}

/// Records as the worker's benchmark has them, 157 bytes long, within half a minute.
fn messages(count: u32) -> Vec<Vec<u8>> {
    let plan = EventPlan {
        records: count.into(),
        padding: 66,
        magnitude: 32,
        span_ms: 30_000,
        disorder_ms: 1_000,
        ..EventPlan::default()
    };
    (0..plan.records).map(|at| plan.event(at).value).collect()
}

fn decoder() -> Result<JsonDecoder> {
    let subscription = subscription()?;
    JsonDecoder::new(&subscription.columns, &subscription.event_time)
        .context("the subscription has no event time")
}

fn decode_all(decoder: &mut JsonDecoder, messages: &[Vec<u8>]) -> Result<Decoded> {
    for message in messages {
        decoder.push(Some(message))?;
    }
    Ok(decoder.finish()?)
}

fn decode(items: u32) -> Result<Run> {
    let (mut decoder, messages) = (decoder()?, messages(items));
    Ok(Box::new(move || {
        black_box(decode_all(&mut decoder, &messages)?);
        Ok(())
    }))
}

/// The same records with an array, which no guess takes.
fn decode_any_shape(items: u32) -> Result<Run> {
    let mut messages = messages(items);
    for message in &mut messages {
        message.pop();
        message.extend(b",\"tags\":[\"a\",2]}");
    }
    let mut decoder = decoder()?;
    Ok(Box::new(move || {
        black_box(decode_all(&mut decoder, &messages)?);
        Ok(())
    }))
}

fn pipeline(subscription: &CompiledSubscription) -> Result<Pipeline> {
    let placement = Placement {
        partition: 0.try_into()?,
        count: 1_u32.try_into()?,
        check: PlacementCheck::Enforce,
    };
    Ok(Pipeline::new(pipeline_spec(subscription, placement)?)?)
}

fn take(pipeline: &mut Pipeline, decoded: &Decoded) -> Result<()> {
    let input = InputBatch {
        rows: &decoded.rows,
        event_times: &decoded.event_times,
        record_keys: None,
    };
    let outcome = pipeline.process(input, i64::MAX / 2, &AllLive)?;
    ensure!(
        outcome.rows_taken == decoded.rows.num_rows(),
        "rows were refused: {:?}",
        outcome.row_errors.first()
    );
    Ok(())
}

/// Hash, find or open the pane, seven aggregates; a pipeline of its own each time, which opens a thousand panes.
fn fold(items: u32) -> Result<Run> {
    let subscription = subscription()?;
    let decoded = decode_all(&mut decoder()?, &messages(items))?;
    Ok(Box::new(move || {
        let mut pipeline = pipeline(&subscription)?;
        take(&mut pipeline, &decoded)?;
        black_box(pipeline.open_panes());
        Ok(())
    }))
}

/// The entry of a commit with as many changed panes, into the journal; the kernel's part of the write and the sync is not
/// counted.
fn journal(items: u32) -> Result<Run> {
    let folder = TempDir::new()?;
    let task = Task {
        subscription: "per-tenant".parse()?,
        partition: Partition::try_from(0)?,
    };
    let store_epoch = StoreEpoch::try_from(1)?;
    let identity = StoreIdentity::new(
        "kernels".parse()?,
        Lineage::new(uuid::Uuid::from_u128(1)),
        &task,
        store_epoch,
        RawPartitionCount::try_from(1_u32)?,
        "tenant_id".to_owned(),
    );
    let position = Position {
        topic: "events".parse()?,
        partition: task.partition,
        next: 0.try_into()?,
    };
    let volume = StateVolume::open(folder.path(), StateBudget::new(64 << 20, 1)?)?;
    let mut store = volume.create_store(&identity, std::slice::from_ref(&position))?;
    let panes: Vec<(Vec<u8>, Vec<u8>)> = (0..items)
        .map(|pane| {
            let key = format!("minute/1767261600000/tenant-{pane:06}").into_bytes();
            (key, vec![7; 80])
        })
        .collect();
    Ok(Box::new(move || {
        let changes: Vec<Change<'_>> = panes
            .iter()
            .map(|(key, value)| Change {
                key,
                value: Some(value),
            })
            .collect();
        let number = store.progress().number.next();
        let checksum = store.commit(&Entry {
            task: &task,
            store_epoch,
            number,
            positions: std::slice::from_ref(&position),
            frontier: Frontier(None),
            clocks: b"{}",
            changes: &changes,
        })?;
        black_box(checksum);
        // both are in use as long as the store is
        black_box((&folder, &volume));
        Ok(())
    }))
}

/// As many rows of closed panes.
fn results(subscription: &CompiledSubscription, rows: u32) -> Result<RecordBatch> {
    let mut pipeline = pipeline(subscription)?;
    let mut decoder = decoder()?;
    take(
        &mut pipeline,
        &decode_all(&mut decoder, &messages(rows * 20))?,
    )?;
    let later = EventPlan {
        start_ms: EventPlan::default().end_ms() + 3_600_000,
        ..EventPlan::default()
    };
    take(
        &mut pipeline,
        &decode_all(&mut decoder, &[later.event(0).value])?,
    )?;
    let rows = usize::try_from(rows)?;
    let closed = pipeline
        .drain_closed(usize::MAX, &AllLive)?
        .into_iter()
        .map(|closed| closed.rows);
    let table = closed
        .max_by_key(RecordBatch::num_rows)
        .context("no window closed")?;
    ensure!(table.num_rows() >= rows, "only {} rows", table.num_rows());
    Ok(table.slice(0, rows))
}

fn encode(items: u32) -> Result<Run> {
    let subscription = subscription()?;
    let window = subscription.windows.first().context("a window")?;
    let encoder = ResultEncoder::new(&subscription, window);
    let rows = results(&subscription, items)?;
    let (mut values, mut keys) = (Vec::new(), Vec::new());
    Ok(Box::new(move || {
        values.clear();
        keys.clear();
        let table = encoder.table(&rows)?;
        for row in 0..table.rows() {
            table.write_value(row, &mut values)?;
            table.write_key(row, &mut keys)?;
        }
        black_box((&values, &keys));
        Ok(())
    }))
}
