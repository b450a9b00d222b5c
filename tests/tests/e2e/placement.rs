//! Where keys lie: held to Kafka's own Java code key by key, and to what three kinds of producers do on a real broker.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::Value;
use tempfile::TempDir;
use turbine_tests::bed::{Bed, Needs, repository};
use turbine_tests::scenario::Topics;
use turbine_tests::{java, process};

const KEYS: u32 = 1000;

fn turbine_cli(bed: &Bed, arguments: &[&str]) -> Result<Output> {
    Command::new(bed.program("turbine-cli"))
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .context("turbine-cli")
}

/// The answer as JSON, with the exit code.
fn answer(bed: &Bed, arguments: &[&str]) -> Result<(Option<i32>, Value)> {
    let output = turbine_cli(bed, &[arguments, &["--output", "json"]].concat())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((
        output.status.code(),
        serde_json::from_slice(&output.stdout).context(told)?,
    ))
}

fn verify(bed: &Bed, topic: &str, more: &[&str]) -> Result<(Option<i32>, Value)> {
    let arguments = [
        &["placement", "verify", "--bootstrap", &bed.bootstrap][..],
        &["--topic", topic],
        more,
    ]
    .concat();
    answer(bed, &arguments)
}

#[test]
fn a_hundred_thousand_keys_lie_where_kafkas_java_client_puts_them() -> Result<()> {
    const VECTORS: &str = "100000";
    const COUNTS: [&str; 8] = ["1", "3", "5", "6", "7", "12", "15", "960"];
    let Some(bed) = Bed::for_test("vectors", Needs::Broker)? else {
        return Ok(());
    };
    let folder = TempDir::new()?;
    let vectors = process::run(
        java::program("Vectors", &bed.kafka_libs)?
            .args([VECTORS, "960"])
            .args(COUNTS),
    )?;
    let rows: Vec<Vec<&str>> = vectors
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    assert_eq!(rows.len().to_string(), VECTORS);
    // the smallest and the largest hash of 32 bits
    assert_eq!((rows[0][1], rows[1][1]), ("-2147483648", "2147483647"));

    let keys: Vec<&str> = rows
        .iter()
        .map(|row| if row[0] == "-" { "" } else { row[0] })
        .collect();
    let file = folder.path().join("keys.hex");
    // the last line ends as well: the last key may be the empty one
    std::fs::write(&file, keys.join("\n") + "\n")?;
    let file = file.to_str().context("a path")?;
    for (at, count) in COUNTS.into_iter().enumerate() {
        let arguments = ["--key-encoding", "hex", "--file", file];
        let predict = ["placement", "predict", "--partitions", count];
        let (code, predicted) = answer(&bed, &[&predict[..], &arguments].concat())?;
        assert_eq!(code, Some(0));
        let predicted = predicted.as_array().context("a list")?;
        assert_eq!(predicted.len(), rows.len());
        for (row, key) in rows.iter().zip(predicted) {
            let hash: i64 = row[1].parse()?;
            let partition: i64 = row[2 + at].parse()?;
            assert_eq!(key["partition"], partition, "{row:?} of {count}");
            assert_eq!(key["keyGroup"], (hash & 0x7fff_ffff) % 960, "{row:?}");
        }
    }
    Ok(())
}

/// The number that a test of `keygroups` holds our murmur2 to, in debug and in release builds.
#[test]
fn the_digest_of_the_unit_tests_is_that_of_kafkas_own_code() -> Result<()> {
    let Some(bed) = Bed::for_test("digest", Needs::Broker)? else {
        return Ok(());
    };
    let digest = process::run(&mut java::program("Digest", &bed.kafka_libs)?)?;
    let kept = std::fs::read_to_string(repository().join("worker/keygroups/tests/murmur2.digest"))?;
    assert_eq!(digest.trim(), kept.trim());
    Ok(())
}

/// `key-N<TAB>N`, one per line.
fn lines(folder: &Path) -> Result<std::path::PathBuf> {
    let file = folder.join("lines.tsv");
    let lines: String = (0..KEYS).map(|n| format!("key-{n}\t{n}\n")).collect();
    std::fs::write(&file, lines)?;
    Ok(file)
}

fn by_java(bed: &Bed, topic: &str, lines: &Path) -> Result<()> {
    let to = ["--bootstrap-server", &bed.bootstrap, "--topic", topic];
    let arguments = [
        &["tool", "produce", "--reader-property", "parse.key=true"][..],
        &to,
    ]
    .concat();
    bed.script_reading("kafka.sh", &arguments, lines).map(drop)
}

/// librdkafka as it is when nobody chooses a partitioner.
fn by_librdkafka(bed: &Bed, topic: &str) -> Result<()> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &bed.bootstrap)
        .set("allow.auto.create.topics", "false")
        .create()?;
    for n in 0..KEYS {
        let (key, value) = (format!("key-{n}"), n.to_string());
        let record = BaseRecord::to(topic).key(&key).payload(&value);
        producer.send(record).map_err(|(error, _)| error)?;
        producer.poll(Duration::ZERO);
    }
    producer.flush(Duration::from_mins(1))?;
    Ok(())
}

fn by_turbine(bed: &Bed, topic: &str, lines: &Path) -> Result<()> {
    let file = lines.to_str().context("a path")?;
    let to = ["--bootstrap", &bed.bootstrap, "--topic", topic];
    let (code, told) = answer(bed, &[&["produce", "--file", file][..], &to].concat())?;
    ensure!(
        code == Some(0) && told["records"] == KEYS,
        "{code:?}: {told}"
    );
    Ok(())
}

#[tokio::test]
async fn three_producers_of_the_same_keys_are_told_apart() -> Result<()> {
    let Some(bed) = Bed::for_test("three_producers", Needs::Broker)? else {
        return Ok(());
    };
    let topics = Topics::new(&bed, "placement");
    let folder = TempDir::new()?;
    let lines = lines(folder.path())?;
    for count in [6, 12] {
        let of_java = topics.create(&format!("java-{count}"), count).await?;
        let of_librdkafka = topics.create(&format!("librdkafka-{count}"), count).await?;
        let of_turbine = topics.create(&format!("turbine-{count}"), count).await?;
        by_java(&bed, &of_java, &lines)?;
        by_librdkafka(&bed, &of_librdkafka)?;
        by_turbine(&bed, &of_turbine, &lines)?;

        for topic in [&of_java, &of_turbine] {
            let (code, report) = verify(&bed, topic, &["--all"])?;
            assert_eq!((code, &report["verdict"]), (Some(0), &"proved".into()));
            assert_eq!(report["recordsRead"], KEYS, "{report:#}");
            assert_eq!(report["distinctKeys"], KEYS, "{report:#}");
            assert_eq!(report["restLooksLike"], Value::Null, "{report:#}");
        }
        let (code, report) = verify(&bed, &of_librdkafka, &["--all"])?;
        assert_eq!((code, &report["verdict"]), (Some(1), &"refuted".into()));
        let looks = report["restLooksLike"].as_str().unwrap_or_default();
        assert!(looks.starts_with("CRC32"), "{report:#}");
        assert_eq!(explained(&report, "crc32"), Some(u64::from(KEYS)));
        assert!(explained(&report, "murmur2") < Some(u64::from(KEYS) / 2));

        // every example lies where the tests' own client finds it, and belongs where the same key lies in Java's topic
        let found = places(&topics, &of_librdkafka)?;
        let right = places(&topics, &of_java)?;
        assert_eq!(right, places(&topics, &of_turbine)?);
        let examples = report["examples"].as_array().context("examples")?;
        assert!(!examples.is_empty());
        for example in examples {
            let key = example["key"].as_str().context("a key")?;
            let lies: Option<&(i32, i64)> = found.get(key);
            let (partition, offset) = lies.context("a key of this topic")?;
            assert_eq!(example["partition"], *partition);
            assert_eq!(example["offset"], *offset);
            assert_eq!(
                example["belongsTo"],
                right
                    .get(key)
                    .map(|(partition, _)| *partition)
                    .context(key.to_owned())?
            );
        }
        // it leaves no group behind
        let groups = bed.script(
            "kafka.sh",
            &[
                "tool",
                "groups",
                "--bootstrap-server",
                &bed.bootstrap,
                "--list",
            ],
        )?;
        assert!(
            !groups.lines().any(|group| group == "turbine-cli"),
            "{groups}"
        );
    }
    Ok(())
}

fn explained(report: &Value, client: &str) -> Option<u64> {
    report["explained"]
        .as_array()?
        .iter()
        .find(|each| each["client"] == client)?["keys"]
        .as_u64()
}

/// Partition and offset by key.
fn places(topics: &Topics, topic: &str) -> Result<BTreeMap<String, (i32, i64)>> {
    topics
        .kafka()
        .read_all(topic)?
        .into_iter()
        .map(|record| {
            let key = String::from_utf8(record.key.context("a key")?)?;
            Ok((key, (record.partition, record.offset)))
        })
        .collect()
}

#[tokio::test]
async fn a_topic_that_grew_looks_like_its_earlier_count() -> Result<()> {
    let Some(bed) = Bed::for_test("a_topic_that_grew", Needs::Broker)? else {
        return Ok(());
    };
    let topics = Topics::new(&bed, "grown");
    let folder = TempDir::new()?;
    let topic = topics.create("events", 4).await?;
    by_turbine(&bed, &topic, &lines(folder.path())?)?;
    let to = ["--bootstrap-server", &bed.bootstrap, "--topic", &topic];
    bed.script(
        "kafka.sh",
        &[&["tool", "topics", "--alter", "--partitions", "6"][..], &to].concat(),
    )?;
    let (code, report) = verify(&bed, &topic, &["--all"])?;
    assert_eq!((code, &report["verdict"]), (Some(1), &"refuted".into()));
    let looks = report["restLooksLike"].as_str().unwrap_or_default();
    assert!(looks.starts_with("murmur2 at 4 partitions"), "{report:#}");
    Ok(())
}

/// Verifying needs the right to describe and to read the topic, and nothing else: no group, no cluster.
#[tokio::test]
async fn a_user_who_may_only_read_the_topic_can_verify_and_one_who_may_not_is_told() -> Result<()> {
    let Some(bed) = Bed::for_test("rights", Needs::Broker)? else {
        return Ok(());
    };
    let Ok(bootstrap) = std::env::var("TURBINE_KAFKA_SASL_BOOTSTRAP") else {
        return Ok(());
    };
    let client = std::env::var("TURBINE_KAFKA_CLIENT")?;
    let topics = Topics::new(&bed, "rights");
    let folder = TempDir::new()?;
    let topic = topics.create("events", 6).await?;
    by_turbine(&bed, &topic, &lines(folder.path())?)?;

    let user = std::fs::read_to_string(Path::new(&client).join("limited-user"))?;
    let properties = folder.path().join("client.properties");
    std::fs::write(
        &properties,
        format!(
            "security.protocol=SASL_SSL\nssl.ca.location={client}/ca.crt\nsasl.mechanism=SCRAM-SHA-512\n\
             sasl.username={user}\nsasl.password=file:{client}/limited-password\n"
        ),
    )?;
    let properties = properties.to_str().context("a path")?;
    let arguments = [
        &["placement", "verify", "--all", "--bootstrap", &bootstrap][..],
        &["--topic", &topic, "--properties-file", properties],
    ]
    .concat();

    let output = turbine_cli(&bed, &arguments)?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.contains("not allowed") && told.contains(&topic),
        "{told}"
    );

    let principal = format!("User:{user}");
    let to = ["--bootstrap-server", &bed.bootstrap, "--topic", &topic];
    let rule = ["--allow-principal", &principal, "--operation", "Read"];
    bed.script(
        "kafka.sh",
        &[&["tool", "acls", "--add"][..], &rule, &to].concat(),
    )?;
    let (code, report) = answer(&bed, &arguments)?;
    bed.script(
        "kafka.sh",
        &[&["tool", "acls", "--remove", "--force"][..], &rule, &to].concat(),
    )?;
    assert_eq!((code, &report["verdict"]), (Some(0), &"proved".into()));
    assert_eq!(report["recordsRead"], KEYS);
    Ok(())
}
