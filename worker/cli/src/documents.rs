//! Files of Kubernetes objects: YAML or JSON, several documents, lists.

use std::io::{self, Read};
use std::path::Path;
use std::{fmt, fs};

use serde::Deserialize;
use serde_yaml::Value;
use turbine_crds::app::TurbineApp;
use turbine_crds::rules;

use crate::{form, yaml11};

const API_GROUP: &str = "turbine.dev";
const API_VERSION: &str = "turbine.dev/v1alpha1";
const KIND: &str = "TurbineApp";
/// Fields of every Kubernetes object with a spec and a status.
const TOP_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// A file that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot be read: {0}; check the path and its rights")]
    Io(#[from] io::Error),
    #[error("is neither YAML nor JSON: {0}")]
    Syntax(#[from] serde_yaml::Error),
}

/// One object of a file.
#[derive(Debug)]
pub(crate) struct Document {
    /// File and name of the object, for the beginning of a line.
    pub(crate) place: Place,
    pub(crate) content: Content,
}

impl Document {
    /// Adds mistakes of the text that the app was read from.
    fn add(&mut self, mistakes: &[String]) {
        if mistakes.is_empty() {
            return;
        }
        match &mut self.content {
            Content::App(app) => {
                let broken = rules::validate(app).err().unwrap_or_default();
                let broken = broken.iter().map(ToString::to_string);
                self.content =
                    Content::Unreadable(mistakes.iter().cloned().chain(broken).collect());
            }
            Content::Unreadable(others) => others.extend_from_slice(mistakes),
            Content::Other(_) => {}
        }
    }
}

#[derive(Debug)]
pub(crate) enum Content {
    App(Box<TurbineApp>),
    /// A `TurbineApp` whose form is wrong: each field and what is wrong with it.
    Unreadable(Vec<String>),
    /// Another kind.
    Other(String),
}

#[derive(Debug)]
pub(crate) struct Place {
    file: String,
    name: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.name)
    }
}

/// How messages name a file.
pub(crate) fn label(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}

/// All objects of a file, `-` for the standard input. Empty documents are left out.
pub(crate) fn read(file: &Path) -> Result<Vec<Document>, ReadError> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text)?;
        text
    } else {
        fs::read_to_string(file)?
    };
    parse(&label(file), &text)
}

fn parse(file: &str, text: &str) -> Result<Vec<Document>, ReadError> {
    let mut documents = Vec::new();
    let texts: Vec<&str> = text.trim_start_matches("---").split("\n---").collect();
    for (at, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
        let mut value = Value::deserialize(document)?;
        value.apply_merge()?;
        let before = documents.len();
        collect(file, &format!("document {}", at + 1), value, &mut documents);
        let bare = texts
            .get(at)
            .map(|text| yaml11::bare_truth_values(text))
            .unwrap_or_default();
        for document in documents.iter_mut().skip(before) {
            document.add(&bare);
        }
    }
    Ok(documents)
}

fn collect(file: &str, position: &str, value: Value, out: &mut Vec<Document>) {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
    if value.is_null() {
        return;
    }
    if api_version == "v1"
        && kind == "List"
        && let Some(Value::Sequence(items)) = value.get("items")
    {
        for (at, item) in items.iter().enumerate() {
            collect(
                file,
                &format!("{position}, item {}", at + 1),
                item.clone(),
                out,
            );
        }
        return;
    }
    let name = value
        .get("metadata")
        .and_then(|metadata| metadata.get("name"))
        .and_then(Value::as_str);
    let group = api_version.split('/').next().unwrap_or_default();
    let is_app = kind == KIND && (group == API_GROUP || api_version.is_empty());
    let place = Place {
        file: file.to_owned(),
        name: name.map_or_else(|| position.to_owned(), str::to_owned),
    };
    let content = if is_app {
        app(&api_version, value)
    } else if kind.is_empty() {
        Content::Other("what has no kind".to_owned())
    } else {
        Content::Other(kind)
    };
    out.push(Document { place, content });
}

fn app(api_version: &str, value: Value) -> Content {
    if api_version != API_VERSION {
        return Content::Unreadable(vec![format!(
            "apiVersion: `{api_version}` is not known; write {API_VERSION}"
        )]);
    }
    let unknown = value
        .as_mapping()
        .into_iter()
        .flat_map(serde_yaml::Mapping::keys)
        .filter_map(Value::as_str)
        .find(|key| !TOP_FIELDS.contains(key));
    if let Some(unknown) = unknown {
        return Content::Unreadable(vec![format!(
            "{unknown}: unknown field, expected one of {}",
            TOP_FIELDS.map(|field| format!("`{field}`")).join(", ")
        )]);
    }
    match form::read(value) {
        Ok(app) => Content::App(Box::new(app)),
        Err(mistakes) => Content::Unreadable(mistakes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(text: &str) -> Vec<String> {
        parse("f", text)
            .unwrap()
            .into_iter()
            .map(|document| match document.content {
                Content::App(app) => format!("app {}", app.metadata.name.unwrap_or_default()),
                Content::Unreadable(mistakes) => mistakes.join("; "),
                Content::Other(kind) => format!("other {kind}"),
            })
            .collect()
    }

    #[test]
    fn documents_lists_and_other_kinds_are_told_apart() {
        let text = "---\n# nothing\n---\nkind: Service\napiVersion: v1\n---\napiVersion: v1\nkind: List\nitems:\n\
                    - {kind: ConfigMap, apiVersion: v1}\n- {kind: TurbineApp, apiVersion: turbine.dev/v1}\n";
        assert_eq!(
            contents(text),
            [
                "other Service",
                "other ConfigMap",
                "apiVersion: `turbine.dev/v1` is not known; write turbine.dev/v1alpha1"
            ]
        );
    }

    #[test]
    fn a_wrong_form_names_its_field() {
        let base = "apiVersion: turbine.dev/v1alpha1\nkind: TurbineApp\nmetadata: {name: a}\n";
        let kafka = "kafka: {bootstrapServers: k:1}, state: {volume: {size: 1Gi}}";
        for (spec, path) in [
            (
                format!("spec: {{replicas: many, {kafka}, subscriptions: []}}"),
                "spec.replicas: invalid type",
            ),
            (
                format!("spec: {{{kafka}, subscriptions: [{{name: x, windowz: []}}]}}"),
                "spec.subscriptions[0].windowz: unknown field",
            ),
            (
                format!("spec: {{{kafka}, subscriptions: [{{name: x, partitionKey: 5}}]}}"),
                "spec.subscriptions[0].partitionKey: write a column, a list of columns, or {recordKey: true}",
            ),
            ("spec: {}".to_owned(), "spec: missing field `kafka`"),
            (
                format!("spec: {{{kafka}, subscriptions: []}}\nspecs: 1"),
                "specs: unknown field",
            ),
        ] {
            let found = contents(&format!("{base}{spec}\n"));
            assert!(found[0].starts_with(path), "{path}: {found:?}");
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_no_yaml() {
        assert!(parse("f", "kind: A\nkind: B\n").is_err());
    }
}
