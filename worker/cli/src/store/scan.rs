//! `turbine-cli store scan`: stored keys in their order.

use std::io::Write;
use std::ops::ControlFlow;

use turbine_keygroups::{Group, KeyGroup};

use super::ScanArgs;
use super::pane::{self, Row};
use crate::Verdict;
use crate::keys::unhex;

pub(super) fn group(text: &str) -> Result<Group, String> {
    if text == "null" {
        return Ok(Group::Null);
    }
    let number: u16 = text
        .parse()
        .map_err(|_| "a key group is a number from 0 to 959, or `null`".to_owned())?;
    KeyGroup::try_from(number)
        .map(Group::Keyed)
        .map_err(|refused| refused.to_string())
}

pub(super) fn run(
    arguments: &ScanArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let prefix = match (&arguments.prefix, arguments.group) {
        (Some(prefix), _) => unhex(prefix)
            .ok_or_else(|| anyhow::anyhow!("--prefix {prefix}: write two hex digits per byte"))?,
        (None, Some(group)) => group.prefix().to_vec(),
        (None, None) => Vec::new(),
    };
    let opened = arguments.stores.one(&arguments.copy, err)?;
    let limit = arguments.limit.get();
    let mut rows = Vec::new();
    let mut more = false;
    opened.store.scan(&prefix, &mut |key, value| {
        if !key.starts_with(&prefix) {
            return ControlFlow::Break(());
        }
        if rows.len() == limit {
            more = true;
            return ControlFlow::Break(());
        }
        rows.push(Row::new(key, value));
        ControlFlow::Continue(())
    })?;
    pane::write(&rows, arguments.values, arguments.output, out)?;
    if more {
        writeln!(err, "note: there are more keys than --limit {limit}")?;
    }
    Ok(Verdict::Good)
}
