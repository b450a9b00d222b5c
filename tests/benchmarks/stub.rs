//! The control API of workers that do not exist: one listener on every address of the fake pods' network. It runs whatever
//! it is told to.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::extract::State;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::http::StatusCode;
use axum::routing::{get, put};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use tokio::net::TcpListener;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::compiled::CONTROL_PORT;
use turbine_crds::control::{ASSIGNMENT, STATUS, TaskState, TaskStatus, Verdict, WorkerStatus};
use turbine_tests::process;

/// Addresses that kwok gives to pods.
const NETWORK: &str = "10.245.0.0/16";

#[derive(Clone, Copy)]
struct Pod(IpAddr);

impl Connected<IncomingStream<'_, TcpListener>> for Pod {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        // a connection without a local end has been closed; nobody reads its answer
        Self(
            stream
                .io()
                .local_addr()
                .map_or(IpAddr::from([0, 0, 0, 0]), |address| address.ip()),
        )
    }
}

type Documents = Arc<Mutex<HashMap<IpAddr, AssignmentDocument>>>;

/// Answers until the process ends.
pub(crate) async fn serve() -> Result<()> {
    process::run(Command::new("ip").args(["route", "replace", "local", NETWORK, "dev", "lo"]))?;
    let documents = Documents::default();
    let router = Router::new()
        .route(STATUS, get(status))
        .route(ASSIGNMENT, put(assign))
        .with_state(documents);
    let listener = TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], CONTROL_PORT))).await?;
    axum::serve(
        listener,
        router.into_make_service_with_connect_info::<Pod>(),
    )
    .await?;
    Ok(())
}

async fn assign(
    State(documents): State<Documents>,
    ConnectInfo(pod): ConnectInfo<Pod>,
    Json(document): Json<AssignmentDocument>,
) -> StatusCode {
    documents
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(pod.0, document);
    StatusCode::OK
}

async fn status(
    State(documents): State<Documents>,
    ConnectInfo(pod): ConnectInfo<Pod>,
) -> Json<WorkerStatus> {
    let document = documents
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&pod.0)
        .cloned();
    let tasks = document.as_ref().map_or_else(Vec::new, |document| {
        let run = |task: &turbine_crds::assignment::AssignedTask| TaskStatus {
            subscription: task.subscription.clone(),
            partition: task.partition,
            store_epoch: task.store_epoch,
            state: TaskState::Running,
            position: Some(0),
            end_offset: Some(0),
            frontier_ms: None,
            records: 0,
            dead_letters: 0,
            late_rows: 0,
            placement: Verdict::Unknown,
            misplaced: 0,
            misplaced_first: None,
            restored_percent: None,
            missing: None,
            open_transaction: None,
            checkpoint: None,
            halt: None,
        };
        document.tasks.iter().map(run).collect()
    });
    Json(WorkerStatus {
        pod: document
            .as_ref()
            .and_then(|document| document.tasks.first())
            .map(|task| task.pod.clone())
            .unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        app_id: document
            .as_ref()
            .map(|document| document.app_id.clone())
            .unwrap_or_default(),
        epoch: document.map(|document| document.epoch),
        draining: false,
        tasks,
        rescale: None,
    })
}
