//! The app in its cluster: reading it, changing its spec, asking its operator.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::api::{Patch as KubePatch, PatchParams};
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use turbine_crds::app::TurbineApp;
use turbine_crds::status::{PREVIEW, PreviewRequest, RescalePreview, RescaleStatus};

use super::change::{Change, Patch};
use super::words::{self, Standing};
use crate::Verdict;
use crate::progress::Progress;

/// An operator answers within a pass; one that does not is busy with another cluster's outage, or is not there.
const PREVIEW_PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
const FIELD_MANAGER: &str = "turbine-cli";

/// Which app.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) app: String,
    pub(super) namespace: Option<String>,
    pub(super) context: Option<String>,
}

pub(super) struct App {
    api: Api<TurbineApp>,
    app: String,
    name: String,
}

impl App {
    pub(super) async fn open(place: &Place) -> anyhow::Result<Self> {
        let options = KubeConfigOptions {
            context: place.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = if place.context.is_some() {
            Config::from_kubeconfig(&options).await?
        } else {
            Config::infer().await?
        };
        let namespace = place
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)?;
        Ok(Self {
            api: Api::namespaced(client, &namespace),
            app: place.app.clone(),
            name: format!("TurbineApp {namespace}/{}", place.app),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn read(&self) -> anyhow::Result<TurbineApp> {
        self.api
            .get_opt(&self.app)
            .await
            .with_context(|| format!("{} cannot be read", self.name))?
            .with_context(|| format!("there is no {}; name another --namespace", self.name))
    }

    /// Writes the change, and gives the generation that has it.
    pub(super) async fn change(&self, patch: &Patch) -> anyhow::Result<i64> {
        let app = if patch.0.is_empty() {
            self.read().await?
        } else {
            let operations = serde_json::from_value(Value::Array(patch.0.clone()))
                .context("the change is no patch")?;
            self.api
                .patch(
                    &self.app,
                    &parameters(),
                    &KubePatch::Json::<()>(operations),
                )
                .await
                .with_context(|| {
                    format!(
                        "{} was not changed; where a test failed somebody else changed it meanwhile: look again",
                        self.name
                    )
                })?
        };
        Ok(app.metadata.generation.unwrap_or_default())
    }

    /// Asks the operator what the change would do.
    pub(super) async fn preview(&self, change: &Change) -> anyhow::Result<RescalePreview> {
        let id = format!("{:016x}", RandomState::new().build_hasher().finish());
        let request = PreviewRequest {
            id: id.clone(),
            partitions: change.partitions.clone(),
            replicas: change.replicas,
        };
        let request = serde_json::to_string(&request)?;
        self.annotate(json!(request)).await?;
        let answer = self.answer(&id).await;
        // A question that stays is answered again in each pass.
        self.annotate(Value::Null).await?;
        answer
    }

    async fn answer(&self, id: &str) -> anyhow::Result<RescalePreview> {
        let began = Instant::now();
        loop {
            let status = self.read().await?.status.unwrap_or_default();
            match status.rescale_preview {
                Some(preview) if preview.id == id => return Ok(preview),
                Some(_) | None => {}
            }
            if began.elapsed() > PREVIEW_PATIENCE {
                anyhow::bail!(
                    "the operator did not answer within {} s: see its log, and whether {} is paused or does not run yet",
                    PREVIEW_PATIENCE.as_secs(),
                    self.name
                );
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn annotate(&self, value: Value) -> anyhow::Result<()> {
        let patch = json!({"metadata": {"annotations": {PREVIEW: value}}});
        self.api
            .patch(&self.app, &parameters(), &KubePatch::Merge(&patch))
            .await
            .with_context(|| format!("{} cannot be annotated", self.name))?;
        Ok(())
    }

    /// Watches until every task runs on its new place.
    pub(super) async fn watch(
        &self,
        generation: i64,
        terminal: bool,
        out: &mut impl Write,
        err: &mut impl Write,
    ) -> anyhow::Result<Verdict> {
        let mut said: Option<(String, Option<String>)> = None;
        let mut bar: Option<Progress<std::io::Stderr>> = None;
        loop {
            let status = self.read().await?.status.unwrap_or_default();
            let standing = words::standing(&status, generation);
            match (&standing, &status.rescale) {
                (Standing::Unseen, _) => {}
                (Standing::On(waits), Some(plan)) => {
                    draw(&mut bar, plan, terminal);
                    let step = (plan.step.to_string(), waits.clone());
                    if said.as_ref() != Some(&step) && bar.is_none() {
                        let why = waits
                            .as_ref()
                            .map_or_else(String::new, |why| format!(": {why}"));
                        writeln!(err, "{}{why}", plan.step)?;
                        said = Some(step);
                    }
                }
                (Standing::On(_), None) => {}
                (Standing::Runs, plan) => {
                    drop(bar);
                    let pause = plan.as_ref().and_then(words::pause_ms);
                    let pause = pause
                        .map_or_else(String::new, |ms| format!("; tasks stood still for {ms} ms"));
                    writeln!(
                        out,
                        "{} runs on its new layout{pause}. Old partitions are read on until producers have refreshed",
                        self.name
                    )?;
                    return Ok(Verdict::Good);
                }
                (Standing::Nothing, _) => {
                    writeln!(out, "{} has this layout", self.name)?;
                    return Ok(Verdict::Good);
                }
                (Standing::Undone, _) => {
                    writeln!(
                        out,
                        "{}: it was taken back before the topic grew",
                        self.name
                    )?;
                    return Ok(Verdict::Bad);
                }
                (Standing::Refused(why), _) => {
                    writeln!(out, "{}: refused: {why}", self.name)?;
                    return Ok(Verdict::Bad);
                }
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// The bar is there while bytes are on their way.
fn draw(bar: &mut Option<Progress<std::io::Stderr>>, plan: &RescaleStatus, terminal: bool) {
    let (moved, all) = words::bytes(plan);
    if all == 0 || !terminal {
        *bar = None;
        return;
    }
    bar.get_or_insert_with(|| {
        Progress::of("moving state, bytes".to_owned(), all, std::io::stderr())
    })
    .reached(moved);
}
