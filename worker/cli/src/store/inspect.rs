//! `turbine-cli store inspect`: what stores say of themselves, and how large they are.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;
use turbine_keygroups::{Group, KeyGroup};
use turbine_protocol::{Position, StoreIdentity, VolumeMarker};
use turbine_state::checkpoint::{Manifest, Sequence};
use turbine_state::{Progress, StateError, StoreReader, VolumeReader};

use super::copy::Opened;
use super::volume::{NO_STORE, Place, open};
use super::{InspectArgs, checkpoints, copy, pane};
use crate::Verdict;
use crate::keys::hex;
use crate::placement::Output;

mod text;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    volume: Option<VolumeMarker>,
    /// Of all stores together; none if no store was opened.
    journal_bytes: Option<u64>,
    stores: Vec<StorePlace>,
}

/// What lies in one place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StorePlace {
    subscription: String,
    partition: i32,
    store_epoch: i64,
    /// Null: there are only checkpoints, or the store cannot be opened.
    store: Option<Found>,
    error: Option<String>,
    checkpoints: Vec<Checkpoint>,
    refused_checkpoints: Vec<RefusedCheckpoint>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    path: String,
    /// Number of the checkpoint that this is; null: it is the store.
    checkpoint: Option<u64>,
    identity: StoreIdentity,
    #[serde(flatten)]
    stands: Stands,
    cleanly_stopped: bool,
    /// The last entry that its own files have; those behind it are in the journal.
    saved_entry: i64,
    /// Keys that the entries in the journal write or remove.
    unsaved_keys: usize,
    /// Where it stands if the broker lets its last entry count.
    prepared: Option<Stands>,
    keys: u64,
    keys_are_an_estimate: bool,
    key_groups: Vec<GroupKeys>,
    /// Keys that name no key group.
    without_group: u64,
    /// Bytes of the tables.
    table_bytes: u64,
    /// Bytes of all files in its folder.
    folder_bytes: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stands {
    entry: i64,
    entry_checksum: String,
    by_transaction: bool,
    positions: Vec<Position>,
    /// In epoch milliseconds.
    frontier: Option<i64>,
    /// As the engine stores them; in hex if they are no JSON.
    clocks: Value,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupKeys {
    /// Null: of records without a key.
    key_group: Option<KeyGroup>,
    /// Null: not counted.
    keys: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checkpoint {
    sequence: u64,
    entry: i64,
    entry_checksum: String,
    positions: Vec<Position>,
    made_at_ms: i64,
    files: usize,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct RefusedCheckpoint {
    name: String,
    why: String,
}

pub(super) fn run(arguments: &InspectArgs, out: &mut impl Write) -> anyhow::Result<Verdict> {
    let mut volume = arguments.stores.volume()?;
    let mut report = Report {
        volume: volume.marker()?,
        journal_bytes: None,
        stores: Vec::new(),
    };
    for (place, store) in arguments.stores.places(&volume)? {
        let found = look(&mut volume, &place, store, arguments, &mut report)?;
        report.stores.push(found);
    }
    match arguments.output {
        Output::Text => text::write(&report, out)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
        }
    }
    let failed = report.stores.iter().any(|store| store.error.is_some());
    Ok(if failed { Verdict::Bad } else { Verdict::Good })
}

fn look(
    volume: &mut VolumeReader,
    place: &Place,
    store: bool,
    arguments: &InspectArgs,
    report: &mut Report,
) -> anyhow::Result<StorePlace> {
    let count = arguments.count;
    let opened = match arguments.copy.checkpoint {
        Some(wanted) => copy::open(volume, place, wanted)
            .and_then(|opened| found(&opened, count))
            .map(Some),
        None if store => match open(volume, place) {
            Ok(Some(store)) => {
                report.journal_bytes = store.journal_bytes();
                found(&Opened::of_store(store), count).map(Some)
            }
            Ok(None) => Err(anyhow::anyhow!(NO_STORE)),
            Err(error @ StateError::InUse { .. }) => return Err(error.into()),
            Err(error) => Err(error.into()),
        },
        None => Ok(None),
    };
    let (store, error) = match opened {
        Ok(store) => (store, None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let identity = store.as_ref().map(|store| &store.identity);
    let choice = checkpoints::look(volume.root(), place, identity)?;
    Ok(StorePlace {
        subscription: place.task.subscription.to_string(),
        partition: place.task.partition.get(),
        store_epoch: place.epoch.get(),
        store,
        error,
        checkpoints: choice.intact.into_iter().map(checkpoint).collect(),
        refused_checkpoints: choice
            .refused
            .into_iter()
            .map(|refused| RefusedCheckpoint {
                name: refused.name,
                why: refused.refusal.to_string(),
            })
            .collect(),
    })
}

fn checkpoint(manifest: Manifest) -> Checkpoint {
    Checkpoint {
        sequence: manifest.sequence.0,
        entry: manifest.entry.get(),
        entry_checksum: manifest.entry_checksum.to_string(),
        made_at_ms: manifest.made_at_ms,
        files: manifest.files.len(),
        bytes: manifest.bytes(),
        positions: manifest.positions,
    }
}

fn found(opened: &Opened, count: bool) -> anyhow::Result<Found> {
    let store = &opened.store;
    let tally = if count { counted(store)? } else { seen(store)? };
    let exact = tally.groups.values().flatten().sum::<u64>() + tally.without;
    Ok(Found {
        path: opened.path.display().to_string(),
        checkpoint: opened.checkpoint.map(Sequence::get),
        identity: store.identity().clone(),
        stands: stands(store.progress()),
        cleanly_stopped: store.progress().cleanly_stopped,
        saved_entry: store.saved().get(),
        unsaved_keys: store.unsaved_keys(),
        prepared: store.prepared().map(stands),
        keys: if count { exact } else { store.estimated_keys() },
        keys_are_an_estimate: !count,
        key_groups: tally
            .groups
            .into_iter()
            .map(|(group, keys)| GroupKeys {
                key_group: pane::keyed(group),
                keys,
            })
            .collect(),
        without_group: tally.without,
        table_bytes: store.table_bytes(),
        folder_bytes: match opened.bytes {
            Some(bytes) => bytes,
            None => folder_bytes(&opened.path)?,
        },
    })
}

fn stands(progress: &Progress) -> Stands {
    Stands {
        entry: progress.number.get(),
        entry_checksum: progress.checksum.to_string(),
        by_transaction: progress.by_transaction,
        positions: progress.positions.clone(),
        frontier: progress.frontier.0,
        clocks: if progress.clocks.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&progress.clocks)
                .unwrap_or_else(|_| Value::String(hex(&progress.clocks)))
        },
    }
}

#[derive(Debug, Default)]
struct Tally {
    groups: BTreeMap<Group, Option<u64>>,
    without: u64,
}

fn group_of_stored(key: &[u8]) -> Option<Group> {
    Group::from_prefix(*key.first_chunk::<2>()?)
}

/// Reads all keys.
fn counted(store: &StoreReader) -> Result<Tally, StateError> {
    let mut tally = Tally::default();
    store.scan(&[], &mut |key, _| {
        match group_of_stored(key) {
            Some(group) => *tally.groups.entry(group).or_default().get_or_insert(0) += 1,
            None => tally.without += 1,
        }
        ControlFlow::Continue(())
    })?;
    Ok(tally)
}

/// Reads one key per key group, and those of none.
fn seen(store: &StoreReader) -> Result<Tally, StateError> {
    let mut tally = Tally::default();
    let mut from = Some(Vec::new());
    while let Some(start) = from.take() {
        store.scan(&start, &mut |key, _| {
            from = if let Some(group) = group_of_stored(key) {
                tally.groups.insert(group, None);
                u16::from_be_bytes(group.prefix())
                    .checked_add(1)
                    .map(|next| next.to_be_bytes().to_vec())
            } else {
                tally.without += 1;
                Some([key, &[0]].concat())
            };
            ControlFlow::Break(())
        })?;
    }
    Ok(tally)
}

fn folder_bytes(folder: &Path) -> anyhow::Result<u64> {
    let read = || -> std::io::Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(folder)? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    };
    read().with_context(|| format!("cannot read {}", folder.display()))
}
