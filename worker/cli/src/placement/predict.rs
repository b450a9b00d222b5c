//! `turbine-cli placement predict`: arithmetic on keys.

use std::io::{self, Write};

use serde::Serialize;
use turbine_keygroups::{
    KeyGroup, Partition, Partitioner, RawPartitionCount, group_of, partition_of,
};

use crate::keys::Key;
use crate::table::{Table, bar, printable};

/// Where keys belong.
#[derive(Debug)]
pub(super) struct Prediction {
    partitions: RawPartitionCount,
    plan: Option<RawPartitionCount>,
    compare: bool,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    key: Key,
    group: KeyGroup,
    partition: Partition,
    /// CRC32 and FNV-1a; the first throws dice for an empty key.
    others: [Option<Partition>; 2],
    planned: Option<Partition>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonRow<'a> {
    key: &'a str,
    partition: Partition,
    key_group: KeyGroup,
    #[serde(flatten)]
    others: Option<JsonOthers>,
    #[serde(flatten)]
    planned: Option<JsonPlanned>,
}

#[derive(Debug, Serialize)]
struct JsonOthers {
    crc32: Option<Partition>,
    fnv1a: Option<Partition>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonPlanned {
    planned_partition: Partition,
    moves: bool,
}

impl Row {
    fn moves(&self) -> bool {
        self.planned
            .is_some_and(|planned| planned != self.partition)
    }
}

impl Prediction {
    pub(super) fn new(
        keys: Vec<Key>,
        partitions: RawPartitionCount,
        plan: Option<RawPartitionCount>,
        compare: bool,
    ) -> Self {
        let rows = keys
            .into_iter()
            .map(|key| Row {
                group: group_of(&key.bytes),
                partition: partition_of(&key.bytes, partitions),
                others: [Partitioner::Crc32, Partitioner::Fnv1a]
                    .map(|client| client.partition(&key.bytes, partitions)),
                planned: plan.map(|plan| partition_of(&key.bytes, plan)),
                key,
            })
            .collect();
        Self {
            partitions,
            plan,
            compare,
            rows,
        }
    }

    pub(super) fn write_json(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let rows: Vec<JsonRow<'_>> = self
            .rows
            .iter()
            .map(|row| JsonRow {
                key: &row.key.shown,
                partition: row.partition,
                key_group: row.group,
                others: self.compare.then_some(JsonOthers {
                    crc32: row.others[0],
                    fnv1a: row.others[1],
                }),
                planned: row.planned.map(|planned_partition| JsonPlanned {
                    planned_partition,
                    moves: row.moves(),
                }),
            })
            .collect();
        serde_json::to_writer_pretty(&mut *out, &rows)?;
        writeln!(out)?;
        Ok(())
    }

    pub(super) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        self.table().write(out)?;
        let load = |of: &dyn Fn(&Row) -> Option<Partition>, count: RawPartitionCount| {
            let mut load = vec![0_u64; count.get() as usize];
            for partition in self.rows.iter().filter_map(of) {
                if let Some(keys) = load.get_mut(partition.index() as usize) {
                    *keys += 1;
                }
            }
            load
        };
        writeln!(out)?;
        write_load(&load(&|row| Some(row.partition), self.partitions), out)?;
        if let Some(plan) = self.plan {
            writeln!(out)?;
            write_load(&load(&|row| row.planned, plan), out)?;
            let moving = self.rows.iter().filter(|row| row.moves()).count();
            writeln!(out)?;
            writeln!(
                out,
                "{moving} of {} keys move from {} to {plan} partitions",
                self.rows.len(),
                self.partitions
            )?;
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let (now, then) = (
            format!("of {}", self.partitions),
            self.plan.map_or(String::new(), |plan| format!("of {plan}")),
        );
        let mut headings = vec!["key", "key group"];
        if self.compare {
            headings.extend(Partitioner::ALL.map(Partitioner::as_str));
        } else if self.plan.is_some() {
            headings.push(&now);
        } else {
            headings.push("partition");
        }
        if self.plan.is_some() {
            headings.extend([then.as_str(), ""]);
        }
        let mut table = Table::new(&headings);
        for row in &self.rows {
            let mut cells = vec![
                printable(&row.key.shown),
                row.group.to_string(),
                row.partition.to_string(),
            ];
            if self.compare {
                cells.extend(row.others.map(|place| {
                    place.map_or_else(|| "random".to_owned(), |place| place.to_string())
                }));
            }
            if let Some(planned) = row.planned {
                cells.push(planned.to_string());
                cells.push(if row.moves() { "moves" } else { "" }.to_owned());
            }
            table.row(cells);
        }
        table
    }
}

/// Partitions are all shown up to this count; of more, those that have keys.
const SHOWN: usize = 100;

fn write_load(load: &[u64], out: &mut impl Write) -> io::Result<()> {
    let keys: u64 = load.iter().sum();
    let most = load.iter().copied().max().unwrap_or(0);
    let empty = load.iter().filter(|keys| **keys == 0).count();
    writeln!(
        out,
        "{keys} keys on {} partitions; most on one: {most}; empty: {empty}",
        load.len()
    )?;
    let mut table = Table::new(&["partition", "keys", ""]);
    for (partition, keys) in load.iter().enumerate() {
        if *keys > 0 || load.len() <= SHOWN {
            table.row([partition.to_string(), keys.to_string(), bar(*keys, most)]);
        }
    }
    table.write(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(keys: &[&str], plan: Option<u32>, compare: bool) -> Prediction {
        let keys = keys
            .iter()
            .map(|key| Key {
                shown: (*key).to_owned(),
                bytes: key.as_bytes().to_vec(),
            })
            .collect();
        let plan = plan.map(|plan| plan.try_into().unwrap());
        Prediction::new(keys, 6_u32.try_into().unwrap(), plan, compare)
    }

    /// Worked out by hand from the hashes of Kafka's unit test: `21` is 1173551340 without its
    /// sign, `abc` 479470107, `foobar` 1357151166.
    #[test]
    fn a_plan_shows_before_after_and_what_moves() {
        let mut out = Vec::new();
        prediction(&["21", "abc", "foobar"], Some(4), false)
            .write_text(&mut out)
            .unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        key     key group  of 6  of 4
        21            300     0     0
        abc            27     3     3
        foobar        126     0     2  moves

        3 keys on 6 partitions; most on one: 2; empty: 4
        partition  keys
        0             2  ########################################
        1             0
        2             0
        3             1  ####################
        4             0
        5             0

        3 keys on 4 partitions; most on one: 1; empty: 1
        partition  keys
        0             1  ########################################
        1             0
        2             1  ########################################
        3             1  ########################################

        1 of 3 keys move from 6 to 4 partitions
        ");
    }

    #[test]
    fn the_empty_key_has_a_place_and_librdkafka_throws_dice_for_it() {
        let mut out = Vec::new();
        prediction(&[""], None, true).write_json(&mut out).unwrap();
        let rows: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            rows,
            serde_json::json!([{"key": "", "partition": 3, "keyGroup": 921, "crc32": null, "fnv1a": 3}])
        );
    }
}
