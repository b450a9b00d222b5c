//! The plan of one growth as a document: what was found, per old partition, at each of its steps. Cursors are derived from it.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use turbine_keygroups::Partition;

use super::cursor::{Cursor, CursorKind};
use super::growth::Growth;
use super::reading::{Layout, StoredReading};
use super::time::Moment;
use crate::epochs::LayoutEpoch;
use crate::offset::Offset;

/// The plan of a growth. Its facts are added in order and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawPlan", rename_all = "camelCase")]
pub struct Plan {
    epoch: LayoutEpoch,
    growth: Growth,
    /// Per old partition, its end before the growth; none where another hand grew the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Vec<Offset>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grown_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<Vec<OldStop>>,
    closed: Vec<Option<Offset>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPlan {
    epoch: LayoutEpoch,
    growth: Growth,
    before: Option<Vec<Offset>>,
    grown_at: Option<Moment>,
    stopped: Option<Vec<OldStop>>,
    closed: Vec<Option<Offset>>,
}

/// Where an old task stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OldStop {
    /// The offset it would have read next.
    pub next: Offset,
    /// The first record that it left to a new owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_from: Option<Offset>,
}

/// A cursor of a new task and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// What it is for.
    pub kind: CursorKind,
    /// What it reads.
    pub partition: Partition,
    /// Its first offset.
    pub from: Offset,
}

/// A fact that does not fit the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unfit {
    /// An array of another length than the old count.
    #[error(
        "`{field}` names {found} partitions; one value for each of the {expected} old partitions is expected"
    )]
    Length {
        /// The array.
        field: &'static str,
        /// Its length.
        found: usize,
        /// The old count.
        expected: u32,
    },
    /// A fact that is there already, or that needs one which is not.
    #[error("`{field}` cannot be added to the plan of epoch {epoch} now: {why}")]
    Order {
        /// The fact.
        field: &'static str,
        /// The plan.
        epoch: LayoutEpoch,
        /// What is in its way.
        why: &'static str,
    },
    /// No such partition.
    #[error("partition {partition} is none of the {count} old partitions")]
    NotOld {
        /// The partition.
        partition: Partition,
        /// The old count.
        count: u32,
    },
    /// The growth was not ours: a record of the new placement lies in front of the end that was read before it.
    #[error(
        "partition {partition} has a record of the new placement at {left_from}, before its end {before} that was read before the \
         growth: another hand grew the topic first; take the plan on without `before`"
    )]
    LeftBeforeGrowth {
        /// The partition.
        partition: Partition,
        /// The record.
        left_from: Offset,
        /// The end in the plan.
        before: Offset,
    },
}

impl Plan {
    /// A plan that knows what it is to do and has found out nothing.
    #[must_use]
    pub fn new(epoch: LayoutEpoch, growth: Growth) -> Self {
        Self {
            epoch,
            growth,
            before: None,
            grown_at: None,
            stopped: None,
            closed: vec![None; growth.from().get() as usize],
        }
    }

    /// The layout epoch that the plan makes.
    #[must_use]
    pub fn epoch(&self) -> LayoutEpoch {
        self.epoch
    }

    /// The growth.
    #[must_use]
    pub fn growth(&self) -> Growth {
        self.growth
    }

    /// When every broker was known to have the new count.
    #[must_use]
    pub fn grown_at(&self) -> Option<Moment> {
        self.grown_at
    }

    /// Per old partition, the agreed end of its old placement.
    #[must_use]
    pub fn closed(&self) -> &[Option<Offset>] {
        &self.closed
    }

    /// Adds the ends of all old partitions. They are asked for first; then every broker is asked for the count. If one of them
    /// names another than the old one, the topic has grown already and these ends are void.
    ///
    /// # Errors
    /// If the topic has grown already, or the length is another.
    pub fn with_ends_before(mut self, ends: Vec<Offset>) -> Result<Self, Unfit> {
        if self.grown_at.is_some() || self.before.is_some() {
            return self.out_of_order("before", "the topic has grown, or they are there already");
        }
        self.before = Some(ends);
        self.checked()
    }

    /// Adds the moment at which every broker had answered the new count.
    ///
    /// # Errors
    /// If it is there already.
    pub fn with_growth(mut self, at: Moment) -> Result<Self, Unfit> {
        if self.grown_at.is_some() {
            return self.out_of_order("grownAt", "it is there already");
        }
        self.grown_at = Some(at);
        self.checked()
    }

    /// Adds where all old tasks stopped, each sealed.
    ///
    /// # Errors
    /// If the topic has not grown, the length is another, or a record shows that the ends before the growth were not.
    pub fn with_stops(mut self, stops: Vec<OldStop>) -> Result<Self, Unfit> {
        if self.stopped.is_some() {
            return self.out_of_order("stopped", "they are there already");
        }
        self.stopped = Some(stops);
        self.checked()
    }

    /// Adds the agreed end of an old partition.
    ///
    /// # Errors
    /// If there is another already, the old tasks have not stopped, or there is no such partition.
    pub fn with_closed(mut self, partition: Partition, end: Offset) -> Result<Self, Unfit> {
        let (epoch, count) = (self.epoch, self.growth.from().get());
        let closed = self.closed.get_mut(partition.index() as usize);
        let closed = closed.ok_or(Unfit::NotOld { partition, count })?;
        if closed.is_some_and(|closed| closed != end) {
            return Err(Unfit::Order {
                field: "closed",
                epoch,
                why: "another end is there already, and readers rely on it",
            });
        }
        *closed = Some(end);
        self.checked()
    }

    fn out_of_order(&self, field: &'static str, why: &'static str) -> Result<Self, Unfit> {
        Err(Unfit::Order {
            field,
            epoch: self.epoch,
            why,
        })
    }

    fn checked(self) -> Result<Self, Unfit> {
        let expected = self.growth.from().get();
        let lengths = [
            ("before", self.before.as_ref().map(Vec::len)),
            ("stopped", self.stopped.as_ref().map(Vec::len)),
            ("closed", Some(self.closed.len())),
        ];
        for (field, length) in lengths {
            if let Some(found) = length.filter(|found| *found != expected as usize) {
                return Err(Unfit::Length {
                    field,
                    found,
                    expected,
                });
            }
        }
        if self.stopped.is_some() && self.grown_at.is_none() {
            return self.out_of_order("stopped", "the topic has not grown");
        }
        if self.stopped.is_none() && self.closed.iter().any(Option::is_some) {
            return self.out_of_order("closed", "the old tasks have not stopped");
        }
        if let (Some(before), Some(stopped)) = (&self.before, &self.stopped) {
            let both = before
                .iter()
                .zip(stopped)
                .zip(Partition::all(self.growth.from()));
            for ((before, stop), partition) in both {
                if let Some(left_from) = stop.left_from.filter(|left| left < before) {
                    return Err(Unfit::LeftBeforeGrowth {
                        partition,
                        left_from,
                        before: *before,
                    });
                }
            }
        }
        Ok(self)
    }

    /// Where an old task stopped, once that is known.
    #[must_use]
    pub fn stop_of(&self, partition: Partition) -> Option<OldStop> {
        self.stopped
            .as_ref()?
            .get(partition.index() as usize)
            .copied()
    }

    /// The first offset at which a record of the new placement can lie: the end before the growth; where another hand grew the
    /// topic, the first one that was met, or where the old task stopped without having met any.
    fn moved_in_from(&self, partition: Partition) -> Option<Offset> {
        if !self.growth.is_old(partition) {
            return Some(Offset::ZERO);
        }
        match &self.before {
            Some(before) => before.get(partition.index() as usize).copied(),
            None => self
                .stop_of(partition)
                .map(|stop| stop.left_from.unwrap_or(stop.next)),
        }
    }

    /// The tasks that read an old partition for records of the old placement: its own, and all that its keys go to.
    pub fn old_readers(&self, partition: Partition) -> impl Iterator<Item = Partition> {
        let growth = self.growth;
        Partition::all(growth.to())
            .filter(move |task| growth.sources(*task).any(|source| source == partition))
    }

    /// The cursors of a new task, once the old tasks have stopped: kept, moved-in, tails.
    #[must_use]
    pub fn cursors(&self, task: Partition) -> Option<Vec<Planned>> {
        let planned = |kind, partition, from| Planned {
            kind,
            partition,
            from,
        };
        let kept = if self.growth.is_old(task) {
            self.stop_of(task)?.next
        } else {
            self.stopped.as_ref().map(|_| Offset::ZERO)?
        };
        let mut cursors = vec![
            planned(CursorKind::Kept, task, kept),
            planned(CursorKind::MovedIn, task, self.moved_in_from(task)?),
        ];
        for old in self.growth.sources(task).filter(|old| *old != task) {
            cursors.push(planned(CursorKind::Tail, old, self.stop_of(old)?.next));
        }
        Some(cursors)
    }

    /// What a new task begins to read with, from what the last entries of its sources say; `old` gives those by partition.
    ///
    /// The frontier is the lowest of theirs: what has closed beyond that is remembered per source. Each cursor on an old partition
    /// goes on with its running maximum.
    #[must_use]
    pub fn begin<'a>(
        &self,
        task: Partition,
        old: impl Fn(Partition) -> Option<&'a StoredReading>,
    ) -> Option<StoredReading> {
        let max = |partition| old(partition).and_then(|old| old.cursors.first()?.max_event_time);
        let mut begun = StoredReading {
            task,
            layout: Layout::Through {
                epoch: self.epoch,
                growth: self.growth,
                moved_in_from: self.moved_in_from(task)?,
            },
            cursors: Vec::new(),
            closed_to: super::closed_to::ClosedTo::default(),
            frontier: crate::entry::Frontier::default(),
        };
        for planned in self.cursors(task)? {
            let max = match planned.kind {
                CursorKind::Kept | CursorKind::Tail | CursorKind::Whole => max(planned.partition),
                CursorKind::MovedIn => None,
            };
            let mut cursor = Cursor::new(planned.kind, planned.partition, planned.from, max);
            if planned.kind != CursorKind::MovedIn
                && let Some(Some(end)) = self.closed.get(planned.partition.index() as usize)
            {
                cursor.closing = super::closing::Closing::Closed(*end);
            }
            begun.cursors.push(cursor);
        }
        let mut frontiers = Vec::new();
        for source in self.growth.sources(task) {
            let source_read = old(source)?;
            frontiers.push(source_read.frontier);
            begun.closed_to.inherit(&source_read.closed_to);
            begun
                .closed_to
                .remember(self.growth.from(), source, source_read.frontier);
        }
        begun.frontier = frontiers.into_iter().min().unwrap_or_default();
        begun.closed_to.forget_passed(begun.frontier);
        Some(begun)
    }
}

impl TryFrom<RawPlan> for Plan {
    type Error = Unfit;

    fn try_from(raw: RawPlan) -> Result<Self, Unfit> {
        Self {
            epoch: raw.epoch,
            growth: raw.growth,
            before: raw.before,
            grown_at: raw.grown_at,
            stopped: raw.stopped,
            closed: raw.closed,
        }
        .checked()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
