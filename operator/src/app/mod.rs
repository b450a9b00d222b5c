//! One pass over one app: `dereference → validate → plan → build → apply`.
//!
//! Only the first and the last touch anything. A pass goes round until a plan finds nothing to
//! write and nothing to do, so that whatever it did was decided on what was read after the step before.

mod apply;
pub mod build;
mod changes;
mod conditions;
mod dereference;
pub mod diff;
pub mod layout;
pub mod names;
pub mod plan;
mod rescale;
pub mod seen;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use turbine_crds::app::TurbineApp;
use turbine_crds::status::{RescaleStatus, TurbineAppStatus};
use turbine_protocol::{Fault, Lineage};
use uuid::Uuid;

pub use apply::ActError;
pub use conditions::cut;
pub use plan::Pace;

use self::plan::{Known, Plan};
use self::seen::{Asked, Seen, Specs};
use crate::cluster::{Cluster, ClusterError};
use crate::kafka::KafkaView;
use crate::signals::{Signal, Signals};
use crate::words::Trouble;
use crate::workers::WorkersView;

/// Figures in the status (ready workers, running tasks) are not written more often than this.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Rounds of one pass. A start takes about ten, a rescale whose workers answer at once about fifty; the limit only stops two writers
/// that undo each other.
const ROUNDS: usize = 120;

/// The other apps that the operator knows, from its watch.
pub trait Peers: Send + Sync + std::fmt::Debug {
    fn all(&self) -> Vec<Arc<TurbineApp>>;
}

/// Everything outside of a pass.
#[derive(Debug, Clone)]
pub struct World {
    pub cluster: Arc<dyn Cluster>,
    pub kafka: Arc<dyn KafkaView>,
    pub workers: Arc<dyn WorkersView>,
    pub peers: Arc<dyn Peers>,
    pub signals: Arc<dyn Signals>,
    /// Image of workers whose spec names none.
    pub default_image: Option<String>,
    /// Time, as an argument.
    pub clock: fn() -> Timestamp,
    pub memory: Memory,
}

/// What one operator remembers between passes. Losing it costs a few calls, never correctness.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<HashMap<(String, String), Remembered>>>);

#[derive(Debug, Default, Clone)]
struct Remembered {
    /// What the last try to act ran into. It is kept so that a fault that stays is written once.
    fault: Option<Trouble>,
    wrote: Option<Instant>,
    /// Records of a plan that workers took, by pod. Whether they follow them their status says.
    told: HashMap<String, (i64, i64)>,
}

impl Memory {
    fn with<T>(&self, namespace: &str, name: &str, act: impl FnOnce(&mut Remembered) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(all
            .entry((namespace.to_owned(), name.to_owned()))
            .or_default())
    }

    /// Forgets an app that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&(namespace.to_owned(), name.to_owned()));
    }
}

/// How a pass ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub pace: Pace,
    /// Whether anything was written or done.
    pub changed: bool,
    /// resourceVersion of the app as the pass left it.
    pub version: Option<String>,
    /// What to ask the workers about until the next pass; `None` unless settled.
    pub watch: Option<Watch>,
}

/// What stays the same while an app is settled.
#[derive(Debug, Clone)]
pub struct Watch {
    asked: Arc<Asked>,
    digest: String,
}

impl Watch {
    /// Asks the workers only. True if they answer what they answered in the pass.
    pub async fn still_holds(&self, world: &World) -> bool {
        let Some(token) = &self.asked.token else {
            return false;
        };
        let answers = futures::future::join_all(
            self.asked
                .workers
                .values()
                .map(|(target, _)| world.workers.status(target, token)),
        )
        .await;
        digest(answers.iter()) == self.digest
    }
}

fn digest<'a>(answers: impl Iterator<Item = &'a crate::workers::WorkerAnswer>) -> String {
    use crate::workers::WorkerAnswer;
    let parts: Vec<serde_json::Value> = answers
        .map(|answer| match answer {
            WorkerAnswer::Status(status) => {
                let tasks: Vec<_> = status
                    .tasks
                    .iter()
                    .map(|task| {
                        serde_json::json!([
                            task.subscription,
                            task.partition,
                            task.state.to_string(),
                            task.halt.as_ref().map(|halt| &halt.message),
                            task.placement,
                            task.misplaced_first
                        ])
                    })
                    .collect();
                serde_json::json!([status.epoch, status.version, status.draining, tasks])
            }
            WorkerAnswer::Silent(_) => serde_json::Value::Null,
        })
        .collect();
    diff::digest(&serde_json::Value::Array(parts))
}

/// Why a pass broke off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(
        "the pass did not come to rest in {ROUNDS} rounds: something undoes what the operator does, look at the last events"
    )]
    Restless,
}

impl Fault for PassError {
    fn category(&self) -> turbine_protocol::Category {
        match self {
            Self::Cluster(error) => error.category(),
            Self::Restless => turbine_protocol::Category::Kubernetes,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Cluster(error) => error.reason(),
            Self::Restless => "Restless",
        }
    }

    fn passes_by_itself(&self) -> bool {
        true
    }
}

/// Takes one app as far as it goes now.
///
/// # Errors
/// If the API server does not answer; everything else is said in the app's status.
pub async fn pass(world: &World, namespace: &str, name: &str) -> Result<Outcome, PassError> {
    let mut changed = false;
    for _ in 0..ROUNDS {
        match round(world, namespace, name).await {
            Ok(Round::Rest(outcome)) => {
                return Ok(Outcome { changed, ..outcome });
            }
            Ok(Round::Again) => changed = true,
            // Somebody wrote in between: what was read is old, nothing is lost.
            Err(ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(PassError::Restless)
}

enum Round {
    Again,
    Rest(Outcome),
}

fn rest(pace: Pace) -> Round {
    Round::Rest(Outcome {
        pace,
        changed: false,
        version: None,
        watch: None,
    })
}

async fn round(world: &World, namespace: &str, name: &str) -> Result<Round, ClusterError> {
    let Some(app) = dereference::app(world, namespace, name).await? else {
        world.memory.forget(namespace, name);
        return Ok(rest(Pace::Settled));
    };
    let now = (world.clock)();
    if let Some(status) = plan::acknowledge(&app, now) {
        store(world, &app, status).await?;
        return Ok(Round::Again);
    }
    if plan::paused(&app) && app.metadata.deletion_timestamp.is_none() {
        let status = plan::pause(&app, now);
        if app.status.as_ref() != Some(&status) {
            store(world, &app, status).await?;
        }
        return Ok(rest(Pace::Settled));
    }

    match look(world, app.clone()).await {
        Ok(looked) => decide(world, &looked, now).await,
        Err(error @ (ClusterError::Forbidden { .. } | ClusterError::Unreadable { .. })) => {
            // The app itself can be read, so it can be told what is wrong with the rest.
            let status = plan::blind(&app, &Trouble::act(&error), now);
            if app.status.as_ref() != Some(&status) {
                store(world, &app, status).await?;
            }
            Ok(rest(Pace::Blocked))
        }
        Err(error) => Err(error),
    }
}

/// Everything that a pass reads.
struct Looked {
    seen: Seen,
    specs: Specs,
    asked: Asked,
}

async fn look(world: &World, app: TurbineApp) -> Result<Looked, ClusterError> {
    let seen = dereference::cluster(world, app).await?;
    unchanged(world, &seen).await?;
    let specs = validate::validate(&seen);
    let asked = dereference::outside(world, &seen, &specs).await?;
    Ok(Looked { seen, specs, asked })
}

/// Objects are read one after the other. Those of an app with a plan must have been read under one record of it: else an operator that was
/// deposed in between could lay an old record beside a new object, and change that under its newest resourceVersion.
async fn unchanged(world: &World, seen: &Seen) -> Result<(), ClusterError> {
    if seen.status().rescale.is_none() {
        return Ok(());
    }
    let now = dereference::app(world, &seen.namespace(), &seen.name()).await?;
    let version = now.and_then(|app| app.metadata.resource_version);
    if version == seen.app.metadata.resource_version {
        return Ok(());
    }
    Err(ClusterError::Conflict {
        object: format!("TurbineApp {}/{}", seen.namespace(), seen.name()),
    })
}

async fn decide(world: &World, looked: &Looked, now: Timestamp) -> Result<Round, ClusterError> {
    let Looked { seen, specs, asked } = looked;
    let (namespace, name) = key(&seen.app);
    let (namespace, name) = (namespace.as_str(), name.as_str());
    let fault = world.memory.with(namespace, name, |of| of.fault.clone());
    let known = Known {
        seen,
        specs,
        asked,
        fault: fault.as_ref(),
        now,
        fresh: Lineage::new(Uuid::new_v4()),
        default_image: world.default_image.as_deref(),
    };
    let Plan {
        status,
        acts,
        pace,
        adopted,
    } = plan::plan(&known);

    let stored = seen.status();
    let mut waits = false;
    let mut app = seen.app.clone();
    if status != stored {
        let wrote = world.memory.with(namespace, name, |of| of.wrote);
        waits =
            only_figures(&stored, &status) && wrote.is_some_and(|at| at.elapsed() < PROGRESS_EVERY);
        if !waits {
            app = store(world, &seen.app, status).await?;
            rescale::told_of_step(world, &app, &stored).await;
            if let Some(layout) = adopted {
                world
                    .signals
                    .give(&app, &Signal::StateAdopted { layout: &layout })
                    .await;
            }
            if acts.is_empty() {
                return Ok(Round::Again);
            }
        }
    }
    match carry_out(world, &known, &app, &acts).await {
        Ok(true) => {
            world.memory.with(namespace, name, |of| of.fault = None);
            Ok(Round::Again)
        }
        Ok(false) => {
            if fault.is_some() {
                // Nothing is left to be done, so what was in the way is gone.
                world.memory.with(namespace, name, |of| of.fault = None);
                return Ok(Round::Again);
            }
            Ok(settle(
                pace,
                waits,
                app.metadata.resource_version.clone(),
                asked.clone(),
            ))
        }
        Err(ActError::Cluster(
            error @ (ClusterError::Conflict { .. } | ClusterError::Unavailable { .. }),
        )) => Err(error),
        Err(error) => {
            let trouble = match &error {
                ActError::Kafka(fault) => Trouble::act_on_topics(fault),
                ActError::Cluster(_) | ActError::Defect(_) => Trouble::act(&error),
            };
            if fault.as_ref() == Some(&trouble) {
                // Tasks that stand still do not wait as long as an app that somebody has to see to.
                let paused = pace == Pace::Paused;
                return Ok(rest(if paused { Pace::Moving } else { Pace::Blocked }));
            }
            world.signals.failed(&seen.app, &error).await;
            world
                .memory
                .with(namespace, name, |of| of.fault = Some(trouble));
            Ok(Round::Again)
        }
    }
}

fn settle(pace: Pace, waits: bool, version: Option<String>, asked: Asked) -> Round {
    // Figures that were held back are written soon.
    let pace = if waits { Pace::Moving } else { pace };
    let watch = (pace == Pace::Settled && !asked.workers.is_empty()).then(|| Watch {
        digest: digest(asked.workers.values().map(|(_, answer)| answer)),
        asked: Arc::new(Asked {
            kafka: None,
            access: None,
            ..asked
        }),
    });
    Round::Rest(Outcome {
        pace,
        changed: false,
        version,
        watch,
    })
}

/// Does acts in order, up to the first that fails. True if the world should be looked at again.
async fn carry_out(
    world: &World,
    known: &Known<'_>,
    app: &TurbineApp,
    acts: &[plan::Act],
) -> Result<bool, ActError> {
    let mut changed = false;
    for act in acts {
        match apply::perform(world, known, app, act).await? {
            apply::Done::Changed => changed = true,
            apply::Done::Same => {}
        }
    }
    Ok(changed)
}

async fn store(
    world: &World,
    app: &TurbineApp,
    status: TurbineAppStatus,
) -> Result<TurbineApp, ClusterError> {
    let before = app.status.clone().unwrap_or_default();
    let mut next = app.clone();
    next.status = Some(status);
    let stored = world.cluster.replace_status(&next).await?;
    let (namespace, name) = key(app);
    world
        .memory
        .with(&namespace, &name, |of| of.wrote = Some(Instant::now()));
    world.signals.status_changed(&stored, &before).await;
    Ok(stored)
}

/// Namespace and name.
pub(crate) fn key(app: &TurbineApp) -> (String, String) {
    (
        app.metadata.namespace.clone().unwrap_or_default(),
        app.metadata.name.clone().unwrap_or_default(),
    )
}

/// Whether two statuses differ in nothing that anybody decides on.
fn only_figures(one: &TurbineAppStatus, other: &TurbineAppStatus) -> bool {
    let edges = |status: &TurbineAppStatus| {
        let conditions: Vec<(String, String, String)> = status
            .conditions
            .iter()
            .map(|of| (of.type_.clone(), of.status.clone(), of.reason.clone()))
            .collect();
        (status.observed_generation, status.phase, conditions)
    };
    edges(one) == edges(other)
        && one.layout == other.layout
        && one.accepted_revision == other.accepted_revision
        && one.topics == other.topics
        && one.rescale_preview == other.rescale_preview
        && one.rescale.as_ref().map(RescaleStatus::durable)
            == other.rescale.as_ref().map(RescaleStatus::durable)
}
