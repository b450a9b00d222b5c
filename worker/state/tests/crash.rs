//! A process killed in the middle of commits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{commit, content, identity, positions, volume};
use tempfile::tempdir;
use turbine_state::TaskState;

const CHILD: &str = "TURBINE_CRASH_TEST_FOLDER";
const KEYS: i64 = 200;

/// What the store holds after commit `n`: every key has the value of `n`, and one key is new with
/// each commit and gone with the next.
fn expected(n: i64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let value = n.to_be_bytes().repeat(20);
    let mut all: BTreeMap<_, _> = (0..KEYS)
        .map(|key| (key.to_be_bytes().to_vec(), value.clone()))
        .collect();
    all.insert(format!("only in {n}").into_bytes(), value);
    all
}

fn write_forever(folder: &Path) -> ! {
    let volume = volume(folder);
    let mut store = match volume.open_store(&identity()).unwrap() {
        Some(store) => store,
        None => volume.create_store(&identity(), &positions(0)).unwrap(),
    };
    let mut out = std::io::stdout();
    loop {
        let last = store.progress().number.get();
        let n = last + 1;
        let value = n.to_be_bytes().repeat(20);
        let keys: Vec<[u8; 8]> = (0..KEYS).map(i64::to_be_bytes).collect();
        let fresh = format!("only in {n}");
        let stale = format!("only in {last}");
        let mut changes: Vec<(&[u8], Option<&[u8]>)> = keys
            .iter()
            .map(|key| (&key[..], Some(&value[..])))
            .collect();
        changes.push((fresh.as_bytes(), Some(&value)));
        changes.push((stale.as_bytes(), None));
        commit(&mut store, n * 10, &changes).unwrap();
        writeln!(out, "acknowledged {n}").unwrap();
        out.flush().unwrap();
    }
}

/// Runs this test binary again as a writer, kills it after some acknowledged commits, and returns
/// the last one it told of.
fn run_and_kill(folder: &Path, after: usize) -> i64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "a_killed_process_leaves_the_last_acknowledged_commit_or_the_one_behind_it_whole",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = 0;
    let mut told = 0;
    // What the child still told before it died is read as well, to the end.
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        if let Some(n) = line.unwrap().strip_prefix("acknowledged ") {
            last = n.parse().unwrap();
            told += 1;
            if told == after {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(
        told >= after,
        "the writer ended by itself after {told} commits"
    );
    last
}

#[test]
fn a_killed_process_leaves_the_last_acknowledged_commit_or_the_one_behind_it_whole() {
    if let Some(folder) = std::env::var_os(CHILD) {
        write_forever(Path::new(&folder));
    }
    let folder = tempdir().unwrap();
    let mut reached = 0;
    for round in 0..12 {
        let last = run_and_kill(folder.path(), 1 + round * 7 % 40);
        assert!(last > reached);
        let store = volume(folder.path())
            .open_store(&identity())
            .unwrap()
            .unwrap();
        let n = store.progress().number.get();
        assert!(n == last || n == last + 1, "acknowledged {last}, found {n}");
        assert_eq!(store.progress().positions, positions(n * 10));
        assert_eq!(store.progress().clocks, (n * 10).to_be_bytes());
        assert_eq!(content(&store), expected(n));
        reached = n;
        common::close(store);
    }
}
