//! `turbine-worker`: the program of the worker pods, and of a laptop.

use std::process::ExitCode;

use clap::Parser;
use turbine_runtime::program::{Arguments, run};

// One allocator for Rust, the Kafka client and the stores: much is allocated by one thread and freed by another, and a table
// that grows leaves its old room behind. The C library's keeps that for good: with 8 million keys and 1 GiB a worker whose panes
// take 250 MiB grew to 1,100 MiB, and stays at 720 MiB with this one.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    run(Arguments::parse())
}
