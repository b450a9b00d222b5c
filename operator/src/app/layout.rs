//! The layout: partition counts, pods and stores under one number, and which pod runs which task.
//!
//! Which pod runs a task is no memory but a function of the layout: subscriptions are placed in the
//! order in which their stores were made, each beside what lies there already. So a layout that is
//! rebuilt from the journal gives the same placement, and a subscription that is added moves no
//! task: tasks cannot leave the volume that holds their state.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use turbine_crds::assignment::{AssignedTask, AssignmentDocument};
use turbine_crds::rules::FieldError;
use turbine_crds::status::{LayoutStatus, LayoutSubscription};
use turbine_crds::validated::ValidatedApp;
use turbine_keygroups::{Partition, PartitionCount, divisor_refusal};
use turbine_protocol::layout::{Assignment, PodName, Task, assign};
use turbine_protocol::{Category, Fault, Lineage};

use super::names;
use crate::words::Trouble;

/// Partition counts of topics, as far as known.
pub type Counts = BTreeMap<String, i32>;

/// A layout in the journal that this operator could not have written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the layout in the journal is damaged ({0}): restore status.layout, or delete it to have it rebuilt from the volumes"
)]
pub struct DamagedLayout(String);

impl Fault for DamagedLayout {
    fn category(&self) -> Category {
        Category::Storage
    }

    fn reason(&self) -> &'static str {
        "LayoutDamaged"
    }

    fn passes_by_itself(&self) -> bool {
        false
    }
}

/// The layout that the app needs, given the one on disk. Stores that exist keep their epoch, those
/// of a subscription that left the spec included: they are still on disk, and the name taken up
/// again finds them. The epoch grows if and only if the set of running tasks changes.
///
/// # Errors
/// If a new subscription cannot be laid out: its topic is missing or has a count that cannot be used.
pub fn needed(
    app: &ValidatedApp,
    on_disk: Option<&LayoutStatus>,
    running: &BTreeSet<String>,
    counts: &Counts,
    fresh: Lineage,
) -> Result<LayoutStatus, Trouble> {
    let mut layout = on_disk.cloned().unwrap_or_else(|| LayoutStatus {
        lineage: fresh.to_string(),
        epoch: 0,
        replicas: app.replicas().into(),
        subscriptions: Vec::new(),
    });
    let wanted: BTreeSet<String> = app
        .compiled()
        .subscriptions
        .iter()
        .map(|of| of.name.clone())
        .collect();
    if on_disk.is_none() || wanted != *running {
        layout.epoch += 1;
    }
    let any_count = app.compiled().allow_non_divisor_partitions;
    let carries = |count: i32| any_count || PartitionCount::try_from(count).is_ok();
    for subscription in &app.compiled().subscriptions {
        if let Some(laid) = layout
            .subscriptions
            .iter()
            .find(|of| of.name == subscription.name)
        {
            if !carries(laid.partitions) {
                return Err(Trouble::ChangeRefused(vec![FieldError {
                    path: "spec.allowNonDivisorPartitions".to_owned(),
                    message: format!(
                        "subscription {} has state on {} partitions, which does not divide 960: leave it true",
                        laid.name, laid.partitions
                    ),
                }]));
            }
            continue;
        }
        let Some(real) = counts.get(&subscription.topic).copied() else {
            return Err(Trouble::InputTopicMissing {
                topic: subscription.topic.clone(),
                subscription: subscription.name.clone(),
            });
        };
        if !carries(real) {
            return Err(Trouble::CountNotDivisor {
                topic: subscription.topic.clone(),
                count: u32::try_from(real).unwrap_or(0),
            });
        }
        if let Some(asked) = subscription.partitions.filter(|asked| *asked != real) {
            return Err(Trouble::CountNotAsAsked {
                topic: subscription.topic.clone(),
                subscription: subscription.name.clone(),
                asked,
                real,
            });
        }
        layout.subscriptions.push(LayoutSubscription {
            name: subscription.name.clone(),
            topic: subscription.topic.clone(),
            partitions: real,
            store_epoch: layout.epoch,
            pods: Vec::new(),
        });
    }
    layout
        .subscriptions
        .sort_by(|one, other| (one.store_epoch, &one.name).cmp(&(other.store_epoch, &other.name)));
    Ok(layout)
}

/// What the spec or the broker asks for that the layout on disk cannot give: words, empty if nothing.
pub fn differences(app: &ValidatedApp, layout: &LayoutStatus, counts: &Counts) -> Vec<String> {
    let mut found = Vec::new();
    let asked: i32 = app.replicas().into();
    if asked != layout.replicas {
        found.push(format!(
            "spec.replicas is {asked} and the state lies on {} volumes: set it back to {}",
            layout.replicas, layout.replicas
        ));
    }
    for subscription in &app.compiled().subscriptions {
        let Some(laid) = layout
            .subscriptions
            .iter()
            .find(|of| of.name == subscription.name)
        else {
            continue;
        };
        if let Some(asked) = subscription
            .partitions
            .filter(|asked| *asked != laid.partitions)
        {
            found.push(format!(
                "input.partitions of subscription {} is {asked} and its state is laid out for {}: set it back to {}",
                laid.name, laid.partitions, laid.partitions
            ));
        }
        if let Some(real) = counts
            .get(&laid.topic)
            .filter(|real| **real != laid.partitions)
        {
            let nearest = u32::try_from(*real)
                .ok()
                .filter(|real| PartitionCount::try_from(*real).is_err())
                .map_or_else(String::new, |real| {
                    format!("; besides, {}", divisor_refusal(&laid.topic, real))
                });
            found.push(format!(
                "topic `{}` has {real} partitions and subscription {} is laid out for {}: records in further partitions are not read{nearest}",
                laid.topic, laid.name, laid.partitions
            ));
        }
    }
    found
}

/// Ordinal of the pod of each task, those of subscriptions that do not run included.
///
/// # Errors
/// If the layout holds names or counts that no layout can hold.
pub fn placement(app: &str, layout: &LayoutStatus) -> Result<BTreeMap<Task, i32>, DamagedLayout> {
    let pods: Vec<PodName> = names::pods(app, layout.replicas)
        .into_iter()
        .map(PodName)
        .collect();
    let ordinals: BTreeMap<&PodName, i32> = pods.iter().zip(0..).collect();
    let placed = place(&in_order(layout), &pods)?;
    Ok(placed
        .iter()
        .filter_map(|(task, pod)| Some((task.clone(), *ordinals.get(pod)?)))
        .collect())
}

/// In the order in which their stores were made.
fn in_order(layout: &LayoutStatus) -> Vec<&LayoutSubscription> {
    let mut order: Vec<&LayoutSubscription> = layout.subscriptions.iter().collect();
    order.sort_by(|one, other| (one.store_epoch, &one.name).cmp(&(other.store_epoch, &other.name)));
    order
}

/// Which pod runs which task of the subscriptions in `running`.
///
/// # Errors
/// If the layout holds names or counts that no layout can hold.
pub fn document(
    app: &ValidatedApp,
    layout: &LayoutStatus,
    running: &BTreeSet<String>,
) -> Result<AssignmentDocument, DamagedLayout> {
    let pods: Vec<PodName> = names::pods(app.name().as_str(), layout.replicas)
        .into_iter()
        .map(PodName)
        .collect();
    let order = in_order(layout);
    let placed = place(&order, &pods)?;
    let mut assigned: Vec<AssignedTask> = placed
        .iter()
        .filter(|(task, _)| running.contains(task.subscription.as_str()))
        .filter_map(|(task, pod)| {
            let laid = order
                .iter()
                .find(|of| of.name == task.subscription.as_str())?;
            Some(AssignedTask {
                subscription: laid.name.clone(),
                partition: i32::from(task.partition),
                partitions: laid.partitions,
                store_epoch: laid.store_epoch,
                pod: pod.0.clone(),
            })
        })
        .collect();
    assigned.sort();
    Ok(AssignmentDocument {
        app_id: app.app_id().to_string(),
        lineage: layout.lineage.clone(),
        epoch: layout.epoch,
        tasks: assigned,
    })
}

/// The pod of each task: where the last change of the layout put it, else beside what lies there already.
fn place(order: &[&LayoutSubscription], pods: &[PodName]) -> Result<Assignment, DamagedLayout> {
    let mut placed = Assignment::default();
    let mut tasks: BTreeSet<Task> = BTreeSet::new();
    for laid in order.iter().filter(|of| !of.pods.is_empty()) {
        let named = laid.pods.iter().map(|at| {
            let pod = usize::try_from(*at).ok().and_then(|at| pods.get(at));
            pod.cloned().ok_or_else(|| {
                DamagedLayout(format!("subscription {} lies on pod {at}", laid.name))
            })
        });
        let named: Vec<PodName> = named.collect::<Result<_, _>>()?;
        let of = tasks_of(laid)?;
        if of.len() != named.len() {
            return Err(DamagedLayout(format!(
                "subscription {} has {} partitions on {} pods",
                laid.name,
                of.len(),
                named.len()
            )));
        }
        tasks.extend(of.iter().cloned());
        placed = placed
            .iter()
            .map(|(task, pod)| (task.clone(), pod.clone()))
            .chain(of.into_iter().zip(named))
            .collect();
    }
    let free: Vec<&LayoutSubscription> = order
        .iter()
        .filter(|of| of.pods.is_empty())
        .copied()
        .collect();
    // Subscriptions of one epoch were placed together.
    for together in free.chunk_by(|one, other| one.store_epoch == other.store_epoch) {
        let mut new = BTreeSet::new();
        for laid in together {
            new.extend(tasks_of(laid)?);
        }
        tasks.extend(new.iter().cloned());
        let all = assign(&tasks, pods, &placed);
        let new = all.iter().filter(|(task, _)| new.contains(*task));
        placed = placed
            .iter()
            .chain(new)
            .map(|(task, pod)| (task.clone(), pod.clone()))
            .collect();
    }
    Ok(placed)
}

fn tasks_of(laid: &LayoutSubscription) -> Result<Vec<Task>, DamagedLayout> {
    let subscription = laid
        .name
        .parse()
        .map_err(|error| DamagedLayout(format!("{error}")))?;
    (0..laid.partitions)
        .map(|partition| {
            Ok(Task {
                subscription: Clone::clone(&subscription),
                partition: Partition::try_from(partition)
                    .map_err(|error| DamagedLayout(error.to_string()))?,
            })
        })
        .collect()
}
