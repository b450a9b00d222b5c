use std::sync::Arc;

use async_trait::async_trait;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Resource as _, ResourceExt as _};
use turbine_crds::app::TurbineApp;
use turbine_crds::status::TurbineAppStatus;
use turbine_protocol::Fault as _;

use super::{Signal, Signals, Weight};
use crate::app::{ActError, cut};
use crate::metrics::Metrics;

/// The server refuses a note of more than 1 kB.
const LONGEST_NOTE: usize = 1_000;

/// Signals as log lines, counts and Kubernetes events.
#[derive(Clone)]
pub struct LiveSignals {
    recorder: Recorder,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for LiveSignals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveSignals").finish_non_exhaustive()
    }
}

impl LiveSignals {
    /// Events go through `recorder`.
    pub fn new(recorder: Recorder, metrics: Arc<Metrics>) -> Self {
        Self { recorder, metrics }
    }

    async fn event(
        &self,
        app: &TurbineApp,
        weight: EventType,
        action: &str,
        reason: &str,
        note: String,
    ) {
        let event = Event {
            type_: weight,
            reason: reason.to_owned(),
            note: Some(cut(note, LONGEST_NOTE)),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &app.object_ref(&())).await {
            tracing::warn!(app = %name(app), reason, %error, "the event could not be written");
            self.metrics.event_failed();
        }
    }
}

fn name(app: &TurbineApp) -> String {
    format!("{}/{}", app.namespace().unwrap_or_default(), app.name_any())
}

#[async_trait]
impl Signals for LiveSignals {
    async fn give(&self, app: &TurbineApp, signal: &Signal<'_>) {
        let (reason, note) = (signal.reason(), signal.note());
        self.metrics.signal(reason);
        if let Signal::RescaleStep { plan } = signal {
            self.metrics.rescale_step(plan);
        }
        match signal.weight() {
            Weight::Quiet => tracing::info!(app = %name(app), reason, "{note}"),
            Weight::Normal => {
                tracing::info!(app = %name(app), reason, "{note}");
                self.event(app, EventType::Normal, signal.action(), reason, note)
                    .await;
            }
            Weight::Warning => {
                tracing::warn!(app = %name(app), reason, "{note}");
                self.event(app, EventType::Warning, signal.action(), reason, note)
                    .await;
            }
        }
    }

    async fn failed(&self, app: &TurbineApp, error: &ActError) {
        let reason = error.reason();
        tracing::warn!(app = %name(app), reason, category = %error.category(), "{error}");
        self.metrics.act_failed(error.category());
        self.event(app, EventType::Warning, "Act", reason, error.to_string())
            .await;
    }

    async fn status_changed(&self, app: &TurbineApp, before: &TurbineAppStatus) {
        let Some(now) = &app.status else { return };
        if now.phase != before.phase {
            let phase = now.phase.map(|phase| phase.to_string()).unwrap_or_default();
            tracing::info!(app = %name(app), phase, "phase");
        }
        for condition in &now.conditions {
            let former = before
                .conditions
                .iter()
                .find(|of| of.type_ == condition.type_);
            let same = former
                .is_some_and(|of| of.status == condition.status && of.reason == condition.reason);
            // Good news is an event for Ready only; bad news is one for each condition that brings it.
            let (worth, weight) = match (condition.type_.as_str(), condition.status.as_str()) {
                ("Ready", "True") => (true, EventType::Normal),
                ("SpecValid" | "PlacementVerified", "False")
                | ("TopicsReady", "False" | "Unknown")
                | ("Stalled" | "Degraded" | "RescaleBlocked" | "NonDivisorPartitions", "True") => {
                    (condition.reason != "NotLooked", EventType::Warning)
                }
                _ => (false, EventType::Normal),
            };
            if worth && !same {
                self.event(
                    app,
                    weight,
                    &condition.type_,
                    &condition.reason,
                    condition.message.clone(),
                )
                .await;
            }
        }
        self.metrics.status_written();
    }
}
