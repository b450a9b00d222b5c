//! `turbine-cli`: checks and explains `TurbineApp` files on the desk, without a cluster. Installed as
//! `kubectl-turbine` it is `kubectl turbine`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod crds;
mod documents;
mod explain;
mod form;
mod truth;
mod validate;

/// Check, explain and install `TurbineApps`. Nothing here needs a cluster.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  turbine-cli validate app.yaml              every mistake at once, with its field
  helm template my-apps | turbine-cli validate -
  turbine-cli explain app.yaml               the app with every default filled in
  turbine-cli crds | kubectl apply -f -      install the resource definition without Helm"
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
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let done = match cli.verb {
        Verb::Validate { files } => validate::run(&files, &mut out),
        Verb::Explain { file } => explain::run(&file, &mut out, &mut err),
        Verb::Crds => crds::run(&mut out),
    };
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        // The reader of the pipe has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error gone there is nobody left to tell; the exit code says it.
            let _ = writeln!(err, "turbine-cli: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What a verb found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Bad,
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
