//! The operator's own figures.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use turbine_crds::status::{RescaleStatus, RescaleStep};
use turbine_protocol::Category;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CategoryLabel {
    category: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabel {
    step: String,
}

/// All figures, registered once.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    passes: Family<OutcomeLabel, Counter>,
    pass_seconds: Histogram,
    signals: Family<ReasonLabel, Counter>,
    rescale_steps: Family<StepLabel, Counter>,
    rescale_pause: Histogram,
    act_failures: Family<CategoryLabel, Counter>,
    event_failures: Counter,
    status_writes: Counter,
    apps: Family<PhaseLabel, Gauge>,
    crd_missing: Gauge,
    schema_old: Gauge,
    leader: Gauge,
    watch_failures: Counter,
}

impl Metrics {
    #[must_use]
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("turbine_operator");
        let passes = Family::default();
        registry.register(
            "passes",
            "Passes over apps, by outcome",
            Clone::clone(&passes),
        );
        let pass_seconds = Histogram::new(exponential_buckets(0.001, 2.0, 16));
        registry.register_with_unit(
            "pass_duration",
            "Duration of a pass",
            Unit::Seconds,
            pass_seconds.clone(),
        );
        let signals = Family::default();
        registry.register(
            "happenings",
            "What the operator did, by reason",
            Clone::clone(&signals),
        );
        let rescale_steps = Family::default();
        registry.register(
            "rescale_steps",
            "Steps of rescales that were put on record, by step",
            Clone::clone(&rescale_steps),
        );
        let rescale_pause = Histogram::new(exponential_buckets(0.125, 2.0, 16));
        registry.register_with_unit(
            "rescale_pause",
            "How long tasks stood still for a rescale",
            Unit::Seconds,
            rescale_pause.clone(),
        );
        let act_failures = Family::default();
        registry.register(
            "act_failures",
            "Acts that failed, by who has to act",
            Clone::clone(&act_failures),
        );
        let event_failures = Counter::default();
        registry.register(
            "event_failures",
            "Events that could not be written",
            event_failures.clone(),
        );
        let status_writes = Counter::default();
        registry.register(
            "status_writes",
            "Writes of an app's status",
            status_writes.clone(),
        );
        let apps = Family::default();
        registry.register("apps", "Apps, by phase", Clone::clone(&apps));
        let crd_missing: Gauge = Gauge::default();
        registry.register(
            "crd_missing",
            "1 while the TurbineApp CRD is not installed",
            crd_missing.clone(),
        );
        let schema_old: Gauge = Gauge::default();
        registry.register(
            "crd_schema_old",
            "1 if the installed CRD lacks fields that this operator knows",
            schema_old.clone(),
        );
        let leader: Gauge = Gauge::default();
        registry.register(
            "leader",
            "1 while this process holds the lease",
            leader.clone(),
        );
        let watch_failures = Counter::default();
        registry.register(
            "watch_failures",
            "Errors of the watches",
            watch_failures.clone(),
        );
        Arc::new(Self {
            registry,
            passes,
            pass_seconds,
            signals,
            rescale_steps,
            rescale_pause,
            act_failures,
            event_failures,
            status_writes,
            apps,
            crd_missing,
            schema_old,
            leader,
            watch_failures,
        })
    }

    pub(crate) fn pass(&self, outcome: &'static str, took: Duration) {
        self.passes.get_or_create(&OutcomeLabel { outcome }).inc();
        self.pass_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn signal(&self, reason: &'static str) {
        self.signals.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn rescale_step(&self, plan: &RescaleStatus) {
        let step = plan.step.to_string();
        self.rescale_steps.get_or_create(&StepLabel { step }).inc();
        if let (RescaleStep::Verified, Some(from), Some(to)) =
            (plan.step, plan.paused_at, plan.resumed_at)
        {
            self.rescale_pause
                .observe(to.duration_since(from).as_secs_f64());
        }
    }

    pub(crate) fn act_failed(&self, category: Category) {
        let label = CategoryLabel {
            category: category.as_str(),
        };
        self.act_failures.get_or_create(&label).inc();
    }

    pub(crate) fn event_failed(&self) {
        self.event_failures.inc();
    }

    pub(crate) fn status_written(&self) {
        self.status_writes.inc();
    }

    pub(crate) fn watch_failed(&self) {
        self.watch_failures.inc();
    }

    /// How many apps are in which phase; phases that are not named have none.
    pub(crate) fn apps(&self, by_phase: impl Iterator<Item = (String, i64)>) {
        self.apps.clear();
        for (phase, count) in by_phase {
            self.apps.get_or_create(&PhaseLabel { phase }).set(count);
        }
    }

    pub(crate) fn crd_missing(&self, missing: bool) {
        self.crd_missing.set(i64::from(missing));
    }

    pub(crate) fn schema_old(&self, old: bool) {
        self.schema_old.set(i64::from(old));
    }

    pub(crate) fn leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// All figures in the Prometheus text format.
    ///
    /// # Errors
    /// If a figure cannot be written as text.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
