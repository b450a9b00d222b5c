//! `turbine-cli rescale`: another partition count or another number of workers for a running app, asked for, watched or only looked at.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use anyhow::Context as _;
use clap::{ArgGroup, Args};

use crate::Verdict;

mod change;
mod cluster;
mod words;

use change::Change;
use cluster::{App, Place};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["to", "replicas"]))]
pub(crate) struct RescaleArgs {
    /// TurbineApp in the cluster
    app: String,
    /// Namespace of the app; by default that of the kubeconfig's context
    #[arg(short, long)]
    namespace: Option<String>,
    /// Context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
    /// Subscription whose input gets another count; others that read the same topic get it as well. May be left out if there is one
    #[arg(long, requires = "to")]
    subscription: Option<String>,
    /// Partitions that the input is to have
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=960))]
    to: Option<i32>,
    /// Workers that the app is to have
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=1000))]
    replicas: Option<i32>,
    /// Say what would happen and change nothing
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Watch until every task runs on its new place
    #[arg(long)]
    wait: bool,
}

pub(crate) fn run(
    arguments: RescaleArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let place = Place {
        app: arguments.app,
        namespace: arguments.namespace,
        context: arguments.context,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the client cannot start")?;
    // The HTTP client is built without a choice of cryptography of its own.
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(async {
        let app = App::open(&place).await?;
        let read = app.read().await?;
        let partitions = match arguments.to {
            Some(to) => change::partitions(&read, arguments.subscription.as_deref(), to)?,
            None => BTreeMap::new(),
        };
        let change = Change {
            partitions,
            replicas: arguments.replicas,
        };
        if arguments.dry_run {
            let preview = app.preview(&change).await?;
            words::preview(&preview, out)?;
            return Ok(if preview.refusals.is_empty() {
                Verdict::Good
            } else {
                Verdict::Bad
            });
        }
        let patch = change.patch(&read);
        if patch.0.is_empty() {
            writeln!(out, "the spec of {} asks for this already", app.name())?;
        }
        let generation = app.change(&patch).await?;
        if !arguments.wait {
            writeln!(
                out,
                "{} asks for it from generation {generation} on; `kubectl get tapp {} -w` shows the steps",
                app.name(),
                place.app
            )?;
            return Ok(Verdict::Good);
        }
        app.watch(generation, std::io::stderr().is_terminal(), out, err)
            .await
    })
}
