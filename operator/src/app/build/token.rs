use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde_json::Value;
use turbine_crds::control::TOKEN_KEY;

use super::service_account::metadata_of;
use super::{Blueprint, BuildError, Built, built};
use crate::app::names;
use crate::cluster::Kind;
use crate::workers::ControlToken;

/// The Secret with the control API's token, made from 32 random bytes. It is created, never
/// applied: an apply with new bytes would cut off the workers that hold the old ones.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn token_secret(
    namespace: &str,
    app: &str,
    uid: &str,
    random: [u8; 32],
) -> Result<Built, BuildError> {
    let mut secret = marks(namespace, app, uid);
    let text = URL_SAFE_NO_PAD.encode(random);
    secret.type_ = Some("Opaque".to_owned());
    secret.data = Some([(TOKEN_KEY.to_owned(), ByteString(text.into_bytes()))].into());
    Ok(Built {
        kind: Kind::Secret,
        name: names::token_secret(app),
        object: serde_json::to_value(&secret)?,
    })
}

/// Labels and owner of the token's Secret: the part that is applied.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn token_secret_marks(of: &Blueprint<'_>) -> Result<Built, BuildError> {
    let secret = marks(of.app.namespace(), of.app.name().as_str(), of.uid);
    built(Kind::Secret, &secret)
}

fn marks(namespace: &str, app: &str, uid: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(names::token_secret(app)),
            ..metadata_of(namespace, app, uid)
        },
        ..Secret::default()
    }
}

/// The token in a Secret read back, if it holds one.
pub fn token(secret: &Value) -> Option<ControlToken> {
    let encoded = secret.pointer("/data/token")?.as_str()?;
    let bytes = STANDARD.decode(encoded).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    (!text.is_empty()).then(|| ControlToken::new(text))
}
