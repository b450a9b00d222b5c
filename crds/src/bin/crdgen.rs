//! Prints the resource definition, or writes it to the file that is named.

use std::io::Write;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    match env::args().nth(1) {
        Some(option) if option.starts_with('-') => {
            writeln!(
                out,
                "crdgen [FILE]: the definition of TurbineApp as YAML, to FILE or to the standard output"
            )?;
        }
        Some(path) => fs::write(path, turbine_crds::crd::yaml()?)?,
        None => out.write_all(turbine_crds::crd::yaml()?.as_bytes())?,
    }
    Ok(())
}
