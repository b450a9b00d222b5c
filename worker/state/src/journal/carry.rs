//! What nobody decides over must not keep the whole journal.

use turbine_protocol::journal::{Record, RecordKind};
use turbine_protocol::{StoreEpoch, Task};

use super::{Draft, Journal, Life, RecordRef};
use crate::error::StateError;

impl Journal {
    /// Writes an undecided entry once more, at the journal's end, durably; then the segments before it need not stay for it.
    /// The store has absorbed everything else.
    ///
    /// # Errors
    /// If it cannot be read, written or synced, or a segment cannot be removed.
    pub(crate) fn carry(
        &self,
        life: Life,
        owner: (Task, StoreEpoch),
        found: &RecordRef,
        draft: &mut Draft,
    ) -> Result<RecordRef, StateError> {
        let stored = self.read(found)?;
        draft.clear().extend_from_slice(&stored);
        let number = found.record.number;
        let record = Record {
            kind: RecordKind::Carried,
            number,
        };
        let place = self.append(life, Some(owner), record, found.checksum, draft)?;
        // Before the copy is durable the first one is all there is.
        self.sync(place)?;
        let mut state = self.lock();
        state.index.carried(life, number, place.segment);
        self.remove_released(&mut state)?;
        Ok(RecordRef {
            record,
            segment: place.segment,
            payload_at: place.end - u64::from(found.payload),
            ..*found
        })
    }

    /// A store has absorbed everything that counts, and nothing is undecided: what else the journal has of it was taken back.
    ///
    /// # Errors
    /// If a segment cannot be removed.
    pub(crate) fn let_go(&self, life: Life) -> Result<(), StateError> {
        let mut state = self.lock();
        state.index.clear(life);
        self.remove_released(&mut state)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use rand::SeedableRng as _;
    use rand::rngs::StdRng;
    use rstest::rstest;
    use turbine_keygroups::RawPartitionCount;
    use turbine_protocol::journal::{Playback, Replay};
    use turbine_protocol::{
        Change, Entry, EntryNumber, Frontier, Lineage, Position, StoreIdentity, StoredEntry,
    };

    use super::super::JournalLimits;
    use super::*;
    use crate::budget::StateBudget;
    use crate::files::FileLayer as _;
    use crate::files::forgetful::ForgetfulFiles;
    use crate::store::TaskStore;
    use crate::task_state::TaskState;

    const SMALL: JournalLimits = JournalLimits {
        segment: 2_000,
        all: 8_000,
    };

    fn identity(partition: i32) -> StoreIdentity {
        StoreIdentity::new(
            "a".parse().unwrap(),
            Lineage::new(uuid::Uuid::from_u128(1)),
            &Task {
                subscription: "s".parse().unwrap(),
                partition: partition.try_into().unwrap(),
            },
            StoreEpoch::try_from(1).unwrap(),
            RawPartitionCount::try_from(12).unwrap(),
            "user".to_owned(),
        )
    }

    /// Gives `act` the entry that sets `k` to `value`.
    fn entry<T>(
        of: &StoreIdentity,
        number: EntryNumber,
        value: &[u8],
        act: impl FnOnce(&Entry<'_>) -> T,
    ) -> T {
        act(&Entry {
            task: &of.task(),
            store_epoch: of.store_epoch,
            number,
            positions: &[Position {
                topic: "in".parse().unwrap(),
                partition: of.partition,
                next: number.get().try_into().unwrap(),
            }],
            frontier: Frontier(None),
            clocks: b"clocks",
            changes: &[Change {
                key: b"k",
                value: Some(value),
            }],
        })
    }

    fn commit(store: &mut TaskStore, value: &[u8]) {
        let (of, next) = (store.identity().clone(), store.progress().number.next());
        entry(&of, next, value, |entry| store.commit(entry)).unwrap();
    }

    fn save(store: &mut TaskStore, value: &[u8]) {
        store
            .save(&[], &mut std::iter::once((&b"k"[..], value)))
            .unwrap();
    }

    struct Place {
        folder: tempfile::TempDir,
        budget: StateBudget,
    }

    impl Place {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                budget: StateBudget::new(32 << 20, 4).unwrap(),
            }
        }

        fn path(&self, partition: i32) -> PathBuf {
            self.folder.path().join(partition.to_string())
        }

        fn journal(&self) -> Arc<Journal> {
            Arc::new(Journal::open(self.folder.path(), SMALL).unwrap())
        }

        fn create(&self, partition: i32, journal: &Arc<Journal>) -> TaskStore {
            let path = self.path(partition);
            std::fs::create_dir_all(&path).unwrap();
            TaskStore::create(&path, &identity(partition), &[], journal, &self.budget).unwrap()
        }

        fn open(&self, partition: i32, journal: &Arc<Journal>) -> TaskStore {
            let path = self.path(partition);
            TaskStore::open(&path, journal, &self.budget)
                .unwrap()
                .unwrap()
        }
    }

    /// As in a pod where one task has halted and the others go on.
    #[rstest]
    fn what_is_undecided_keeps_no_more_of_the_journal_than_itself(
        #[values(true, false)] counts: bool,
    ) {
        let place = Place::new();
        let journal = place.journal();
        let mut halted = place.create(0, &journal);
        let first = halted.progress().number.next();
        entry(&identity(0), first, b"1", |entry| halted.commit(entry)).unwrap();
        save(&mut halted, b"1");
        let checksum = entry(&identity(0), first.next(), b"2", |entry| {
            halted.prepare(entry)
        })
        .unwrap();
        drop(halted);
        let mut busy = place.create(1, &journal);
        let mut most = 0;
        for _ in 0..200 {
            commit(&mut busy, &[7; 400]);
            most = most.max(journal.bytes());
            if busy.wants_saved() {
                save(&mut busy, &[7; 400]);
            }
            if journal.is_full() {
                drop(place.open(0, &journal));
            }
        }
        assert!(most >= SMALL.all, "never full: {most}");
        assert!(
            most < SMALL.all + 2 * SMALL.segment,
            "{most} bytes of journal"
        );
        drop((busy, journal));

        let journal = place.journal();
        let mut halted = place.open(0, &journal);
        let prepared = halted.prepared().unwrap();
        assert_eq!(
            (prepared.number, prepared.checksum, prepared.by_transaction),
            (first.next(), checksum, true)
        );
        if counts {
            halted.apply_prepared().unwrap();
        } else {
            halted.cancel_prepared().unwrap();
        }
        drop((halted, journal));
        let journal = place.journal();
        let halted = place.open(0, &journal);
        assert!(halted.prepared().is_none());
        let mut found = Vec::new();
        halted
            .get_many(&[b"k"], &mut |_, value| found.push(value.to_vec()))
            .unwrap();
        assert_eq!(found, [if counts { b"2" } else { b"1" }]);
    }

    #[rstest]
    fn what_was_taken_back_keeps_nothing_once_its_store_is_opened(
        #[values(true, false)] stopped_in_order: bool,
    ) {
        let place = Place::new();
        let journal = place.journal();
        let mut halted = place.create(0, &journal);
        let first = halted.progress().number.next();
        entry(&identity(0), first, b"1", |entry| halted.prepare(entry)).unwrap();
        halted.cancel_prepared().unwrap();
        if stopped_in_order {
            Box::new(halted).close().unwrap();
        } else {
            drop(halted);
        }
        let mut busy = place.create(1, &journal);
        while !journal.is_full() {
            commit(&mut busy, &[7; 400]);
        }
        save(&mut busy, &[7; 400]);
        assert!(journal.is_full());
        drop(place.open(0, &journal));
        assert!(
            journal.bytes() <= SMALL.segment + 1_000,
            "{}",
            journal.bytes()
        );
    }

    /// The process ends, and the power goes, in front of each act on the files.
    #[test]
    fn a_power_loss_while_an_entry_is_carried_on_leaves_one_of_the_two() {
        let mut random = StdRng::seed_from_u64(7);
        for acts in 0.. {
            let mut finished = false;
            for _ in 0..20 {
                let files = ForgetfulFiles::with("/journal");
                let open = || {
                    Journal::recover(
                        PathBuf::from("/journal"),
                        Box::new(files.clone()),
                        SMALL,
                        None,
                    )
                    .unwrap()
                };
                let of = identity(0);
                let owner = || (of.task(), of.store_epoch);
                let number = EntryNumber::ZERO.next();
                let mut draft = Draft::default();
                let journal = open();
                let checksum =
                    entry(&of, number, b"2", |entry| entry.encode(draft.clear())).unwrap();
                let record = Record {
                    kind: RecordKind::Prepared,
                    number,
                };
                journal
                    .append(Life(0), Some(owner()), record, checksum.0, &mut draft)
                    .unwrap();
                let mut other = number;
                while !journal.is_full() {
                    let checksum = entry(&identity(1), other, &[7; 400], |entry| {
                        entry.encode(draft.clear())
                    })
                    .unwrap();
                    let record = Record {
                        kind: RecordKind::Entry,
                        number: other,
                    };
                    let owner = Some((identity(1).task(), of.store_epoch));
                    let place = journal
                        .append(Life(1), owner, record, checksum.0, &mut draft)
                        .unwrap();
                    journal.sync(place).unwrap();
                    journal.release(Life(1), other).unwrap();
                    other = other.next();
                }
                let found = journal.records(Life(0)).unwrap()[0];
                files.disk().acts = Some(acts);
                finished = journal.carry(Life(0), owner(), &found, &mut draft).is_ok();
                drop(journal);
                files.lose_power(&mut random);
                files.disk().acts = None;

                let journal = open();
                let mut replay = Replay::after(EntryNumber::ZERO);
                let mut held = None;
                for found in journal.records(Life(0)).unwrap() {
                    assert_eq!(replay.take(found.record), Ok(Playback::Hold));
                    held = Some(found);
                }
                let stored = journal.read(&held.unwrap()).unwrap();
                assert_eq!(StoredEntry::decode(&stored).unwrap().number, number);
                if finished {
                    assert!(files.list(Path::new("/journal")).unwrap().len() <= 2);
                }
            }
            if finished {
                assert!(acts > 3, "nothing was cut off");
                return;
            }
        }
    }
}
