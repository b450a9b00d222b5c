//! The resource at a real API server: what it takes, what it refuses and how tools see it. No operator runs.

use anyhow::Result;
use serde_json::{Value, json};
use turbine_tests::bed::{Bed, Needs, repository};
use turbine_tests::cluster::{TestNamespace, kubectl, with_input};
use turbine_tests::manifest::AppManifest;

async fn namespace(test: &str) -> Result<Option<TestNamespace>> {
    match Bed::for_test(test, Needs::Api)? {
        Some(_) => Ok(Some(TestNamespace::create("api").await?)),
        None => Ok(None),
    }
}

fn app(name: &str) -> AppManifest {
    AppManifest::new(name, "kafka:9092", "events", "scores")
}

fn refused(namespace: &TestNamespace, app: &AppManifest) -> Result<String> {
    let outcome = namespace.try_apply(&app.text())?;
    assert!(!outcome.success, "must be refused:\n{}", app.text());
    Ok(outcome.stderr)
}

fn stored(namespace: &TestNamespace, name: &str) -> Result<Value> {
    Ok(serde_json::from_str(
        &namespace.kubectl(&["get", "tapp", name, "-o", "json"])?,
    )?)
}

#[tokio::test]
async fn every_example_is_taken() -> Result<()> {
    let Some(namespace) = namespace("every_example_is_taken").await? else {
        return Ok(());
    };
    let mut count = 0;
    for entry in std::fs::read_dir(repository().join("docs/examples"))? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            namespace.apply_file(&path)?;
            count += 1;
        }
    }
    assert!(count > 0, "no examples");
    Ok(())
}

#[tokio::test]
async fn a_name_of_41_letters_is_refused_with_the_number_and_one_of_40_is_taken() -> Result<()> {
    let Some(namespace) = namespace("a_name_of_41_letters").await? else {
        return Ok(());
    };
    let message = refused(&namespace, &app(&"a".repeat(41)))?;
    assert!(message.contains("40"), "{message}");
    namespace.apply(&app(&"a".repeat(40)).text())?;
    Ok(())
}

#[tokio::test]
async fn a_count_that_does_not_divide_960_is_refused_with_its_neighbours() -> Result<()> {
    let Some(namespace) = namespace("a_count_that_does_not_divide_960").await? else {
        return Ok(());
    };
    // neighbours from the table of the valid counts, written down here once more
    for (count, below, above) in [
        (7, "6", "8"),
        (100, "96", "120"),
        (36, "32", "40"),
        (512, "480", "960"),
    ] {
        let message = refused(
            &namespace,
            &app("counts").with("spec.subscriptions.0.input.partitions", json!(count)),
        )?;
        for word in [count.to_string().as_str(), below, above, "events"] {
            assert!(message.contains(word), "{word} is not in: {message}");
        }
    }
    for count in [0, -1, 961] {
        refused(
            &namespace,
            &app("counts").with("spec.subscriptions.0.input.partitions", json!(count)),
        )?;
    }
    namespace.apply(
        &app("counts")
            .with("spec.subscriptions.0.input.partitions", json!(8))
            .text(),
    )?;
    Ok(())
}

#[tokio::test]
async fn an_unknown_field_is_refused_by_name() -> Result<()> {
    let Some(namespace) = namespace("an_unknown_field").await? else {
        return Ok(());
    };
    let message = refused(&namespace, &app("unknown").with("spec.replikas", json!(3)))?;
    assert!(message.contains("replikas"), "{message}");
    Ok(())
}

#[tokio::test]
async fn explain_describes_fields_and_get_shows_the_columns_people_need() -> Result<()> {
    let Some(namespace) = namespace("explain_and_columns").await? else {
        return Ok(());
    };
    let text = namespace.kubectl(&["explain", "turbineapp.spec.subscriptions.input.maxFuture"])?;
    assert!(
        text.contains("wall clock") && !text.contains("<empty>"),
        "{text}"
    );
    namespace.apply(&app("columns").text())?;
    let table = namespace.kubectl(&["get", "tapp", "columns"])?;
    let heading = table.lines().next().unwrap_or_default().to_uppercase();
    for column in ["READY", "PHASE", "PARTITIONS", "REPLICAS", "AGE"] {
        assert!(heading.contains(column), "{column} is not in {heading}");
    }
    let wide = namespace
        .kubectl(&["get", "tapp", "columns", "-o", "wide"])?
        .to_uppercase();
    assert!(
        wide.contains("REASON") && wide.contains("MESSAGE"),
        "{wide}"
    );
    Ok(())
}

#[tokio::test]
async fn the_same_file_twice_changes_nothing() -> Result<()> {
    let Some(namespace) = namespace("the_same_file_twice").await? else {
        return Ok(());
    };
    let yaml = app("twice").text();
    namespace.apply(&yaml)?;
    let first = stored(&namespace, "twice")?;
    let answer = namespace.apply(&yaml)?;
    assert!(answer.contains("unchanged"), "{answer}");
    let second = stored(&namespace, "twice")?;
    assert_eq!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
    assert_eq!(second["metadata"]["generation"], 1);
    // what was written is what is stored: no default was put in by the server
    assert_eq!(second["spec"], app("twice").0["spec"]);
    Ok(())
}

#[tokio::test]
async fn two_managers_own_a_part_each_and_conflicts_name_the_field() -> Result<()> {
    let Some(namespace) = namespace("two_managers").await? else {
        return Ok(());
    };
    let apply = |manager: &str, app: &AppManifest| {
        let manager = format!("--field-manager={manager}");
        let arguments = [
            "-n",
            &namespace.name,
            "apply",
            "--server-side",
            &manager,
            "-f",
            "-",
        ];
        with_input(kubectl().args(arguments), &app.text())
    };
    let base = app("shared").without("spec.replicas");
    assert!(apply("git", &base)?.success);
    let scaler = AppManifest(json!({
        "apiVersion": "turbine.dev/v1alpha1", "kind": "TurbineApp", "metadata": {"name": "shared"},
        "spec": {
            "replicas": 3,
            "subscriptions": [{"name": "per-tenant", "commitInterval": "2s"}],
        },
    }));
    // lists merge by name: a second manager sets a field of one entry and owns nothing else of it
    let outcome = apply("scaler", &scaler)?;
    assert!(outcome.success, "{}", outcome.stderr);
    assert!(apply("git", &base)?.success);
    let both = stored(&namespace, "shared")?;
    assert_eq!(both["spec"]["replicas"], 3);
    assert_eq!(both["spec"]["subscriptions"][0]["commitInterval"], "2s");
    assert_eq!(both["spec"]["subscriptions"][0]["input"]["topic"], "events");
    let conflict = apply("git", &base.with("spec.replicas", json!(1)))?;
    assert!(
        !conflict.success && conflict.stderr.contains(".spec.replicas"),
        "{}",
        conflict.stderr
    );
    Ok(())
}

#[tokio::test]
async fn scale_and_patch_work_and_the_identity_stays() -> Result<()> {
    let Some(namespace) = namespace("scale_and_patch").await? else {
        return Ok(());
    };
    namespace.apply(&app("scaled").with("spec.appId", json!("one")).text())?;
    namespace.kubectl(&["scale", "tapp/scaled", "--replicas=4"])?;
    assert_eq!(stored(&namespace, "scaled")?["spec"]["replicas"], 4);
    namespace.kubectl(&[
        "patch",
        "tapp",
        "scaled",
        "--type=merge",
        "-p",
        r#"{"spec":{"restartNonce":"2"}}"#,
    ])?;
    assert_eq!(stored(&namespace, "scaled")?["spec"]["restartNonce"], "2");
    for patch in [r#"{"spec":{"appId":"two"}}"#, r#"{"spec":{"appId":null}}"#] {
        let outcome =
            namespace.try_kubectl(&["patch", "tapp", "scaled", "--type=merge", "-p", patch])?;
        assert!(
            !outcome.success && outcome.stderr.contains("appId"),
            "{patch}: {}",
            outcome.stderr
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_volume_neither_shrinks_nor_changes_its_class() -> Result<()> {
    let Some(namespace) = namespace("a_volume").await? else {
        return Ok(());
    };
    let base = app("volume").with(
        "spec.state.volume",
        json!({"size": "1Gi", "storageClassName": "standard"}),
    );
    namespace.apply(&base.text())?;
    let smaller = refused(
        &namespace,
        &base.clone().with("spec.state.volume.size", json!("512Mi")),
    )?;
    assert!(
        smaller.contains("shrink") || smaller.contains("smaller"),
        "{smaller}"
    );
    let class = refused(
        &namespace,
        &base
            .clone()
            .with("spec.state.volume.storageClassName", json!("limited")),
    )?;
    assert!(class.contains("storageClassName"), "{class}");
    namespace.apply(&base.with("spec.state.volume.size", json!("2Gi")).text())?;
    Ok(())
}

#[tokio::test]
async fn deletion_in_the_foreground_ends_without_an_operator() -> Result<()> {
    let Some(namespace) = namespace("deletion").await? else {
        return Ok(());
    };
    namespace.apply(&app("gone").text())?;
    namespace.kubectl(&[
        "delete",
        "tapp",
        "gone",
        "--cascade=foreground",
        "--timeout=60s",
    ])?;
    let outcome = namespace.try_kubectl(&["get", "tapp", "gone"])?;
    assert!(
        !outcome.success && outcome.stderr.contains("NotFound"),
        "{}",
        outcome.stderr
    );
    Ok(())
}
