//! A world in memory: an API server with just enough of its controllers, a broker, workers. Every
//! write counts, and after a chosen one the operator is dead.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use turbine_crds::app::TurbineApp;
use turbine_crds::assignment::AssignmentDocument;
use turbine_crds::control::{RescaleDocument, TaskState, TaskStatus, Verdict, WorkerStatus};
use turbine_crds::status::{RescaleStep, TurbineAppStatus};
use turbine_protocol::Category;

use super::workers::Workers;
use crate::app::{ActError, Memory, Outcome, PassError, Peers, World, diff, pass};
use crate::cluster::{Cluster, ClusterError, Kind, Propagation};
use crate::kafka::{
    BrokerFacts, Created, Grew, KafkaAccess, KafkaFault, KafkaRights, KafkaSeen, KafkaView,
    LayoutQuestion, SealDone, SealOrder, TopicKept, TopicWanted,
};
use crate::signals::{Signal, Signals};
use crate::workers::{ControlToken, WorkerAnswer, WorkerTarget, WorkersView};

pub(super) const NAMESPACE: &str = "test";

type Key = (Kind, String, String);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) objects: BTreeMap<Key, Value>,
    /// Apps in other namespaces.
    pub(super) elsewhere: Vec<Value>,
    pub(super) topics: BTreeMap<String, i32>,
    pub(super) kept: BTreeMap<String, TopicKept>,
    pub(super) kafka_down: bool,
    pub(super) workers: BTreeMap<String, WorkerStatus>,
    pub(super) signals: Vec<&'static str>,
    /// Writes by the operator, in order.
    pub(super) writes: Vec<String>,
    /// The operator dies right after this many writes.
    dies_after: Option<usize>,
    /// Calls by operators so far.
    pub(super) calls: usize,
    /// The operator dies right after this many calls, reads included.
    dies_after_call: Option<usize>,
    dead: bool,
    version: u64,
    uids: u64,
    /// Kinds that the API server does not let the operator write.
    pub(super) forbidden: BTreeSet<Kind>,
    pub(super) workers_say: Workers,
    /// The app's user may not alter topics.
    pub(super) no_alter: bool,
    /// Partitions whose receipts the operator sealed.
    pub(super) sealed: Vec<i32>,
    /// From this step on nobody reaches this pod.
    pub(super) dumb_when: Option<(RescaleStep, String)>,
}

thread_local! {
    /// Each test runs on a thread of its own.
    static SECONDS: Cell<i64> = const { Cell::new(1_800_000_000) };
}

/// Lets time pass.
pub(super) fn pass_seconds(seconds: i64) {
    SECONDS.set(SECONDS.get() + seconds);
}

fn now() -> Timestamp {
    Timestamp::from_second(SECONDS.get()).unwrap()
}

#[derive(Debug, Clone, Default)]
pub(super) struct Memories(pub(super) Arc<Mutex<State>>);

fn named(kind: Kind, namespace: &str, name: &str) -> String {
    format!("{kind} {namespace}/{name}")
}

fn dead() -> ClusterError {
    ClusterError::Unavailable {
        verb: "reach",
        object: "the world".to_owned(),
        message: "the operator was killed".to_owned(),
    }
}

/// Objects merge, everything else is replaced.
fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (key, patch) in patch {
                if patch.is_null() {
                    fields.remove(key);
                } else {
                    merge(fields.entry(key.clone()).or_insert(Value::Null), patch);
                }
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

impl State {
    /// A call begins, a read or a write. The last one of an operator that is to die after it is still carried out and
    /// answered.
    fn alive(&mut self) -> Result<(), ClusterError> {
        if self.dead {
            return Err(dead());
        }
        self.calls += 1;
        self.dead = self.dies_after_call == Some(self.calls);
        Ok(())
    }

    /// A write was done. An error here is a kill after the write took effect.
    fn wrote(&mut self, what: String) -> Result<(), ClusterError> {
        self.writes.push(what);
        if self.dies_after == Some(self.writes.len()) {
            self.dead = true;
            return Err(dead());
        }
        Ok(())
    }

    fn unreachable(&self, pod: &str) -> bool {
        let step = self
            .get(Kind::TurbineApp, "a")
            .and_then(|app| serde_json::from_value(app["status"]["rescale"]["step"].clone()).ok());
        self.workers_say.moods.silent.iter().any(|of| of == pod)
            || self
                .dumb_when
                .as_ref()
                .is_some_and(|(from, of)| of == pod && step >= Some(*from))
    }

    /// Before a topic grows its ends are on record, in the status and on every volume, and every old task holds.
    fn grows_by_the_record(&self) {
        let app = self.get(Kind::TurbineApp, "a").unwrap();
        let status: TurbineAppStatus = serde_json::from_value(app["status"].clone()).unwrap();
        let plan = status.rescale.unwrap();
        assert_eq!(plan.step, RescaleStep::Growing);
        let old = usize::try_from(plan.topics[0].from).unwrap();
        assert_eq!(plan.topics[0].ends.len(), old);
        assert_eq!(plan.subscriptions[0].holds.len(), old);
        let claims = self
            .objects
            .iter()
            .filter(|((kind, _, _), _)| *kind == Kind::PersistentVolumeClaim);
        for (_, claim) in claims {
            let mark = claim["metadata"]["annotations"]["turbine.dev/rescale"].as_str();
            let mark: Value = serde_json::from_str(mark.unwrap()).unwrap();
            assert_eq!(mark["rescale"]["id"], json!(plan.id));
        }
    }

    pub(super) fn uids_of(&self, kind: Kind) -> Vec<String> {
        self.objects
            .iter()
            .filter(|((of, _, _), _)| *of == kind)
            .map(|(_, object)| object["metadata"]["uid"].as_str().unwrap().to_owned())
            .collect()
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(super) fn insert(&mut self, kind: Kind, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.uids += 1;
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.to_string());
        object["metadata"]["uid"] = json!(format!("uid-{}", self.uids));
        object["metadata"]["namespace"] = json!(NAMESPACE);
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] =
            json!(format!("2026-01-01T00:00:{:02}Z", self.uids.min(59)));
        object["metadata"]["resourceVersion"] = json!(self.next_version());
        self.objects
            .insert((kind, NAMESPACE.to_owned(), name), object);
    }

    pub(super) fn change(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let version = self.next_version();
        let object = self
            .objects
            .get_mut(&(kind, NAMESPACE.to_owned(), name.to_owned()))
            .unwrap();
        let before = object["spec"].clone();
        change(object);
        if object["spec"] != before {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            object["metadata"]["generation"] = json!(generation);
        }
        object["metadata"]["resourceVersion"] = json!(version);
    }

    pub(super) fn remove(&mut self, kind: Kind, name: &str, orphan: bool) {
        let Some(object) = self
            .objects
            .remove(&(kind, NAMESPACE.to_owned(), name.to_owned()))
        else {
            return;
        };
        if orphan {
            return;
        }
        let uid = object["metadata"]["uid"].clone();
        let children: Vec<Key> = self
            .objects
            .iter()
            .filter(|(_, child)| {
                child["metadata"]["ownerReferences"]
                    .as_array()
                    .is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid))
            })
            .map(|(key, _)| key.clone())
            .collect();
        for (kind, _, name) in children {
            self.remove(kind, &name, false);
        }
    }

    /// What Kubernetes' own controllers and the kubelet do in a while.
    pub(super) fn controllers(&mut self) {
        let sets: Vec<Value> = self
            .objects
            .iter()
            .filter(|((kind, _, _), _)| *kind == Kind::StatefulSet)
            .map(|(_, object)| object.clone())
            .collect();
        for set in sets {
            self.stateful_set(&set);
        }
        let claims: Vec<String> = self
            .objects
            .keys()
            .filter(|(kind, _, _)| *kind == Kind::PersistentVolumeClaim)
            .map(|(_, _, name)| name.clone())
            .collect();
        for claim in claims {
            self.change(Kind::PersistentVolumeClaim, &claim, |claim| {
                claim["status"] = json!({
                    "phase": "Bound",
                    "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                });
            });
        }
    }

    fn stateful_set(&mut self, set: &Value) {
        let name = set["metadata"]["name"].as_str().unwrap().to_owned();
        let replicas = set["spec"]["replicas"].as_i64().unwrap();
        let revision = diff::digest(&set["spec"]["template"]);
        self.change(Kind::StatefulSet, &name, |live| {
            live["status"] = json!({
                "observedGeneration": live["metadata"]["generation"],
                "updateRevision": revision,
            });
        });
        let document: Option<AssignmentDocument> = self
            .objects
            .get(&(
                Kind::ConfigMap,
                NAMESPACE.to_owned(),
                format!("{name}-assignment"),
            ))
            .and_then(|map| serde_json::from_str(map["data"]["assignment.json"].as_str()?).ok());
        for at in 0..replicas {
            let claim = format!("state-{name}-{at}");
            if !self.has(Kind::PersistentVolumeClaim, &claim) {
                let mut template = set["spec"]["volumeClaimTemplates"][0].clone();
                template["metadata"]["name"] = json!(claim);
                self.insert(Kind::PersistentVolumeClaim, template);
            }
            let pod = format!("{name}-{at}");
            let old = self.get(Kind::Pod, &pod).is_some_and(|live| {
                live["metadata"]["labels"]["controller-revision-hash"] != json!(revision)
            });
            if old {
                self.remove(Kind::Pod, &pod, false);
            }
            if !self.has(Kind::Pod, &pod) {
                let mut labels = set["spec"]["template"]["metadata"]["labels"].clone();
                labels["controller-revision-hash"] = json!(revision);
                self.insert(
                    Kind::Pod,
                    json!({
                        "metadata": {
                            "name": pod, "labels": labels,
                            "ownerReferences": [{"kind": "StatefulSet", "name": name, "uid": set["metadata"]["uid"], "controller": true}],
                        },
                        "status": {
                            "phase": "Running", "podIP": "10.0.0.1",
                            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                        },
                    }),
                );
                let status = worker(&pod, document.as_ref());
                if let Some(document) = &document {
                    self.workers_say.assigned(&pod, document);
                }
                self.workers.insert(pod, status);
            }
        }
        let surplus: Vec<String> = self
            .objects
            .keys()
            .filter(|(kind, _, _)| *kind == Kind::Pod)
            .filter_map(|(_, _, pod)| {
                let at: i64 = pod.strip_prefix(&format!("{name}-"))?.parse().ok()?;
                (at >= replicas).then(|| pod.clone())
            })
            .collect();
        for pod in surplus {
            self.remove(Kind::Pod, &pod, false);
        }
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.objects
            .get(&(kind, NAMESPACE.to_owned(), name.to_owned()))
    }

    pub(super) fn has(&self, kind: Kind, name: &str) -> bool {
        self.get(kind, name).is_some()
    }

    pub(super) fn names(&self, kind: Kind) -> Vec<String> {
        self.objects
            .keys()
            .filter(|(of, _, _)| *of == kind)
            .map(|(_, _, name)| name.clone())
            .collect()
    }
}

fn worker(pod: &str, document: Option<&AssignmentDocument>) -> WorkerStatus {
    let tasks = document.into_iter().flat_map(|document| &document.tasks);
    WorkerStatus {
        pod: pod.to_owned(),
        version: "1".to_owned(),
        app_id: "a".to_owned(),
        epoch: document.map(|document| document.epoch),
        draining: false,
        tasks: tasks
            .filter(|task| task.pod == pod)
            .map(|task| TaskStatus {
                subscription: task.subscription.clone(),
                partition: task.partition,
                store_epoch: task.store_epoch,
                state: TaskState::Running,
                position: None,
                end_offset: None,
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
            })
            .collect(),
        rescale: None,
    }
}

#[async_trait]
impl Cluster for Memories {
    async fn get(&self, kind: Kind, _: &str, name: &str) -> Result<Option<Value>, ClusterError> {
        let mut state = self.0.lock().unwrap();
        state.alive()?;
        Ok(state.get(kind, name).cloned())
    }

    async fn list(&self, kind: Kind, _: &str, labels: &str) -> Result<Vec<Value>, ClusterError> {
        let mut state = self.0.lock().unwrap();
        state.alive()?;
        assert_ne!(kind, Kind::Secret, "secrets are never listed");
        let (key, value) = labels.split_once('=').unwrap();
        Ok(state
            .objects
            .iter()
            .filter(|((of, _, _), object)| {
                *of == kind && object["metadata"]["labels"][key] == value
            })
            .map(|(_, object)| object.clone())
            .collect())
    }

    async fn create(
        &self,
        kind: Kind,
        namespace: &str,
        object: &Value,
    ) -> Result<(), ClusterError> {
        let mut state = self.0.lock().unwrap();
        state.alive()?;
        let name = object["metadata"]["name"].as_str().unwrap();
        let object_name = named(kind, namespace, name);
        if state.has(kind, name) {
            return Err(ClusterError::AlreadyExists {
                object: object_name,
            });
        }
        state.insert(kind, object.clone());
        state.wrote(format!("create {object_name}"))
    }

    async fn apply(&self, kind: Kind, namespace: &str, object: &Value) -> Result<(), ClusterError> {
        let mut state = self.0.lock().unwrap();
        state.alive()?;
        let name = object["metadata"]["name"].as_str().unwrap();
        let object_name = named(kind, namespace, name);
        if state.forbidden.contains(&kind) {
            return Err(ClusterError::Forbidden {
                verb: "apply",
                object: object_name,
                message: "no right".to_owned(),
            });
        }
        match state.get(kind, name) {
            None => state.insert(kind, object.clone()),
            Some(live) => {
                let wanted = &object["metadata"]["resourceVersion"];
                if !wanted.is_null() && *wanted != live["metadata"]["resourceVersion"] {
                    return Err(ClusterError::Conflict {
                        object: object_name,
                    });
                }
                state.change(kind, name, |live| merge(live, object));
            }
        }
        state.wrote(format!("apply {object_name}"))
    }

    async fn merge(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), ClusterError> {
        let mut state = self.0.lock().unwrap();
        state.alive()?;
        let object = named(kind, namespace, name);
        let Some(live) = state.get(kind, name) else {
            return Err(ClusterError::NotFound { object });
        };
        for guard in ["uid", "resourceVersion"] {
            let wanted = &patch["metadata"][guard];
            if !wanted.is_null() && *wanted != live["metadata"][guard] {
                return Err(ClusterError::Conflict { object });
            }
        }
        state.change(kind, name, |live| merge(live, patch));
        let gone = state.get(kind, name).is_some_and(|live| {
            live["metadata"]["deletionTimestamp"].is_string()
                && live["metadata"]["finalizers"]
                    .as_array()
                    .is_none_or(Vec::is_empty)
        });
        if gone {
            state.remove(kind, name, false);
        }
        state.wrote(format!("patch {object}"))
    }

    async fn delete(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        propagation: Propagation,
    ) -> Result<(), ClusterError> {
        let mut state = self.0.lock().unwrap();
        state.alive()?;
        let object = named(kind, namespace, name);
        match state.get(kind, name) {
            None => return Ok(()),
            Some(live) if live["metadata"]["uid"] != uid => {
                return Err(ClusterError::Conflict { object });
            }
            Some(_) => {}
        }
        state.remove(kind, name, propagation == Propagation::Orphan);
        state.wrote(format!("delete {object}"))
    }

    async fn delete_unchanged(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: &str,
    ) -> Result<(), ClusterError> {
        let unchanged = self.with(|state| {
            state.get(kind, name).is_none_or(|live| {
                live["metadata"]["resourceVersion"].as_str() == Some(resource_version)
            })
        });
        if !unchanged {
            return Err(ClusterError::Conflict {
                object: named(kind, namespace, name),
            });
        }
        Cluster::delete(self, kind, namespace, name, uid, Propagation::Background).await
    }

    async fn replace_status(&self, app: &TurbineApp) -> Result<TurbineApp, ClusterError> {
        let mut state = self.0.lock().unwrap();
        state.alive()?;
        let name = app.metadata.name.clone().unwrap();
        let object = named(Kind::TurbineApp, NAMESPACE, &name);
        let Some(live) = state.get(Kind::TurbineApp, &name) else {
            return Err(ClusterError::NotFound { object });
        };
        if live["metadata"]["resourceVersion"].as_str() != app.metadata.resource_version.as_deref()
        {
            return Err(ClusterError::Conflict { object });
        }
        let status = serde_json::to_value(&app.status).unwrap();
        state.change(Kind::TurbineApp, &name, |live| live["status"] = status);
        state.wrote(format!("status {object}"))?;
        Ok(serde_json::from_value(state.get(Kind::TurbineApp, &name).unwrap().clone()).unwrap())
    }
}

fn silent() -> KafkaFault {
    KafkaFault {
        reason: "KafkaUnreachable",
        message: "no broker answers at kafka:9092".to_owned(),
        category: Category::Kafka,
        passes_by_itself: true,
    }
}

#[async_trait]
impl KafkaView for Memories {
    async fn look(
        &self,
        _: &KafkaAccess,
        topics: &BTreeSet<String>,
    ) -> Result<KafkaSeen, KafkaFault> {
        let state = self.0.lock().unwrap();
        if state.kafka_down || state.dead {
            return Err(silent());
        }
        let counts = state
            .topics
            .iter()
            .filter(|(name, _)| topics.contains(*name));
        Ok(KafkaSeen {
            cluster_id: "one".to_owned(),
            counts: counts.map(|(name, count)| (name.clone(), *count)).collect(),
            kept: state.kept.clone(),
        })
    }

    async fn create(&self, _: &KafkaAccess, topic: &TopicWanted) -> Result<Created, KafkaFault> {
        let mut state = self.0.lock().unwrap();
        if state.kafka_down || state.dead {
            return Err(silent());
        }
        if state.topics.contains_key(&topic.name) {
            return Ok(Created::Existed);
        }
        state.topics.insert(topic.name.clone(), topic.partitions);
        state
            .wrote(format!("create topic {}", topic.name))
            .map_err(|_| silent())?;
        Ok(Created::Now)
    }

    async fn layout(
        &self,
        _: &KafkaAccess,
        question: &LayoutQuestion,
    ) -> Result<BrokerFacts, KafkaFault> {
        let state = self.0.lock().unwrap();
        if state.kafka_down || state.dead {
            return Err(silent());
        }
        let ends = question.ends_of.iter().map(|topic| {
            let count = state.topics[topic.as_str()];
            (
                topic.to_string(),
                (0..count).map(|at| 100 + i64::from(at)).collect(),
            )
        });
        let receipts = state.workers_say.receipts.iter();
        Ok(BrokerFacts {
            ends: ends.collect(),
            ends_asked_at: Some(now()),
            counts: vec![state.topics.clone(); 3],
            silent: 0,
            receipts: receipts
                .filter(|(task, _)| question.receipts_of.contains_key(*task))
                .map(|(task, of)| (task.clone(), *of))
                .collect(),
            rights: KafkaRights {
                no_alter: if state.no_alter && question.before_growth {
                    question.topics.iter().map(ToString::to_string).collect()
                } else {
                    BTreeSet::new()
                },
                no_seal: BTreeSet::new(),
            },
            retention_ms: BTreeMap::new(),
            grown_at: BTreeMap::new(),
        })
    }

    async fn grow(&self, _: &KafkaAccess, topic: &str, to: i32) -> Result<Grew, KafkaFault> {
        let mut state = self.0.lock().unwrap();
        if state.kafka_down || state.dead {
            return Err(silent());
        }
        state.grows_by_the_record();
        if state.topics[topic] >= to {
            return Ok(Grew::Before);
        }
        state.topics.insert(topic.to_owned(), to);
        state
            .wrote(format!("grow topic {topic}"))
            .map_err(|_| silent())?;
        Ok(Grew::Now)
    }

    async fn seal(&self, _: &KafkaAccess, order: &SealOrder) -> Result<SealDone, KafkaFault> {
        let mut state = self.0.lock().unwrap();
        if state.kafka_down || state.dead {
            return Err(silent());
        }
        let receipt = state.workers_say.receipts.get_mut(&order.task).unwrap();
        if receipt.epoch > order.epoch || (receipt.epoch == order.epoch && !receipt.sealed) {
            return Ok(SealDone::TooLate {
                found: receipt.epoch,
            });
        }
        if receipt.epoch == order.epoch {
            return Ok(SealDone::Before);
        }
        (receipt.epoch, receipt.sealed) = (order.epoch, true);
        state.sealed.push(i32::from(order.task.partition));
        state
            .wrote(format!("seal {}", order.task))
            .map_err(|_| silent())?;
        Ok(SealDone::Sealed)
    }

    async fn delete(&self, _: &KafkaAccess, topic: &str) -> Result<(), KafkaFault> {
        let mut state = self.0.lock().unwrap();
        if state.kafka_down || state.dead {
            return Err(silent());
        }
        state.topics.remove(topic);
        state
            .wrote(format!("delete topic {topic}"))
            .map_err(|_| silent())
    }
}

#[async_trait]
impl WorkersView for Memories {
    async fn status(&self, target: &WorkerTarget, _: &ControlToken) -> WorkerAnswer {
        let state = self.0.lock().unwrap();
        if state.unreachable(&target.pod) {
            return WorkerAnswer::Silent("no route to it".to_owned());
        }
        match state.workers.get(&target.pod) {
            Some(status) => WorkerAnswer::Status(Box::new(WorkerStatus {
                rescale: state.workers_say.says(&target.pod, status),
                ..status.clone()
            })),
            None => WorkerAnswer::Silent("no such worker".to_owned()),
        }
    }

    async fn push(
        &self,
        target: &WorkerTarget,
        _: &ControlToken,
        document: &AssignmentDocument,
    ) -> Result<(), String> {
        let mut state = self.0.lock().unwrap();
        if state.dead {
            return Err("dead".to_owned());
        }
        if state.unreachable(&target.pod) {
            return Err("no route to it".to_owned());
        }
        let status = worker(&target.pod, Some(document));
        state.workers_say.assigned(&target.pod, document);
        state.workers.insert(target.pod.clone(), status);
        Ok(())
    }

    async fn tell(
        &self,
        target: &WorkerTarget,
        _: &ControlToken,
        document: &RescaleDocument,
    ) -> Result<(), String> {
        let mut state = self.0.lock().unwrap();
        if state.dead || state.unreachable(&target.pod) {
            return Err("no route to it".to_owned());
        }
        state.workers_say.tell(&target.pod, document)
    }
}

#[async_trait]
impl Signals for Memories {
    async fn give(&self, _: &TurbineApp, signal: &Signal<'_>) {
        self.0.lock().unwrap().signals.push(signal.reason());
    }

    async fn failed(&self, _: &TurbineApp, _: &ActError) {}

    async fn status_changed(&self, _: &TurbineApp, _: &TurbineAppStatus) {}
}

impl Peers for Memories {
    fn all(&self) -> Vec<Arc<TurbineApp>> {
        let state = self.0.lock().unwrap();
        state
            .objects
            .iter()
            .filter(|((kind, _, _), _)| *kind == Kind::TurbineApp)
            .map(|(_, app)| app)
            .chain(&state.elsewhere)
            .map(|app| serde_json::from_value(app.clone()).unwrap())
            .map(Arc::new)
            .collect()
    }
}

impl Memories {
    /// A fresh operator over this world: it remembers nothing.
    pub(super) fn operator(&self) -> World {
        World {
            cluster: Arc::new(self.clone()),
            kafka: Arc::new(self.clone()),
            workers: Arc::new(self.clone()),
            peers: Arc::new(self.clone()),
            signals: Arc::new(self.clone()),
            default_image: Some("turbine-worker:test".to_owned()),
            clock: now,
            memory: Memory::default(),
        }
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }

    pub(super) fn apply_app(&self, app: Value) {
        self.with(|state| {
            let name = app["metadata"]["name"].as_str().unwrap().to_owned();
            if state.has(Kind::TurbineApp, &name) {
                state.change(Kind::TurbineApp, &name, |live| {
                    live["spec"] = app["spec"].clone()
                });
            } else {
                state.insert(Kind::TurbineApp, app);
            }
        });
    }

    /// What `kubectl delete` does.
    pub(super) fn delete_app(&self, name: &str) {
        self.with(|state| {
            let app = state.get(Kind::TurbineApp, name).unwrap();
            if app["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|of| !of.is_empty())
            {
                state.change(Kind::TurbineApp, name, |app| {
                    app["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
                });
            } else {
                state.remove(Kind::TurbineApp, name, false);
            }
        });
    }

    /// Passes and controllers in turn until nothing changes any more.
    pub(super) async fn drive(&self, operator: &World, name: &str) -> Result<Outcome, PassError> {
        let mut quiet = 0;
        for _ in 0..40 {
            let outcome = pass(operator, NAMESPACE, name).await?;
            quiet = if outcome.changed { 0 } else { quiet + 1 };
            if quiet == 2 {
                return Ok(outcome);
            }
            self.with(State::controllers);
        }
        panic!(
            "the world does not come to rest: {:#?}",
            self.with(|state| state.writes.clone())
        );
    }

    /// The same, with a fresh operator.
    pub(super) async fn settle(&self, name: &str) -> Outcome {
        self.drive(&self.operator(), name).await.unwrap()
    }

    /// Lets an operator live until it has written `writes` more times. True if it died before it was done.
    pub(super) async fn die_after(&self, name: &str, writes: usize) -> bool {
        self.with(|state| state.dies_after = Some(state.writes.len() + writes));
        let _ = self.drive(&self.operator(), name).await;
        self.with(|state| {
            state.dies_after = None;
            std::mem::take(&mut state.dead)
        })
    }

    /// Lets an operator live until it has made `calls` more calls. True if it died before it was done.
    pub(super) async fn die_after_call(&self, name: &str, calls: usize) -> bool {
        self.with(|state| state.dies_after_call = Some(state.calls + calls));
        let _ = self.drive(&self.operator(), name).await;
        self.with(|state| {
            state.dies_after_call = None;
            std::mem::take(&mut state.dead)
        })
    }

    pub(super) fn status(&self, name: &str) -> TurbineAppStatus {
        self.with(|state| {
            let status = state.get(Kind::TurbineApp, name).unwrap()["status"].clone();
            serde_json::from_value(status).unwrap_or_default()
        })
    }

    /// Status, reason and message of a condition.
    pub(super) fn condition(&self, name: &str, type_: &str) -> (String, String, String) {
        let status = self.status(name);
        let condition = status.conditions.iter().find(|of| of.type_ == type_);
        let condition = condition.unwrap_or_else(|| panic!("no condition {type_} in {status:#?}"));
        (
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        )
    }

    pub(super) fn is_ready(&self, name: &str) -> bool {
        self.condition(name, "Ready").0 == "True"
    }

    /// The world without what is random or counts steps, for comparison.
    pub(super) fn picture(&self) -> Value {
        self.with(|state| {
            let mut names: BTreeMap<String, String> = BTreeMap::new();
            let objects: BTreeMap<String, Value> = state
                .objects
                .iter()
                .map(|((kind, _, name), object)| {
                    names.insert(
                        object["metadata"]["uid"].as_str().unwrap().to_owned(),
                        format!("<uid of {kind} {name}>"),
                    );
                    let mut object = object.clone();
                    let metadata = object["metadata"].as_object_mut().unwrap();
                    metadata.remove("resourceVersion");
                    metadata.remove("creationTimestamp");
                    if *kind == Kind::Secret {
                        object["data"] = json!("<random>");
                    }
                    if let Some(annotations) = object["metadata"]
                        .get_mut("annotations")
                        .and_then(Value::as_object_mut)
                    {
                        // A digest over uids.
                        annotations.remove("turbine.dev/applied");
                    }
                    (format!("{kind}/{name}"), object)
                })
                .collect();
            let lineage = state.objects.values().find_map(|object| {
                object["status"]["layout"]["lineage"]
                    .as_str()
                    .map(str::to_owned)
            });
            let mut text = serde_json::to_string(&json!({
                "objects": objects, "topics": state.topics,
            }))
            .unwrap();
            for (uid, name) in names.iter().rev() {
                text = text.replace(&format!("\"{uid}\""), &format!("\"{name}\""));
            }
            if let Some(lineage) = lineage {
                text = text.replace(&lineage, "<lineage>");
            }
            serde_json::from_str(&text).unwrap()
        })
    }
}
