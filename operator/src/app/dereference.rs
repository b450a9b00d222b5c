//! Reads everything that a pass decides on. Nothing here decides, and nothing here writes.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use kube::ResourceExt as _;
use serde_json::Value;
use turbine_crds::app::TurbineApp;
use turbine_crds::rules;
use turbine_crds::validated::ValidatedApp;

use super::plan::rescaling;
use super::seen::{Asked, Seen, Specs, name_of, text};
use super::{World, build, names};
use crate::cluster::{ClusterError, Kind};
use crate::kafka::{BrokerFacts, KafkaAccess};
use crate::words::Trouble;
use crate::workers::WorkerTarget;

/// The app itself, as the API server has it now.
///
/// # Errors
/// If the API server does not answer, or the app cannot be read.
pub(crate) async fn app(
    world: &World,
    namespace: &str,
    name: &str,
) -> Result<Option<TurbineApp>, ClusterError> {
    let Some(value) = world.cluster.get(Kind::TurbineApp, namespace, name).await? else {
        return Ok(None);
    };
    serde_json::from_value(value)
        .map(Some)
        .map_err(|error| ClusterError::Unreadable {
            object: format!("TurbineApp {namespace}/{name}"),
            message: error.to_string(),
        })
}

/// What the cluster holds of the app.
///
/// # Errors
/// If the API server does not answer.
pub(crate) async fn cluster(world: &World, app: TurbineApp) -> Result<Seen, ClusterError> {
    let namespace = app.namespace().unwrap_or_default();
    let name = app.name_any();
    let labelled = format!("{}={name}", names::APP);

    let mut children = BTreeMap::new();
    for kind in Kind::owned() {
        for object in world.cluster.list(*kind, &namespace, &labelled).await? {
            children.insert((*kind, name_of(&object).to_owned()), object);
        }
    }
    // An object of our name without our label is somebody else's, and would be overwritten.
    for (kind, child) in names::objects(&name) {
        let key = (kind, child);
        if !children.contains_key(&key)
            && let Some(object) = world.cluster.get(kind, &namespace, &key.1).await?
        {
            children.insert(key, object);
        }
    }

    let app_id = app.spec.app_id.clone().unwrap_or_else(|| name.clone());
    let by_id = format!("{}={app_id}", names::APP_ID);
    let mut claims = world
        .cluster
        .list(Kind::PersistentVolumeClaim, &namespace, &by_id)
        .await?;
    if !children.contains_key(&(Kind::StatefulSet, name.clone())) {
        let replicas = app
            .status
            .as_ref()
            .and_then(|status| status.layout.as_ref())
            .map_or(app.spec.replicas.unwrap_or(1), |layout| layout.replicas);
        for claim in names::claims(&name, replicas) {
            if !claims.iter().any(|of| name_of(of) == claim)
                && let Some(found) = world
                    .cluster
                    .get(Kind::PersistentVolumeClaim, &namespace, &claim)
                    .await?
            {
                claims.push(found);
            }
        }
    }
    let other_lineages = world
        .peers
        .all()
        .iter()
        .filter(|peer| {
            peer.namespace().as_deref() == Some(namespace.as_str()) && peer.uid() != app.uid()
        })
        .filter_map(|peer| Some(peer.status.as_ref()?.layout.as_ref()?.lineage.clone()))
        .collect();

    Ok(Seen {
        revisions: world
            .cluster
            .list(Kind::ControllerRevision, &namespace, &labelled)
            .await?,
        pods: world.cluster.list(Kind::Pod, &namespace, &labelled).await?,
        claims,
        children,
        other_lineages,
        app,
    })
}

/// What Kafka and the workers answer.
///
/// # Errors
/// If the API server does not answer.
pub(crate) async fn outside(
    world: &World,
    seen: &Seen,
    specs: &Specs,
) -> Result<Asked, ClusterError> {
    let mut asked = Asked {
        token: seen
            .child(Kind::Secret, &names::token_secret(&seen.name()))
            .and_then(build::token),
        ..Asked::default()
    };
    let (workers, kafka) = tokio::join!(workers(world, seen, &asked), kafka(world, seen, specs));
    asked.workers = workers;
    let (access, answer, taken_by) = kafka?;
    asked.access = access;
    asked.kafka = answer;
    asked.taken_by = taken_by;
    asked.other_readers = other_readers(world, seen);
    asked.layout = layout(world, seen, specs, &asked).await;
    Ok(asked)
}

/// By the brokers' address as it is written: an app that writes another one is not found.
fn other_readers(world: &World, seen: &Seen) -> Vec<String> {
    if !rescaling::preview_asked(seen) {
        return Vec::new();
    }
    let topics = |app: &TurbineApp| -> BTreeSet<String> {
        let subscriptions = app.spec.subscriptions.iter();
        subscriptions.map(|of| of.input.topic.clone()).collect()
    };
    let ours = topics(&seen.app);
    let mut readers: Vec<String> = world
        .peers
        .all()
        .iter()
        .filter(|peer| peer.uid() != seen.app.uid())
        .filter(|peer| {
            peer.spec.kafka.bootstrap_servers == seen.app.spec.kafka.bootstrap_servers
                && !topics(peer).is_disjoint(&ours)
        })
        .map(|peer| {
            format!(
                "{}/{}",
                peer.namespace().unwrap_or_default(),
                peer.name_any()
            )
        })
        .collect();
    readers.sort_unstable();
    readers
}

/// Asked last: a change of the layout is decided from what brokers answer after everything else was read.
async fn layout(
    world: &World,
    seen: &Seen,
    specs: &Specs,
    asked: &Asked,
) -> Option<Result<BrokerFacts, Trouble>> {
    let question = rescaling::question(seen, specs, asked, (world.clock)())?;
    let access = asked.access.as_ref()?;
    let answer = world.kafka.layout(access, &question).await;
    Some(answer.map_err(Trouble::Kafka))
}

type Broker = (
    Option<KafkaAccess>,
    Option<Result<crate::kafka::KafkaSeen, Trouble>>,
    Option<String>,
);

async fn kafka(world: &World, seen: &Seen, specs: &Specs) -> Result<Broker, ClusterError> {
    let Some(app) = specs.first() else {
        return Ok((None, None, None));
    };
    let access = match access(world, app).await? {
        Ok(access) => access,
        Err(trouble) => return Ok((None, Some(Err(trouble)), None)),
    };
    let answer = world
        .kafka
        .look(&access, &topics(seen, specs))
        .await
        .map_err(Trouble::Kafka);
    let taken_by = match &answer {
        Ok(answer) => rival(world, seen, app, &answer.cluster_id).await?,
        Err(_) => None,
    };
    Ok((Some(access), Some(answer), taken_by))
}

fn topics(seen: &Seen, specs: &Specs) -> BTreeSet<String> {
    let mut topics: BTreeSet<String> = seen
        .status()
        .topics
        .into_iter()
        .map(|topic| topic.name)
        .collect();
    let apps = specs
        .current
        .as_ref()
        .ok()
        .into_iter()
        .chain(specs.accepted.as_ref().map(|accepted| &accepted.validated));
    for app in apps {
        for subscription in &app.compiled().subscriptions {
            topics.insert(subscription.topic.clone());
            topics.insert(subscription.output.topic.clone());
            topics.extend(subscription.dlq.clone());
        }
    }
    topics
}

/// Reads the secrets that lead to an app's Kafka.
async fn access(
    world: &World,
    app: &ValidatedApp,
) -> Result<Result<KafkaAccess, Trouble>, ClusterError> {
    let mut read: BTreeMap<&str, Option<Value>> = BTreeMap::new();
    let mut secrets = Vec::new();
    for file in app.secrets() {
        if !read.contains_key(file.secret()) {
            let secret = world
                .cluster
                .get(Kind::Secret, app.namespace(), file.secret())
                .await?;
            read.insert(file.secret(), secret);
        }
        let secret = read.get(file.secret()).and_then(Option::as_ref);
        let content = secret
            .and_then(|secret| secret.get("data")?.get(file.key())?.as_str())
            .and_then(|text| STANDARD.decode(text).ok());
        match content {
            Some(content) => secrets.push((file.file(), content)),
            None => {
                return Ok(Err(Trouble::SecretMissing {
                    secret: file.secret().to_owned(),
                    key: file.key().to_owned(),
                    exists: secret.is_some(),
                }));
            }
        }
    }
    Ok(Ok(KafkaAccess {
        kafka: app.compiled().kafka.clone(),
        secrets,
    }))
}

/// The app that came first with the same `appId` on the same Kafka cluster. One that has a layout
/// came before one that has none; else age decides.
async fn rival(
    world: &World,
    seen: &Seen,
    app: &ValidatedApp,
    cluster_id: &str,
) -> Result<Option<String>, ClusterError> {
    let rank = |app: &TurbineApp| {
        let laid_out = app
            .status
            .as_ref()
            .is_some_and(|status| status.layout.is_some());
        let created = app.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (!laid_out, created, app.namespace(), app.name_any())
    };
    for peer in world.peers.all() {
        let id = peer.spec.app_id.clone().unwrap_or_else(|| peer.name_any());
        let itself = peer.namespace() == seen.app.namespace() && peer.name_any() == seen.name();
        if itself || id != app.app_id().as_str() || rank(&peer) >= rank(&seen.app) {
            continue;
        }
        let Ok(other) = rules::validate(&peer) else {
            continue;
        };
        let same =
            other.compiled().kafka.bootstrap_servers == app.compiled().kafka.bootstrap_servers;
        let same = same
            || match access(world, &other).await? {
                Ok(access) => world
                    .kafka
                    .look(&access, &BTreeSet::new())
                    .await
                    .is_ok_and(|answer| answer.cluster_id == cluster_id),
                Err(_) => false,
            };
        if same {
            return Ok(Some(format!(
                "{}/{}",
                peer.namespace().unwrap_or_default(),
                peer.name_any()
            )));
        }
    }
    Ok(None)
}

/// All workers are asked at once: one that hangs costs one deadline, not one each.
async fn workers(
    world: &World,
    seen: &Seen,
    asked: &Asked,
) -> BTreeMap<String, (WorkerTarget, crate::workers::WorkerAnswer)> {
    let Some(token) = &asked.token else {
        return BTreeMap::new();
    };
    let targets = seen.pods.iter().filter_map(target);
    join_all(targets.map(|target| async {
        let answer = world.workers.status(&target, token).await;
        (target.pod.clone(), (target, answer))
    }))
    .await
    .into_iter()
    .collect()
}

fn target(pod: &Value) -> Option<WorkerTarget> {
    if text(pod, "/status/phase") != Some("Running") {
        return None;
    }
    Some(WorkerTarget {
        pod: name_of(pod).to_owned(),
        ip: text(pod, "/status/podIP")?.to_owned(),
    })
}
