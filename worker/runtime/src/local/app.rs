use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use turbine_crds::app::TurbineApp;
use turbine_crds::rules::{FieldError, validate};
use turbine_crds::validated::ValidatedApp;

const API_VERSION: &str = "turbine.dev/v1alpha1";

/// A file from which no app can be run.
#[derive(Debug, Error)]
pub enum AppFileError {
    /// Not readable.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// Not a `TurbineApp`.
    #[error("{path} holds no TurbineApp that can be read: {detail}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        detail: String,
    },
    /// Not exactly one.
    #[error("{path} holds {found} TurbineApps; exactly one can be run", path = path.display())]
    Count {
        /// The file.
        path: PathBuf,
        /// How many it holds.
        found: usize,
    },
    /// Refused by the rules of the resource.
    #[error("{path} is refused:{}", list(faults), path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All broken rules.
        faults: Vec<FieldError>,
    },
}

fn list(faults: &[FieldError]) -> String {
    faults.iter().map(|fault| format!("\n  {fault}")).collect()
}

/// Reads and checks the one `TurbineApp` in a file; documents of other kinds are left alone.
///
/// # Errors
/// If there is not exactly one, or it breaks a rule.
pub fn load(path: &Path) -> Result<ValidatedApp, AppFileError> {
    let text = std::fs::read_to_string(path).map_err(|source| AppFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    let parse = |error: serde_yaml::Error| AppFileError::Parse {
        path: path.to_owned(),
        detail: error.to_string(),
    };
    let mut apps = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let value = serde_yaml::Value::deserialize(document).map_err(parse)?;
        if value.get("kind").and_then(serde_yaml::Value::as_str) == Some("TurbineApp") {
            apps.push(value);
        }
    }
    let found = apps.len();
    let Some(app) = apps.pop().filter(|_| found == 1) else {
        return Err(AppFileError::Count {
            path: path.to_owned(),
            found,
        });
    };
    let version = app.get("apiVersion").and_then(serde_yaml::Value::as_str);
    if version != Some(API_VERSION) {
        return Err(AppFileError::Parse {
            path: path.to_owned(),
            detail: format!(
                "its apiVersion is `{}`; write {API_VERSION}",
                version.unwrap_or_default()
            ),
        });
    }
    let app: TurbineApp = serde_yaml::from_value(app).map_err(parse)?;
    validate(&app).map_err(|faults| AppFileError::Invalid {
        path: path.to_owned(),
        faults,
    })
}
