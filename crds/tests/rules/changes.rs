use rstest::rstest;
use serde_json::{Value, json};
use turbine_crds::rules::validate_update;

use crate::common::{by_cel, read, with};

#[rstest]
#[case::id_appears("spec.appId", None, json!("other"), Some("cannot change from `fraud` to `other`"))]
#[case::id_written_down("spec.appId", None, json!("fraud"), None)]
#[case::id_changes("spec.appId", Some(json!("a")), json!("b"), Some("from `a` to `b`"))]
#[case::shrinks("spec.state.volume.size", Some(json!("10Gi")), json!("9Gi"), Some("cannot shrink from 10Gi to 9Gi"))]
#[case::grows("spec.state.volume.size", Some(json!("10Gi")), json!("11Gi"), None)]
#[case::other_unit("spec.state.volume.size", Some(json!("1Gi")), json!("1024Mi"), None)]
#[case::class_appears("spec.state.volume.storageClassName", None, json!("fast"), Some("storage class of existing volumes"))]
#[case::class_changes("spec.state.volume.storageClassName", Some(json!("slow")), json!("fast"), Some("storage class"))]
#[case::class_stays("spec.state.volume.storageClassName", Some(json!("slow")), json!("slow"), None)]
#[case::replicas("spec.replicas", Some(json!(1)), json!(2), None)]
fn what_holds_state_does_not_change(
    #[case] path: &str,
    #[case] before: Option<Value>,
    #[case] after: Value,
    #[case] words: Option<&str>,
) {
    let old = with(
        &before
            .map(|value| (path, value))
            .into_iter()
            .collect::<Vec<_>>(),
    );
    let new = with(&[(path, after)]);
    let rust = validate_update(&read(&old), &read(&new))
        .err()
        .unwrap_or_default();
    let cel = by_cel(&new, Some(&old));
    match words {
        None => assert_eq!((rust, cel), (vec![], vec![])),
        Some(words) => {
            assert_eq!(rust.len(), 1);
            assert_eq!(cel, rust, "same field, same words");
            assert_eq!(rust[0].path, path);
            assert!(rust[0].message.contains(words), "{}", rust[0]);
        }
    }
}
