//! What lies on a volume: the store's own files and the pod's journal.

use turbine_protocol::journal::{JournalGap, Playback, Record, RecordKind, Replay};
use turbine_protocol::{
    Change, CommittedReceipt, Entry, EntryChecksum, EntryNumber, Frontier, HandedOut, History,
    Position, Receipt, Retrace,
};

use crate::names::{lineage, task};

/// Records in the order in which they were folded, packed so that worlds stay small. A record that counts twice
/// stands in it twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Folded(u64);

impl Folded {
    pub(crate) fn push(&mut self, record: u8) {
        assert!(self.0.leading_zeros() >= 4, "more than it can hold");
        self.0 = (self.0 << 4) | u64::from(record + 1);
    }

    pub(crate) fn extend(&mut self, others: Self) {
        for record in others.records() {
            self.push(record);
        }
    }

    pub(crate) fn records(self) -> Vec<u8> {
        (0..16)
            .rev()
            .map(|at| (self.0 >> (4 * at)) & 0xf)
            .skip_while(|digit| *digit == 0)
            .map(|digit| u8::try_from(digit - 1).unwrap())
            .collect()
    }
}

impl std::fmt::Debug for Folded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.records().fmt(f)
    }
}

/// The state: what was folded into each of two keys.
pub(crate) type State = [Folded; 2];

/// The key of a record.
pub(crate) fn key_of(record: u8) -> usize {
    usize::from(record % 2)
}

/// What the first records of the log give, some left out, computed apart from what the tasks fold.
pub(crate) fn state_of_first(count: u8, missing: u16) -> State {
    let mut state = State::default();
    let counts = |record: &u8| missing & (1 << record) == 0;
    for (key, value) in state.iter_mut().enumerate() {
        for record in (0..count)
            .filter(counts)
            .filter(|record| key_of(*record) == key)
        {
            value.push(record);
        }
    }
    state
}

/// The state that was committed with a receipt, computed in the same way.
pub(crate) fn state_of(committed: CommittedReceipt) -> State {
    let position = u8::try_from(committed.offset.get()).unwrap();
    let History(history) = committed.receipt.retrace.unwrap().history;
    state_of_first(position, u16::try_from(history - 1).unwrap())
}

/// How far a state reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Reach {
    pub(crate) number: u8,
    pub(crate) position: u8,
    pub(crate) checksum: EntryChecksum,
    pub(crate) by_transaction: bool,
}

/// The entry of one commit: changed keys with their new values, as in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Interval {
    pub(crate) epoch: u8,
    pub(crate) reach: Reach,
    changes: [Option<Folded>; 2],
}

impl Interval {
    pub(crate) fn new(
        epoch: u8,
        number: u8,
        position: u8,
        before: State,
        after: State,
        by_transaction: bool,
        history: History,
    ) -> Self {
        let changes = [0, 1].map(|key| (before[key] != after[key]).then_some(after[key]));
        let keys = [[0_u8], [1]];
        let values = changes.map(|change| change.map(|value| value.0.to_be_bytes()));
        let changed: Vec<Change<'_>> = (0..2)
            .filter_map(|key| {
                let value = values[key].as_ref()?;
                Some(Change {
                    key: &keys[key],
                    value: Some(value),
                })
            })
            .collect();
        let checksum = Entry {
            task: &task(),
            store_epoch: i64::from(epoch).try_into().unwrap(),
            number: numbered(number),
            positions: &[Position {
                topic: "events".parse().unwrap(),
                partition: task().partition,
                next: i64::from(position).try_into().unwrap(),
            }],
            frontier: Frontier(Some(i64::from(position))),
            clocks: &history.0.to_be_bytes(),
            changes: &changed,
        }
        .checksum()
        .unwrap();
        Self {
            epoch,
            reach: Reach {
                number,
                position,
                checksum,
                by_transaction,
            },
            changes,
        }
    }
}

pub(crate) fn numbered(number: u8) -> EntryNumber {
    i64::from(number).try_into().unwrap()
}

/// The receipt of what a store of this epoch reaches.
pub(crate) fn receipt(epoch: u8, reach: Reach, history: History) -> Receipt {
    Receipt {
        lineage: lineage(),
        store_epoch: i64::from(epoch).try_into().unwrap(),
        number: numbered(reach.number),
        checksum: reach.checksum,
        frontier: Frontier(Some(i64::from(reach.position))),
        retrace: Some(Retrace {
            history,
            rows: reach.position.into(),
            closed: HandedOut::All,
        }),
    }
}

/// A record of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Written {
    pub(crate) life: u8,
    pub(crate) kind: RecordKind,
    pub(crate) number: u8,
    pub(crate) interval: Option<Interval>,
    pub(crate) segment: u8,
    pub(crate) synced: bool,
}

/// The store's own files: what they have absorbed, as of a commit boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Files {
    pub(crate) reach: Reach,
    pub(crate) state: State,
    /// Records before the position that it went on without, one bit each.
    pub(crate) missing: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Volume {
    /// The random number of the store; its records carry it.
    pub(crate) life: u8,
    pub(crate) epoch: u8,
    /// What its files hold on the disk, and what they hold until the next crash.
    pub(crate) flushed: Files,
    pub(crate) files: Files,
    pub(crate) journal: Vec<Written>,
    pub(crate) segment: u8,
    /// The layout epoch that stands on the volume.
    pub(crate) marker: u8,
}

/// What a store says after its journal was played back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) files: Files,
    pub(crate) prepared: Option<Interval>,
}

impl Files {
    /// Built-in computations by rules that nobody changes: a history ends only where a task goes on behind what it lacks.
    pub(crate) fn history(&self) -> History {
        History(1 + u64::from(self.missing))
    }

    /// Whether it is what a fold of the records before its position gives.
    pub(crate) fn is_folded(&self) -> bool {
        self.state == state_of_first(self.reach.position, self.missing)
    }

    pub(crate) fn absorb(&mut self, interval: &Interval) {
        for (value, change) in self.state.iter_mut().zip(interval.changes) {
            *value = change.unwrap_or(*value);
        }
        self.reach = interval.reach;
    }
}

impl Volume {
    pub(crate) fn new(life: u8, epoch: u8, marker: u8, files: Files) -> Self {
        Self {
            life,
            epoch,
            flushed: files,
            files,
            journal: Vec::new(),
            segment: 0,
            marker,
        }
    }

    pub(crate) fn append(&mut self, kind: RecordKind, number: u8, interval: Option<Interval>) {
        self.journal.push(Written {
            life: self.life,
            kind,
            number,
            interval,
            segment: self.segment,
            synced: false,
        });
    }

    /// A sync is of the open segment: the one before was synced when it was closed.
    pub(crate) fn sync(&mut self) {
        let open = self.segment;
        for written in self.journal.iter_mut().filter(|of| of.segment == open) {
            written.synced = true;
        }
    }

    pub(crate) fn roll(&mut self, synced: bool) {
        if synced {
            self.sync();
        }
        self.segment += 1;
    }

    /// How many records of a segment a crash can take.
    pub(crate) fn unsynced(&self, segment: u8) -> u8 {
        let of = |written: &&Written| written.segment == segment && !written.synced;
        u8::try_from(self.journal.iter().filter(of).count()).unwrap()
    }

    /// A crash takes what is in memory and some of the records that were not synced, the last ones of each segment. What
    /// is left is on the disk: the next process syncs what it finds.
    pub(crate) fn crash(&mut self, lost: [u8; 2]) {
        self.files = self.flushed;
        for (segment, lost) in (0..).zip(lost) {
            for _ in 0..lost {
                let last = self.journal.iter().rposition(|of| of.segment == segment);
                self.journal.remove(last.unwrap());
            }
        }
        for written in &mut self.journal {
            written.synced = true;
        }
    }

    /// The volume after the worst of all crashes.
    pub(crate) fn worst(&self) -> Self {
        let mut worst = self.clone();
        worst.crash([self.unsynced(0), self.unsynced(1)]);
        worst
    }

    /// Plays the journal back.
    pub(crate) fn found(&self, any_life: bool) -> Result<Found, JournalGap> {
        let mut files = self.files;
        let mut replay = Replay::after(numbered(files.reach.number));
        let mut held = None;
        for written in &self.journal {
            if written.life != self.life && !any_life {
                continue;
            }
            let playback = replay.take(Record {
                kind: written.kind,
                number: numbered(written.number),
            })?;
            match playback {
                Playback::Known => {}
                Playback::Absorb => files.absorb(&written.interval.unwrap()),
                Playback::Hold => held = written.interval,
                Playback::AbsorbHeld => files.absorb(&held.take().unwrap()),
                Playback::ForgetHeld => held = None,
            }
        }
        assert_eq!(replay.last(), numbered(files.reach.number));
        Ok(Found {
            files,
            prepared: held,
        })
    }

    /// Whether the first segment can go: nothing in it is needed to play back from what the files hold.
    pub(crate) fn first_is_absorbed(&self) -> bool {
        self.journal
            .iter()
            .filter(|written| written.segment == 0 && written.life == self.life)
            .all(|written| written.number <= self.flushed.reach.number)
    }

    pub(crate) fn release_first(&mut self) {
        self.journal.retain(|written| written.segment != 0);
    }

    /// The files are these from now on, durably and as one. What the journal had of the store before belongs to no store.
    pub(crate) fn rebase(&mut self, files: Files) {
        (self.files, self.flushed) = (files, files);
        self.begin_life();
    }

    pub(crate) fn begin_life(&mut self) {
        self.life += 2;
    }

    /// Whether this volume has what was committed, durably, and can go on from there.
    pub(crate) fn has(&self, committed: CommittedReceipt) -> bool {
        let Ok(found) = self.worst().found(false) else {
            return false;
        };
        let prepared = found.prepared.map(|of| of.reach);
        prepared
            .into_iter()
            .chain([found.files.reach])
            .any(|reach| receipt(self.epoch, reach, found.files.history()) == committed.receipt)
    }
}
