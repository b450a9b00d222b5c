//! The rules of a `TurbineApp`: once as CEL for the API server, once in Rust for everything else, with the same words.

use std::fmt;

mod checkpoints;
mod input;
mod kafka;
mod names;
mod output;
mod report;
mod windows;
mod words;
mod workers;

pub(crate) mod cel;
pub mod limits;
pub mod overrides;

use report::{Path, Report};

use crate::app::{ProcessingGuarantee, RescaleSpec, SubscriptionSpec, TurbineApp};
use crate::compile;
use crate::validated::ValidatedApp;

/// A field that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldError {
    /// For example `spec.subscriptions[0].input.partitions`.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Checks every rule that one version of an app can be judged by.
///
/// # Errors
/// All broken rules at once, in the order of the fields.
pub fn validate(app: &TurbineApp) -> Result<ValidatedApp, Vec<FieldError>> {
    let mut report = Report::default();
    let name = app.metadata.name.as_deref().unwrap_or_default();
    names::label(
        &mut report,
        &Path::root("metadata").field("name"),
        "metadata.name",
        name,
    );
    let spec = &app.spec;
    let path = Path::root("spec");
    if let Some(id) = &spec.app_id {
        names::app_id(&mut report, &path.field("appId"), id);
    }
    if let Some(replicas) = spec.replicas {
        workers::check_replicas(&mut report, &path.field("replicas"), replicas);
    }
    let transactions = spec
        .subscriptions
        .iter()
        .any(|one| one.processing_guarantee == Some(ProcessingGuarantee::ExactlyOnce));
    kafka::check(&mut report, &path.field("kafka"), &spec.kafka, transactions);
    if let Some(worker) = &spec.worker {
        workers::check(&mut report, &path.field("worker"), worker);
    }
    check_subscriptions(
        &mut report,
        &path.field("subscriptions"),
        &spec.subscriptions,
    );
    let volume = path.field("state").field("volume");
    workers::check_volume(&mut report, &volume, &spec.state.volume);
    if let Some(of) = &spec.state.checkpoints {
        let path = path.field("state").field("checkpoints");
        checkpoints::check(&mut report, &path, of);
    }
    if let Some(topics) = &spec.topics {
        workers::check_topics(&mut report, &path.field("topics"), topics);
    }
    if let Some(of) = &spec.rescale {
        check_rescale(&mut report, &path.field("rescale"), of);
    }
    if let Some(nonce) = &spec.restart_nonce {
        report.text_length(&path.field("restartNonce"), nonce, 0, limits::NONCE);
    }
    let template = spec
        .pod_overrides
        .as_ref()
        .and_then(|patch| overrides::check(&mut report, &path.field("podOverrides"), patch));
    report.into_result()?;
    compile::validated(app, template)
}

/// Checks what may not change between two versions of an app: its identity, the class of its volumes, and their size,
/// which may only grow.
///
/// # Errors
/// All changes that are refused.
pub fn validate_update(old: &TurbineApp, new: &TurbineApp) -> Result<(), Vec<FieldError>> {
    let mut report = Report::default();
    let path = Path::root("spec");
    let (before, after) = (old.app_id(), new.app_id());
    report.check(
        before == after,
        &path.field("appId"),
        words::APP_ID_CHANGED,
        &[("old", before), ("new", after)],
    );
    workers::check_volume_change(
        &mut report,
        &path.field("state").field("volume"),
        &old.spec.state.volume,
        &new.spec.state.volume,
    );
    report.into_result()
}

fn check_transaction(report: &mut Report, path: &Path, subscription: &SubscriptionSpec) {
    let (Some(ProcessingGuarantee::ExactlyOnce), Some(interval)) = (
        subscription.processing_guarantee,
        &subscription.commit_interval,
    ) else {
        return;
    };
    if interval
        .millis()
        .is_ok_and(|millis| millis > limits::LONGEST_TRANSACTION_MS)
    {
        report.refuse(path, words::LONG_TRANSACTION, &[("text", &interval.0)]);
    }
}

fn check_rescale(report: &mut Report, path: &Path, rescale: &RescaleSpec) {
    report.duration(
        &path.field("producerRefresh"),
        rescale.producer_refresh.as_ref(),
        limits::PRODUCER_REFRESH,
    );
    report.duration(
        &path.field("orderGrace"),
        rescale.order_grace.as_ref(),
        limits::ORDER_GRACE,
    );
}

fn check_subscriptions(report: &mut Report, path: &Path, subscriptions: &[SubscriptionSpec]) {
    report.list_length(path, subscriptions.len(), 1, limits::SUBSCRIPTIONS);
    let names = subscriptions
        .iter()
        .map(|subscription| subscription.name.as_str());
    report.names_once(path, "name", names);
    for (at, subscription) in subscriptions.iter().enumerate() {
        let path = path.index(at);
        names::label(
            report,
            &path.field("name"),
            "subscription",
            &subscription.name,
        );
        input::check(report, &path.field("input"), &subscription.input);
        input::check_misplaced(report, &path, subscription);
        input::check_dlq(report, &path, subscription);
        windows::check(report, &path, subscription);
        output::check(report, &path, subscription);
        report.duration(
            &path.field("commitInterval"),
            subscription.commit_interval.as_ref(),
            limits::COMMIT_INTERVAL,
        );
        check_transaction(report, &path.field("commitInterval"), subscription);
        report.check(
            subscription.halt_if_gap_exceeds.is_none_or(|gap| gap >= 0),
            &path.field("haltIfGapExceeds"),
            words::NEGATIVE_GAP,
            &[],
        );
    }
    output::check_loops(report, path, subscriptions);
}
