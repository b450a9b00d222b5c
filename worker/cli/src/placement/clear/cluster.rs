//! The workers of an app in a cluster, asked through the API server: no port of a pod has to be reachable from here.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config, ResourceExt as _};
use turbine_crds::app::TurbineApp;
use turbine_crds::compiled::CONTROL_PORT;
use turbine_crds::control::{
    CLEAR_PLACEMENT, ClearPlacement, PlacementReport, TOKEN_HEADER, TOKEN_KEY, TOKEN_SUFFIX,
};

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
        .context("the API server does not answer as it should")?
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
        let found = ask_pod(&client, &namespace, &pod.name_any(), &token, wanted)
            .await
            .with_context(|| format!("pod {}", pod.name_any()))?;
        report.tasks.extend(found.tasks);
    }
    report.tasks.sort_by(|one, other| {
        (&one.subscription, one.partition).cmp(&(&other.subscription, other.partition))
    });
    Ok(report)
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
    client
        .request::<PlacementReport>(request)
        .await
        .context("cannot be asked (it takes the right to create pods/proxy, and a pod that runs)")
}
