//! What an output must hold: computed from the generator's own records, by neither system, and held against an output topic.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use turbine_tests::events::Event;
use turbine_tests::kafka::{Kafka, Stored};

pub(super) const WINDOW_MS: i64 = 60_000;

/// One window of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pane {
    tenant: u32,
    start_ms: i64,
}

/// No number in any row makes a sum of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Totals {
    count: u64,
    sum: Option<i64>,
}

/// All windows with their totals.
#[derive(Debug, Default)]
pub(super) struct Answer(HashMap<Pane, Totals>);

#[derive(Deserialize)]
struct Row {
    bytes: Option<i64>,
    ts: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Output<'a> {
    tenant_id: &'a str,
    window_start_ms: i64,
    window_end_ms: i64,
    n: u64,
    bytes_sum: Option<i64>,
}

fn tenant(text: &str) -> Result<u32> {
    let digits = text
        .strip_prefix("tenant-")
        .filter(|digits| digits.len() >= 6)
        .with_context(|| format!("no tenant of the generator: {text}"))?;
    Ok(digits.parse()?)
}

impl Answer {
    /// Takes a record that is about to be written.
    pub(super) fn add(&mut self, event: &Event) -> Result<()> {
        let row: Row = serde_json::from_slice(&event.value)?;
        let pane = Pane {
            tenant: tenant(std::str::from_utf8(&event.key)?)?,
            start_ms: row.ts.div_euclid(WINDOW_MS) * WINDOW_MS,
        };
        let totals = self.0.entry(pane).or_default();
        totals.count += 1;
        if let Some(bytes) = row.bytes {
            totals.sum = Some(totals.sum.unwrap_or(0) + bytes);
        }
        Ok(())
    }

    pub(super) fn windows(&self) -> usize {
        self.0.len()
    }

    /// Reads an output to its end; the last row of a window counts.
    pub(super) fn compare(&self, kafka: &Kafka, topic: &str) -> Result<Verdict> {
        let mut last = HashMap::with_capacity(self.0.len());
        let mut rows = 0;
        kafka.visit_all(topic, |record| {
            let (pane, totals) = parse(&record)?;
            last.insert(pane, totals);
            rows += 1;
            Ok(())
        })?;
        Ok(self.judge(rows, &last))
    }

    /// `last`: the last row of each window, of `rows` in all.
    fn judge(&self, rows: usize, last: &HashMap<Pane, Totals>) -> Verdict {
        let wrong = last
            .iter()
            .filter(|(pane, totals)| self.0.get(pane).is_some_and(|wanted| wanted != *totals))
            .count();
        let extra = last
            .keys()
            .filter(|pane| !self.0.contains_key(pane))
            .count();
        Verdict {
            windows: self.0.len(),
            rows,
            repeated: rows - last.len(),
            missing: self.0.len() + extra - last.len(),
            wrong,
            extra,
            wanted: checksum(&self.0),
            found: checksum(last),
        }
    }
}

fn parse(record: &Stored) -> Result<(Pane, Totals)> {
    let value = record
        .value
        .as_deref()
        .context("a result without a value")?;
    let text = || String::from_utf8_lossy(value).into_owned();
    let output: Output<'_> = serde_json::from_slice(value).with_context(text)?;
    ensure!(
        output.window_end_ms - output.window_start_ms == WINDOW_MS,
        "a result of another window length: {}",
        text()
    );
    ensure!(
        record.key.as_deref() == Some(output.tenant_id.as_bytes()),
        "a result whose record has another key: {}",
        text()
    );
    let pane = Pane {
        tenant: tenant(output.tenant_id)?,
        start_ms: output.window_start_ms,
    };
    let totals = Totals {
        count: output.n,
        sum: output.bytes_sum,
    };
    Ok((pane, totals))
}

/// One number for all (key, window, count, sum), in any order.
fn checksum(panes: &HashMap<Pane, Totals>) -> u64 {
    panes.iter().fold(0, |sum, (pane, totals)| {
        let words = [
            u64::from(pane.tenant),
            pane.start_ms.cast_unsigned(),
            totals.count,
            u64::from(totals.sum.is_some()),
            totals.sum.unwrap_or(0).cast_unsigned(),
        ];
        let one = words
            .into_iter()
            .fold(0_u64, |hash, word| super::calibrate::mix(hash ^ word));
        sum.wrapping_add(one)
    })
}

/// How an output compares with the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    windows: usize,
    pub(super) rows: usize,
    repeated: usize,
    missing: usize,
    wrong: usize,
    extra: usize,
    wanted: u64,
    found: u64,
}

impl Verdict {
    /// # Errors
    /// A window is missing, wrong or too much, or repeated where each must be there once.
    pub(super) fn check(&self, each_once: bool) -> Result<()> {
        let exact = self.missing + self.wrong + self.extra == 0 && self.wanted == self.found;
        if exact && !(each_once && self.repeated > 0) {
            return Ok(());
        }
        bail!("the output is not what the generator's records give: {self}")
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} windows, {} results, {} repeated, {} missing, {} wrong, {} too much, checksum {:016x} (the generator's {:016x})",
            self.windows,
            self.rows,
            self.repeated,
            self.missing,
            self.wrong,
            self.extra,
            self.found,
            self.wanted,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tenant: u32, ts: i64, bytes: &str) -> Event {
        Event {
            key: format!("tenant-{tenant:06}").into_bytes(),
            value: format!(r#"{{"tenant_id":"x","bytes":{bytes},"ts":{ts}}}"#).into_bytes(),
            time_ms: ts,
        }
    }

    #[test]
    fn totals_are_per_tenant_and_window_and_nulls_count_as_rows_only() {
        let mut answer = Answer::default();
        for each in [
            event(1, 60_000, "5"),
            event(1, 119_999, "null"),
            event(1, 120_000, "7"),
            event(2, 60_000, "null"),
        ] {
            answer.add(&each).unwrap();
        }
        let pane = |tenant, start_ms| answer.0[&Pane { tenant, start_ms }];
        assert_eq!((pane(1, 60_000).count, pane(1, 60_000).sum), (2, Some(5)));
        assert_eq!((pane(1, 120_000).count, pane(1, 120_000).sum), (1, Some(7)));
        assert_eq!((pane(2, 60_000).count, pane(2, 60_000).sum), (1, None));
        assert_eq!(answer.windows(), 3);
    }

    #[test]
    fn only_an_exact_output_passes_and_repeats_only_at_least_once() {
        let mut answer = Answer::default();
        answer.add(&event(1, 60_000, "5")).unwrap();
        answer.add(&event(2, 60_000, "6")).unwrap();
        let passes = |rows, change: fn(&mut HashMap<Pane, Totals>), each_once| {
            let mut last = answer.0.clone();
            change(&mut last);
            answer.judge(rows, &last).check(each_once).is_ok()
        };
        assert!(passes(2, |_| {}, true));
        assert!(passes(3, |_| {}, false), "the last row counts");
        assert!(!passes(3, |_| {}, true), "there twice");
        for each_once in [false, true] {
            let missing =
                |last: &mut HashMap<Pane, Totals>| last.retain(|pane, _| pane.tenant != 1);
            assert!(!passes(1, missing, each_once));
            assert!(!passes(
                2,
                |last| last.values_mut().for_each(|each| each.count += 1),
                each_once
            ));
            assert!(!passes(
                2,
                |last| last.values_mut().for_each(|each| each.sum = None),
                each_once
            ));
            let extra = |last: &mut HashMap<Pane, Totals>| {
                let pane = Pane {
                    tenant: 3,
                    start_ms: 60_000,
                };
                last.insert(pane, Totals::default());
            };
            assert!(!passes(3, extra, each_once));
        }
    }

    #[test]
    fn any_other_key_window_count_or_sum_gives_another_checksum() {
        let sum = |tenant, start_ms, count, sum| {
            checksum(&HashMap::from([(
                Pane { tenant, start_ms },
                Totals { count, sum },
            )]))
        };
        let right = sum(1, 60_000, 2, Some(5));
        for other in [
            sum(2, 60_000, 2, Some(5)),
            sum(1, 120_000, 2, Some(5)),
            sum(1, 60_000, 3, Some(5)),
            sum(1, 60_000, 2, Some(6)),
            sum(1, 60_000, 2, None),
        ] {
            assert_ne!(right, other);
        }
    }
}
