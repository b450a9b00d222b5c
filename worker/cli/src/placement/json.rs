//! The answer of `turbine-cli placement verify`, for programs.

use std::io::Write;

use serde::Serialize;
use turbine_keygroups::{KeyGroup, PartitionCount, Partitioner, RawPartitionCount};

use super::tally::{Example, Load};
use super::verify::Found;
use super::words::{Skew, notes, reason};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    topic: &'a str,
    partitions: RawPartitionCount,
    verdict: &'static str,
    reason: String,
    notes: Vec<String>,
    records_held: u64,
    records_read: u64,
    records_without_key: u64,
    records_in_place: u64,
    distinct_keys: u64,
    distinct_keys_are_a_minimum: bool,
    /// Distinct keys by the partition they lie in, and how many of them each client explains.
    placed_keys: u64,
    explained: Vec<Explained>,
    rest_looks_like: Option<String>,
    examples: &'a [Example],
    per_partition: Vec<PartitionLoad>,
    per_key_group: Vec<GroupLoad>,
    skew: Skew,
    planned: Option<Planned>,
}

#[derive(Debug, Serialize)]
struct Explained {
    client: Partitioner,
    keys: u64,
}

#[derive(Debug, Serialize)]
struct PartitionLoad {
    partition: usize,
    #[serde(flatten)]
    load: Load,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupLoad {
    key_group: KeyGroup,
    #[serde(flatten)]
    load: Load,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Planned {
    skew: Skew,
    per_partition: Vec<PartitionLoad>,
}

fn per_partition(loads: &[Load]) -> Vec<PartitionLoad> {
    loads
        .iter()
        .enumerate()
        .map(|(partition, load)| PartitionLoad {
            partition,
            load: *load,
        })
        .collect()
}

pub(super) fn write(
    found: &Found,
    plan: Option<PartitionCount>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let tally = &found.tally;
    let report = Report {
        topic: found.topic.as_str(),
        partitions: tally.count(),
        verdict: tally.placement().word(),
        reason: reason(tally),
        notes: notes(found),
        records_held: found.held,
        records_read: tally.records(),
        records_without_key: tally.without_key(),
        records_in_place: tally.records_in_place(),
        distinct_keys: tally.keys(),
        distinct_keys_are_a_minimum: tally.is_full(),
        placed_keys: tally.places(),
        explained: tally
            .explained()
            .map(|(client, keys)| Explained { client, keys })
            .into(),
        rest_looks_like: tally.rest_looks_like().map(|looks| looks.to_string()),
        examples: tally.examples(),
        per_partition: per_partition(tally.partitions()),
        per_key_group: tally
            .groups()
            .map(|(key_group, load)| GroupLoad { key_group, load })
            .collect(),
        skew: Skew::of(tally.partitions()),
        planned: plan.map(|plan| {
            let loads = tally.planned(plan);
            Planned {
                skew: Skew::of(&loads),
                per_partition: per_partition(&loads),
            }
        }),
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_same() {
        let mut out = Vec::new();
        write(&Found::of(1, &[(0, Some(b"a"))]), None, &mut out).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(report["verdict"], "undecided");
        assert_eq!(report["perPartition"][0]["records"], 1);
        assert_eq!(report["skew"]["ratio"], 1.0);
        assert_eq!(report["explained"][0]["client"], "murmur2");
        assert_eq!(report["planned"], serde_json::Value::Null);
    }
}
