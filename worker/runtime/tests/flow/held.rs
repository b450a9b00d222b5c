//! A volume that another process holds: the old pod, or a tool.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use turbine_crds::control::TaskState;
use turbine_runtime::worker::Drained;
use turbine_state::{StateBudget, StateVolume};

use super::common::{Bed, WAIT, app, eventually, metric, recent, state, ticking};

const FOLDER: &str = "TURBINE_TEST_HOLDS";

/// Ended when dropped.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hold(folder: &Path) {
    let budget = StateBudget::new(64 << 20, 12).unwrap();
    let volume = StateVolume::open(&folder.join("state"), budget).unwrap();
    let kept: Vec<_> = volume
        .tasks()
        .unwrap()
        .into_iter()
        .map(|(task, epoch)| volume.open_any(&task, epoch).unwrap().unwrap())
        .collect();
    assert_eq!(kept.len(), 1);
    std::fs::write(folder.join("held"), "").unwrap();
    // Until it is killed; not for ever, should nobody do that.
    std::thread::sleep(2 * WAIT);
    drop(kept);
}

#[test]
fn a_volume_that_another_process_holds_is_waited_for_and_its_locks_stay() {
    if let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) {
        return hold(&folder);
    }
    let bed = Bed::new(1);
    let t0 = recent();
    let running = bed.start(&app(), ticking());
    bed.produce_events(&[("a", 1, t0)]);
    running.until_caught_up(1);
    assert_eq!(running.stop(), Drained::Whole);
    let locks = || {
        ["_journal/lock", "s/0/1/LOCK"].map(|lock| {
            let path = state(&bed).join(lock);
            path.metadata().unwrap().ino()
        })
    };
    let before = locks();

    let test = "held::a_volume_that_another_process_holds_is_waited_for_and_its_locks_stay";
    let holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(FOLDER, bed.folder.path())
        .spawn()
        .unwrap();
    let holder = Holder(holder);
    eventually("it is held", || {
        if bed.path("held").exists() {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    });
    let mut config = bed.config(&app(), ticking());
    config.limits.retry_most = Duration::from_millis(500);
    let running = bed.start_with(config);
    running.until("it says who it waits for, and tries again", |tasks| {
        let halt = tasks[0].halt.as_ref();
        metric(&running, "turbine_worker_restarts_total") >= 3
            && halt.is_some_and(|halt| {
                halt.reason == "StateInUse"
                    && !halt.person_must_act
                    && halt.message.contains(&*state(&bed).to_string_lossy())
            })
    });
    assert_eq!(running.task(0).records, 0);
    assert_eq!(locks(), before);

    drop(holder);
    running.until("it runs", |tasks| tasks[0].state == TaskState::Running);
    bed.produce_events(&[("a", 1, t0 + 1)]);
    running.until("both are committed", |tasks| tasks[0].position == Some(2));
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(locks(), before);
}
