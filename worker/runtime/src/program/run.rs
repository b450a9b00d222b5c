//! A whole app on one machine: what the operator does is done here, and what runs is the same.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use turbine_crds::app::ProcessingGuarantee;
use turbine_crds::assignment::{ASSIGNMENT_FILE, AssignmentDocument};
use turbine_crds::compiled::CompiledApp;
use turbine_crds::control::TaskState;
use turbine_kafka::{EmbeddedBroker, KafkaSettings};
use turbine_keygroups::RawPartitionCount;
use uuid::Uuid;

use super::serve::{Start, spawn_watch, start, until_drained};
use super::signals::Signals;
use super::usage::{Usage, memory_limit};
use super::{Fatal, RunArguments, logs};
use crate::config;
use crate::control::token::TokenFile;
use crate::local::{
    Generator, LOCAL_POD, Patience, Topics, load, next_document, print_results, waiting,
};
use crate::memory::Memory;
use crate::task::StopSignal;
use crate::worker::Worker;

/// Folder of an embedded broker's state: both begin anew at every run.
const EMBEDDED_STATE: &str = "embedded";
const TOKEN_FILE: &str = "control.token";

pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, Fatal> {
    let signals = Signals::catch()?;
    let validated = load(&arguments.app)?;
    let mut app = validated.compiled().clone();
    app.allow_non_divisor_partitions |= arguments.allow_non_divisor_partitions;
    logs::start(app.log_level, app.log_format);
    let broker = if arguments.embedded_broker {
        Some(EmbeddedBroker::start()?)
    } else {
        None
    };
    if let Some(address) = broker
        .as_ref()
        .map(EmbeddedBroker::bootstrap_servers)
        .or(arguments.bootstrap.as_deref())
    {
        address.clone_into(&mut app.kafka.bootstrap_servers);
    }
    if broker.is_some() {
        refuse_exactly_once(&app)?;
    }
    let state_dir = state_dir(arguments)?;
    let (kafka, counts) = match &broker {
        Some(broker) => {
            say(&format!(
                "embedded broker at {} (other clients on this machine reach it there; it forgets \
                 everything when this process ends)",
                broker.bootstrap_servers()
            ));
            let default = RawPartitionCount::try_from(arguments.input_partitions)?;
            (
                broker.settings()?,
                Topics::Embedded(broker, default).prepare(&app, Patience::default(), waiting)?,
            )
        }
        None => {
            let kafka = config::kafka_settings(&app.kafka, &arguments.kafka_secrets)?;
            let counts = Topics::Cluster(&kafka).prepare(&app, Patience::default(), waiting)?;
            (kafka, counts)
        }
    };
    let assignment = state_dir.join(ASSIGNMENT_FILE);
    let document = next_document(&app.app_id, &counts, kept(&assignment)?, Uuid::new_v4)?;
    write(
        &assignment,
        serde_json::to_string_pretty(&document)?.as_bytes(),
    )?;
    let token = token(&state_dir)?;

    let helpers = Helpers::start(arguments, &kafka, &app)?;
    let (worker, manager) = start(Start {
        app,
        kafka,
        state_dir: &state_dir,
        checkpoint_secrets: &arguments.checkpoint_secrets,
        pod: LOCAL_POD,
        stop_patience: Duration::from_secs(20),
        batch_records: arguments.batch_records,
        memory: Memory::of(arguments.memory.unwrap_or_else(memory_limit)),
    })?;
    let begun = Instant::now();
    spawn_watch(&worker, assignment)?;
    let watcher = arguments.until_caught_up.then(|| {
        let worker = Arc::clone(&worker);
        std::thread::spawn(move || until_caught_up(&worker, begun))
    });
    let code = until_drained(
        &worker,
        manager,
        signals,
        token,
        arguments.listen,
        |address| {
            say(&format!(
                "control API at http://{address}, token in {TOKEN_FILE}"
            ));
        },
    )?;
    helpers.stop();
    let caught_up = match watcher {
        None => true,
        Some(watcher) => watcher.join().unwrap_or(false),
    };
    Ok(if caught_up { code } else { ExitCode::FAILURE })
}

/// The embedded broker keeps no offsets of transactions.
fn refuse_exactly_once(app: &CompiledApp) -> Result<(), Fatal> {
    let asks = app
        .subscriptions
        .iter()
        .find(|of| of.processing_guarantee == ProcessingGuarantee::ExactlyOnce);
    match asks {
        Some(subscription) => Err(format!(
            "subscription `{}` asks for processingGuarantee: exactlyOnce, which the embedded broker cannot keep: use \
             --bootstrap with a Kafka broker, or atLeastOnce",
            subscription.name
        )
        .into()),
        None => Ok(()),
    }
}

/// Standard error, since standard output is for results.
fn say(text: &str) {
    // Who was to be told is gone, and the worker goes on without them.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn state_dir(arguments: &RunArguments) -> Result<PathBuf, Fatal> {
    if !arguments.embedded_broker {
        std::fs::create_dir_all(&arguments.state_dir)?;
        return Ok(arguments.state_dir.clone());
    }
    let dir = arguments.state_dir.join(EMBEDDED_STATE);
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn kept(path: &Path) -> Result<Option<AssignmentDocument>, Fatal> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// As a whole or not at all: the lineage in the assignment is what kept state is known by.
fn write(path: &Path, content: &[u8]) -> Result<(), Fatal> {
    let draft = path.with_extension("new");
    std::fs::write(&draft, content)?;
    std::fs::File::open(&draft)?.sync_all()?;
    std::fs::rename(&draft, path)?;
    Ok(())
}

fn token(state_dir: &Path) -> Result<TokenFile, Fatal> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let path = state_dir.join(TOKEN_FILE);
    if !path.exists() {
        let mut file = std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        write!(file, "{}", Uuid::new_v4().simple())?;
    }
    Ok(TokenFile::open(&path)?)
}

/// Threads that write samples and show results.
#[derive(Default)]
struct Helpers {
    generators: Vec<(Arc<StopSignal>, JoinHandle<()>)>,
    printer: Option<(Arc<StopSignal>, JoinHandle<()>)>,
}

impl Helpers {
    fn start(
        arguments: &RunArguments,
        kafka: &KafkaSettings,
        app: &CompiledApp,
    ) -> Result<Self, Fatal> {
        let mut helpers = Self::default();
        if arguments.print_results {
            let stop = Arc::new(StopSignal::default());
            let (ready, readied) = std::sync::mpsc::channel::<()>();
            let (kafka, app, told) = (kafka.clone(), app.clone(), Arc::clone(&stop));
            let thread = std::thread::spawn(move || {
                let mut out = std::io::stdout();
                let printed = print_results(&kafka, &app, &told, &mut out, || drop(ready));
                if let Err(error) = printed {
                    tracing::error!(%error, "results are printed no longer");
                }
            });
            // The sender is dropped when the printer is ready, or gave up: both end the wait.
            let _ = readied.recv();
            helpers.printer = Some((stop, thread));
        }
        if let Some(per_second) = arguments.generate {
            for subscription in &app.subscriptions {
                let generator = Generator::open(kafka, subscription, per_second)?;
                let stop = Arc::new(StopSignal::default());
                let told = Arc::clone(&stop);
                let thread = std::thread::spawn(move || {
                    if let Err(error) = generator.run(&told) {
                        tracing::error!(%error, "no more samples are written");
                    }
                });
                helpers.generators.push((stop, thread));
            }
        }
        Ok(helpers)
    }

    fn stop(self) {
        for (stop, thread) in self.generators.into_iter().chain(self.printer) {
            stop.give();
            if thread.join().is_err() {
                tracing::error!("a helper thread panicked");
            }
        }
    }
}

/// Waits until every task has committed up to the end of its input, then drains; false if one
/// cannot get there. What it took is told in one line.
fn until_caught_up(worker: &Worker, begun: Instant) -> bool {
    let mut good = true;
    while !worker.draining() {
        std::thread::sleep(Duration::from_millis(20));
        let tasks = worker.views();
        let halted = tasks
            .iter()
            .find(|task| task.status.state == TaskState::Halted);
        if let Some(task) = halted {
            let status = &task.status;
            let why = status
                .halt
                .as_ref()
                .map_or("", |halt| halt.message.as_str());
            say(&format!(
                "task {}/{} halted: {why}",
                status.subscription, status.partition
            ));
            good = false;
            break;
        }
        let through = |task: &crate::control::health::TaskView| {
            let status = &task.status;
            status.state == TaskState::Running
                && status.position.is_some()
                && status.position >= status.end_offset
                && status.end_offset.is_some()
        };
        if worker.settled() && tasks.iter().all(through) {
            break;
        }
    }
    let wall = begun.elapsed();
    let records: u64 = worker.views().iter().map(|task| task.status.records).sum();
    let usage = Usage::now();
    worker.drain();
    #[allow(clippy::cast_precision_loss)]
    let rate = |seconds: f64| records as f64 / seconds.max(1e-9);
    #[allow(clippy::cast_precision_loss)]
    let peak = usage.peak_bytes as f64 / f64::from(1 << 20);
    say(&format!(
        "summary: records={records} wall_s={:.3} cpu_s={:.3} records_per_s={:.0} \
         records_per_cpu_s={:.0} peak_rss_mib={peak:.1}",
        wall.as_secs_f64(),
        usage.cpu.as_secs_f64(),
        rate(wall.as_secs_f64()),
        rate(usage.cpu.as_secs_f64()),
    ));
    good
}
