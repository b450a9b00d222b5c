//! The process itself is killed at a step: what comes after it gives the same.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use rstest::rstest;
use tempfile::TempDir;

use super::*;
use crate::fault;

const FOLDER: &str = "TURBINE_TEST_MOVE_FOLDER";
const FAULT: &str = "TURBINE_TEST_MOVE_FAULT";
const TO: &str = "TURBINE_TEST_MOVE_TO";
const FROM: u32 = 4;

fn stopped_app(root: &Path) -> App {
    let mut app = App::new(root, FROM);
    let put = |number: u32, value| Act::Put(format!("user-{number}"), value);
    app.save(&(0..600).map(|number| put(number, 1)).collect::<Vec<_>>());
    app.compact();
    app.save(&(0..300).map(|number| put(number, 2)).collect::<Vec<_>>());
    app.save(
        &(0..9)
            .map(|number| Act::Null(number, 5))
            .collect::<Vec<_>>(),
    );
    app.stop();
    app
}

fn place(folder: &Path, task: &TaskPlan) -> PathBuf {
    folder
        .join("out/s")
        .join(task.task().get().to_string())
        .join("2")
}

/// All of it, from the copies of the old stores to the last new one.
fn all(folder: &Path, to: u32) -> Move {
    let plan = MovePlan::new(FROM.try_into().unwrap(), to).unwrap();
    let mut moving = Move::open(&folder.join("out/move"), plan, epoch(2), budget());
    for number in 0..FROM {
        let old = folder.join("state/s").join(number.to_string()).join("1");
        moving.take_store(partition(number), &old).unwrap();
    }
    for task in moving.plan().tasks() {
        if !place(folder, task).exists() {
            moving.build(task).unwrap();
        }
        moving.place(task, &place(folder, task)).unwrap();
    }
    moving
}

#[rstest]
fn a_move_that_is_killed_at_any_step_is_repeated_to_the_same_end(
    #[values(6, 8)] to: u32,
    #[values(
        "in-pull:1",
        "in-pull:4",
        "in-cut:1",
        "in-cut:5",
        "before-moved-store:1",
        "before-moved-store:6",
        "after-moved-store:1",
        "after-moved-store:6"
    )]
    fault: &str,
) {
    let folder = TempDir::new().unwrap();
    let app = stopped_app(&folder.path().join("state"));
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "moving::tests::killed::victim"])
        .env(FOLDER, folder.path())
        .env(FAULT, fault)
        .env(TO, to.to_string())
        .output()
        .unwrap();
    assert_eq!(ended.status.signal(), Some(9), "{ended:?}");

    // Nothing that has its place is less than whole.
    let expected = app.expected(to);
    let plan = MovePlan::new(FROM.try_into().unwrap(), to).unwrap();
    for (task, expected) in plan.tasks().iter().zip(expected.values()) {
        if place(folder.path(), task).exists() {
            assert_eq!(&content(&place(folder.path(), task)), expected);
        }
    }
    let moving = all(folder.path(), to);
    for (task, expected) in moving.plan().tasks().iter().zip(expected.values()) {
        assert_eq!(&content(&place(folder.path(), task)), expected);
    }
    moving.finish().unwrap();
    assert_eq!(names(&folder.path().join("out")), ["s"]);
}

#[test]
#[ignore = "run by the test above, which it does not outlive"]
fn victim() {
    let (Ok(folder), Ok(fault), Ok(to)) = (
        std::env::var(FOLDER),
        std::env::var(FAULT),
        std::env::var(TO),
    ) else {
        return;
    };
    fault::arm(&fault, None, None).unwrap();
    all(Path::new(&folder), to.parse().unwrap());
}
