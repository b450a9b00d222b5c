//! Topics: which ones the app needs, which of them are made, and whether they are there.

use std::collections::BTreeSet;

use turbine_crds::compiled::CompiledTopics;
use turbine_crds::status::{TopicRole, TopicStatus};
use turbine_crds::validated::ValidatedApp;

use super::{Act, Known};
use crate::app::layout::Counts;
use crate::kafka::{TopicKept, TopicWanted};
use crate::words::Trouble;

const CLEANUP_POLICY: &str = "cleanup.policy";

/// A topic that the app writes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    name: String,
    role: TopicRole,
    /// Count if it is made; `None` while that of the input is unknown.
    partitions: Option<i32>,
}

fn written(app: &ValidatedApp, counts: &Counts) -> Vec<Written> {
    let mut all: Vec<Written> = Vec::new();
    let mut add = |one: Written| match all.iter_mut().find(|of| of.name == one.name) {
        // Shared by several: the one that needs most decides.
        Some(of) => of.partitions = of.partitions.max(one.partitions),
        None => all.push(one),
    };
    for subscription in &app.compiled().subscriptions {
        let input = counts.get(&subscription.topic).copied();
        add(Written {
            name: subscription.output.topic.clone(),
            role: TopicRole::Output,
            partitions: subscription.output.partitions.or(input),
        });
        if let Some(dlq) = &subscription.dlq {
            add(Written {
                name: dlq.clone(),
                role: TopicRole::DeadLetter,
                partitions: input,
            });
        }
    }
    all
}

/// Counts, with those that topics will have once they are made: a subscription may read what another one writes.
pub(crate) fn with_planned(app: &ValidatedApp, mut counts: Counts) -> Counts {
    if counts.is_empty() {
        return counts;
    }
    loop {
        let before = counts.len();
        for topic in written(app, &counts) {
            if let Some(partitions) = topic.partitions {
                counts.entry(topic.name).or_insert(partitions);
            }
        }
        if counts.len() == before {
            return counts;
        }
    }
}

/// How the app's topics stand.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    /// What goes on record.
    pub status: Vec<TopicStatus>,
    /// Topics to make, once they are on record.
    pub acts: Vec<Act>,
    /// Why they are not all there.
    pub trouble: Option<Trouble>,
    /// In what topics that were there keep their records otherwise than asked for. They are used as they are.
    pub differences: Vec<String>,
}

/// Names of a list of policies, in whatever order.
fn policies(text: &str) -> BTreeSet<&str> {
    text.split(',').map(str::trim).collect()
}

/// In what a topic that is there keeps its records otherwise than the spec asks for, or than results can be kept.
fn differences(topic: &Written, kept: &TopicKept, asked: &CompiledTopics) -> Vec<String> {
    let name = &topic.name;
    let mut differences = Vec::new();
    if let Some(factor) = asked.replication_factor
        && i64::from(factor) != i64::from(kept.replication)
    {
        differences.push(format!(
            "topic `{name}` has a replication factor of {} and spec.topics.replicationFactor is {factor}",
            kept.replication
        ));
    }
    let Some(policy) = &kept.cleanup_policy else {
        return differences;
    };
    match asked.config.get(CLEANUP_POLICY) {
        Some(asked) if policies(asked) == policies(policy) => {}
        Some(asked) => differences.push(format!(
            "topic `{name}` has {CLEANUP_POLICY}={policy} and spec.topics.config asks for {asked}"
        )),
        None if policies(policy).contains("compact") => {
            let what = match topic.role {
                TopicRole::DeadLetter => "dead letters",
                TopicRole::Input | TopicRole::Output | TopicRole::Internal => "results",
            };
            differences.push(format!(
                "topic `{name}` has {CLEANUP_POLICY}={policy}: of the {what} of one key the broker keeps the last one alone, \
                 whatever their windows; if that is meant, write it into spec.topics.config"
            ));
        }
        None => {}
    }
    differences
}

/// Compares the topics that the app needs with those that are there.
pub(crate) fn compare(known: &Known<'_>, app: &ValidatedApp) -> Topics {
    let recorded = known.seen.status().topics;
    let (counts, kept) = match &known.asked.kafka {
        Some(Ok(seen)) => (seen.counts.clone(), &seen.kept),
        Some(Err(trouble)) => {
            return Topics {
                status: recorded,
                trouble: Some(trouble.clone()),
                ..Topics::default()
            };
        }
        None => {
            return Topics {
                status: recorded,
                ..Topics::default()
            };
        }
    };
    let planned = with_planned(app, counts.clone());
    let mut topics = Topics::default();
    let outputs = written(app, &planned);
    for subscription in &app.compiled().subscriptions {
        if outputs.iter().any(|of| of.name == subscription.topic)
            || topics.status.iter().any(|of| of.name == subscription.topic)
        {
            continue;
        }
        match counts.get(&subscription.topic) {
            Some(partitions) => topics.status.push(TopicStatus {
                name: subscription.topic.clone(),
                role: TopicRole::Input,
                partitions: *partitions,
                created: false,
            }),
            None => {
                topics.trouble.get_or_insert(Trouble::InputTopicMissing {
                    topic: subscription.topic.clone(),
                    subscription: subscription.name.clone(),
                });
            }
        }
    }
    for subscription in &app.compiled().subscriptions {
        let output = &subscription.output;
        if let (Some(asked), Some(real)) = (output.partitions, counts.get(&output.topic).copied())
            && asked != real
        {
            topics
                .trouble
                .get_or_insert(Trouble::OutputCountNotAsAsked {
                    topic: output.topic.clone(),
                    subscription: subscription.name.clone(),
                    asked,
                    real,
                });
        }
    }
    for topic in outputs {
        let record = recorded.iter().find(|of| of.name == topic.name);
        let exists = counts.get(&topic.name).copied();
        if let Some(kept) = kept.get(&topic.name) {
            topics
                .differences
                .extend(differences(&topic, kept, &app.compiled().topics));
        }
        let Some(partitions) = exists.or(topic.partitions) else {
            continue;
        };
        // Found there and not on record: somebody else's. Not found: it will be ours, and is put on
        // record as such before it is made.
        let created = match exists {
            Some(_) => record.is_some_and(|of| of.created),
            None => true,
        };
        if exists.is_none() {
            topics.acts.push(Act::CreateTopic(TopicWanted {
                name: topic.name.clone(),
                partitions,
                replication_factor: app.compiled().topics.replication_factor,
                config: app.compiled().topics.config.clone(),
            }));
        }
        topics.status.push(TopicStatus {
            name: topic.name,
            role: topic.role,
            partitions,
            created,
        });
    }
    // Topics that a former spec had made stay on record: they may have to be cleaned up one day.
    for record in recorded {
        if record.created && !topics.status.iter().any(|of| of.name == record.name) {
            topics.status.push(record);
        }
    }
    topics
        .status
        .sort_by(|one, other| one.name.cmp(&other.name));
    topics
}
