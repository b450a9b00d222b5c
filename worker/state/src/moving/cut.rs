//! What is done to the files of stores: parts are cut out of a copy, and taken in by another.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rocksdb::{
    BottommostLevelCompaction, CompactOptions, IngestExternalFileOptions, LiveFile, WriteBatch,
};
use turbine_keygroups::{Group, RankRange};

use super::manifest::MoveManifest;
use super::origin::Origin;
use crate::error::{StateError, rocks, rocks_writing};
use crate::rows::{Header, IDENTITY, KEYS, LIFE, Rows};

/// In a store's own records: what it was made of.
const MOVED: &[u8] = b"moved";
/// In a store's own records, with the old partition behind it: where a part came from.
const ORIGIN: &str = "origin/";
/// The same, with the engine's clocks of that part.
const ORIGIN_CLOCKS: &str = "origin-clocks/";
/// Above every stored key: keys begin with the prefix of a group, and the highest is that of the null group.
const END: [u8; 2] = [0xff, 0xff];

/// The pieces of the stored order that are not among `ranges`, ascending.
fn gaps(ranges: &[RankRange], null: bool) -> Vec<Range<[u8; 2]>> {
    let mut gaps = Vec::new();
    let mut from = [0, 0];
    for range in ranges {
        let (first, behind) = range.prefixes();
        gaps.push(from..first);
        from = behind;
    }
    if null {
        let null = Group::Null.prefix();
        gaps.push(from..null);
        // Keys of the null group have bytes behind the prefix, and the next prefix is above them all.
        from = (u16::from_be_bytes(null) + 1).to_be_bytes();
    }
    gaps.push(from..END);
    gaps.retain(|gap| gap.start < gap.end);
    gaps
}

impl Rows {
    /// The first key that is not of these groups.
    pub(crate) fn first_outside(
        &self,
        ranges: &[RankRange],
        null: bool,
    ) -> Result<Option<Vec<u8>>, StateError> {
        let keys = self.keys()?;
        let mut rows = self.db.raw_iterator_cf(keys);
        for gap in gaps(ranges, null) {
            rows.seek(gap.start);
            if let Some(key) = rows.key().filter(|key| *key < gap.end.as_slice()) {
                return Ok(Some(key.to_vec()));
            }
            rows.status()
                .map_err(|error| rocks("read", self.path(), &error))?;
        }
        Ok(None)
    }

    /// Drops the keys of all other groups: files that have no others go, the rest is hidden by range deletes. Files are not
    /// written again.
    pub(crate) fn keep_only(&self, ranges: &[RankRange], null: bool) -> Result<(), StateError> {
        let keys = self.keys()?;
        let gaps = gaps(ranges, null);
        for gap in &gaps {
            self.db
                .delete_file_in_range_cf(keys, gap.start, gap.end)
                .map_err(|error| rocks_writing("cut", self.path(), &error))?;
        }
        let mut batch = WriteBatch::default();
        for gap in &gaps {
            batch.delete_range_cf(keys, gap.start, gap.end);
        }
        self.write(&batch)?;
        self.flush()
    }

    /// Writes all keys once more, so that what was dropped is gone from the files, and no file has deletes.
    pub(crate) fn compact_whole(&self) -> Result<(), StateError> {
        let mut how = CompactOptions::default();
        how.set_exclusive_manual_compaction(true);
        how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        self.db
            .compact_range_cf_opt(self.keys()?, None::<&[u8]>, None::<&[u8]>, &how);
        // A compaction does not say that it failed; what it left behind does.
        let left = self.tables()?;
        if left.iter().any(|file| file.num_deletions > 0) {
            return Err(StateError::Io {
                what: "compact",
                path: self.path().to_owned(),
                detail: "it has deletes that should be gone: is the volume full?".to_owned(),
            });
        }
        Ok(())
    }

    /// The tables with keys, those that hold older values first.
    pub(crate) fn tables(&self) -> Result<Vec<LiveFile>, StateError> {
        let mut files = self
            .db
            .live_files()
            .map_err(|error| rocks("read", self.path(), &error))?;
        files.retain(|file| file.column_family_name == KEYS);
        files.sort_by_key(|file| (std::cmp::Reverse(file.level), file.smallest_seqno));
        Ok(files)
    }

    /// Takes in tables of other stores, by links. No two of them have the same key, and none has deletes.
    pub(crate) fn take_in(&self, tables: Vec<PathBuf>) -> Result<(), StateError> {
        if tables.is_empty() {
            return Ok(());
        }
        let mut how = IngestExternalFileOptions::default();
        how.set_allow_db_generated_files(true);
        how.set_snapshot_consistency(false);
        how.set_allow_blocking_flush(false);
        how.set_link_files(true);
        self.db
            .ingest_external_file_cf_opts(self.keys()?, &how, tables)
            .map_err(|error| rocks_writing("take files into", self.path(), &error))
    }

    /// Replaces all records of the store's own: from now on it is the new store.
    pub(crate) fn become_moved(
        &self,
        header: &Header,
        manifest: &MoveManifest,
        origins: &[Origin],
    ) -> Result<(), StateError> {
        let own = self.own()?;
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(own, &[][..], &END[..]);
        batch.put_cf(own, IDENTITY, self.encode(&header.identity)?);
        batch.put_cf(own, LIFE, self.encode(&header.life.0)?);
        batch.put_cf(own, MOVED, self.encode(manifest)?);
        for origin in origins {
            let number = origin.partition.get();
            batch.put_cf(own, format!("{ORIGIN}{number:010}"), self.encode(origin)?);
            batch.put_cf(own, format!("{ORIGIN_CLOCKS}{number:010}"), &origin.clocks);
        }
        self.put_progress(&mut batch, &header.progress)?;
        self.write(&batch)?;
        self.flush()
    }

    /// Whether it was made by a change of the count that has not settled.
    pub(crate) fn is_moved(&self) -> Result<bool, StateError> {
        Ok(self.moved()?.is_some())
    }

    /// What it was made of, if it was made by a change of the count.
    pub(crate) fn moved(&self) -> Result<Option<MoveManifest>, StateError> {
        self.read_own(MOVED)
    }

    /// Where its parts came from, by old partition; none if it was not made by a change of the count.
    pub(crate) fn origins(&self) -> Result<Vec<Origin>, StateError> {
        let own = self.own()?;
        let mut found = Vec::new();
        let mut records = self.db.raw_iterator_cf(own);
        records.seek(ORIGIN);
        while let Some((key, value)) = records.item() {
            let Some(number) = key.strip_prefix(ORIGIN.as_bytes()) else {
                break;
            };
            let mut origin: Origin = serde_json::from_slice(value)
                .map_err(|error| self.damaged(&format!("an origin: {error}")))?;
            let clocks = [ORIGIN_CLOCKS.as_bytes(), number].concat();
            origin.clocks = self
                .db
                .get_cf(own, clocks)
                .map_err(|error| rocks("read", self.path(), &error))?
                .ok_or_else(|| self.damaged("an origin without clocks"))?;
            found.push(origin);
            records.next();
        }
        records
            .status()
            .map_err(|error| rocks("read", self.path(), &error))?;
        Ok(found)
    }
}

/// Where a table lies.
pub(crate) fn path_of(folder: &Path, file: &LiveFile) -> PathBuf {
    folder.join(file.name.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use turbine_keygroups::KeyGroup;

    use super::*;

    #[test]
    fn gaps_and_ranges_together_are_every_prefix_once() {
        let sets: [Vec<u16>; 5] = [
            vec![],
            vec![0],
            vec![959],
            (0..960).step_by(7).collect(),
            (0..960).collect(),
        ];
        for (set, null) in sets
            .into_iter()
            .flat_map(|set| [(set.clone(), false), (set, true)])
        {
            let ranges =
                RankRange::of_groups(set.iter().map(|group| KeyGroup::try_from(*group).unwrap()));
            let gaps = gaps(&ranges, null);
            let all = KeyGroup::all().map(Group::Keyed).chain([Group::Null]);
            for group in all {
                // The least and the greatest key of a group.
                for key in [
                    group.prefix().to_vec(),
                    [&group.prefix()[..], &[0xff; 8]].concat(),
                ] {
                    let dropped = gaps
                        .iter()
                        .filter(|gap| {
                            gap.start.as_slice() <= key.as_slice()
                                && key.as_slice() < gap.end.as_slice()
                        })
                        .count();
                    let kept = match group {
                        Group::Null => null,
                        Group::Keyed(group) => set.contains(&group.number()),
                    };
                    assert_eq!(dropped, usize::from(!kept), "{group} of {set:?}");
                }
            }
        }
    }
}
