use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};
use turbine_crds::app::TurbineApp;
use turbine_crds::compiled::CompiledApp;
use turbine_crds::rules::validate;

use crate::common::{assert_twins, by_cel, small};

fn duration() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "1m", "0s", "1h30m", "366d", "367d", "5", "1x", "9ms", "100ms"
        ])
        .prop_map(str::to_owned),
        (0..2_000_u32, select(vec!["ms", "s", "m", "h", "d"]))
            .prop_map(|(n, unit)| format!("{n}{unit}")),
    ]
}

fn column() -> impl Strategy<Value = &'static str> {
    select(vec![
        "tenant_id",
        "cpu",
        "bytes",
        "ok",
        "at",
        "ts",
        "nowhere",
        "window_end_ms",
    ])
}

fn aggregate() -> impl Strategy<Value = Value> {
    let name = select(vec!["a", "b", "c", "tenant_id", "window_start_ms"]);
    (
        select(vec!["sum", "min", "max", "mean", "count", "rows"]),
        column(),
        name,
    )
        .prop_map(|(function, column, name)| match function {
            "rows" => json!({"count": {}, "as": name}),
            "count" => json!({"count": {"column": column}, "as": name}),
            function => json!({function: column, "as": name}),
        })
}

prop_compose! {
    fn window()(
        name in select(vec!["w", "minute", "Bad"]),
        size in duration(),
        lateness in proptest::option::of(duration()),
        keys in subsequence(vec!["tenant_id", "bytes", "cpu", "ok", "nowhere"], 0..4),
        aggregates in proptest::collection::vec(aggregate(), 0..4),
    ) -> Value {
        let mut window = json!({"name": name, "tumbling": {"size": size}, "keys": keys, "aggregates": aggregates});
        if let Some(lateness) = lateness {
            window["allowedLateness"] = json!(lateness);
        }
        window
    }
}

prop_compose! {
    fn app()(
        windows in proptest::collection::vec(window(), 1..3),
        partitions in proptest::option::of(-1..1_100_i32),
        key in prop_oneof![
            column().prop_map(|column| json!(column)),
            subsequence(vec!["tenant_id", "bytes"], 0..3).prop_map(|columns| json!(columns)),
            Just(json!({"recordKey": true})),
        ],
        time in column(),
        on_error in select(vec!["fail", "skip", "dlq"]),
        dlq in proptest::option::of(select(vec!["events", "scores", "dead", "d e"])),
        message_key in proptest::option::of(select(vec!["tenant_id", "a", "b", "window_start_ms", "record_key"])),
        replicas in proptest::option::of(-1..1_010_i32),
        declared in any::<bool>(),
        on_misplaced in proptest::option::of(select(vec!["followOnError", "repartition"])),
    ) -> Value {
        let mut app = small();
        let spec = &mut app["spec"];
        if let Some(replicas) = replicas {
            spec["replicas"] = json!(replicas);
        }
        let subscription = &mut spec["subscriptions"][0];
        subscription["windows"] = json!(windows);
        subscription["partitionKey"] = key;
        subscription["input"]["eventTime"]["field"] = json!(time);
        subscription["input"]["onError"] = json!(on_error);
        if declared {
            subscription["partitionHash"] = json!("murmur2");
        }
        if let Some(on_misplaced) = on_misplaced {
            subscription["input"]["onMisplaced"] = json!(on_misplaced);
        }
        if let Some(partitions) = partitions {
            subscription["input"]["partitions"] = json!(partitions);
        }
        if let Some(dlq) = dlq {
            subscription["input"]["dlq"] = json!(dlq);
        }
        if let Some(message_key) = message_key {
            subscription["output"]["messageKey"] = json!(message_key);
        }
        app
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_cel_refuses_rust_refuses_and_what_rust_takes_compiles(app in app()) {
        let typed: TurbineApp = serde_json::from_value(app.clone()).unwrap();
        prop_assert_eq!(&serde_json::to_value(&typed).unwrap(), &app, "a spec survives being read and written");
        let cel = by_cel(&app, None);
        match validate(&typed) {
            Err(errors) => assert_twins(&cel, &errors),
            Ok(validated) => {
                prop_assert_eq!(cel, vec![]);
                let text = serde_json::to_string(validated.compiled()).unwrap();
                let read: CompiledApp = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&read, validated.compiled());
                let filled = turbine_crds::defaults::filled(&typed);
                prop_assert_eq!(validate(&filled).unwrap(), validated, "defaults written out mean the same");
            }
        }
    }
}
