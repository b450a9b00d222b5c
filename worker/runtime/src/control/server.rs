//! The control API over HTTP. Everything but the two health checks asks for the token.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use tokio::net::TcpListener;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::control::{
    ASSIGNMENT, CLEAR_PLACEMENT, ClearPlacement, HEALTHZ, METRICS, READYZ, STATUS, TOKEN_HEADER,
};

use super::assignment::{AssignmentRefusal, Verdict};
use super::health::{self, Answer};
use super::token::TokenFile;
use crate::worker::Worker;

#[derive(Debug, Clone)]
struct Api {
    worker: Arc<Worker>,
    token: Arc<TokenFile>,
}

/// The routes of the control API.
pub fn router(worker: Arc<Worker>, token: TokenFile) -> Router {
    let api = Api {
        worker,
        token: Arc::new(token),
    };
    let guarded = Router::new()
        .route(METRICS, get(metrics))
        .route(STATUS, get(status))
        .route(ASSIGNMENT, put(assign))
        .route(CLEAR_PLACEMENT, post(clear_placement))
        .route_layer(middleware::from_fn_with_state(api.clone(), admit));
    Router::new()
        .route(HEALTHZ, get(healthz))
        .route(READYZ, get(readyz))
        .merge(guarded)
        .with_state(api)
}

/// A socket for the control API.
///
/// # Errors
/// If the address cannot be had.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "control API");
    Ok(listener)
}

/// Serves the control API until `until` is over.
///
/// # Errors
/// If the socket fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    until: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(until)
        .await
}

/// The token of a request, as an `Authorization` header carries it.
fn bearer(request: &Request) -> Option<String> {
    let header = |name: &str| request.headers().get(name)?.to_str().ok();
    header(header::AUTHORIZATION.as_str())
        .map(str::to_owned)
        .or_else(|| Some(format!("Bearer {}", header(TOKEN_HEADER)?)))
}

async fn admit(State(api): State<Api>, request: Request, next: Next) -> Response {
    if api.token.admits(bearer(&request).as_deref()) {
        return next.run(request).await;
    }
    api.worker.metrics().count_unauthorized();
    let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
    (
        StatusCode::UNAUTHORIZED,
        challenge,
        "send the control token: Authorization: Bearer TOKEN\n",
    )
        .into_response()
}

fn check(answer: Answer) -> Response {
    let code = if answer.good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (code, answer.body).into_response()
}

async fn healthz(State(api): State<Api>) -> Response {
    check(health::liveness(&api.worker.views()))
}

async fn readyz(State(api): State<Api>) -> Response {
    let worker = &api.worker;
    check(health::readiness(
        worker.epoch(),
        worker.draining(),
        &worker.views(),
    ))
}

async fn metrics(State(api): State<Api>) -> Response {
    match api.worker.metrics_text() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn status(State(api): State<Api>) -> Response {
    Json(api.worker.status()).into_response()
}

async fn clear_placement(
    State(api): State<Api>,
    wanted: Result<Json<ClearPlacement>, JsonRejection>,
) -> Response {
    let Json(wanted) = match wanted {
        Ok(wanted) => wanted,
        Err(rejection) => return (StatusCode::BAD_REQUEST, rejection.body_text()).into_response(),
    };
    // The tasks answer between two batches, and reading a large store takes its time.
    let looked = tokio::task::spawn_blocking(move || api.worker.clear_placement(&wanted));
    match looked.await {
        Ok(report) => Json(report).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn assign(
    State(api): State<Api>,
    document: Result<Json<AssignmentDocument>, JsonRejection>,
) -> Response {
    let Json(document) = match document {
        Ok(document) => document,
        Err(rejection) => return (StatusCode::BAD_REQUEST, rejection.body_text()).into_response(),
    };
    match api.worker.offer(document) {
        Ok(Verdict::Same) => (StatusCode::OK, "this assignment runs already\n").into_response(),
        Ok(Verdict::Take) => (StatusCode::ACCEPTED, "taken\n").into_response(),
        Err(refusal) => {
            let code = match refusal {
                AssignmentRefusal::Malformed { .. } => StatusCode::BAD_REQUEST,
                AssignmentRefusal::OtherApp { .. }
                | AssignmentRefusal::OtherLineage { .. }
                | AssignmentRefusal::Old { .. }
                | AssignmentRefusal::Conflict { .. } => StatusCode::CONFLICT,
            };
            (code, format!("{refusal}\n")).into_response()
        }
    }
}
