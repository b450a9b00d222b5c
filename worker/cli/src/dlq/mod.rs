//! `turbine-cli dlq`: looking at dead letters, and putting them back.

use std::io::Write;

use clap::{Args, Subcommand};
use thiserror::Error;
use turbine_protocol::TopicName;

use crate::Verdict;
use crate::broker::Connection;
use crate::placement::Output;

mod filter;
mod letter;
mod list;
mod plan;
mod positions;
mod replay;
mod topic;

use filter::Filter;
use positions::Positions;

#[derive(Debug, Subcommand)]
pub(crate) enum DlqVerb {
    /// Show dead letters of a topic
    ///
    /// Shows the newest, or with --from the first ones from there, oldest first, with where each came from and why. Keys and
    /// values are shown as text where they are UTF-8, else in hex. It joins no group, commits nothing and changes nothing; the
    /// right to describe and to read the topic is enough.
    ///
    /// With --output json it prints a list of objects; `key`, `value` and header values are objects with `text` or `hex`, and
    /// `bytes`, or null.
    ///
    /// The exit code is 0, or 2 if the topic cannot be read.
    #[command(after_help = "\
Examples:
  turbine-cli dlq list --bootstrap kafka:9092 --topic orders-dlq
  turbine-cli dlq list --bootstrap kafka:9092 --topic orders-dlq --since 90m --phase deserialize --error 'cut off'
  turbine-cli dlq list --bootstrap kafka:9092 --topic orders-dlq --from 0:120,1:98 --limit 1000 --output json")]
    List(ListArgs),
    /// Write dead letters back to the topic they came from
    ///
    /// Each goes, with the key, the value and the headers that it had before it became a dead letter, to the topic that its
    /// header `turbine_dlq_source_topic` names, or to --to, and there to the partition that murmur2 of its key gives at the
    /// topic's count of today; records without a key are spread. Its time is that of the replay. Records that are dead-lettered again
    /// while it runs are not replayed again.
    ///
    /// Dead letters stay where they are: Kafka cannot delete single records. So a replay tells where it ended, and the next
    /// one begins there with --from; one that was broken off says where to go on. What was written and not acknowledged by
    /// then is written a second time.
    ///
    /// Left out, and told, are dead letters whose value was too large for the dead-letter topic, and records that do not say
    /// where they came from, unless --to is given.
    ///
    /// On a terminal it asks before it writes; elsewhere it wants --yes. The exit code is 0 if all that were wanted were
    /// written (or would be, with --dry-run), 1 if some were left out, 2 if it could not be done.
    #[command(after_help = "\
Examples:
  turbine-cli dlq replay --bootstrap kafka:9092 --topic orders-dlq --dry-run        what would go where
  turbine-cli dlq replay --bootstrap kafka:9092 --topic orders-dlq --subscription fraud --error 'cut off' --yes
  turbine-cli dlq replay --bootstrap kafka:9092 --topic orders-dlq --limit 10       a few, to see whether they pass now
  turbine-cli dlq replay --bootstrap kafka:9092 --topic orders-dlq --from 0:120,1:98 --yes
  turbine-cli dlq replay --bootstrap kafka:9092 --topic orders-dlq --to orders-repair --yes")]
    Replay(ReplayArgs),
}

/// Which dead letters of which topic.
#[derive(Debug, Args)]
pub(crate) struct Source {
    #[command(flatten)]
    connection: Connection,
    /// Dead-letter topic
    #[arg(long)]
    topic: String,
    #[command(flatten)]
    filter: Filter,
    /// Begin here: PARTITION:OFFSET, separated by commas (partitions that are not named: at their beginning), or one OFFSET
    /// for all partitions
    #[arg(long, value_name = "POSITIONS")]
    from: Option<Positions>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    source: Source,
    /// How many to show
    #[arg(long, value_name = "RECORDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
    /// How many bytes of a key and of a value to show; default: 60, and all with --output json
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<usize>,
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    source: Source,
    /// Write all of them to this topic
    #[arg(long, value_name = "TOPIC")]
    to: Option<TopicName>,
    /// How many to write at most
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Say what would be written where, and write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Error)]
enum DlqError {
    #[error(
        "topic `{0}`, to which dead letters would go, does not exist: create it, or give another with --to"
    )]
    NoTarget(TopicName),
    #[error(
        "topic `{0}` would get its own dead letters: give another topic with --to, or leave them out with a filter"
    )]
    Circle(TopicName),
    #[error("topic `{topic}` has no partition {partition}, it has {count}: correct --from")]
    NoPartition {
        topic: TopicName,
        partition: i32,
        count: usize,
    },
    #[error(
        "nobody can be asked, as the standard input is no terminal: pass --yes, or look first with --dry-run"
    )]
    NobodyToAsk,
    #[error("nothing was written: the answer was not yes")]
    NotConfirmed,
    #[error("broken off after {written} records: go on with --from {next}")]
    Interrupted { written: u64, next: Positions },
    #[error("{error}; {written} records were written before: go on with --from {next}")]
    Broken {
        error: anyhow::Error,
        written: u64,
        next: Positions,
    },
}

pub(crate) fn run(
    verb: DlqVerb,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    match verb {
        DlqVerb::List(arguments) => list::run(arguments, out, err),
        DlqVerb::Replay(arguments) => replay::run(arguments, out, err),
    }
}

/// Records that a position asked for and that retention has removed.
fn note_gone(gone: u64, topic: &TopicName, err: &mut impl Write) -> std::io::Result<()> {
    if gone > 0 {
        writeln!(
            err,
            "note: {gone} records behind --from are no longer in topic `{topic}`: its retention removed them"
        )?;
    }
    Ok(())
}
