//! The test bed as the tests see it: variables that `./run bed env` prints.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// What the machine can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nodes that run pods.
    Full,
    /// API server and etcd alone.
    Api,
    /// No cluster.
    None,
}

/// What a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Broker,
    Api,
    Pods,
}

/// Where everything is.
#[derive(Debug, Clone)]
pub struct Bed {
    scripts: PathBuf,
    programs: PathBuf,
    pub bootstrap: String,
    pub worker_image: String,
    pub operator_image: String,
    pub kafka_libs: PathBuf,
}

fn variable(name: &str) -> Result<String> {
    env::var(name).ok().filter(|value| !value.is_empty()).with_context(|| {
        format!("{name} is not set; start the test bed first: ./run bed up, then eval \"$(./run bed env)\"")
    })
}

impl Bed {
    /// The bed, or none if the machine cannot give what the test needs: then the test is counted as skipped, with the
    /// reason, and returns at once.
    ///
    /// # Errors
    /// No bed is up although the machine could run one.
    pub fn for_test(test: &str, needs: Needs) -> Result<Option<Self>> {
        let mode = match env::var("TURBINE_BED_MODE").as_deref() {
            Ok("full") => Mode::Full,
            Ok("api") => Mode::Api,
            Ok(_) | Err(_) => Mode::None,
        };
        let lacking = match (needs, mode) {
            (Needs::Broker, _)
            | (Needs::Api, Mode::Full | Mode::Api)
            | (Needs::Pods, Mode::Full) => None,
            (Needs::Pods, Mode::Api) => {
                Some("needs pods, and this machine runs the API server alone")
            }
            (Needs::Api | Needs::Pods, Mode::None) => bail!(
                "no cluster is up; start the test bed first: ./run bed up, then eval \"$(./run bed env)\""
            ),
        };
        match lacking {
            None => Self::from_env().map(Some),
            Some(reason) => {
                skip(test, reason)?;
                Ok(None)
            }
        }
    }

    /// # Errors
    /// A variable of the bed is missing.
    pub fn from_env() -> Result<Self> {
        Ok(Self {
            scripts: variable("TURBINE_BED")?.into(),
            programs: variable("TURBINE_BIN")?.into(),
            bootstrap: variable("TURBINE_KAFKA_BOOTSTRAP")?,
            worker_image: env::var("TURBINE_WORKER_IMAGE").unwrap_or_default(),
            operator_image: env::var("TURBINE_OPERATOR_IMAGE").unwrap_or_default(),
            kafka_libs: variable("TURBINE_KAFKA_LIBS")?.into(),
        })
    }

    /// A program of this workspace, from the release build.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Runs one of the bed's scripts.
    ///
    /// # Errors
    /// It ended with another status than 0.
    pub fn script(&self, name: &str, arguments: &[&str]) -> Result<String> {
        crate::process::run(Command::new(self.scripts.join(name)).args(arguments))
    }

    /// Runs one of the bed's scripts with a file as its standard input.
    ///
    /// # Errors
    /// It ended with another status than 0.
    pub fn script_reading(&self, name: &str, arguments: &[&str], input: &Path) -> Result<String> {
        let file = std::fs::File::open(input).with_context(|| input.display().to_string())?;
        let mut command = Command::new(self.scripts.join(name));
        let output = command.args(arguments).stdin(file).output()?;
        if !output.status.success() {
            bail!(
                "{command:?} failed:\n{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A SIGKILL to the main process of a pod's first container.
    ///
    /// # Errors
    /// The container does not run.
    pub fn kill_container(&self, namespace: &str, pod: &str) -> Result<()> {
        self.script("kill-container.sh", &[pod, "-n", namespace])
            .map(drop)
    }

    /// Stops the broker in an orderly way and starts it again on its data.
    ///
    /// # Errors
    /// The broker does not come back.
    pub fn restart_broker(&self, number: u8) -> Result<()> {
        self.script("kafka.sh", &["restart", &number.to_string()])
            .map(drop)
    }
}

/// Root of the repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Counts a test that finds that it cannot run here as skipped; it returns at once.
///
/// # Errors
/// The list of what was skipped cannot be written.
pub fn skip(test: &str, reason: &str) -> Result<()> {
    writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}")?;
    if let Ok(log) = env::var("TURBINE_SKIP_LOG") {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)?;
        writeln!(file, "{test}: {reason}")?;
    }
    Ok(())
}
