//! The chart, by Helm.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::bed::{Bed, repository};
use crate::diagnostics;
use crate::process::{self, Outcome};

/// Folder of the chart.
pub fn folder() -> PathBuf {
    repository().join("charts/turbine")
}

/// `helm`, for the cluster of `KUBECONFIG`.
pub fn helm() -> Command {
    Command::new("helm")
}

/// An installed release; uninstalled when dropped.
#[derive(Debug)]
pub struct Release {
    pub name: String,
    pub namespace: String,
    images: Vec<String>,
    installed: bool,
}

impl Release {
    /// Installs the chart with the bed's images and waits until the operator is ready. The CRD is left alone unless `sets`
    /// says otherwise.
    ///
    /// # Errors
    /// Helm refuses, or the operator does not become ready.
    pub fn install(bed: &Bed, name: &str, namespace: &str, sets: &[&str]) -> Result<Self> {
        let mut release = Self::prepare(bed, name, namespace);
        let outcome = release.try_install(sets)?;
        ensure!(
            outcome.success,
            "helm install failed: {}{}",
            outcome.stdout,
            outcome.stderr
        );
        Ok(release)
    }

    /// A release that is not installed yet.
    pub fn prepare(bed: &Bed, name: &str, namespace: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            images: vec![
                format!("image={}", bed.operator_image),
                format!("workerImage={}", bed.worker_image),
                "crds.install=false".to_owned(),
            ],
            installed: false,
        }
    }

    fn command(&self, verb: &str, sets: &[&str]) -> Command {
        let mut command = helm();
        command
            .args([verb, &self.name])
            .arg(folder())
            .args(["--namespace", &self.namespace]);
        if verb == "template" {
            // without a server Helm takes the version that it was built with, or none
            command.args(["--kube-version", "1.34.4"]);
        } else {
            command.args(["--wait", "--timeout", "180s"]);
        }
        for set in self
            .images
            .iter()
            .map(String::as_str)
            .chain(sets.iter().copied())
        {
            command.args(["--set", set]);
        }
        command
    }

    /// Installs; a refusal is a result.
    ///
    /// # Errors
    /// Helm cannot be started.
    pub fn try_install(&mut self, sets: &[&str]) -> Result<Outcome> {
        let outcome = process::attempt(&mut self.command("install", sets))?;
        // a failed install leaves a release record behind
        self.installed = true;
        Ok(outcome)
    }

    /// # Errors
    /// Helm refuses, or the operator does not become ready.
    pub fn upgrade(&self, sets: &[&str]) -> Result<String> {
        process::run(&mut self.command("upgrade", sets))
    }

    /// What would be installed.
    ///
    /// # Errors
    /// The chart cannot be rendered.
    pub fn render(&self, sets: &[&str], only: &[&str]) -> Result<String> {
        let mut command = self.command("template", sets);
        for template in only {
            command.args(["--show-only", template]);
        }
        process::run(&mut command)
    }

    /// # Errors
    /// Helm refuses.
    pub fn uninstall(mut self) -> Result<String> {
        self.installed = false;
        process::run(helm().args([
            "uninstall",
            &self.name,
            "--namespace",
            &self.namespace,
            "--wait",
        ]))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if !self.installed || std::env::var_os("TURBINE_KEEP").is_some() {
            return;
        }
        let mut command = helm();
        command.args([
            "uninstall",
            &self.name,
            "--namespace",
            &self.namespace,
            "--ignore-not-found",
        ]);
        if let Err(error) = process::run(&mut command) {
            diagnostics::say(&format!("release {} stays: {error:#}", self.name));
        }
    }
}
