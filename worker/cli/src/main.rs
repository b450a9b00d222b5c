//! `turbine-cli`: checks and explains `TurbineApp` files, predicts and proves where keys lie, writes records to the right
//! place, puts dead letters back, looks into stored state. Installed as `kubectl-turbine` it is `kubectl turbine`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod assignment;
mod broker;
mod crds;
mod dlq;
mod documents;
mod explain;
mod form;
mod keys;
mod patient;
mod placement;
mod produce;
mod progress;
mod rescale;
mod store;
mod table;
mod validate;
mod yaml11;

use assignment::AssignmentVerb;
use dlq::DlqVerb;
use patient::Patient;
use placement::PlacementVerb;
use produce::ProduceArgs;
use rescale::RescaleArgs;
use store::StoreVerb;

/// Check, explain and install `TurbineApps`; predict, prove and compare placements.
///
/// `placement verify`, `produce` and `dlq` need a broker, `rescale` and `placement clear` of a running app need its cluster; nothing
/// else needs either.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  turbine-cli validate app.yaml              every mistake at once, with its field
  helm template my-apps | turbine-cli validate -
  turbine-cli explain app.yaml               the app with every default filled in
  turbine-cli crds | kubectl apply -f -      install the resource definition without Helm
  turbine-cli placement predict --partitions 12 42 foobar
  turbine-cli placement verify --bootstrap kafka:9092 --topic events
  turbine-cli placement clear fraud --namespace payments
  turbine-cli produce --bootstrap kafka:9092 --topic events --file events.tsv
  turbine-cli dlq list --bootstrap kafka:9092 --topic events-dlq
  turbine-cli dlq replay --bootstrap kafka:9092 --topic events-dlq --since 2h --dry-run
  turbine-cli rescale fraud --subscription per-tenant --to 24 --wait
  turbine-cli store verify --state /var/lib/turbine
  turbine-cli assignment simulate --topic orders:12 --topic payments:12 --members 3"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check `TurbineApps` by the rules of the API server, the operator and the workers
    ///
    /// Reads YAML or JSON with any number of documents and prints every mistake with its field. Documents of other
    /// kinds are skipped with a word. The exit code is 0 if all `TurbineApps` are right, 1 if one is not, if a file
    /// cannot be read, or if there was none to check.
    ///
    /// What only a broker or a cluster knows is not checked: whether topics, Secrets and storage classes exist, and
    /// what their partition counts are.
    #[command(after_help = "\
Examples:
  turbine-cli validate app.yaml other.yaml
  kustomize build | turbine-cli validate -

  $ turbine-cli validate app.yaml
  app.yaml: fraud: spec.subscriptions[0].input.partitions: topic `events` has 7 partitions, which does not divide 960; ...")]
    Validate {
        /// Files to check; `-` is the standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print `TurbineApps` with every default filled in
    ///
    /// What stays open is what the cluster or the broker decides: the worker's image, the storage class, partition
    /// counts and the replication factor. An app with mistakes is not explained; its mistakes are printed instead.
    #[command(after_help = "\
Examples:
  turbine-cli explain app.yaml
  kubectl get tapp fraud -o yaml | turbine-cli explain -")]
    Explain {
        /// File to explain; `-` is the standard input
        file: PathBuf,
    },
    /// Print the `CustomResourceDefinition` of TurbineApp
    ///
    /// The chart installs it as well; this is for installations without Helm, and for tools that read schemas.
    #[command(after_help = "\
Examples:
  turbine-cli crds | kubectl apply -f -")]
    Crds,
    /// Predict or prove which partition keys lie in, and clear a verdict
    #[command(subcommand, arg_required_else_help = true)]
    Placement(PlacementVerb),
    /// Write records to a topic, each to the partition that murmur2 gives its key
    ///
    /// One record per line: `key<TAB>value`, or with --key-field a JSON object that is written as it is. Kafka's Java client and
    /// Turbine place keys by murmur2; librdkafka's default is CRC32, which state by key cannot follow. A line that is no record
    /// ends it, with the number of records that were written before.
    ///
    /// The exit code is 0 if every record was acknowledged by the broker, else 2. Properties are librdkafka's; a secret
    /// is given as `file:PATH`, `env:NAME` or in --properties-file.
    #[command(after_help = "\
Examples:
  printf 'AAPL\\t{\"price\": 1}\\n' | turbine-cli produce --bootstrap kafka:9092 --topic trades
  turbine-cli produce --bootstrap kafka:9092 --topic events --key-field tenant_id --file events.jsonl
  turbine-cli produce --bootstrap kafka:9092 --topic events --key-type int64 --file numbered.tsv    keys of 8 bytes
  turbine-cli produce --bootstrap kafka:9092 --topic events --key-encoding hex --file binary.tsv")]
    Produce(ProduceArgs),
    /// Look at dead letters, and write them back to where they came from
    #[command(subcommand, arg_required_else_help = true)]
    Dlq(DlqVerb),
    /// Give a running app another partition count or another number of workers
    ///
    /// The spec is changed, as `kubectl edit` would: state moves between the workers while producers go on. What would
    /// happen --dry-run says, by the word of the app's operator. A topic cannot shrink again.
    ///
    /// The exit code is 0 if the change was asked for, with --wait if every task runs on its new place, 1 if it was refused or
    /// taken back, else 2.
    #[command(after_help = "\
Examples:
  turbine-cli rescale fraud --subscription per-tenant --to 24 --dry-run
  turbine-cli rescale fraud --subscription per-tenant --to 24 --wait
  turbine-cli rescale fraud --replicas 5 --namespace payments")]
    Rescale(RescaleArgs),
    /// Look into the stores of a stopped worker, and prove that they are whole
    #[command(subcommand, arg_required_else_help = true)]
    Store(StoreVerb),
    /// Compare ways to share out partitions
    #[command(subcommand, arg_required_else_help = true)]
    Assignment(AssignmentVerb),
}

impl Verb {
    /// The exit code where there is no answer. Where 1 is an answer ("refuted") it is another.
    fn failure(&self) -> u8 {
        match self {
            Self::Validate { .. } | Self::Explain { .. } | Self::Crds => 1,
            Self::Placement(_)
            | Self::Produce(_)
            | Self::Dlq(_)
            | Self::Rescale(_)
            | Self::Store(_)
            | Self::Assignment(_) => UNDECIDED,
        }
    }
}

const UNDECIDED: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = Patient::new(io::stdout().lock());
    let mut err = Patient::new(io::stderr().lock());
    let failure = cli.verb.failure();
    let done = match cli.verb {
        Verb::Validate { files } => validate::run(&files, &mut out),
        Verb::Explain { file } => explain::run(&file, &mut out, &mut err),
        Verb::Crds => crds::run(&mut out),
        Verb::Placement(verb) => placement::run(verb, &mut out, &mut err),
        Verb::Produce(arguments) => produce::run(arguments, &mut out, &mut err),
        Verb::Dlq(verb) => dlq::run(verb, &mut out, &mut err),
        Verb::Rescale(arguments) => rescale::run(arguments, &mut out, &mut err),
        Verb::Store(verb) => store::run(verb, &mut out, &mut err),
        Verb::Assignment(verb) => assignment::run(verb, &mut out),
    };
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Ok(Verdict::Undecided) => ExitCode::from(UNDECIDED),
        Err(error) => {
            // With standard error gone there is nobody left to tell; the exit code says it.
            let _ = writeln!(err, "turbine-cli: {}", one_line(&error));
            ExitCode::from(failure)
        }
    }
}

/// What a verb found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Bad,
    /// It takes more to tell.
    Undecided,
}

/// Whatever a library puts into its words: logs and scripts read errors line by line.
fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
