//! `turbine-cli placement`: where keys belong, and where they lie.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use turbine_keygroups::{PartitionCount, RawPartitionCount};

use crate::Verdict;
use crate::broker::Connection;
use crate::keys::{self, KeyForm};

mod clear;
mod json;
mod predict;
mod report;
mod tally;
mod verify;
mod words;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlacementVerb {
    /// Say where keys belong: key group, partition, and the load per partition
    ///
    /// Kafka's default partitioner takes murmur2 of the key's bytes modulo the partition count; Turbine keeps state by
    /// the key group, murmur2 modulo 960. Nothing is asked of a broker.
    ///
    /// Keys are arguments, lines of --file, or lines of the standard input; an empty line is the empty key. With
    /// --output json it prints a list of objects with `key`, `partition` and `keyGroup`. The exit code is 0, or 2 for keys
    /// that cannot be read.
    #[command(after_help = "\
Examples:
  turbine-cli placement predict --partitions 6 AAPL MSFT GOOGL
  turbine-cli placement predict --partitions 6 --compare --file symbols.txt
  turbine-cli placement predict --partitions 6 --plan 12 --file symbols.txt    what moves when the topic grows
  turbine-cli placement predict --partitions 12 --key-type int64 42            a key of 8 bytes, as Java's LongSerializer writes it
  turbine-cli placement predict --partitions 12 --key-encoding hex fffe
  cut -f1 events.tsv | turbine-cli placement predict --partitions 12 --output json

  $ turbine-cli placement predict --partitions 6 --compare AAPL MSFT
  key   key group  murmur2  CRC32  FNV-1a
  AAPL        657        3      0       1
  MSFT        642        0      1       3
  ...")]
    Predict {
        /// Keys; none: they are read from --file or from the standard input
        #[arg(allow_negative_numbers = true)]
        keys: Vec<OsString>,
        /// Partition count of the topic; of any topic, also of one that Turbine would refuse
        #[arg(long, value_name = "COUNT", value_parser = count)]
        partitions: RawPartitionCount,
        /// Show what a change to this count would move
        #[arg(long, value_name = "COUNT", value_parser = count)]
        plan: Option<RawPartitionCount>,
        /// Show where CRC32 (librdkafka's default) and FNV-1a (sarama's) would put the keys
        #[arg(long)]
        compare: bool,
        /// File with one key per line; `-` is the standard input
        #[arg(long, value_name = "FILE", conflicts_with = "keys")]
        file: Option<PathBuf>,
        #[command(flatten)]
        form: KeyForm,
        /// How the answer is printed
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Prove or refute that a topic's records lie where murmur2 puts their keys
    ///
    /// Reads the newest records of every partition, or all with --all, and compares. It says which share murmur2 explains,
    /// which client the rest looks like, with examples, and how keys and records are spread, now and after a planned growth.
    /// It joins no group, commits nothing and changes nothing; the right to describe and to read the topic is enough.
    ///
    /// The exit code is 0 if the placement is proved, 1 if it is refuted, 2 if it is undecided (too few distinct keys, one
    /// partition, no keys) or if the topic cannot be read. Proved takes ceil(40 / log2 N) distinct keys on N partitions, all of
    /// them in place.
    ///
    /// Properties are librdkafka's. A secret is never an argument, where every process could see it: write `file:PATH` or
    /// `env:NAME` for its value, or put it into --properties-file.
    #[command(after_help = "\
Examples:
  turbine-cli placement verify --bootstrap kafka:9092 --topic events
  turbine-cli placement verify --bootstrap kafka:9092 --topic events --all --plan 12
  turbine-cli placement verify --bootstrap kafka:9092 --topic events --sample 100000 --output json
  turbine-cli placement verify --bootstrap kafka:9094 --topic events \\
    --property security.protocol=SASL_SSL --property ssl.ca.location=ca.crt \\
    --property sasl.mechanism=SCRAM-SHA-512 --property sasl.username=me --property sasl.password=env:KAFKA_PASSWORD")]
    Verify {
        #[command(flatten)]
        connection: Connection,
        /// Topic to read
        #[arg(long)]
        topic: String,
        /// How many records to read, the newest, shared out among the partitions
        #[arg(long, value_name = "RECORDS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        sample: u64,
        /// Read all records
        #[arg(long, conflicts_with = "sample")]
        all: bool,
        /// Show the load after a change to this count
        #[arg(long, value_name = "COUNT", value_parser = valid_count)]
        plan: Option<PartitionCount>,
        /// How the answer is printed
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Look through state for keys of other partitions, and clear the verdict `misplaced`
    ///
    /// A task that found a record in the wrong partition keeps the verdict until a person clears it. Once the producers are
    /// right, this looks through the stored state of every task, names each key in it that belongs to another partition, and
    /// forgets the verdict, so that what comes is judged anew. State is not changed.
    ///
    /// Asked are the running workers of an app in the cluster (it takes the rights to read the app, its pods and the Secret
    /// NAME-control, and to create pods/proxy), or one worker by its --worker address, or nobody: with --state a stopped
    /// worker's folder is looked through.
    ///
    /// The exit code is 0 if no such key is there, 1 if there are some, 2 if a task could not be looked through.
    #[command(after_help = "\
Examples:
  turbine-cli placement clear fraud --namespace payments --dry-run      look only
  turbine-cli placement clear fraud --namespace payments
  turbine-cli placement clear fraud --subscription per-tenant --partition 3 --output json
  turbine-cli placement clear --worker http://127.0.0.1:8400 --token-file state/control.token
  turbine-cli placement clear --state state --file app.yaml             of a stopped `turbine-worker run`")]
    Clear(clear::ClearArgs),
}

/// Kafka counts partitions in 32 bits with a sign; a picture of more than this shows nothing.
const MOST: u32 = 100_000;

pub(crate) fn count(text: &str) -> Result<RawPartitionCount, String> {
    text.parse::<u32>()
        .ok()
        .filter(|count| *count <= MOST)
        .and_then(|count| RawPartitionCount::try_from(count).ok())
        .ok_or_else(|| format!("a partition count is a number from 1 to {MOST}"))
}

fn valid_count(text: &str) -> Result<PartitionCount, String> {
    PartitionCount::try_from(count(text)?.get())
        .map_err(|refused| format!("{refused}; key groups follow only counts that divide 960"))
}

pub(crate) fn run(
    verb: PlacementVerb,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    match verb {
        PlacementVerb::Predict {
            keys,
            partitions,
            plan,
            compare,
            file,
            form,
            output,
        } => {
            let keys = keys::given(&keys, file.as_ref(), form)?;
            for count in [Some(partitions), plan].into_iter().flatten() {
                if let Err(refused) = PartitionCount::try_from(count) {
                    writeln!(
                        err,
                        "note: {refused}; Turbine refuses it for keyed state, whose groups would not follow the partitions below"
                    )?;
                }
            }
            let prediction = predict::Prediction::new(keys, partitions, plan, compare);
            match output {
                Output::Text => prediction.write_text(out)?,
                Output::Json => prediction.write_json(out)?,
            }
            Ok(Verdict::Good)
        }
        PlacementVerb::Clear(arguments) => clear::run(arguments, out),
        PlacementVerb::Verify {
            connection,
            topic,
            sample,
            all,
            plan,
            output,
        } => {
            let extent = if all {
                verify::Extent::All
            } else {
                verify::Extent::Newest(sample)
            };
            let found = verify::read(&connection, &topic, extent)?;
            match output {
                Output::Text => report::write(&found, plan, out)?,
                Output::Json => json::write(&found, plan, out)?,
            }
            Ok(match found.tally.placement() {
                tally::Placement::Proved => Verdict::Good,
                tally::Placement::Refuted => Verdict::Bad,
                tally::Placement::Undecided(_) => Verdict::Undecided,
            })
        }
    }
}
