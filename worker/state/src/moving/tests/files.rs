//! Files and bytes: what is linked, and what is written.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use tempfile::TempDir;

use super::*;

/// An app with rows enough that files outweigh what every store has.
fn app(root: &Path, count: u32) -> App {
    let mut app = App::new(root, count);
    let acts: Vec<_> = (0..60_000_u32)
        .map(|number| Act::Put(format!("user-{number}"), number.to_le_bytes()[0]))
        .collect();
    app.save(&acts);
    app.compact();
    app.stop();
    app
}

fn tables(folder: &Path) -> Vec<fs::Metadata> {
    names(folder)
        .into_iter()
        .filter(|name| {
            Path::new(name)
                .extension()
                .is_some_and(|kind| kind == "sst")
        })
        .map(|name| fs::metadata(folder.join(name)).unwrap())
        .collect()
}

fn inodes(folder: &Path) -> BTreeSet<u64> {
    tables(folder).iter().map(MetadataExt::ino).collect()
}

fn bytes(tables: &[fs::Metadata]) -> u64 {
    tables.iter().map(fs::Metadata::len).sum()
}

#[test]
fn on_one_volume_a_doubling_links_tables_and_copies_none() {
    let folder = TempDir::new().unwrap();
    let app = app(&folder.path().join("state"), 2);
    let old: BTreeSet<u64> = (0..2)
        .flat_map(|number| inodes(&app.path(number)))
        .collect();
    let moving = app.moving(&folder.path().join("move"), 4);
    for task in moving.plan().tasks() {
        let new = moving.build(task).unwrap();
        let (linked, written): (Vec<_>, Vec<_>) = tables(&new)
            .into_iter()
            .partition(|table| old.contains(&table.ino()));
        assert!(bytes(&linked) > 100_000, "{}", bytes(&linked));
        // Range deletes, and records of the store's own.
        assert!(bytes(&written) < 16_000, "{}", bytes(&written));
    }
}

#[test]
fn what_draws_from_several_stores_is_written_once_and_no_more() {
    let folder = TempDir::new().unwrap();
    let app = app(&folder.path().join("state"), 4);
    let of_old: u64 = (0..4).map(|number| bytes(&tables(&app.path(number)))).sum();
    let moving = app.moving(&folder.path().join("move"), 6);
    let mut written = 0;
    for task in moving.plan().tasks() {
        written += bytes(&tables(&moving.build(task).unwrap()));
    }
    // All groups are in some new store, so that the old bytes are those of the groups moved.
    assert!(written * 5 <= of_old * 6, "{written} of {of_old}");
    // Nothing is left behind but copies of the old stores, which are links, and the new ones.
    assert_eq!(
        names(&folder.path().join("move")),
        ["move.json", "new", "old"]
    );
    assert_eq!(
        names(&folder.path().join("move/new")),
        ["0", "1", "2", "3", "4", "5"]
    );
}

#[test]
fn the_manifest_names_tables_of_the_old_stores_and_covers_the_plan() {
    let folder = TempDir::new().unwrap();
    let app = app(&folder.path().join("state"), 4);
    let moving = app.moving(&folder.path().join("move"), 6);
    for task in moving.plan().tasks() {
        let new = moving.build(task).unwrap();
        let (rows, _) = Rows::open_to_read(&new, &budget()).unwrap().unwrap();
        let manifest = rows.moved().unwrap().unwrap();
        assert_eq!(manifest.covers(task), Ok(()));
        for piece in &manifest.pieces {
            assert!(!piece.files.is_empty());
            for file in &piece.files {
                let path = app.path(piece.partition.index()).join(file.name.as_str());
                assert_eq!(fs::metadata(path).unwrap().len(), file.size);
            }
        }
    }
}

#[test]
fn sums_of_old_stores_are_those_of_the_new_ones() {
    let folder = TempDir::new().unwrap();
    let app = app(&folder.path().join("state"), 7);
    let moving = app.moving(&folder.path().join("move"), 8);
    let sums = |path: &Path| {
        let reader = VolumeReader::new(path, budget())
            .open_copy(path)
            .unwrap()
            .unwrap();
        GroupSums::of(&reader, |_| {}).unwrap()
    };
    let old: BTreeMap<u32, GroupSums> = (0..7)
        .map(|number| (number, sums(&app.path(number))))
        .collect();
    for task in moving.plan().tasks() {
        let mut expected = GroupSums::default();
        for draw in task.draws() {
            expected.merge(&old[&draw.from().index()], |group| draw.takes(group));
        }
        let found = sums(&moving.build(task).unwrap());
        assert_eq!(found.differences(&expected), []);
        assert!(found.keys() > 5000);
    }
}
