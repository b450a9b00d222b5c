//! Prometheus metrics. Handles are looked up once per task; tasks move them once per batch.

use std::borrow::Cow;
use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use turbine_protocol::Task;
use turbine_state::Room;

type Count = Counter<u64, AtomicU64>;
pub(crate) type Level = Gauge<i64, AtomicI64>;
type Rate = Gauge<f64, AtomicU64>;

/// Labels of everything that belongs to one task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TaskLabels {
    subscription: String,
    partition: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WindowLabels {
    subscription: String,
    partition: i32,
    window: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabels {
    subscription: String,
    partition: i32,
    topic: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    subscription: String,
    partition: i32,
    phase: String,
    action: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    subscription: String,
    partition: i32,
    action: String,
}

/// What became of a record that could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRecordAction {
    /// Written to the dead-letter topic.
    DeadLettered,
    /// Left out.
    Dropped,
}

impl BadRecordAction {
    /// Its name in labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeadLettered => "dead_lettered",
            Self::Dropped => "dropped",
        }
    }
}

fn seconds() -> Histogram {
    // 100 µs to 13 s.
    Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(
        1e-4, 2.0, 18,
    ))
}

type Seconds = Family<TaskLabels, Histogram, fn() -> Histogram>;

macro_rules! families {
    ($($(#[$doc:meta])* $field:ident: $kind:ty = $name:literal, $help:literal $(, $unit:expr)?;)*) => {
        /// All metrics of a worker.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $($field: $kind,)*
        }

        impl Metrics {
            /// All metrics at nothing, labelled with the app.
            #[must_use]
            pub fn new(app_id: &str) -> Self {
                let label = (Cow::Borrowed("app"), Cow::Owned(app_id.to_owned()));
                let mut registry = Registry::with_labels([label].into_iter());
                $(let $field = <$kind as New>::new();)*
                $(families!(@register registry, $field, $name, $help $(, $unit)?);)*
                Self { registry, $($field,)* }
            }
        }
    };
    (@register $registry:ident, $field:ident, $name:literal, $help:literal) => {
        $registry.register($name, $help, $field.clone());
    };
    (@register $registry:ident, $field:ident, $name:literal, $help:literal, $unit:expr) => {
        $registry.register_with_unit($name, $help, $unit, $field.clone());
    };
}

/// Made at nothing.
trait New {
    fn new() -> Self;
}

impl New for Family<TaskLabels, Count> {
    fn new() -> Self {
        Self::default()
    }
}

impl New for Family<TaskLabels, Level> {
    fn new() -> Self {
        Self::default()
    }
}

impl New for Family<TaskLabels, Rate> {
    fn new() -> Self {
        Self::default()
    }
}

impl New for Family<WindowLabels, Count> {
    fn new() -> Self {
        Self::default()
    }
}

impl New for Family<TopicLabels, Count> {
    fn new() -> Self {
        Self::default()
    }
}

impl New for Family<ErrorLabels, Count> {
    fn new() -> Self {
        Self::default()
    }
}

impl New for Family<ActionLabels, Count> {
    fn new() -> Self {
        Self::default()
    }
}

impl New for Seconds {
    fn new() -> Self {
        Family::new_with_constructor(seconds as fn() -> Histogram)
    }
}

impl New for Count {
    fn new() -> Self {
        Self::default()
    }
}

impl New for Level {
    fn new() -> Self {
        Self::default()
    }
}

families! {
    messages: Family<TaskLabels, Count> = "turbine_messages", "Records processed";
    batches: Family<TaskLabels, Count> = "turbine_batches", "Batches processed";
    throughput_10s: Family<TaskLabels, Rate> = "turbine_throughput_10s", "Records per second over the last 10 seconds";
    throughput_60s: Family<TaskLabels, Rate> = "turbine_throughput_60s", "Records per second over the last minute";
    outputs: Family<TaskLabels, Count> = "turbine_output_records", "Results written";
    batch: Seconds = "turbine_batch_duration", "A batch, from its records to its results handed over", Unit::Seconds;
    poll: Seconds = "turbine_poll", "Waiting for a batch", Unit::Seconds;
    decode: Seconds = "turbine_decode", "Decoding a batch", Unit::Seconds;
    process: Seconds = "turbine_process", "Folding a batch", Unit::Seconds;
    produce: Seconds = "turbine_produce", "Handing results of a batch to the producer", Unit::Seconds;
    commit: Seconds = "turbine_commit", "A commit, from flush to offset", Unit::Seconds;
    save: Seconds = "turbine_state_save", "Taking committed state into the store's files", Unit::Seconds;
    lag: Family<TaskLabels, Level> = "turbine_consumer_lag", "Records behind the end";
    open_transaction: Family<TaskLabels, Level> = "turbine_open_transaction", "How long an open transaction of another producer in the input has held the task up, from 10 seconds on; else 0", Unit::Seconds;
    state_ops: Family<TaskLabels, Count> = "turbine_state_ops", "Committed state operations";
    state_ops_10s: Family<TaskLabels, Rate> = "turbine_state_ops_10s", "Committed state operations per second over the last 10 seconds";
    state_ops_60s: Family<TaskLabels, Rate> = "turbine_state_ops_60s", "Committed state operations per second over the last minute";
    state_files: Family<TaskLabels, Level> = "turbine_state_files_bytes", "Size of the store's files";
    state_memtables: Family<TaskLabels, Level> = "turbine_state_memtable_bytes", "Memory of the store's write buffers";
    state_compaction: Family<TaskLabels, Level> = "turbine_state_pending_compaction_bytes", "What the store has still to rewrite, estimated";
    state_journal: Family<TaskLabels, Level> = "turbine_state_journal_bytes", "Size of the journal that the pod's tasks share, as this task saw it last";
    checkpoint_number: Family<TaskLabels, Level> = "turbine_checkpoint_number", "Number of the newest checkpoint";
    checkpoint_age: Family<TaskLabels, Level> = "turbine_checkpoint_age", "Since the newest checkpoint was made; since the task started if none is known", Unit::Seconds;
    checkpoint_bytes: Family<TaskLabels, Level> = "turbine_checkpoint_size_bytes", "Size of the newest checkpoint";
    checkpoint_failing: Family<TaskLabels, Level> = "turbine_checkpoint_failing", "1 if the last try to make a checkpoint failed";
    checkpoint_failures: Family<TaskLabels, Count> = "turbine_checkpoint_failures", "Checkpoints that could not be made";
    checkpoint_restores: Family<TaskLabels, Count> = "turbine_checkpoint_restores", "Stores that were brought back from a checkpoint";
    checkpoint_restored: Family<TaskLabels, Level> = "turbine_checkpoint_restored_percent", "How much of a checkpoint is brought back; 100 when it is, 0 if none was needed";
    replayed: Family<TaskLabels, Count> = "turbine_replayed_records", "Records that an older store lacked and that were read again, without results";
    missing: Family<TaskLabels, Level> = "turbine_state_missing_offsets", "Offsets that the state lacks since the task went on behind them (onCrashRecovery: accept, onRetentionGap: accept)";
    damaged_stores: Family<TaskLabels, Count> = "turbine_state_damaged_stores", "Damaged stores that were moved aside for a checkpoint";
    evicted: Family<TaskLabels, Count> = "turbine_state_evicted_panes", "Panes that left memory for want of room; they are read again when needed";
    live_bytes: Family<TaskLabels, Level> = "turbine_state_live_bytes", "Memory of the panes that are in it, estimated";
    active_windows: Family<TaskLabels, Level> = "turbine_active_windows", "Open windows";
    open_panes: Family<TaskLabels, Level> = "turbine_open_panes", "Open panes";
    frontier: Family<TaskLabels, Level> = "turbine_event_time_watermark_ms", "How far event time has closed, epoch milliseconds";
    frontier_lag: Family<TaskLabels, Level> = "turbine_event_time_watermark_lag_ms", "How far that is behind the wall clock, milliseconds";
    no_time: Family<TaskLabels, Count> = "turbine_event_time_null", "Records without an event time";
    null_keys: Family<ActionLabels, Count> = "turbine_null_keys", "Records without a partition key, by what became of them";
    late: Family<WindowLabels, Count> = "turbine_late_rows_dropped", "Late rows, dropped";
    late_idle: Family<WindowLabels, Count> = "turbine_late_rows_idle_closed", "Of these, late only because idling moved the frontier";
    bad: Family<ErrorLabels, Count> = "turbine_dlq_messages", "Records that could not be used, by phase and what became of them";
    bad_60m: Family<TaskLabels, Level> = "turbine_dlq_messages_60m", "Records that could not be used in the last hour, since the task started";
    misplaced: Family<TopicLabels, Count> = "turbine_misplaced_records", "Records whose key belongs to another partition; with an undeclared hash only the first of each pane";
    placement: Family<TaskLabels, Level> = "turbine_partition_key_placement", "1 if records lie where murmur2 puts their keys, -1 if not, 0 if not known";
    restarts: Family<TaskLabels, Count> = "turbine_worker_restarts", "Restarts of a task by itself";
    fatal: Family<TaskLabels, Count> = "turbine_worker_fatal", "Ends of a task that need a person";
    running: Family<TaskLabels, Level> = "turbine_worker_running", "1 if the task runs";
    stopped_at: Family<TaskLabels, Level> = "turbine_worker_stopped_at_ms", "When the task last stopped, epoch milliseconds";
    volume_free: Level = "turbine_state_volume_free_bytes", "What can still be written to the volume with the state";
    volume_size: Level = "turbine_state_volume_size_bytes", "Size of the volume with the state";
    halted: Level = "turbine_halted_workers", "Tasks that stopped by themselves";
    unauthorized: Count = "turbine_api_unauthorized", "Refused calls of the control API";
}

impl Metrics {
    /// All metrics as text.
    ///
    /// # Errors
    /// Never in practice: a string takes any text.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// A call of the control API was refused.
    pub fn count_unauthorized(&self) {
        self.unauthorized.inc();
    }

    /// How much room the volume with the state has.
    pub fn set_volume(&self, room: Room) {
        for (level, bytes) in [
            (&self.volume_free, room.free),
            (&self.volume_size, room.size),
        ] {
            level.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// How many tasks are halted.
    pub fn set_halted(&self, tasks: usize) {
        self.halted.set(i64::try_from(tasks).unwrap_or(i64::MAX));
    }

    /// The handles of one task that reads `topic`.
    #[must_use]
    pub fn task(&self, task: &Task, topic: &str, windows: &[String]) -> TaskMetrics {
        let labels = TaskLabels {
            subscription: task.subscription.to_string(),
            partition: task.partition.get(),
        };
        let window = |family: &Family<WindowLabels, Count>, window: &String| {
            family
                .get_or_create(&WindowLabels {
                    subscription: labels.subscription.clone(),
                    partition: labels.partition,
                    window: window.clone(),
                })
                .clone()
        };
        let null = |action: &str| {
            self.null_keys
                .get_or_create(&ActionLabels {
                    subscription: labels.subscription.clone(),
                    partition: labels.partition,
                    action: action.to_owned(),
                })
                .clone()
        };
        TaskMetrics {
            messages: self.messages.get_or_create(&labels).clone(),
            batches: self.batches.get_or_create(&labels).clone(),
            throughput_10s: self.throughput_10s.get_or_create(&labels).clone(),
            throughput_60s: self.throughput_60s.get_or_create(&labels).clone(),
            outputs: self.outputs.get_or_create(&labels).clone(),
            batch: self.batch.get_or_create(&labels).clone(),
            poll: self.poll.get_or_create(&labels).clone(),
            decode: self.decode.get_or_create(&labels).clone(),
            process: self.process.get_or_create(&labels).clone(),
            produce: self.produce.get_or_create(&labels).clone(),
            commit: self.commit.get_or_create(&labels).clone(),
            save: self.save.get_or_create(&labels).clone(),
            lag: self.lag.get_or_create(&labels).clone(),
            open_transaction: self.open_transaction.get_or_create(&labels).clone(),
            state_ops: self.state_ops.get_or_create(&labels).clone(),
            state_ops_10s: self.state_ops_10s.get_or_create(&labels).clone(),
            state_ops_60s: self.state_ops_60s.get_or_create(&labels).clone(),
            state_files: self.state_files.get_or_create(&labels).clone(),
            state_memtables: self.state_memtables.get_or_create(&labels).clone(),
            state_compaction: self.state_compaction.get_or_create(&labels).clone(),
            state_journal: self.state_journal.get_or_create(&labels).clone(),
            checkpoint_number: self.checkpoint_number.get_or_create(&labels).clone(),
            checkpoint_age: self.checkpoint_age.get_or_create(&labels).clone(),
            checkpoint_bytes: self.checkpoint_bytes.get_or_create(&labels).clone(),
            checkpoint_failing: self.checkpoint_failing.get_or_create(&labels).clone(),
            checkpoint_failures: self.checkpoint_failures.get_or_create(&labels).clone(),
            checkpoint_restores: self.checkpoint_restores.get_or_create(&labels).clone(),
            checkpoint_restored: self.checkpoint_restored.get_or_create(&labels).clone(),
            replayed: self.replayed.get_or_create(&labels).clone(),
            missing: self.missing.get_or_create(&labels).clone(),
            damaged_stores: self.damaged_stores.get_or_create(&labels).clone(),
            evicted: self.evicted.get_or_create(&labels).clone(),
            live_bytes: self.live_bytes.get_or_create(&labels).clone(),
            active_windows: self.active_windows.get_or_create(&labels).clone(),
            open_panes: self.open_panes.get_or_create(&labels).clone(),
            frontier: self.frontier.get_or_create(&labels).clone(),
            frontier_lag: self.frontier_lag.get_or_create(&labels).clone(),
            no_time: self.no_time.get_or_create(&labels).clone(),
            null_grouped: null("grouped"),
            null_dropped: null("dropped"),
            null_dead_lettered: null("dead_lettered"),
            late: windows
                .iter()
                .map(|name| window(&self.late, name))
                .collect(),
            late_idle: windows
                .iter()
                .map(|name| window(&self.late_idle, name))
                .collect(),
            misplaced: self
                .misplaced
                .get_or_create(&TopicLabels {
                    subscription: labels.subscription.clone(),
                    partition: labels.partition,
                    topic: topic.to_owned(),
                })
                .clone(),
            placement: self.placement.get_or_create(&labels).clone(),
            restarts: self.restarts.get_or_create(&labels).clone(),
            fatal: self.fatal.get_or_create(&labels).clone(),
            running: self.running.get_or_create(&labels).clone(),
            bad_60m: self.bad_60m.get_or_create(&labels).clone(),
            stopped_at: self.stopped_at.get_or_create(&labels).clone(),
            bad: self.bad.clone(),
            labels,
        }
    }

    /// Forgets the levels of a task that left, so that nobody reads them as those of a live one.
    /// Its counters stay.
    pub fn forget(&self, task: &Task) {
        let labels = TaskLabels {
            subscription: task.subscription.to_string(),
            partition: task.partition.get(),
        };
        for family in [
            &self.lag,
            &self.open_transaction,
            &self.state_files,
            &self.state_memtables,
            &self.state_compaction,
            &self.state_journal,
            &self.checkpoint_number,
            &self.checkpoint_age,
            &self.checkpoint_bytes,
            &self.checkpoint_failing,
            &self.checkpoint_restored,
            &self.missing,
            &self.live_bytes,
            &self.active_windows,
            &self.open_panes,
            &self.bad_60m,
            &self.frontier,
            &self.frontier_lag,
            &self.placement,
            &self.running,
        ] {
            family.remove(&labels);
        }
        for family in [
            &self.throughput_10s,
            &self.throughput_60s,
            &self.state_ops_10s,
            &self.state_ops_60s,
        ] {
            family.remove(&labels);
        }
    }
}

/// The handles of one task.
#[derive(Debug, Clone)]
pub struct TaskMetrics {
    pub(crate) messages: Count,
    pub(crate) batches: Count,
    pub(crate) throughput_10s: Rate,
    pub(crate) throughput_60s: Rate,
    pub(crate) outputs: Count,
    pub(crate) batch: Histogram,
    pub(crate) poll: Histogram,
    pub(crate) decode: Histogram,
    pub(crate) process: Histogram,
    pub(crate) produce: Histogram,
    pub(crate) commit: Histogram,
    pub(crate) save: Histogram,
    pub(crate) lag: Level,
    pub(crate) open_transaction: Level,
    pub(crate) state_ops: Count,
    pub(crate) state_ops_10s: Rate,
    pub(crate) state_ops_60s: Rate,
    pub(crate) state_files: Level,
    pub(crate) state_memtables: Level,
    pub(crate) state_compaction: Level,
    pub(crate) state_journal: Level,
    pub(crate) checkpoint_number: Level,
    pub(crate) checkpoint_age: Level,
    pub(crate) checkpoint_bytes: Level,
    pub(crate) checkpoint_failing: Level,
    pub(crate) checkpoint_failures: Count,
    pub(crate) checkpoint_restores: Count,
    pub(crate) checkpoint_restored: Level,
    pub(crate) replayed: Count,
    pub(crate) missing: Level,
    pub(crate) damaged_stores: Count,
    pub(crate) evicted: Count,
    pub(crate) live_bytes: Level,
    pub(crate) active_windows: Level,
    pub(crate) open_panes: Level,
    pub(crate) frontier: Level,
    pub(crate) frontier_lag: Level,
    pub(crate) no_time: Count,
    pub(crate) null_grouped: Count,
    pub(crate) null_dropped: Count,
    pub(crate) null_dead_lettered: Count,
    pub(crate) late: Vec<Count>,
    pub(crate) late_idle: Vec<Count>,
    pub(crate) misplaced: Count,
    pub(crate) placement: Level,
    pub(crate) restarts: Count,
    pub(crate) fatal: Count,
    pub(crate) running: Level,
    pub(crate) bad_60m: Level,
    pub(crate) stopped_at: Level,
    bad: Family<ErrorLabels, Count>,
    labels: TaskLabels,
}

impl TaskMetrics {
    /// Counts records that could not be used.
    pub(crate) fn count_bad(&self, phase: &str, action: BadRecordAction, records: u64) {
        if records > 0 {
            self.bad
                .get_or_create(&ErrorLabels {
                    subscription: self.labels.subscription.clone(),
                    partition: self.labels.partition,
                    phase: phase.to_owned(),
                    action: action.as_str().to_owned(),
                })
                .inc_by(records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_those_of_the_documentation() {
        let metrics = Metrics::new("fraud");
        let task = Task {
            subscription: "per-user".parse().unwrap(),
            partition: 3.try_into().unwrap(),
        };
        let handles = metrics.task(&task, "events", &["risk".to_owned()]);
        handles.messages.inc_by(7);
        handles.late[0].inc();
        handles.commit.observe(0.25);
        handles.lag.set(12);
        handles.open_transaction.set(17);
        handles.misplaced.inc_by(3);
        handles.placement.set(-1);
        handles.throughput_10s.set(2.5);
        handles.state_files.set(4096);
        handles.count_bad("deserialize", BadRecordAction::DeadLettered, 2);
        metrics.count_unauthorized();
        let text = metrics.text().unwrap();
        for line in [
            r#"turbine_messages_total{app="fraud",subscription="per-user",partition="3"} 7"#,
            r#"turbine_late_rows_dropped_total{app="fraud",subscription="per-user",partition="3",window="risk"} 1"#,
            r#"turbine_commit_seconds_count{app="fraud",subscription="per-user",partition="3"} 1"#,
            r#"turbine_consumer_lag{app="fraud",subscription="per-user",partition="3"} 12"#,
            r#"turbine_open_transaction_seconds{app="fraud",subscription="per-user",partition="3"} 17"#,
            r#"turbine_throughput_10s{app="fraud",subscription="per-user",partition="3"} 2.5"#,
            r#"turbine_state_files_bytes{app="fraud",subscription="per-user",partition="3"} 4096"#,
            r#"turbine_misplaced_records_total{app="fraud",subscription="per-user",partition="3",topic="events"} 3"#,
            r#"turbine_partition_key_placement{app="fraud",subscription="per-user",partition="3"} -1"#,
            r#"turbine_dlq_messages_total{app="fraud",subscription="per-user",partition="3",phase="deserialize",action="dead_lettered"} 2"#,
            r#"turbine_api_unauthorized_total{app="fraud"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        metrics.forget(&task);
        let text = metrics.text().unwrap();
        for gone in ["turbine_consumer_lag{", "turbine_throughput_10s{"] {
            assert!(!text.contains(gone), "{text}");
        }
        assert!(text.contains("turbine_messages_total{"), "{text}");
    }
}
