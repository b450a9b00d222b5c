//! Reads a `TurbineApp` from a document, with every mistake of its form and not just the first.

use serde_path_to_error::{Path, Segment};
use serde_yaml::Value;
use turbine_crds::app::TurbineApp;
use turbine_crds::rules;

/// Mistakes that are looked for in one document. A file that is no `TurbineApp` at all has more.
const MOST: usize = 50;

/// The app, or all that is wrong with the document's form. What a field that cannot be read stood for is unknown, so rules
/// are judged only if nothing but unknown fields had to be left out.
pub(crate) fn read(mut value: Value) -> Result<TurbineApp, Vec<String>> {
    let mut mistakes = Vec::new();
    let mut only_unknown = true;
    while mistakes.len() < MOST {
        let error = match serde_path_to_error::deserialize::<_, TurbineApp>(value.clone()) {
            Ok(app) if mistakes.is_empty() => return Ok(app),
            Ok(app) => {
                if only_unknown && let Err(broken) = rules::validate(&app) {
                    mistakes.extend(broken.iter().map(ToString::to_string));
                }
                break;
            }
            Err(error) => error,
        };
        let path = error.path().clone();
        let message = error.inner().to_string();
        let missing = message.starts_with("missing field");
        // What is missing now may be what was left out before.
        if !missing || mistakes.is_empty() {
            mistakes.push(match path.to_string().as_str() {
                "." => message.clone(),
                path => format!("{path}: {message}"),
            });
        }
        only_unknown &= message.starts_with("unknown field");
        if missing || !leave_out(&mut value, &path) {
            break;
        }
    }
    Err(mistakes)
}

/// Takes the value at a path out. False if there is none.
fn leave_out(value: &mut Value, path: &Path) -> bool {
    let mut segments: Vec<&Segment> = path.iter().collect();
    let last = segments.pop();
    let mut at = value;
    for segment in segments {
        let next = match segment {
            Segment::Map { key } => at.get_mut(key.as_str()),
            Segment::Seq { index } => at.get_mut(*index),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        match next {
            Some(next) => at = next,
            None => return false,
        }
    }
    match (last, at) {
        (Some(Segment::Map { key }), Value::Mapping(fields)) => {
            fields.remove(key.as_str()).is_some()
        }
        (Some(Segment::Seq { index }), Value::Sequence(items)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    const GOOD: &str = "
apiVersion: turbine.dev/v1alpha1
kind: TurbineApp
metadata: {name: a}
spec:
  kafka: {bootstrapServers: 'k:1'}
  subscriptions:
    - name: s
      input:
        topic: in
        format: json
        columns: [{name: user, type: string}, {name: ts, type: int64}]
        eventTime: {field: ts, unit: ms}
      partitionKey: user
      windows: [{name: w, tumbling: {size: 1m}, keys: [user], aggregates: [{count: {}, as: rows}]}]
      output: {topic: out}
  state: {volume: {size: 1Gi}}
";

    fn mistakes(changes: &[(&str, &str)]) -> Vec<String> {
        let text = changes
            .iter()
            .fold(GOOD.to_owned(), |text, (from, to)| text.replace(from, to));
        read(serde_yaml::from_str(&text).unwrap())
            .err()
            .unwrap_or_default()
    }

    #[test]
    fn every_mistake_of_form_is_told() {
        assert_eq!(mistakes(&[]), Vec::<String>::new());
        let found = mistakes(&[
            ("  kafka:", "  replicaz: 2\n  suspend: often\n  kafka:"),
            ("format: json", "format: xml"),
        ]);
        for (field, at) in [
            ("spec.replicaz", 0),
            ("spec.suspend", 1),
            ("input.format", 2),
        ] {
            assert!(found[at].contains(field), "{found:#?}");
        }
        assert_eq!(found.len(), 3, "{found:#?}");
    }

    #[test]
    fn an_unknown_field_does_not_hide_a_broken_rule() {
        let found = mistakes(&[
            ("  kafka:", "  replicaz: 2\n  kafka:"),
            ("topic: out", "topic: in"),
        ]);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].starts_with("spec.replicaz: unknown field"));
        assert!(found[1].starts_with("spec.subscriptions[0].output.topic"));
    }
}
