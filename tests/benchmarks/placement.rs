//! What it costs to check every row's placement: the engine alone, with the check and without, in turns in one process.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use clap::Args;
use turbine_engine::{
    Aggregate, AggregateSpec, AllLive, Column, ColumnType, IdlePolicy, InputBatch, OnNullKey,
    OnRowError, PartitionKey, Pipeline, PipelineSpec, Placement, PlacementCheck, WindowKind,
    WindowSpec,
};
use turbine_tests::kafka::partition_of;

use crate::machine::{self, say};

const COUNT: i32 = 12;
const BATCH: usize = 10_000;
/// A commit of a worker that reads this fast comes about so often.
const BATCHES_PER_COMMIT: usize = 50;
const MINUTE_MS: i64 = 60_000;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rows of one turn
    #[arg(long, default_value_t = 2_000_000)]
    rows: usize,
    /// Distinct keys, all of one partition of 12; give it more than once for several measurements
    #[arg(long, default_values_t = [1_000, 100_000])]
    keys: Vec<usize>,
    /// Turns of each kind
    #[arg(long, default_value_t = 15)]
    turns: usize,
}

/// What a turn does about the placement of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Off,
    OffAgain,
    On,
}

struct Input {
    batches: Vec<(RecordBatch, Int64Array)>,
}

pub(crate) fn measure(options: &Options) -> Result<()> {
    machine::describe(&std::env::current_exe()?)?;
    for keys in &options.keys {
        one(options, *keys)?;
    }
    Ok(())
}

fn one(options: &Options, keys: usize) -> Result<()> {
    let input = input(options.rows, keys)?;
    let mut seconds: [Vec<f64>; 3] = Default::default();
    for turn in 0..=options.turns {
        // Each kind is first, second and last equally often.
        let mut order = [Turn::Off, Turn::On, Turn::OffAgain];
        order.rotate_left(turn % 3);
        for kind in order {
            let took = run(&input, kind)?;
            // The first turn warms caches and the allocator.
            if turn > 0 {
                seconds[kind as usize].push(took);
            }
        }
    }
    let [off, again, on] = seconds.map(Spread::of);
    #[expect(clippy::cast_precision_loss, reason = "millions of rows")]
    let rows = options.rows as f64;
    say(&format!(
        "{keys} keys, {} turns of {} rows: check off {:.2} M rows/s, on {:.2} M rows/s; on/off {:.3}; off/off {:.3} (the noise; quartiles of off {:.3} to {:.3} of its median)",
        options.turns,
        options.rows,
        rows / off.median / 1e6,
        rows / on.median / 1e6,
        on.median / off.median,
        again.median / off.median,
        off.low / off.median,
        off.high / off.median,
    ))
}

struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        let at = |quarter: usize| {
            all.get(all.len() * quarter / 4)
                .copied()
                .unwrap_or(f64::NAN)
        };
        Self {
            low: at(1),
            median: at(2),
            high: at(3),
        }
    }
}

/// Keys of partition 0, dealt out as a multiplicative sequence does; event time goes through ten minutes.
fn input(rows: usize, keys: usize) -> Result<Input> {
    let keys: Vec<String> = (0_u64..)
        .map(|number| format!("tenant-{number:08}"))
        .filter(|key| partition_of(key.as_bytes(), COUNT) == 0)
        .take(keys)
        .collect();
    let schema = Arc::new(Schema::new(vec![
        Field::new("tenant", DataType::Utf8, true),
        Field::new("n", DataType::Int64, true),
    ]));
    let total = i64::try_from(rows)?;
    let batches = (0..rows)
        .step_by(BATCH)
        .map(|start| {
            let end = (start + BATCH).min(rows);
            let tenant: StringArray = (start..end)
                .map(|row| Some(keys[row.wrapping_mul(2_654_435_761) % keys.len()].as_str()))
                .collect();
            let place = |row: usize| i64::try_from(row).unwrap_or(i64::MAX);
            let n: Int64Array = (start..end).map(|row| Some(place(row))).collect();
            let times: Int64Array = (start..end)
                .map(|row| Some(place(row) * 10 * MINUTE_MS / total))
                .collect();
            let batch = RecordBatch::try_new(
                Arc::clone(&schema),
                vec![Arc::new(tenant) as _, Arc::new(n) as _],
            )?;
            Ok((batch, times))
        })
        .collect::<Result<_>>()?;
    Ok(Input { batches })
}

fn spec(turn: Turn) -> Result<PipelineSpec> {
    let column = |name: &str, kind| Column {
        name: name.to_owned(),
        kind,
    };
    let aggregate = |function, output: &str| AggregateSpec {
        function,
        output: output.to_owned(),
    };
    Ok(PipelineSpec {
        columns: vec![
            column("tenant", ColumnType::Text),
            column("n", ColumnType::Int64),
        ],
        partition_key: PartitionKey::Columns(vec![0]),
        on_null_key: OnNullKey::Group,
        out_of_orderness_ms: 0,
        max_future_ms: 600_000,
        idle_timeout_ms: 30_000,
        idle_policy: IdlePolicy::Hold,
        on_row_error: OnRowError::Stop,
        placement: match turn {
            Turn::Off | Turn::OffAgain => None,
            Turn::On => Some(Placement {
                partition: 0.try_into()?,
                count: u32::try_from(COUNT)?.try_into()?,
                check: PlacementCheck::Enforce,
            }),
        },
        windows: vec![WindowSpec {
            name: "minute".to_owned(),
            kind: WindowKind::Tumbling {
                size_ms: MINUTE_MS.unsigned_abs(),
            },
            keys: vec![0],
            aggregates: vec![
                aggregate(Aggregate::CountRows, "rows"),
                aggregate(Aggregate::Sum(1), "total"),
            ],
            allowed_lateness_ms: 0,
        }],
    })
}

fn run(input: &Input, turn: Turn) -> Result<f64> {
    let mut pipeline = Pipeline::new(spec(turn)?)?;
    let began = Instant::now();
    let mut results = 0;
    for (at, (batch, times)) in input.batches.iter().enumerate() {
        let rows = InputBatch {
            rows: batch,
            event_times: times,
            record_keys: None,
        };
        let outcome = pipeline.process(rows, i64::MAX / 2, &AllLive)?;
        if outcome.rows_taken != batch.num_rows() {
            anyhow::bail!("rows were refused: {:?}", outcome.row_errors.first());
        }
        results += pipeline.drain_closed(usize::MAX, &AllLive)?.len();
        if at % BATCHES_PER_COMMIT == 0 {
            drop(pipeline.take_changes());
        }
    }
    let took = began.elapsed().as_secs_f64();
    (results > 0).then_some(took).context("no window closed")
}
