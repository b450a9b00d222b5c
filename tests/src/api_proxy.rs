//! A way to the API server that sees every call of an operator, and can stop answering after any of them: the server has
//! carried the call out, and the caller never learns of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// More than the API server takes.
const LARGEST_REQUEST: usize = 8 << 20;

/// A call that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub method: Method,
    pub path: String,
    pub status: StatusCode,
}

impl Write {
    /// Leader election and events: about the operator, not about an app.
    pub fn is_bookkeeping(&self) -> bool {
        self.path.contains("/leases") || self.path.contains("/events")
    }
}

#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    writes: Vec<Write>,
    /// Writes that are answered before the silence begins; none: all.
    answered: Option<usize>,
}

#[derive(Clone)]
struct Shared {
    client: Client,
    seen: Arc<Mutex<Seen>>,
    silent: watch::Sender<bool>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The proxy; it ends with the runtime of its test.
pub struct ApiProxy {
    address: SocketAddr,
    shared: Shared,
    server: tokio::task::JoinHandle<()>,
}

impl std::fmt::Debug for ApiProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiProxy")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ApiProxy {
    /// Listens on a local port and passes calls on as `client`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(client: Client) -> Result<Self> {
        let (silent, _) = watch::channel(false);
        let shared = Shared {
            client,
            seen: Arc::default(),
            silent,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = axum::Router::new()
            .fallback(pass_on)
            .with_state(shared.clone());
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                crate::diagnostics::say(&format!("the proxy ended: {error}"));
            }
        });
        Ok(Self {
            address,
            shared,
            server,
        })
    }

    /// Writes a kubeconfig that leads through the proxy.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn kubeconfig(&self, folder: &Path) -> Result<PathBuf> {
        let file = folder.join("proxy.kubeconfig");
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        });
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }

    /// Forgets all calls and answers again.
    pub fn reset(&self) {
        *self.shared.seen() = Seen::default();
        self.shared.silent.send_replace(false);
    }

    /// From the given number of writes (bookkeeping not counted) on, nothing is answered any more: the last of them is
    /// carried out and its answer withheld.
    pub fn fall_silent_at_write(&self, number: usize) {
        self.shared.seen().answered = Some(number.saturating_sub(1));
    }

    /// Waits until the silence has begun.
    ///
    /// # Errors
    /// The proxy has ended.
    pub async fn silence(&self) -> Result<()> {
        self.shared
            .silent
            .subscribe()
            .wait_for(|silent| *silent)
            .await?;
        Ok(())
    }

    pub fn traffic(&self) -> Traffic {
        let seen = self.shared.seen();
        let bookkeeping = seen
            .writes
            .iter()
            .filter(|write| write.is_bookkeeping())
            .count();
        Traffic {
            requests: seen.requests,
            writes: seen.writes.len() - bookkeeping,
            bookkeeping,
        }
    }

    /// All writes since the start or the last reset, bookkeeping left out.
    pub fn writes(&self) -> Vec<Write> {
        self.shared
            .seen()
            .writes
            .iter()
            .filter(|write| !write.is_bookkeeping())
            .cloned()
            .collect()
    }
}

/// All calls since the start or the last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Every request, a watch counted once.
    pub requests: u64,
    /// Writes about apps.
    pub writes: usize,
    /// Writes of the Lease and of events.
    pub bookkeeping: usize,
}

async fn pass_on(State(shared): State<Shared>, request: Request) -> Response {
    if *shared.silent.borrow() {
        return std::future::pending().await;
    }
    shared.seen().requests += 1;
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let (mut parts, body) = request.into_parts();
    // the client sets its own
    parts.headers.remove(axum::http::header::HOST);
    let body = match axum::body::to_bytes(body, LARGEST_REQUEST).await {
        Ok(body) => body,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let request = axum::http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    let response = match shared.client.send(request).await {
        Ok(response) => response.map(Body::new),
        Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    if matches!(
        method,
        Method::POST | Method::PUT | Method::PATCH | Method::DELETE
    ) {
        let write = Write {
            method,
            path,
            status: response.status(),
        };
        let counted = !write.is_bookkeeping();
        let begins = {
            let mut seen = shared.seen();
            seen.writes.push(write);
            let count = seen
                .writes
                .iter()
                .filter(|write| !write.is_bookkeeping())
                .count();
            counted && seen.answered.is_some_and(|answered| count > answered)
        };
        if begins {
            shared.silent.send_replace(true);
        }
    }
    if *shared.silent.borrow() {
        return std::future::pending().await;
    }
    response
}
