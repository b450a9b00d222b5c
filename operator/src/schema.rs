//! The installed CRD: whether it is there, and whether it knows all fields that this operator knows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use kube::{Client, CustomResourceExt as _};
use serde_json::Value;
use turbine_crds::app::TurbineApp;

use crate::health::Health;
use crate::metrics::Metrics;

const RETRY: Duration = Duration::from_secs(5);

/// Waits until the CRD is served, and says if it is older than the operator.
pub(crate) async fn wait(client: &Client, health: &Arc<Health>, metrics: &Arc<Metrics>) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = TurbineApp::crd_name();
    let mut said = false;
    loop {
        match api.get_opt(name).await {
            Ok(Some(served)) if established(&served) => {
                metrics.crd_missing(false);
                let missing = lacks(&served);
                metrics.schema_old(!missing.is_empty());
                if !missing.is_empty() {
                    tracing::warn!(
                        fields = %missing.join(", "),
                        "the installed CRD {name} is older than this operator and drops fields that it does not know: apply the CRD of this release"
                    );
                }
                health.crd(true);
                return;
            }
            // Without the right to read CRDs the watches tell whether it is there.
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                tracing::info!("CRDs may not be read: the installed schema is not compared");
                health.crd(true);
                return;
            }
            Ok(_) => {
                metrics.crd_missing(true);
                if !said {
                    tracing::warn!("the CRD {name} is not installed; waiting for it");
                    said = true;
                }
            }
            Err(error) => tracing::warn!(%error, "the API server cannot be asked for the CRD"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn established(crd: &CustomResourceDefinition) -> bool {
    crd.status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .is_some_and(|conditions| {
            conditions
                .iter()
                .any(|of| of.type_ == "Established" && of.status == "True")
        })
}

/// Fields that this operator knows and the served schema does not.
fn lacks(served: &CustomResourceDefinition) -> Vec<String> {
    let known = fields(&TurbineApp::crd());
    let served = fields(served);
    known.difference(&served).cloned().collect()
}

fn fields(crd: &CustomResourceDefinition) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for version in crd
        .spec
        .versions
        .iter()
        .filter(|version| version.name == "v1alpha1")
    {
        let schema = version
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.as_ref());
        if let Some(schema) = schema.and_then(|schema| serde_json::to_value(schema).ok()) {
            walk(&schema, "", &mut found);
        }
    }
    found
}

fn walk(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, schema) in properties {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            walk(schema, &path, found);
            found.insert(path);
        }
    }
    if let Some(items) = schema.get("items") {
        walk(items, path, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_taken_out_of_the_served_schema_is_named() {
        let mut served = TurbineApp::crd();
        assert_eq!(lacks(&served), Vec::<String>::new());
        let schema = served.spec.versions[0].schema.as_mut().unwrap();
        let schema = schema.open_api_v3_schema.as_mut().unwrap();
        let status = schema
            .properties
            .as_mut()
            .unwrap()
            .get_mut("status")
            .unwrap();
        status.properties.as_mut().unwrap().remove("layout");
        let missing = lacks(&served);
        assert!(missing.contains(&"status.layout".to_owned()), "{missing:?}");
        assert!(
            missing
                .iter()
                .all(|field| field.starts_with("status.layout")),
            "{missing:?}"
        );
    }
}
