//! The program as people call it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::type_complexity
)]

mod common;

use std::path::{Path, PathBuf};

use common::{cli, stdout};
use serde_yaml::Value;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples")
}

fn quickstart() -> String {
    std::fs::read_to_string(examples().join("quickstart.yaml")).unwrap()
}

#[test]
fn all_examples_are_right() {
    let files: Vec<String> = std::fs::read_dir(examples())
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .collect();
    let mut arguments = vec!["validate"];
    arguments.extend(files.iter().map(String::as_str));
    let output = cli(&arguments, "");
    assert!(output.status.success(), "{}", stdout(&output));
    assert_eq!(
        stdout(&output)
            .lines()
            .filter(|line| line.ends_with(": ok"))
            .count(),
        files.len()
    );
}

#[test]
fn every_mistake_is_printed_at_once_with_its_field() {
    let app = quickstart()
        .replace("topic: events\n", "topic: events\n        partitions: 7\n")
        .replace("replicas: 3", "replicas: 0")
        .replace("size: 1m", "size: 0s");
    let output = cli(&["validate", "-"], &app);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(stdout(&output), @r"
    standard input: quickstart: spec.replicas: an app has 1 to 1000 worker pods; `suspend: true` stops all of them
    standard input: quickstart: spec.subscriptions[0].input.partitions: topic `events` has 7 partitions, which does not divide 960; the nearest valid counts are 6 and 8; state is kept by key in 960 groups and can follow keys only through counts that divide 960: grow the topic to 8 before the app first runs, or create it anew
    standard input: quickstart: spec.subscriptions[0].windows[0].tumbling.size: `0s` is out of range; use 1ms to 366d
    ");
}

#[test]
fn properties_that_the_kafka_client_would_not_take_are_told_beside_those_that_are_refused() {
    let app = quickstart().replace(
        "    bootstrapServers: kafka:9092\n",
        "    bootstrapServers: kafka:9092\n    properties: {no.such: x, linger.ms: soon, acks: \"1\", client.id: mine}\n",
    );
    let output = cli(&["validate", "-"], &app);
    assert_eq!(output.status.code(), Some(1));
    let told = stdout(&output);
    for name in ["no.such", "linger.ms", "acks"] {
        let about = format!("kafka.properties `{name}` is refused");
        assert_eq!(told.matches(&about).count(), 1, "{told}");
    }
    assert!(!told.contains("client.id"), "{told}");
}

#[rstest::rstest]
#[case::longer_than_a_record_is_tried(
    "linger.ms: \"130000\"",
    "`message.timeout.ms` must be greater than `linger.ms`"
)]
#[case::twice(
    "reconnect.backoff.ms: \"20000\"",
    "`reconnect.backoff.max.ms` must be"
)]
fn properties_that_the_kafka_client_takes_one_by_one_and_not_together_are_told(
    #[case] properties: &str,
    #[case] word: &str,
) {
    let app = quickstart().replace(
        "    bootstrapServers: kafka:9092\n",
        &format!("    bootstrapServers: kafka:9092\n    properties: {{{properties}}}\n"),
    );
    let output = cli(&["validate", "-"], &app);
    assert_eq!(output.status.code(), Some(1));
    let told = stdout(&output);
    assert!(told.contains("do not go together"), "{told}");
    assert!(told.contains(word), "{told}");
}

/// Valid counts and their neighbours, by trial division.
#[test]
fn every_partition_count_is_judged_by_validate_as_by_the_api_server() {
    let counts: Vec<i64> = (-1..=1_001).chain([1_920]).collect();
    let documents: String = counts
        .iter()
        .map(|count| {
            let partitions = format!("topic: events\n        partitions: {count}\n");
            format!(
                "---\n{}",
                quickstart().replace("topic: events\n", &partitions)
            )
        })
        .collect();
    let output = cli(&["validate", "-"], &documents);
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said.len(), counts.len());
    for (count, said) in counts.into_iter().zip(said) {
        let valid = |near: &i64| 960 % near == 0;
        if count < 1 {
            let words = "spec.subscriptions[0].input.partitions: topic `events` cannot have fewer than 1 partition; the nearest valid count is 1";
            assert!(said.contains(words), "{count}: {said}");
        } else if valid(&count) {
            assert!(said.ends_with(": ok"), "{count}: {said}");
        } else {
            let below = (1..count.min(961)).rev().find(valid).unwrap();
            let nearest = match (count..=960).find(valid) {
                Some(above) => format!("counts are {below} and {above};"),
                None => format!("count is {below};"),
            };
            let words = format!(
                "topic `events` has {count} partitions, which does not divide 960; the nearest valid {nearest}"
            );
            assert!(said.contains(&words), "{count}: {said}");
        }
    }
}

#[test]
fn other_kinds_are_skipped_and_one_bad_document_does_not_hide_the_next() {
    let bad = quickstart()
        .replace("name: quickstart", "name: first")
        .replace("replicas: 3", "replicas: three");
    let text = format!(
        "{bad}---\nkind: Namespace\napiVersion: v1\nmetadata: {{name: n}}\n---\n{}",
        quickstart()
    );
    let output = cli(&["validate", "-"], &text);
    assert_eq!(output.status.code(), Some(1));
    let lines = stdout(&output);
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(
        lines[0].starts_with("standard input: first: spec.replicas: invalid type"),
        "{}",
        lines[0]
    );
    assert_eq!(
        lines[1],
        "standard input: n: skipped, Namespace is not a TurbineApp"
    );
    assert_eq!(lines[2], "standard input: quickstart: ok");
}

#[test]
fn json_is_read_as_well() {
    let app: Value = serde_yaml::from_str(&quickstart()).unwrap();
    let output = cli(
        &["validate", "-"],
        serde_json::to_string_pretty(&app).unwrap(),
    );
    assert!(output.status.success(), "{}", stdout(&output));
}

#[test]
fn nothing_to_check_is_no_success() {
    for text in ["", "kind: Namespace\napiVersion: v1\n", "a: [1,\n"] {
        assert_eq!(
            cli(&["validate", "-"], text).status.code(),
            Some(1),
            "{text}"
        );
    }
    let output = cli(&["validate", "/no/such/file.yaml"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("/no/such/file.yaml: cannot be read"));
}

#[test]
fn explain_fills_in_defaults_that_mean_the_same() {
    let output = cli(&["explain", "-"], quickstart());
    assert!(output.status.success());
    let text = stdout(&output);
    let app: Value = serde_yaml::from_str(&text).unwrap();
    let spec = &app["spec"];
    assert_eq!(spec["appId"], "quickstart");
    assert_eq!(spec["subscriptions"][0]["commitInterval"], "1s");
    assert_eq!(spec["subscriptions"][0]["input"]["idle"]["policy"], "coast");
    assert_eq!(
        spec["subscriptions"][0]["windows"][0]["allowedLateness"],
        "0s"
    );
    assert_eq!(spec["state"]["volume"]["onDelete"], "retain");
    assert_eq!(spec["worker"]["resources"]["limits"]["memory"], "1Gi");
    let again = cli(&["explain", "-"], &text);
    assert_eq!(
        stdout(&again),
        text,
        "a full app has nothing left to fill in"
    );
}

#[test]
fn a_wrong_app_is_not_explained() {
    let output = cli(
        &["explain", "-"],
        quickstart().replace("replicas: 3", "replicas: 0"),
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("spec.replicas"));
}

#[test]
fn crds_prints_what_the_chart_installs() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../charts/turbine/files/turbineapps.turbine.dev.yaml");
    assert_eq!(
        stdout(&cli(&["crds"], "")),
        std::fs::read_to_string(chart).unwrap()
    );
}

#[test]
fn help_teaches_by_example() {
    for verb in [
        &["validate"][..],
        &["explain"],
        &["crds"],
        &["produce"],
        &["placement", "predict"],
        &["placement", "verify"],
        &["assignment", "simulate"],
    ] {
        let help = stdout(&cli(&[verb, &["--help"]].concat(), ""));
        let example = format!("turbine-cli {}", verb.join(" "));
        assert!(
            help.contains("Examples:") && help.contains(&example),
            "{help}"
        );
    }
}
