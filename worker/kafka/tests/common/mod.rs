//! What is true of any broker, the embedded one and a real one alike.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use turbine_kafka::{
    Admin, DeadLetter, KafkaError, KafkaSettings, OutputBatch, OutputProducer, PartitionReader,
    Phase, QueueBudget, RecordBatch, TopicPresence, TopicScan,
};
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{
    CommittedReceipt, EntryChecksum, Fault as _, Frontier, GroupId, HandedOut, History, LogBounds,
    Offset, Receipt, Retrace, TopicName,
};

pub(crate) const WAIT: Duration = Duration::from_secs(30);

pub(crate) type Record = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A broker with a way to make topics.
pub(crate) struct Bed<'a> {
    pub(crate) settings: KafkaSettings,
    pub(crate) make_topic: &'a dyn Fn(&TopicName, RawPartitionCount),
    /// Makes names of this run differ from those of others.
    pub(crate) run: String,
}

impl Bed<'_> {
    pub(crate) fn topic(&self, name: &str, partitions: u32) -> TopicName {
        let topic = format!("{name}-{}", self.run).parse().unwrap();
        (self.make_topic)(&topic, partitions.try_into().unwrap());
        topic
    }

    pub(crate) fn group(&self, subscription: &str) -> GroupId {
        GroupId::of(&self.run.parse().unwrap(), &subscription.parse().unwrap())
    }

    pub(crate) fn producer(&self) -> OutputProducer {
        OutputProducer::open(&self.settings, budget()).unwrap()
    }

    pub(crate) fn reader(&self, topic: &TopicName, at: i32, from: i64) -> PartitionReader {
        PartitionReader::open(
            &self.settings,
            &self.group("s"),
            topic,
            partition(at),
            offset(from),
            budget(),
        )
        .unwrap()
    }
}

pub(crate) fn budget() -> QueueBudget {
    QueueBudget::divided(32 << 20, 4)
}

pub(crate) fn partition(number: i32) -> Partition {
    number.try_into().unwrap()
}

pub(crate) fn offset(number: i64) -> Offset {
    number.try_into().unwrap()
}

pub(crate) fn receipt() -> CommittedReceipt {
    CommittedReceipt {
        offset: offset(41),
        receipt: Receipt {
            lineage: "6f9619ff-8b86-4d01-b42d-00cf4fc964ff".parse().unwrap(),
            store_epoch: 3.try_into().unwrap(),
            number: 7.try_into().unwrap(),
            checksum: EntryChecksum(0xdead_beef),
            frontier: Frontier(Some(1_767_225_600_000)),
            retrace: Some(Retrace {
                history: History(u64::MAX),
                rows: 12,
                closed: HandedOut::Part {
                    due: Frontier(Some(1_767_225_540_000)),
                    panes: 65_536,
                },
            }),
        },
    }
}

pub(crate) fn deadline() -> Instant {
    Instant::now() + WAIT
}

pub(crate) fn records(batch: &RecordBatch) -> Vec<Record> {
    (0..batch.len())
        .map(|at| {
            (
                batch.key(at).map(<[u8]>::to_vec),
                batch.value(at).map(<[u8]>::to_vec),
            )
        })
        .collect()
}

/// Everything up to the end of the partition.
pub(crate) fn read_to_end(reader: &mut PartitionReader) -> Vec<Record> {
    let until = deadline();
    let mut all = Vec::new();
    while !reader.at_end() {
        assert!(
            Instant::now() < until,
            "no end after {} records: {reader:?}",
            all.len()
        );
        let batch = reader.read(1000, Duration::from_millis(500)).unwrap();
        all.extend(records(&batch));
    }
    all
}

/// The expected partitions are those of the public vectors for 12 partitions.
pub(crate) fn keys_go_where_every_kafka_client_looks_for_them(bed: &Bed<'_>) {
    let topic = bed.topic("placed", 12);
    let expected: [(&[u8], i32); 7] = [
        (b"21", 0),
        (b"abc", 3),
        (b"foobar", 6),
        (b"42", 4),
        (b"", 9),
        (&[0xff, 0xfe], 3),
        (b"3490358332", 0),
    ];
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    assert_eq!(output.partitions(), 12);
    let mut batch = OutputBatch::new();
    for (key, _) in expected {
        batch.push(Some(key), Some(b"v"));
    }
    assert_eq!(producer.produce(&output, &batch).unwrap(), []);
    producer.flush_acked(deadline()).unwrap();

    let mut wanted: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
    for (key, at) in expected {
        wanted.entry(at).or_default().push(key.to_vec());
    }
    for at in 0..12 {
        let found: Vec<Vec<u8>> = read_to_end(&mut bed.reader(&topic, at, 0))
            .into_iter()
            .map(|(key, _)| key.unwrap())
            .collect();
        assert_eq!(
            found,
            wanted.remove(&at).unwrap_or_default(),
            "partition {at}"
        );
    }
}

pub(crate) fn null_and_empty_stay_apart(bed: &Bed<'_>) {
    let topic = bed.topic("nothing", 1);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let parts = [None, Some(Vec::new()), Some(b"null".to_vec())];
    let mut sent: Vec<Record> = Vec::new();
    let mut batch = OutputBatch::new();
    for key in &parts {
        for value in &parts {
            batch.push(key.as_deref(), value.as_deref());
            sent.push((key.clone(), value.clone()));
        }
    }
    assert_eq!(producer.produce(&output, &batch).unwrap(), []);
    producer.flush_acked(deadline()).unwrap();
    assert_eq!(read_to_end(&mut bed.reader(&topic, 0, 0)), sent);
}

pub(crate) fn a_dead_letter_is_the_record_as_it_was(bed: &Bed<'_>) {
    type Header<'a> = (&'a [u8], Option<&'a [u8]>);
    let topic = bed.topic("dead", 1);
    let source: TopicName = "in".parse().unwrap();
    let subscription = "s".parse().unwrap();
    let name = "n".repeat(300);
    let original: [Header<'_>; 7] = [
        (b"t", Some(b"1")),
        (b"t", Some(b"2")),
        (b"n", None),
        (b"e", Some(b"")),
        (b"b", Some(&[0xff, 0x00])),
        (name.as_bytes(), Some(b"x")),
        (b"turbine_dlq_phase", Some(b"of an earlier life")),
    ];
    let value: &[u8] = &[b'{', 0xff, 0x00];
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let letter = DeadLetter {
        key: Some(b"k1"),
        value: Some(value),
        headers: original.iter().copied(),
        topic: &source,
        partition: partition(3),
        offset: offset(42),
        phase: Phase::Deserialize,
        error: "cut off",
        subscription: &subscription,
    };
    producer.produce_dead_letter(&output, &letter).unwrap();
    let too_large = vec![b'x'; 2 << 20];
    let large = DeadLetter {
        value: Some(&too_large),
        ..letter
    };
    producer.produce_dead_letter(&output, &large).unwrap();
    producer.flush_acked(deadline()).unwrap();

    let mut reader = bed.reader(&topic, 0, 0);
    let until = deadline();
    let mut seen = 0;
    while seen < 2 {
        assert!(Instant::now() < until, "{seen} dead letters came back");
        let batch = reader.read(10, Duration::from_millis(500)).unwrap();
        for at in 0..batch.len() {
            let headers: Vec<Header<'_>> = batch.headers(at).collect();
            assert_eq!(headers[..6], original[..6]);
            let ours: Vec<&[u8]> = headers[6..].iter().map(|(name, _)| *name).collect();
            let phase = headers
                .iter()
                .filter(|(name, _)| *name == b"turbine_dlq_phase");
            assert_eq!(
                phase.map(|(_, v)| v.unwrap()).collect::<Vec<_>>(),
                [b"deserialize"]
            );
            assert_eq!(batch.key(at), Some(&b"k1"[..]));
            if seen == 0 {
                assert_eq!(batch.value(at), Some(value));
                assert_eq!(ours.len(), 6);
            } else {
                assert_eq!(batch.value(at), None);
                let size: &[u8] = b"2097152";
                let dropped: &[u8] = b"turbine_dlq_value_dropped_bytes";
                assert_eq!(headers.last(), Some(&(dropped, Some(size))));
            }
            seen += 1;
        }
    }
}

pub(crate) fn a_record_too_large_is_rejected_alone(bed: &Bed<'_>) {
    let topic = bed.topic("large", 1);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let mut batch = OutputBatch::new();
    batch.push(Some(b"a"), Some(b"before"));
    batch.push(Some(b"b"), Some(&vec![b'x'; 2 << 20]));
    batch.push(Some(b"c"), Some(b"behind"));
    let rejected = producer.produce(&output, &batch).unwrap();
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].index, 1);
    assert!(matches!(
        &rejected[0].reason,
        KafkaError::RecordTooLarge { bytes, .. } if *bytes == (2 << 20) + 1
    ));
    producer.flush_acked(deadline()).unwrap();
    let keys: Vec<_> = read_to_end(&mut bed.reader(&topic, 0, 0))
        .into_iter()
        .map(|(key, _)| key.unwrap())
        .collect();
    assert_eq!(keys, [b"a", b"c"]);
}

pub(crate) fn a_receipt_comes_back_with_its_offset(bed: &Bed<'_>) {
    let topic = bed.topic("receipts", 3);
    let group = bed.group("s");
    let reader = bed.reader(&topic, 1, 0);
    // A broker that has just started moves its coordinators once more.
    let until = Instant::now() + WAIT;
    let first = loop {
        match reader.committed(WAIT) {
            Err(error) if error.passes_by_itself() && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(100));
            }
            answer => break answer,
        }
    };
    assert_eq!(first.unwrap(), None);
    let committed = receipt();
    reader.commit(&committed, WAIT).unwrap();
    let found = reader.committed(WAIT).unwrap().unwrap();
    assert_eq!(found.offset, committed.offset);
    assert_eq!(found.metadata.parse(), Ok(committed.receipt));

    let admin = Admin::open(&bed.settings).unwrap();
    let all = admin
        .committed(&group, &topic, 3.try_into().unwrap(), WAIT)
        .unwrap();
    assert_eq!(all, [None, Some(found), None]);
}

pub(crate) fn much_output_passes_a_small_queue_in_order(bed: &Bed<'_>) {
    let topic = bed.topic("pressure", 1);
    let small = QueueBudget::divided(2 << 20, 1);
    let mut producer = OutputProducer::open(&bed.settings, small).unwrap();
    let output = producer.topic(&topic, WAIT).unwrap();
    let padding = vec![b'.'; 4096];
    let (rounds, per_round) = (10_u32, 500_u32);
    let mut batch = OutputBatch::new();
    for round in 0..rounds {
        batch.clear();
        for at in 0..per_round {
            batch.push_with(Some(b"k"), |bytes| {
                bytes.extend_from_slice(&(round * per_round + at).to_be_bytes());
                bytes.extend_from_slice(&padding);
            });
        }
        assert_eq!(producer.produce(&output, &batch).unwrap(), []);
        // 20 MiB were given in all; the queue holds 1 MiB, so at most 256 records of 4 KiB.
        assert!(
            producer.unacknowledged() <= 260,
            "{}",
            producer.unacknowledged()
        );
    }
    producer.flush_acked(deadline()).unwrap();
    assert_eq!(producer.unacknowledged(), 0);
    let numbers: Vec<u32> = read_to_end(&mut bed.reader(&topic, 0, 0))
        .into_iter()
        .map(|(_, value)| u32::from_be_bytes(value.unwrap()[..4].try_into().unwrap()))
        .collect();
    assert_eq!(numbers, (0..rounds * per_round).collect::<Vec<_>>());
}

/// The client's own flush looks for its end every 100 ms. Both take turns, so a slow machine slows both.
pub(crate) fn a_flush_does_not_wait_in_steps(bed: &Bed<'_>) {
    const ROUNDS: usize = 11;
    let topic = bed.topic("quick", 1);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let in_steps: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bed.settings.bootstrap_servers())
        .set("enable.idempotence", "true")
        .create()
        .unwrap();
    let admin = Admin::open(&bed.settings).unwrap();
    let mut batch = OutputBatch::new();
    batch.push(Some(b"k"), Some(b"v"));
    let mut written = 0;
    let mut is_written = || {
        written += 1;
        let log = admin.watermarks(&topic, partition(0), WAIT).unwrap();
        assert_eq!(log.end(), offset(written), "acknowledged is written");
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        producer.produce(&output, &batch).unwrap();
        producer.flush_acked(deadline()).unwrap();
        ours.push(started.elapsed());
        is_written();

        let started = Instant::now();
        let record = BaseRecord::to(topic.as_str()).key("k").payload("v");
        in_steps.send(record).map_err(|(error, _)| error).unwrap();
        in_steps.flush(WAIT).unwrap();
        theirs.push(started.elapsed());
        is_written();
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[ROUNDS / 2]
    };
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    assert!(ours * 2 < theirs, "{ours:?}, in steps {theirs:?}");
}

pub(crate) fn the_end_is_seen_and_moves_on(bed: &Bed<'_>) {
    let topic = bed.topic("end", 1);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let mut reader = bed.reader(&topic, 0, 0);
    assert_eq!(read_to_end(&mut reader), []);
    assert_eq!(reader.high_watermark(), Some(offset(0)));
    let mut batch = OutputBatch::new();
    for at in 0..5_u8 {
        batch.push(None, Some(&[at]));
    }
    producer.produce(&output, &batch).unwrap();
    producer.flush_acked(deadline()).unwrap();

    let until = deadline();
    let first = loop {
        assert!(Instant::now() < until, "no record came");
        let batch = reader.read(2, Duration::from_millis(500)).unwrap();
        if !batch.is_empty() {
            break batch;
        }
    };
    assert!(first.len() <= 2);
    assert_eq!(first.offset(0).unwrap(), offset(0));
    assert_eq!(first.next_offset(), reader.position());
    assert!(!reader.at_end());
    let rest = read_to_end(&mut reader);
    assert_eq!(first.len() + rest.len(), 5);
    assert_eq!(reader.position(), offset(5));
    assert_eq!(reader.high_watermark(), Some(offset(5)));
    // A batch is still there when its reader is gone.
    drop(reader);
    assert_eq!(first.value(0), Some(&[0_u8][..]));
}

pub(crate) fn an_offset_outside_the_log_is_told(bed: &Bed<'_>) {
    let topic = bed.topic("outside", 1);
    let mut reader = bed.reader(&topic, 0, 1000);
    let until = deadline();
    let error = loop {
        assert!(Instant::now() < until, "no error came");
        match reader.read(10, Duration::from_millis(500)) {
            Ok(batch) => assert!(batch.is_empty()),
            Err(error) => break error,
        }
    };
    assert_eq!(
        error,
        KafkaError::OffsetOutOfRange {
            topic,
            partition: 0,
            offset: offset(1000),
        }
    );
}

pub(crate) fn a_seek_reads_again(bed: &Bed<'_>) {
    let topic = bed.topic("seek", 1);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let mut batch = OutputBatch::new();
    for at in 0..100_u8 {
        batch.push(None, Some(&[at]));
    }
    producer.produce(&output, &batch).unwrap();
    producer.flush_acked(deadline()).unwrap();
    let mut reader = bed.reader(&topic, 0, 0);
    assert_eq!(read_to_end(&mut reader).len(), 100);
    reader.seek(offset(40), WAIT).unwrap();
    let again = read_to_end(&mut reader);
    assert_eq!(again.len(), 60);
    assert_eq!(again[0].1, Some(vec![40]));
}

pub(crate) fn a_scan_reads_its_stretches_and_no_more(bed: &Bed<'_>) {
    let topic = bed.topic("scan", 3);
    let mut producer = bed.producer();
    let output = producer.topic(&topic, WAIT).unwrap();
    let mut batch = OutputBatch::new();
    // Of 3 partitions `21` goes to 0 and `842411034` to 1; nothing goes to 2.
    for at in 0..50_u8 {
        batch.push(Some(b"21"), Some(&[at]));
        batch.push(Some(b"842411034"), Some(&[at]));
    }
    producer.produce(&output, &batch).unwrap();
    producer.flush_acked(deadline()).unwrap();
    let admin = Admin::open(&bed.settings).unwrap();
    let mut stretches: BTreeMap<Partition, LogBounds> = (0..3)
        .map(|at| {
            let log = admin.watermarks(&topic, partition(at), WAIT).unwrap();
            (partition(at), log)
        })
        .collect();
    stretches.insert(
        partition(1),
        LogBounds::new(offset(10), offset(15)).unwrap(),
    );

    let mut scan = TopicScan::open(&bed.settings, &topic, &stretches, budget()).unwrap();
    let mut seen: Vec<(i32, i64, Vec<u8>)> = Vec::new();
    let until = deadline();
    while !scan.is_done() {
        assert!(Instant::now() < until, "{scan:?}");
        scan.read(Duration::from_millis(200), |record| {
            let key = record.key.unwrap().to_vec();
            seen.push((record.partition.get(), record.offset.get(), key));
        })
        .unwrap();
    }
    seen.sort();
    let expected: Vec<(i32, i64, Vec<u8>)> = (0..50)
        .map(|at| (0, at, b"21".to_vec()))
        .chain((10..15).map(|at| (1, at, b"842411034".to_vec())))
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(scan.passed(), 55);
}

pub(crate) fn missing_and_unreachable_are_told_apart(bed: &Bed<'_>) {
    let admin = Admin::open(&bed.settings).unwrap();
    let missing: TopicName = format!("missing-{}", bed.run).parse().unwrap();
    for _ in 0..2 {
        // A question must not create what it asks about.
        assert_eq!(admin.topic(&missing, WAIT).unwrap(), TopicPresence::Missing);
    }
    let there = bed.topic("there", 7);
    match admin.topic(&there, WAIT).unwrap() {
        TopicPresence::Present(layout) => assert_eq!(layout.partitions.get(), 7),
        TopicPresence::Missing => panic!("the topic is there"),
    }
    assert!(matches!(
        bed.producer().topic(&missing, WAIT),
        Err(KafkaError::TopicMissing { topic }) if topic == missing
    ));

    let nobody = KafkaSettings::plaintext("127.0.0.1:1").unwrap();
    let admin = Admin::open(&nobody).unwrap();
    let error = admin.topic(&there, Duration::from_secs(2)).unwrap_err();
    assert!(
        matches!(&error, KafkaError::Unreachable { bootstrap, .. } if bootstrap == "127.0.0.1:1"),
        "{error:?}"
    );
}

pub(crate) fn every_codec_is_written_and_read(bed: &Bed<'_>) {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = bed.topic(codec, 1);
        let settings = KafkaSettings::new(
            bed.settings.bootstrap_servers(),
            None,
            None,
            BTreeMap::from([("compression.type".to_owned(), codec.to_owned())]),
        )
        .unwrap();
        let mut producer = OutputProducer::open(&settings, budget()).unwrap();
        let output = producer.topic(&topic, WAIT).unwrap();
        let sent: Vec<Record> = (0..100)
            .map(|at| {
                (
                    None,
                    Some(format!("{at} and much that repeats, repeats, repeats").into()),
                )
            })
            .collect();
        let mut batch = OutputBatch::new();
        for (key, value) in &sent {
            batch.push(key.as_deref(), value.as_deref());
        }
        assert_eq!(producer.produce(&output, &batch).unwrap(), []);
        producer.flush_acked(deadline()).unwrap();
        assert_eq!(read_to_end(&mut bed.reader(&topic, 0, 0)), sent, "{codec}");
    }
}
