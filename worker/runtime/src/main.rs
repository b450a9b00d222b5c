//! `turbine-worker`: the program of the worker pods, and of a laptop.

use std::process::ExitCode;

use clap::Parser;
use turbine_runtime::program::{Arguments, run};

fn main() -> ExitCode {
    run(Arguments::parse())
}
