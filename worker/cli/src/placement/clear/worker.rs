//! One worker, by the address of its control API.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use turbine_crds::control::{CLEAR_PLACEMENT, ClearPlacement, PlacementReport};

/// Longer than a worker lets its tasks look.
const PATIENCE: Duration = Duration::from_mins(3);

pub(super) async fn ask(
    url: &str,
    token_file: &Path,
    wanted: &ClearPlacement,
) -> anyhow::Result<PlacementReport> {
    let token = std::fs::read_to_string(token_file).with_context(|| {
        format!(
            "--token-file {}: cannot be read; check the path and its rights",
            token_file.display()
        )
    })?;
    let token = token.trim();
    if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
        anyhow::bail!(
            "--token-file {}: holds no token; a token is one word of visible characters",
            token_file.display()
        );
    }
    // The HTTP client is built without a choice of cryptography of its own.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(PATIENCE).build()?;
    let answer = client
        .post(format!("{}{CLEAR_PLACEMENT}", url.trim_end_matches('/')))
        .bearer_auth(token)
        .json(wanted)
        .send()
        .await
        .with_context(|| format!("--worker {url}: no answer; check the address"))?;
    let status = answer.status();
    if status == reqwest::StatusCode::UNAUTHORIZED {
        anyhow::bail!(
            "--worker {url}: it does not take the token in {}",
            token_file.display()
        );
    }
    let body = answer.bytes().await?;
    if !status.is_success() {
        anyhow::bail!(
            "--worker {url}: it answers {status}: {}",
            String::from_utf8_lossy(&body)
        );
    }
    serde_json::from_slice(&body)
        .with_context(|| format!("--worker {url}: its answer is none of this version"))
}
