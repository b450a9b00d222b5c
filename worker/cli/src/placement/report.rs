//! The answer of `turbine-cli placement verify`, for people.

use std::io::{self, Write};

use turbine_keygroups::{KeyGroup, PartitionCount};

use super::tally::{Example, Load, Tally};
use super::verify::Found;
use super::words::{Skew, at_least, notes, reason};
use crate::table::{Table, bar, percent, printable};

/// Key groups that are shown: the fullest.
const GROUPS: usize = 10;

pub(super) fn write(
    found: &Found,
    plan: Option<PartitionCount>,
    out: &mut impl Write,
) -> io::Result<()> {
    let tally = &found.tally;
    writeln!(
        out,
        "topic `{}`: {} partitions; read {} of {} records, {} without a key; {} distinct keys",
        found.topic,
        tally.count(),
        tally.records(),
        found.held,
        tally.without_key(),
        at_least(tally.keys(), tally.is_full())
    )?;
    writeln!(
        out,
        "placement is {}: {}",
        tally.placement().word(),
        reason(tally)
    )?;
    for note in notes(found) {
        writeln!(out, "note: {note}")?;
    }
    if tally.places() > 0 {
        writeln!(out)?;
        let mut shares = Table::new(&["client", "explains keys", ""]);
        for (client, explained) in tally.explained() {
            shares.row([
                client.to_string(),
                percent(explained, tally.places()),
                format!("{explained} of {}", tally.places()),
            ]);
        }
        shares.write(out)?;
    }
    if let Some(lookalike) = tally.rest_looks_like() {
        writeln!(out, "the rest looks like {lookalike}")?;
        writeln!(out)?;
        write_examples(tally.examples(), out)?;
    }
    writeln!(out)?;
    write_loads("as the records lie", tally.partitions(), out)?;
    if let Some(plan) = plan {
        writeln!(out)?;
        write_loads("planned, by murmur2", &tally.planned(plan), out)?;
    }
    write_groups(tally, plan, out)
}

fn write_examples(examples: &[Example], out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "misplaced key",
        "partition",
        "offset",
        "key hash",
        "belongs to",
    ]);
    for example in examples {
        table.row([
            printable(&example.key),
            example.partition.to_string(),
            example.offset.to_string(),
            example.key_hash.to_string(),
            example.belongs_to.to_string(),
        ]);
    }
    table.write(out)
}

/// Partitions are all shown up to this count; of more, those that have records.
const SHOWN: usize = 100;

fn write_loads(what: &str, loads: &[Load], out: &mut impl Write) -> io::Result<()> {
    let skew = Skew::of(loads);
    writeln!(out, "{what}, {}", skew.words())?;
    let mut table = Table::new(&["partition", "keys", "records", ""]);
    for (partition, load) in loads.iter().enumerate() {
        if load.records > 0 || loads.len() <= SHOWN {
            table.row([
                partition.to_string(),
                load.keys.to_string(),
                load.records.to_string(),
                bar(load.records, skew.most_records),
            ]);
        }
    }
    table.write(out)
}

fn write_groups(
    tally: &Tally,
    plan: Option<PartitionCount>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut groups: Vec<(KeyGroup, Load)> = tally.groups().collect();
    if groups.is_empty() {
        return Ok(());
    }
    let all = groups.len();
    groups.sort_by_key(|(group, load)| (std::cmp::Reverse(load.records), *group));
    groups.truncate(GROUPS);
    writeln!(out)?;
    writeln!(
        out,
        "{all} of 960 key groups have records; the fullest (one key group is never shared by two tasks):"
    )?;
    let then = plan.map_or(String::new(), |plan| format!("partition of {plan}"));
    let mut headings = vec!["key group", "keys", "records"];
    if plan.is_some() {
        headings.push(&then);
    }
    let mut table = Table::new(&headings);
    for (group, load) in groups {
        let mut cells = vec![
            group.to_string(),
            load.keys.to_string(),
            load.records.to_string(),
        ];
        cells.extend(plan.map(|plan| group.owner(plan).to_string()));
        table.row(cells);
    }
    table.write(out)
}

#[cfg(test)]
mod tests {
    use turbine_keygroups::{RawPartitionCount, partition_of};

    use super::*;

    fn text(found: &Found, plan: Option<u32>) -> String {
        let plan = plan.map(|plan| plan.try_into().unwrap());
        let mut out = Vec::new();
        write(found, plan, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_refutation_names_the_records_and_what_to_do() {
        // `abc` is in place, `42` belongs to 4 of 12; the third record has no key.
        let found = Found::of(
            12,
            &[
                (3, Some(b"abc")),
                (8, Some(b"42")),
                (0, None),
                (3, Some(b"abc")),
            ],
        );
        let text = text(&found, Some(2));
        insta::assert_snapshot!(text, @r"
        topic `events`: 12 partitions; read 4 of 4 records, 1 without a key; 2 distinct keys
        placement is refuted: 1 of 3 records with a key lie elsewhere than murmur2 puts them: state by key would be split; what they look like tells where to begin

        client   explains keys
        murmur2         50.0 %  1 of 2
        CRC32           50.0 %  1 of 2
        FNV-1a           0.0 %  0 of 2
        the rest looks like too few keys to tell

        misplaced key  partition  offset   key hash  belongs to
        42                     8       1  417700972           4

        as the records lie, 12 partitions: the fullest has 2 records, 6.00 times the mean; empty: 9
        partition  keys  records
        0             0        1  ####################
        1             0        0
        2             0        0
        3             1        2  ########################################
        4             0        0
        5             0        0
        6             0        0
        7             0        0
        8             1        1  ####################
        9             0        0
        10            0        0
        11            0        0

        planned, by murmur2, 2 partitions: the fullest has 2 records, 1.33 times the mean; empty: 0
        partition  keys  records
        0             1        1  ####################
        1             1        2  ########################################

        2 of 960 key groups have records; the fullest (one key group is never shared by two tasks):
        key group  keys  records  partition of 2
        27            1        2               1
        172           1        1               0
        ");
    }

    #[test]
    fn a_count_that_does_not_divide_960_and_binary_keys_are_noted() {
        let keys: Vec<[u8; 8]> = (0..50_i64).map(i64::to_be_bytes).collect();
        let records: Vec<(i32, Option<&[u8]>)> = keys
            .iter()
            .map(|key| {
                let seven: RawPartitionCount = 7_u32.try_into().unwrap();
                (partition_of(key, seven).get(), Some(&key[..]))
            })
            .collect();
        let text = text(&Found::of(7, &records), None);
        assert!(
            text.contains("placement is proved: all 50 records"),
            "{text}"
        );
        assert!(
            text.contains("note: topic `events` has 7 partitions, which does not divide 960; the nearest valid counts are 6 and 8"),
            "{text}"
        );
        assert!(
            text.contains("note: the keys look like integers in binary form"),
            "{text}"
        );
    }
}
