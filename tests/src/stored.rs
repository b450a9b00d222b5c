//! The state that a stopped worker has left, read by `turbine-cli`, in the words of the independent computation.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::process;

/// The panes that the stores of `per-tenant` hold: of each what [`crate::manifest::AppManifest::new`] computes.
///
/// # Errors
/// A store cannot be read, or holds what is no such pane.
pub fn open_panes(bed: &Bed, state: &Path, partitions: i32) -> Result<Vec<Value>> {
    let mut panes = Vec::new();
    for partition in 0..partitions {
        let shown = process::run(
            Command::new(bed.program("turbine-cli"))
                .args(["store", "scan", "--subscription", "per-tenant"])
                .args(["--partition", &partition.to_string()])
                .args(["--limit", "100000", "--output", "json"])
                .arg("--state")
                .arg(state),
        )?;
        let rows: Vec<Value> = serde_json::from_str(&shown)?;
        for row in &rows {
            panes.push(pane(row).with_context(|| format!("no pane: {row}"))?);
        }
    }
    Ok(panes)
}

/// Whether a state holds what it must: the same panes, in any order, with fields in any order.
///
/// # Errors
/// It does not; the message shows the first differences.
pub fn same(expected: &[Value], held: &[Value]) -> Result<()> {
    let (wanted, found) = (texts(expected), texts(held));
    let without = |from: &[String], all: &[String]| -> Vec<String> {
        let differs = from.iter().filter(|text| !all.contains(text));
        differs.take(5).cloned().collect()
    };
    ensure!(
        wanted == found,
        "the state is another one; missing: {:#?}; too much: {:#?}",
        without(&wanted, &found),
        without(&found, &wanted)
    );
    Ok(())
}

fn texts(rows: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = rows
        .iter()
        .map(|row| {
            let mut row = row.clone();
            if let Value::Object(fields) = &mut row {
                fields.remove("cpu_mean");
            }
            row.sort_all_objects();
            row.to_string()
        })
        .collect();
    texts.sort_unstable();
    texts
}

fn pane(row: &Value) -> Result<Value> {
    let start = row["start"].as_i64().context("no start")?;
    let value = row["value"].as_str().context("no value")?;
    let mut bytes = Bytes(unhex(value)?.into_iter());
    ensure!(bytes.take::<1>()? == [1], "another format");
    let _definition = bytes.take::<4>()?;
    let (n, cpu_n) = (bytes.count()?, bytes.count()?);
    let cpu_sum = bytes.optional(Bytes::float)?;
    let (mean_of, mean_sum) = (bytes.count()?, bytes.float()?);
    // The mean is held as what it is made of, which is held a second time.
    ensure!(
        mean_of == cpu_n && Some(mean_sum) == cpu_sum.or(Some(0.0)),
        "the mean is another one"
    );
    let mut integer = || bytes.optional(Bytes::integer);
    let (bytes_sum, bytes_min, bytes_max) = (integer()?, integer()?, integer()?);
    ensure!(bytes.0.next().is_none(), "more than the aggregates");
    Ok(json!({
        "tenant_id": row["key"][0], "window_start_ms": start, "window_end_ms": start + 60_000,
        "n": n, "cpu_n": cpu_n, "cpu_sum": cpu_sum,
        "bytes_sum": bytes_sum, "bytes_min": bytes_min, "bytes_max": bytes_max,
    }))
}

/// The stored form of running values, read again here: big endian, a byte 0 or 1 before what may be missing.
struct Bytes(std::vec::IntoIter<u8>);

impl Bytes {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken: Vec<u8> = self.0.by_ref().take(N).collect();
        taken.try_into().ok().context("too short")
    }

    fn count(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    fn integer(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    fn float(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.take()?))
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        match self.take::<1>()? {
            [0] => Ok(None),
            _ => read(self).map(Some),
        }
    }
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    ensure!(text.len().is_multiple_of(2), "half a byte");
    (0..text.len())
        .step_by(2)
        .map(|at| Ok(u8::from_str_radix(&text[at..at + 2], 16)?))
        .collect()
}
