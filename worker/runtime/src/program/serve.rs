//! A worker pod, from its files to its exit code.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use turbine_crds::app::OnRecreate;
use turbine_crds::compiled::CompiledApp;
use turbine_kafka::KafkaSettings;
use turbine_protocol::Fault as _;
use turbine_protocol::start::OnForeign;
use turbine_state::checkpoint::Checkpointer;
use turbine_state::{StateBudget, StateVolume};

use super::signals::Signals;
use super::usage::memory_limit;
use super::{Fatal, ServeArguments, logs, watch as file};
use crate::clock::SystemClock;
use crate::config;
use crate::control::server;
use crate::control::token::TokenFile;
use crate::memory::Memory;
use crate::task::Limits;
use crate::worker::{Drained, Manager, Worker, WorkerConfig};

/// Stores that share the budget of state before buffers get small.
const STORES: usize = 32;

pub(super) fn serve(arguments: &ServeArguments) -> Result<ExitCode, Fatal> {
    let signals = Signals::catch()?;
    let app = config::read_app(&arguments.app_file)?;
    logs::start(app.log_level, app.log_format);
    let token = TokenFile::open(&arguments.token_file)?;
    let kafka = config::kafka_settings(&app.kafka, &arguments.kafka_secrets)?;
    let (worker, manager) = start(Start {
        app,
        kafka,
        state_dir: &arguments.state_dir,
        checkpoint_secrets: &arguments.checkpoint_secrets,
        pod: &arguments.pod,
        stop_patience: Duration::from_secs(arguments.stop_patience),
        batch_records: arguments.batch_records,
        memory: Memory::of(memory_limit()),
    })?;
    spawn_watch(&worker, arguments.assignment_file.clone())?;
    until_drained(&worker, manager, signals, token, arguments.listen, |_| {})
}

pub(super) struct Start<'a> {
    pub(super) app: CompiledApp,
    pub(super) kafka: KafkaSettings,
    pub(super) state_dir: &'a Path,
    pub(super) checkpoint_secrets: &'a Path,
    pub(super) pod: &'a str,
    pub(super) stop_patience: Duration,
    pub(super) batch_records: u32,
    pub(super) memory: Memory,
}

pub(super) fn start(start: Start<'_>) -> Result<(Arc<Worker>, Manager), Fatal> {
    let budget = StateBudget::new(start.memory.stores(), STORES)?;
    let volume = StateVolume::open(start.state_dir, budget)?;
    let settings = config::checkpoint_settings(
        &start.app.checkpoints,
        &start.app.app_id.parse()?,
        start.checkpoint_secrets,
    );
    let checkpointer = Checkpointer::open(&settings, start.state_dir)?;
    check(checkpointer.clone())?;
    let on_foreign = match start.app.on_recreate {
        // The operator has deleted the volumes; the offsets at the broker are what is left.
        OnRecreate::Discard => OnForeign::Discard,
        OnRecreate::Adopt | OnRecreate::Refuse => OnForeign::Refuse,
    };
    Ok(Worker::start(WorkerConfig {
        app: start.app,
        pod: start.pod.to_owned(),
        kafka: start.kafka,
        memory: start.memory,
        counts: None,
        volume,
        checkpointer,
        on_foreign,
        stop_patience: start.stop_patience,
        limits: Limits {
            batch_records: usize::try_from(start.batch_records).unwrap_or(usize::MAX),
            ..Limits::default()
        },
        clock: Arc::new(SystemClock::default()),
    })?)
}

/// Tries the rights at the place of checkpoints, on the side: what is missing is known before the first checkpoint, and
/// stops nobody whose state is on the volume.
fn check(checkpointer: Checkpointer) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("checkpoint-rights".to_owned())
        .spawn(move || {
            if let Err(error) = checkpointer.check() {
                tracing::warn!(
                    %error, category = %error.category(), reason = error.reason(),
                    "checkpoints cannot be made as things are"
                );
            }
        })
        .map(|_| ())
}

pub(super) fn spawn_watch(worker: &Arc<Worker>, path: std::path::PathBuf) -> std::io::Result<()> {
    let worker = Arc::clone(worker);
    std::thread::Builder::new()
        .name("assignment".to_owned())
        .spawn(move || file::watch(&worker, &path))
        .map(|_| ())
}

/// Serves the control API until the worker was drained: by a signal, or by somebody else.
pub(super) fn until_drained(
    worker: &Arc<Worker>,
    manager: Manager,
    signals: Signals,
    token: TokenFile,
    listen: SocketAddr,
    on_listen: impl FnOnce(SocketAddr),
) -> Result<ExitCode, Fatal> {
    let runtime = signals.drain(worker);
    let drained = runtime.block_on(async {
        let listener = server::bind(listen).await?;
        on_listen(listener.local_addr()?);
        let (end, mut ended) = watch::channel(false);
        let router = server::router(Arc::clone(worker), token);
        let api = tokio::spawn(server::serve(listener, router, async move {
            // An error says that the sender is gone, which is an end as well.
            let _ = ended.wait_for(|over| *over).await;
        }));
        let drained = tokio::task::spawn_blocking(move || manager.wait()).await?;
        end.send_replace(true);
        match tokio::time::timeout(Duration::from_secs(1), api).await {
            Ok(served) => served??,
            Err(_) => tracing::debug!("a client of the control API held on to its connection"),
        }
        Ok::<Drained, Fatal>(drained)
    })?;
    runtime.shutdown_background();
    Ok(match drained {
        Drained::Whole => ExitCode::SUCCESS,
        Drained::Unfinished | Drained::Overdue => ExitCode::FAILURE,
    })
}
