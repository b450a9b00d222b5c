//! Checkpoints in a folder of another volume.

use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;

use super::super::choice::Choice;
use super::super::settings::{CheckpointSettings, Destination};
use super::*;

fn settings(folder: &Path) -> CheckpointSettings {
    CheckpointSettings {
        retain: NonZeroUsize::new(2).unwrap(),
        destination: Destination::Folder {
            folder: folder.to_owned(),
            app: "fraud".parse().unwrap(),
        },
    }
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_volume_that_is_lost_comes_back_from_the_folder() {
    let other = TempDir::new().unwrap();
    let at = {
        let mut bench = Bench::new();
        let checkpointer =
            Checkpointer::open(&settings(other.path()), bench.folder.path()).unwrap();
        for entry in 1..=3 {
            bench.save(&checkpointer, entry).unwrap();
        }
        bench.at.clone()
    };
    // Nothing in the folder is a name of a file that the lost volume had.
    for file in files(other.path()) {
        assert_eq!(
            fs::metadata(&file).unwrap().nlink(),
            1,
            "{}",
            file.display()
        );
    }
    let mut bench = Bench::new();
    bench.at = at;
    let checkpointer = Checkpointer::open(&settings(other.path()), bench.folder.path()).unwrap();
    let restored = bench.restore(&checkpointer);
    assert_eq!(restored.manifest.entry.get(), 3);
    // What the store does to its files does not reach the copies.
    for file in files(&bench.target()) {
        assert_eq!(
            fs::metadata(&file).unwrap().nlink(),
            1,
            "{}",
            file.display()
        );
    }
    assert_eq!(names(other.path()), ["fraud"]);
    assert_eq!(
        names(&other.path().join("fraud/per-tenant/3/2/manifests")).len(),
        2
    );
}

#[test]
fn a_folder_that_is_not_there_is_not_one_without_checkpoints_and_is_not_made() {
    let other = TempDir::new().unwrap();
    let missing = other.path().join("mount");
    let mut bench = Bench::new();
    let checkpointer = Checkpointer::open(&settings(&missing), bench.folder.path()).unwrap();
    let no_folder = CheckpointError::NoFolder {
        place: missing.display().to_string(),
    };
    assert_eq!(
        checkpointer.look(&identity("fraud")),
        Err(no_folder.clone())
    );
    assert_eq!(
        checkpointer.restore(&identity("fraud"), &bench.target(), |_| {}),
        Err(no_folder.clone())
    );
    assert_eq!(bench.save(&checkpointer, 1), Err(no_folder));
    assert!(!missing.exists());

    // Once it is mounted the next one goes there.
    fs::create_dir(&missing).unwrap();
    assert_eq!(checkpointer.look(&identity("fraud")), Ok(Choice::default()));
    bench.save(&checkpointer, 2).unwrap();
    assert_eq!(bench.restore(&checkpointer).manifest.entry.get(), 2);
}

#[test]
fn a_folder_on_the_stores_own_volume_is_refused() {
    let volume = TempDir::new().unwrap();
    for folder in [
        volume.path().to_owned(),
        volume.path().join("checkpoints"),
        PathBuf::from("checkpoints"),
    ] {
        let refused = Checkpointer::open(&settings(&folder), volume.path()).unwrap_err();
        assert!(refused.to_string().contains("outside"), "{refused}");
    }
}
