//! What is to be done, and what was done.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use turbine_keygroups::Partition;
use turbine_protocol::StoreEpoch;
use turbine_state::moving::{MovePlan, Way};

use super::places::NewPlace;
use super::sources::{Source, Sources};
use crate::placement::Output;
use crate::table::Table;

/// What is to be done, and, once it is, what was done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    app: String,
    subscription: String,
    from: u32,
    to: u32,
    new_epoch: i64,
    /// Bytes of groups whose task keeps its number; an estimate.
    bytes_kept: u64,
    /// Bytes of groups that go to another task; an estimate.
    bytes_moved: u64,
    /// Bytes of new stores that draw from several old ones, which are written once more; an estimate.
    bytes_rewritten: u64,
    old: Vec<OldTask>,
    new: Vec<NewTask>,
    /// Null: nothing was done.
    seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OldTask {
    partition: i32,
    store_epoch: i64,
    entry: i64,
    bytes: u64,
    /// Number of the checkpoint; null: the store itself.
    checkpoint: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewTask {
    partition: i32,
    draws: Vec<DrawOf>,
    /// Its tables are those of one old store; else what it takes of several is written once more.
    by_links: bool,
    /// Null: it was not made.
    made: Option<Made>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DrawOf {
    partition: i32,
    key_groups: u32,
    pieces: usize,
}

/// A new store, as it was read back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Made {
    pub(super) keys: u64,
    pub(super) key_groups: usize,
    /// Of its tables, with what is hidden in them.
    pub(super) bytes: u64,
}

impl Report {
    pub(super) fn new(sources: &Sources, plan: &MovePlan, epoch: StoreEpoch) -> Self {
        let estimate = plan.estimate(&sources.bytes());
        let app = sources.iter().next();
        Self {
            app: app.map_or_else(String::new, |(_, source)| {
                source.identity().app_id.to_string()
            }),
            subscription: sources.subscription().to_string(),
            from: plan.from().get(),
            to: plan.to().get(),
            new_epoch: epoch.get(),
            bytes_kept: estimate.kept,
            bytes_moved: estimate.moved,
            bytes_rewritten: estimate.rewritten,
            old: sources
                .iter()
                .map(|(partition, source)| OldTask {
                    partition: partition.get(),
                    store_epoch: source.identity().store_epoch.get(),
                    entry: source.entry(),
                    bytes: source.bytes(),
                    checkpoint: match source {
                        Source::Store { .. } => None,
                        Source::Checkpoint { manifest, .. } => Some(manifest.sequence.get()),
                    },
                })
                .collect(),
            new: plan
                .tasks()
                .iter()
                .map(|task| NewTask {
                    partition: task.task().get(),
                    draws: task
                        .draws()
                        .iter()
                        .map(|draw| DrawOf {
                            partition: draw.from().get(),
                            key_groups: draw.size(),
                            pieces: draw.ranges().len(),
                        })
                        .collect(),
                    by_links: task.way() == Way::Clip,
                    made: None,
                })
                .collect(),
            seconds: None,
        }
    }

    /// About how many bytes have to be written: what is copied, and what is written once more.
    pub(super) fn bytes_to_write(&self, into: &NewPlace, sources: &Sources) -> u64 {
        let links = into.root().is_some_and(|root| sources.share_volume(root));
        let copied = if links {
            0
        } else {
            self.bytes_kept + self.bytes_moved
        };
        copied + self.bytes_rewritten
    }

    pub(super) fn made(&mut self, partition: Partition, made: Made) {
        let of = self
            .new
            .iter_mut()
            .find(|one| one.partition == partition.get());
        if let Some(of) = of {
            of.made = Some(made);
        }
    }

    pub(super) fn took(&mut self, time: Duration) {
        self.seconds = Some(time.as_secs_f64());
    }

    pub(super) fn write(&self, output: Output, out: &mut impl Write) -> anyhow::Result<()> {
        match output {
            Output::Text => self.text(out)?,
            Output::Json => {
                serde_json::to_writer_pretty(&mut *out, self)?;
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn text(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "app `{}`, subscription `{}`: {} to {} partitions, new stores of epoch {}",
            self.app, self.subscription, self.from, self.to, self.new_epoch
        )?;
        writeln!(
            out,
            "about {} bytes go to another partition, {} stay with theirs, {} are written once more",
            self.bytes_moved, self.bytes_kept, self.bytes_rewritten
        )?;
        writeln!(out)?;
        let mut old = Table::new(&["old partition", "epoch", "entry", "bytes", "checkpoint"]);
        for one in &self.old {
            old.row([
                one.partition.to_string(),
                one.store_epoch.to_string(),
                one.entry.to_string(),
                one.bytes.to_string(),
                one.checkpoint
                    .map_or_else(|| "-".to_owned(), |number| number.to_string()),
            ]);
        }
        old.write(out)?;
        writeln!(out)?;
        let mut new = Table::new(&["new partition", "key groups", "pieces", "keys", "bytes", ""]);
        for one in &self.new {
            let made = |of: fn(&Made) -> u64| {
                one.made
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |made| of(made).to_string())
            };
            let draws: Vec<_> = one
                .draws
                .iter()
                .map(|draw| draw.partition.to_string())
                .collect();
            new.row([
                one.partition.to_string(),
                one.draws
                    .iter()
                    .map(|draw| draw.key_groups)
                    .sum::<u32>()
                    .to_string(),
                one.draws
                    .iter()
                    .map(|draw| draw.pieces)
                    .sum::<usize>()
                    .to_string(),
                made(|made| made.keys),
                made(|made| made.bytes),
                format!(
                    "from {} {}",
                    draws.join(", "),
                    if one.by_links {
                        "by links"
                    } else {
                        "written once more"
                    }
                ),
            ]);
        }
        new.write(out)?;
        writeln!(out)?;
        match self.seconds {
            None => writeln!(out, "nothing was done (--dry-run)"),
            Some(seconds) => writeln!(
                out,
                "done in {seconds:.1} s: every key was read back, lies with its owner, and each key group has as many keys, \
                 with the same checksum, as before\nno worker starts on these stores yet: they have to be read through the \
                 cursors of the old count, see docs/rescale-offline.md"
            ),
        }
    }
}
