//! The cluster as a test sees it: a namespace of its own, objects, waiting by watch.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use turbine_crds::app::TurbineApp;
use turbine_crds::status::Phase;

use crate::bed::repository;
use crate::process::{self, Outcome};
use crate::{diagnostics, wait};

/// The CRD as the chart installs it.
pub const CRD_FILE: &str = "charts/turbine/files/turbineapps.turbine.dev.yaml";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A short text that no other test of any run uses.
pub fn unique(prefix: &str) -> String {
    let seconds = jiff::Timestamp::now().as_second() % 10_000_000;
    format!(
        "{prefix}-{seconds:x}{:x}{:x}",
        std::process::id() % 4096,
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A namespace of one test. Dropped: its apps lose their finalizers and it is deleted, unless `TURBINE_KEEP` is set.
#[derive(Clone)]
pub struct TestNamespace {
    pub client: Client,
    pub name: String,
    _guard: std::sync::Arc<Guard>,
}

impl Debug for TestNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestNamespace")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Guard(String);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            diagnostics::dump(&self.0);
        }
        if std::env::var_os("TURBINE_KEEP").is_none()
            && let Err(error) = remove_namespace(&self.0)
        {
            diagnostics::say(&format!("namespace {} stays: {error:#}", self.0));
        }
    }
}

fn remove_namespace(name: &str) -> Result<()> {
    let apps = process::attempt(kubectl().args(["-n", name, "get", "turbineapps", "-o", "name"]))?;
    for app in apps.stdout.lines() {
        process::attempt(kubectl().args(["-n", name, "delete", app, "--wait=false"]))?;
        let free = r#"{"metadata":{"finalizers":null}}"#;
        process::attempt(kubectl().args(["-n", name, "patch", app, "--type=merge", "-p", free]))?;
    }
    process::run(kubectl().args(["delete", "namespace", name, "--wait=false"])).map(drop)
}

/// `kubectl`, for the cluster of `KUBECONFIG`.
pub fn kubectl() -> Command {
    Command::new("kubectl")
}

/// Runs a program with a text on its standard input.
///
/// # Errors
/// It cannot be started.
pub fn with_input(command: &mut Command, input: &str) -> Result<Outcome> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    child
        .stdin
        .take()
        .context("no standard input")?
        .write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    Ok(Outcome {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Applies the CRD and waits until it is served. A CRD that a chart installed is left alone if it is the same.
///
/// # Errors
/// The API server refuses it.
pub fn install_crd() -> Result<()> {
    let file = repository().join(CRD_FILE);
    process::run(
        kubectl()
            .args(["apply", "--server-side", "--force-conflicts", "-f"])
            .arg(file),
    )?;
    process::run(kubectl().args([
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd/turbineapps.turbine.dev",
    ]))
    .map(drop)
}

impl TestNamespace {
    /// Makes one, after the CRD.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn create(prefix: &str) -> Result<Self> {
        install_crd()?;
        let client = Client::try_default().await?;
        let name = unique(prefix);
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        // what the chart promises is held by the cluster
        namespace.metadata.labels = Some(BTreeMap::from([(
            "pod-security.kubernetes.io/enforce".to_owned(),
            "restricted".to_owned(),
        )]));
        Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await?;
        Ok(Self {
            client,
            name: name.clone(),
            _guard: std::sync::Arc::new(Guard(name)),
        })
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub fn apps(&self) -> Api<TurbineApp> {
        self.api()
    }

    /// `kubectl` in this namespace; a failure is a result.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<Outcome> {
        process::attempt(kubectl().arg("-n").arg(&self.name).args(arguments))
    }

    /// `kubectl` in this namespace.
    ///
    /// # Errors
    /// It failed.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        process::run(kubectl().arg("-n").arg(&self.name).args(arguments))
    }

    /// `kubectl apply` of a text.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn try_apply(&self, yaml: &str) -> Result<Outcome> {
        with_input(
            kubectl()
                .arg("-n")
                .arg(&self.name)
                .args(["apply", "-f", "-"]),
            yaml,
        )
    }

    /// `kubectl apply` of a text.
    ///
    /// # Errors
    /// The API server refuses it.
    pub fn apply(&self, yaml: &str) -> Result<String> {
        let outcome = self.try_apply(yaml)?;
        if !outcome.success {
            bail!("apply failed: {}\n{yaml}", outcome.stderr);
        }
        Ok(outcome.stdout)
    }

    /// `kubectl apply` of a file.
    ///
    /// # Errors
    /// It cannot be read, or the API server refuses it.
    pub fn apply_file(&self, file: &Path) -> Result<String> {
        self.apply(&std::fs::read_to_string(file).with_context(|| file.display().to_string())?)
    }

    /// Watches one object until the condition holds.
    ///
    /// # Errors
    /// It did not in time; the message shows the object as it stands.
    pub async fn wait_for<K>(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        condition: impl Condition<K>,
    ) -> Result<Option<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Send
            + DeserializeOwned
            + 'static,
    {
        let waiting = await_condition(self.api::<K>(), name, condition);
        if let Ok(found) = tokio::time::timeout(within, waiting).await {
            return Ok(found?);
        }
        let kind = K::kind(&());
        let seen = self.try_kubectl(&["get", &kind, name, "-o", "yaml"])?;
        bail!(
            "waited {within:?} for {kind} {name}: {what}\n{}{}",
            seen.stdout,
            seen.stderr
        )
    }

    /// Watches an app until the condition holds, and gives it as it was then.
    ///
    /// # Errors
    /// It did not in time.
    pub async fn wait_for_app(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        holds: impl Fn(&TurbineApp) -> bool,
    ) -> Result<TurbineApp> {
        let condition = |app: Option<&TurbineApp>| app.is_some_and(&holds);
        self.wait_for(name, what, within, condition)
            .await?
            .context("the app is gone")
    }

    /// Waits until an app runs, all of it, in the spec's newest generation.
    ///
    /// # Errors
    /// It did not in time.
    pub async fn wait_until_ready(&self, name: &str, within: Duration) -> Result<TurbineApp> {
        self.wait_for_app(name, "Ready=True for its generation", within, is_ready)
            .await
    }

    /// Waits until a condition of an app has a status and a reason.
    ///
    /// # Errors
    /// It did not in time.
    pub async fn wait_for_condition(
        &self,
        name: &str,
        kind: &str,
        status: &str,
        reason: Option<&str>,
        within: Duration,
    ) -> Result<TurbineApp> {
        let what = format!("condition {kind}={status} {}", reason.unwrap_or_default());
        self.wait_for_app(name, &what, within, |app| {
            condition(app, kind).is_some_and(|found| {
                found.status == status && reason.is_none_or(|reason| found.reason == reason)
            })
        })
        .await
    }

    /// The worker pods of an app, by name.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn worker_pods(&self, app: &str) -> Result<Vec<Pod>> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await?;
        let mut own: Vec<Pod> = pods
            .items
            .into_iter()
            .filter(|pod| {
                pod.metadata
                    .owner_references
                    .iter()
                    .flatten()
                    .any(|owner| owner.kind == "StatefulSet")
                    && pod
                        .metadata
                        .name
                        .as_deref()
                        .is_some_and(|name| name.starts_with(app))
            })
            .collect();
        own.sort_by_key(|pod| pod.metadata.name.clone());
        Ok(own)
    }

    /// Deletes an app and waits until it is gone.
    ///
    /// # Errors
    /// It stays.
    pub async fn delete_app(&self, name: &str, within: Duration) -> Result<()> {
        let uid = self
            .apps()
            .get(name)
            .await?
            .metadata
            .uid
            .context("an object without a uid")?;
        self.apps()
            .delete(name, &DeleteParams::foreground())
            .await?;
        let gone = kube::runtime::conditions::is_deleted(&uid);
        self.wait_for::<TurbineApp>(name, "its deletion", within, gone)
            .await
            .map(drop)
    }

    /// Waits until no worker pod of an app is left.
    ///
    /// # Errors
    /// One is.
    pub async fn wait_for_no_pods(&self, app: &str, within: Duration) -> Result<()> {
        wait::until(&format!("the pods of {app} to end"), within, || async {
            Ok(self.worker_pods(app).await?.is_empty().then_some(()))
        })
        .await
    }
}

/// A condition of an app's status.
pub fn condition<'a>(
    app: &'a TurbineApp,
    kind: &str,
) -> Option<&'a k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    app.status
        .as_ref()?
        .conditions
        .iter()
        .find(|each| each.type_ == kind)
}

/// Whether an app says that it runs what its spec asks for.
pub fn is_ready(app: &TurbineApp) -> bool {
    let current = app
        .status
        .as_ref()
        .and_then(|status| status.observed_generation)
        == app.metadata.generation;
    let running = app.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running);
    current && running && condition(app, "Ready").is_some_and(|ready| ready.status == "True")
}

/// How often the main container of a pod was started again.
pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses
        .into_iter()
        .flatten()
        .map(|status| status.restart_count)
        .sum()
}

/// Whether a pod is ready.
pub fn pod_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|each| each.type_ == "Ready" && each.status == "True")
}
