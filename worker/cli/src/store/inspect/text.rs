//! The report as people read it.

use std::io::{self, Write};

use super::{Found, GroupKeys, Report, Stands, StorePlace};
use crate::store::pane::time;
use crate::table::{Table, bar, printable};

/// Key groups that are shown: the fullest.
const GROUPS: usize = 10;

pub(super) fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    if let Some(marker) = &report.volume {
        write!(
            out,
            "volume of app `{}`, lineage {}, layout epoch {}",
            marker.app_id, marker.lineage, marker.layout_epoch
        )?;
        if let Some(bytes) = report.journal_bytes {
            write!(out, "; journal {bytes} bytes")?;
        }
        writeln!(out)?;
    }
    for place in &report.stores {
        writeln!(out)?;
        one(place, out)?;
    }
    Ok(())
}

fn one(place: &StorePlace, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{}/{} (epoch {})",
        place.subscription, place.partition, place.store_epoch
    )?;
    match (&place.store, &place.error) {
        (Some(found), _) => store(found, out)?,
        (None, Some(error)) => line("error", &printable(error), out)?,
        (None, None) => line("store", "none, only checkpoints", out)?,
    }
    if !place.checkpoints.is_empty() {
        let mut table = Table::new(&["  checkpoint", "entry", "checksum", "files", "bytes", ""]);
        for one in &place.checkpoints {
            table.row([
                format!("  {}", one.sequence),
                one.entry.to_string(),
                one.entry_checksum.clone(),
                one.files.to_string(),
                one.bytes.to_string(),
                time(one.made_at_ms),
            ]);
        }
        table.write(out)?;
    }
    for refused in &place.refused_checkpoints {
        let words = format!("`{}` cannot be taken: {}", refused.name, refused.why);
        line("checkpoint", &printable(&words), out)?;
    }
    Ok(())
}

fn line(what: &str, is: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  {what:<11} {is}")
}

fn store(found: &Found, out: &mut impl Write) -> io::Result<()> {
    let identity = &found.identity;
    line("path", &printable(&found.path), out)?;
    if let Some(checkpoint) = found.checkpoint {
        let words = format!("what follows is of checkpoint {checkpoint}");
        line("checkpoint", &words, out)?;
    }
    let app = format!("{}, lineage {}", identity.app_id, identity.lineage);
    line("app", &app, out)?;
    let key = format!(
        "{} in {} key groups, {} partitions, format {}",
        printable(&identity.key),
        identity.key_groups,
        identity.partitions,
        identity.format
    );
    line("key", &key, out)?;
    stands(&found.stands, out)?;
    let stopped = if found.cleanly_stopped {
        "in order"
    } else {
        "not in order, or opened since"
    };
    line("stopped", stopped, out)?;
    if found.unsaved_keys > 0 {
        let words = format!(
            "{} keys of the entries behind {} are in the journal only",
            found.unsaved_keys, found.saved_entry
        );
        line("unsaved", &words, out)?;
    }
    if let Some(prepared) = &found.prepared {
        let words = "an entry that the broker has to decide over; if it counts:";
        line("prepared", words, out)?;
        stands(prepared, out)?;
    }
    let keys = format!(
        "{}{} in {} key groups",
        if found.keys_are_an_estimate {
            "about "
        } else {
            ""
        },
        found.keys,
        found.key_groups.len()
    );
    line("keys", &keys, out)?;
    if found.without_group > 0 {
        let words = format!("{} keys name no key group", found.without_group);
        line("damage", &words, out)?;
    }
    let files = format!(
        "{} bytes, {} of them tables",
        found.folder_bytes, found.table_bytes
    );
    line("files", &files, out)?;
    groups(&found.key_groups, out)
}

fn stands(stands: &Stands, out: &mut impl Write) -> io::Result<()> {
    let entry = format!(
        "{}, checksum {}{}",
        stands.entry,
        stands.entry_checksum,
        if stands.by_transaction {
            ", by a transaction"
        } else {
            ""
        }
    );
    line("entry", &entry, out)?;
    for position in &stands.positions {
        let words = format!(
            "{}/{}: {} is read next",
            position.topic,
            position.partition,
            position.next.get()
        );
        line("position", &words, out)?;
    }
    let frontier = stands
        .frontier
        .map_or_else(|| "before the first record".to_owned(), time);
    line("frontier", &frontier, out)?;
    line("clocks", &printable(&stands.clocks.to_string()), out)
}

/// Only where they were counted.
fn groups(groups: &[GroupKeys], out: &mut impl Write) -> io::Result<()> {
    let mut counted: Vec<_> = groups
        .iter()
        .filter_map(|one| Some((one.key_group, one.keys?)))
        .collect();
    if counted.is_empty() {
        return Ok(());
    }
    counted.sort_by_key(|(_, keys)| std::cmp::Reverse(*keys));
    let most = counted.first().map_or(0, |(_, keys)| *keys);
    let mut table = Table::new(&["  key group", "keys", ""]);
    for (group, keys) in counted.iter().take(GROUPS) {
        let name = group.map_or_else(|| "null".to_owned(), |group| group.to_string());
        table.row([format!("  {name}"), keys.to_string(), bar(*keys, most)]);
    }
    table.write(out)?;
    if counted.len() > GROUPS {
        let rest = counted.len() - GROUPS;
        writeln!(out, "  and {rest} with fewer keys; --output json has all")?;
    }
    Ok(())
}
