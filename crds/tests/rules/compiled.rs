use rstest::rstest;
use serde_json::{Value, json};
use turbine_crds::app::{OnRetentionGap, PartitionHash};
use turbine_crds::compiled::{CompiledPartitionKey, CompiledStart, KafkaSecretFile};
use turbine_crds::rules::validate;

use crate::common::{read, small, with};

/// The defaults, written out by hand from the documentation of the fields.
#[test]
fn what_is_left_out_has_its_documented_default() {
    let app = validate(&read(&small())).unwrap();
    assert_eq!(app.namespace(), "default");
    assert_eq!(app.app_id().as_str(), "fraud");
    assert_eq!(app.replicas().get(), 1);
    assert!(!app.suspended());
    assert_eq!(app.volume().size().bytes(), 10_737_418_240);
    assert_eq!(app.worker().image(), None);
    assert_eq!(
        serde_json::to_value(app.worker().resources()).unwrap(),
        json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "250m", "memory": "512Mi"}})
    );
    assert_eq!(
        serde_json::to_value(app.compiled()).unwrap(),
        json!({
            "appId": "fraud",
            "kafka": {"bootstrapServers": "kafka:9092", "tls": null, "sasl": null, "properties": {}},
            "logLevel": "info",
            "logFormat": "text",
            "subscriptions": [{
                "name": "per-tenant",
                "topic": "events",
                "partitions": null,
                "columns": small()["spec"]["subscriptions"][0]["input"]["columns"],
                "eventTime": {"column": "ts", "unit": "ms"},
                "outOfOrdernessMs": 0,
                "maxFutureMs": 600_000,
                "startFrom": "earliest",
                "onError": "fail",
                "dlq": null,
                "idleTimeoutMs": 30_000,
                "idlePolicy": "coast",
                "partitionKey": {"columns": ["tenant_id"]},
                "onNullKey": "group",
                "windows": [{
                    "name": "minute",
                    "sizeMs": 60_000,
                    "keys": ["tenant_id"],
                    "aggregates": [
                        {"as": "n", "function": "count", "column": null},
                        {"as": "cpu_mean", "function": "mean", "column": "cpu"}
                    ],
                    "allowedLatenessMs": 0
                }],
                "output": {"topic": "scores", "partitions": null, "messageKey": null},
                "processingGuarantee": "atLeastOnce",
                "commitIntervalMs": 1_000
            }],
            "topics": {"replicationFactor": null, "config": {}}
        })
    );
}

#[rstest]
#[case("1ms", 1)]
#[case("1h30m", 5_400_000)]
#[case("250ms", 250)]
#[case("366d", 31_622_400_000)]
#[case("1s1ms", 1_001)]
fn durations_compile_to_milliseconds(#[case] text: &str, #[case] millis: u64) {
    let app = with(&[("spec.subscriptions.0.windows.0.tumbling.size", json!(text))]);
    let app = validate(&read(&app)).unwrap();
    assert_eq!(app.compiled().subscriptions[0].windows[0].size_ms, millis);
}

#[rstest]
#[case(json!("latest"), CompiledStart::Latest)]
#[case(json!({"timestamp": "1970-01-01T01:00:00.5+01:00"}), CompiledStart::Timestamp(500))]
#[case(json!({"timestamp": "2026-01-01T00:00:00Z"}), CompiledStart::Timestamp(1_767_225_600_000))]
fn starts(#[case] value: Value, #[case] start: CompiledStart) {
    let app = with(&[("spec.subscriptions.0.input.startFrom", value)]);
    let app = validate(&read(&app)).unwrap();
    assert_eq!(app.compiled().subscriptions[0].start_from, start);
}

#[test]
fn a_declared_hash_is_compiled_and_misplaced_records_follow_on_error() {
    let app = with(&[("spec.subscriptions.0.partitionHash", json!("murmur2"))]);
    let subscription = &validate(&read(&app)).unwrap().compiled().subscriptions[0].clone();
    assert_eq!(subscription.partition_hash, Some(PartitionHash::Murmur2));
    let filled = serde_json::to_value(turbine_crds::defaults::filled(&read(&app))).unwrap();
    assert_eq!(
        filled["spec"]["subscriptions"][0]["input"]["onMisplaced"],
        "followOnError"
    );
    assert_eq!(
        validate(&serde_json::from_value(filled).unwrap()).err(),
        None
    );
}

#[test]
fn what_becomes_of_an_older_store_is_compiled() {
    let app = with(&[
        ("spec.subscriptions.0.onCrashRecovery", json!("accept")),
        (
            "spec.subscriptions.0.haltIfGapExceeds",
            json!(5_000_000_000_i64),
        ),
    ]);
    let app = validate(&read(&app)).unwrap();
    let compiled = serde_json::to_value(&app.compiled().subscriptions[0]).unwrap();
    assert_eq!(compiled["onCrashRecovery"], "accept");
    assert_eq!(compiled["haltIfGapExceeds"], 5_000_000_000_i64);
    let plain = with(&[]);
    let filled = serde_json::to_value(turbine_crds::defaults::filled(&read(&plain))).unwrap();
    assert_eq!(
        filled["spec"]["subscriptions"][0]["onCrashRecovery"],
        "replay"
    );
}

#[test]
fn what_becomes_of_a_retention_gap_is_compiled_and_stops_unless_asked() {
    let gap = "spec.subscriptions.0.input.onRetentionGap";
    for (said, compiled) in [
        (with(&[]), OnRetentionGap::Stop),
        (with(&[(gap, json!("stop"))]), OnRetentionGap::Stop),
        (with(&[(gap, json!("accept"))]), OnRetentionGap::Accept),
    ] {
        let app = validate(&read(&said)).unwrap();
        assert_eq!(app.compiled().subscriptions[0].on_retention_gap, compiled);
    }
    let filled = serde_json::to_value(turbine_crds::defaults::filled(&read(&with(&[])))).unwrap();
    let input = &filled["spec"]["subscriptions"][0]["input"];
    assert_eq!(input["onRetentionGap"], "stop");
}

#[test]
fn a_record_key_needs_no_key_columns() {
    let app = with(&[
        (
            "spec.subscriptions.0.partitionKey",
            json!({"recordKey": true}),
        ),
        ("spec.subscriptions.0.windows.0.keys", json!([])),
        (
            "spec.subscriptions.0.output.messageKey",
            json!("record_key"),
        ),
    ]);
    let app = validate(&read(&app)).unwrap();
    assert_eq!(
        app.compiled().subscriptions[0].partition_key,
        CompiledPartitionKey::RecordKey
    );
}

#[rstest]
#[case::bigger_request(json!({"requests": {"memory": "2Gi"}}), json!({"limits": {"memory": "2Gi"}, "requests": {"cpu": "250m", "memory": "2Gi"}}))]
#[case::small_limits(json!({"limits": {"memory": "256Mi", "cpu": "100m"}}), json!({"limits": {"cpu": "100m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "256Mi"}}))]
fn resources_fit_together_when_filled(#[case] given: Value, #[case] filled: Value) {
    let app = validate(&read(&with(&[("spec.worker.resources", given)]))).unwrap();
    assert_eq!(
        serde_json::to_value(app.worker().resources()).unwrap(),
        filled
    );
}

#[test]
fn secrets_become_files_and_never_part_of_what_is_compiled() {
    let key = |secret: &str, key: &str| json!({"secret": secret, "key": key});
    let app = with(&[
        (
            "spec.kafka.tls",
            json!({"ca": key("ca", "ca.crt"), "certificate": key("me", "tls.crt"), "key": key("me", "tls.key")}),
        ),
        (
            "spec.kafka.sasl",
            json!({"mechanism": "SCRAM-SHA-512", "username": key("login", "user"), "password": key("login", "hidden-password")}),
        ),
    ]);
    let app = validate(&read(&app)).unwrap();
    let files: Vec<_> = app
        .secrets()
        .iter()
        .map(|file| (file.file(), file.secret(), file.key()))
        .collect();
    assert_eq!(
        files,
        [
            (KafkaSecretFile::Ca, "ca", "ca.crt"),
            (KafkaSecretFile::Certificate, "me", "tls.crt"),
            (KafkaSecretFile::Key, "me", "tls.key"),
            (KafkaSecretFile::Username, "login", "user"),
            (KafkaSecretFile::Password, "login", "hidden-password"),
        ]
    );
    let compiled = serde_json::to_string(app.compiled()).unwrap();
    assert!(!compiled.contains("hidden-password"));
}

#[test]
fn checkpoints_are_left_out_where_all_is_as_by_default() {
    let app = validate(&read(&small())).unwrap();
    let compiled = serde_json::to_value(app.compiled()).unwrap();
    assert_eq!(compiled.get("checkpoints"), None);
    let read_back: turbine_crds::compiled::CompiledApp = serde_json::from_value(compiled).unwrap();
    assert_eq!(&read_back, app.compiled());
    assert_eq!(read_back.checkpoints.interval_ms, 60_000);
    assert_eq!(read_back.checkpoints.retain, 3);
    assert_eq!(app.checkpoint_secret(), None);
}

#[test]
fn a_bucket_has_the_documented_defaults_and_its_secret_is_a_reference() {
    let s3 = |s3: Value| {
        let app = with(&[
            ("spec.state.checkpoints.retain", json!(5)),
            ("spec.state.checkpoints.store", json!({ "s3": s3 })),
        ]);
        validate(&read(&app)).unwrap()
    };
    let app = s3(json!({"bucket": "state"}));
    assert_eq!(
        serde_json::to_value(&app.compiled().checkpoints).unwrap(),
        json!({
            "intervalMs": 60_000,
            "retain": 5,
            "store": {
                "s3": {
                    "bucket": "state",
                    "region": "us-east-1",
                    "endpoint": null,
                    "prefix": "",
                    "pathStyle": false,
                    "credentials": false
                }
            }
        })
    );
    let app = s3(json!({
        "bucket": "state",
        "endpoint": "http://minio:9000",
        "credentialsSecret": "turbine-s3"
    }));
    assert_eq!(app.checkpoint_secret(), Some("turbine-s3"));
    let compiled = serde_json::to_value(&app.compiled().checkpoints.store).unwrap();
    assert_eq!(compiled["s3"]["pathStyle"], true);
    assert_eq!(compiled["s3"]["credentials"], true);
    assert!(!compiled.to_string().contains("turbine-s3"));
}

#[test]
fn a_folder_of_checkpoints_reaches_the_worker_as_it_is_written() {
    let app = with(&[(
        "spec.state.checkpoints.store",
        json!({ "folder": "/mnt/checkpoints" }),
    )]);
    let app = validate(&read(&app)).unwrap();
    let compiled = serde_json::to_value(&app.compiled().checkpoints).unwrap();
    assert_eq!(compiled["store"], json!({ "folder": "/mnt/checkpoints" }));
    assert_eq!(app.checkpoint_secret(), None);
}
