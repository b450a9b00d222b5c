//! A worker as a process beside the test: `turbine-worker run`, no Kubernetes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::bed::Bed;
use crate::manifest::AppManifest;
use crate::process::Running;

/// How a worker of one app is started, again and again in one test, on the same state.
#[derive(Debug, Clone)]
pub struct WorkerPlan {
    program: PathBuf,
    app: PathBuf,
    state: PathBuf,
    log: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl WorkerPlan {
    /// Writes the app's file into `folder`; state and log go there too.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn new(bed: &Bed, app: &AppManifest, folder: &Path) -> Result<Self> {
        let file = folder.join("app.yaml");
        std::fs::write(&file, app.text())?;
        Ok(Self {
            program: bed.program("turbine-worker"),
            app: file,
            state: folder.join("state"),
            log: folder.join("worker.log"),
            arguments: Vec::new(),
            environment: Vec::new(),
        })
    }

    /// The same on the state of another plan.
    #[must_use]
    pub fn on_state(mut self, state: &Path) -> Self {
        state.clone_into(&mut self.state);
        self
    }

    /// Adds a command-line argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Another program, which takes the same arguments.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("run")
            .arg("--app")
            .arg(&self.app)
            .arg("--state-dir")
            .arg(&self.state)
            .args(&self.arguments)
            .envs(self.environment.iter().cloned());
        command
    }

    /// The app's file.
    pub fn app(&self) -> &Path {
        &self.app
    }

    /// Where its state lies.
    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// # Errors
    /// It cannot be started.
    pub fn start(&self) -> Result<Running> {
        Running::start(&mut self.command(), "worker", &self.log)
    }
}
