//! Programs: run to the end, or held and killed by kind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::wait;

/// Runs a program and gives what it wrote to its standard output.
///
/// # Errors
/// It cannot be started, or ended with another status than 0; the message holds its output.
pub fn run(command: &mut Command) -> Result<String> {
    let outcome = attempt(command)?;
    if !outcome.success {
        bail!("{command:?} failed:\n{}{}", outcome.stdout, outcome.stderr);
    }
    Ok(outcome.stdout)
}

/// What a program that ended has left.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a program whose failure is a result.
///
/// # Errors
/// It cannot be started.
pub fn attempt(command: &mut Command) -> Result<Outcome> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?}"))?;
    Ok(Outcome {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// A program that runs beside the test; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Running {
    /// Starts it with both outputs appended to `log`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, name: &str, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self {
            child,
            name: name.to_owned(),
            log: log.to_owned(),
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn terminate(&self) -> Result<()> {
        run(Command::new("kill")
            .arg("-TERM")
            .arg(self.pid().to_string()))
        .map(drop)
    }

    /// SIGKILL: it cannot clean up.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        let _status = self.child.wait()?;
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It still runs after `within`.
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        let name = self.name.clone();
        wait::until(&format!("{name} to end"), within, || {
            let status = self.child.try_wait();
            async move { Ok(status?) }
        })
        .await
        .with_context(|| format!("output of {name}:\n{}", tail(&self.output(), 60)))
    }

    /// Whether it has not ended yet.
    ///
    /// # Errors
    /// It cannot be asked for.
    pub fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            crate::diagnostics::say(&format!(
                "---- log of {}\n{}",
                self.name,
                tail(&self.output(), 120)
            ));
        }
        if matches!(self.child.try_wait(), Ok(None)) && self.child.kill().is_ok() {
            // only a process that was killed is waited for, so this ends
            let _ended = self.child.wait();
        }
    }
}

/// The last lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// A local port that nobody listens on at this moment.
///
/// # Errors
/// The machine has none left.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}
