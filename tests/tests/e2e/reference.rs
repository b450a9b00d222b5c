//! The independent computation is itself held to results worked out by hand, and sees every kind of difference.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::expected::{Query, Report};
use turbine_tests::kafka::Record;
use turbine_tests::scenario::Topics;

const MINUTE: i64 = 60_000;

fn row(tenant: Option<&str>, cpu: Option<f64>, bytes: Option<i64>, ts: i64) -> Record {
    let value = json!({"tenant_id": tenant, "cpu": cpu, "bytes": bytes, "ts": ts}).to_string();
    Record {
        partition: Some(0),
        value: Some(value.into_bytes()),
        ..Record::default()
    }
}

/// One partition, 1-minute windows, 5 s out of order, 10 s late. The frontier is the highest time less 5 s.
fn rows() -> Vec<Record> {
    vec![
        row(Some("a"), Some(1.5), Some(9_007_199_254_740_993), 10_000),
        row(Some("a"), None, Some(1), 59_999),
        // the next window: its start is inclusive
        row(Some("a"), Some(4.0), None, MINUTE),
        // back in the first: frontier 55,000 < 60,000 + 10,000
        row(Some("a"), Some(2.5), Some(1), 30_000),
        row(Some("b"), Some(8.0), Some(7), 20_000),
        // the text "" is a key, null is none
        row(Some(""), Some(1.0), Some(1), 20_000),
        row(None, Some(2.0), Some(2), 20_000),
        // frontier 70,000: the first window is closed
        row(Some("b"), Some(0.5), Some(5), 75_000),
        // late for it
        row(Some("a"), Some(100.0), Some(100), 59_000),
        // below the epoch: [-60,000, 0) is long closed
        row(Some("a"), Some(100.0), Some(100), -1),
    ]
}

fn output() -> Vec<serde_json::Value> {
    let window = |tenant: Option<&str>, n: i64, sum: f64, mean: f64, bytes: i64| {
        json!({
            "tenant_id": tenant, "window_start_ms": 0, "window_end_ms": 60_000,
            "n": n, "cpu_sum": sum, "cpu_mean": mean, "bytes_sum": bytes,
        })
    };
    vec![
        window(Some("a"), 3, 4.0, 2.0, 9_007_199_254_740_995),
        window(Some("b"), 1, 8.0, 8.0, 7),
        window(Some(""), 1, 1.0, 1.0, 1),
        window(None, 1, 2.0, 2.0, 2),
    ]
}

fn records(rows: &[serde_json::Value]) -> Vec<Record> {
    rows.iter()
        .map(|row| Record {
            partition: Some(0),
            value: Some(row.to_string().into_bytes()),
            ..Record::default()
        })
        .collect()
}

struct Case {
    bed: Bed,
    topics: Topics,
    input: String,
}

impl Case {
    async fn begin() -> Result<Self> {
        let bed = Bed::from_env()?;
        let topics = Topics::new(&bed, "reference");
        let input = topics.create("in", 1).await?;
        topics.kafka().produce(&input, rows(), None)?;
        Ok(Self { bed, topics, input })
    }

    async fn judge(&self, name: &str, rows: &[serde_json::Value]) -> Result<Report> {
        let output = self.topics.create(name, 1).await?;
        self.topics.kafka().produce(&output, records(rows), None)?;
        Query {
            bootstrap: self.bed.bootstrap.clone(),
            input: self.input.clone(),
            output,
            size_ms: 60_000,
            lateness_ms: 10_000,
            out_of_orderness_ms: 5_000,
            time: "ts".to_owned(),
            keys: vec!["tenant_id".to_owned()],
            aggregates: [
                "n=count",
                "cpu_sum=sum:cpu",
                "cpu_mean=mean:cpu",
                "bytes_sum=sum:bytes",
            ]
            .map(str::to_owned)
            .to_vec(),
            open_windows_allowed: false,
            placed_only: false,
            show_open: false,
        }
        .compare(&self.bed.kafka_libs, Duration::ZERO)
    }
}

#[tokio::test]
async fn results_worked_out_by_hand_are_right_and_every_difference_is_seen() -> Result<()> {
    if Bed::for_test("reference", Needs::Broker)?.is_none() {
        return Ok(());
    }
    let case = Case::begin().await?;
    let right = output();

    let report = case.judge("right", &right).await?;
    report.check()?;
    assert_eq!(
        (
            report.closed,
            report.windows,
            report.late_rows,
            report.repeated
        ),
        (4, 6, 2, 0),
        "{report:?}"
    );

    let mut repeated = right.clone();
    repeated.insert(
        0,
        json!({"tenant_id": "b", "window_start_ms": 0, "window_end_ms": 60_000, "n": 9}),
    );
    let report = case.judge("repeated", &repeated).await?;
    assert!(
        report.is_right() && report.repeated == 1,
        "the last result counts: {report:?}"
    );

    let report = case.judge("missing", &right[1..]).await?;
    assert_eq!(
        (report.missing, report.wrong, report.extra, report.early),
        (1, 0, 0, 0),
        "{report:?}"
    );

    let mut wrong = right.clone();
    wrong[0]["bytes_sum"] = json!(9_007_199_254_740_996_i64);
    let report = case.judge("wrong", &wrong).await?;
    assert_eq!(
        (report.missing, report.wrong, report.extra, report.early),
        (0, 1, 0, 0),
        "{report:?}"
    );

    let mut extra = right.clone();
    extra.push(json!({"tenant_id": "c", "window_start_ms": 0, "window_end_ms": 60_000, "n": 1}));
    let report = case.judge("extra", &extra).await?;
    assert_eq!(
        (report.missing, report.wrong, report.extra, report.early),
        (0, 0, 1, 0),
        "{report:?}"
    );

    let mut early = right.clone();
    early.push(json!({
        "tenant_id": "b", "window_start_ms": 60_000, "window_end_ms": 120_000,
        "n": 1, "cpu_sum": 0.5, "cpu_mean": 0.5, "bytes_sum": 5,
    }));
    let report = case.judge("early", &early).await?;
    assert_eq!(
        (report.missing, report.wrong, report.extra, report.early),
        (0, 0, 0, 1),
        "{report:?}"
    );
    Ok(())
}
