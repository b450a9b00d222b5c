//! `turbine-worker-faults`: the worker in tests of crashes. It dies at the point that `TURBINE_FAULT` names (`POINT:PASS`), and
//! writes each pass of it to the file that `TURBINE_FAULT_LOG` names.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use turbine_runtime::program::{Arguments, run};
use turbine_state::fault;

fn main() -> ExitCode {
    if let Ok(setting) = std::env::var("TURBINE_FAULT") {
        let log = std::env::var_os("TURBINE_FAULT_LOG").map(PathBuf::from);
        if let Err(error) = fault::arm(&setting, log.as_deref()) {
            refuse(&error);
            return ExitCode::from(2);
        }
    }
    run(Arguments::parse())
}

/// There is no log yet.
#[allow(clippy::print_stderr)]
fn refuse(error: &fault::ArmError) {
    eprintln!("turbine-worker-faults: TURBINE_FAULT: {error}");
}
