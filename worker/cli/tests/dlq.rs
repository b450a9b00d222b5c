//! `dlq` as people call it, on the embedded broker; on a real one at `TURBINE_KAFKA_BOOTSTRAP` where it is set and ignored
//! tests are run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{cli, stderr, stdout};
use rstest::rstest;
use serde_json::{Value, json};
use turbine_kafka::{
    Admin, DeadLetter, EmbeddedBroker, KafkaSettings, NewTopic, OutputBatch, OutputProducer,
    PartitionReader, Phase, QueueBudget,
};
use turbine_keygroups::Partition;
use turbine_protocol::{GroupId, TopicName};

const WAIT: Duration = Duration::from_secs(30);

type Bytes = Option<Vec<u8>>;
type Header = (Vec<u8>, Bytes);

/// A record as it lies in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    key: Bytes,
    value: Bytes,
    headers: Vec<Header>,
}

struct Bed {
    settings: KafkaSettings,
    embedded: Option<EmbeddedBroker>,
    run: String,
}

impl Bed {
    fn embedded() -> Self {
        let broker = EmbeddedBroker::start().unwrap();
        Self {
            settings: KafkaSettings::plaintext(broker.bootstrap_servers()).unwrap(),
            embedded: Some(broker),
            run: "e".to_owned(),
        }
    }

    fn real() -> Self {
        let bootstrap = std::env::var("TURBINE_KAFKA_BOOTSTRAP").expect("TURBINE_KAFKA_BOOTSTRAP");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self {
            settings: KafkaSettings::plaintext(bootstrap).unwrap(),
            embedded: None,
            run: format!("r{}", now.as_nanos()),
        }
    }

    fn bootstrap(&self) -> &str {
        self.settings.bootstrap_servers()
    }

    fn topic(&self, name: &str, partitions: u32) -> TopicName {
        let topic: TopicName = format!("{name}-{}", self.run).parse().unwrap();
        let count = partitions.try_into().unwrap();
        match &self.embedded {
            Some(broker) => broker.create_topic(&topic, count).unwrap(),
            None => {
                let admin = Admin::open(&self.settings).unwrap();
                let new = NewTopic {
                    name: topic.clone(),
                    partitions: count,
                    replication: Some(1),
                    config: BTreeMap::new(),
                };
                admin.create_topic(&new, WAIT).unwrap();
                admin
                    .await_partition_count(&topic, count, Instant::now() + WAIT)
                    .unwrap();
            }
        }
        topic
    }

    fn producer(&self) -> OutputProducer {
        OutputProducer::open(&self.settings, QueueBudget::divided(64 << 20, 1)).unwrap()
    }

    fn end(&self, topic: &TopicName, partition: i32) -> i64 {
        let admin = Admin::open(&self.settings).unwrap();
        let log = admin
            .watermarks(topic, partition.try_into().unwrap(), WAIT)
            .unwrap();
        log.end().get()
    }

    fn records(&self, topic: &TopicName, partition: i32) -> Vec<Record> {
        let group = GroupId::of(&"a".parse().unwrap(), &"s".parse().unwrap());
        let mut reader = PartitionReader::open(
            &self.settings,
            &group,
            topic,
            partition.try_into().unwrap(),
            0.try_into().unwrap(),
            QueueBudget::divided(64 << 20, 1),
        )
        .unwrap();
        let until = Instant::now() + WAIT;
        let mut all = Vec::new();
        while !reader.at_end() {
            assert!(Instant::now() < until, "no end of {topic}/{partition}");
            let batch = reader.read(1000, Duration::from_millis(300)).unwrap();
            for at in 0..batch.len() {
                all.push(Record {
                    key: batch.key(at).map(<[u8]>::to_vec),
                    value: batch.value(at).map(<[u8]>::to_vec),
                    headers: batch
                        .headers(at)
                        .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
                        .collect(),
                });
            }
        }
        all
    }

    fn dlq(&self, verb: &str, topic: &TopicName, more: &[&str]) -> (Option<i32>, String, String) {
        let bootstrap = ["--bootstrap", self.bootstrap(), "--topic", topic.as_str()];
        let output = cli(&[&["dlq", verb], &bootstrap[..], more].concat(), "");
        (output.status.code(), stdout(&output), stderr(&output))
    }

    fn list(&self, topic: &TopicName, more: &[&str]) -> Vec<Value> {
        let (code, out, err) = self.dlq("list", topic, &[more, &["-o", "json"]].concat());
        assert_eq!(code, Some(0), "{err}");
        serde_json::from_str(&out).unwrap()
    }

    fn replay(&self, topic: &TopicName, code: i32, more: &[&str]) -> Value {
        let (found, out, err) = self.dlq("replay", topic, &[more, &["-o", "json"]].concat());
        assert_eq!(found, Some(code), "{out}{err}");
        serde_json::from_str(&out).unwrap()
    }
}

/// What is dead-lettered, from where and why.
struct Letter<'a> {
    record: Record,
    from: &'a TopicName,
    partition: i32,
    offset: i64,
    phase: Phase,
    error: &'a str,
    subscription: &'a str,
}

fn dead_letter(producer: &mut OutputProducer, dlq: &TopicName, letter: &Letter<'_>) {
    let output = producer.topic(dlq, WAIT).unwrap();
    let subscription = letter.subscription.parse().unwrap();
    let headers = &letter.record.headers;
    let written = DeadLetter {
        key: letter.record.key.as_deref(),
        value: letter.record.value.as_deref(),
        headers: headers
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_deref())),
        topic: letter.from,
        partition: letter.partition.try_into().unwrap(),
        offset: letter.offset.try_into().unwrap(),
        phase: letter.phase,
        error: letter.error,
        subscription: &subscription,
    };
    producer.produce_dead_letter(&output, &written).unwrap();
}

fn plain<'a>(from: &'a TopicName, key: Option<&[u8]>, offset: i64) -> Letter<'a> {
    Letter {
        record: Record {
            key: key.map(<[u8]>::to_vec),
            value: Some(format!("{{\"n\": {offset}").into_bytes()),
            headers: Vec::new(),
        },
        from,
        partition: 0,
        offset,
        phase: Phase::Deserialize,
        error: "the JSON is cut off after 9 bytes",
        subscription: "fraud",
    }
}

fn strange_headers() -> Vec<Header> {
    vec![
        (b"t".to_vec(), Some(b"1".to_vec())),
        (b"t".to_vec(), Some(b"2".to_vec())),
        (b"n".to_vec(), None),
        (b"e".to_vec(), Some(Vec::new())),
        (b"b".to_vec(), Some(vec![0xff, 0x00])),
        ("n".repeat(300).into_bytes(), Some(b"x".to_vec())),
        (Vec::new(), Some(b"no name".to_vec())),
        (vec![0xff, 0xfe], Some(b"no text".to_vec())),
    ]
}

/// Keys and their partition of 12 by the public vectors of murmur2.
const PLACES: [(&[u8], i32); 6] = [
    (b"21", 0),
    (b"abc", 3),
    (b"foobar", 6),
    (b"42", 4),
    (b"", 9),
    (&[0xff, 0xfe], 3),
];

fn a_replayed_record_is_the_original_byte_for_byte_where_its_key_belongs(bed: &Bed) {
    let (dlq, source) = (bed.topic("bytes-dlq", 1), bed.topic("bytes", 12));
    let values: [Bytes; 6] = [
        None,
        Some(Vec::new()),
        Some(b"null".to_vec()),
        Some(vec![b'{', 0xff, 0xfe, 0]),
        Some(b"{\"a\": 1}".to_vec()),
        Some(vec![0; 100_000]),
    ];
    let mut producer = bed.producer();
    let mut expected: BTreeMap<i32, Vec<Record>> = BTreeMap::new();
    for (at, ((key, place), value)) in (0..).zip(PLACES.into_iter().zip(values)) {
        let record = Record {
            key: Some(key.to_vec()),
            value,
            headers: if at % 2 == 0 {
                strange_headers()
            } else {
                Vec::new()
            },
        };
        let letter = Letter {
            record: record.clone(),
            ..plain(&source, None, at)
        };
        dead_letter(&mut producer, &dlq, &letter);
        expected.entry(place).or_default().push(record);
    }
    producer.flush_acked(Instant::now() + WAIT).unwrap();

    let report = bed.replay(&dlq, 0, &["--yes"]);
    assert_eq!(
        (&report["written"], &report["next"]),
        (&json!(6), &json!("0:6"))
    );
    for partition in 0..12 {
        let found = bed.records(&source, partition);
        let of = expected.remove(&partition).unwrap_or_default();
        assert_eq!(found, of, "partition {partition}");
    }
    // The dead letters stay; behind them there is nothing to write.
    assert_eq!(bed.end(&dlq, 0), 6);
    let again = bed.replay(&dlq, 0, &["--yes", "--from", "0:6"]);
    assert_eq!(again["records"], 0);
    assert_eq!(bed.end(&source, 3), 2);
}

fn a_record_that_fails_again_carries_its_own_headers_and_ours_once(bed: &Bed) {
    let (dlq, source) = (bed.topic("again-dlq", 1), bed.topic("again", 1));
    let mut producer = bed.producer();
    let first = Letter {
        record: Record {
            key: Some(b"k".to_vec()),
            value: Some(b"{".to_vec()),
            headers: strange_headers(),
        },
        ..plain(&source, None, 0)
    };
    dead_letter(&mut producer, &dlq, &first);
    producer.flush_acked(Instant::now() + WAIT).unwrap();
    for round in 1..=3 {
        let from = format!("0:{}", round - 1);
        bed.replay(&dlq, 0, &["--yes", "--from", &from]);
        let replayed = bed.records(&source, 0).pop().unwrap();
        assert_eq!(replayed, first.record);
        let letter = Letter {
            record: replayed,
            ..plain(&source, None, round)
        };
        dead_letter(&mut producer, &dlq, &letter);
        producer.flush_acked(Instant::now() + WAIT).unwrap();
    }
    let letters = bed.records(&dlq, 0);
    assert_eq!(letters.len(), 4);
    for letter in letters {
        assert_eq!(letter.headers.len(), strange_headers().len() + 6);
    }
}

fn records_without_a_key_are_spread(bed: &Bed) {
    let (dlq, source) = (bed.topic("null-dlq", 1), bed.topic("null", 4));
    let mut producer = bed.producer();
    for at in 0..8 {
        dead_letter(&mut producer, &dlq, &plain(&source, None, at));
    }
    producer.flush_acked(Instant::now() + WAIT).unwrap();
    let plan = bed.replay(&dlq, 0, &["--dry-run"]);
    assert_eq!(plan["targets"][0]["withoutKey"], 8);
    bed.replay(&dlq, 0, &["--yes"]);
    for partition in 0..4 {
        let found = bed.records(&source, partition);
        assert_eq!(found.len(), 2, "partition {partition}");
        assert!(found.iter().all(|record| record.key.is_none()));
    }
}

/// 40 dead letters of two sources, two partitions of them, two phases, two reasons and two subscriptions.
fn many(bed: &Bed, dlq: &TopicName, sources: &[TopicName; 2]) {
    let mut producer = bed.producer();
    for at in 0..40_i64 {
        let bit = |of: i64| usize::try_from(at / of % 2).unwrap();
        let key = at.to_string().into_bytes();
        let letter = Letter {
            from: &sources[bit(1)],
            partition: i32::try_from(bit(2)).unwrap(),
            phase: [Phase::Deserialize, Phase::Processing][bit(4)],
            error: ["the value is empty", "event time 7 ms is too early"][bit(8)],
            subscription: ["fraud", "per-tenant"][bit(16)],
            ..plain(&sources[0], Some(&key), at)
        };
        dead_letter(&mut producer, dlq, &letter);
    }
    producer.flush_acked(Instant::now() + WAIT).unwrap();
}

fn filters_choose_and_a_dry_run_writes_nothing(bed: &Bed) {
    let dlq = bed.topic("filters-dlq", 3);
    let sources = [bed.topic("filters-a", 6), bed.topic("filters-b", 12)];
    many(bed, &dlq, &sources);
    let chosen = |filter: &[&str]| -> Vec<i64> {
        let mut offsets: Vec<i64> = bed
            .list(&dlq, &[filter, &["--limit", "1000"]].concat())
            .iter()
            .map(|letter| letter["sourceOffset"].as_i64().unwrap())
            .collect();
        offsets.sort_unstable();
        let plan = bed.replay(&dlq, 0, &[filter, &["--dry-run"]].concat());
        assert_eq!(plan["records"], offsets.len(), "{filter:?}");
        offsets
    };
    let where_ = |holds: fn(i64) -> bool| -> Vec<i64> { (0..40).filter(|at| holds(*at)).collect() };
    assert_eq!(chosen(&[]), where_(|_| true));
    let second = sources[1].as_str();
    assert_eq!(
        chosen(&["--source-topic", second]),
        where_(|at| at % 2 == 1)
    );
    assert_eq!(
        chosen(&["--source-partition", "1"]),
        where_(|at| at / 2 % 2 == 1)
    );
    assert_eq!(
        chosen(&["--phase", "processing"]),
        where_(|at| at / 4 % 2 == 1)
    );
    assert_eq!(
        chosen(&["--error", "too early"]),
        where_(|at| at / 8 % 2 == 1)
    );
    assert_eq!(
        chosen(&["--subscription", "fraud"]),
        where_(|at| at / 16 % 2 == 0)
    );
    assert_eq!(
        chosen(&[
            "--phase",
            "deserialize",
            "--error",
            "empty",
            "--source-partition",
            "0"
        ]),
        where_(|at| at / 4 % 2 == 0 && at / 8 % 2 == 0 && at / 2 % 2 == 0)
    );
    // The embedded broker does not look up times.
    if bed.embedded.is_none() {
        assert_eq!(chosen(&["--since", "1h"]), where_(|_| true));
    }
    assert_eq!(chosen(&["--until", "1h"]), where_(|_| false));
    assert_eq!(
        chosen(&["--since", "2099-01-01T00:00:00Z"]),
        where_(|_| false)
    );
    for source in &sources {
        for partition in 0..6 {
            assert_eq!(bed.end(source, partition), 0, "a dry run wrote to {source}");
        }
    }

    // What the dry run says is what is written.
    let plan = bed.replay(&dlq, 0, &["--dry-run", "--error", "too early"]);
    let done = bed.replay(&dlq, 0, &["--yes", "--error", "too early"]);
    assert_eq!(
        (&plan["targets"], &plan["next"]),
        (&done["targets"], &done["next"])
    );
    for target in plan["targets"].as_array().unwrap() {
        let topic: TopicName = target["topic"].as_str().unwrap().parse().unwrap();
        for share in target["perPartition"].as_array().unwrap() {
            let partition = i32::try_from(share["partition"].as_i64().unwrap()).unwrap();
            assert_eq!(
                share["records"],
                bed.end(&topic, partition),
                "{topic}/{partition}"
            );
        }
    }
    let all: i64 = sources
        .iter()
        .zip([6, 12])
        .flat_map(|(topic, count)| (0..count).map(move |partition| (topic, partition)))
        .map(|(topic, partition)| bed.end(topic, partition))
        .sum();
    assert_eq!(all, 16);
}

fn the_newest_are_listed_and_with_a_position_the_first(bed: &Bed) {
    let dlq = bed.topic("list-dlq", 2);
    let sources = [bed.topic("list-a", 1), bed.topic("list-b", 1)];
    many(bed, &dlq, &sources);
    let by_time = |letters: &[Value]| {
        let times: Vec<jiff::Timestamp> = letters
            .iter()
            .map(|letter| letter["time"].as_str().unwrap().parse().unwrap())
            .collect();
        assert!(times.is_sorted(), "{times:?}");
    };
    let newest = bed.list(&dlq, &["--limit", "7"]);
    assert_eq!(newest.len(), 7);
    by_time(&newest);
    let all = bed.list(&dlq, &["--limit", "100"]);
    assert_eq!(all.len(), 40);
    assert_eq!(newest, all[33..]);

    // Page by page, every one comes once.
    let mut from = "0".to_owned();
    let mut seen = Vec::new();
    for page in 0.. {
        assert!(page < 10, "no end: {from}");
        let (code, text, err) = bed.dlq("list", &dlq, &["--from", &from, "--limit", "9"]);
        assert_eq!(code, Some(0), "{err}");
        seen.extend(
            text.lines()
                .skip(1)
                .filter(|line| line.contains(&format!("-{}:", bed.run)))
                .map(|line| line.split_whitespace().next().unwrap().to_owned()),
        );
        match text
            .lines()
            .find_map(|line| line.strip_prefix("more follow: --from "))
        {
            Some(next) => next.clone_into(&mut from),
            None => break,
        }
    }
    assert_eq!(seen.len(), 40);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 40);
}

fn what_cannot_be_put_back_is_left_out_and_told(bed: &Bed) {
    let (dlq, source) = (bed.topic("out-dlq", 1), bed.topic("out", 1));
    let repair = bed.topic("repair", 1);
    let mut producer = bed.producer();
    // Larger than the client writes: the dead letter loses its value.
    let large = Letter {
        record: Record {
            key: Some(b"large".to_vec()),
            value: Some(vec![b'x'; 2 << 20]),
            headers: Vec::new(),
        },
        ..plain(&source, None, 0)
    };
    dead_letter(&mut producer, &dlq, &large);
    dead_letter(&mut producer, &dlq, &plain(&source, Some(b"good"), 1));
    let output = producer.topic(&dlq, WAIT).unwrap();
    let mut stranger = OutputBatch::new();
    stranger.push(Some(b"stranger"), Some(b"v"));
    producer.produce(&output, &stranger).unwrap();
    producer.flush_acked(Instant::now() + WAIT).unwrap();

    let report = bed.replay(&dlq, 1, &["--yes"]);
    assert_eq!(report["written"], 1);
    assert_eq!(
        report["leftOut"],
        json!({"withoutValue": 1, "withoutSource": 1})
    );
    let keys = |topic: &TopicName| -> Vec<Vec<u8>> {
        let records = bed.records(topic, 0).into_iter();
        records.map(|record| record.key.unwrap()).collect()
    };
    assert_eq!(keys(&source), [b"good".to_vec()]);
    let report = bed.replay(&dlq, 1, &["--yes", "--to", repair.as_str()]);
    assert_eq!(
        report["leftOut"],
        json!({"withoutValue": 1, "withoutSource": 0})
    );
    assert_eq!(keys(&repair), [b"good".to_vec(), b"stranger".to_vec()]);
    let listed = bed.list(&dlq, &[]);
    assert_eq!(listed[0]["valueDroppedBytes"], 2 << 20);
    assert_eq!(listed[2]["sourceTopic"], Value::Null);
}

fn refused(told: &(Option<i32>, String, String), words: &[&str]) {
    let (code, out, err) = told;
    assert_eq!(*code, Some(2), "{out}{err}");
    assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{err}");
    for word in words {
        assert!(err.contains(word), "{word}: {err}");
    }
}

fn nothing_is_written_unasked_or_to_the_wrong_place(bed: &Bed) {
    let (dlq, source) = (bed.topic("no-dlq", 1), bed.topic("no", 1));
    let gone: TopicName = format!("gone-{}", bed.run).parse().unwrap();
    let mut producer = bed.producer();
    dead_letter(&mut producer, &dlq, &plain(&source, Some(b"a"), 0));
    dead_letter(&mut producer, &dlq, &plain(&gone, Some(b"b"), 0));
    producer.flush_acked(Instant::now() + WAIT).unwrap();
    let replay = |more: &[&str]| bed.dlq("replay", &dlq, more);
    refused(&replay(&[]), &["no terminal", "--yes", "--dry-run"]);
    let missing = format!("topic `{gone}`, to which");
    refused(&replay(&["--yes"]), &[&missing, "--to"]);
    refused(
        &replay(&["--yes", "--to", dlq.as_str()]),
        &["its own dead letters"],
    );
    refused(
        &replay(&["--yes", "--from", "7:0"]),
        &["no partition 7", "it has 1"],
    );
    refused(&bed.dlq("list", &gone, &[]), &["does not exist"]);
    assert_eq!(bed.end(&source, 0), 0);
    assert_eq!(bed.end(&dlq, 0), 2);
}

type Test = fn(&Bed);

#[rstest]
#[case(a_replayed_record_is_the_original_byte_for_byte_where_its_key_belongs)]
#[case(a_record_that_fails_again_carries_its_own_headers_and_ours_once)]
#[case(records_without_a_key_are_spread)]
#[case(filters_choose_and_a_dry_run_writes_nothing)]
#[case(the_newest_are_listed_and_with_a_position_the_first)]
#[case(what_cannot_be_put_back_is_left_out_and_told)]
#[case(nothing_is_written_unasked_or_to_the_wrong_place)]
fn holds_on_the_embedded_broker(#[case] test: Test) {
    test(&Bed::embedded());
}

#[rstest]
#[case(a_replayed_record_is_the_original_byte_for_byte_where_its_key_belongs)]
#[case(a_record_that_fails_again_carries_its_own_headers_and_ours_once)]
#[case(records_without_a_key_are_spread)]
#[case(filters_choose_and_a_dry_run_writes_nothing)]
#[case(the_newest_are_listed_and_with_a_position_the_first)]
#[case(what_cannot_be_put_back_is_left_out_and_told)]
#[case(nothing_is_written_unasked_or_to_the_wrong_place)]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn holds_on_a_real_broker(#[case] test: Test) {
    test(&Bed::real());
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_replay_that_is_broken_off_says_where_it_goes_on_and_loses_and_doubles_nothing() {
    const LETTERS: i64 = 1_000_000;
    let bed = Bed::real();
    let (dlq, source) = (bed.topic("break-dlq", 3), bed.topic("break", 4));
    let mut producer = bed.producer();
    let output = producer.topic(&dlq, WAIT).unwrap();
    let subscription = "s".parse().unwrap();
    for at in 0..LETTERS {
        let key = at.to_string();
        let headers: [(&[u8], Option<&[u8]>); 0] = [];
        let letter = DeadLetter {
            key: Some(key.as_bytes()),
            value: Some(b"{"),
            headers: headers.into_iter(),
            topic: &source,
            partition: Partition::try_from(0).unwrap(),
            offset: at.try_into().unwrap(),
            phase: Phase::Deserialize,
            error: "cut off",
            subscription: &subscription,
        };
        producer.produce_dead_letter(&output, &letter).unwrap();
    }
    producer.flush_acked(Instant::now() + WAIT).unwrap();

    let arguments = [
        "dlq",
        "replay",
        "--bootstrap",
        bed.bootstrap(),
        "--topic",
        dlq.as_str(),
        "--yes",
    ];
    let child = Command::new(env!("CARGO_BIN_EXE_turbine-cli"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let written = || (0..4).map(|at| bed.end(&source, at)).sum::<i64>();
    let until = Instant::now() + WAIT;
    while written() == 0 {
        assert!(Instant::now() < until, "nothing was written");
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    let next = told.trim().rsplit_once("--from ").unwrap().1;
    let before = written();
    assert!(
        before < LETTERS,
        "it was done before it could be broken off"
    );
    assert!(told.contains(&format!("after {before} records")), "{told}");

    bed.replay(&dlq, 0, &["--yes", "--from", next]);
    let mut keys: Vec<i64> = (0..4)
        .flat_map(|at| bed.records(&source, at))
        .map(|record| {
            String::from_utf8(record.key.unwrap())
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..LETTERS).collect::<Vec<_>>());
}
