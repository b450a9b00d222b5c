use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ObjectMeta;

use super::Blueprint;
use crate::app::names;

/// An account of its own, so that rights given to some default account never reach workers. They
/// need none: they do not call the API.
pub(super) fn build(of: &Blueprint<'_>) -> ServiceAccount {
    ServiceAccount {
        metadata: ObjectMeta {
            name: Some(names::service_account(of.app.name().as_str())),
            ..metadata(of)
        },
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// Namespace, labels and owner of every child.
pub(super) fn metadata(of: &Blueprint<'_>) -> ObjectMeta {
    metadata_of(of.app.namespace(), of.app.name().as_str(), of.uid)
}

pub(super) fn metadata_of(namespace: &str, app: &str, uid: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        labels: Some(names::labels(app)),
        owner_references: Some(vec![names::owner(app, uid)]),
        ..ObjectMeta::default()
    }
}
