//! A partition: records, transaction markers, the high watermark and the last stable offset.

use std::collections::{BTreeMap, BTreeSet};

use turbine_protocol::rescale::RecordKey;

/// A record as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) id: usize,
    pub(crate) key: RecordKey,
    pub(crate) producer: usize,
    pub(crate) sequence: u64,
    pub(crate) event_time: i64,
    /// The highest event time of all that was sent before, by anybody.
    pub(crate) sent_before: Option<i64>,
    pub(crate) transaction: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) enum Slot {
    Record(Record),
    Marker,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) slots: Vec<Slot>,
    high: usize,
    stalled_until: i64,
    open: BTreeMap<u64, usize>,
    aborted: BTreeSet<u64>,
    /// Per offset, when readers could first see it.
    pub(crate) visible_at: Vec<i64>,
}

impl Log {
    pub(crate) fn append(&mut self, record: Record) {
        if let Some(transaction) = record.transaction {
            self.open.entry(transaction).or_insert(self.slots.len());
        }
        self.slots.push(Slot::Record(record));
    }

    pub(crate) fn mark(&mut self, transaction: u64, commits: bool) {
        self.open.remove(&transaction);
        if !commits {
            self.aborted.insert(transaction);
        }
        self.slots.push(Slot::Marker);
    }

    /// The high watermark stands still. One stall never follows another at once: a record is an end within the order's grace.
    pub(crate) fn stall(&mut self, now: i64, until: i64) {
        if now > self.stalled_until + 1 {
            self.stalled_until = until;
        }
    }

    pub(crate) fn tick(&mut self, now: i64) {
        if now >= self.stalled_until {
            self.high = self.slots.len();
        }
        let stable = self.stable();
        while self.visible_at.len() < stable {
            self.visible_at.push(now);
        }
    }

    pub(crate) fn high(&self) -> usize {
        self.high
    }

    pub(crate) fn stable(&self) -> usize {
        self.open
            .values()
            .min()
            .map_or(self.high, |first| self.high.min(*first))
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.open.is_empty() && self.high == self.slots.len()
    }

    /// The record at an offset that is visible, unless there is none for readers.
    pub(crate) fn committed(&self, offset: usize) -> Option<&Record> {
        match &self.slots[offset] {
            Slot::Record(record) => {
                let is_aborted = record
                    .transaction
                    .is_some_and(|of| self.aborted.contains(&of));
                (!is_aborted).then_some(record)
            }
            Slot::Marker => None,
        }
    }
}
