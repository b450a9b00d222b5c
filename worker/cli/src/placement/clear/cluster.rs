//! The workers of an app in a cluster, asked through the API server: no port of a pod has to be reachable from here.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config, ResourceExt as _};
use turbine_crds::app::TurbineApp;
use turbine_crds::compiled::CONTROL_PORT;
use turbine_crds::control::{
    CLEAR_PLACEMENT, ClearPlacement, PlacementReport, SilentWorker, TOKEN_HEADER, TOKEN_KEY,
    TOKEN_SUFFIX,
};

/// Longer than a worker lets its tasks look.
const PATIENCE: Duration = Duration::from_secs(150);

/// Which app.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) app: String,
    pub(super) namespace: Option<String>,
    pub(super) context: Option<String>,
}

pub(super) async fn ask(place: &Place, wanted: &ClearPlacement) -> anyhow::Result<PlacementReport> {
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
    let name = format!("{namespace}/{}", place.app);

    let app = Api::<TurbineApp>::namespaced(client.clone(), &namespace)
        .get_opt(&place.app)
        .await
        .map_err(|error| match &error {
            kube::Error::Api(status) => anyhow::anyhow!(
                "TurbineApp {name} cannot be read: the API server answers {} {}",
                status.code,
                status.reason
            ),
            _ => anyhow::Error::from(error).context("no answer from the API server"),
        })?
        .with_context(|| format!("there is no TurbineApp {name}; name another --namespace"))?;
    let selector = app
        .status
        .as_ref()
        .and_then(|status| status.selector.clone())
        .with_context(|| format!("TurbineApp {name} has no workers yet"))?;
    let token = token(&client, &namespace, &place.app).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace)
        .list(&ListParams::default().labels(&selector))
        .await?;
    if pods.items.is_empty() {
        anyhow::bail!(
            "TurbineApp {name} has no pods; for a suspended app look through its volumes with --state"
        );
    }
    let mut report = PlacementReport::default();
    for pod in &pods {
        let name = pod.name_any();
        let asked = async {
            if !listens(pod) {
                anyhow::bail!("its worker does not run");
            }
            let call = ask_pod(&client, &namespace, &name, &token, wanted);
            tokio::time::timeout(PATIENCE, call)
                .await
                .with_context(|| format!("no answer within {} s", PATIENCE.as_secs()))?
        };
        match asked.await {
            Ok(found) => report.tasks.extend(found.tasks),
            Err(error) => report.silent.push(SilentWorker {
                pod: name,
                why: format!("{error:#}"),
            }),
        }
    }
    report.tasks.sort_by(|one, other| {
        (&one.subscription, one.partition).cmp(&(&other.subscription, other.partition))
    });
    Ok(report)
}

/// Whether a container of the pod runs: nobody else can answer.
fn listens(pod: &Pod) -> bool {
    let containers = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    containers.into_iter().flatten().any(|container| {
        container
            .state
            .as_ref()
            .is_some_and(|state| state.running.is_some())
    })
}

async fn token(client: &Client, namespace: &str, app: &str) -> anyhow::Result<String> {
    let name = format!("{app}{TOKEN_SUFFIX}");
    let secret = Api::<Secret>::namespaced(client.clone(), namespace)
        .get(&name)
        .await
        .with_context(|| format!("Secret {name} with the control token cannot be read"))?;
    let bytes = secret
        .data
        .and_then(|mut data| data.remove(TOKEN_KEY))
        .with_context(|| format!("Secret {name} has no key {TOKEN_KEY}"))?;
    String::from_utf8(bytes.0).with_context(|| format!("Secret {name} holds no text"))
}

async fn ask_pod(
    client: &Client,
    namespace: &str,
    pod: &str,
    token: &str,
    wanted: &ClearPlacement,
) -> anyhow::Result<PlacementReport> {
    let path =
        format!("/api/v1/namespaces/{namespace}/pods/{pod}:{CONTROL_PORT}/proxy{CLEAR_PLACEMENT}");
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(TOKEN_HEADER, token)
        .body(serde_json::to_vec(wanted)?)?;
    client.request::<PlacementReport>(request).await.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 401 => anyhow::anyhow!(
            "it does not take the token in the Secret; the worker reads a changed one within a minute"
        ),
        kube::Error::Api(status) if status.code == 403 => {
            anyhow::anyhow!("not allowed: it takes the right to create pods/proxy")
        }
        kube::Error::Api(status) => anyhow::anyhow!("the API server answers {}", status.code),
        _ => anyhow::Error::from(error),
    })
}
