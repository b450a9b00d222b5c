//! What is deleted after a checkpoint, and what never is.

use std::collections::BTreeSet;

use turbine_protocol::StoreIdentity;

use super::choice::{Found, fits};
use super::manifest::{ManifestFile, Sequence};

/// The fewest checkpoints that are kept, whatever was asked for: the newest may turn out damaged.
pub const LEAST_RETAINED: usize = 2;

/// What is deleted, in this order: manifests first, so that no manifest ever names a file that was taken from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrunePlan {
    /// Manifests that go.
    pub manifests: Vec<Sequence>,
    /// Files that go, under their names in the place of checkpoints: no manifest that stays names them.
    pub files: Vec<String>,
    /// Manifests that cannot be read and stay: they may name any file, so no file goes.
    pub unreadable: Vec<Sequence>,
}

/// Plans what goes.
///
/// `found` is all manifests that are there, `files` all files, `reading` the checkpoints that restores are reading. A
/// manifest of another store is never deleted, nor a file that it names. One that cannot be read goes only once there are
/// enough checkpoints of this store after it.
#[must_use]
pub fn plan(
    found: &[Found],
    files: &BTreeSet<String>,
    identity: &StoreIdentity,
    retain: usize,
    reading: &BTreeSet<Sequence>,
) -> PrunePlan {
    let mut ours: Vec<Sequence> = found
        .iter()
        .filter(|one| is_ours(one, identity))
        .map(|one| one.sequence)
        .collect();
    ours.sort_unstable_by(|a, b| b.cmp(a));
    // With fewer of them than are to be kept, nothing is old.
    let oldest_kept = ours.get(retain.max(LEAST_RETAINED) - 1);
    let goes = |one: &Found| {
        !reading.contains(&one.sequence)
            && oldest_kept.is_some_and(|oldest| one.sequence < *oldest)
            && !is_foreign(one, identity)
    };
    let mut plan = PrunePlan::default();
    let mut named = BTreeSet::new();
    for one in found {
        if goes(one) {
            plan.manifests.push(one.sequence);
            continue;
        }
        match &one.read {
            Ok(manifest) => named.extend(manifest.files.iter().map(ManifestFile::object_name)),
            Err(_) => plan.unreadable.push(one.sequence),
        }
    }
    plan.manifests.sort_unstable();
    if plan.unreadable.is_empty() {
        plan.files = files.difference(&named).cloned().collect();
    }
    plan
}

fn is_ours(one: &Found, identity: &StoreIdentity) -> bool {
    matches!(&one.read, Ok(manifest) if fits(manifest, identity).is_ok())
}

fn is_foreign(one: &Found, identity: &StoreIdentity) -> bool {
    matches!(&one.read, Ok(manifest) if fits(manifest, identity).is_err())
}
