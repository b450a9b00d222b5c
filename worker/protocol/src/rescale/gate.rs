//! How far a moved-in cursor may read: what it finds was written after the same producers' records in the old partitions.

use std::collections::{BTreeMap, VecDeque};

use turbine_keygroups::Partition;

use super::time::{Moment, Waits};
use super::vouch::{Ends, Question};
use crate::offset::Offset;

/// At most so many bounds wait at once; they are spread over the grace, so that the gate moves several times in it.
const BOUNDS: u64 = 4;

/// The gate in front of a moved-in cursor. It is not stored: a task that starts again opens it anew, from where it reads on.
///
/// What lay in the partition at some moment may be taken once every tail has been read to its end as asked `orderGrace` after that
/// moment: the earlier record of a producer, even one sent again and again, lies there by then or never will.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gate {
    open_to: Offset,
    bounds: VecDeque<Bound>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    up_to: Offset,
    lay_by: Moment,
    needs: BTreeMap<Partition, Offset>,
}

/// How a tail stands, as the gate sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailAt {
    /// The old partition.
    pub partition: Partition,
    /// What the tail reads next.
    pub next: Offset,
    /// Where it ends, once that is agreed.
    pub closed: Option<Offset>,
}

impl TailAt {
    fn has_read(&self, end: Offset) -> bool {
        self.next >= self.closed.map_or(end, |closed| closed.min(end))
    }
}

impl Gate {
    /// Shut in front of this offset.
    #[must_use]
    pub fn shut_at(next: Offset) -> Self {
        Self {
            open_to: next,
            bounds: VecDeque::new(),
        }
    }

    /// Takes the answered ends: of the cursor's own partition, `own`, and of the tails'.
    pub fn answered(
        &mut self,
        question: &Question,
        now: Moment,
        ends: &Ends,
        own: Partition,
        waits: Waits,
    ) {
        for bound in &mut self.bounds {
            if question.asked_at() >= bound.lay_by.after(waits.order_grace) {
                for (partition, end) in ends {
                    bound.needs.entry(*partition).or_insert(*end);
                }
            }
        }
        let Some(up_to) = ends.get(&own).copied() else {
            return;
        };
        let last = self.bounds.back();
        let is_further = up_to > last.map_or(self.open_to, |last| last.up_to);
        let is_apart =
            last.is_none_or(|last| now.since(last.lay_by).0 >= waits.order_grace.0 / BOUNDS);
        if is_further && is_apart {
            // The answer's moment, not the question's: the end may be as young as that.
            self.bounds.push_back(Bound {
                up_to,
                lay_by: now,
                needs: BTreeMap::new(),
            });
        }
    }

    /// The offset in front of which the cursor stops, or nothing once no tail is left to wait for.
    pub fn open_to(&mut self, tails: &[TailAt]) -> Option<Offset> {
        let is_done = |tail: &TailAt| tail.closed.is_some_and(|closed| tail.next >= closed);
        if tails.iter().all(is_done) {
            return None;
        }
        while let Some(bound) = self.bounds.front() {
            let has_read = |tail: &TailAt| {
                let end = bound.needs.get(&tail.partition);
                is_done(tail) || end.is_some_and(|end| tail.has_read(*end))
            };
            if !tails.iter().all(has_read) {
                break;
            }
            self.open_to = self.open_to.max(bound.up_to);
            self.bounds.pop_front();
        }
        Some(self.open_to)
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
