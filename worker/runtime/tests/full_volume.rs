//! A running worker whose volume is really full for a while.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{Bed, MINUTE, WAIT, app, borrowed, last_results, ledger, metric, recent, ticking};
use tempfile::tempdir_in;
use turbine_kafka::Admin;
use turbine_protocol::GroupId;
use turbine_runtime::worker::Drained;

/// Takes all the room that there is, to the last block, and what comes free as well, until told to let go.
struct Ballast {
    path: PathBuf,
    let_go: Arc<AtomicBool>,
    filling: JoinHandle<()>,
}

impl Ballast {
    fn take(path: PathBuf) -> Self {
        let mut file = File::create(&path).unwrap();
        let mut fill = move || {
            for block in [1 << 20, 4 << 10] {
                while file.write_all(&vec![7; block]).is_ok() {}
            }
        };
        fill();
        let let_go = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&let_go);
        // A store that is opened anew gives back what its former life had set aside.
        let filling = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                fill();
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            path,
            let_go,
            filling,
        }
    }

    fn let_go(self) {
        self.let_go.store(true, Ordering::Relaxed);
        self.filling.join().unwrap();
        std::fs::remove_file(self.path).unwrap();
    }
}

#[test]
#[ignore = "needs a volume of 16 to 64 MiB at TURBINE_SMALL_VOLUME"]
fn a_task_waits_for_room_on_its_volume_and_goes_on_by_itself() {
    let root = std::env::var_os("TURBINE_SMALL_VOLUME").expect("TURBINE_SMALL_VOLUME is a folder");
    let bed = Bed {
        folder: tempdir_in(root).unwrap(),
        ..Bed::new(1)
    };
    let t0 = recent();
    // Each key once, so that what is committed does not fit the rest of a block.
    let events = |of: Range<i64>| -> Vec<(String, i64, i64)> {
        of.map(|at| (format!("user-{at}"), at, t0)).collect()
    };
    let admin = Admin::open(&bed.broker.settings().unwrap()).unwrap();
    let group = GroupId::of(&"a".parse().unwrap(), &"s".parse().unwrap());
    let committed = || {
        admin
            .committed_at(&group, &"in".parse().unwrap(), 0.try_into().unwrap(), WAIT)
            .unwrap()
            .map(|committed| committed.offset.get())
    };

    let mut config = bed.config(&app(), ticking());
    config.limits.retry_most = Duration::from_millis(500);
    let running = bed.start_with(config);
    bed.produce_events(&borrowed(&events(0..2_000)));
    running.until_caught_up(2_000);
    assert_eq!(committed(), Some(2_000));

    let ballast = Ballast::take(bed.path("ballast"));
    bed.produce_events(&borrowed(&events(2_000..12_000)));
    let restarts = || metric(&running, "turbine_worker_restarts_total");
    for tries in [1, 3] {
        running.until("it waits for room, and tries again", |tasks| {
            restarts() >= tries
                && tasks[0]
                    .halt
                    .as_ref()
                    .is_some_and(|halt| halt.reason == "StorageFull")
        });
        // A part of them may have found room in the last block.
        assert!(committed() < Some(12_000), "{:?}", committed());
    }

    let almost_full = || {
        let room = running.worker.status().volume.unwrap();
        room.almost_full_below().is_some()
    };
    assert!(almost_full());

    ballast.let_go();
    assert!(!almost_full());
    running.until_caught_up(12_000);
    bed.produce_events(&[("end", 0, t0 + 10 * MINUTE)]);
    running.until("the last record is committed", |tasks| {
        tasks[0].position == Some(12_001)
    });
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(committed(), Some(12_001));
    let all = [events(0..2_000), events(2_000..12_000)].concat();
    assert_eq!(last_results(&bed.results()), ledger(&all));
}
