//! `TurbineApp`s as tests write them.

use serde_json::{Value, json};

use crate::expected::Query;

/// An app over one topic: count, sum, mean, min and max per tenant and minute.
#[derive(Debug, Clone)]
pub struct AppManifest(pub Value);

impl AppManifest {
    /// `hold` keeps results a function of the log alone, so that they can be computed elsewhere.
    pub fn new(name: &str, bootstrap: &str, input: &str, output: &str) -> Self {
        Self(json!({
            "apiVersion": "turbine.dev/v1alpha1",
            "kind": "TurbineApp",
            "metadata": {"name": name},
            "spec": {
                "replicas": 1,
                "kafka": {"bootstrapServers": bootstrap},
                "worker": {"resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}},
                "subscriptions": [{
                    "name": "per-tenant",
                    "input": {
                        "topic": input,
                        "format": "json",
                        "columns": [
                            {"name": "tenant_id", "type": "string"},
                            {"name": "cpu", "type": "float64"},
                            {"name": "bytes", "type": "int64"},
                            {"name": "ts", "type": "int64"},
                        ],
                        "eventTime": {"field": "ts", "unit": "ms"},
                        "outOfOrderness": "5s",
                        "idle": {"policy": "hold"},
                    },
                    "partitionKey": "tenant_id",
                    "windows": [{
                        "name": "minute",
                        "tumbling": {"size": "1m"},
                        "keys": ["tenant_id"],
                        "aggregates": [
                            {"count": {}, "as": "n"},
                            {"count": {"column": "cpu"}, "as": "cpu_n"},
                            {"sum": "cpu", "as": "cpu_sum"},
                            {"mean": "cpu", "as": "cpu_mean"},
                            {"sum": "bytes", "as": "bytes_sum"},
                            {"min": "bytes", "as": "bytes_min"},
                            {"max": "bytes", "as": "bytes_max"},
                        ],
                        "allowedLateness": "5s",
                    }],
                    "output": {"topic": output, "messageKey": "tenant_id"},
                }],
                "state": {"volume": {"size": "256Mi"}},
            },
        }))
    }

    /// Sets a field, by its path; missing objects are made.
    #[must_use]
    pub fn with(mut self, path: &str, value: Value) -> Self {
        *self.at(path) = value;
        self
    }

    /// Removes a field.
    #[must_use]
    pub fn without(mut self, path: &str) -> Self {
        let (parent, field) = path.rsplit_once('.').unwrap_or(("", path));
        if let Value::Object(fields) = self.at(parent) {
            fields.shift_remove(field);
        }
        self
    }

    fn at(&mut self, path: &str) -> &mut Value {
        path.split('.')
            .filter(|part| !part.is_empty())
            .fold(&mut self.0, |place, part| match part.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[part],
            })
    }

    /// For `kubectl` and files. JSON, since YAML's readers do not agree on which bare words are texts (`n` is one, or
    /// false).
    pub fn text(&self) -> String {
        format!("{:#}", self.0)
    }

    /// What its results must be.
    pub fn query(bootstrap: &str, input: &str, output: &str) -> Query {
        Query {
            bootstrap: bootstrap.to_owned(),
            input: input.to_owned(),
            output: output.to_owned(),
            size_ms: 60_000,
            lateness_ms: 5_000,
            out_of_orderness_ms: 5_000,
            time: "ts".to_owned(),
            keys: vec!["tenant_id".to_owned()],
            aggregates: [
                "n=count",
                "cpu_n=count:cpu",
                "cpu_sum=sum:cpu",
                "cpu_mean=mean:cpu",
                "bytes_sum=sum:bytes",
                "bytes_min=min:bytes",
                "bytes_max=max:bytes",
            ]
            .map(str::to_owned)
            .to_vec(),
            open_windows_allowed: false,
            placed_only: false,
            show_open: false,
        }
    }
}
