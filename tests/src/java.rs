//! Java programs of `reference/`, over Kafka's own client: compiled once, run as processes.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::process;

/// A call of one of the programs, ready for its arguments.
///
/// # Errors
/// It cannot be compiled.
pub fn program(name: &str, kafka_libs: &Path) -> Result<Command> {
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/reference"))
        .join(name)
        .with_extension("java");
    let frugal = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
    virtual_machine(&source, &frugal, kafka_libs)
}

/// A call of the class that a source file is named after, ready for its arguments, in a virtual machine with these options.
///
/// # Errors
/// It cannot be compiled.
pub fn virtual_machine(source: &Path, options: &[&str], kafka_libs: &Path) -> Result<Command> {
    let name = source
        .file_stem()
        .with_context(|| format!("{} is no source file", source.display()))?;
    let mut classes: OsString = compiled(source, &name.to_string_lossy(), kafka_libs)?.into();
    classes.push(":");
    classes.push(kafka_libs.join("*"));
    let mut command = Command::new("java");
    command
        .args(options)
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        .arg("-cp")
        .arg(classes)
        .arg(name);
    Ok(command)
}

/// The folder with the compiled program; compiled when its source has changed.
fn compiled(source: &Path, name: &str, kafka_libs: &Path) -> Result<PathBuf> {
    let class = format!("{name}.class");
    let mut hasher = DefaultHasher::new();
    std::fs::read(source)?.hash(&mut hasher);
    let folder = std::env::temp_dir().join(format!("turbine-java-{:x}", hasher.finish()));
    if folder.join(&class).exists() {
        return Ok(folder);
    }
    let fresh = TempDir::new()?;
    process::run(
        Command::new("javac")
            .arg("-d")
            .arg(fresh.path())
            .arg("-cp")
            .arg(kafka_libs.join("*"))
            .arg(source),
    )?;
    // whole or not at all; where another process was first, its folder is as good
    if std::fs::rename(fresh.path(), &folder).is_ok() {
        let _moved = fresh.keep();
    }
    ensure!(
        folder.join(&class).exists(),
        "{} was not compiled",
        source.display()
    );
    Ok(folder)
}
