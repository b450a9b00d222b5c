//! Ends at every step of writing, deleting and restoring.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A place that dies at step `at`, with half of that step done, and does nothing from then on.
fn dying(bench: &Bench, at: usize, which: &'static [Act]) -> Arc<dyn Place> {
    let steps = AtomicUsize::new(0);
    let root = bench.root();
    Hooked::over(bench.place(), move |act, path, to| {
        if !which.contains(&act) {
            return Ok(());
        }
        let step = steps.fetch_add(1, Ordering::SeqCst);
        if step < at {
            return Ok(());
        }
        if step == at {
            half_done(act, &root.join(path), to.map(ToOwned::to_owned));
        }
        Err(CheckpointError::Ended)
    })
}

fn half_done(act: Act, path: &Path, to: Option<PathBuf>) {
    let left = match act {
        Act::Write | Act::Put => Some(PathBuf::from(format!("{}.new", path.display()))),
        Act::Fetch => to,
        Act::Remove => None,
    };
    if let Some(left) = left {
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(left, b"half").unwrap();
    }
}

#[test]
fn an_end_at_any_step_of_a_checkpoint_leaves_the_one_before_or_the_new_one_whole() {
    let mut outcomes = Vec::new();
    for at in 0.. {
        let mut bench = Bench::new();
        let healthy = bench.checkpointer();
        for entry in [1, 2] {
            bench.save(&healthy, entry).unwrap();
        }
        let mortal = bench.over(dying(&bench, at, &[Act::Write, Act::Put, Act::Remove]));
        let saved = bench.save(&mortal, 3);
        let survived = matches!(&saved, Ok(saved) if saved.pruned.is_ok());

        let restored = bench.restore(&healthy);
        let entry = restored.manifest.entry.get();
        assert_eq!(restored.refused, [], "dead at step {at}");
        assert_eq!(
            entry,
            if saved.is_ok() { 3 } else { 2 },
            "dead at step {at}"
        );
        outcomes.push((entry, saved.is_ok()));

        // The next one clears up after it: two checkpoints, and no file that none of them has.
        let last = bench.save(&healthy, 4).unwrap().manifest;
        assert_eq!(bench.restore(&healthy).manifest, last);
        let choice = healthy.look(&identity("fraud")).unwrap();
        assert_eq!(choice.intact.len(), 2);
        let mut named: Vec<_> = choice
            .intact
            .iter()
            .flat_map(|manifest| &manifest.files)
            .map(ManifestFile::object_name)
            .collect();
        named.sort();
        named.dedup();
        assert_eq!(bench.names("files"), named, "dead at step {at}");
        assert_eq!(bench.names("manifests").len(), 2, "dead at step {at}");
        if survived {
            break;
        }
    }
    // Some ends were before the manifest, some in the clean-up after it.
    assert!(outcomes.iter().filter(|(entry, _)| *entry == 2).count() >= 3);
    assert!(outcomes.iter().filter(|(entry, _)| *entry == 3).count() >= 3);
}

#[test]
fn an_end_at_any_step_of_a_restore_leaves_nothing_in_the_store_s_place() {
    let mut bench = Bench::new();
    let healthy = bench.checkpointer();
    bench.save(&healthy, 1).unwrap();
    let files = bench.save(&healthy, 2).unwrap().manifest.files.len();
    for at in 0..files {
        let target = bench.target();
        let _ = fs::remove_dir_all(&target);
        let mortal = bench.over(dying(&bench, at, &[Act::Fetch]));
        let ended = mortal.restore(&identity("fraud"), &target, |_| {});
        assert_eq!(ended, Err(CheckpointError::Ended), "dead at file {at}");
        assert!(!target.exists(), "dead at file {at}");
        assert_eq!(bench.restore(&healthy).manifest.entry.get(), 2);
    }
}
