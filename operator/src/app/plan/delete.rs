//! The plan of an app that is being deleted.
//!
//! Kubernetes removes what the app owns. The operator's own part is what the spec asks to clean up
//! outside, within a time that does not depend on Kafka or on nodes coming back.

use jiff::SignedDuration;
use turbine_crds::app::OnDelete;
use turbine_crds::status::Phase;

use super::{Act, Known, Pace, Plan, claims, phase, verdict};
use crate::app::build::Provision;
use crate::app::conditions::{ConditionType, Conditions, Is};
use crate::app::names;
use crate::app::seen::{controller_of, going, label, uid_of};
use crate::cluster::Kind;

/// After this long topics that could not be deleted are left and named.
const TOPICS_DEADLINE: SignedDuration = SignedDuration::from_secs(60);
/// After this long pods that do not go (a dead node) are no longer waited for.
const PODS_DEADLINE: SignedDuration = SignedDuration::from_secs(300);

pub(crate) fn plan(known: &Known<'_>) -> Plan {
    let mut status = known.seen.status();
    let finalizers: Vec<String> = known
        .seen
        .app
        .metadata
        .finalizers
        .clone()
        .unwrap_or_default();
    if !finalizers.iter().any(|of| of == names::FINALIZER) {
        // Nothing of ours holds it; whatever else does is not our matter.
        return Plan {
            status,
            acts: Vec::new(),
            pace: Pace::Settled,
            adopted: None,
        };
    }
    status.phase = phase::step(status.phase, Phase::Deleting).or(Some(Phase::Deleting));
    let mut conditions = Conditions::from(&status.conditions, known.seen.generation(), known.now);
    conditions.set(
        ConditionType::Ready,
        Is::False,
        "Deleting",
        "the app is being deleted",
    );
    conditions.set(
        ConditionType::Reconciling,
        Is::True,
        "Deleting",
        "what the spec asks to delete with the app is being deleted",
    );
    status.conditions = conditions.into_list();
    let recorded = status.phase == known.seen.status().phase;
    let acts = if recorded {
        clean(known, finalizers)
    } else {
        Vec::new()
    };
    Plan {
        status,
        acts,
        pace: Pace::Moving,
        adopted: None,
    }
}

fn clean(known: &Known<'_>, finalizers: Vec<String>) -> Vec<Act> {
    let since = known
        .seen
        .app
        .metadata
        .deletion_timestamp
        .as_ref()
        .map_or(SignedDuration::ZERO, |at| known.now.duration_since(at.0));

    // A worker that still runs would write to topics that are gone.
    let stateful_sets: Vec<Act> = known
        .seen
        .children
        .iter()
        .filter(|((kind, _), object)| *kind == Kind::StatefulSet && !going(object))
        .filter(|(_, object)| {
            controller_of(object).is_some_and(|(_, _, uid)| uid == known.seen.uid())
        })
        .map(|((_, name), object)| Act::StopStatefulSet {
            name: name.clone(),
            uid: uid_of(object).to_owned(),
        })
        .collect();
    if !stateful_sets.is_empty() {
        return stateful_sets;
    }
    if !known.seen.pods.is_empty() && since < PODS_DEADLINE {
        return Vec::new();
    }

    let app = known
        .specs
        .accepted
        .as_ref()
        .map(|accepted| &accepted.validated)
        .or(known.specs.current.as_ref().ok());
    // The newest word counts, also if the spec as a whole was refused.
    let wants_topics = known
        .seen
        .app
        .spec
        .topics
        .as_ref()
        .and_then(|topics| topics.on_delete)
        .map_or_else(
            || app.is_some_and(|app| app.topics_on_delete() == OnDelete::Delete),
            |on| on == OnDelete::Delete,
        );
    let wants_volumes = known.seen.app.spec.state.volume.on_delete.map_or_else(
        || app.is_some_and(|app| app.volume().on_delete() == OnDelete::Delete),
        |on| on == OnDelete::Delete,
    );

    let mut acts = Vec::new();
    if wants_volumes {
        let lineage = known.seen.status().layout.map(|layout| layout.lineage);
        acts.extend(
            known
                .seen
                .claims
                .iter()
                .filter(|claim| {
                    !going(claim) && label(claim, names::APP) == Some(known.seen.name().as_str())
                })
                .filter(|claim| Provision::read(claim).map(|of| of.lineage) == lineage)
                .map(|claim| claims::delete(claim, "spec.state.volume.onDelete is delete")),
        );
    }
    if wants_topics {
        acts.extend(topics(known, since));
        let open = acts.iter().any(|act| matches!(act, Act::DeleteTopic(_)));
        if open {
            return acts;
        }
        if matches!(known.asked.kafka, Some(Err(_))) && since < TOPICS_DEADLINE {
            return acts;
        }
    }
    acts.push(Act::SetFinalizers(
        finalizers
            .into_iter()
            .filter(|of| of != names::FINALIZER)
            .collect(),
    ));
    acts
}

fn topics(known: &Known<'_>, since: SignedDuration) -> Vec<Act> {
    let status = known.seen.status();
    let made: Vec<&str> = verdict::made(&status)
        .map(|topic| topic.name.as_str())
        .collect();
    match &known.asked.kafka {
        Some(Ok(seen)) if known.fault.is_none() || since < TOPICS_DEADLINE => made
            .into_iter()
            .filter(|topic| seen.counts.contains_key(*topic))
            .map(|topic| Act::DeleteTopic(topic.to_owned()))
            .collect(),
        other if since >= TOPICS_DEADLINE || other.is_none() => {
            if made.is_empty() {
                return Vec::new();
            }
            let why = match (other, known.fault) {
                (Some(Err(trouble)), _) | (_, Some(trouble)) => trouble.to_string(),
                _ => "the way to Kafka is not known".to_owned(),
            };
            vec![Act::LeaveBehind {
                what: format!("topics {}", made.join(", ")),
                why,
            }]
        }
        Some(_) | None => Vec::new(),
    }
}
