//! The process itself is killed: nothing of it gets to clean up.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rstest::rstest;

use super::*;

const FOLDER: &str = "TURBINE_TEST_KILLED_FOLDER";
const ACT: &str = "TURBINE_TEST_KILLED_ACT";

/// Where the child is killed, and which entry is the newest afterwards.
#[rstest]
#[case::in_the_middle_of_an_upload("put", 2)]
#[case::before_the_manifest("write", 2)]
#[case::in_the_middle_of_a_prune("remove", 3)]
#[case::in_the_middle_of_a_restore("fetch", 3)]
fn a_killed_process_leaves_a_whole_checkpoint(#[case] act: &str, #[case] newest: i64) {
    let folder = TempDir::new().unwrap();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "checkpoint::tests::killed::victim"])
        .env(FOLDER, folder.path())
        .env(ACT, act)
        .output()
        .unwrap();
    assert_eq!(ended.status.signal(), Some(9), "{ended:?}");

    let mut at = BTreeMap::new();
    let mut keys = Keys::new();
    for entry in 1..=3 {
        for number in 0..20 {
            keys.insert(
                format!("{:04}", number + entry * 5).into_bytes(),
                format!("value {number} of round {entry}").into_bytes(),
            );
        }
        at.insert(entry, keys.clone());
    }
    assert!(!folder.path().join("restored").exists());
    let bench = Bench {
        tiny: Tiny::new(&folder.path().join("another")),
        folder,
        at,
    };
    let restored = bench.restore(&bench.checkpointer());
    assert_eq!(restored.manifest.entry.get(), newest);
    assert_eq!(restored.refused, []);
}

#[test]
#[ignore = "run by the test above, which it does not outlive"]
fn victim() {
    let (Ok(folder), Ok(act)) = (std::env::var(FOLDER), std::env::var(ACT)) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let root = folder.join("_checkpoints");
    let place = || -> Arc<dyn Place> { Arc::new(LocalFolder::new(root.clone())) };
    let over = |place| Checkpointer::over(place, 2, root.join(".taking")).unwrap();
    let seen = AtomicUsize::new(0);
    let kills_at = usize::from(act != "write");
    let deadly = over(Hooked::over(place(), move |now, _, _| {
        let this = format!("{now:?}").to_lowercase() == act;
        if this && seen.fetch_add(1, Ordering::SeqCst) == kills_at {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    }));
    let healthy = over(place());
    let mut tiny = Tiny::new(&folder.join("store"));
    for entry in 1..=3 {
        tiny.write(entry);
        let checkpointer = if entry == 3 { &deadly } else { &healthy };
        let snapshot = checkpointer.snapshot(&tiny.db).unwrap();
        checkpointer.save(snapshot, meta(entry)).wait().unwrap();
    }
    let target = folder.join("restored");
    deadly.restore(&identity("fraud"), &target, |_| {}).unwrap();
}
