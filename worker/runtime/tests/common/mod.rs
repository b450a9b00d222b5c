//! A broker within the test process, an app, and workers of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use turbine_crds::assignment::{AssignedTask, AssignmentDocument};
use turbine_crds::compiled::CompiledApp;
use turbine_crds::control::{TaskState, TaskStatus};
use turbine_kafka::{
    Admin, EmbeddedBroker, OutputBatch, OutputProducer, PartitionReader, QueueBudget,
};
use turbine_protocol::start::OnForeign;
use turbine_protocol::{GroupId, Offset, TopicName};
use turbine_runtime::clock::{Clock, SystemClock};
use turbine_runtime::memory::Memory;
use turbine_runtime::task::Limits;
use turbine_runtime::worker::{Drained, Manager, Worker, WorkerConfig};
use turbine_state::checkpoint::{CheckpointSettings, Checkpointer};
use turbine_state::{StateBudget, StateVolume};

pub(crate) const LINEAGE: &str = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";
pub(crate) const WAIT: Duration = Duration::from_secs(30);

/// A moment at the begin of a minute.
pub(crate) const T0: i64 = 1_800_000_000_000;
pub(crate) const MINUTE: i64 = 60_000;

pub(crate) fn clock() -> Arc<TestClock> {
    TestClock::at(T0 + 60 * MINUTE)
}

pub(crate) fn ticking() -> Arc<SystemClock> {
    Arc::new(SystemClock::default())
}

/// Times of the present, for tests in which the machine's clock runs.
pub(crate) fn recent() -> i64 {
    let now = jiff::Timestamp::now().as_millisecond();
    now - now % MINUTE - 60 * MINUTE
}

/// Out of order by up to 90 seconds, over several minutes and users.
pub(crate) fn events(from: i64, count: i64) -> Vec<(String, i64, i64)> {
    (0..count)
        .map(|at| {
            let jitter = (at * 7_919) % 90_000;
            (
                format!("user-{}", (at * 31) % 17),
                at % 100 - 20,
                from + at * 400 - jitter,
            )
        })
        .collect()
}

pub(crate) fn borrowed(events: &[(String, i64, i64)]) -> Vec<(&str, i64, i64)> {
    events
        .iter()
        .map(|(user, amount, ts)| (user.as_str(), *amount, *ts))
        .collect()
}

pub(crate) type Sums = BTreeMap<(String, i64), (i64, i64)>;

/// What a person with a ledger would say: sum and number per user and minute.
pub(crate) fn ledger(events: &[(String, i64, i64)]) -> Sums {
    let mut sums = Sums::new();
    for (user, amount, ts) in events {
        let sum = sums
            .entry((user.clone(), ts.div_euclid(MINUTE) * MINUTE))
            .or_default();
        sum.0 += amount;
        sum.1 += 1;
    }
    sums
}

/// The last result of each key and window.
pub(crate) fn last_results(results: &[Value]) -> Sums {
    results
        .iter()
        .map(|row| {
            let number = |name: &str| row[name].as_i64().unwrap();
            assert_eq!(number("window_end_ms"), number("window_start_ms") + MINUTE);
            let key = (
                row["user"].as_str().unwrap().to_owned(),
                number("window_start_ms"),
            );
            (key, (number("total"), number("n")))
        })
        .collect()
}

/// A clock that stands where it was put.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicI64,
}

impl TestClock {
    pub(crate) fn at(wall_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            wall_ms: AtomicI64::new(wall_ms),
            monotonic_ms: AtomicI64::new(0),
        })
    }

    pub(crate) fn advance(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// Sums of `amount` per `user` and minute, from topic `in` to topic `out`.
pub(crate) fn app() -> Value {
    json!({
        "appId": "a",
        "kafka": {"bootstrapServers": "", "tls": null, "sasl": null, "properties": {}},
        "logLevel": "warn",
        "logFormat": "text",
        "topics": {"replicationFactor": null, "config": {}},
        "subscriptions": [{
            "name": "s",
            "topic": "in",
            "partitions": null,
            "columns": [
                {"name": "user", "type": "string"},
                {"name": "amount", "type": "int64"},
                {"name": "ts", "type": "int64"},
            ],
            "eventTime": {"column": "ts", "unit": "ms"},
            "outOfOrdernessMs": 0,
            "maxFutureMs": 600_000,
            "startFrom": "earliest",
            "onError": "fail",
            "dlq": null,
            "idleTimeoutMs": 30_000,
            "idlePolicy": "hold",
            "partitionKey": {"columns": ["user"]},
            "onNullKey": "group",
            "windows": [{
                "name": "minute",
                "sizeMs": 60_000,
                "keys": ["user"],
                "aggregates": [
                    {"as": "total", "function": "sum", "column": "amount"},
                    {"as": "n", "function": "count", "column": null},
                ],
                "allowedLatenessMs": 0,
            }],
            "output": {"topic": "out", "partitions": null, "messageKey": "user"},
            "processingGuarantee": "atLeastOnce",
            "commitIntervalMs": 50,
        }],
    })
}

pub(crate) struct Bed {
    pub broker: EmbeddedBroker,
    pub folder: TempDir,
    pub partitions: u32,
}

pub(crate) struct Running {
    pub worker: Arc<Worker>,
    manager: Manager,
}

impl Running {
    pub(crate) fn stop(self) -> Drained {
        self.worker.drain();
        self.manager.wait()
    }

    pub(crate) fn tasks(&self) -> Vec<TaskStatus> {
        self.worker
            .views()
            .into_iter()
            .map(|view| view.status)
            .collect()
    }

    pub(crate) fn task(&self, partition: i32) -> TaskStatus {
        self.tasks()
            .into_iter()
            .find(|task| task.partition == partition)
            .unwrap()
    }

    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&[TaskStatus]) -> bool) {
        eventually(what, || {
            // In this order: tasks that are not started yet are not among those shown.
            let settled = self.worker.settled();
            let tasks = self.tasks();
            if settled && holds(&tasks) {
                Ok(())
            } else {
                Err(format!("{tasks:#?}"))
            }
        });
    }

    /// Everything that was produced before is committed.
    pub(crate) fn until_caught_up(&self, records: u64) {
        self.until("all records are read and committed", |tasks| {
            tasks.iter().map(|task| task.records).sum::<u64>() >= records
                && tasks.iter().all(|task| {
                    task.state == TaskState::Running && task.position >= task.end_offset
                })
        });
    }
}

pub(crate) fn eventually<T>(what: &str, mut check: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + WAIT;
    loop {
        match check() {
            Ok(found) => return found,
            Err(last) if Instant::now() >= deadline => panic!("not in time: {what}: {last}"),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// All tasks have read what there is.
pub(crate) fn until_through(running: &Running) {
    running.until("all is read and committed", |tasks| {
        tasks.iter().all(|task| {
            task.state == TaskState::Running
                && task.end_offset.is_some()
                && task.position == task.end_offset
        })
    });
}

/// The sum of a metric over all tasks.
pub(crate) fn metric(running: &Running, name: &str) -> u64 {
    metric_of(&running.worker, name)
}

/// As [`metric`], of a worker.
pub(crate) fn metric_of(worker: &Worker, name: &str) -> u64 {
    let text = worker.metrics_text().unwrap();
    let lines = text.lines().filter(|line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('{'))
    });
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// The tasks have looked several times at what is due now.
pub(crate) fn has_looked(worker: &Worker) {
    let looks = || metric_of(worker, "turbine_poll_seconds_count");
    let before = looks();
    eventually("the task looks again", || {
        let now = looks();
        if now >= before + 3 {
            Ok(())
        } else {
            Err(format!("{before}, {now}"))
        }
    });
}

/// Where the worker of a bed keeps state.
pub(crate) fn state(bed: &Bed) -> PathBuf {
    bed.path("state")
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

impl Bed {
    /// A broker with topics `in` (of that count), `out` and `dead`.
    pub(crate) fn new(partitions: u32) -> Self {
        let broker = EmbeddedBroker::start().unwrap();
        for topic in ["in", "out", "dead"] {
            broker
                .create_topic(&topic.parse().unwrap(), partitions.try_into().unwrap())
                .unwrap();
        }
        Self {
            broker,
            folder: TempDir::new().unwrap(),
            partitions,
        }
    }

    pub(crate) fn compiled(&self, app: &Value) -> CompiledApp {
        let mut app = app.clone();
        app["kafka"]["bootstrapServers"] = json!(self.broker.bootstrap_servers());
        serde_json::from_value(app).unwrap()
    }

    pub(crate) fn document(&self, epoch: i64, pod: &str) -> AssignmentDocument {
        let partitions = i32::try_from(self.partitions).unwrap();
        AssignmentDocument {
            app_id: "a".to_owned(),
            lineage: LINEAGE.to_owned(),
            epoch,
            tasks: (0..partitions)
                .map(|partition| AssignedTask {
                    subscription: "s".to_owned(),
                    partition,
                    partitions,
                    store_epoch: 1,
                    pod: pod.to_owned(),
                })
                .collect(),
        }
    }

    pub(crate) fn config(&self, app: &Value, clock: Arc<dyn Clock>) -> WorkerConfig {
        let budget = StateBudget::new(64 << 20, 12).unwrap();
        let volume = self.folder.path().join("state");
        WorkerConfig {
            app: self.compiled(app),
            pod: "a-0".to_owned(),
            kafka: self.broker.settings().unwrap(),
            memory: Memory::of(512 << 20),
            counts: None,
            checkpointer: Checkpointer::open(&CheckpointSettings::default(), &volume).unwrap(),
            volume: StateVolume::open(&volume, budget).unwrap(),
            on_foreign: OnForeign::Refuse,
            stop_patience: Duration::from_secs(10),
            limits: Limits {
                poll_wait: Duration::from_millis(20),
                retry_first: Duration::from_millis(50),
                ..Limits::default()
            },
            clock,
        }
    }

    pub(crate) fn start_with(&self, config: WorkerConfig) -> Running {
        let (worker, manager) = Worker::start(config).unwrap();
        worker.offer(self.document(1, "a-0")).unwrap();
        Running { worker, manager }
    }

    pub(crate) fn start(&self, app: &Value, clock: Arc<dyn Clock>) -> Running {
        self.start_with(self.config(app, clock))
    }

    pub(crate) fn produce<'a>(
        &self,
        records: impl IntoIterator<Item = (Option<&'a [u8]>, Option<&'a [u8]>)>,
    ) {
        let budget = QueueBudget::divided(64 << 20, 1);
        let mut producer = OutputProducer::open(&self.broker.settings().unwrap(), budget).unwrap();
        let topic = producer.topic(&"in".parse().unwrap(), WAIT).unwrap();
        let mut batch = OutputBatch::new();
        for (key, value) in records {
            batch.push(key, value);
        }
        assert_eq!(producer.produce(&topic, &batch).unwrap(), []);
        producer.flush_acked(Instant::now() + WAIT).unwrap();
    }

    pub(crate) fn produce_events(&self, events: &[(&str, i64, i64)]) {
        let values: Vec<String> = events.iter().map(value).collect();
        self.produce(
            events
                .iter()
                .zip(&values)
                .map(|((user, _, _), value)| (Some(user.as_bytes()), Some(value.as_bytes()))),
        );
    }

    /// Placed as librdkafka does when nobody chooses a partitioner.
    pub(crate) fn produce_by_crc32(&self, events: &[(&str, i64, i64)]) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.broker.bootstrap_servers())
            .create()
            .unwrap();
        for event in events {
            let value = value(event);
            let record = BaseRecord::to("in").key(event.0).payload(&value);
            producer.send(record).unwrap();
        }
        producer.flush(WAIT).unwrap();
    }

    /// Everything in a topic, partition after partition, in the order of the logs.
    pub(crate) fn read(&self, topic: &str) -> Vec<Record> {
        let settings = self.broker.settings().unwrap();
        let name: TopicName = topic.parse().unwrap();
        let group = GroupId::of(&"reader".parse().unwrap(), &"test".parse().unwrap());
        let admin = Admin::open(&settings).unwrap();
        let mut records = Vec::new();
        for partition in 0..i32::try_from(self.partitions).unwrap() {
            let partition = partition.try_into().unwrap();
            let end = admin.watermarks(&name, partition, WAIT).unwrap().end();
            let budget = QueueBudget::divided(8 << 20, 1);
            let mut reader =
                PartitionReader::open(&settings, &group, &name, partition, Offset::ZERO, budget)
                    .unwrap();
            while reader.position() < end {
                let batch = reader.read(10_000, Duration::from_secs(1)).unwrap();
                records.extend((0..batch.len()).map(|at| {
                    Record {
                        partition: partition.get(),
                        key: batch.key(at).map(<[u8]>::to_vec),
                        value: batch.value(at).map(<[u8]>::to_vec),
                        headers: batch
                            .headers(at)
                            .map(|(name, value)| {
                                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                                (text(name), value.map_or_else(String::new, text))
                            })
                            .collect(),
                    }
                }));
            }
        }
        records
    }

    pub(crate) fn results(&self) -> Vec<Value> {
        self.read("out")
            .iter()
            .map(|record| serde_json::from_slice(record.value.as_ref().unwrap()).unwrap())
            .collect()
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let draft = self.folder.path().join("draft");
        fs::write(&draft, content).unwrap();
        fs::rename(draft, &path).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::join(self.folder.path(), name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub partition: i32,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
}

impl Record {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }
}

pub(crate) fn value((user, amount, ts): &(&str, i64, i64)) -> String {
    json!({"user": user, "amount": amount, "ts": ts}).to_string()
}
