use serde_json::{Value, json};
use turbine_crds::status::LayoutStatus;

use super::{Blueprint, BuildError};
use crate::app::names;

/// What a claim says about the state on its volume, so that an app made anew, or one whose status
/// was lost, knows what it finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provision {
    pub lineage: String,
    pub layout: Option<LayoutStatus>,
    pub app_uid: Option<String>,
}

impl Provision {
    /// Reads it from a claim; `None` if the claim says nothing.
    pub fn read(claim: &Value) -> Option<Self> {
        let annotation = |name: &str| {
            claim
                .get("metadata")?
                .get("annotations")?
                .get(name)?
                .as_str()
                .map(str::to_owned)
        };
        Some(Self {
            lineage: annotation(names::LINEAGE)?,
            layout: annotation(names::LAYOUT).and_then(|text| serde_json::from_str(&text).ok()),
            app_uid: annotation(names::APP_UID),
        })
    }
}

/// The annotations that every claim of the layout carries.
///
/// # Errors
/// If the layout cannot be written as JSON.
pub fn claim_marks(of: &Blueprint<'_>) -> Result<Value, BuildError> {
    Ok(json!({
        "metadata": {
            "annotations": {
                names::LINEAGE: of.layout.lineage,
                names::LAYOUT: serde_json::to_string(of.layout)?,
                names::APP_UID: of.uid,
            },
            "labels": { names::APP: of.app.name().as_str(), names::APP_ID: of.app.app_id().as_str() },
        }
    }))
}
