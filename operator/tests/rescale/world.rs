//! What there is: the API server's objects, a topic on two brokers, receipts, and worker pods with what is on their volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use turbine_crds::app::OnDelete;
use turbine_crds::status::{
    LayoutStatus, LayoutSubscription, RescaleStatus, RescaleStep, RescaleSubscription,
};
use turbine_operator::app::plan::rescale::{
    Act, BrokerFacts, ClaimFacts, CopyAhead, Hold, Journal, KafkaRights, Manifest, PodFacts,
    ReceiptFacts, SetFacts, StopWord, TaskWord, Wanted, WantedSubscription, WorkerWord, World,
};
use turbine_protocol::layout::Task;
use turbine_protocol::rescale::{Closing, Moment};

use crate::scope::Scope;

pub(crate) const TOPIC: &str = "events";
const SUBSCRIPTION: &str = "s";
/// One tick lets all that waits for producers go on.
const TICK_S: i64 = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The status, its resourceVersion, and the one before: what a cache may still show.
    pub(crate) status: Status,
    pub(crate) former: Option<Status>,
    /// Edits of the spec that were made.
    pub(crate) edits: u8,
    pub(crate) deleting: bool,
    pub(crate) emptied: bool,
    /// A task found records that another hash placed.
    pub(crate) misplaced: bool,
    pub(crate) claims: BTreeMap<i32, Claim>,
    pub(crate) claims_made: u8,
    pub(crate) set: Set,
    pub(crate) topic: Topic,
    pub(crate) receipts: BTreeMap<i32, Receipt>,
    pub(crate) pods: BTreeMap<i32, Pod>,
    pub(crate) operators: [Operator; 2],
    pub(crate) ticks: u8,
    pub(crate) losses: u8,
    pub(crate) wrongs: BTreeSet<Wrong>,
}

/// What must not happen, noted when it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wrong {
    GrewTooEarly,
    BegunThoughRefused,
    CommittedAfterTheStop,
    PodWentWithState,
    StartedWithoutState,
    ClosedAlone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Status {
    pub(crate) version: u8,
    pub(crate) layout: Option<Arc<LayoutStatus>>,
    pub(crate) rescale: Option<Arc<RescaleStatus>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub(crate) uid: u8,
    pub(crate) version: u8,
    pub(crate) mark: Option<Arc<Journal>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Set {
    pub(crate) version: u8,
    pub(crate) replicas: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    /// As the brokers have it; the first is the controller.
    pub(crate) counts: [i32; 2],
    /// End of each old partition.
    pub(crate) end: i64,
    /// The first record that the new count placed.
    pub(crate) first_new: Option<i64>,
    /// A call to grow that timed out and may still be carried out.
    pub(crate) late: Option<(i32, i64)>,
    pub(crate) foreign: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Receipt {
    pub(crate) epoch: i64,
    pub(crate) sealed: bool,
    pub(crate) number: i64,
    pub(crate) offset: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Up {
    Answers,
    /// It runs, and nobody reaches it.
    Unreachable,
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pod {
    pub(crate) up: Up,
    /// The newest plan that it heard of, on its volume.
    pub(crate) heard: Option<Arc<RescaleStatus>>,
    /// Partitions whose tasks run, and the epoch of their stores.
    pub(crate) tasks: Vec<i32>,
    pub(crate) epoch: i64,
    pub(crate) hold: Option<i64>,
    /// Epoch of the plan that it stopped for, and where.
    pub(crate) stopped: Option<(i64, Vec<(i32, i64)>)>,
    pub(crate) pulled: Option<i64>,
    /// Epochs of the stores on the volume.
    pub(crate) stores: BTreeSet<i64>,
}

impl Pod {
    pub(crate) fn new(epoch: i64, tasks: Vec<i32>) -> Self {
        Self {
            up: Up::Answers,
            heard: None,
            stores: tasks.iter().map(|_| epoch).collect(),
            tasks,
            epoch,
            hold: None,
            stopped: None,
            pulled: None,
        }
    }

    pub(crate) fn heard(&self) -> (i64, i64) {
        self.heard.as_ref().map_or((0, 0), |of| of.number())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    Idle,
    /// It has asked for the ends; the counts come next. Beside the end, what the counts were then.
    Asked(i64, [i32; 2]),
    /// It is about to replace the status that had this version.
    Records(u8, Arc<Journal>),
    Acts(Vec<Act>),
}

pub(crate) fn task(partition: i32) -> Task {
    Task {
        subscription: SUBSCRIPTION.parse().unwrap(),
        partition: partition.try_into().unwrap(),
    }
}

pub(crate) fn owned(pods: &[i32], pod: i32) -> Vec<i32> {
    (0..)
        .zip(pods)
        .filter(|(_, of)| **of == pod)
        .map(|(partition, _)| partition)
        .collect()
}

pub(crate) fn subscription(plan: &RescaleStatus) -> &RescaleSubscription {
    &plan.subscriptions[0]
}

/// The layout that runs before there is a plan.
pub(crate) fn first_layout(scope: &Scope) -> LayoutStatus {
    LayoutStatus {
        lineage: "l".to_owned(),
        epoch: 1,
        replicas: scope.replicas,
        subscriptions: vec![LayoutSubscription {
            name: SUBSCRIPTION.to_owned(),
            topic: TOPIC.to_owned(),
            partitions: scope.partitions,
            store_epoch: 1,
            pods: Vec::new(),
        }],
    }
}

impl State {
    pub(crate) fn new(scope: &Scope) -> Self {
        let pods: Vec<i32> = (0..scope.partitions).map(|p| p % scope.replicas).collect();
        Self {
            status: Status {
                version: 0,
                layout: Some(Arc::new(first_layout(scope))),
                rescale: None,
            },
            former: None,
            edits: 0,
            deleting: false,
            emptied: false,
            misplaced: false,
            claims: (0..scope.replicas)
                .map(|pod| {
                    let claim = Claim {
                        uid: u8::try_from(pod).unwrap(),
                        version: 0,
                        mark: None,
                    };
                    (pod, claim)
                })
                .collect(),
            claims_made: u8::try_from(scope.replicas).unwrap(),
            set: Set {
                version: 0,
                replicas: scope.replicas,
            },
            topic: Topic {
                counts: [scope.partitions; 2],
                end: 0,
                first_new: None,
                late: None,
                foreign: false,
            },
            receipts: (0..scope.partitions)
                .map(|partition| {
                    let receipt = Receipt {
                        epoch: 1,
                        sealed: false,
                        number: 1,
                        offset: 0,
                    };
                    (partition, receipt)
                })
                .collect(),
            pods: (0..scope.replicas)
                .map(|pod| (pod, Pod::new(1, owned(&pods, pod))))
                .collect(),
            operators: [Operator::Idle, Operator::Idle],
            ticks: 0,
            losses: 0,
            wrongs: BTreeSet::new(),
        }
    }

    /// The newest record, in this status or on the volumes.
    pub(crate) fn on_record<'a>(&'a self, status: &'a Status) -> Option<&'a RescaleStatus> {
        let marks = self.claims.values().filter_map(|of| of.mark.as_deref());
        let plans = marks.map(|of| &of.rescale).chain(status.rescale.as_deref());
        plans.max_by_key(|of| of.number())
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(i64::from(self.ticks) * TICK_S).unwrap()
    }

    /// What an operator sees that has this status and these answers of the brokers.
    pub(crate) fn seen(&self, scope: &Scope, status: &Status, end: i64, counts: [i32; 2]) -> World {
        let (partitions, replicas) = scope.edits[usize::from(self.edits)];
        let plan = self.on_record(status);
        let placed = match plan {
            Some(plan) if plan.step >= RescaleStep::Started && plan.step != RescaleStep::Undone => {
                subscription(plan).pods.clone()
            }
            Some(plan) => subscription(plan).old_pods.clone(),
            None => (0..scope.partitions).map(|p| p % scope.replicas).collect(),
        };
        World {
            now: self.now(),
            // No two records are stored under one resourceVersion.
            fresh: status.version.to_string(),
            wanted: Wanted {
                generation: self.edits.into(),
                deleting: self.deleting,
                suspended: false,
                replicas,
                producer_refresh_ms: 600_000,
                order_grace_ms: 120_000,
                on_scale_down: if scope.delete_claims {
                    OnDelete::Delete
                } else {
                    OnDelete::Retain
                },
                subscriptions: vec![WantedSubscription {
                    name: SUBSCRIPTION.to_owned(),
                    topic: TOPIC.to_owned(),
                    partitions,
                    exactly_once: scope.exactly_once,
                    keyed: true,
                    hash_declared: true,
                    out_of_orderness_ms: 0,
                }],
            },
            layout: match (&status.layout, plan) {
                // Volumes carry the layout as well, from before there was a plan.
                (None, None) => Some(first_layout(scope)),
                (layout, _) => layout.as_deref().cloned(),
            },
            rescale: status.rescale.as_deref().cloned(),
            placement: (0..).zip(placed).map(|(p, pod)| (task(p), pod)).collect(),
            broker: Ok(BrokerFacts {
                ends: BTreeMap::from([(TOPIC.to_owned(), (0..counts[0]).map(|_| end).collect())]),
                ends_asked_at: Some(self.now()),
                counts: counts
                    .iter()
                    .map(|count| BTreeMap::from([(TOPIC.to_owned(), *count)]))
                    .collect(),
                silent: 0,
                receipts: self
                    .receipts
                    .iter()
                    .map(|(p, of)| {
                        let facts = ReceiptFacts {
                            epoch: of.epoch,
                            sealed: of.sealed,
                            number: of.number,
                            offset: of.offset,
                        };
                        (task(*p), facts)
                    })
                    .collect(),
                rights: KafkaRights::default(),
                retention_ms: BTreeMap::new(),
                grown_at: BTreeMap::new(),
            }),
            pods: self
                .pods
                .iter()
                .filter(|(_, pod)| pod.up != Up::Absent)
                .map(|(at, pod)| (*at, self.facts(*at, pod)))
                .collect(),
            claims: self
                .claims
                .iter()
                .map(|(pod, claim)| {
                    let facts = ClaimFacts {
                        name: format!("c{pod}"),
                        uid: claim.uid.to_string(),
                        resource_version: claim.version.to_string(),
                        mark: claim.mark.as_deref().cloned(),
                    };
                    (*pod, facts)
                })
                .collect(),
            set: Some(SetFacts {
                uid: "set".to_owned(),
                resource_version: self.set.version.to_string(),
                replicas: self.set.replicas,
            }),
        }
    }

    fn facts(&self, at: i32, pod: &Pod) -> PodFacts {
        if pod.up == Up::Unreachable {
            return PodFacts::Silent("no answer".to_owned());
        }
        let mut tasks: BTreeMap<Task, TaskWord> = BTreeMap::new();
        let plan = pod.heard.as_deref();
        for partition in &pod.tasks {
            let word = tasks.entry(task(*partition)).or_default();
            word.misplaced = self.misplaced;
            word.hold = pod.hold.zip(plan).map(|(epoch, plan)| Hold {
                epoch,
                number: 1,
                count: subscription(plan).to,
            });
            if let Some(plan) = plan.filter(|plan| plan.epoch == pod.epoch) {
                let of = subscription(plan);
                word.closing = (0..of.from).map(|old| (old, closing(plan, old))).collect();
                word.moved_in_open =
                    (0..of.from).any(|old| !matches!(closing(plan, old), Closing::Closed(_)));
            }
        }
        if let Some((epoch, offsets)) = &pod.stopped {
            for (partition, offset) in offsets {
                tasks.entry(task(*partition)).or_default().stopped = Some(StopWord {
                    epoch: *epoch,
                    offset: *offset,
                    first_new: self.topic.first_new,
                });
            }
        }
        if let (Some(epoch), Some(plan)) = (pod.pulled, plan) {
            let of = subscription(plan);
            for partition in owned(&of.pods, at) {
                tasks.entry(task(partition)).or_default().manifest = Some(Manifest {
                    epoch,
                    checksum: "sum".to_owned(),
                    parts: whole(of.from, of.to, partition),
                });
            }
        }
        PodFacts::Answers(Box::new(WorkerWord {
            heard: pod.heard(),
            heard_id: pod
                .heard
                .as_ref()
                .map(|of| of.id.clone())
                .unwrap_or_default(),
            tasks,
            copied: CopyAhead::Done,
            free_bytes: Some(1),
            stores: pod
                .stores
                .iter()
                .map(|epoch| (SUBSCRIPTION.to_owned(), *epoch))
                .collect(),
        }))
    }
}

/// How a reader stands with an old partition: it agrees to whatever is proposed, since producers have refreshed by then.
fn closing(plan: &RescaleStatus, old: i32) -> Closing {
    let Some(topic) = plan.topics.first() else {
        return Closing::Open;
    };
    let old = usize::try_from(old).unwrap();
    match (topic.closes.get(old), topic.proposed.get(old)) {
        (Some(end), _) if *end >= 0 => Closing::Closed((*end).try_into().unwrap()),
        (_, Some(end)) => Closing::Agreed {
            end: (*end).try_into().unwrap(),
            asked_at: Moment(topic.proposed_at.unwrap().as_millisecond()),
        },
        (_, None) => Closing::Open,
    }
}

/// What a new store is made of, computed group by group.
pub(crate) fn whole(from: i32, to: i32, new: i32) -> BTreeMap<i32, u32> {
    let mut parts = BTreeMap::new();
    for group in (0..960).filter(|group| group % to == new) {
        if 960 % from == 0 {
            *parts.entry(group % from).or_default() += 1;
        } else {
            for old in 0..from {
                *parts.entry(old).or_default() += 1;
            }
        }
    }
    parts
}
