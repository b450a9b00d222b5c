//! What a process is told from outside: to stop.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::worker::Worker;

/// Exit code of a process that SIGTERM ended, as shells tell it.
const ENDED_BY_SIGTERM: i32 = 128 + 15;

/// SIGTERM and SIGINT, caught from the first moment on: a signal that comes before somebody listens is lost for the first
/// process of a container, which would then run until it is killed, and ends any other without a drain.
pub(super) struct Signals {
    runtime: Runtime,
    worker: watch::Sender<Option<Arc<Worker>>>,
}

impl Signals {
    /// Call it before anything else is begun.
    pub(super) fn catch() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("control")
            .enable_all()
            .build()?;
        let within = runtime.enter();
        let (terminate, interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        drop(within);
        let (worker, started) = watch::channel(None);
        runtime.spawn(obey(terminate, interrupt, started));
        Ok(Self { runtime, worker })
    }

    /// From now on a signal drains the worker. The runtime is that of all that is told from outside.
    pub(super) fn drain(self, worker: &Arc<Worker>) -> Runtime {
        self.worker.send_replace(Some(Arc::clone(worker)));
        self.runtime
    }
}

async fn obey(
    mut terminate: Signal,
    mut interrupt: Signal,
    started: watch::Receiver<Option<Arc<Worker>>>,
) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let worker = started.borrow().clone();
    if let Some(worker) = worker {
        tracing::info!("told to stop: draining");
        worker.drain();
    } else {
        // Nothing was begun that a drain would end; what is being opened stands as after a crash.
        tracing::info!("told to stop before the worker had started");
        std::process::exit(ENDED_BY_SIGTERM);
    }
}
