//! Which records a task takes, which it leaves to others, and which it stops in front of.

use thiserror::Error;

use super::{
    Claim, Closing, Cursor, CursorKind, Frontier, Growth, Layout, Moment, Offset, Partition,
    RawPartitionCount, Reading, RecordKey,
};

/// What a cursor has read: a record, as far as its way to a task is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its offset.
    pub offset: Offset,
    /// Its key.
    pub key: RecordKey,
    /// Its event time, in milliseconds since the Unix epoch.
    pub event_time: i64,
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is this task's.
    Apply {
        /// A window that ends at this time or earlier has closed for it.
        line: Frontier,
    },
    /// It is another cursor's or another task's.
    Leave,
}

/// Why a task stops in front of a record. None of them is ever skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Stop {
    /// Placed by no count that is known.
    #[error(
        "the record at {partition}/{offset} lies where no known partition count puts its key: ask for the topic's count; \
         if it has not grown, the record is misplaced"
    )]
    Unexplained {
        /// The partition.
        partition: Partition,
        /// The record.
        offset: Offset,
    },
    /// Placed by the old count after the end of the old placement was agreed.
    #[error(
        "the record at {partition}/{offset} was placed by the old partition count, whose end was agreed at {end}: a producer has \
         not refreshed its metadata; restart it, then reopen the tail or send the record to the dead letters"
    )]
    ProducerNotRefreshed {
        /// The partition.
        partition: Partition,
        /// The record.
        offset: Offset,
        /// The agreed end; none where it is no longer kept.
        end: End,
    },
    /// Placed by the old count while the end is being agreed on. It passes by itself.
    #[error(
        "the record at {partition}/{offset} waits until the end {end} of the old placement is journalled or another one proposed"
    )]
    EndUndecided {
        /// The partition.
        partition: Partition,
        /// The record.
        offset: Offset,
        /// The proposed end.
        end: Offset,
    },
    /// Placed by the new count before the topic had it.
    #[error(
        "the record at {partition}/{offset} was placed by the new partition count before {from}, where the growth began: the \
         topic was grown by another hand before; the plan's ends are void"
    )]
    BeforeGrowth {
        /// The partition.
        partition: Partition,
        /// The record.
        offset: Offset,
        /// The end before the growth.
        from: Offset,
    },
}

/// An agreed end, as far as it is still known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End(pub Option<Offset>);

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(end) => end.fmt(f),
            None => f.write_str("an earlier offset"),
        }
    }
}

impl Reading {
    /// Takes the next record of a cursor that is open, at the moment it is read.
    ///
    /// # Errors
    /// If the task must stop in front of it; nothing has changed then.
    pub fn take(&mut self, cursor: usize, row: &Row, now: Moment) -> Result<Taken, Stop> {
        let Some(reader) = self.stored.cursors.get_mut(cursor) else {
            return Ok(Taken::Leave);
        };
        let own = self.stored.task;
        let is_taken = match &mut self.stored.layout {
            Layout::Steady { count, grown_from } => {
                let placed = |count: RawPartitionCount| {
                    row.key
                        .placed_by(count)
                        .is_none_or(|at| at == reader.partition)
                };
                if !placed(*count) {
                    return Err(match grown_from {
                        Some(old) if placed(*old) => not_refreshed(reader, row, None),
                        Some(_) | None => unexplained(reader, row),
                    });
                }
                true
            }
            Layout::Ahead {
                growth, left_from, ..
            } => match growth.claim(row.key, reader.partition) {
                Claim::Kept | Claim::Tail(_) => true,
                Claim::MovedIn => {
                    left_from.get_or_insert(row.offset);
                    false
                }
                Claim::Unexplained => return Err(unexplained(reader, row)),
            },
            Layout::Through {
                growth,
                moved_in_from,
                ..
            } => through(reader, row, *growth, *moved_in_from, own, now)?,
        };
        let row_line = reader
            .max_event_time
            .map(|max| max.saturating_sub(self.out_of_orderness));
        reader.pass(row.offset.next(), Some(row.event_time));
        self.seen.see(row.event_time, now);
        self.read_at = now;
        if !is_taken {
            return Ok(Taken::Leave);
        }
        let closed = self.stored.closed_to.of(row.key, own);
        let line = self.stored.frontier.max(closed).max(Frontier(row_line));
        Ok(Taken::Apply { line })
    }

    /// Moves a cursor past what is no record of anybody: markers, aborted records, gaps.
    pub fn pass(&mut self, cursor: usize, next: Offset) {
        if let Some(reader) = self.stored.cursors.get_mut(cursor) {
            reader.pass(next, None);
        }
    }
}

fn through(
    reader: &mut Cursor,
    row: &Row,
    growth: Growth,
    moved_in_from: Offset,
    own: Partition,
    now: Moment,
) -> Result<bool, Stop> {
    let claim = growth.claim(row.key, reader.partition);
    if claim == Claim::Unexplained {
        return Err(unexplained(reader, row));
    }
    match reader.kind {
        CursorKind::MovedIn => return Ok(claim == Claim::MovedIn),
        CursorKind::Whole | CursorKind::Kept | CursorKind::Tail => {}
    }
    if let Claim::Tail(_) = claim {
        match reader.closing {
            Closing::Closed(end) if row.offset >= end => {
                return Err(not_refreshed(reader, row, Some(end)));
            }
            Closing::Agreed { end, .. } if row.offset >= end => {
                return Err(Stop::EndUndecided {
                    partition: reader.partition,
                    offset: row.offset,
                    end,
                });
            }
            Closing::Open | Closing::Agreed { .. } | Closing::Closed(_) => {}
        }
        reader.old_seen = Some(now);
    }
    if reader.kind == CursorKind::Tail {
        return Ok(claim == Claim::Tail(own));
    }
    if claim == Claim::MovedIn && row.offset < moved_in_from {
        return Err(Stop::BeforeGrowth {
            partition: reader.partition,
            offset: row.offset,
            from: moved_in_from,
        });
    }
    Ok(claim == Claim::Kept)
}

fn unexplained(reader: &Cursor, row: &Row) -> Stop {
    Stop::Unexplained {
        partition: reader.partition,
        offset: row.offset,
    }
}

fn not_refreshed(reader: &Cursor, row: &Row, end: Option<Offset>) -> Stop {
    Stop::ProducerNotRefreshed {
        partition: reader.partition,
        offset: row.offset,
        end: End(end),
    }
}
