//! Checkpoints, restores and clean-up at the same time, and what is told of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::super::manifest::is_table as table_file;
use super::*;

#[test]
fn a_file_is_put_once_however_many_checkpoints_have_it() {
    let mut bench = Bench::new();
    let put = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&put);
    let checkpointer = bench.over(Hooked::over(bench.place(), move |act, path, _| {
        if act == Act::Put && path.contains(".sst-") {
            seen.lock().unwrap().push(path.to_owned());
        }
        Ok(())
    }));
    for entry in 1..=5 {
        let saved = bench.save(&checkpointer, entry).unwrap();
        let files = &saved.manifest.files;
        assert_eq!(
            i64::try_from(files.iter().filter(|file| is_table(file)).count()).unwrap(),
            entry
        );
        assert!(
            files
                .iter()
                .filter(|file| is_table(file))
                .all(|file| file.keys.is_some())
        );
        assert!(saved.new_bytes < saved.manifest.bytes() || entry == 1);
    }
    assert_eq!(put.lock().unwrap().len(), 5, "one table file per round");
    // On the volume a checkpoint is links: a table file has one more name and takes no more room.
    let table = names(&bench.folder.path().join("store"))
        .into_iter()
        .find(|name| table_file(Path::new(name)))
        .unwrap();
    let about = fs::metadata(bench.folder.path().join("store").join(table)).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&about), 2);
    assert!(names(&bench.root().join(".taking")).is_empty());
}

#[test]
fn another_program_s_first_checkpoint_puts_nothing_that_is_there() {
    let mut bench = Bench::new();
    let first = bench.checkpointer();
    bench.save(&first, 1).unwrap();
    let second = bench.checkpointer();
    let snapshot = second.snapshot(&bench.tiny.db).unwrap();
    let saved = second.save(snapshot, meta(1)).wait().unwrap();
    let tables: u64 = saved
        .manifest
        .files
        .iter()
        .filter(|file| is_table(file))
        .map(|file| file.size)
        .sum();
    assert!(saved.new_bytes <= saved.manifest.bytes() - tables);
    assert_eq!(saved.manifest.sequence.0, 2);
}

#[test]
fn what_a_restore_reads_is_not_deleted_by_the_same_program() {
    let mut bench = Bench::new();
    let (reached, has_reached) = sync_channel(1);
    let (go, may_go) = sync_channel::<()>(1);
    let may_go = Mutex::new(may_go);
    let waited = AtomicBool::new(false);
    let checkpointer = bench.over(Hooked::over(bench.place(), move |act, _, _| {
        if act == Act::Fetch && !waited.swap(true, Ordering::SeqCst) {
            reached.send(()).unwrap();
            may_go.lock().unwrap().recv().unwrap();
        }
        Ok(())
    }));
    bench.save(&checkpointer, 1).unwrap();
    let reader = checkpointer.clone();
    let target = bench.target();
    let restoring = std::thread::spawn({
        let target = target.clone();
        move || reader.restore(&identity("fraud"), &target, |_| {})
    });
    has_reached.recv().unwrap();
    for entry in 2..=5 {
        bench.save(&checkpointer, entry).unwrap();
    }
    go.send(()).unwrap();
    let restored = restoring.join().unwrap().unwrap().unwrap();
    assert_eq!(restored.manifest.entry.get(), 1);
    assert_eq!(keys_at(&target), bench.at[&1]);
    // Nobody reads it any more.
    bench.save(&checkpointer, 6).unwrap();
    assert_eq!(bench.names("manifests").len(), 2);
}

#[test]
fn a_restore_whose_checkpoint_another_program_deletes_takes_a_newer_one() {
    let mut bench = Bench::new();
    let writer = bench.checkpointer();
    bench.save(&writer, 1).unwrap();
    let bench = Arc::new(Mutex::new(bench));
    let (target, place) = {
        let bench = bench.lock().unwrap();
        (bench.target(), bench.place())
    };
    let once = AtomicBool::new(false);
    let reader = Hooked::over(place, {
        let bench = Arc::clone(&bench);
        move |act, _, _| {
            if act == Act::Fetch && !once.swap(true, Ordering::SeqCst) {
                for entry in 2..=4 {
                    bench.lock().unwrap().save(&writer, entry).unwrap();
                }
            }
            Ok(())
        }
    });
    let reader = bench.lock().unwrap().over(reader);
    let restored = reader.restore(&identity("fraud"), &target, |_| {});
    let restored = restored.unwrap().unwrap();
    assert_eq!(restored.manifest.entry.get(), 4);
    assert_eq!(keys_at(&target), bench.lock().unwrap().at[&4]);
}

#[test]
fn a_checkpoint_that_waits_gives_way_to_a_newer_one() {
    let mut bench = Bench::new();
    let (go, may_go) = sync_channel::<()>(1);
    let may_go = Mutex::new(may_go);
    let waited = AtomicBool::new(false);
    let checkpointer = bench.over(Hooked::over(bench.place(), move |_, _, _| {
        if !waited.swap(true, Ordering::SeqCst) {
            may_go.lock().unwrap().recv().unwrap();
        }
        Ok(())
    }));
    let mut saving = Vec::new();
    for entry in 1..=4 {
        bench.tiny.write(entry);
        let snapshot = checkpointer.snapshot(&bench.tiny.db).unwrap();
        saving.push(checkpointer.save(snapshot, meta(entry)));
        if entry == 1 {
            let running = || checkpointer.status(&identity("fraud")).progress.total > 0;
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            while !running() {
                assert!(std::time::Instant::now() < deadline, "it never began");
                std::thread::yield_now();
            }
        }
    }
    assert!(saving[0].poll().is_none());
    go.send(()).unwrap();
    let outcomes: Vec<_> = saving
        .into_iter()
        .map(|one| one.wait().map(|saved| saved.manifest.entry.get()))
        .collect();
    assert_eq!(
        outcomes,
        [
            Ok(1),
            Err(CheckpointError::Superseded),
            Err(CheckpointError::Superseded),
            Ok(4)
        ]
    );
}

#[test]
fn the_status_tells_number_age_bytes_and_error() {
    let mut bench = Bench::new();
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let checkpointer = bench.over(Hooked::over(bench.place(), move |act, _, _| {
        if act == Act::Write && failing.load(Ordering::SeqCst) {
            return Err(CheckpointError::Unreachable {
                place: "here".to_owned(),
                detail: "gone".to_owned(),
            });
        }
        Ok(())
    }));
    assert_eq!(checkpointer.status(&identity("fraud")).last, None);
    let saved = bench.save(&checkpointer, 5).unwrap();
    let status = checkpointer.status(&identity("fraud"));
    let last = status.last.unwrap();
    assert_eq!((last.sequence.0, last.entry.get()), (1, 5));
    assert_eq!(last.bytes, saved.manifest.bytes());
    assert_eq!(last.new_bytes, Some(saved.manifest.bytes()));
    assert_eq!(last.age(5 * 60_000 + 1500), Duration::from_millis(1500));
    assert_eq!(last.age(0), Duration::ZERO);
    assert_eq!((status.error, status.running), (None, 0));

    fails.store(true, Ordering::SeqCst);
    let error = bench.save(&checkpointer, 6).unwrap_err();
    let status = checkpointer.status(&identity("fraud"));
    assert_eq!(status.error, Some(error));
    assert_eq!(status.last.unwrap().entry.get(), 5);

    fails.store(false, Ordering::SeqCst);
    bench.save(&checkpointer, 7).unwrap();
    assert_eq!(checkpointer.status(&identity("fraud")).error, None);
}

#[test]
fn a_restore_tells_how_far_it_came() {
    let mut bench = Bench::new();
    let checkpointer = bench.checkpointer();
    let bytes = bench.save(&checkpointer, 1).unwrap().manifest.bytes();
    let mut told = Vec::new();
    let target = bench.target();
    checkpointer
        .restore(&identity("fraud"), &target, |now| told.push(now))
        .unwrap();
    let last = told.last().unwrap();
    assert_eq!((last.done, last.total), (bytes, bytes));
}

#[test]
fn discarded_checkpoints_are_gone_and_those_of_other_stores_stay() {
    let mut bench = Bench::new();
    let checkpointer = bench.checkpointer();
    bench.save(&checkpointer, 1).unwrap();
    let mut other = meta(1);
    other.identity.partition = Partition::try_from(4).unwrap();
    let snapshot = checkpointer.snapshot(&bench.tiny.db).unwrap();
    checkpointer.save(snapshot, other.clone()).wait().unwrap();

    let own = identity("fraud");
    checkpointer.discard(&own.task(), own.store_epoch).unwrap();
    assert!(checkpointer.look(&own).unwrap().is_empty());
    assert_eq!(checkpointer.look(&other.identity).unwrap().intact.len(), 1);
}

#[test]
fn the_rights_are_tried_and_nothing_stays_of_it() {
    let bench = Bench::new();
    let checkpointer = bench.checkpointer();
    checkpointer.check().unwrap();
    assert!(names(&bench.root().join(".check")).is_empty());
    for refused in [Act::Write, Act::Remove] {
        let limited = bench.over(Hooked::over(bench.place(), move |act, _, _| {
            if act == refused {
                return Err(CheckpointError::Ended);
            }
            Ok(())
        }));
        assert_eq!(limited.check(), Err(CheckpointError::Ended));
    }
}

#[test]
fn it_can_be_waited_for_and_dropped_within_another_runtime() {
    let mut bench = Bench::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let checkpointer = bench.checkpointer();
        bench.save(&checkpointer, 1).unwrap();
        assert_eq!(bench.restore(&checkpointer).manifest.entry.get(), 1);
        drop(checkpointer);
    });
}

#[test]
fn a_store_made_anew_under_the_same_names_is_read_anew() {
    let mut bench = Bench::new();
    let checkpointer = bench.checkpointer();
    let store = bench.folder.path().join("store");
    for round in 1..=3 {
        bench.save(&checkpointer, round).unwrap();
        // Discarded, and made anew: it numbers its files as the one before did.
        bench.tiny = Tiny::new(&bench.folder.path().join(format!("other{round}")));
        let _ = fs::remove_dir_all(&store);
        assert_eq!(bench.restore(&checkpointer).manifest.entry.get(), round);
    }
}
