//! Every default of the spec, in one place. They are filled in here and never by the API server, so that what stands in
//! the cluster is what the user wrote.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use crate::app::{
    CheckpointsSpec, ColumnType, EventTimeSpec, IdlePolicy, IdleSpec, InputSpec, LogEdge,
    LogFormat, LogLevel, OnDelete, OnError, OnMisplaced, OnNullKey, OnRecreate,
    ProcessingGuarantee, StartFrom, SubscriptionSpec, TimeUnit, TopicsSpec, TurbineApp,
    TurbineAppSpec, WindowSpec, WorkerSpec,
};
use crate::quantity::Quantity;
use crate::text::DurationText;

const CPU_REQUEST: &str = "250m";
const MEMORY_REQUEST: &str = "512Mi";
const MEMORY_LIMIT: &str = "1Gi";

/// The app with every default filled in that does not depend on the cluster or the broker.
///
/// Left open: the worker's image and the storage class (the cluster's), partition counts and replication factor (the
/// broker's).
#[must_use]
pub fn filled(app: &TurbineApp) -> TurbineApp {
    let mut app = app.clone();
    let name = app.metadata.name.clone().unwrap_or_default();
    fill_spec(&mut app.spec, name);
    app
}

fn fill_spec(spec: &mut TurbineAppSpec, name: String) {
    spec.app_id.get_or_insert(name);
    spec.replicas.get_or_insert(1);
    spec.suspend.get_or_insert(false);
    spec.allow_non_divisor_partitions.get_or_insert(false);
    spec.kafka.properties.get_or_insert_default();
    let worker = spec.worker.get_or_insert_default();
    fill_worker(worker);
    for subscription in &mut spec.subscriptions {
        fill_subscription(subscription);
    }
    spec.state.on_recreate.get_or_insert(OnRecreate::Adopt);
    spec.state.volume.on_delete.get_or_insert(OnDelete::Retain);
    spec.state
        .volume
        .on_scale_down
        .get_or_insert(OnDelete::Retain);
    fill_checkpoints(spec.state.checkpoints.get_or_insert_default());
    let topics = spec.topics.get_or_insert_with(TopicsSpec::default);
    topics.config.get_or_insert_default();
    topics.on_delete.get_or_insert(OnDelete::Retain);
    let rescale = spec.rescale.get_or_insert_default();
    default_duration(&mut rescale.producer_refresh, "10m");
    default_duration(&mut rescale.order_grace, "120s");
}

fn fill_worker(worker: &mut WorkerSpec) {
    worker.log_level.get_or_insert(LogLevel::Info);
    worker.log_format.get_or_insert(LogFormat::Text);
    fill_resources(worker.resources.get_or_insert_default());
}

/// Without a store they are kept on the worker's own volume.
fn fill_checkpoints(checkpoints: &mut CheckpointsSpec) {
    default_duration(&mut checkpoints.interval, "60s");
    checkpoints.retain.get_or_insert(3);
    if let Some(s3) = checkpoints
        .store
        .as_mut()
        .and_then(|store| store.s3.as_mut())
    {
        s3.region.get_or_insert_with(|| "us-east-1".to_owned());
        s3.path_style.get_or_insert(s3.endpoint.is_some());
    }
}

/// A memory limit is always set: the worker sizes its caches by it, and without one a node's memory would be the limit.
fn fill_resources(resources: &mut ResourceRequirements) {
    let quantity = |text: &str| QuantityText(text.to_owned());
    let limits = resources.limits.get_or_insert_default();
    let requests = resources.requests.get_or_insert_default();
    if !limits.contains_key("memory") {
        let limit = requests
            .get("memory")
            .filter(|request| above(request, MEMORY_LIMIT))
            .cloned();
        limits.insert(
            "memory".to_owned(),
            limit.unwrap_or_else(|| quantity(MEMORY_LIMIT)),
        );
    }
    fill_request(requests, limits, "cpu", CPU_REQUEST);
    fill_request(requests, limits, "memory", MEMORY_REQUEST);
}

/// The default, or the limit where that is lower.
fn fill_request(
    requests: &mut BTreeMap<String, QuantityText>,
    limits: &BTreeMap<String, QuantityText>,
    resource: &str,
    default: &str,
) {
    if !requests.contains_key(resource) {
        let default = QuantityText(default.to_owned());
        let request = match limits.get(resource) {
            Some(limit) if above(&default, &limit.0) => limit.clone(),
            _ => default,
        };
        requests.insert(resource.to_owned(), request);
    }
}

fn above(left: &QuantityText, right: &str) -> bool {
    matches!(
        (Quantity::parse(&left.0), Quantity::parse(right)),
        (Ok(left), Ok(right)) if left > right
    )
}

fn fill_subscription(subscription: &mut SubscriptionSpec) {
    subscription.on_null_key.get_or_insert(OnNullKey::Group);
    subscription
        .processing_guarantee
        .get_or_insert(ProcessingGuarantee::AtLeastOnce);
    let commit_interval = match subscription.processing_guarantee {
        Some(ProcessingGuarantee::ExactlyOnce) => "100ms",
        Some(ProcessingGuarantee::AtLeastOnce) | None => "1s",
    };
    default_duration(&mut subscription.commit_interval, commit_interval);
    subscription.on_crash_recovery.get_or_insert_default();
    if subscription.partition_hash.is_some() {
        let on_misplaced = &mut subscription.input.on_misplaced;
        on_misplaced.get_or_insert(OnMisplaced::FollowOnError);
    }
    fill_input(&mut subscription.input);
    for window in &mut subscription.windows {
        fill_window(window);
    }
}

fn fill_input(input: &mut InputSpec) {
    fill_event_time(input);
    default_duration(&mut input.out_of_orderness, "0s");
    default_duration(&mut input.max_future, "10m");
    input
        .start_from
        .get_or_insert(StartFrom::Edge(LogEdge::Earliest));
    input.on_retention_gap.get_or_insert_default();
    input.on_error.get_or_insert(OnError::Fail);
    let idle = input.idle.get_or_insert_with(IdleSpec::default);
    default_duration(&mut idle.timeout, "30s");
    idle.policy.get_or_insert(IdlePolicy::Coast);
}

/// A timestamp's text says its unit, so only numbers have one.
fn fill_event_time(input: &mut InputSpec) {
    let EventTimeSpec { field, unit } = &mut input.event_time;
    let is_timestamp = input
        .columns
        .iter()
        .any(|column| column.name == *field && column.type_ == ColumnType::Timestamp);
    if !is_timestamp {
        unit.get_or_insert(TimeUnit::Ms);
    }
}

fn fill_window(window: &mut WindowSpec) {
    default_duration(&mut window.allowed_lateness, "0s");
}

fn default_duration(duration: &mut Option<DurationText>, default: &str) {
    duration.get_or_insert_with(|| DurationText(default.to_owned()));
}
