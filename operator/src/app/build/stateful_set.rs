use serde_json::{Value, json};

use super::service_account::metadata;
use super::{Blueprint, BuildError, pod};
use crate::app::names;

/// The worker pods with their volumes.
pub(super) fn build(of: &Blueprint<'_>) -> Result<Value, BuildError> {
    let mut metadata = serde_json::to_value(metadata(of))?;
    metadata["name"] = json!(names::stateful_set(of.app.name().as_str()));
    Ok(json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "replicas": of.replicas,
            "serviceName": names::service(of.app.name().as_str()),
            // Workers do not wait for each other: each has its own tasks.
            "podManagementPolicy": "Parallel",
            "updateStrategy": { "type": "RollingUpdate" },
            // Volumes hold state: only the operator deletes them, by uid, and only when the spec asks.
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": "Retain" },
            "revisionHistoryLimit": 5,
            "selector": { "matchLabels": names::selector(of.app.name().as_str()) },
            "template": pod::template(of)?,
            "volumeClaimTemplates": [claim_template(of)],
        }
    }))
}

/// Immutable once made; the volume's size apart, nothing in it may depend on what can change in the
/// life of an app.
fn claim_template(of: &Blueprint<'_>) -> Value {
    let mut labels = names::labels(of.app.name().as_str());
    labels.insert(names::APP_ID.to_owned(), of.app.app_id().to_string());
    let mut template = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names::VOLUME,
            "labels": labels,
            "annotations": { names::LINEAGE: of.layout.lineage, names::APP_UID: of.uid },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "resources": { "requests": { "storage": of.volume_size } },
        }
    });
    if let Some(class) = of.app.volume().storage_class() {
        template["spec"]["storageClassName"] = json!(class);
    }
    template
}
