//! `turbine-bench`: measurements on the real parts. Method and results are in `docs/benchmarks.md`.

mod kernels;
mod machine;
mod memory;
mod operator;
mod placement;
mod streams;
mod stub;
mod worker;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "turbine-bench", version, about)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Drains a preloaded topic through a tumbling sum: events per CPU-second, peak memory.
    Worker(worker::Options),
    /// The worker and Kafka Streams on one topic, in turns: counts and sums in windows, both outputs checked.
    Streams(streams::Options),
    /// More keys than fit into a pod's memory: all sums right, and the container stays below its limit.
    Memory(memory::Options),
    /// The engine with the check of every row's placement and without it, in turns: what the check costs.
    Placement(placement::Options),
    /// The stages of the way of a record, each alone over fixed input: nanoseconds.
    Kernels(kernels::Options),
    /// Many apps in phase Running on fake nodes: what the operator writes, asks and holds.
    Operator(operator::Options),
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().what {
        What::Worker(options) => worker::measure(&options).await,
        What::Streams(options) => streams::measure(&options).await,
        What::Memory(options) => memory::measure(&options).await,
        What::Placement(options) => placement::measure(&options),
        What::Kernels(options) => kernels::measure(&options),
        What::Operator(options) => operator::measure(&options).await,
    }
}
