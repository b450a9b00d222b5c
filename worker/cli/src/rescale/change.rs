//! What is changed in the spec.

use std::collections::BTreeMap;

use anyhow::Context as _;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use turbine_crds::app::TurbineApp;

/// Counts by subscription, and workers.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) partitions: BTreeMap<String, i32>,
    pub(super) replicas: Option<i32>,
}

/// Operations of a JSON patch.
#[derive(Debug)]
pub(super) struct Patch(pub(super) Vec<Value>);

/// The subscriptions that get the count: the named one, and those of the app that read its topic. They change together.
pub(super) fn partitions(
    app: &TurbineApp,
    subscription: Option<&str>,
    to: i32,
) -> anyhow::Result<BTreeMap<String, i32>> {
    let all = &app.spec.subscriptions;
    let of = match (subscription, all.as_slice()) {
        (Some(name), all) => all.iter().find(|of| of.name == name).with_context(|| {
            let names: Vec<&str> = all.iter().map(|of| of.name.as_str()).collect();
            format!(
                "TurbineApp {} has no subscription {name}; it has {}",
                app.name_any(),
                names.join(", ")
            )
        })?,
        (None, [only]) => only,
        (None, _) => anyhow::bail!(
            "TurbineApp {} has several subscriptions: name one with --subscription",
            app.name_any()
        ),
    };
    let together = all
        .iter()
        .filter(|other| other.input.topic == of.input.topic);
    Ok(together.map(|of| (of.name.clone(), to)).collect())
}

impl Change {
    /// What is different from the spec, each guarded by a test of what was read: somebody else's edit in between is not written over.
    pub(super) fn patch(&self, app: &TurbineApp) -> Patch {
        let mut operations = Vec::new();
        for (at, of) in app.spec.subscriptions.iter().enumerate() {
            let Some(to) = self.partitions.get(&of.name) else {
                continue;
            };
            if of.input.partitions == Some(*to) {
                continue;
            }
            let path = format!("/spec/subscriptions/{at}");
            operations
                .push(json!({"op": "test", "path": format!("{path}/name"), "value": of.name}));
            let count = format!("{path}/input/partitions");
            if let Some(now) = of.input.partitions {
                operations.push(json!({"op": "test", "path": count, "value": now}));
            }
            operations.push(json!({"op": "add", "path": count, "value": to}));
        }
        if let Some(replicas) = self.replicas.filter(|of| app.spec.replicas != Some(*of)) {
            if let Some(now) = app.spec.replicas {
                operations.push(json!({"op": "test", "path": "/spec/replicas", "value": now}));
            }
            operations.push(json!({"op": "add", "path": "/spec/replicas", "value": replicas}));
        }
        Patch(operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> TurbineApp {
        let subscription = |name: &str, topic: &str, partitions: Option<i32>| {
            let mut of = json!({
                "name": name,
                "input": {
                    "topic": topic, "format": "json", "columns": [{"name": "user", "type": "string"}],
                    "eventTime": {"field": "user", "unit": "ms"},
                },
                "partitionKey": "user",
                "windows": [],
                "output": {"topic": "out", "messageKey": "user"},
            });
            if let Some(count) = partitions {
                of["input"]["partitions"] = json!(count);
            }
            of
        };
        serde_json::from_value(json!({
            "apiVersion": "turbine.dev/v1alpha1", "kind": "TurbineApp",
            "metadata": {"name": "fraud"},
            "spec": {
                "replicas": 2,
                "kafka": {"bootstrapServers": "kafka:9092"},
                "state": {"volume": {"size": "1Gi"}},
                "subscriptions": [
                    subscription("one", "events", Some(12)),
                    subscription("two", "other", None),
                    subscription("three", "events", None),
                ],
            },
        }))
        .unwrap()
    }

    #[test]
    fn subscriptions_of_one_topic_change_together() {
        let of = |name| partitions(&app(), name, 24).map(|of| of.into_keys().collect::<Vec<_>>());
        assert_eq!(of(Some("one")).unwrap(), ["one", "three"]);
        assert_eq!(of(Some("two")).unwrap(), ["two"]);
        assert!(of(None).unwrap_err().to_string().contains("--subscription"));
        let error = of(Some("four")).unwrap_err().to_string();
        assert!(error.contains("one, two, three"), "{error}");
    }

    #[test]
    fn a_patch_tests_what_it_replaces() {
        let change = Change {
            partitions: BTreeMap::from([("one".to_owned(), 24), ("three".to_owned(), 24)]),
            replicas: Some(2),
        };
        assert_eq!(
            Value::Array(change.patch(&app()).0),
            json!([
                {"op": "test", "path": "/spec/subscriptions/0/name", "value": "one"},
                {"op": "test", "path": "/spec/subscriptions/0/input/partitions", "value": 12},
                {"op": "add", "path": "/spec/subscriptions/0/input/partitions", "value": 24},
                {"op": "test", "path": "/spec/subscriptions/2/name", "value": "three"},
                {"op": "add", "path": "/spec/subscriptions/2/input/partitions", "value": 24},
            ])
        );
        let same = Change {
            partitions: BTreeMap::from([("one".to_owned(), 12)]),
            replicas: None,
        };
        assert!(same.patch(&app()).0.is_empty());
    }
}
