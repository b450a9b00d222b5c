//! How the tails of a task end, and how its cursors become one again.

use super::stored::reads_old;
use super::{
    Closing, Cursor, CursorKind, Layout, LayoutEpoch, Offset, Partition, Proposal, Reading,
};

impl Reading {
    /// Asks a reader of an old partition to agree to its end. The agreement counts once an entry with it is durable.
    ///
    /// It does if it has read up to there, and if the last record that only the old count puts there is long enough ago. An
    /// agreement to an earlier proposal is forgotten, one to a later proposal stays.
    pub fn propose(&mut self, proposal: &Proposal) -> bool {
        let waits = self.waits;
        let Proposal {
            epoch,
            partition,
            end,
            asked_at,
        } = *proposal;
        let mut has_agreed = false;
        for cursor in self.old_readers(epoch, partition) {
            let is_quiet = cursor
                .old_seen
                .is_none_or(|seen| proposal.is_late_enough(seen, waits));
            cursor.closing = match cursor.closing {
                closed @ Closing::Closed(_) => closed,
                later @ Closing::Agreed {
                    asked_at: other, ..
                } if other >= asked_at => later,
                Closing::Open | Closing::Agreed { .. } if cursor.next >= end && is_quiet => {
                    Closing::Agreed { end, asked_at }
                }
                Closing::Open | Closing::Agreed { .. } => Closing::Open,
            };
            has_agreed = cursor.closing == Closing::Agreed { end, asked_at };
        }
        has_agreed
    }

    /// The end of an old partition, journalled in the plan of this epoch.
    pub fn close(&mut self, epoch: LayoutEpoch, partition: Partition, end: Offset) {
        for cursor in self.old_readers(epoch, partition) {
            cursor.closing = Closing::Closed(end);
        }
    }

    fn old_readers(
        &mut self,
        epoch: LayoutEpoch,
        partition: Partition,
    ) -> impl Iterator<Item = &mut Cursor> {
        let is_of =
            matches!(self.stored.layout, Layout::Through { epoch: own, .. } if own == epoch);
        let cursors = self.stored.cursors.iter_mut();
        cursors.filter(move |cursor| is_of && reads_old(cursor, partition))
    }

    /// Drops tails that have ended, and makes kept and moved-in one once they have met. Says whether the task has one cursor.
    pub fn settle(&mut self) -> bool {
        let Layout::Through { growth, .. } = self.stored.layout else {
            return self.stored.cursors.len() == 1;
        };
        let own = self.stored.task;
        self.stored.cursors.retain(|cursor| !cursor.has_ended());
        let [kept, moved_in] = self.stored.cursors.as_slice() else {
            return false;
        };
        let is_closed = !growth.is_old(own) || closed(kept).is_some_and(|end| kept.next >= end);
        if kept.next != moved_in.next || !is_closed {
            return false;
        }
        let max = kept.max_event_time.max(moved_in.max_event_time);
        self.stored.cursors = vec![Cursor::new(CursorKind::Whole, own, kept.next, max)];
        self.stored.layout = Layout::Steady {
            count: growth.to().into(),
            grown_from: Some(growth.from()),
        };
        true
    }
}

pub(super) fn closed(cursor: &Cursor) -> Option<Offset> {
    match cursor.closing {
        Closing::Closed(end) => Some(end),
        Closing::Open | Closing::Agreed { .. } => None,
    }
}
