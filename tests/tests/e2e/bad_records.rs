//! Records that cannot be used, under each policy, through a real worker on a real broker. The table of
//! `docs/failures.md` has a row per kind.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::cluster::unique;
use turbine_tests::events::START_MS;
use turbine_tests::kafka::{Record, Stored, partition_of};
use turbine_tests::manifest::AppManifest;
use turbine_tests::process::Running;
use turbine_tests::scenario::Topics;
use turbine_tests::wait;
use turbine_tests::worker::WorkerPlan;

const WITHIN: Duration = Duration::from_secs(90);
/// Where the bad record stands in each partition.
const BAD: i64 = 2;
/// Records in each partition: two good ones, a bad one, a good one, one that closes the minute.
const RECORDS: i64 = 5;

struct Kind {
    name: &'static str,
    value: Option<Vec<u8>>,
    /// What the reason must name.
    word: &'static str,
}

fn kinds() -> Vec<Kind> {
    let text = |name, value: &str, word| Kind {
        name,
        value: Some(value.as_bytes().to_vec()),
        word,
    };
    let in_an_hour = jiff::Timestamp::now().as_millisecond() + 3_600_000;
    vec![
        text(
            "cut off",
            r#"{"tenant_id":"x","cpu":1.0,"ts":17672"#,
            "cut off",
        ),
        Kind {
            name: "not UTF-8",
            value: Some(b"{\"tenant_id\":\"\xC3\x28\",\"ts\":1}".to_vec()),
            word: "UTF-8",
        },
        text(
            "wrong type",
            &format!(r#"{{"tenant_id":"x","cpu":"much","ts":{START_MS}}}"#),
            "cpu",
        ),
        text(
            "1e400",
            &format!(r#"{{"tenant_id":"x","cpu":1e400,"ts":{START_MS}}}"#),
            "cpu",
        ),
        text(
            "deep nesting",
            &format!(
                r#"{{"tenant_id":"x","ts":{START_MS},"note":{}{}}}"#,
                "[".repeat(20_000),
                "]".repeat(20_000)
            ),
            "nested",
        ),
        text(
            "year 10000",
            r#"{"tenant_id":"x","cpu":1.0,"ts":253402300800000}"#,
            "time",
        ),
        text("no time field", r#"{"tenant_id":"x","cpu":1.0}"#, "time"),
        text(
            "null time",
            r#"{"tenant_id":"x","cpu":1.0,"ts":null}"#,
            "time",
        ),
        Kind {
            name: "tombstone",
            value: None,
            word: "no value",
        },
        text("empty", "", "empty"),
        text("not an object", "[1,2]", "object"),
        text(
            "integer too large",
            &format!(r#"{{"tenant_id":"x","bytes":9223372036854775808,"ts":{START_MS}}}"#),
            "bytes",
        ),
        text(
            "far future",
            &format!(r#"{{"tenant_id":"x","cpu":1.0,"ts":{in_an_hour}}}"#),
            "time",
        ),
        text(
            "two documents",
            &format!(r#"{{"tenant_id":"x","ts":{START_MS}}} {{}}"#),
            "follows",
        ),
        text(
            "a field twice",
            &format!(r#"{{"tenant_id":"x","cpu":1.0,"cpu":2.0,"ts":{START_MS}}}"#),
            "twice",
        ),
    ]
}

fn tenant(partition: i32, count: i32) -> String {
    (0..100_000)
        .map(|number: u32| format!("tenant-{number}"))
        .find(|key| partition_of(key.as_bytes(), count) == partition)
        .unwrap_or_default()
}

fn good(partition: i32, count: i32, ts: i64) -> Record {
    let tenant = tenant(partition, count);
    let value = json!({"tenant_id": tenant, "cpu": 1.0, "bytes": 1, "ts": ts}).to_string();
    Record {
        partition: Some(partition),
        key: Some(tenant.into_bytes()),
        value: Some(value.into_bytes()),
        ..Record::default()
    }
}

fn bad(partition: i32, value: Option<Vec<u8>>) -> Record {
    Record {
        partition: Some(partition),
        // no text, and no key that the record would be placed by
        key: Some([[0xFF, 0x00].as_slice(), &partition.to_be_bytes()].concat()),
        value,
        timestamp_ms: None,
        headers: vec![
            ("trace".to_owned(), vec![0x00, 0xFE]),
            ("trace".to_owned(), b"again".to_vec()),
        ],
    }
}

struct Case {
    topics: Topics,
    input: String,
    output: String,
    dlq: String,
    group: String,
    _folder: TempDir,
    worker: Running,
}

async fn run(
    bed: &Bed,
    records: Vec<Record>,
    partitions: i32,
    settings: &[(&str, serde_json::Value)],
) -> Result<Case> {
    let topics = Topics::new(bed, "bad");
    let input = topics.create("events", partitions).await?;
    let (output, dlq) = (topics.name("scores")?, topics.name("dead")?);
    topics.kafka().produce(&input, records, None)?;
    let name = unique("bad");
    let mut app = AppManifest::new(&name, &bed.bootstrap, &input, &output)
        .with("spec.subscriptions.0.input.outOfOrderness", json!("0s"))
        .with(
            "spec.subscriptions.0.windows.0.allowedLateness",
            json!("0s"),
        )
        .with("spec.subscriptions.0.commitInterval", json!("200ms"));
    for (path, value) in settings {
        let value = if value == "DLQ" {
            json!(dlq)
        } else {
            value.clone()
        };
        app = app.with(path, value);
    }
    let folder = TempDir::new()?;
    let worker = WorkerPlan::new(bed, &app, folder.path())?.start()?;
    let group = format!("turbine.{name}.per-tenant");
    Ok(Case {
        topics,
        input,
        output,
        dlq,
        group,
        _folder: folder,
        worker,
    })
}

impl Case {
    async fn wait_for_positions(&self, offset: i64, partitions: i32) -> Result<()> {
        let expected: BTreeMap<i32, i64> = (0..partitions)
            .map(|partition| (partition, offset))
            .collect();
        let mut last = BTreeMap::new();
        let reached = wait::until(
            &format!("offset {offset} to be committed everywhere"),
            WITHIN,
            || {
                let now = self.topics.kafka().committed(&self.group, &self.input);
                if let Ok(now) = &now {
                    last.clone_from(now);
                }
                let reached = now.map(|now| (now == expected).then_some(()));
                async move { reached }
            },
        )
        .await;
        reached.with_context(|| format!("committed: {last:?}"))
    }

    fn results(&self) -> Result<BTreeMap<String, serde_json::Value>> {
        let rows = self.topics.kafka().read_all(&self.output)?;
        rows.iter()
            .map(|row| {
                let row = row.json()?;
                Ok((row["tenant_id"].as_str().unwrap_or("null").to_owned(), row))
            })
            .collect()
    }

    fn dead_letters(&self) -> Result<Vec<Stored>> {
        if self.topics.kafka().partitions(&self.dlq)?.is_none() {
            return Ok(Vec::new());
        }
        self.topics.kafka().read_all(&self.dlq)
    }

    async fn stop(mut self) -> Result<()> {
        self.worker.terminate()?;
        let status = self.worker.ended(WITHIN).await?;
        ensure!(
            status.success(),
            "the worker ended with {status}\n{}",
            self.worker.output()
        );
        Ok(())
    }
}

/// In each partition: good, good, one kind of bad, good, and a record that closes the minute.
fn log(kinds: &[Kind], count: i32) -> Vec<Record> {
    let mut records = Vec::new();
    for (partition, kind) in (0..count).zip(kinds) {
        records.push(good(partition, count, START_MS));
        records.push(good(partition, count, START_MS + 1));
        records.push(bad(partition, kind.value.clone()));
        records.push(good(partition, count, START_MS + 2));
        records.push(good(partition, count, START_MS + 60_000));
    }
    records
}

/// Each partition's minute holds its three good records, whatever stood between them.
fn check_results(case: &Case, kinds: &[Kind]) -> Result<()> {
    let results = case.results()?;
    let count = i32::try_from(kinds.len())?;
    for (partition, kind) in (0..count).zip(kinds) {
        let row = results
            .get(&tenant(partition, count))
            .with_context(|| format!("no result beside {}", kind.name))?;
        assert_eq!(row["n"], 3, "{}: {row}", kind.name);
    }
    assert_eq!(
        results.len(),
        kinds.len(),
        "nothing else came out: {results:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_drops_the_record_at_fault_and_nothing_else() -> Result<()> {
    let Some(bed) = Bed::for_test("bad_records::skip", Needs::Broker)? else {
        return Ok(());
    };
    let kinds = kinds();
    let count = i32::try_from(kinds.len())?;
    let case = run(
        &bed,
        log(&kinds, count),
        count,
        &[("spec.subscriptions.0.input.onError", json!("skip"))],
    )
    .await?;
    case.wait_for_positions(RECORDS, count).await?;
    check_results(&case, &kinds)?;
    assert_eq!(case.dead_letters()?, Vec::new());
    case.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_keeps_every_byte_of_the_record_and_says_where_it_was_and_why() -> Result<()> {
    let Some(bed) = Bed::for_test("bad_records::dlq", Needs::Broker)? else {
        return Ok(());
    };
    let kinds = kinds();
    let count = i32::try_from(kinds.len())?;
    let settings = [
        ("spec.subscriptions.0.input.onError", json!("dlq")),
        ("spec.subscriptions.0.input.dlq", json!("DLQ")),
    ];
    let case = run(&bed, log(&kinds, count), count, &settings).await?;
    case.wait_for_positions(RECORDS, count).await?;
    check_results(&case, &kinds)?;
    let letters = case.dead_letters()?;
    assert_eq!(letters.len(), kinds.len(), "one letter per bad record");
    for (partition, kind) in (0..count).zip(&kinds) {
        let original = bad(partition, kind.value.clone());
        let letter = letters
            .iter()
            .find(|letter| letter.key == original.key)
            .with_context(|| format!("no letter of {}", kind.name))?;
        assert_eq!(letter.value, original.value, "{}", kind.name);
        assert_eq!(
            letter.headers[..2],
            original.headers[..],
            "{}: its own headers stay",
            kind.name
        );
        let header = |name: &str| {
            letter
                .header(&format!("turbine_dlq_{name}"))
                .unwrap_or_default()
        };
        assert_eq!(header("source_topic"), case.input, "{}", kind.name);
        assert_eq!(
            header("source_partition"),
            partition.to_string(),
            "{}",
            kind.name
        );
        assert_eq!(header("source_offset"), BAD.to_string(), "{}", kind.name);
        assert!(
            ["deserialize", "processing"].contains(&header("phase").as_str()),
            "{}",
            kind.name
        );
        assert!(
            header("error").contains(kind.word),
            "{}: {}",
            kind.name,
            header("error")
        );
        assert_eq!(header("worker"), "per-tenant", "{}", kind.name);
    }
    case.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_stops_each_partition_in_front_of_the_record_and_no_other() -> Result<()> {
    let Some(bed) = Bed::for_test("bad_records::fail", Needs::Broker)? else {
        return Ok(());
    };
    let kinds = kinds();
    let count = i32::try_from(kinds.len())?;
    // one more partition than bad records, rounded up to a valid count: 16
    let sound = count;
    let all = count + 1;
    let mut records = Vec::new();
    for (partition, kind) in (0..count).zip(&kinds) {
        records.push(good(partition, all, START_MS));
        records.push(good(partition, all, START_MS + 1));
        records.push(bad(partition, kind.value.clone()));
        records.push(good(partition, all, START_MS + 60_000));
    }
    records.extend([
        good(sound, all, START_MS),
        good(sound, all, START_MS + 60_000),
    ]);
    let mut case = run(
        &bed,
        records,
        all,
        &[("spec.subscriptions.0.input.onError", json!("fail"))],
    )
    .await?;
    case.wait_for_positions(BAD, all).await?;
    // the sound partition has two records and a result; the others have none, their minute is not over
    let results = case.results()?;
    assert_eq!(
        results.keys().cloned().collect::<Vec<_>>(),
        [tenant(sound, all)],
        "{results:?}"
    );
    assert!(case.worker.is_alive()?, "a halted task stops alone");
    // nothing moves on by itself
    wait::holds("the halt", Duration::from_secs(3), || async {
        Ok(case
            .topics
            .kafka()
            .committed(&case.group, &case.input)?
            .values()
            .all(|offset| *offset == BAD))
    })
    .await?;
    case.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn null_keys_follow_a_policy_of_their_own() -> Result<()> {
    let Some(bed) = Bed::for_test("bad_records::null_keys", Needs::Broker)? else {
        return Ok(());
    };
    let null = |partition: i32, ts: i64| {
        let value = json!({"tenant_id": null, "cpu": 1.0, "bytes": 1, "ts": ts}).to_string();
        Record {
            partition: Some(partition),
            value: Some(value.into_bytes()),
            ..Record::default()
        }
    };
    let records = || {
        (0..2)
            .flat_map(|at| {
                [
                    good(at, 2, START_MS),
                    null(at, START_MS + 1),
                    null(at, START_MS + 2),
                    good(at, 2, START_MS + 60_000),
                ]
            })
            .collect::<Vec<_>>()
    };
    // the default: a group of their own, with a result per partition
    let case = run(&bed, records(), 2, &[]).await?;
    case.wait_for_positions(4, 2).await?;
    let rows = case.topics.kafka().read_all(&case.output)?;
    let of_null: Vec<_> = rows
        .iter()
        .filter_map(|row| row.json().ok())
        .filter(|row| row["tenant_id"].is_null())
        .collect();
    assert_eq!(of_null.len(), 2, "{rows:?}");
    assert!(of_null.iter().all(|row| row["n"] == 2), "{of_null:?}");
    case.stop().await?;

    let case = run(
        &bed,
        records(),
        2,
        &[("spec.subscriptions.0.onNullKey", json!("drop"))],
    )
    .await?;
    case.wait_for_positions(4, 2).await?;
    let results = case.results()?;
    assert!(
        !results.contains_key("null") && results.values().all(|row| row["n"] == 1),
        "{results:?}"
    );
    case.stop().await?;

    let settings = [
        ("spec.subscriptions.0.onNullKey", json!("dlq")),
        ("spec.subscriptions.0.input.dlq", json!("DLQ")),
    ];
    let case = run(&bed, records(), 2, &settings).await?;
    case.wait_for_positions(4, 2).await?;
    let letters = case.dead_letters()?;
    assert_eq!(letters.len(), 4, "{letters:?}");
    assert!(
        letters
            .iter()
            .all(|letter| letter.value == null(0, START_MS + 1).value
                || letter.value == null(0, START_MS + 2).value)
    );
    assert!(!case.results()?.contains_key("null"));
    case.stop().await
}

fn row(partition: i32, tenant: Option<&str>, bytes: Option<i64>, ts: i64) -> Record {
    let value = json!({"tenant_id": tenant, "cpu": 1.0, "bytes": bytes, "ts": ts}).to_string();
    Record {
        partition: Some(partition),
        key: tenant.map(|tenant| tenant.as_bytes().to_vec()),
        value: Some(value.into_bytes()),
        ..Record::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_that_would_overflow_leaves_the_record_out_and_the_sum_as_it_was() -> Result<()> {
    let Some(bed) = Bed::for_test("bad_records::overflow", Needs::Broker)? else {
        return Ok(());
    };
    let records = || {
        vec![
            row(0, Some("a"), Some(i64::MAX), START_MS),
            row(0, Some("a"), Some(1), START_MS + 1),
            row(0, Some("a"), Some(-5), START_MS + 2),
            row(0, Some("a"), Some(0), START_MS + 60_000),
        ]
    };
    let to_dlq = [
        ("spec.subscriptions.0.input.onError", json!("dlq")),
        ("spec.subscriptions.0.input.dlq", json!("DLQ")),
    ];
    let case = run(&bed, records(), 1, &to_dlq).await?;
    case.wait_for_positions(4, 1).await?;
    let results = case.results()?;
    let result = results.get("a").context("a result")?;
    assert_eq!(
        (&result["n"], &result["bytes_sum"]),
        (&json!(2), &json!(i64::MAX - 5)),
        "{result}"
    );
    let letters = case.dead_letters()?;
    assert_eq!(letters.len(), 1, "{letters:?}");
    let error = letters[0].header("turbine_dlq_error").unwrap_or_default();
    assert!(error.contains("overflow"), "{error}");
    assert_eq!(letters[0].value, records()[1].value);
    case.stop().await?;

    let fail = [("spec.subscriptions.0.input.onError", json!("fail"))];
    let case = run(&bed, records(), 1, &fail).await?;
    case.wait_for_positions(1, 1).await?;
    assert!(case.results()?.is_empty(), "the minute is not over");
    case.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_several_columns_is_null_as_soon_as_one_of_them_is() -> Result<()> {
    let Some(bed) = Bed::for_test("bad_records::composite", Needs::Broker)? else {
        return Ok(());
    };
    let records = || {
        vec![
            row(0, Some("a"), Some(1), START_MS),
            row(0, Some("a"), None, START_MS + 1),
            row(0, None, Some(1), START_MS + 2),
            row(0, Some("a"), Some(1), START_MS + 60_000),
        ]
    };
    let keys = json!(["tenant_id", "bytes"]);
    let composite = [
        ("spec.subscriptions.0.partitionKey", keys.clone()),
        ("spec.subscriptions.0.windows.0.keys", keys),
    ];
    let case = run(&bed, records(), 1, &composite).await?;
    case.wait_for_positions(4, 1).await?;
    let rows = case.topics.kafka().read_all(&case.output)?;
    let mut keys = Vec::new();
    for row in &rows {
        let row = row.json()?;
        assert_eq!(row["n"], 1, "{row}");
        keys.push((row["tenant_id"].clone(), row["bytes"].clone()));
    }
    // each null part stays a value of its own in the results
    for key in [
        (json!("a"), json!(1)),
        (json!("a"), json!(null)),
        (json!(null), json!(1)),
    ] {
        assert!(keys.contains(&key), "{key:?} is not in {keys:?}");
    }
    assert_eq!(keys.len(), 3, "{keys:?}");
    case.stop().await?;

    let to_dlq = [
        ("spec.subscriptions.0.onNullKey", json!("dlq")),
        ("spec.subscriptions.0.input.dlq", json!("DLQ")),
    ];
    let settings = [&composite[..], &to_dlq].concat();
    let case = run(&bed, records(), 1, &settings).await?;
    case.wait_for_positions(4, 1).await?;
    let letters: Vec<_> = case
        .dead_letters()?
        .into_iter()
        .map(|letter| letter.value)
        .collect();
    let nulls: Vec<_> = records()[1..3]
        .iter()
        .map(|record| record.value.clone())
        .collect();
    assert_eq!(letters, nulls);
    case.stop().await
}

/// The client takes records of 1,000 bytes, and one tenant's name is that long already.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_its_topic_does_not_take_stops_its_task_or_is_left_out() -> Result<()> {
    let Some(bed) = Bed::for_test("bad_records::result", Needs::Broker)? else {
        return Ok(());
    };
    let long = (0..1_000)
        .map(|number: u32| format!("{number:01000}"))
        .find(|key| partition_of(key.as_bytes(), 2) == 0)
        .unwrap_or_default();
    let short = tenant(1, 2);
    let records = || {
        [(0, &long), (1, &short)]
            .into_iter()
            .flat_map(|(partition, tenant)| {
                [START_MS, START_MS + 60_000]
                    .map(|ts| row(partition, Some(tenant.as_str()), Some(1), ts))
            })
            .collect::<Vec<_>>()
    };
    let small = (
        "spec.kafka.properties",
        json!({"message.max.bytes": "1000"}),
    );
    let case = run(&bed, records(), 2, std::slice::from_ref(&small)).await?;
    wait::until("the halt", WITHIN, || async {
        Ok(case.worker.output().contains("ResultRefused").then_some(()))
    })
    .await?;
    wait::until("the other partition's result", WITHIN, || async {
        Ok(case.results()?.contains_key(&short).then_some(()))
    })
    .await?;
    let committed = case.topics.kafka().committed(&case.group, &case.input)?;
    assert!(
        committed.get(&0).is_none_or(|offset| *offset < 2),
        "{committed:?}"
    );
    case.stop().await?;

    let skip = ("spec.subscriptions.0.input.onError", json!("skip"));
    let case = run(&bed, records(), 2, &[small, skip]).await?;
    case.wait_for_positions(2, 2).await?;
    let results = case.results()?;
    assert_eq!(results.keys().collect::<Vec<_>>(), [&short]);
    case.stop().await
}
