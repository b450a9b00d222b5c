//! `turbine-cli placement clear`: a look through state for keys of other partitions, and an end to the verdict.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use turbine_crds::control::{ClearPlacement, PlacementReport};

use crate::Verdict;
use crate::placement::Output;

mod cluster;
mod report;
mod store;
mod worker;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["app", "worker", "state"]))]
pub(crate) struct ClearArgs {
    /// TurbineApp in the cluster; its running workers are asked through the API server
    app: Option<String>,
    /// Namespace of the app; by default that of the kubeconfig's context
    #[arg(short, long, requires = "app")]
    namespace: Option<String>,
    /// Context of the kubeconfig
    #[arg(long, requires = "app")]
    context: Option<String>,
    /// Control API of one worker, for example <http://127.0.0.1:8400>; needs --token-file
    #[arg(long, value_name = "URL", requires = "token_file")]
    worker: Option<String>,
    /// File with the worker's control token
    #[arg(long, value_name = "FILE", requires = "worker")]
    token_file: Option<PathBuf>,
    /// Folder of a stopped worker's state; needs --file
    #[arg(long, value_name = "DIR", requires = "file")]
    state: Option<PathBuf>,
    /// The TurbineApp that the state is of
    #[arg(long, value_name = "FILE", requires = "state")]
    file: Option<PathBuf>,
    /// Only this subscription
    #[arg(long)]
    subscription: Option<String>,
    /// Only this partition
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Look and report, and leave the verdict as it is
    #[arg(long)]
    dry_run: bool,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(super) fn run(arguments: ClearArgs, out: &mut impl Write) -> anyhow::Result<Verdict> {
    let wanted = ClearPlacement {
        subscription: arguments.subscription,
        partition: arguments.partition,
        dry_run: arguments.dry_run,
    };
    let found = match (arguments.app, arguments.worker, arguments.state) {
        (Some(app), _, _) => {
            let place = cluster::Place {
                app,
                namespace: arguments.namespace,
                context: arguments.context,
            };
            runtime()?.block_on(cluster::ask(&place, &wanted))?
        }
        (None, Some(url), _) => {
            let token = arguments
                .token_file
                .context("--worker needs --token-file")?;
            runtime()?.block_on(worker::ask(&url, &token, &wanted))?
        }
        (None, None, Some(state)) => {
            let file = arguments.file.context("--state needs --file")?;
            store::look(&state, &file, &wanted)?
        }
        (None, None, None) => anyhow::bail!("name an app, a --worker or a --state folder"),
    };
    if found.tasks.is_empty() && found.silent.is_empty() {
        anyhow::bail!(
            "no task is meant by that: check --subscription and --partition, and that the app has run"
        );
    }
    match arguments.output {
        Output::Text => report::write(&found, arguments.dry_run, out)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &found)?;
            writeln!(out)?;
        }
    }
    Ok(verdict(&found))
}

/// Undecided: not everything was looked through. Bad: there are keys of other partitions.
fn verdict(found: &PlacementReport) -> Verdict {
    if found
        .tasks
        .iter()
        .any(|task| task.refused.is_some() || task.unknown_panes > 0)
        || !found.silent.is_empty()
    {
        Verdict::Undecided
    } else if found.tasks.iter().any(|task| task.foreign_panes > 0) {
        Verdict::Bad
    } else {
        Verdict::Good
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
