//! A cursor: one place from which a task reads, and which of the records there it takes.

use serde::{Deserialize, Serialize};
use turbine_keygroups::Partition;

use super::closing::Closing;
use super::time::Moment;
use super::vouch::Question;
use crate::offset::Offset;

/// What a cursor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CursorKind {
    /// The one cursor of a task while its input does not grow.
    Whole,
    /// The own partition: what both counts put there, and null keys.
    Kept,
    /// An old partition: what the old count put there of the keys that are with this task now.
    Tail,
    /// The own partition: what the new count alone puts there.
    MovedIn,
}

/// Where a cursor stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    pub(super) kind: CursorKind,
    pub(super) partition: Partition,
    pub(super) next: Offset,
    /// Of all records read here, taken or not.
    pub(super) max_event_time: Option<i64>,
    #[serde(default)]
    pub(super) closing: Closing,
    /// When a record was last read here that only the old count puts here.
    #[serde(default)]
    pub(super) old_seen: Option<Moment>,
    // What was asked is of this life: the next one asks anew.
    #[serde(skip)]
    pub(super) at_end: AtEnd,
}

/// What reading to an end has proved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AtEnd {
    vouched: Option<i64>,
    pending: Option<(Offset, Option<i64>)>,
    found: Option<Moment>,
}

impl Cursor {
    pub(super) fn new(
        kind: CursorKind,
        partition: Partition,
        next: Offset,
        max: Option<i64>,
    ) -> Self {
        Self {
            kind,
            partition,
            next,
            max_event_time: max,
            closing: Closing::Open,
            old_seen: None,
            at_end: AtEnd::default(),
        }
    }

    /// What it is for.
    #[must_use]
    pub fn kind(&self) -> CursorKind {
        self.kind
    }

    /// Which partition it reads.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// What it reads next.
    #[must_use]
    pub fn next(&self) -> Offset {
        self.next
    }

    /// The highest event time of what it has read.
    #[must_use]
    pub fn max_event_time(&self) -> Option<i64> {
        self.max_event_time
    }

    /// How it stands with the end of its partition's old placement.
    #[must_use]
    pub fn closing(&self) -> Closing {
        self.closing
    }

    /// A tail that was read to its agreed end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match (self.kind, self.closing) {
            (CursorKind::Tail, Closing::Closed(end)) => self.next >= end,
            (CursorKind::Tail, Closing::Open | Closing::Agreed { .. })
            | (CursorKind::Whole | CursorKind::Kept | CursorKind::MovedIn, _) => false,
        }
    }

    /// The time up to which nothing older is expected here: of what was read, or proved by reading to an end.
    #[must_use]
    pub fn vouches(&self) -> Option<i64> {
        self.max_event_time.max(self.at_end.vouched)
    }

    /// For which question it was found at the answered end, if nothing was read since.
    pub(super) fn found_at_end(&self) -> Option<Moment> {
        self.at_end.found
    }

    pub(super) fn end_answered(&mut self, question: &Question, end: Offset) {
        let proof = question.vouched_by_end();
        if self.next >= end {
            self.at_end.vouched = self.at_end.vouched.max(proof);
            self.at_end.found = Some(question.asked_at());
        } else if self.at_end.pending.is_none() {
            // The first is kept until it is reached: under traffic a newer end would move away for ever.
            self.at_end.pending = Some((end, proof));
        }
    }

    /// Reads on to `next`; `event_time` is that of the record passed, if it was one.
    pub(super) fn pass(&mut self, next: Offset, event_time: Option<i64>) {
        self.next = self.next.max(next);
        self.max_event_time = self.max_event_time.max(event_time);
        if event_time.is_some() {
            self.at_end.found = None;
        }
        if let Some((end, proof)) = self.at_end.pending
            && self.next >= end
        {
            self.at_end.vouched = self.at_end.vouched.max(proof);
            self.at_end.pending = None;
        }
    }
}
