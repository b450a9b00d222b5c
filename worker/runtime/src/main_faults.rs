//! `turbine-worker-faults`: the worker in tests of crashes. It dies at the point that `TURBINE_FAULT` names (`POINT:PASS`), and
//! writes each pass of it to the file that `TURBINE_FAULT_LOG` names. Where `TURBINE_FAULT_UNTIL` names a file it does not die: the
//! thread stands still there, or the disk is full, until the file is there.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use turbine_runtime::program::{Arguments, run};
use turbine_state::fault;

fn main() -> ExitCode {
    if let Ok(setting) = std::env::var("TURBINE_FAULT") {
        let file = |name| std::env::var_os(name).map(PathBuf::from);
        let (log, until) = (file("TURBINE_FAULT_LOG"), file("TURBINE_FAULT_UNTIL"));
        if let Err(error) = fault::arm(&setting, log.as_deref(), until.as_deref()) {
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
