//! `turbine-worker`: the program of the worker pods, and of a laptop.

use std::process::ExitCode;

use clap::Parser;
use turbine_runtime::program::{Arguments, run};

// The system's allocator gives memory of large batches back and takes it again for each of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run(Arguments::parse())
}
