//! `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::metrics::Metrics;

/// The controller's stream beats every few seconds; without a beat for this long it is stuck.
const STILL: Duration = Duration::from_mins(1);

/// Whether the operator lives and is ready.
#[derive(Debug)]
pub(crate) struct Health {
    began: Instant,
    /// Milliseconds after `began` of the last beat.
    beat: AtomicU64,
    beating: AtomicBool,
    crd: AtomicBool,
    synced: AtomicBool,
}

impl Health {
    #[must_use]
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            beat: AtomicU64::new(0),
            beating: AtomicBool::new(false),
            crd: AtomicBool::new(false),
            synced: AtomicBool::new(false),
        })
    }

    /// The controller's stream moves.
    pub(crate) fn beat(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.beat.store(now, Ordering::Relaxed);
        self.beating.store(true, Ordering::Relaxed);
    }

    pub(crate) fn crd(&self, there: bool) {
        self.crd.store(there, Ordering::Relaxed);
    }

    /// The caches hold what the API server has.
    pub(crate) fn synced(&self) {
        self.synced.store(true, Ordering::Relaxed);
    }

    fn lives(&self) -> bool {
        // Before the first beat the operator waits for its lease or for the CRD, which is no fault.
        !self.beating.load(Ordering::Relaxed)
            || self
                .began
                .elapsed()
                .saturating_sub(Duration::from_millis(self.beat.load(Ordering::Relaxed)))
                < STILL
    }

    /// Why the operator is not ready, if it is not. One that waits for the lease is ready: it would take over.
    fn not_ready(&self) -> Option<&'static str> {
        if !self.crd.load(Ordering::Relaxed) {
            Some(
                "the TurbineApp CRD is not installed; apply it (the chart does), the operator goes on by itself",
            )
        } else if self.beating.load(Ordering::Relaxed) && !self.synced.load(Ordering::Relaxed) {
            Some("the caches are being filled")
        } else {
            None
        }
    }
}

#[derive(Debug, Clone)]
struct Shared {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// Serves until the process ends.
///
/// # Errors
/// If the address cannot be used.
pub(crate) async fn serve(
    address: SocketAddr,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(figures))
        .with_state(Shared { health, metrics });
    let listener = tokio::net::TcpListener::bind(address).await?;
    axum::serve(listener, router).await
}

async fn healthz(State(shared): State<Shared>) -> Response {
    if shared.health.lives() {
        "ok\n".into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the controller's stream stands still\n",
        )
            .into_response()
    }
}

async fn readyz(State(shared): State<Shared>) -> Response {
    match shared.health.not_ready() {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn figures(State(shared): State<Shared>) -> Response {
    match shared.metrics.text() {
        Ok(text) => (
            [(
                CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
