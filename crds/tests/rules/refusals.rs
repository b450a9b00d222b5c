use rstest::rstest;
use serde_json::{Value, json};

use crate::common::{assert_twins, by_cel, by_rust, read, small, with};

/// Who can see that a rule is broken.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seen {
    /// The API server by CEL, and Rust.
    Both,
    /// The API server by a bound of the schema (in its own words), and Rust.
    Bound,
    /// Rust alone: the schema shows CEL nothing there.
    Rust,
}
use Seen::{Both, Bound, Rust};

const INPUT: &str = "spec.subscriptions.0.input";

fn check(values: &[(&str, Value)], path: &str, words: &str, seen: Seen) {
    let app = with(values);
    let rust = by_rust(&app);
    let cel = by_cel(&app, None);
    let found: Vec<_> = rust
        .iter()
        .filter(|error| error.message.contains(words))
        .collect();
    assert_eq!(found.len(), 1, "`{words}` once in {rust:#?}");
    assert_eq!(found[0].path, path);
    assert_twins(&cel, &rust);
    let by_cel = cel
        .iter()
        .filter(|error| error.message == found[0].message)
        .count();
    assert_eq!(by_cel, usize::from(seen == Both), "{cel:#?}");
}

#[test]
fn the_small_app_is_taken() {
    assert_eq!(by_rust(&small()), []);
    assert_eq!(by_cel(&small(), None), []);
}

#[rstest]
#[case(30, true)]
#[case(40, true)]
#[case(41, false)]
#[case(45, false)]
#[case(52, false)]
#[case(53, false)]
#[case(63, false)]
#[case(64, false)]
#[case(253, false)]
fn a_long_name_is_refused_with_its_length(#[case] length: usize, #[case] taken: bool) {
    let app = with(&[("metadata.name", json!("n".repeat(length)))]);
    let (rust, cel) = (by_rust(&app), by_cel(&app, None));
    assert_eq!(rust.is_empty(), taken);
    assert_eq!(cel.is_empty(), taken);
    if !taken {
        assert!(
            rust[0]
                .message
                .contains(&format!("it has {length} characters"))
        );
        assert_twins(&cel, &rust);
    }
}

/// Valid counts and their neighbours, by trial division.
#[test]
fn every_partition_count_up_to_a_thousand_is_judged_alike() {
    for count in (1..=1_001_u32).chain([1_920]) {
        let app = with(&[(&format!("{INPUT}.partitions"), json!(count))]);
        let (rust, cel) = (by_rust(&app), by_cel(&app, None));
        if 960 % count == 0 {
            assert_eq!((rust, cel), (vec![], vec![]), "{count}");
            continue;
        }
        assert_eq!(rust.len(), 1, "{count}");
        assert_eq!(rust, cel, "{count}");
        assert_eq!(rust[0].path, "spec.subscriptions[0].input.partitions");
        let below = (1..count.min(961))
            .rev()
            .find(|near| 960 % near == 0)
            .unwrap();
        let nearest = match (count + 1..=960).find(|near| 960 % near == 0) {
            Some(above) => format!("counts are {below} and {above};"),
            None => format!("count is {below};"),
        };
        let message = &rust[0].message;
        assert!(
            message.contains(&format!("`events` has {count} partitions")),
            "{message}"
        );
        assert!(message.contains(&nearest), "{message}");
    }
}

#[rstest]
#[case::dots("metadata.name", json!("a.b"), "metadata.name", "metadata.name `a.b` is refused", Both)]
#[case::app_id("spec.appId", json!("Fraud"), "spec.appId", "appId `Fraud` is refused", Both)]
#[case::no_replicas("spec.replicas", json!(0), "spec.replicas", "`suspend: true`", Both)]
#[case::many_replicas("spec.replicas", json!(1001), "spec.replicas", "1 to 1000 worker pods", Both)]
#[case::no_subscription("spec.subscriptions", json!([]), "spec.subscriptions", "0 entries; use 1 to 16", Bound)]
#[case::long_nonce("spec.restartNonce", json!("n".repeat(257)), "spec.restartNonce", "257 characters", Bound)]
fn app(
    #[case] at: &str,
    #[case] value: Value,
    #[case] path: &str,
    #[case] words: &str,
    #[case] seen: Seen,
) {
    check(&[(at, value)], path, words, seen);
}

#[rstest]
fn addresses_of_brokers(
    #[values(
        "kafka",
        "kafka:",
        ":9092",
        "kafka:0",
        "kafka:65536",
        "a:1, b:2",
        "a:1,",
        "",
        "[::1]",
        "k:+1",
        "http://k:1"
    )]
    servers: &str,
) {
    check(
        &[("spec.kafka.bootstrapServers", json!(servers))],
        "spec.kafka.bootstrapServers",
        "write host:port",
        Both,
    );
}

#[rstest]
fn addresses_of_brokers_that_are_taken(
    #[values(
        "kafka:9092",
        "a.b-c_d:1,10.0.0.1:65535",
        "[2001:db8::1]:9092",
        "k:9999,l:10000,m:59999"
    )]
    servers: &str,
) {
    let app = with(&[("spec.kafka.bootstrapServers", json!(servers))]);
    assert_eq!((by_rust(&app), by_cel(&app, None)), (vec![], vec![]));
}

#[rstest]
#[case::half_tls("tls", json!({"certificate": {"secret": "s", "key": "tls.crt"}}), "tls", "belong together", Both)]
#[case::secret("tls", json!({"ca": {"secret": "Kafka_CA", "key": "ca.crt"}}), "tls.ca.secret", "name of a Secret", Both)]
#[case::secret_key("tls", json!({"ca": {"secret": "ca", "key": "a b"}}), "tls.ca.key", "key of a Secret", Both)]
#[case::acks("properties", json!({"acks": "1"}), "properties[acks]", "`acks` is refused: outputs are acknowledged by all", Both)]
#[case::group("properties", json!({"linger.ms": "5", "group.id": "g"}), "properties[group.id]", "no consumer is a member", Both)]
#[case::password("properties", json!({"sasl.password": "x"}), "properties[sasl.password]", "secrets by reference", Both)]
#[case::callback("properties", json!({"dr_msg_cb": "x"}), "properties[dr_msg_cb]", "would have no effect", Rust)]
#[case::long("properties", json!({"client.id": "x".repeat(2049)}), "properties[client.id]", "2049 characters", Bound)]
fn kafka(
    #[case] at: &str,
    #[case] value: Value,
    #[case] path: &str,
    #[case] words: &str,
    #[case] seen: Seen,
) {
    check(
        &[(&format!("spec.kafka.{at}"), value)],
        &format!("spec.kafka.{path}"),
        words,
        seen,
    );
}

#[test]
fn every_denied_property_is_denied_by_both() {
    for name in turbine_protocol::client_properties::DENIALS
        .iter()
        .flat_map(|denial| denial.names)
    {
        let app = with(&[("spec.kafka.properties", json!({ *name: "x" }))]);
        let messages = |errors: Vec<turbine_crds::rules::FieldError>| {
            errors
                .into_iter()
                .map(|error| error.message)
                .collect::<Vec<_>>()
        };
        let rust = messages(by_rust(&app));
        assert_eq!(rust.len(), 1);
        assert_eq!(rust, messages(by_cel(&app, None)));
    }
}

#[rstest]
#[case::one("message.timeout.ms")]
#[case::its_other_name("delivery.timeout.ms")]
fn a_timeout_of_records_is_refused_where_a_transaction_bounds_it(#[case] name: &str) {
    let of = |guarantee: &str| {
        [
            ("spec.kafka.properties", json!({ name: "30000" })),
            ("spec.subscriptions.0.processingGuarantee", json!(guarantee)),
        ]
    };
    check(
        &of("exactlyOnce"),
        &format!("spec.kafka.properties[{name}]"),
        "for as long as its transaction lives",
        Both,
    );
    for app in [with(&of("atLeastOnce")), with(&of("exactlyOnce")[1..])] {
        assert_eq!(by_rust(&app), []);
        assert_eq!(by_cel(&app, None), []);
    }
}

#[rstest]
#[case::image("image", json!("turbine worker"), "image", "is not an image", Both)]
#[case::quantity("resources", json!({"limits": {"memory": "1GB"}}), "resources.limits.memory", "`1GB` is not a quantity", Rust)]
#[case::negative("resources", json!({"limits": {"cpu": "-1"}}), "resources.limits.cpu", "below zero", Rust)]
#[case::above("resources", json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}), "resources.requests.cpu", "request of 1500m is above the limit of 1", Rust)]
fn worker(
    #[case] at: &str,
    #[case] value: Value,
    #[case] path: &str,
    #[case] words: &str,
    #[case] seen: Seen,
) {
    check(
        &[(&format!("spec.worker.{at}"), value)],
        &format!("spec.worker.{path}"),
        words,
        seen,
    );
}

#[rstest]
#[case::negative("partitions", json!(-1), "partitions", "topic `events` cannot have fewer than 1 partition; the nearest valid count is 1", Both)]
#[case::zero("partitions", json!(0), "partitions", "topic `events` cannot have fewer than 1 partition; the nearest valid count is 1", Both)]
#[case::topic("topic", json!("bestellung u"), "topic", "topic `bestellung u` is refused: use 1 to 249", Both)]
#[case::dot_topic("topic", json!(".."), "topic", "topic `..` is refused", Both)]
#[case::no_columns("columns", json!([]), "columns", "0 entries; use 1 to 64", Bound)]
#[case::column_twice("columns.6", json!({"name": "cpu", "type": "int64"}), "columns[6].name", "`cpu` is there twice", Bound)]
#[case::no_time("eventTime", json!({"field": "time"}), "eventTime.field", "`time` is not a column of type", Both)]
#[case::text_time("eventTime", json!({"field": "tenant_id"}), "eventTime.field", "declare it so in `input.columns`", Both)]
#[case::timestamp_unit("eventTime", json!({"field": "at", "unit": "ms"}), "eventTime.unit", "remove the unit", Both)]
#[case::word("outOfOrderness", json!("five"), "outOfOrderness", "`five` is not a duration", Both)]
#[case::digits("maxFuture", json!("1234567890s"), "maxFuture", "is not a duration", Both)]
#[case::long_future("maxFuture", json!("367d"), "maxFuture", "`367d` is out of range; use 0s to 366d", Both)]
#[case::idle("idle", json!({"timeout": "99ms"}), "idle.timeout", "use 100ms to 1d", Both)]
#[case::start("startFrom", json!({"timestamp": "yesterday"}), "startFrom.timestamp", "`yesterday` is refused", Rust)]
#[case::dlq_unused("dlq", json!("dead"), "dlq", "`dead` would stay empty", Both)]
#[case::dlq_missing("onError", json!("dlq"), "", "set `input.dlq`", Both)]
fn input(
    #[case] at: &str,
    #[case] value: Value,
    #[case] path: &str,
    #[case] words: &str,
    #[case] seen: Seen,
) {
    let path = format!("spec.subscriptions[0].input.{path}");
    check(
        &[(&format!("{INPUT}.{at}"), value)],
        path.trim_end_matches('.'),
        words,
        seen,
    );
}

#[rstest]
#[case::null_keys_need_a_topic(&[("onNullKey", json!("dlq"))], "input", "need a dead-letter topic", Both)]
#[case::repartition(&[("partitionHash", json!("murmur2")), ("input.onMisplaced", json!("repartition"))], "input.onMisplaced", "is not in this version", Both)]
#[case::misplaced_by_no_hash(&[("input.onMisplaced", json!("followOnError"))], "input.onMisplaced", "set `partitionHash: murmur2`", Both)]
#[case::name(&[("name", json!("groesse der"))], "name", "(it has 11 characters)", Both)]
#[case::commit_soon(&[("commitInterval", json!("9ms"))], "commitInterval", "use 10ms to 1h", Both)]
#[case::commit_late(&[("commitInterval", json!("1h1ms"))], "commitInterval", "use 10ms to 1h", Both)]
#[case::long_transaction(&[("processingGuarantee", json!("exactlyOnce")), ("commitInterval", json!("30001ms"))], "commitInterval", "`30001ms` is longer than a transaction may stay open", Both)]
#[case::negative_gap(&[("haltIfGapExceeds", json!(-1))], "haltIfGapExceeds", "0 offsets or more", Bound)]
#[case::output_is_input(&[("output.topic", json!("events"))], "output.topic", "is the input as well", Both)]
#[case::dlq_is_input(&[("input.onError", json!("dlq")), ("input.dlq", json!("events"))], "input.dlq", "would be read for ever", Both)]
#[case::dlq_is_output(&[("input.onError", json!("dlq")), ("input.dlq", json!("scores"))], "input.dlq", "a topic each", Both)]
#[case::output_count(&[("output.partitions", json!(0))], "output.partitions", "at least 1", Both)]
#[case::huge_output(&[("output.partitions", json!(100_001))], "output.partitions", "use fewer", Both)]
#[case::message_key(&[("output.messageKey", json!("user"))], "output.messageKey", "not in the results of every window", Both)]
#[case::mean_as_key(&[("output.messageKey", json!("cpu_mean"))], "output.messageKey", "no type that makes a record key", Both)]
#[case::record_key_as_key(&[("output.messageKey", json!("record_key"))], "output.messageKey", "not in the results", Rust)]
#[case::key_unknown(&[("partitionKey", json!("tenant"))], "partitionKey", "not declared", Rust)]
#[case::key_float(&[("partitionKey", json!(["tenant_id", "cpu"]))], "partitionKey[1]", "floats are no keys", Rust)]
#[case::key_twice(&[("partitionKey", json!(["tenant_id", "tenant_id"]))], "partitionKey", "there twice", Rust)]
#[case::key_empty(&[("partitionKey", json!([]))], "partitionKey", "names no column", Rust)]
#[case::record_key_false(&[("partitionKey", json!({"recordKey": false}))], "partitionKey.recordKey", "false says nothing", Rust)]
#[case::lacks(&[("partitionKey", json!(["tenant_id", "bytes"]))], "windows[0].keys", "`minute` lack `bytes`", Rust)]
#[case::no_window(&[("windows", json!([]))], "windows", "0 entries; use 1 to 8", Bound)]
fn subscription(
    #[case] values: &[(&str, Value)],
    #[case] path: &str,
    #[case] words: &str,
    #[case] seen: Seen,
) {
    let values: Vec<_> = values
        .iter()
        .map(|(at, value)| (format!("spec.subscriptions.0.{at}"), value.clone()))
        .collect();
    let values: Vec<_> = values
        .iter()
        .map(|(at, value)| (at.as_str(), value.clone()))
        .collect();
    check(
        &values,
        &format!("spec.subscriptions[0].{path}"),
        words,
        seen,
    );
}

#[rstest]
#[case::as_long_as_a_transaction("exactlyOnce", "30s")]
#[case::without_a_transaction("atLeastOnce", "1h")]
fn a_commit_interval_is_taken(#[case] guarantee: &str, #[case] interval: &str) {
    let app = with(&[
        ("spec.subscriptions.0.processingGuarantee", json!(guarantee)),
        ("spec.subscriptions.0.commitInterval", json!(interval)),
    ]);
    assert_eq!(by_rust(&app), []);
    assert_eq!(by_cel(&app, None), []);
}

#[rstest]
#[case::name("name", json!("Minute"), "name", "window `Minute` is refused", Both)]
#[case::zero("tumbling", json!({"size": "0s"}), "tumbling.size", "`0s` is out of range; use 1ms to 366d", Both)]
#[case::zeros("tumbling", json!({"size": "0h0ms"}), "tumbling.size", "out of range", Both)]
#[case::unit("tumbling", json!({"size": "1w"}), "tumbling.size", "`1w` is not a duration", Both)]
#[case::empty("tumbling", json!({"size": ""}), "tumbling.size", "`` is not a duration", Both)]
#[case::late("allowedLateness", json!("366d1ms"), "allowedLateness", "out of range", Both)]
#[case::unknown_key("keys", json!(["tenant_id", "tennant"]), "keys[1]", "not declared", Both)]
#[case::float_key("keys", json!(["tenant_id", "cpu"]), "keys[1]", "declare it as int64 or string", Both)]
#[case::key_twice("keys", json!(["tenant_id", "tenant_id"]), "keys", "there twice; remove one", Both)]
#[case::lacks("keys", json!([]), "keys", "lack `tenant_id`", Rust)]
#[case::none("aggregates", json!([]), "aggregates", "0 entries; use 1 to 32", Bound)]
#[case::two_functions("aggregates.0", json!({"sum": "bytes", "max": "bytes", "as": "n"}), "aggregates[0]", "`n` needs exactly one", Both)]
#[case::no_function("aggregates.0", json!({"as": "n"}), "aggregates[0]", "exactly one of count, sum", Both)]
#[case::unknown("aggregates.0", json!({"sum": "byte", "as": "n"}), "aggregates[0].sum", "reads a column that is not declared", Both)]
#[case::unknown_count("aggregates.0", json!({"count": {"column": "x"}, "as": "n"}), "aggregates[0].count.column", "reads a column that is not declared", Both)]
#[case::sum_of_text("aggregates.0", json!({"sum": "tenant_id", "as": "n"}), "aggregates[0].sum", "numbers only", Both)]
#[case::mean_of_time("aggregates.0", json!({"mean": "at", "as": "n"}), "aggregates[0].mean", "numbers only", Both)]
#[case::twice("aggregates.1", json!({"max": "cpu", "as": "n"}), "aggregates[1].as", "`n` is there twice", Bound)]
#[case::is_key("aggregates.0", json!({"count": {}, "as": "tenant_id"}), "aggregates[0].as", "name of a key column", Both)]
#[case::is_bound("aggregates.0", json!({"count": {}, "as": "window_end_ms"}), "aggregates[0].as", "name the bounds of window `minute`", Both)]
#[case::no_name("aggregates.0", json!({"count": {}, "as": ""}), "aggregates[0].as", "0 characters; use 1 to 128", Bound)]
fn window(
    #[case] at: &str,
    #[case] value: Value,
    #[case] path: &str,
    #[case] words: &str,
    #[case] seen: Seen,
) {
    check(
        &[(&format!("spec.subscriptions.0.windows.0.{at}"), value)],
        &format!("spec.subscriptions[0].windows[0].{path}"),
        words,
        seen,
    );
}

#[test]
fn a_key_column_may_not_be_named_like_a_bound() {
    check(
        &[
            (
                &format!("{INPUT}.columns.6"),
                json!({"name": "window_start_ms", "type": "int64"}),
            ),
            (
                "spec.subscriptions.0.windows.0.keys",
                json!(["tenant_id", "window_start_ms"]),
            ),
        ],
        "spec.subscriptions[0].windows[0].keys[1]",
        "name the bounds of window `minute`",
        Both,
    );
}

#[test]
fn a_result_may_not_hide_the_record_key() {
    check(
        &[
            (
                "spec.subscriptions.0.partitionKey",
                json!({"recordKey": true}),
            ),
            (
                "spec.subscriptions.0.windows.0.aggregates.0.as",
                json!("record_key"),
            ),
        ],
        "spec.subscriptions[0].windows[0].aggregates[0].as",
        "record_key names the record's key",
        Rust,
    );
}

#[rstest]
#[case::zero("0", Both)]
#[case::negative("-1Gi", Both)]
#[case::no_quantity("10GB", Both)]
#[case::below_a_byte("0.0", Both)]
fn sizes(#[case] size: &str, #[case] seen: Seen) {
    check(
        &[("spec.state.volume.size", json!(size))],
        "spec.state.volume.size",
        "is not a size",
        seen,
    );
}

#[test]
fn replication() {
    check(
        &[("spec.topics.replicationFactor", json!(0))],
        "spec.topics.replicationFactor",
        "1 to 100, and no more",
        Both,
    );
}

fn chain(topics: &[(&str, &str)]) -> Value {
    let mut app = small();
    let one = app["spec"]["subscriptions"][0].clone();
    app["spec"]["subscriptions"] = topics
        .iter()
        .enumerate()
        .map(|(at, (input, output))| {
            let mut one = one.clone();
            one["name"] = json!(format!("s{at}"));
            one["input"]["topic"] = json!(input);
            one["output"]["topic"] = json!(output);
            one
        })
        .collect();
    app
}

#[test]
fn a_loop_of_subscriptions_is_refused_and_a_chain_is_not() {
    let two = chain(&[("a", "b"), ("b", "a")]);
    let (rust, cel) = (by_rust(&two), by_cel(&two, None));
    assert_eq!(rust.len(), 2, "{rust:#?}");
    assert_eq!(cel.len(), 1, "{cel:#?}");
    assert_twins(&cel, &rust);

    let three = by_rust(&chain(&[("a", "b"), ("b", "c"), ("c", "a"), ("x", "a")]));
    let paths: Vec<_> = three.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.subscriptions[0].output.topic",
            "spec.subscriptions[1].output.topic",
            "spec.subscriptions[2].output.topic"
        ]
    );

    let line = chain(&[("a", "b"), ("b", "c"), ("a", "c")]);
    assert_eq!((by_rust(&line), by_cel(&line, None)), (vec![], vec![]));
}

#[test]
fn two_subscriptions_of_one_name_are_refused() {
    let mut app = chain(&[("a", "b"), ("c", "d")]);
    app["spec"]["subscriptions"][1]["name"] = json!("s0");
    let errors = by_rust(&app);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].path, "spec.subscriptions[1].name");
}

#[test]
fn all_mistakes_come_at_once_in_the_order_of_the_fields() {
    let app = with(&[
        ("metadata.name", json!("Fraud")),
        ("spec.replicas", json!(0)),
        (&format!("{INPUT}.partitions"), json!(7)),
        ("spec.subscriptions.0.windows.0.tumbling.size", json!("0s")),
        ("spec.state.volume.size", json!("none")),
    ]);
    let paths: Vec<_> = by_rust(&app).into_iter().map(|error| error.path).collect();
    assert_eq!(
        paths,
        [
            "metadata.name",
            "spec.replicas",
            "spec.subscriptions[0].input.partitions",
            "spec.subscriptions[0].windows[0].tumbling.size",
            "spec.state.volume.size"
        ]
    );
}

#[rstest]
#[case::unknown_field(json!({"spec": {"toleration": []}}), "spec.toleration", "not a field")]
#[case::deep_unknown(json!({"spec": {"containers": [{"name": "worker", "envs": []}]}}), "spec.containers[0].envs", "not a field")]
#[case::wrong_type(json!({"spec": {"priorityClassName": 5}}), "spec.priorityClassName", "does not read as")]
#[case::null_spec(json!({"spec": null}), "spec", "cannot be overridden")]
#[case::null_volumes(json!({"spec": {"volumes": null}}), "spec.volumes", "leave it out")]
#[case::label(json!({"metadata": {"labels": {"turbine.dev/app": "x"}}}), "metadata.labels[turbine.dev/app]", "name of your own")]
#[case::standard_label(json!({"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}), "metadata.labels[app.kubernetes.io/name]", "name of your own")]
#[case::pod_name(json!({"metadata": {"name": "x"}}), "metadata.name", "labels and annotations only")]
#[case::volume(json!({"spec": {"volumes": [{"name": "state", "emptyDir": {}}]}}), "spec.volumes[0].name", "another name")]
#[case::image(json!({"spec": {"containers": [{"name": "worker", "image": "x"}]}}), "spec.containers[0].image", "spec.worker.image")]
#[case::null_ports(json!({"spec": {"containers": [{"name": "worker", "ports": null}]}}), "spec.containers[0].ports", "cannot be overridden")]
#[case::mount(json!({"spec": {"containers": [{"name": "worker", "volumeMounts": [{"name": "kafka", "mountPath": "/x"}]}]}}), "spec.containers[0].volumeMounts[0].name", "of your own")]
#[case::pod_name_env(json!({"spec": {"containers": [{"name": "worker", "env": [{"name": "POD_NAME", "value": "x"}]}]}}), "spec.containers[0].env[0].name", "another name")]
#[case::port(json!({"spec": {"containers": [{"name": "side", "ports": [{"containerPort": 8400}]}]}}), "spec.containers[0].ports[0].containerPort", "another port")]
#[case::no_container_name(json!({"spec": {"containers": [{"image": "x"}]}}), "spec.containers[0].name", "0 characters")]
#[case::init(json!({"spec": {"initContainers": [{"name": "worker"}]}}), "spec.initContainers[0].name", "another name")]
#[case::restart(json!({"spec": {"restartPolicy": "Never"}}), "spec.restartPolicy", "always restart")]
fn pod_overrides(#[case] patch: Value, #[case] path: &str, #[case] words: &str) {
    check(
        &[("spec.podOverrides", patch)],
        &format!("spec.podOverrides.{path}"),
        words,
        Rust,
    );
}

#[test]
fn pod_overrides_that_add_to_the_pod_are_taken() {
    let patch = json!({
        "metadata": {"labels": {"team": "risk"}, "annotations": {"a/b": "c"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "priorityClassName": "high",
            "volumes": [{"name": "extra", "emptyDir": {"sizeLimit": "1Gi"}}],
            "containers": [
                {"name": "worker", "env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "extra", "mountPath": "/extra"}]},
                {"name": "side", "image": "busybox", "ports": [{"containerPort": 80}]}
            ]
        }
    });
    let app = with(&[("spec.podOverrides", patch.clone())]);
    let validated = turbine_crds::rules::validate(&read(&app)).unwrap();
    let overrides = validated.pod_overrides().unwrap();
    assert_eq!(overrides.patch(), &patch);
    let spec = overrides.template().spec.as_ref().unwrap();
    assert_eq!(spec.priority_class_name.as_deref(), Some("high"));
}

#[test]
fn unknown_fields_are_refused_when_read() {
    for path in [
        "spec.color",
        "spec.kafka.brokers",
        "spec.subscriptions.0.input.schema",
        "spec.state.volume.class",
    ] {
        let app = with(&[(path, json!("x"))]);
        let error = serde_json::from_value::<turbine_crds::app::TurbineApp>(app).unwrap_err();
        assert!(
            error.to_string().contains("unknown field"),
            "{path}: {error}"
        );
    }
}

#[rstest]
#[case("spec.subscriptions.0.processingGuarantee")]
#[case("spec.subscriptions.0.onCrashRecovery")]
#[case("spec.subscriptions.0.input.onRetentionGap")]
#[case("spec.state.onRecreate")]
#[case("spec.state.volume.onDelete")]
fn a_choice_that_is_not_there_is_refused_when_read(#[case] path: &str) {
    let app = with(&[(path, json!("perhaps"))]);
    let error = serde_json::from_value::<turbine_crds::app::TurbineApp>(app).unwrap_err();
    let words = "unknown variant `perhaps`";
    assert!(error.to_string().contains(words), "{path}: {error}");

    let definition = turbine_crds::crd::definition().unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let field = path.split('.').fold(schema, |schema, step| {
        if step.parse::<usize>().is_ok() {
            &schema["items"]
        } else {
            &schema["properties"][step]
        }
    });
    let choices = field["enum"].as_array().unwrap();
    assert!(choices.len() > 1, "{path}: {choices:?}");
    assert!(!choices.contains(&json!("perhaps")), "{path}: {choices:?}");
}

fn in_s3(field: &str, value: &Value) -> Value {
    let mut store = json!({"s3": {"bucket": "state"}});
    store["s3"][field] = value.clone();
    store
}

#[rstest]
#[case::often("interval", json!("999ms"), "use 1s to 1d")]
#[case::seldom("interval", json!("1d1ms"), "use 1s to 1d")]
#[case::no_duration("interval", json!("often"), "is not a duration")]
#[case::one("retain", json!(1), "2 to 100 checkpoints are kept")]
#[case::many("retain", json!(101), "2 to 100 checkpoints are kept")]
fn checkpoints(#[case] field: &str, #[case] value: Value, #[case] words: &str) {
    let path = format!("spec.state.checkpoints.{field}");
    check(&[(&path, value)], &path, words, Both);
}

#[rstest]
#[case::refresh_soon("producerRefresh", json!("999ms"), "use 1s to 1d")]
#[case::refresh_late("producerRefresh", json!("1d1ms"), "use 1s to 1d")]
#[case::grace_late("orderGrace", json!("1h1ms"), "use 0s to 1h")]
#[case::no_duration("orderGrace", json!("soon"), "is not a duration")]
fn rescale(#[case] field: &str, #[case] value: Value, #[case] words: &str) {
    let path = format!("spec.rescale.{field}");
    check(&[(&path, value)], &path, words, Both);
}

#[rstest]
#[case::short_bucket("bucket", json!("ab"), "is not a bucket's name")]
#[case::capital_bucket("bucket", json!("State"), "is not a bucket's name")]
#[case::bucket_with_path("bucket", json!("state/fraud"), "is not a bucket's name")]
#[case::bucket_end("bucket", json!("state-"), "is not a bucket's name")]
#[case::region("region", json!("eu central"), "is not a region")]
#[case::no_region("region", json!(""), "is not a region")]
#[case::no_scheme("endpoint", json!("minio:9000"), "is not the address of an object store")]
#[case::other_scheme("endpoint", json!("s3://minio"), "is not the address of an object store")]
#[case::endpoint_with_path("endpoint", json!("http://minio:9000/state"), "is not the address of an object store")]
#[case::endpoint_with_login("endpoint", json!("http://me:secret@minio"), "is not the address of an object store")]
#[case::endpoint_without_host("endpoint", json!("http://:9000"), "is not the address of an object store")]
#[case::leading_slash("prefix", json!("/turbine"), "is not a prefix of objects")]
#[case::trailing_slash("prefix", json!("turbine/"), "is not a prefix of objects")]
#[case::upwards("prefix", json!("a/../b"), "is not a prefix of objects")]
#[case::no_prefix("prefix", json!(""), "is not a prefix of objects")]
#[case::secret("credentialsSecret", json!("My_Secret"), "is not the name of a Secret")]
fn checkpoint_stores(#[case] field: &str, #[case] value: Value, #[case] words: &str) {
    let path = format!("spec.state.checkpoints.store.s3.{field}");
    let store = in_s3(field, &value);
    check(
        &[("spec.state.checkpoints.store", store)],
        &path,
        words,
        Both,
    );
}

#[rstest]
#[case::both(json!({"s3": {"bucket": "state"}, "folder": "/mnt/checkpoints"}))]
#[case::neither(json!({}))]
fn checkpoints_have_one_store(#[case] store: Value) {
    let path = "spec.state.checkpoints.store";
    check(&[(path, store)], path, "one of the two", Both);
}

#[rstest]
#[case::relative("checkpoints")]
#[case::root("/")]
#[case::trailing_slash("/mnt/")]
#[case::two_slashes("/mnt//checkpoints")]
#[case::upwards("/mnt/../var/lib/turbine")]
#[case::hidden("/mnt/.checkpoints")]
#[case::space("/mnt/check points")]
#[case::state("/var/lib/turbine")]
#[case::in_state("/var/lib/turbine/checkpoints")]
#[case::above_state("/var/lib")]
fn checkpoint_folders(#[case] folder: &str) {
    let path = "spec.state.checkpoints.store.folder";
    check(
        &[("spec.state.checkpoints.store", json!({ "folder": folder }))],
        path,
        "is not a folder for checkpoints",
        Both,
    );
}

#[rstest]
#[case("/mnt/checkpoints-1/v1.2")]
#[case("/var/lib/turbine-checkpoints")]
fn checkpoint_folders_that_are_taken(#[case] folder: &str) {
    let app = with(&[("spec.state.checkpoints.store", json!({ "folder": folder }))]);
    assert_eq!(by_rust(&app), []);
    assert_eq!(by_cel(&app, None), []);
}

#[rstest]
#[case("bucket", json!("my.state-2"))]
#[case("region", json!("eu-central-1"))]
#[case("endpoint", json!("https://minio.storage:9000"))]
#[case("endpoint", json!("http://10.0.0.1"))]
#[case("prefix", json!("turbine/prod_1/v1.2"))]
#[case("credentialsSecret", json!("turbine-s3"))]
#[case("pathStyle", json!(false))]
fn checkpoint_stores_that_are_taken(#[case] field: &str, #[case] value: Value) {
    let app = with(&[("spec.state.checkpoints.store", in_s3(field, &value))]);
    assert_eq!(by_rust(&app), []);
    assert_eq!(by_cel(&app, None), []);
}
