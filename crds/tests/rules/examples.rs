use std::path::{Path, PathBuf};

use serde_json::Value;
use turbine_crds::app::TurbineApp;
use turbine_crds::rules::validate;

use crate::common::by_cel;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_example_passes_every_rule() {
    let files = files();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for document in serde_yaml::Deserializer::from_str(&text) {
            let app: Value = serde::Deserialize::deserialize(document).unwrap();
            let typed: TurbineApp = serde_json::from_value(app.clone())
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert_eq!(validate(&typed).err(), None, "{}", file.display());
            assert_eq!(by_cel(&app, None), [], "{}", file.display());
        }
    }
}
