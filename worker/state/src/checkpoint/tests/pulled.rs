//! Files of a checkpoint that are brought into a folder, through a place that breaks off.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::manifest::{Checksum, Manifest};
use super::super::refusal::Refusal;
use super::*;

/// A checkpoint of several tables, and its manifest.
fn bench() -> (Bench, Manifest) {
    let mut bench = Bench::new();
    let checkpointer = bench.checkpointer();
    let saved = [1, 2, 3].map(|entry| bench.save(&checkpointer, entry).unwrap());
    let [.., last] = saved;
    assert!(
        last.manifest
            .files
            .iter()
            .filter(|file| is_table(file))
            .count()
            >= 3
    );
    (bench, last.manifest)
}

fn has_all(manifest: &Manifest, folder: &Path) {
    let mut expected: Vec<_> = manifest
        .files
        .iter()
        .map(|file| file.name.as_str().to_owned())
        .collect();
    expected.sort();
    assert_eq!(names(folder), expected);
    for file in &manifest.files {
        let content = fs::read(folder.join(file.name.as_str())).unwrap();
        assert_eq!(
            Checksum::of(&content),
            file.sha256,
            "{}",
            file.name.as_str()
        );
    }
}

#[test]
fn a_pull_that_was_broken_off_brings_what_is_not_there_yet() {
    let (bench, manifest) = bench();
    let to = bench.target();
    for broken_at in 0..manifest.files.len() {
        let _ = fs::remove_dir_all(&to);
        let count = AtomicUsize::new(0);
        let fails = Hooked::over(bench.place(), move |act, path, _| {
            let broken = act == Act::Fetch && count.fetch_add(1, Ordering::Relaxed) == broken_at;
            if broken {
                return Err(crate::error::io(
                    "read",
                    Path::new(path),
                    &std::io::Error::other("broken off"),
                )
                .into());
            }
            Ok(())
        });
        bench.over(fails).pull(&manifest, &to, |_| {}).unwrap_err();
        let there = names(&to);
        assert_eq!(there.len(), broken_at);

        let fetched = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&fetched);
        let counts = Hooked::over(bench.place(), move |act, _, to| {
            if act == Act::Fetch {
                let name = to
                    .unwrap()
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                seen.lock().unwrap().push(name);
            }
            Ok(())
        });
        assert_eq!(
            bench.over(counts).pull(&manifest, &to, |_| {}).unwrap(),
            Ok(())
        );
        has_all(&manifest, &to);
        let mut all = [there, fetched.lock().unwrap().clone()].concat();
        all.sort();
        assert_eq!(all, names(&to));
        assert_eq!(keys_at(&to), bench.at[&3]);
    }
}

#[test]
fn what_lies_there_and_is_not_of_the_checkpoint_is_replaced_or_goes() {
    let (bench, manifest) = bench();
    let to = bench.target();
    fs::create_dir(&to).unwrap();
    let of_same_size = manifest.files.iter().find(|file| is_table(file)).unwrap();
    let size = usize::try_from(of_same_size.size).unwrap();
    fs::write(to.join(of_same_size.name.as_str()), vec![7; size]).unwrap();
    // A log that an open would play back.
    fs::write(to.join("000999.log"), "rows of another checkpoint").unwrap();
    assert_eq!(
        bench.checkpointer().pull(&manifest, &to, |_| {}).unwrap(),
        Ok(())
    );
    has_all(&manifest, &to);
}

#[test]
fn a_damaged_file_is_named_and_a_good_copy_of_it_is_taken_later() {
    let (bench, manifest) = bench();
    let to = bench.target();
    let file = manifest.files.iter().find(|file| is_table(file)).unwrap();
    let path = bench.store_folder().join("files").join(file.object_name());
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    // In place, as a disk would: the folder may have a link to it.
    fs::write(&path, bad).unwrap();
    let named = Err(Refusal::WrongContent {
        file: file.object_name(),
    });
    assert_eq!(
        bench.checkpointer().pull(&manifest, &to, |_| {}).unwrap(),
        named
    );
    fs::write(&path, good).unwrap();
    assert_eq!(
        bench.checkpointer().pull(&manifest, &to, |_| {}).unwrap(),
        Ok(())
    );
    has_all(&manifest, &to);
}
