//! The independent computation of the results (`reference/Expected.java`): another language, Kafka's own consumer, no code
//! of the product.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::{java, process};

/// What is computed over which topic, and where the results under test are.
#[derive(Debug, Clone)]
pub struct Query {
    pub bootstrap: String,
    pub input: String,
    pub output: String,
    pub size_ms: u64,
    pub lateness_ms: u64,
    pub out_of_orderness_ms: u64,
    /// Field with the event time in milliseconds.
    pub time: String,
    pub keys: Vec<String>,
    /// `NAME=FUNCTION[:COLUMN]`.
    pub aggregates: Vec<String>,
    /// Whether results of windows that the data alone has not closed are taken too, if right (idle sources).
    pub open_windows_allowed: bool,
    /// Rows that murmur2 would have put elsewhere do not count.
    pub placed_only: bool,
    /// Whether the report shows the windows that are still open.
    pub show_open: bool,
}

/// The outcome of a comparison.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Windows that have rows.
    pub windows: u64,
    /// Windows that must have a result.
    pub closed: u64,
    pub missing: u64,
    pub wrong: u64,
    /// Results of windows that are still open.
    pub early: u64,
    /// Results of windows that do not exist.
    pub extra: u64,
    /// Records of the output topic.
    pub rows: u64,
    /// Those that came again for the same window and key.
    pub repeated: u64,
    pub input_rows: u64,
    pub late_rows: u64,
    /// Rows that were left out because murmur2 would have put them elsewhere.
    pub misplaced_rows: u64,
    /// The first few.
    pub differences: serde_json::Value,
    pub malformed: Vec<serde_json::Value>,
    /// What the windows that are still open have come to, if asked for.
    #[serde(default)]
    pub open: Vec<serde_json::Value>,
}

impl Report {
    /// Whether every window's last result is right, none is missing and none is too much.
    pub fn is_right(&self) -> bool {
        self.missing + self.wrong + self.early + self.extra == 0 && self.malformed.is_empty()
    }

    /// # Errors
    /// It is not right; the message shows the first differences.
    pub fn check(&self) -> Result<()> {
        if self.is_right() {
            return Ok(());
        }
        bail!("the output differs from the independent computation: {self:#?}")
    }
}

impl Query {
    /// Computes and compares, waiting up to `wait` for results that are not there yet. Takes as long as it takes to read
    /// both topics.
    ///
    /// # Errors
    /// The program cannot be run; a difference is no error.
    pub fn compare(&self, kafka_libs: &Path, wait: Duration) -> Result<Report> {
        let mut command = java::program("Expected", kafka_libs)?;
        self.tell(&mut command, wait);
        let outcome = process::attempt(&mut command)?;
        let report = outcome.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(report).with_context(|| {
            format!(
                "the reference failed:\n{}{}",
                outcome.stdout, outcome.stderr
            )
        })
    }

    fn tell(&self, command: &mut Command, wait: Duration) {
        command
            .args([
                "--bootstrap",
                &self.bootstrap,
                "--input",
                &self.input,
                "--output",
                &self.output,
            ])
            .args(["--size-ms", &self.size_ms.to_string()])
            .args(["--lateness-ms", &self.lateness_ms.to_string()])
            .args([
                "--out-of-orderness-ms",
                &self.out_of_orderness_ms.to_string(),
            ])
            .args(["--time", &self.time])
            .args(["--wait-s", &wait.as_secs().to_string()]);
        for key in &self.keys {
            command.args(["--key", key]);
        }
        for aggregate in &self.aggregates {
            command.args(["--agg", aggregate]);
        }
        if self.open_windows_allowed {
            command.args(["--open-windows", "allowed"]);
        }
        if self.placed_only {
            command.arg("--placed");
        }
        if self.show_open {
            command.arg("--show-open");
        }
    }
}
