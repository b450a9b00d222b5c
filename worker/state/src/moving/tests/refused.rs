//! What is not moved, and a worker that meets a moved store.

use tempfile::TempDir;
use turbine_protocol::Fault as _;

use super::*;
use crate::StateError;

#[test]
fn a_worker_refuses_a_moved_store_and_leaves_it_as_it_is() {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), 2);
    app.save(&[Act::Put("a".to_owned(), 1)]);
    app.stop();
    let root = folder.path().join("new");
    let moving = app.moving(&root.join("move"), 4);
    let task = &moving.plan().tasks()[1];
    moving.build(task).unwrap();
    let volume = StateVolume::open(&root, budget()).unwrap();
    let path = volume.store_path(&super::task(1), epoch(2));
    moving.place(task, &path).unwrap();
    let before = content(&path);

    // As a worker looks for it that knows the new count and epoch, and one that knows moved stores by their format.
    let mut expected = identity(1, 4);
    expected.store_epoch = epoch(2);
    for format in [expected.format, turbine_protocol::MOVED_FORMAT_VERSION] {
        let error = volume
            .find(&StoreIdentity {
                format,
                ..expected.clone()
            })
            .unwrap_err();
        assert_eq!(error, StateError::Moved { path: path.clone() });
        assert_eq!(
            (error.reason(), error.passes_by_itself()),
            ("StateMoved", false)
        );
    }
    assert!(matches!(
        volume.create_store(&expected, &positions(1, 0)),
        Err(StateError::AlreadyThere { .. })
    ));
    assert_eq!(content(&path), before);
}

#[test]
fn a_program_that_knows_no_moved_stores_sees_another_format() {
    let old = identity(1, 4);
    let moved = old.moved(partition(1), epoch(1), 4.try_into().unwrap());
    let fields: Vec<_> = moved
        .differences(&old)
        .into_iter()
        .map(|one| one.field)
        .collect();
    assert_eq!(fields, ["format"]);
}

#[test]
fn keys_that_the_old_partition_cannot_have_are_refused_and_not_lost() {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), 4);
    let stray = (0..1000)
        .map(|n| format!("user-{n}"))
        .find(|user| app.home(user) == 3)
        .unwrap();
    app.save(&[]);
    // A key of partition 3 in the store of partition 0.
    let key = stored(Some(&stray), "pane");
    let store = app.stores.get_mut(&0).unwrap();
    store
        .save(&[], &mut std::iter::once((&key[..], &b"x"[..])))
        .unwrap();
    app.stop();
    let plan = MovePlan::new(4.try_into().unwrap(), 8).unwrap();
    let mut moving = Move::open(&folder.path().join("move"), plan, epoch(2), budget());
    let error = moving.take_store(partition(0), &app.path(0)).unwrap_err();
    let MoveError::Misplaced {
        partition: named,
        group,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (named, group),
        (
            partition(0),
            format!("key group {}", group_of(stray.as_bytes()))
        )
    );
    moving.take_store(partition(1), &app.path(1)).unwrap();
}

#[test]
fn old_stores_of_another_app_count_or_partition_are_refused() {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), 4);
    let mut other = App::new(&folder.path().join("other"), 3);
    for app in [&mut app, &mut other] {
        app.save(&[Act::Null(0, 1)]);
        app.stop();
    }
    let mut moving = app.moving(&folder.path().join("move"), 8);
    let fields = |error: MoveError| -> Vec<&'static str> {
        let MoveError::Other { differences, .. } = error else {
            panic!("{error}")
        };
        differences.0.iter().map(|one| one.field).collect()
    };
    let error = moving.take_store(partition(2), &other.path(2)).unwrap_err();
    assert_eq!(fields(error), ["partitions"]);
    let error = moving.take_store(partition(2), &app.path(1)).unwrap_err();
    assert_eq!(fields(error), ["partition"]);
}

#[test]
fn a_store_that_was_moved_is_not_moved_again() {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), 2);
    app.save(&[Act::Put("a".to_owned(), 1)]);
    app.stop();
    let moving = app.moving(&folder.path().join("move"), 4);
    let new = moving.build(&moving.plan().tasks()[0]).unwrap();
    let plan = MovePlan::new(4.try_into().unwrap(), 8).unwrap();
    let mut again = Move::open(&folder.path().join("again"), plan, epoch(3), budget());
    let error = again.take_store(partition(0), &new).unwrap_err();
    assert_eq!(
        error,
        MoveError::NotSettled {
            partition: partition(0)
        }
    );
}

#[test]
fn a_folder_of_another_move_is_not_taken_up() {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), 2);
    app.save(&[Act::Put("a".to_owned(), 1)]);
    app.stop();
    let at = folder.path().join("move");
    app.moving(&at, 4);
    let plan = MovePlan::new(2.try_into().unwrap(), 3).unwrap();
    let mut other = Move::open(&at, plan, epoch(2), budget());
    let error = other.take_store(partition(0), &app.path(0)).unwrap_err();
    assert_eq!(error, MoveError::OtherMove { path: at });
}

#[test]
fn without_an_old_store_that_it_draws_from_a_new_one_is_not_made() {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), 4);
    app.save(&[]);
    app.stop();
    let plan = MovePlan::new(4.try_into().unwrap(), 6).unwrap();
    let mut moving = Move::open(&folder.path().join("move"), plan, epoch(2), budget());
    moving.take_store(partition(0), &app.path(0)).unwrap();
    let error = moving.build(&moving.plan().tasks()[0]).unwrap_err();
    assert_eq!(
        error,
        MoveError::Missing {
            partition: partition(2)
        }
    );
    assert!(!folder.path().join("move/new/0").exists());
}
