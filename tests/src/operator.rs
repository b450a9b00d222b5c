//! The operator as a process beside the test, against the cluster of `KUBECONFIG`, with the rights that the chart gives it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::bed::Bed;
use crate::chart::Release;
use crate::cluster::{TestNamespace, kubectl};
use crate::http;
use crate::process::{self, Running, free_port, tail};
use crate::wait;

/// How an operator is started, again and again in one test.
#[derive(Debug, Clone)]
pub struct OperatorPlan {
    program: PathBuf,
    worker_image: String,
    namespace: TestNamespace,
    kubeconfig: PathBuf,
    log: PathBuf,
}

impl OperatorPlan {
    /// One that watches `namespace` alone and keeps its Lease there. It acts as the chart's service account: what the
    /// chart's rules do not allow is refused.
    ///
    /// # Errors
    /// The chart cannot be rendered or its rules cannot be applied.
    pub fn new(bed: &Bed, namespace: &TestNamespace, folder: &Path) -> Result<Self> {
        let release = Release::prepare(bed, "turbine", &namespace.name);
        let watched = format!("watch.namespaces={{{}}}", namespace.name);
        namespace.apply(&release.render(
            &[&watched],
            &["templates/rbac.yaml", "templates/serviceaccount.yaml"],
        )?)?;
        let kubeconfig = folder.join("operator.kubeconfig");
        std::fs::write(
            &kubeconfig,
            impersonating(&format!("system:serviceaccount:{}:turbine", namespace.name))?,
        )?;
        Ok(Self {
            program: bed.program("turbine-operator"),
            worker_image: bed.worker_image.clone(),
            namespace: namespace.clone(),
            kubeconfig,
            log: folder.join("operator.log"),
        })
    }

    /// The same operator on another way to the API server.
    #[must_use]
    pub fn through(mut self, kubeconfig: PathBuf) -> Self {
        self.kubeconfig = kubeconfig;
        self
    }

    /// A client with the operator's rights.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn client(&self) -> Result<kube::Client> {
        let kubeconfig = kube::config::Kubeconfig::read_from(&self.kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(
            kubeconfig,
            &kube::config::KubeConfigOptions::default(),
        )
        .await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// Starts it; does not wait.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self) -> Result<Operator> {
        let port = free_port()?;
        let mut command = Command::new(&self.program);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .arg(format!("--worker-image={}", self.worker_image))
            .arg(format!("--namespaces={}", self.namespace.name))
            .arg(format!("--lease-namespace={}", self.namespace.name))
            .arg("--lease-name=turbine")
            // the same holder each time: one that was killed need not wait for its own Lease
            .arg("--id=operator-under-test")
            .arg(format!("--metrics-addr=127.0.0.1:{port}"));
        Ok(Operator {
            process: Running::start(&mut command, "operator", &self.log)?,
            port,
        })
    }

    /// Starts it and waits until it says that it is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn start(&self) -> Result<Operator> {
        let operator = self.spawn()?;
        operator.wait_until_ready().await?;
        Ok(operator)
    }
}

/// The test's kubeconfig, acting as somebody else.
fn impersonating(user: &str) -> Result<String> {
    let own = process::run(kubectl().args([
        "config",
        "view",
        "--raw",
        "--flatten",
        "--minify",
        "-o",
        "json",
    ]))?;
    let mut config: serde_json::Value = serde_json::from_str(&own)?;
    let fields = config["users"][0]["user"]
        .as_object_mut()
        .context("a kubeconfig without a user")?;
    fields.insert("as".to_owned(), user.into());
    Ok(config.to_string())
}

/// An operator that runs; killed when dropped. On a panic its log is shown.
#[derive(Debug)]
pub struct Operator {
    process: Running,
    port: u16,
}

impl Operator {
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn output(&self) -> String {
        self.process.output()
    }

    /// # Errors
    /// It does not become ready.
    pub async fn wait_until_ready(&self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/readyz", self.port);
        wait::until(
            "the operator to be ready",
            Duration::from_secs(90),
            || async {
                Ok(http::client()
                    .get(&url)
                    .send()
                    .await?
                    .status()
                    .is_success()
                    .then_some(()))
            },
        )
        .await
        .map_err(|error| error.context(tail(&self.output(), 40)))
    }

    /// What it serves for Prometheus.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn metrics(&self) -> Result<String> {
        Ok(http::client()
            .get(format!("http://127.0.0.1:{}/metrics", self.port))
            .send()
            .await?
            .text()
            .await?)
    }

    /// SIGKILL: it gives up nothing in order, not even its Lease.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn kill(self) -> Result<()> {
        self.process.kill()
    }

    /// SIGTERM, and waits for its end.
    ///
    /// # Errors
    /// It does not end with status 0.
    pub async fn stop(mut self) -> Result<()> {
        self.process.terminate()?;
        let status = self.process.ended(Duration::from_secs(30)).await?;
        ensure!(status.success(), "the operator ended with {status}");
        Ok(())
    }
}
