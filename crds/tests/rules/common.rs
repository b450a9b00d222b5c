use std::sync::LazyLock;

use kube::core::cel::{CompiledSchema, ErrorKind, Validator, compile_schema};
use serde_json::{Value, json};
use turbine_crds::app::TurbineApp;
use turbine_crds::rules::FieldError;

static SCHEMA: LazyLock<CompiledSchema> = LazyLock::new(|| {
    let definition = turbine_crds::crd::definition().unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let compiled = compile_schema(schema);
    assert!(
        !compiled.has_errors(),
        "{:?}",
        compiled.compilation_errors()
    );
    compiled
});

/// An app that breaks no rule and leaves out all that may be left out.
pub(crate) fn small() -> Value {
    json!({
        "apiVersion": "turbine.dev/v1alpha1",
        "kind": "TurbineApp",
        "metadata": { "name": "fraud" },
        "spec": {
            "kafka": { "bootstrapServers": "kafka:9092" },
            "subscriptions": [{
                "name": "per-tenant",
                "input": {
                    "topic": "events",
                    "format": "json",
                    "columns": [
                        { "name": "tenant_id", "type": "string" },
                        { "name": "cpu", "type": "float64" },
                        { "name": "bytes", "type": "int64" },
                        { "name": "ok", "type": "bool" },
                        { "name": "at", "type": "timestamp" },
                        { "name": "ts", "type": "int64" }
                    ],
                    "eventTime": { "field": "ts" }
                },
                "partitionKey": "tenant_id",
                "windows": [{
                    "name": "minute",
                    "tumbling": { "size": "1m" },
                    "keys": ["tenant_id"],
                    "aggregates": [{ "count": {}, "as": "n" }, { "mean": "cpu", "as": "cpu_mean" }]
                }],
                "output": { "topic": "scores" }
            }],
            "state": { "volume": { "size": "10Gi" } }
        }
    })
}

/// The value at a path like `spec.subscriptions.0.name`; objects on the way are made.
pub(crate) fn at<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.')
        .fold(value, |value, step| match step.parse::<usize>() {
            Ok(index) => {
                let list = value.as_array_mut().unwrap();
                if index == list.len() {
                    list.push(Value::Null);
                }
                &mut list[index]
            }
            Err(_) => &mut value[step],
        })
}

/// [`small`] with some values set.
pub(crate) fn with(values: &[(&str, Value)]) -> Value {
    let mut app = small();
    for (path, value) in values {
        *at(&mut app, path) = value.clone();
    }
    app
}

pub(crate) fn read(app: &Value) -> TurbineApp {
    serde_json::from_value(app.clone()).unwrap()
}

/// What CEL refuses. Anything but a plain refusal (a rule that does not evaluate) is a fault of the rule.
pub(crate) fn by_cel(app: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match Validator::new().validate_compiled(&SCHEMA, app, old) {
        Ok(()) => Vec::new(),
        Err(errors) => errors
            .into_vec()
            .into_iter()
            .map(|error| {
                assert_eq!(error.kind, ErrorKind::ValidationFailure, "{error:?}");
                FieldError {
                    path: error.field_path.trim_start_matches('.').to_owned(),
                    message: error.message,
                }
            })
            .collect(),
    }
}

pub(crate) fn by_rust(app: &Value) -> Vec<FieldError> {
    turbine_crds::rules::validate(&read(app))
        .err()
        .unwrap_or_default()
}

/// Whatever CEL refuses, Rust refuses in the same words, at the same field or below it.
pub(crate) fn assert_twins(cel: &[FieldError], rust: &[FieldError]) {
    for refusal in cel {
        assert!(
            rust.iter()
                .any(|twin| twin.message == refusal.message && twin.path.starts_with(&refusal.path)),
            "only CEL says: {refusal}\nRust says: {rust:#?}"
        );
    }
}
