//! Rows, batches and results in plain Rust values, for tests to state what they expect.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary is a crate of its own and uses its part"
)]

pub mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use turbine_engine::{
    Aggregate, AggregateSpec, AllLive, Clocks, ClosedRows, ColdPanes, Column, ColumnType,
    IdlePolicy, InputBatch, OnNullKey, OnRowError, Outcome, PartitionKey, Pipeline, PipelineSpec,
    WindowKind, WindowSpec,
};

/// A wall clock far past every event time that tests use.
pub const NOW: i64 = 4_000_000_000_000;

pub const TENANT: usize = 0;
pub const ID: usize = 1;
pub const N: usize = 2;
pub const X: usize = 3;
pub const FLAG: usize = 4;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    pub time: Option<i64>,
    pub tenant: Option<&'static str>,
    pub id: Option<i64>,
    pub n: Option<i64>,
    pub x: Option<f64>,
    pub flag: Option<bool>,
    pub record_key: Option<&'static [u8]>,
}

/// A row with a time, the tenant `a` and a number.
pub fn row(time: i64, n: i64) -> Row {
    Row {
        time: Some(time),
        tenant: Some("a"),
        n: Some(n),
        ..Row::default()
    }
}

pub fn columns() -> Vec<Column> {
    [
        ("tenant", ColumnType::Text),
        ("id", ColumnType::Int64),
        ("n", ColumnType::Int64),
        ("x", ColumnType::Float64),
        ("flag", ColumnType::Bool),
    ]
    .map(|(name, kind)| Column {
        name: name.to_owned(),
        kind,
    })
    .to_vec()
}

pub fn window(name: &str, size_ms: u64, keys: &[usize], functions: &[Aggregate]) -> WindowSpec {
    let aggregates = functions
        .iter()
        .enumerate()
        .map(|(at, function)| AggregateSpec {
            function: *function,
            output: format!("r{at}"),
        })
        .collect();
    WindowSpec {
        name: name.to_owned(),
        kind: WindowKind::Tumbling { size_ms },
        keys: keys.to_vec(),
        aggregates,
        allowed_lateness_ms: 0,
    }
}

pub fn spec(windows: Vec<WindowSpec>) -> PipelineSpec {
    PipelineSpec {
        columns: columns(),
        partition_key: PartitionKey::Columns(vec![TENANT]),
        on_null_key: OnNullKey::Group,
        out_of_orderness_ms: 0,
        max_future_ms: 600_000,
        idle_timeout_ms: 30_000,
        idle_policy: IdlePolicy::Coast,
        on_row_error: OnRowError::Continue,
        placement: None,
        windows,
    }
}

/// One 10-second window over tenants.
pub fn simple(functions: &[Aggregate]) -> PipelineSpec {
    spec(vec![window("w", 10_000, &[TENANT], functions)])
}

pub fn process(pipeline: &mut Pipeline, rows: &[Row]) -> Outcome {
    process_at(pipeline, rows, NOW)
}

pub fn process_at(pipeline: &mut Pipeline, rows: &[Row], now_ms: i64) -> Outcome {
    with_batch(rows, |input| {
        pipeline.process(input, now_ms, &AllLive).unwrap()
    })
}

/// As [`process`], where panes may be cold.
pub fn process_cold(pipeline: &mut Pipeline, rows: &[Row], store: &Store) -> Outcome {
    with_batch(rows, |input| pipeline.process(input, NOW, store).unwrap())
}

pub fn with_batch<T>(rows: &[Row], use_it: impl FnOnce(InputBatch<'_>) -> T) -> T {
    let fields: Vec<Field> = columns()
        .iter()
        .map(|c| Field::new(&c.name, c.kind.data_type(), true))
        .collect();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.tenant).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.id).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.n).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.x).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|r| r.flag).collect::<BooleanArray>()),
    ];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let event_times: Int64Array = rows.iter().map(|r| r.time).collect();
    let record_keys: BinaryArray = rows.iter().map(|r| r.record_key).collect();
    let input = InputBatch {
        rows: &batch,
        event_times: &event_times,
        record_keys: Some(&record_keys),
    };
    use_it(input)
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
    Bool(bool),
    Bytes(Vec<u8>),
}

impl Cell {
    pub fn of(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Option<i64>> for Cell {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Int)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Null, Self::Float)
    }
}

impl From<Option<bool>> for Cell {
    fn from(value: Option<bool>) -> Self {
        value.map_or(Self::Null, Self::Bool)
    }
}

impl From<Option<&str>> for Cell {
    fn from(value: Option<&str>) -> Self {
        value.map_or(Self::Null, |text| Self::Text(text.to_owned()))
    }
}

fn cell(array: &ArrayRef, row: usize) -> Cell {
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        DataType::Binary => Cell::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        other => panic!("results have no columns of type {other}"),
    }
}

/// The closed rows, each with its window's name, in the order in which they came out.
pub fn closed(pipeline: &mut Pipeline) -> Vec<(String, Vec<Cell>)> {
    cells(&pipeline.drain_closed(usize::MAX, &AllLive).unwrap())
}

/// As [`closed`], one call, where panes may be cold.
pub fn closed_cold(
    pipeline: &mut Pipeline,
    max_panes: usize,
    store: &Store,
) -> Vec<(String, Vec<Cell>)> {
    cells(&pipeline.drain_closed(max_panes, store).unwrap())
}

fn cells(tables: &[ClosedRows]) -> Vec<(String, Vec<Cell>)> {
    tables
        .iter()
        .flat_map(|ClosedRows { name, rows, .. }| {
            (0..rows.num_rows()).map(|row| {
                let cells = rows
                    .columns()
                    .iter()
                    .map(|array| cell(array, row))
                    .collect();
                (name.to_string(), cells)
            })
        })
        .collect()
}

/// The results of the one window there is, without its name.
pub fn results(pipeline: &mut Pipeline) -> Vec<Vec<Cell>> {
    closed(pipeline)
        .into_iter()
        .map(|(_, cells)| cells)
        .collect()
}

/// The store of a task in memory: checkpoints, and the journal since the last.
#[derive(Debug, Clone, Default)]
pub struct Store {
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub journal: Vec<(Vec<u8>, Vec<u8>)>,
    pub clocks: String,
    /// Calls that read panes.
    pub reads: std::cell::Cell<usize>,
    /// Whether reads fail.
    pub broken: bool,
}

/// What a broken store answers.
#[derive(Debug, PartialEq)]
pub struct Broken;

impl Store {
    fn read(&self) -> Result<(), Broken> {
        self.reads.set(self.reads.get() + 1);
        if self.broken { Err(Broken) } else { Ok(()) }
    }
}

impl ColdPanes for Store {
    type Error = Broken;

    fn get_many(&self, keys: &[&[u8]], show: &mut dyn FnMut(usize, &[u8])) -> Result<(), Broken> {
        self.read()?;
        assert!(keys.is_sorted_by(|a, b| a < b));
        for (at, key) in keys.iter().enumerate() {
            if let Some(value) = self.entries.get(*key) {
                show(at, value);
            }
        }
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        show: &mut turbine_engine::ShowPane<'_>,
    ) -> Result<(), Broken> {
        self.read()?;
        for (key, value) in self.entries.range(from.to_vec()..) {
            if to.is_some_and(|to| key.as_slice() >= to) || show(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Store {
    pub fn commit(&mut self, pipeline: &mut Pipeline) {
        let changes = pipeline.take_changes();
        let entries = changes
            .iter()
            .map(|change| (change.key.to_vec(), change.value.to_vec()));
        self.journal.extend(entries);
        self.clocks = serde_json::to_string(&pipeline.clocks()).unwrap();
    }

    /// Commits, then gives the store of checkpoints what it lacks, and sees that what it then has
    /// is what a replay of the journal would have given.
    pub fn checkpoint(&mut self, pipeline: &mut Pipeline) {
        self.commit(pipeline);
        let unsaved = pipeline.take_unsaved();
        let mut replayed = self.entries.clone();
        replayed.extend(self.journal.drain(..));
        for dead in &unsaved.dead {
            let before = self.entries.len();
            let keep = |key: &Vec<u8>| !(&dead.from..&dead.to).contains(&key);
            self.entries.retain(|key, _| keep(key));
            replayed.retain(|key, _| keep(key));
            assert!(
                self.entries.len() < before,
                "a range in which nothing was ever stored is deleted"
            );
        }
        assert!(unsaved.dead.is_sorted_by(|a, b| a.to <= b.from));
        let mut last: Option<Vec<u8>> = None;
        for change in unsaved.puts.iter() {
            let key = change.key.to_vec();
            assert!(last < Some(key.clone()), "keys ascend");
            assert!(
                unsaved
                    .dead
                    .iter()
                    .all(|dead| !(&dead.from..&dead.to).contains(&&key))
            );
            self.entries.insert(key.clone(), change.value.to_vec());
            last = Some(key);
        }
        // Of panes that were handed out the journal may have some that were never saved, or newer.
        let draining = pipeline.clocks().draining;
        let is_dead = |key: &Vec<u8>| {
            draining.iter().any(|(window, last)| {
                let instance = 2..12 + window.len();
                key.get(instance.clone()) == last.get(instance) && key <= last
            })
        };
        replayed.retain(|key, _| !is_dead(key) && self.entries.contains_key(key));
        let mut live = self.entries.clone();
        live.retain(|key, _| !is_dead(key));
        assert_eq!(live, replayed);
        assert!(pipeline.take_unsaved().is_empty());
    }

    /// A start: the journal goes into the store of checkpoints, then the pipeline is built anew,
    /// with everything in memory.
    pub fn restore(&mut self, spec: PipelineSpec) -> Pipeline {
        let mut pipeline = self.restore_cold(spec);
        pipeline.warm(usize::MAX, self).unwrap();
        pipeline
    }

    /// As [`Self::restore`], with nothing in memory.
    pub fn restore_cold(&mut self, spec: PipelineSpec) -> Pipeline {
        self.entries.extend(self.journal.drain(..));
        let clocks: Clocks = serde_json::from_str(&self.clocks).unwrap();
        Pipeline::restore(spec, &clocks, self).unwrap().0
    }
}
