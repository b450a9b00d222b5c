//! `turbine-cli store get`: one stored key, or the panes of one record's key.

use std::io::Write;
use std::ops::ControlFlow;

use turbine_engine::StoredPane;
use turbine_keygroups::{Group, KeyValue, composite_key, group_of, partition_of};
use turbine_state::StoreReader;

use super::GetArgs;
use super::pane::{self, Row};
use crate::Verdict;
use crate::keys::unhex;

pub(super) fn run(
    arguments: &GetArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let rows = if let Some(raw) = &arguments.raw {
        let key = unhex(raw)
            .ok_or_else(|| anyhow::anyhow!("--raw {raw}: write two hex digits per byte"))?;
        let opened = arguments.stores.one(&arguments.copy, err)?;
        let value = opened.store.get(&key)?;
        value
            .into_iter()
            .map(|value| Row::new(&key, &value))
            .collect()
    } else {
        let parts: Vec<Vec<u8>> = arguments
            .key
            .iter()
            .map(|part| Ok(arguments.form.read(part.as_bytes())?.bytes))
            .collect::<anyhow::Result<_>>()?;
        let opened = arguments.stores.one(&arguments.copy, err)?;
        let key = match parts.as_slice() {
            [one] => one.clone(),
            several => {
                let several: Vec<_> = several.iter().map(|part| KeyValue::Bytes(part)).collect();
                composite_key(&several)
            }
        };
        let identity = opened.store.identity();
        let owner = partition_of(&key, identity.partitions);
        if owner != identity.partition {
            writeln!(
                err,
                "note: this key belongs to partition {owner} of {}, and this is partition {}",
                identity.partitions, identity.partition
            )?;
        }
        panes(&opened.store, &key, &parts)?
    };
    pane::write(&rows, true, arguments.output, out)?;
    if rows.is_empty() {
        writeln!(err, "note: there is no such key")?;
        return Ok(Verdict::Bad);
    }
    Ok(Verdict::Good)
}

/// All panes of a partition key: they lie in its key group, and have its parts among theirs.
fn panes(store: &StoreReader, key: &[u8], parts: &[Vec<u8>]) -> anyhow::Result<Vec<Row>> {
    let prefix = Group::Keyed(group_of(key)).prefix();
    let mut rows = Vec::new();
    store.scan(&prefix, &mut |stored, value| {
        if !stored.starts_with(&prefix) {
            return ControlFlow::Break(());
        }
        let meant = StoredPane::decode(stored)
            .is_ok_and(|pane| parts.iter().all(|part| pane.has_part(part)));
        if meant {
            rows.push(Row::new(stored, value));
        }
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}
