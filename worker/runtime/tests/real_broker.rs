//! What a worker does where rights, topics or records are missing or do not fit, on a real broker at
//! `TURBINE_KAFKA_BOOTSTRAP`. Rights are those of the user who may do nothing, with a login at
//! `TURBINE_KAFKA_SASL_BOOTSTRAP`; `TURBINE_BED` is the folder of the script that grants.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;
#[path = "real_broker/receipts.rs"]
mod receipts;
#[path = "real_broker/transactions.rs"]
mod transactions;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{LINEAGE, WAIT, app, eventually};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use tempfile::TempDir;
use turbine_crds::assignment::{AssignedTask, AssignmentDocument};
use turbine_crds::control::{TaskState, TaskStatus};
use turbine_kafka::{
    Admin, KafkaSettings, Mechanism, NewTopic, OutputBatch, OutputProducer, PartitionReader,
    QueueBudget, Sasl, Secret, Tls,
};
use turbine_protocol::start::OnForeign;
use turbine_protocol::{GroupId, TopicName};
use turbine_runtime::clock::{Clock, SystemClock};
use turbine_runtime::memory::Memory;
use turbine_runtime::task::Limits;
use turbine_runtime::worker::{Manager, Worker, WorkerConfig};
use turbine_state::checkpoint::{CheckpointSettings, Checkpointer};
use turbine_state::{StateBudget, StateVolume};

const MINUTE: i64 = 60_000;

/// The begin of a minute an hour ago.
fn recent() -> i64 {
    let now = jiff::Timestamp::now().as_millisecond();
    now - now % MINUTE - 60 * MINUTE
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// The broker, by the eyes of one who may do everything, and an app whose user may do nothing.
struct Bed {
    all: KafkaSettings,
    limited: KafkaSettings,
    admin: Admin,
    run: String,
    folder: TempDir,
    granted: Mutex<Vec<Vec<String>>>,
}

struct Running {
    worker: Arc<Worker>,
    manager: Manager,
}

impl Bed {
    fn new() -> Self {
        let client = env("TURBINE_KAFKA_CLIENT");
        let file = |name: &str| std::fs::read_to_string(Path::new(&client).join(name)).unwrap();
        let tls = Tls {
            ca: Some(file("ca.crt")),
            client: None,
        };
        let sasl = Sasl {
            mechanism: Mechanism::ScramSha512,
            username: file("limited-user"),
            password: Secret::new(file("limited-password")),
        };
        let limited = KafkaSettings::new(
            env("TURBINE_KAFKA_SASL_BOOTSTRAP"),
            Some(tls),
            Some(sasl),
            BTreeMap::new(),
        )
        .unwrap();
        let all = KafkaSettings::plaintext(env("TURBINE_KAFKA_BOOTSTRAP")).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self {
            admin: Admin::open(&all).unwrap(),
            all,
            limited,
            run: format!("r{}", now.as_nanos()),
            folder: TempDir::new().unwrap(),
            granted: Mutex::default(),
        }
    }

    fn name(&self, topic: &str) -> String {
        format!("{topic}-{}", self.run)
    }

    fn create(&self, topic: &str) {
        self.create_with(topic, &[]);
    }

    fn create_with(&self, topic: &str, config: &[(&str, &str)]) {
        let config = config
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let new = NewTopic {
            name: self.name(topic).parse().unwrap(),
            partitions: 1.try_into().unwrap(),
            replication: Some(1),
            config: config.collect(),
        };
        self.admin.create_topic(&new, WAIT).unwrap();
        let until = Instant::now() + WAIT;
        self.admin
            .await_partition_count(&new.name, new.partitions, until)
            .unwrap();
    }

    fn acls(rule: &[String]) {
        let bootstrap = env("TURBINE_KAFKA_BOOTSTRAP");
        let script = Path::new(&env("TURBINE_BED")).join("kafka.sh");
        let done = Command::new(script)
            .args(["tool", "acls", "--bootstrap-server", &bootstrap])
            .args(["--allow-principal", "User:limited"])
            .args(rule)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    fn grant(&self, right: &str, on: &str, name: &str) {
        let rule: Vec<String> = ["--operation", right, on, name].map(str::to_owned).to_vec();
        Self::acls(&[vec!["--add".to_owned()], rule.clone()].concat());
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        granted.push(rule);
    }

    fn take_back(right: &str, on: &str, name: &str) {
        let rule = ["--remove", "--force", "--operation", right, on, name];
        Self::acls(&rule.map(str::to_owned));
    }

    fn group(&self) -> String {
        format!("turbine.{}.s", self.app_id())
    }

    fn app_id(&self) -> String {
        self.run.clone()
    }

    fn start(&self, change: impl FnOnce(&mut Value)) -> Running {
        self.start_as(&self.all, change)
    }

    fn start_as(&self, user: &KafkaSettings, change: impl FnOnce(&mut Value)) -> Running {
        self.start_by(user, Arc::new(SystemClock::default()), change)
    }

    fn start_by(
        &self,
        user: &KafkaSettings,
        clock: Arc<dyn Clock>,
        change: impl FnOnce(&mut Value),
    ) -> Running {
        let mut app = app();
        app["appId"] = json!(self.app_id());
        let subscription = &mut app["subscriptions"][0];
        subscription["topic"] = json!(self.name("in"));
        subscription["output"]["topic"] = json!(self.name("out"));
        subscription["onError"] = json!("dlq");
        subscription["dlq"] = json!(self.name("dead"));
        change(&mut app);
        let budget = StateBudget::new(64 << 20, 12).unwrap();
        let volume = self.folder.path().join("state");
        let config = WorkerConfig {
            app: serde_json::from_value(app).unwrap(),
            pod: "a-0".to_owned(),
            kafka: user.clone(),
            memory: Memory::of(512 << 20),
            counts: None,
            checkpointer: Checkpointer::open(&CheckpointSettings::default(), &volume).unwrap(),
            volume: StateVolume::open(&volume, budget).unwrap(),
            on_foreign: OnForeign::Refuse,
            stop_patience: Duration::from_secs(10),
            limits: Limits {
                poll_wait: Duration::from_millis(20),
                retry_first: Duration::from_millis(100),
                retry_most: Duration::from_millis(500),
                ..Limits::default()
            },
            clock,
        };
        let (worker, manager) = Worker::start(config).unwrap();
        let task = AssignedTask {
            subscription: "s".to_owned(),
            partition: 0,
            partitions: 1,
            store_epoch: 1,
            pod: "a-0".to_owned(),
        };
        let document = AssignmentDocument {
            app_id: self.app_id(),
            lineage: LINEAGE.to_owned(),
            epoch: 1,
            tasks: vec![task],
        };
        worker.offer(document).unwrap();
        Running { worker, manager }
    }

    fn produce<V: AsRef<[u8]>>(&self, values: &[V]) {
        let budget = QueueBudget::divided(64 << 20, 1);
        let large = self.all.writing_within(&[10_000_000]);
        let mut producer = OutputProducer::open(&large, budget).unwrap();
        let topic = producer
            .topic(&self.name("in").parse().unwrap(), WAIT)
            .unwrap();
        let mut batch = OutputBatch::new();
        for value in values {
            batch.push(Some(b"u"), Some(value.as_ref()));
        }
        assert_eq!(producer.produce(&topic, &batch).unwrap(), []);
        producer.flush_acked(Instant::now() + WAIT).unwrap();
    }

    /// Value and headers of everything in a topic.
    fn read(&self, topic: &str) -> Vec<Stored> {
        let name: TopicName = self.name(topic).parse().unwrap();
        let group = GroupId::of(&"reader".parse().unwrap(), &"test".parse().unwrap());
        let (at, start) = (0.try_into().unwrap(), 0.try_into().unwrap());
        let budget = QueueBudget::divided(64 << 20, 1);
        let mut reader =
            PartitionReader::open(&self.all, &group, &name, at, start, budget).unwrap();
        let until = Instant::now() + WAIT;
        let mut all = Vec::new();
        while !reader.at_end() {
            assert!(Instant::now() < until, "no end of {name}");
            let batch = reader.read(10_000, Duration::from_millis(300)).unwrap();
            all.extend((0..batch.len()).map(|at| {
                Stored {
                    value: batch.value(at).map(<[u8]>::to_vec),
                    headers: batch
                        .headers(at)
                        .map(|(name, value)| {
                            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                            (text(name), text(value.unwrap_or_default()))
                        })
                        .collect(),
                }
            }));
        }
        all
    }

    fn results(&self) -> Vec<(String, i64, i64)> {
        let rows = self.read("out").into_iter();
        rows.map(|row| {
            let row: Value = serde_json::from_slice(&row.value.unwrap()).unwrap();
            (
                row["user"].as_str().unwrap().to_owned(),
                row["window_start_ms"].as_i64().unwrap(),
                row["n"].as_i64().unwrap(),
            )
        })
        .collect()
    }

    /// As retention does.
    fn delete_records_before(&self, topic: &str, offset: i64) {
        let client: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", self.all.bootstrap_servers())
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name(topic), 0, Offset::Offset(offset))
            .unwrap();
        let done = client.delete_records(&list, &AdminOptions::new());
        tokio::runtime::Runtime::new()
            .unwrap()
            .block_on(done)
            .unwrap();
    }

    fn end(&self, topic: &str) -> i64 {
        let topic = self.name(topic).parse().unwrap();
        let log = self.admin.watermarks(&topic, 0.try_into().unwrap(), WAIT);
        log.unwrap().end().get()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let granted =
            std::mem::take(&mut *self.granted.lock().unwrap_or_else(PoisonError::into_inner));
        for rule in granted {
            Self::acls(&[vec!["--remove".to_owned(), "--force".to_owned()], rule].concat());
        }
    }
}

#[derive(Debug)]
struct Stored {
    value: Option<Vec<u8>>,
    headers: BTreeMap<String, String>,
}

impl Running {
    fn until(&self, what: &str, holds: impl Fn(&TaskStatus) -> bool) {
        eventually(what, || {
            let views = self.worker.views();
            match views.first() {
                Some(view) if holds(&view.status) => Ok(()),
                other => Err(format!("{:#?}", other.map(|view| &view.status))),
            }
        });
    }

    /// The task stands still for this reason, in words that name all of `words` and none of `not`.
    fn until_halted(&self, reason: &str, words: &[String], not: &[String]) {
        self.until(&format!("{reason} {words:?}"), |task| {
            task.halt.as_ref().is_some_and(|halt| {
                halt.reason == reason
                    && words.iter().all(|word| halt.message.contains(word))
                    && !not.iter().any(|word| halt.message.contains(word))
            })
        });
    }

    fn until_caught_up(&self, records: u64) {
        self.until("all records are committed", |task| {
            task.records >= records
                && task.state == TaskState::Running
                && task.position >= task.end_offset
        });
    }

    fn stop(self) {
        self.worker.drain();
        let _ = self.manager.wait();
    }
}

fn event(user: &str, ts: i64) -> String {
    json!({"user": user, "amount": 1, "ts": ts}).to_string()
}

fn good(ts: i64) -> String {
    event("u", ts)
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_SASL_BOOTSTRAP"]
fn missing_topics_and_rights_are_named_before_any_work_and_each_is_enough_once_it_is_there() {
    let (bed, t0) = (Bed::new(), recent());
    bed.create("in");
    bed.create("out");
    let of = |topic: &str, right: &str| format!("{right} on topic `{}`", bed.name(topic));
    let commit = format!("Read on group `{}`", bed.group());
    bed.produce(&[good(t0), "no row".to_owned(), good(t0 + MINUTE)]);
    let running = bed.start_as(&bed.limited, |_| {});

    // Whether the dead-letter topic exists is not told to one who may not see it.
    let all = [
        of("in", "Read"),
        of("out", "Write"),
        of("dead", "Write"),
        commit.clone(),
    ];
    running.until_halted("KafkaRightMissing", &all, &[]);
    bed.grant("Read", "--topic", &bed.name("in"));
    running.until_halted("KafkaRightMissing", &all[1..], &all[..1]);
    bed.grant("Read", "--group", &bed.group());
    running.until_halted("KafkaRightMissing", &all[1..3], &all[3..]);
    bed.grant("Write", "--topic", &bed.name("out"));
    running.until_halted("KafkaRightMissing", &all[2..3], &all[..2]);
    bed.grant("Write", "--topic", &bed.name("dead"));
    running.until_halted("TopicMissing", &[bed.name("dead")], &[]);
    assert_eq!(bed.end("out"), 0, "nothing was done before");
    bed.create("dead");
    running.until_caught_up(3);
    assert_eq!((bed.end("out"), bed.end("dead")), (1, 1));

    // Taken away while it runs, and given back.
    Bed::take_back("Write", "--topic", &bed.name("dead"));
    bed.produce(&["no row either".to_owned(), good(t0 + 2 * MINUTE)]);
    running.until_halted("KafkaRightMissing", &all[2..3], &all[..2]);
    let group = GroupId::of(&bed.app_id().parse().unwrap(), &"s".parse().unwrap());
    let (topic, partition) = (bed.name("in").parse().unwrap(), 0.try_into().unwrap());
    let committed = bed.admin.committed_at(&group, &topic, partition, WAIT);
    assert_eq!(
        committed.unwrap().unwrap().offset.get(),
        3,
        "the offset stays in front of a record whose dead letter is not written"
    );
    bed.grant("Write", "--topic", &bed.name("dead"));
    running.until_caught_up(5);
    assert_eq!(bed.end("dead"), 2);
    Bed::take_back("Read", "--group", &bed.group());
    bed.produce(&[good(t0 + 3 * MINUTE)]);
    running.until_halted("KafkaRightMissing", &[bed.group()], &all[..3]);
    bed.grant("Read", "--group", &bed.group());
    running.until_caught_up(6);
    running.stop();
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_SASL_BOOTSTRAP"]
fn exactly_once_waits_for_the_right_to_its_transactional_id() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
        let right = if topic == "in" { "Read" } else { "Write" };
        bed.grant(right, "--topic", &bed.name(topic));
    }
    bed.grant("Read", "--group", &bed.group());
    bed.produce(&[good(t0), "no row".to_owned(), good(t0 + MINUTE)]);
    let running = bed.start_as(&bed.limited, |app| {
        app["subscriptions"][0]["processingGuarantee"] = json!("exactlyOnce");
    });
    let id = format!("turbine.{}.s.0", bed.app_id());
    running.until_halted(
        "KafkaRightMissing",
        &[format!("transactional id `{id}`")],
        &[],
    );
    assert_eq!(bed.end("out"), 0, "nothing was done before");
    bed.grant("Write", "--transactional-id", &id);
    running.until_caught_up(3);
    running.stop();
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_dead_letter_keeps_its_value_where_its_topic_takes_it_and_else_says_how_large_it_was() {
    let (bed, t0) = (Bed::new(), recent());
    bed.create_with("in", &[("max.message.bytes", "3000000")]);
    bed.create("out");
    // With its headers it is more than a topic takes by default.
    let bad = vec![b'x'; 1_048_400];
    for (dead, limit) in [("dead", "1048588"), ("large", "2097152")] {
        bed.create_with(dead, &[("max.message.bytes", limit)]);
    }
    bed.produce(&[
        good(t0).into_bytes(),
        bad.clone(),
        good(t0 + MINUTE).into_bytes(),
    ]);
    let running = bed.start(|_| {});
    running.until_caught_up(3);
    running.stop();
    let dead = bed.read("dead");
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].value, None);
    let header = |name: &str| dead[0].headers[&format!("turbine_dlq_{name}")].clone();
    assert_eq!(header("value_dropped_bytes"), "1048400");
    assert_eq!(
        (header("source_offset"), header("source_topic")),
        ("1".to_owned(), bed.name("in"))
    );
    assert_eq!(bed.results(), [("u".to_owned(), t0, 1)]);

    // The client's own limit of 1,000,000 bytes is no reason to drop anything.
    bed.produce(&[&bad]);
    let running = bed.start(|app| app["subscriptions"][0]["dlq"] = json!(bed.name("large")));
    running.until("the dead letter is committed", |task| {
        task.position == Some(4)
    });
    running.stop();
    let large = bed.read("large");
    assert_eq!(large.len(), 1);
    assert_eq!(large[0].value.as_ref(), Some(&bad));
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_topic_of_small_records_takes_many_results_at_once_and_one_too_large_is_left_out_alone() {
    let (bed, t0) = (Bed::new(), recent());
    bed.create("in");
    bed.create_with("out", &[("max.message.bytes", "5000")]);
    let long = "n".repeat(6_000);
    let users: Vec<String> = (0..500).map(|at| format!("user-{at}")).collect();
    let mut values: Vec<String> = users.iter().map(|user| event(user, t0)).collect();
    values.insert(250, event(&long, t0));
    values.push(event("end", t0 + MINUTE));
    bed.produce(&values);
    // Compressed, all of them together might fit after all.
    let plain = BTreeMap::from([("compression.type".to_owned(), "none".to_owned())]);
    let plain = KafkaSettings::new(bed.all.bootstrap_servers(), None, None, plain).unwrap();
    let running = bed.start_as(&plain, |app| {
        app["subscriptions"][0]["onError"] = json!("skip");
        app["subscriptions"][0]["dlq"] = json!(null);
    });
    running.until_caught_up(502);
    running.stop();
    let mut found: Vec<String> = bed.results().into_iter().map(|(user, _, _)| user).collect();
    found.sort();
    let mut expected = users;
    expected.sort();
    assert_eq!(found, expected);

    // Under `fail` the task stops, by name.
    bed.produce(&[event(&long, t0 + MINUTE), event("end", t0 + 2 * MINUTE)]);
    let running = bed.start(|app| {
        app["subscriptions"][0]["onError"] = json!("fail");
        app["subscriptions"][0]["dlq"] = json!(null);
    });
    running.until_halted("ResultRefused", &[bed.name("out")], &[]);
    running.stop();
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn records_that_retention_removed_unread_stop_the_task_with_their_offsets() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    let hundred: Vec<String> = (0..100).map(|_| good(t0)).collect();
    bed.produce(&hundred);
    let running = bed.start(|_| {});
    running.until_caught_up(100);
    running.stop();
    bed.produce(&hundred);
    bed.produce(&hundred);
    bed.delete_records_before("in", 200);
    let running = bed.start(|_| {});
    running.until_halted(
        "RetentionGap",
        &["offsets 100 to 199 are gone".to_owned()],
        &[],
    );
    running.stop();
    assert_eq!(bed.end("out"), 0);
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn the_stores_own_position_counts_where_the_groups_offsets_are_gone() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    let hundred: Vec<String> = (0..100).map(|_| good(t0)).collect();
    bed.produce(&hundred);
    let running = bed.start(|_| {});
    running.until_caught_up(100);
    running.stop();
    let group = GroupId::of(&bed.app_id().parse().unwrap(), &"s".parse().unwrap());
    bed.admin.delete_group(&group, WAIT).unwrap();
    bed.produce(&[good(t0), good(t0 + MINUTE)]);
    // A policy for a start without offsets says nothing where there is state.
    let running = bed.start(|app| app["subscriptions"][0]["startFrom"] = json!("latest"));
    running.until("the rest is committed", |task| task.position == Some(102));
    running.stop();
    assert_eq!(bed.results(), [("u".to_owned(), t0, 101)]);
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_topic_that_refuses_times_far_from_now_takes_results_of_any_event_time() {
    let bed = Bed::new();
    bed.create("in");
    let hour = "3600000";
    bed.create_with(
        "out",
        &[
            ("message.timestamp.after.max.ms", hour),
            ("message.timestamp.before.max.ms", hour),
        ],
    );
    bed.create("dead");
    let day = 24 * 60 * MINUTE;
    let old = -315_619_200_000; // 1960-01-01
    let tomorrow = recent() + day;
    bed.produce(&[good(old), good(tomorrow), good(tomorrow + MINUTE)]);
    let running = bed.start(|app| {
        app["subscriptions"][0]["maxFutureMs"] = json!(2 * day);
    });
    running.until_caught_up(3);
    running.stop();
    assert_eq!(
        bed.results(),
        [("u".to_owned(), old, 1), ("u".to_owned(), tomorrow, 1)]
    );
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn exactly_once_an_older_store_is_replayed_and_retention_between_stops_it() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    let start =
        || bed.start(|app| app["subscriptions"][0]["processingGuarantee"] = json!("exactlyOnce"));
    let produce = |seconds: std::ops::Range<i64>| {
        bed.produce(&seconds.map(|at| good(t0 + at * 1_000)).collect::<Vec<_>>());
    };
    let through = |running: &Running| {
        running.until("all is committed", |task| {
            task.state == TaskState::Running
                && task.end_offset.is_some()
                && task.position == task.end_offset
        });
    };
    let (state, kept) = (
        bed.folder.path().join("state"),
        bed.folder.path().join("kept"),
    );
    let put_back = || {
        std::fs::remove_dir_all(&state).unwrap();
        copy(&kept, &state);
    };

    produce(0..50);
    let running = start();
    running.until_caught_up(50);
    running.stop();
    copy(&state, &kept);
    produce(50..150);
    let running = start();
    running.until_caught_up(100);
    running.stop();
    let minute = |at: i64, n: i64| ("u".to_owned(), t0 + at * MINUTE, n);
    let before = [minute(0, 60), minute(1, 60)];
    assert_eq!(bed.results(), before);
    put_back();

    let running = start();
    through(&running);
    assert_eq!(bed.results(), before);
    produce(150..200);
    produce(900..901);
    running.until_caught_up(51);
    let all = [before.to_vec(), vec![minute(2, 60), minute(3, 20)]].concat();
    assert_eq!(bed.results(), all);
    running.stop();
    // The store agrees with the broker, and goes on.
    let running = start();
    through(&running);
    produce(960..961);
    running.until_caught_up(1);
    let all = [all, vec![minute(15, 1)]].concat();
    assert_eq!(bed.results(), all);
    running.stop();

    put_back();
    bed.delete_records_before("in", 60);
    let running = start();
    running.until_halted("RetentionGap", &["50 to 59".to_owned()], &[]);
    running.stop();
    assert_eq!(bed.results(), all);
}

/// What stands in front of a bad record may stand there for longer than the broker keeps offsets.
#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn exactly_once_a_halted_task_goes_on_though_the_groups_offsets_are_gone_by_then() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    let start = |policy: &str| {
        bed.start(|app| {
            app["subscriptions"][0]["processingGuarantee"] = json!("exactlyOnce");
            app["subscriptions"][0]["onError"] = json!(policy);
        })
    };
    bed.produce(&[good(t0), good(t0 + MINUTE), "{".to_owned()]);
    let running = start("fail");
    running.until("it stands in front of the bad record", |task| {
        task.state == TaskState::Halted && task.position == Some(2)
    });
    running.stop();
    let first = ("u".to_owned(), t0, 1);
    assert_eq!(bed.results(), std::slice::from_ref(&first));
    let group = GroupId::of(&bed.app_id().parse().unwrap(), &"s".parse().unwrap());
    bed.admin.delete_group(&group, WAIT).unwrap();

    bed.produce(&[good(t0 + MINUTE), good(t0 + 2 * MINUTE)]);
    let running = start("skip");
    running.until("the rest is committed", |task| {
        task.state == TaskState::Running && task.position == task.end_offset
    });
    running.stop();
    assert_eq!(bed.results(), [first, ("u".to_owned(), t0 + MINUTE, 2)]);
}

/// The same, where the record is a result that is refused in an interval that is under way.
#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn exactly_once_a_task_halted_by_a_result_goes_on_though_the_groups_offsets_are_gone_by_then() {
    let (bed, t0) = (Bed::new(), recent());
    bed.create("in");
    bed.create_with("out", &[("max.message.bytes", "5000")]);
    bed.create("dead");
    let start = |policy: &str| {
        bed.start(|app| {
            app["subscriptions"][0]["processingGuarantee"] = json!("exactlyOnce");
            app["subscriptions"][0]["onError"] = json!(policy);
        })
    };
    bed.produce(&[good(t0)]);
    let running = start("fail");
    running.until_caught_up(1);
    bed.produce(&[event(&"n".repeat(6_000), t0), good(t0 + MINUTE)]);
    running.until("its result is refused", |task| {
        task.state == TaskState::Halted
            && task
                .halt
                .as_ref()
                .is_some_and(|halt| halt.reason == "ResultRefused")
    });
    running.stop();
    assert_eq!(bed.results(), []);
    let group = GroupId::of(&bed.app_id().parse().unwrap(), &"s".parse().unwrap());
    bed.admin.delete_group(&group, WAIT).unwrap();

    let running = start("skip");
    running.until("the rest is committed", |task| {
        task.state == TaskState::Running && task.position == task.end_offset
    });
    running.stop();
    assert_eq!(bed.results(), [("u".to_owned(), t0, 1)]);
}
