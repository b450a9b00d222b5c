//! The query as an app, and the worker that runs it.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use turbine_tests::bed::Bed;
use turbine_tests::manifest::AppManifest;
use turbine_tests::worker::WorkerPlan;

use super::Options;
use super::leg::Leg;

pub(super) fn app(
    name: &str,
    bootstrap: &str,
    input: &str,
    output: &str,
    leg: Leg,
    options: &Options,
) -> AppManifest {
    let subscription = |field: &str| format!("spec.subscriptions.0.{field}");
    AppManifest::new(name, bootstrap, input, output)
        .with(
            &subscription("input.columns"),
            json!([
                {"name": "tenant_id", "type": "string"},
                {"name": "bytes", "type": "int64"},
                {"name": "ts", "type": "int64"},
            ]),
        )
        .with(
            &subscription("input.outOfOrderness"),
            json!(format!("{}ms", options.disorder_ms)),
        )
        .with(
            &subscription("windows.0.aggregates"),
            json!([{"count": {}, "as": "n"}, {"sum": "bytes", "as": "bytes_sum"}]),
        )
        .with(&subscription("windows.0.allowedLateness"), json!("0s"))
        .with(
            &subscription("processingGuarantee"),
            json!(leg.guarantee.of_app()),
        )
        .with(
            &subscription("commitInterval"),
            json!(format!("{}ms", leg.commit_interval_ms)),
        )
}

pub(super) fn plan(
    bed: &Bed,
    app: &AppManifest,
    folder: &Path,
    options: &Options,
) -> Result<WorkerPlan> {
    Ok(WorkerPlan::new(bed, app, folder)?
        .argument("--memory")
        .argument(&options.memory))
}

/// The consumer group of the app's one subscription.
pub(super) fn group(name: &str) -> String {
    format!("turbine.{name}.per-tenant")
}
