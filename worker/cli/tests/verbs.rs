//! `placement`, `produce` and `assignment` as people call them; the broker is the embedded one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::type_complexity
)]

mod common;

use std::path::PathBuf;
use std::time::Instant;

use common::{cli, stderr, stdout};
use rstest::rstest;
use serde_json::{Value, json};
use turbine_kafka::EmbeddedBroker;

/// Key, key group, and the partition of 6 by murmur2, CRC32 and FNV-1a.
const SYMBOLS: [(&str, u16, i32, i32, i32); 10] = [
    ("AAPL", 657, 3, 0, 1),
    ("MSFT", 642, 0, 1, 3),
    ("GOOGL", 421, 1, 1, 5),
    ("AMZN", 521, 5, 4, 3),
    ("NVDA", 317, 5, 1, 0),
    ("META", 684, 0, 1, 4),
    ("TSLA", 671, 5, 3, 1),
    ("JPM", 374, 2, 3, 4),
    ("V", 954, 0, 4, 1),
    ("WMT", 401, 5, 0, 5),
];

fn predict(arguments: &[&str], keys: &[&str], stdin: &str) -> String {
    let output = cli(
        &[&["placement", "predict"], arguments, keys].concat(),
        stdin,
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// One line, exit code 2, nothing of the program's inside.
fn refused(arguments: &[&str], stdin: &[u8], words: &[&str]) {
    let output = cli(arguments, stdin);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.starts_with("turbine-cli: "), "{told}");
    for word in words {
        assert!(told.contains(word), "{word}: {told}");
    }
    for inside in ["panicked", "backtrace", ".rs:"] {
        assert!(!told.contains(inside), "{told}");
    }
    assert_eq!(stdout(&output), "");
}

struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("turbine-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, content: &[u8]) -> String {
        let file = self.0.join(name);
        std::fs::write(&file, content).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn ten_symbols_on_six_partitions_by_three_clients() {
    let keys = SYMBOLS.map(|(key, ..)| key);
    insta::assert_snapshot!(predict(&["--partitions", "6", "--compare"], &keys, ""), @r"
    key    key group  murmur2  CRC32  FNV-1a
    AAPL         657        3      0       1
    MSFT         642        0      1       3
    GOOGL        421        1      1       5
    AMZN         521        5      4       3
    NVDA         317        5      1       0
    META         684        0      1       4
    TSLA         671        5      3       1
    JPM          374        2      3       4
    V            954        0      4       1
    WMT          401        5      0       5

    10 keys on 6 partitions; most on one: 4; empty: 1
    partition  keys
    0             3  ##############################
    1             1  ##########
    2             1  ##########
    3             1  ##########
    4             0
    5             4  ########################################
    ");
}

#[rstest]
#[case::arguments(true, false)]
#[case::file(false, true)]
#[case::standard_input(false, false)]
fn json_is_a_list_of_keys_wherever_they_come_from(#[case] arguments: bool, #[case] file: bool) {
    let files = Files::new(&format!("json-{arguments}-{file}"));
    let keys = SYMBOLS.map(|(key, ..)| key);
    let lines = keys.join("\n");
    let path = files.write("keys.txt", lines.as_bytes());
    let mut given = vec!["--partitions", "6", "--compare", "--output", "json"];
    if file {
        given.extend(["--file", path.as_str()]);
    }
    let (keys, stdin) = match (arguments, file) {
        (true, _) => (&keys[..], ""),
        (false, true) => (&[][..], ""),
        (false, false) => (&[][..], lines.as_str()),
    };
    let rows: Value = serde_json::from_str(&predict(&given, keys, stdin)).unwrap();
    let expected: Vec<Value> = SYMBOLS
        .iter()
        .map(|(key, group, murmur2, crc32, fnv1a)| {
            json!({"key": key, "partition": murmur2, "keyGroup": group, "crc32": crc32, "fnv1a": fnv1a})
        })
        .collect();
    assert_eq!(rows, Value::Array(expected));
}

#[rstest]
#[case(&["--key-type", "int64"], "42", json!({"key": "42", "partition": 4, "keyGroup": 832}))]
#[case(&["--key-type", "int32"], "42", json!({"key": "42", "partition": 0, "keyGroup": 504}))]
#[case(&[], "42", json!({"key": "42", "partition": 4, "keyGroup": 172}))]
#[case(&[], "", json!({"key": "", "partition": 9, "keyGroup": 921}))]
#[case(&["--key-encoding", "hex"], "FFFE", json!({"key": "fffe", "partition": 3, "keyGroup": 651}))]
#[case(&["--plan", "15"], "abc", json!({"key": "abc", "partition": 3, "keyGroup": 27, "plannedPartition": 12, "moves": true}))]
fn keys_of_every_form(#[case] form: &[&str], #[case] key: &str, #[case] expected: Value) {
    let arguments = [&["--partitions", "12", "--output", "json"], form].concat();
    let rows: Value = serde_json::from_str(&predict(&arguments, &[key], "")).unwrap();
    assert_eq!(rows, json!([expected]));
}

#[test]
fn a_count_that_turbine_refuses_is_predicted_with_a_note() {
    let output = cli(&["placement", "predict", "--partitions", "7", "21"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stdout(&output).contains("21         300          3"),
        "{}",
        stdout(&output)
    );
    assert!(
        stderr(&output).contains("the nearest valid counts are 6 and 8"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn keys_that_cannot_be_read_end_with_one_line() {
    let files = Files::new("bad");
    let binary = files.write("binary.txt", b"a\n\xff\xfe\n");
    let empty = files.write("empty.txt", b"");
    let predict = ["placement", "predict", "--partitions", "12"];
    let with = |more: &[&'static str]| [&predict[..], more].concat();
    refused(
        &[&predict[..], &["--file", &binary]].concat(),
        b"",
        &["binary.txt line 2", "fffe", "--key-encoding hex"],
    );
    refused(
        &[&predict[..], &["--file", &empty]].concat(),
        b"",
        &["empty.txt", "one key per line"],
    );
    refused(
        &with(&["--file", "/no/such/keys"]),
        b"",
        &["/no/such/keys: cannot be read", "check the path"],
    );
    refused(&predict, b"", &["standard input", "one key per line"]);
    refused(
        &with(&["--key-encoding", "hex", "xyz"]),
        b"",
        &["key 1", "two digits per byte"],
    );
    refused(
        &with(&["--key-type", "int32", "1.5"]),
        b"",
        &["key 1", "`1.5`", "32 bits"],
    );
    for count in ["0", "-1", "x", "4294967296"] {
        let output = cli(
            &[
                "placement",
                "predict",
                &format!("--partitions={count}"),
                "a",
            ],
            "",
        );
        assert_eq!(output.status.code(), Some(2), "{count}");
        assert!(
            stderr(&output).contains("a partition count is a number from 1"),
            "{}",
            stderr(&output)
        );
    }
}

fn verify(bootstrap: &str, topic: &str, more: &[&str]) -> (Option<i32>, Value) {
    let output = cli(
        &[
            &[
                "placement",
                "verify",
                "--output",
                "json",
                "--bootstrap",
                bootstrap,
            ],
            &["--topic", topic][..],
            more,
        ]
        .concat(),
        "",
    );
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}{}", stdout(&output), stderr(&output));
    });
    (output.status.code(), report)
}

#[test]
fn what_produce_writes_verify_proves() {
    let broker = EmbeddedBroker::start().unwrap();
    let topic = "events".parse().unwrap();
    broker
        .create_topic(&topic, 12_u32.try_into().unwrap())
        .unwrap();
    let bootstrap = broker.bootstrap_servers();
    let produce = ["produce", "--bootstrap", bootstrap, "--topic", "events"];

    // 11 distinct keys are one too few for 12 partitions.
    let lines: String = (0..11).map(|n| format!("k{n}\tv{n}\n")).collect();
    let output = cli(&produce, lines);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "11 records written to topic `events`, by murmur2 to 12 partitions\n"
    );
    let (code, report) = verify(bootstrap, "events", &[]);
    assert_eq!((code, &report["verdict"]), (Some(2), &json!("undecided")));
    assert!(report["reason"].as_str().unwrap().contains("12 do"));

    let lines: String = (0..1000)
        .map(|n| format!("{{\"id\": {n}, \"x\": \"{n}\"}}\n"))
        .collect();
    let with_field = [&produce[..], &["--key-field", "id", "--output", "json"]].concat();
    let output = cli(&with_field, lines);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        answer,
        json!({"topic": "events", "partitions": 12, "records": 1000})
    );
    let (code, report) = verify(bootstrap, "events", &["--all", "--plan", "24"]);
    assert_eq!((code, &report["verdict"]), (Some(0), &json!("proved")));
    assert_eq!(report["recordsRead"], 1011);
    assert_eq!(report["distinctKeys"], 1011);
    assert_eq!(report["recordsInPlace"], 1011);
    assert_eq!(report["restLooksLike"], Value::Null);
    let planned = report["planned"]["perPartition"].as_array().unwrap();
    assert_eq!(planned.len(), 24);
    let records: u64 = planned.iter().map(|p| p["records"].as_u64().unwrap()).sum();
    assert_eq!(records, 1011);

    let (_, sample) = verify(bootstrap, "events", &["--sample", "120"]);
    assert_eq!(sample["recordsRead"], 120);
    assert_eq!(sample["recordsHeld"], 1011);
}

#[test]
fn a_line_that_is_no_record_ends_it_and_what_was_written_is_told() {
    let broker = EmbeddedBroker::start().unwrap();
    let topic = "lines".parse().unwrap();
    broker
        .create_topic(&topic, 4_u32.try_into().unwrap())
        .unwrap();
    let bootstrap = broker.bootstrap_servers();
    let produce = ["produce", "--bootstrap", bootstrap, "--topic", "lines"];
    refused(
        &produce,
        b"a\t1\nb\t2\nno record\nc\t3\n",
        &[
            "standard input line 3: no tab",
            "2 records in front of it were written",
        ],
    );
    refused(&produce, b"", &["holds no record", "key<TAB>value"]);
    refused(
        &[&produce[..], &["--key-field", "id"]].concat(),
        b"{\"x\": 1}\n",
        &["line 1: field `id` is missing or null"],
    );
    let (_, report) = verify(bootstrap, "lines", &["--all"]);
    assert_eq!(report["recordsRead"], 2);
}

#[test]
fn what_the_broker_refuses_is_told_in_one_line() {
    let broker = EmbeddedBroker::start().unwrap();
    let bootstrap = broker.bootstrap_servers();
    for verb in [&["placement", "verify"][..], &["produce"]] {
        let to = |bootstrap: &'static str| {
            [
                verb,
                &["--topic", "t", "--timeout", "2", "--bootstrap", bootstrap],
            ]
            .concat()
        };
        refused(
            &[verb, &["--topic", "missing", "--bootstrap", bootstrap]].concat(),
            b"a\tb\n",
            &["topic `missing` does not exist", "create it"],
        );
        let began = Instant::now();
        refused(
            &to("127.0.0.1:1"),
            b"a\tb\n",
            &["no broker answers at 127.0.0.1:1", "check --bootstrap"],
        );
        assert!(began.elapsed().as_secs() < 8, "{:?}", began.elapsed());
        refused(
            &[&to("k:1")[..], &["--property", "sasl.password=x"]].concat(),
            b"",
            &["sasl.password=env:NAME"],
        );
        refused(
            &[verb, &["--topic", "a b", "--bootstrap", bootstrap]].concat(),
            b"",
            &["topic `a b` is refused"],
        );
    }
}

#[test]
fn a_plan_that_groups_cannot_follow_is_refused() {
    let output = cli(
        &[
            "placement",
            "verify",
            "--bootstrap",
            "k:1",
            "--topic",
            "t",
            "--plan",
            "9",
        ],
        "",
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("the nearest valid counts are 8 and 10"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn assignors_stand_side_by_side() {
    let arguments = [
        "--topic",
        "orders:3",
        "--topic",
        "payments:3",
        "--members",
        "2",
    ];
    let output = cli(&[&["assignment", "simulate"], &arguments[..]].concat(), "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output), @r"
    partitions of                range  round-robin  sticky  turbine
    member-0                         4            3       3        4
    member-1                         2            3       3        2
    most less least                  2            0       0        2
    equal indexes that meet     3 of 3       0 of 3  0 of 3   3 of 3
    moves when member-1 leaves       2            3       3        2
    of them its own                  2            3       3        2
    most less least then             0            0       0        0

    range:
      member-0  orders 0-1; payments 0-1
      member-1  orders 2; payments 2
      without member-1:
      member-0  orders 0-2; payments 0-2

    round-robin:
      member-0  orders 0,2; payments 1
      member-1  orders 1; payments 0,2
      without member-1:
      member-0  orders 0-2; payments 0-2

    sticky:
      member-0  orders 0,2; payments 1
      member-1  orders 1; payments 0,2
      without member-1:
      member-0  orders 0-2; payments 0-2

    turbine:
      member-0  orders 0,2; payments 0,2
      member-1  orders 1; payments 1
      without member-1:
      member-0  orders 0-2; payments 0-2
    ");
    refused(
        &[
            &["assignment", "simulate"],
            &arguments[..],
            &["--leave", "x"],
        ]
        .concat(),
        b"",
        &["no such member", "member-0, member-1"],
    );
}
