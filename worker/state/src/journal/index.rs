//! Which records lie where: per store, to play them back, and per segment, to know when it can go.

use std::collections::{BTreeMap, HashMap, VecDeque};

use turbine_protocol::journal::Record;
use turbine_protocol::{EntryChecksum, EntryNumber, StoreEpoch, Task};

use super::record::Life;

/// A record in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordRef {
    pub(crate) record: Record,
    pub(super) segment: u64,
    pub(super) payload_at: u64,
    pub(super) payload: u32,
    pub(super) checksum: u32,
}

impl RecordRef {
    /// The checksum of the entry.
    pub(crate) fn checksum(&self) -> EntryChecksum {
        EntryChecksum(self.checksum)
    }
}

/// Where bytes lie that were records once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

#[derive(Debug, Default)]
struct LifeRecords {
    /// Whose store it is; none as long as no entry said so.
    owner: Option<(Task, StoreEpoch)>,
    /// Not absorbed, in the journal's order.
    records: VecDeque<RecordRef>,
    released: Option<EntryNumber>,
    /// How many damaged places lay before its last record, or were known when it began; those that are gone count.
    damages_before: usize,
}

#[derive(Debug, Default)]
struct Segment {
    bytes: u64,
    last: HashMap<Life, EntryNumber>,
}

/// The index of a journal.
#[derive(Debug, Default)]
pub(super) struct Index {
    lives: HashMap<Life, LifeRecords>,
    segments: BTreeMap<u64, Segment>,
    /// In the order of the segments.
    damages: Vec<Damage>,
    /// How many damaged places went with their segments.
    damages_gone: usize,
}

impl Index {
    pub(super) fn begin_segment(&mut self, number: u64, bytes: u64) {
        self.segments.entry(number).or_default().bytes = bytes;
    }

    pub(super) fn damaged(&mut self, damage: Damage) {
        self.damages.push(damage);
    }

    /// Adds the record that ends a segment at `bytes`.
    pub(super) fn add(
        &mut self,
        life: Life,
        owner: Option<(Task, StoreEpoch)>,
        record: RecordRef,
        bytes: u64,
    ) {
        let of = self.lives.entry(life).or_default();
        if owner.is_some() {
            of.owner = owner;
        }
        of.damages_before = self.damages_gone + self.damages.len();
        of.records.push_back(record);
        let segment = self.segments.entry(record.segment).or_default();
        segment.bytes = bytes;
        let last = segment.last.entry(life).or_insert(record.record.number);
        *last = (*last).max(record.record.number);
    }

    /// The records of a store that it may not have absorbed, in their order.
    pub(super) fn records(&self, life: Life) -> Vec<RecordRef> {
        self.lives
            .get(&life)
            .map_or_else(Vec::new, |of| of.records.iter().copied().collect())
    }

    /// The damage that may have taken the last records of this store. Records that lie behind it
    /// show by their numbers whether one is missing; where there are none, nothing shows it.
    pub(super) fn doubt(&self, life: Life) -> Option<Damage> {
        let before = self.lives.get(&life).map_or(0, |of| of.damages_before);
        let known = before.saturating_sub(self.damages_gone);
        self.damages.get(known..)?.last().copied()
    }

    /// A life begins now: nothing that was damaged before is of it.
    pub(super) fn begin_life(&mut self, life: Life) {
        let known = self.damages_gone + self.damages.len();
        self.lives.entry(life).or_default().damages_before = known;
    }

    /// Whether records behind an entry were let go, so that new ones of the same numbers would be taken for them.
    pub(super) fn released_behind(&self, life: Life, number: EntryNumber) -> bool {
        let released = self.lives.get(&life).and_then(|of| of.released);
        released > Some(number)
    }

    /// A store has absorbed everything up to an entry.
    pub(super) fn release(&mut self, life: Life, number: EntryNumber) {
        let of = self.lives.entry(life).or_default();
        of.released = of.released.max(Some(number));
        while of
            .records
            .front()
            .is_some_and(|record| record.record.number <= number)
        {
            of.records.pop_front();
        }
    }

    /// The undecided entry of a life was written once more, durably: only that copy of it is needed.
    pub(super) fn carried(&mut self, life: Life, number: EntryNumber, segment: u64) {
        if let Some(of) = self.lives.get_mut(&life) {
            of.records
                .retain(|at| at.record.number != number || at.segment == segment);
        }
        for (_, older) in self.segments.range_mut(..segment) {
            older.last.remove(&life);
        }
    }

    /// Nothing of a life is needed: what its store has not absorbed was taken back.
    pub(super) fn clear(&mut self, life: Life) {
        if let Some(of) = self.lives.get_mut(&life) {
            of.records.clear();
        }
        for segment in self.segments.values_mut() {
            segment.last.remove(&life);
        }
    }

    /// Some stores are gone; nobody will absorb their records.
    pub(super) fn forget(&mut self, gone: impl Fn(Life, &Task, StoreEpoch) -> bool) {
        let gone: Vec<Life> = self
            .lives
            .iter()
            .filter(|(life, of)| {
                of.owner
                    .as_ref()
                    .is_some_and(|(task, epoch)| gone(**life, task, *epoch))
            })
            .map(|(life, _)| *life)
            .collect();
        for life in gone {
            self.lives.remove(&life);
            for segment in self.segments.values_mut() {
                segment.last.remove(&life);
            }
        }
    }

    fn waits_for(&self, segment: &Segment) -> impl Iterator<Item = Life> {
        segment
            .last
            .iter()
            .filter(|(life, last)| {
                let released = self.lives.get(life).and_then(|of| of.released);
                released < Some(**last)
            })
            .map(|(life, _)| *life)
    }

    /// Takes out the oldest segments that nobody needs, and says which. Only the oldest ones: a
    /// number that is missing between others is damage. The `active` one stays.
    pub(super) fn take_released(&mut self, active: u64) -> Vec<u64> {
        let mut gone = Vec::new();
        while let Some((number, segment)) = self.segments.first_key_value()
            && *number != active
            && self.waits_for(segment).next().is_none()
        {
            gone.push(*number);
            self.segments.pop_first();
        }
        let before = self.damages.len();
        self.damages
            .retain(|damage| !gone.contains(&damage.segment));
        self.damages_gone += before - self.damages.len();
        gone
    }

    /// Whether the oldest segment stays because of this store.
    pub(super) fn holds_back(&self, life: Life) -> bool {
        self.segments
            .first_key_value()
            .is_some_and(|(_, oldest)| self.waits_for(oldest).any(|of| of == life))
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.bytes).sum()
    }
}
