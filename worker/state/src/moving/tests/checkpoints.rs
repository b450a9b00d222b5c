//! Old state from checkpoints, of stores whose identity is not known before.

use tempfile::TempDir;

use super::*;
use crate::checkpoint::{Archive, CHECKPOINTS_FOLDER, CheckpointSettings, Checkpointer, Refusal};

/// The checkpoints of an app, each with all that its store holds.
fn saved(app: &App, root: &Path) -> Checkpointer {
    let checkpointer = Checkpointer::open(&CheckpointSettings::default(), root).unwrap();
    for store in app.stores.values() {
        let (snapshot, meta) = store.snapshot(&checkpointer, 1).unwrap();
        checkpointer.save(snapshot, meta).wait().unwrap();
    }
    Checkpointer::of_archive(&Archive::Folder(root.join(CHECKPOINTS_FOLDER))).unwrap()
}

fn app(root: &Path) -> App {
    let mut app = App::new(root, 4);
    let put = |number: u32, value| Act::Put(format!("user-{number}"), value);
    app.save(&(0..400).map(|number| put(number, 1)).collect::<Vec<_>>());
    app.save(&[
        Act::Null(1, 9),
        Act::Null(3, 9),
        Act::Remove("user-7".to_owned()),
    ]);
    app
}

#[rstest::rstest]
#[case::by_links(8)]
#[case::of_several(6)]
fn stores_are_made_of_checkpoints_as_of_stores(#[case] to: u32) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let mut app = app(&root);
    let archive = saved(&app, &root);
    let subscriptions: Vec<String> = archive
        .subscriptions()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(subscriptions, ["s"]);
    let there: Vec<_> = archive
        .stores_of(&task(0).subscription)
        .unwrap()
        .into_iter()
        .collect();
    let all: Vec<_> = (0..4).map(|number| (partition(number), epoch(1))).collect();
    assert_eq!(there, all);
    // What comes after the checkpoints is not in them.
    let expected = app.expected(to);
    app.save(&[Act::Put("later".to_owned(), 1)]);
    app.stop();

    let plan = MovePlan::new(4.try_into().unwrap(), to).unwrap();
    let mut moving = Move::open(&folder.path().join("move"), plan, epoch(2), budget());
    for number in 0..4 {
        let choice = archive.look_at(&task(number), epoch(1)).unwrap();
        assert_eq!(choice.refused, []);
        let manifest = &choice.intact[0];
        assert_eq!(manifest.identity, identity(number, 4));
        moving
            .take_checkpoint(partition(number), &archive, manifest, |_| {})
            .unwrap();
    }
    for (task, expected) in moving.plan().tasks().iter().zip(expected.values()) {
        let new = moving.build(task).unwrap();
        assert_eq!(&content(&new), expected);
        let (rows, _) = Rows::open_to_read(&new, &budget()).unwrap().unwrap();
        for piece in rows.moved().unwrap().unwrap().pieces {
            assert!(piece.files.iter().all(|file| file.sha256.is_some()));
        }
    }
}

#[test]
fn a_damaged_file_of_a_checkpoint_is_named_with_its_partition() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let mut app = app(&root);
    let archive = saved(&app, &root);
    app.stop();
    let manifest = archive
        .look_at(&task(2), epoch(1))
        .unwrap()
        .intact
        .remove(0);
    let file = manifest
        .files
        .iter()
        .find(|file| crate::checkpoint::manifest::is_table(Path::new(file.name.as_str())))
        .unwrap();
    let path = root
        .join(CHECKPOINTS_FOLDER)
        .join("s/2/1/files")
        .join(file.object_name());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let plan = MovePlan::new(4.try_into().unwrap(), 8).unwrap();
    let mut moving = Move::open(&folder.path().join("move"), plan, epoch(2), budget());
    assert_eq!(
        moving.take_checkpoint(partition(2), &archive, &manifest, |_| {}),
        Err(MoveError::Piece {
            partition: partition(2),
            refusal: Refusal::WrongContent {
                file: file.object_name()
            },
        })
    );
}
