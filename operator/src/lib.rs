//! The control plane: turns a `TurbineApp` into topics, a `StatefulSet` of workers and an assignment.
//!
//! A pass over an app is [`app::pass`]; [`run`] decides when passes happen.

pub mod app;
pub mod cluster;
mod controller;
mod health;
pub mod kafka;
mod leader;
pub mod metrics;
mod schema;
pub mod settings;
pub mod signals;
pub mod words;
pub mod workers;

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use crate::app::{Memory, Outcome, PassError, Peers, World};
use crate::cluster::LiveCluster;
use crate::controller::Stores;
use crate::health::Health;
use crate::kafka::LiveKafka;
use crate::leader::Leadership;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::signals::LiveSignals;
use crate::workers::HttpWorkers;

/// Why the operator ended.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error("the HTTP client for the workers cannot be set up: {0}")]
    Workers(#[from] reqwest::Error),
    #[error("the address for health and metrics cannot be used: {0}")]
    Health(#[from] std::io::Error),
    #[error("the lease can be neither read nor made, check the operator's role: {0}")]
    Lease(#[from] kube_lease_manager::LeaseManagerError),
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
}

/// The lease was lost, or its manager gave up.
#[derive(Debug, thiserror::Error)]
#[error("the lease was lost: this process ends, so that it acts no more")]
pub struct LeaseLost;

/// Watches and acts until the process is asked to stop or loses its lease.
///
/// # Errors
/// If something that the operator cannot work without is missing.
pub async fn run(client: Client, settings: Settings) -> Result<(), OperatorError> {
    let metrics = Metrics::new();
    let health = Health::new();
    let identity = settings
        .identity
        .clone()
        .unwrap_or_else(|| format!("turbine-operator-{}", Uuid::new_v4().simple()));
    let stores = Stores::default();
    let world = world(
        client.clone(),
        &identity,
        Arc::clone(&metrics),
        Arc::new(stores.clone()),
        settings.worker_image.clone(),
    )?;

    let serving = health::serve(
        settings.metrics_addr,
        Arc::clone(&health),
        Arc::clone(&metrics),
    );
    let working = work(client, &settings, &identity, world, stores, health, metrics);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        ended = serving => ended.map_err(OperatorError::from),
        ended = working => ended,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn work(
    client: Client,
    settings: &Settings,
    identity: &str,
    world: World,
    stores: Stores,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> Result<(), OperatorError> {
    schema::wait(&client, &health, &metrics).await;
    let mut leadership = if settings.no_lease {
        None
    } else {
        let mut leadership = Leadership::seek(client.clone(), settings, identity).await?;
        tracing::info!(lease = %settings.lease_name, identity, "waiting for the lease");
        leadership.won().await?;
        Some(leadership)
    };
    metrics.leader(true);
    tracing::info!(identity, "acting");
    let acting = controller::run(client, &settings.namespaces, world, stores, health, metrics);
    match &mut leadership {
        None => {
            acting.await;
            Ok(())
        }
        Some(leadership) => {
            tokio::select! {
                () = acting => Ok(()),
                lost = leadership.lost() => Err(lost.into()),
            }
        }
    }
}

/// The real world, as passes see it.
///
/// # Errors
/// If the HTTP client for the workers cannot be set up.
pub fn world(
    client: Client,
    identity: &str,
    metrics: Arc<Metrics>,
    peers: Arc<dyn Peers>,
    default_image: Option<String>,
) -> Result<World, reqwest::Error> {
    let recorder = Recorder::new(
        client.clone(),
        Reporter {
            controller: "turbine-operator".to_owned(),
            instance: Some(identity.to_owned()),
        },
    );
    Ok(World {
        cluster: Arc::new(LiveCluster::new(client)),
        kafka: Arc::new(LiveKafka::new()),
        workers: Arc::new(HttpWorkers::new()?),
        peers,
        signals: Arc::new(LiveSignals::new(recorder, metrics)),
        default_image,
        clock: Timestamp::now,
        memory: Memory::default(),
    })
}

/// One pass over one app, as the controller would make it: for tests that stop an operator after
/// any of its calls and let a fresh one go on.
///
/// # Errors
/// If the API server does not answer.
pub async fn reconcile_once(
    world: &World,
    namespace: &str,
    name: &str,
) -> Result<Outcome, PassError> {
    app::pass(world, namespace, name).await
}
