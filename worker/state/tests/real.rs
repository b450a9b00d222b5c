//! Against a real server that speaks S3, at `TURBINE_S3_ENDPOINT`: it has the bucket `state`, the user `turbine` who may do
//! everything there, and users who lack one right each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use rocksdb::{DB, IteratorMode, Options, WriteOptions};
use rstest::rstest;
use tempfile::TempDir;
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{
    EntryChecksum, EntryNumber, Fault, Frontier, Lineage, StoreEpoch, StoreIdentity, Task,
};
use turbine_state::Progress;
use turbine_state::checkpoint::{
    CheckpointError, CheckpointMeta, CheckpointSettings, Checkpointer, Destination, S3Bucket,
    S3Credentials,
};
use uuid::Uuid;

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// A folder with a store and credentials, and a prefix that no other run has.
struct Bench {
    folder: TempDir,
    prefix: String,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            prefix: format!("test/{}", Uuid::new_v4()),
        }
    }

    fn login(&self, user: &str, secret: &str) {
        fs::write(self.folder.path().join("id"), user).unwrap();
        fs::write(self.folder.path().join("secret"), secret).unwrap();
    }

    fn checkpointer(&self, bucket: &str) -> Checkpointer {
        let at = |name: &str| self.folder.path().join(name);
        let settings = CheckpointSettings {
            retain: NonZeroUsize::new(2).unwrap(),
            destination: Destination::S3 {
                bucket: S3Bucket {
                    bucket: bucket.to_owned(),
                    region: "us-east-1".to_owned(),
                    endpoint: Some(std::env::var("TURBINE_S3_ENDPOINT").unwrap()),
                    prefix: self.prefix.clone(),
                    path_style: true,
                    credentials: Some(S3Credentials {
                        access_key_id: at("id"),
                        secret_access_key: at("secret"),
                        session_token: at("token"),
                    }),
                },
                app: "fraud".parse().unwrap(),
            },
        };
        Checkpointer::open(&settings, &at("volume")).unwrap()
    }
}

fn meta(entry: i64) -> CheckpointMeta {
    let task = Task {
        subscription: "per-tenant".parse().unwrap(),
        partition: Partition::try_from(3).unwrap(),
    };
    CheckpointMeta {
        identity: StoreIdentity::new(
            "fraud".parse().unwrap(),
            Lineage::new(Uuid::from_u128(7)),
            &task,
            StoreEpoch::try_from(2).unwrap(),
            RawPartitionCount::try_from(12).unwrap(),
            "tenant".to_owned(),
        ),
        progress: Progress {
            number: EntryNumber::try_from(entry).unwrap(),
            checksum: EntryChecksum(9),
            positions: Vec::new(),
            frontier: Frontier(Some(entry)),
            by_transaction: false,
            cleanly_stopped: false,
            clocks: Vec::new(),
        },
        made_at_ms: entry,
    }
}

fn keys_at(path: &Path) -> Keys {
    let db = DB::open_for_read_only(&Options::default(), path, false).unwrap();
    db.iterator(IteratorMode::Start)
        .map(|item| item.unwrap())
        .map(|(key, value)| (key.into_vec(), value.into_vec()))
        .collect()
}

/// Values that do not compress, so that files are as large as they look.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(|_| next()).collect()
}

#[test]
#[ignore = "needs TURBINE_S3_ENDPOINT"]
fn checkpoints_go_to_a_bucket_and_come_back_and_old_ones_go() {
    let bench = Bench::new();
    bench.login("turbine", "turbine-secret");
    let checkpointer = bench.checkpointer("state");
    checkpointer.check().unwrap();
    let identity = meta(0).identity;
    let target = bench.folder.path().join("restored");
    assert_eq!(checkpointer.restore(&identity, &target, |_| {}), Ok(None));

    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_disable_auto_compactions(true);
    fs::create_dir(bench.folder.path().join("volume")).unwrap();
    let db = DB::open(&options, bench.folder.path().join("volume/store")).unwrap();
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    let mut keys = Keys::new();
    for entry in 1..=4 {
        // The first file travels in three parts, the others in one.
        let count: u64 = if entry == 1 { 20 } else { 1 };
        for number in 0..count {
            let seed = u64::try_from(entry).unwrap() * 100 + number;
            let (key, value) = (seed.to_be_bytes().to_vec(), noise(seed, 1 << 20));
            db.put_opt(&key, &value, &unlogged).unwrap();
            keys.insert(key, value);
        }
        db.flush().unwrap();
        let snapshot = checkpointer.snapshot(&db).unwrap();
        let saved = checkpointer.save(snapshot, meta(entry)).wait().unwrap();
        saved.pruned.unwrap();
        if entry > 1 {
            assert!(saved.new_bytes < 2 << 20, "{} new bytes", saved.new_bytes);
        }
    }
    let choice = checkpointer.look(&identity).unwrap();
    let numbers: Vec<_> = choice.intact.iter().map(|one| one.entry.get()).collect();
    assert_eq!((numbers, choice.refused), (vec![4, 3], vec![]));

    // Another pod, which has nothing but the credentials.
    let other = bench.checkpointer("state");
    let mut told = Vec::new();
    let restored = other.restore(&identity, &target, |now| told.push(now));
    let restored = restored.unwrap().unwrap();
    assert_eq!(restored.manifest.entry.get(), 4);
    assert_eq!(keys_at(&target), keys);
    let last = told.last().unwrap();
    assert_eq!(
        (last.done, last.total),
        (last.total, restored.manifest.bytes())
    );

    other
        .discard(&identity.task(), identity.store_epoch)
        .unwrap();
    assert!(other.look(&identity).unwrap().is_empty());
}

#[rstest]
#[case("no-list", "s3:ListBucket")]
#[case("no-put", "s3:PutObject")]
#[case("no-get", "s3:GetObject")]
#[case("no-delete", "s3:DeleteObject")]
#[ignore = "needs TURBINE_S3_ENDPOINT"]
fn a_right_that_lacks_is_named(#[case] user: &str, #[case] right: &str) {
    let bench = Bench::new();
    bench.login(user, "turbine-secret");
    let error = bench.checkpointer("state").check().unwrap_err();
    assert_eq!(error.reason(), "CheckpointDenied");
    let text = error.to_string();
    assert!(text.contains(right), "{text}");
    assert!(
        text.contains(&format!("s3://state/{}/fraud", bench.prefix)),
        "{text}"
    );
    assert!(!text.contains("turbine-secret"), "{text}");
}

#[rstest]
#[case("turbine", "wrong", "state", "CheckpointCredentials")]
#[case("nobody", "turbine-secret", "state", "CheckpointCredentials")]
#[case("turbine", "turbine-secret", "not-there", "CheckpointBucket")]
#[ignore = "needs TURBINE_S3_ENDPOINT"]
fn what_cannot_be_used_is_told_at_once(
    #[case] user: &str,
    #[case] secret: &str,
    #[case] bucket: &str,
    #[case] reason: &str,
) {
    let bench = Bench::new();
    bench.login(user, secret);
    let error = bench.checkpointer(bucket).check().unwrap_err();
    assert_eq!(error.reason(), reason, "{error}");
}

#[test]
#[ignore = "needs TURBINE_S3_ENDPOINT"]
fn renewed_credentials_are_picked_up() {
    let bench = Bench::new();
    bench.login("turbine", "old-secret");
    let checkpointer = bench.checkpointer("state");
    let error = checkpointer.check().unwrap_err();
    assert!(
        matches!(error, CheckpointError::Credentials { .. }),
        "{error}"
    );
    bench.login("turbine", "turbine-secret");
    checkpointer.check().unwrap();
}
