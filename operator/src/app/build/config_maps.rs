use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde::Serialize;
use turbine_crds::assignment::ASSIGNMENT_FILE;
use turbine_crds::compiled::COMPILED_APP_FILE;

use super::service_account::metadata;
use super::{Blueprint, BuildError};
use crate::app::names;

/// What the workers are to do.
pub(super) fn app(of: &Blueprint<'_>) -> Result<ConfigMap, BuildError> {
    file(
        of,
        names::app_config(of.app.name().as_str()),
        COMPILED_APP_FILE,
        of.app.compiled(),
    )
}

/// Which worker does what.
pub(super) fn assignment(of: &Blueprint<'_>) -> Result<ConfigMap, BuildError> {
    file(
        of,
        names::assignment_config(of.app.name().as_str()),
        ASSIGNMENT_FILE,
        of.document,
    )
}

fn file(
    of: &Blueprint<'_>,
    name: String,
    file: &str,
    content: &impl Serialize,
) -> Result<ConfigMap, BuildError> {
    Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name),
            ..metadata(of)
        },
        data: Some([(file.to_owned(), serde_json::to_string(content)?)].into()),
        ..ConfigMap::default()
    })
}
