//! Prints the resource definition, or writes it to the file that is named.

use std::path::PathBuf;
use std::{env, fs, io::Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let yaml = turbine_crds::crd::yaml()?;
    match env::args_os().nth(1) {
        Some(path) => fs::write(PathBuf::from(path), yaml)?,
        None => std::io::stdout().write_all(yaml.as_bytes())?,
    }
    Ok(())
}
