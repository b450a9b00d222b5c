use std::path::Path;

use serde_json::Value;

fn schema() -> Value {
    let definition = turbine_crds::crd::definition().unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Calls `see` with each schema below `schema`, its path, and whether a list lies above it.
fn walk(schema: &Value, path: &str, in_list: bool, see: &mut impl FnMut(&Value, &str, bool)) {
    see(schema, path, in_list);
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        walk(schema, &format!("{path}.{name}"), in_list, see);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], &format!("{path}[]"), true, see);
    }
    if schema["additionalProperties"].is_object() {
        walk(
            &schema["additionalProperties"],
            &format!("{path}{{}}"),
            in_list,
            see,
        );
    }
}

#[test]
fn the_chart_holds_the_definition_that_the_types_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../charts/turbine/files/turbineapps.turbine.dev.yaml");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == turbine_crds::crd::yaml().unwrap(),
        "{} is not what the types give; run `cargo run -p turbine-crds --bin crdgen -- {}`",
        path.display(),
        path.display()
    );
}

/// A client-side apply keeps the whole object in an annotation, and all annotations of an object have 256 KiB.
#[test]
fn client_side_apply_has_room_for_it() {
    let definition = turbine_crds::crd::definition().unwrap();
    let yaml = turbine_crds::crd::yaml().unwrap();
    for size in [definition.to_string().len(), yaml.len()] {
        assert!(size < 128 * 1024, "{size} bytes");
    }
    let read: Value = serde_yaml::from_str(&yaml).unwrap();
    assert_eq!(read, definition);
}

#[test]
fn no_default_is_written_by_the_api_server() {
    walk(&schema(), "", false, &mut |schema, path, _| {
        assert!(schema.get("default").is_none(), "{path}");
    });
}

#[test]
fn no_field_may_be_null() {
    walk(&schema(), "", false, &mut |schema, path, _| {
        assert!(schema.get("nullable").is_none(), "{path}");
    });
}

#[test]
fn every_list_and_every_text_in_a_list_of_the_spec_is_bounded() {
    let spec = &schema()["properties"]["spec"];
    walk(spec, "spec", false, &mut |schema, path, in_list| {
        let kind = schema["type"].as_str().unwrap_or_default();
        if kind == "array" {
            assert!(schema["maxItems"].is_u64(), "{path} has no maxItems");
        }
        if kind == "string" && in_list && schema.get("enum").is_none() {
            assert!(schema["maxLength"].is_u64(), "{path} has no maxLength");
        }
    });
}

#[test]
fn kubectl_shows_what_a_person_asks_first() {
    let definition = turbine_crds::crd::definition().unwrap();
    let version = &definition["spec"]["versions"][0];
    let columns: Vec<_> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            (
                column["name"].as_str().unwrap(),
                column["priority"].as_i64().unwrap_or(0),
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            ("Ready", 0),
            ("Phase", 0),
            ("Rescale", 0),
            ("Partitions", 0),
            ("Replicas", 0),
            ("Age", 0),
            ("Reason", 1),
            ("Message", 1)
        ]
    );
    assert_eq!(
        version["subresources"]["scale"]["specReplicasPath"],
        ".spec.replicas"
    );
    assert_eq!(definition["spec"]["names"]["shortNames"][0], "tapp");
}

#[test]
fn lists_that_merge_merge_by_name() {
    let schema = schema();
    let subscriptions = &schema["properties"]["spec"]["properties"]["subscriptions"];
    assert_eq!(subscriptions["x-kubernetes-list-type"], "map");
    assert_eq!(subscriptions["x-kubernetes-list-map-keys"][0], "name");
    let windows = &subscriptions["items"]["properties"]["windows"];
    assert_eq!(windows["x-kubernetes-list-map-keys"][0], "name");
    let aggregates = &windows["items"]["properties"]["aggregates"];
    assert_eq!(aggregates["x-kubernetes-list-map-keys"][0], "as");
}
