//! When passes happen: on changes, on time, and with a growing delay where something is in the way.

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::{BoxStream, select_all};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt as _, applier, watcher};
use kube::{Client, Resource, ResourceExt as _};
use rand::Rng as _;
use turbine_crds::app::TurbineApp;
use turbine_crds::status::Phase;
use turbine_protocol::Fault as _;

use crate::app::{self, Pace, PassError, Peers, Watch, World, names};
use crate::health::Health;
use crate::metrics::Metrics;

/// A burst of changes (a StatefulSet that starts) is one pass.
const DEBOUNCE: Duration = Duration::from_millis(500);
const BEAT: Duration = Duration::from_secs(5);
/// Workers of a settled app are asked this often; what matters more (a pod that is not ready any more) comes as an event.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// A settled app is looked at as a whole this often, so that an event that was missed is made up for.
const LOOK_EVERY: Duration = Duration::from_mins(10);
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MOVING_LIMIT: Duration = Duration::from_secs(10);
/// While tasks stand still for a rescale: each step costs at most this much of the pause.
const PAUSED_EVERY: Duration = Duration::from_millis(250);
const BLOCKED_LIMIT: Duration = Duration::from_mins(1);

type Key = (String, String);
type Request = kube::runtime::controller::ReconcileRequest<TurbineApp>;

/// The apps that the watches hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stores(Arc<Mutex<Vec<Store<TurbineApp>>>>);

impl Peers for Stores {
    fn all(&self) -> Vec<Arc<TurbineApp>> {
        let stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stores.iter().flat_map(Store::state).collect()
    }
}

/// What the controller knows of one app between passes.
#[derive(Debug, Default)]
struct Track {
    /// Grows with each change of something that belongs to the app.
    mark: u64,
    /// Passes in a row that found something on its way, or in the way.
    attempts: u32,
    last: Option<Pace>,
    settled: Option<Settled>,
}

/// An app that was as it should be.
#[derive(Debug, Clone)]
struct Settled {
    version: Option<String>,
    mark: u64,
    at: Instant,
    watch: Option<Watch>,
}

#[derive(Debug, Default, Clone)]
struct Tracks(Arc<Mutex<HashMap<Key, Track>>>);

impl Tracks {
    fn with<T>(&self, key: &Key, act: impl FnOnce(&mut Track) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(all.entry(key.clone()).or_default())
    }

    fn keep(&self, keys: &std::collections::HashSet<Key>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|key, _| keys.contains(key));
    }
}

#[derive(Debug)]
struct Context {
    world: World,
    metrics: Arc<Metrics>,
    tracks: Tracks,
}

/// Watches and acts; it ends only if all watches end.
pub(crate) async fn run(
    client: Client,
    namespaces: &[String],
    world: World,
    stores: Stores,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) {
    let tracks = Tracks::default();
    let context = Arc::new(Context {
        world,
        metrics: Arc::clone(&metrics),
        tracks: tracks.clone(),
    });
    let scopes: Vec<Option<&str>> = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces
            .iter()
            .map(|namespace| Some(namespace.as_str()))
            .collect()
    };
    let mut runs = Vec::new();
    let mut readers = Vec::new();
    for scope in scopes {
        let (reader, queue) = queue(&client, scope, &tracks, &health, &metrics);
        stores
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(reader.clone());
        readers.push(reader.clone());
        let config = Config::default().debounce(DEBOUNCE).concurrency(32);
        runs.push(
            applier(
                |app, context| reconcile(app, context).boxed(),
                error_policy,
                Arc::clone(&context),
                reader,
                queue,
                config,
            )
            .boxed(),
        );
    }
    let synced = async {
        for reader in &readers {
            // The writer lives as long as its queue, which runs beside this.
            if reader.wait_until_ready().await.is_err() {
                return;
            }
        }
        health.synced();
        loop {
            census(&readers, &tracks, &metrics);
            tokio::time::sleep(BEAT).await;
        }
    };
    let work = select_all(runs).for_each(|_| std::future::ready(()));
    tokio::select! {
        () = work => {}
        () = synced => {}
    }
}

/// Everything that makes a pass due, of one namespace or of all. Each watch retries by itself: one
/// that fails does not put the others to sleep.
fn queue(
    client: &Client,
    scope: Option<&str>,
    tracks: &Tracks,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
) -> (
    Store<TurbineApp>,
    BoxStream<'static, Result<Request, watcher::Error>>,
) {
    let (reader, writer) = store::<TurbineApp>();
    let failed = Arc::clone(metrics);
    let apps = watcher(api::<TurbineApp>(client, scope), watcher::Config::default())
        .default_backoff()
        .modify(|app| {
            // Half of the bytes, and never read.
            app.managed_fields_mut().clear();
        })
        .reflect(writer)
        .touched_objects()
        .filter_map(move |event| {
            let request = match event {
                Ok(app) => Some(Ok(Request::from(ObjectRef::from_obj(&app)))),
                Err(error) => {
                    tracing::warn!(%error, kind = "TurbineApp", "watch");
                    failed.watch_failed();
                    None
                }
            };
            std::future::ready(request)
        })
        .boxed();
    let beating = Arc::clone(health);
    let beats = futures::stream::unfold((), move |()| {
        beating.beat();
        async { Some(((), tokio::time::sleep(BEAT).await)) }
    })
    .filter_map(|()| std::future::ready(None))
    .boxed();
    let watched = Watched {
        client,
        scope,
        tracks,
        metrics,
    };
    let queue = select_all([
        apps,
        beats,
        watched.children::<StatefulSet>(),
        watched.children::<Pod>(),
        watched.children::<PersistentVolumeClaim>(),
        watched.children::<ConfigMap>(),
        watched.children::<Service>(),
        watched.children::<ServiceAccount>(),
        watched.children::<PodDisruptionBudget>(),
    ])
    .boxed();
    (reader, queue)
}

fn api<K>(client: &Client, scope: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

struct Watched<'a> {
    client: &'a Client,
    scope: Option<&'a str>,
    tracks: &'a Tracks,
    metrics: &'a Arc<Metrics>,
}

impl Watched<'_> {
    /// Changes of what operators made, as metadata and without a cache: only that something changed
    /// is of interest, a pass reads it afresh.
    fn children<K>(&self) -> BoxStream<'static, Result<Request, watcher::Error>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Send
            + Sync
            + serde::de::DeserializeOwned
            + 'static,
    {
        let (tracks, failed) = (self.tracks.clone(), Arc::clone(self.metrics));
        let config = watcher::Config::default().labels(names::MANAGED_BY);
        watcher(api::<PartialObjectMeta<K>>(self.client, self.scope), config)
            .default_backoff()
            .touched_objects()
            .filter_map(move |event| {
                let request = match event {
                    Ok(child) => owner(&child).map(|key| {
                        tracks.with(&key, |track| track.mark += 1);
                        Ok(Request::from(ObjectRef::new(&key.1).within(&key.0)))
                    }),
                    Err(error) => {
                        tracing::warn!(%error, kind = %K::kind(&()), "watch");
                        failed.watch_failed();
                        None
                    }
                };
                std::future::ready(request)
            })
            .boxed()
    }
}

fn owner<K>(child: &PartialObjectMeta<K>) -> Option<Key> {
    let metadata = &child.metadata;
    let app = metadata.labels.as_ref()?.get(names::APP)?;
    Some((metadata.namespace.clone()?, app.clone()))
}

async fn reconcile(app: Arc<TurbineApp>, context: Arc<Context>) -> Result<Action, PassError> {
    let key = (app.namespace().unwrap_or_default(), app.name_any());
    let began = Instant::now();
    let (mark, settled) = context
        .tracks
        .with(&key, |track| (track.mark, track.settled.clone()));
    if let Some(settled) = settled
        && settled.mark == mark
        && settled.version == app.metadata.resource_version
        && settled.at.elapsed() < spread(LOOK_EVERY, &key)
    {
        let holds = match &settled.watch {
            Some(watch) => watch.still_holds(&context.world).await,
            None => true,
        };
        if holds {
            context.metrics.pass("unchanged", began.elapsed());
            return Ok(Action::requeue(jittered(ASK_EVERY)));
        }
    }
    let outcome = app::pass(&context.world, &key.0, &key.1).await?;
    context.metrics.pass(
        match outcome.pace {
            Pace::Settled => "settled",
            Pace::Moving => "moving",
            Pace::Paused => "paused",
            Pace::Blocked => "blocked",
        },
        began.elapsed(),
    );
    let delay = context.tracks.with(&key, |track| {
        track.settled = (outcome.pace == Pace::Settled).then(|| Settled {
            version: outcome.version.clone(),
            mark,
            at: Instant::now(),
            watch: outcome.watch.clone(),
        });
        if outcome.changed || track.last != Some(outcome.pace) {
            track.attempts = 0;
        }
        track.last = Some(outcome.pace);
        let delay = match outcome.pace {
            Pace::Settled => ASK_EVERY,
            Pace::Moving => growing(track.attempts, MOVING_LIMIT),
            Pace::Paused => PAUSED_EVERY,
            Pace::Blocked => growing(track.attempts, BLOCKED_LIMIT),
        };
        track.attempts = track.attempts.saturating_add(1);
        delay
    });
    Ok(Action::requeue(jittered(delay)))
}

fn error_policy(app: Arc<TurbineApp>, error: &PassError, context: Arc<Context>) -> Action {
    let key = (app.namespace().unwrap_or_default(), app.name_any());
    tracing::warn!(app = %format!("{}/{}", key.0, key.1), category = %error.category(), "{error}");
    context.metrics.pass("failed", Duration::ZERO);
    let attempts = context.tracks.with(&key, |track| {
        track.settled = None;
        if track.last.take().is_some() {
            track.attempts = 0;
        }
        track.attempts = track.attempts.saturating_add(1);
        track.attempts
    });
    Action::requeue(jittered(growing(attempts, BLOCKED_LIMIT)))
}

/// Doubles with each attempt, up to a limit; never zero.
fn growing(attempts: u32, limit: Duration) -> Duration {
    FIRST_DELAY
        .saturating_mul(2_u32.saturating_pow(attempts.min(16)))
        .min(limit)
}

/// Within a fifth of the delay, so that many apps do not come at once.
fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(rand::rng().random_range(0.8..=1.2))
}

/// A delay that differs from app to app and stays the same for one.
fn spread(delay: Duration, key: &Key) -> Duration {
    let mut hasher = std::hash::DefaultHasher::new();
    key.hash(&mut hasher);
    let part = u32::try_from(hasher.finish() % 1_000).unwrap_or(0);
    delay.mul_f64(0.75 + f64::from(part) / 2_000.0)
}

/// Counts apps by phase, and forgets those that are gone.
fn census(readers: &[Store<TurbineApp>], tracks: &Tracks, metrics: &Metrics) {
    let mut phases: HashMap<Phase, i64> = HashMap::new();
    let mut keys = std::collections::HashSet::new();
    for app in readers.iter().flat_map(Store::state) {
        let phase = app.status.as_ref().and_then(|status| status.phase);
        *phases.entry(phase.unwrap_or(Phase::Pending)).or_default() += 1;
        keys.insert((app.namespace().unwrap_or_default(), app.name_any()));
    }
    tracks.keep(&keys);
    metrics.apps(
        phases
            .into_iter()
            .map(|(phase, count)| (phase.to_string(), count)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_their_limit_and_are_never_zero() {
        let mut before = Duration::ZERO;
        for attempts in 0..40 {
            let delay = growing(attempts, BLOCKED_LIMIT);
            assert!(delay >= before && delay >= FIRST_DELAY && delay <= BLOCKED_LIMIT);
            assert!(jittered(delay) >= Duration::from_millis(800));
            before = delay;
        }
        assert_eq!(before, BLOCKED_LIMIT);
        assert_eq!(growing(0, BLOCKED_LIMIT), Duration::from_secs(1));
    }
}
