//! What a task reads through its cursors: which records it takes, which of them are late, and how far event time has closed.

use turbine_keygroups::{Partition, RawPartitionCount};

use super::closed_to::ClosedTo;
use super::closing::{Closing, Proposal};
use super::cursor::{Cursor, CursorKind};
use super::gate::{Gate, TailAt};
use super::growth::{Claim, Growth, RecordKey};
use super::time::{Millis, Moment, Waits};
use super::vouch::{Ends, Question, Seen};
use crate::entry::Frontier;
use crate::epochs::LayoutEpoch;
use crate::offset::Offset;

mod ends;
mod layout;
mod stored;
mod take;

pub use layout::NotNow;
pub use stored::{Hold, Layout, StoredReading};
pub use take::{End, Row, Stop, Taken};

use ends::closed;

/// A task's reading in one life of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    stored: StoredReading,
    out_of_orderness: i64,
    waits: Waits,
    seen: Seen,
    gate: Gate,
    confirmed: Option<(Moment, Option<i64>)>,
    read_at: Moment,
}

/// A cursor that may be read, and in front of which offset it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Its place among the cursors.
    pub cursor: usize,
    /// What it reads.
    pub partition: Partition,
    /// The offset it reads next.
    pub next: Offset,
    /// It does not read this one or any after it; none: it may read on.
    pub until: Option<Offset>,
}

/// What the answered count means for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountFound {
    /// It is the one known.
    Known,
    /// The topic has grown: hold, and ask for a plan.
    Grown(RawPartitionCount),
    /// It is one from before the last growth: the broker has not heard of it.
    Outdated,
}

impl Reading {
    /// Begins a life of the task. `out_of_orderness` is in milliseconds of event time.
    #[must_use]
    pub fn resume(stored: StoredReading, out_of_orderness: i64, waits: Waits, now: Moment) -> Self {
        let mut seen = Seen::new(waits);
        // By when it was seen is not known any more; it was by now.
        if let Some(highest) = stored
            .cursors
            .iter()
            .filter_map(Cursor::max_event_time)
            .max()
        {
            seen.see(highest, now);
        }
        let moved_in = stored
            .cursors
            .iter()
            .find(|cursor| cursor.kind == CursorKind::MovedIn);
        let gate = Gate::shut_at(moved_in.map(Cursor::next).unwrap_or_default());
        Self {
            stored,
            out_of_orderness,
            waits,
            seen,
            gate,
            confirmed: None,
            read_at: now,
        }
    }

    /// What goes into the entry.
    #[must_use]
    pub fn stored(&self) -> &StoredReading {
        &self.stored
    }

    /// The cursors that may be read now. A gated one is neither read nor read ahead: readers that waited with full buffers for each
    /// other could stop in a ring.
    pub fn open(&mut self) -> Vec<Open> {
        let cursors = &self.stored.cursors;
        let tails: Vec<TailAt> = cursors
            .iter()
            .filter(|cursor| cursor.kind == CursorKind::Tail)
            .map(|cursor| TailAt {
                partition: cursor.partition,
                next: cursor.next,
                closed: closed(cursor),
            })
            .collect();
        let gate = self.gate.open_to(&tails);
        let kept = cursors
            .iter()
            .find(|cursor| cursor.kind == CursorKind::Kept);
        let opened = cursors.iter().enumerate().map(|(at, cursor)| Open {
            cursor: at,
            partition: cursor.partition,
            next: cursor.next,
            until: match cursor.kind {
                CursorKind::Whole | CursorKind::Kept => None,
                CursorKind::Tail => closed(cursor),
                // Never past kept: what stops the task stops it there first, and the two can become one where they meet.
                CursorKind::MovedIn => [gate, kept.map(Cursor::next)].into_iter().flatten().min(),
            },
        });
        let may_read = |open: &Open| open.until.is_none_or(|until| open.next < until);
        opened.filter(may_read).collect()
    }

    /// A question to send now; one per commit is enough. The brokers are asked for the high watermark of each partition read, and
    /// for the count.
    #[must_use]
    pub fn ask(&self, now: Moment) -> Question {
        Question::new(&self.seen, self.waits, now)
    }

    /// Lets cursors vouch by the answered ends.
    pub fn vouch_by_ends(&mut self, question: &Question, ends: &Ends) {
        for cursor in &mut self.stored.cursors {
            if let Some(end) = ends.get(&cursor.partition) {
                cursor.end_answered(question, *end);
            }
        }
    }

    /// Lets the gate move by the answered ends, received `now`.
    pub fn gate_by_ends(&mut self, question: &Question, now: Moment, ends: &Ends) {
        self.gate
            .answered(question, now, ends, self.stored.task, self.waits);
    }

    /// Takes the answered count.
    pub fn count_answered(&mut self, question: &Question, count: RawPartitionCount) -> CountFound {
        let known = match self.stored.layout {
            Layout::Steady { count, .. } => count,
            // The frontier stands still: there is nothing to confirm.
            Layout::Ahead { growth, .. } if count <= growth.to().into() => {
                return CountFound::Known;
            }
            Layout::Ahead { growth, .. } | Layout::Through { growth, .. } => growth.to().into(),
        };
        if count > known {
            return CountFound::Grown(count);
        }
        if count < known {
            return CountFound::Outdated;
        }
        let older = self
            .confirmed
            .is_some_and(|(asked_at, _)| asked_at > question.asked_at());
        if !older {
            self.confirmed = Some((question.asked_at(), question.vouched_by_count()));
        }
        CountFound::Known
    }

    /// Advances the frontier to what all cursors, and the partitions that do not exist, vouch for.
    pub fn advance(&mut self) -> Frontier {
        if self.stored.hold().is_none()
            && let Some((_, confirmed)) = self.confirmed
        {
            let cursors = self
                .stored
                .cursors
                .iter()
                .filter(|cursor| !cursor.has_ended());
            let vouched = cursors.map(Cursor::vouches).min().flatten().min(confirmed);
            self.raise(vouched.map(|time| time.saturating_sub(self.out_of_orderness)));
        }
        self.stored.frontier
    }

    /// Moves the frontier with the clock where every cursor has stood at its end for `timeout`.
    pub fn coast(&mut self, timeout: Millis) -> Frontier {
        if self.stored.hold().is_none()
            && let Some((count_asked, _)) = self.confirmed
            && let Some(seen) = self.seen.highest()
            && let Some(stood) = self.stood_at_ends()
        {
            let quiet = stood
                .min(count_asked.before(self.waits.metadata_grace))
                .since(self.read_at);
            if quiet >= timeout {
                let time = seen.saturating_sub(self.out_of_orderness);
                self.raise(Some(time.saturating_add_unsigned(quiet.0)));
            }
        }
        self.stored.frontier
    }

    /// Up to when all partitions read were surely empty behind the cursors.
    fn stood_at_ends(&self) -> Option<Moment> {
        let cursors = self
            .stored
            .cursors
            .iter()
            .filter(|cursor| !cursor.has_ended());
        let found = cursors.map(Cursor::found_at_end).min().flatten()?;
        Some(match self.stored.layout {
            // Several partitions: a record of one may have been on its way while another went on.
            Layout::Through { .. } => found.before(self.waits.order_grace),
            Layout::Steady { .. } | Layout::Ahead { .. } => found,
        })
    }

    fn raise(&mut self, to: Option<i64>) {
        self.stored.frontier = self.stored.frontier.max(Frontier(to));
        self.stored.closed_to.forget_passed(self.stored.frontier);
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
