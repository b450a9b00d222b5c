use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::compiled::CONTROL_PORT;
use turbine_crds::control::{ASSIGNMENT, RESCALE, RescaleDocument, STATUS, WorkerStatus};

use super::{ControlToken, WorkerAnswer, WorkerTarget, WorkersView};

/// A worker answers from memory; a slower one is stuck or out of reach.
const DEADLINE: Duration = Duration::from_secs(2);

/// Speaks HTTP to the pods' addresses.
#[derive(Debug, Clone)]
pub struct HttpWorkers {
    client: reqwest::Client,
}

impl HttpWorkers {
    /// # Errors
    /// If the HTTP client cannot be set up.
    pub fn new() -> Result<Self, reqwest::Error> {
        // The HTTP client is built without a choice of cryptography of its own.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(DEADLINE)
            // Pods are asked directly, and rarely: idle connections would only hold memory.
            .no_proxy()
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self { client })
    }
}

impl HttpWorkers {
    async fn put(
        &self,
        target: &WorkerTarget,
        token: &ControlToken,
        path: &str,
        document: &impl Serialize,
    ) -> Result<(), String> {
        let answer = self
            .client
            .put(url(target, path))
            .bearer_auth(token.reveal())
            .json(document)
            .send()
            .await
            .map_err(|error| error.without_url().to_string())?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let body = answer.text().await.unwrap_or_default();
        Err(format!("{status} {body}").trim().to_owned())
    }
}

fn url(target: &WorkerTarget, path: &str) -> String {
    let host = if target.ip.contains(':') {
        format!("[{}]", target.ip)
    } else {
        target.ip.clone()
    };
    format!("http://{host}:{CONTROL_PORT}{path}")
}

#[async_trait]
impl WorkersView for HttpWorkers {
    async fn status(&self, target: &WorkerTarget, token: &ControlToken) -> WorkerAnswer {
        let asked = async {
            self.client
                .get(url(target, STATUS))
                .bearer_auth(token.reveal())
                .send()
                .await?
                .error_for_status()?
                .json::<WorkerStatus>()
                .await
        };
        match asked.await {
            Ok(status) => WorkerAnswer::Status(Box::new(status)),
            Err(error) => WorkerAnswer::Silent(error.without_url().to_string()),
        }
    }

    async fn push(
        &self,
        target: &WorkerTarget,
        token: &ControlToken,
        document: &AssignmentDocument,
    ) -> Result<(), String> {
        self.put(target, token, ASSIGNMENT, document).await
    }

    async fn tell(
        &self,
        target: &WorkerTarget,
        token: &ControlToken,
        document: &RescaleDocument,
    ) -> Result<(), String> {
        self.put(target, token, RESCALE, document).await
    }
}
