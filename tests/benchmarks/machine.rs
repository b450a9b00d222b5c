//! What was measured on, and what a process has used.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use turbine_tests::process;

/// Prints a line; the output is the product of a benchmark.
pub(crate) fn say(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

/// Processor, cores, memory, system and the program's version.
pub(crate) fn describe(program: &Path) -> Result<()> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpuinfo
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name")?
                .split_once(':')
                .map(|(_, name)| name.trim())
        })
        .unwrap_or("unknown");
    let cores = std::thread::available_parallelism()?;
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    let memory = field(&meminfo, "MemTotal:").unwrap_or_default() / 1024;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let version = process::run(Command::new(program).arg("--version"))?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    say(&format!(
        "processor {model}, {cores} cores, {memory} MiB, Linux {}",
        kernel.trim()
    ))?;
    say(&format!(
        "{}, load before the run {}",
        version.trim(),
        load.split(' ').next().unwrap_or_default()
    ))
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    })
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_mib: f64,
    pub(crate) peak_mib: f64,
}

/// Asked for once: a program that starts takes time from what is measured.
fn ticks_per_second() -> Result<f64> {
    static KNOWN: OnceLock<f64> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let asked: f64 = process::run(Command::new("getconf").arg("CLK_TCK"))?
        .trim()
        .parse()?;
    Ok(*KNOWN.get_or_init(|| asked))
}

/// Reads it from the kernel.
pub(crate) fn usage(pid: u32) -> Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    // the name, in brackets, may hold blanks; user and system time are the 12th and 13th field after it
    let (_, rest) = stat
        .rsplit_once(')')
        .context("an unknown form of /proc/PID/stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks =
        |at: usize| -> Result<f64> { Ok(fields.get(at).context("too few fields")?.parse()?) };
    let per_second = ticks_per_second()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    #[expect(clippy::cast_precision_loss, reason = "kibibytes of a process")]
    let mib = |name| field(&status, name).unwrap_or_default() as f64 / 1024.0;
    Ok(Usage {
        cpu_seconds: (ticks(11)? + ticks(12)?) / per_second,
        resident_mib: mib("VmRSS:"),
        peak_mib: mib("VmHWM:"),
    })
}
