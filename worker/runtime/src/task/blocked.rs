//! How long a task has stood in front of an open transaction of another producer.

use std::time::Duration;

use turbine_crds::control::OpenTransaction;
use turbine_protocol::Offset;

use super::life::Life;

/// Transactions are open for moments all the time; one that is open for longer than this holds the task up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A moment by both clocks: one measures, the other is shown.
#[derive(Debug, Clone, Copy)]
struct Moment {
    monotonic: Duration,
    wall_ms: i64,
}

/// Where the task waits, and since when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Blocked {
    at: Option<(Offset, Moment)>,
    told: bool,
}

/// A transaction that is open for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    shown: OpenTransaction,
    waited: Duration,
}

impl Blocked {
    /// `stands`: where the task has read everything that is committed, and where the log ends behind it.
    fn look(&mut self, stands: Option<(Offset, Offset)>, now: Moment) -> Option<Wait> {
        let Some((at, end)) = stands else {
            self.at = None;
            return None;
        };
        // Behind one transaction that has ended there may be another one: each has its own time.
        let since = match self.at {
            Some((before, since)) if before == at => since,
            Some(_) | None => now,
        };
        self.at = Some((at, since));
        let waited = now.monotonic.saturating_sub(since.monotonic);
        (waited >= PATIENCE).then_some(Wait {
            shown: OpenTransaction {
                offset: at.get(),
                since_ms: since.wall_ms,
                hidden: end.since(at),
            },
            waited,
        })
    }
}

impl Life<'_> {
    /// Shows where an open transaction holds the task up.
    pub(super) fn publish_blocked(&mut self) {
        let at = self.reader.position();
        let stands = self.reader.waits_for_transaction().map(|end| (at, end));
        let now = Moment {
            monotonic: self.setup.clock.monotonic(),
            wall_ms: self.setup.clock.wall_ms(),
        };
        let wait = self.blocked.look(stands, now);
        let seconds = wait.map_or(0, |wait| wait.waited.as_secs());
        self.metrics
            .open_transaction
            .set(i64::try_from(seconds).unwrap_or(i64::MAX));
        if wait.is_some() != self.blocked.told {
            self.blocked.told = wait.is_some();
            match wait {
                Some(Wait { shown, waited }) => tracing::warn!(
                    task = %self.cell.task(), topic = %self.topic, offset = shown.offset, hidden = shown.hidden, ?waited,
                    "an open transaction of another producer hides what lies behind it in the input; the task waits until it is \
                     committed or aborted"
                ),
                None => tracing::info!(
                    task = %self.cell.task(), topic = %self.topic, offset = %at,
                    "the open transaction in the input has ended"
                ),
            }
        }
        self.cell
            .update(|status| status.open_transaction = wait.map(|wait| wait.shown));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        offset.try_into().unwrap()
    }

    /// The clocks after so many seconds.
    fn after(seconds: i64) -> Moment {
        Moment {
            monotonic: Duration::from_secs(seconds.unsigned_abs()),
            wall_ms: 1_800_000_000_000 + seconds * 1_000,
        }
    }

    #[test]
    fn a_transaction_is_told_once_it_is_open_for_ten_seconds_at_one_offset() {
        let mut blocked = Blocked::default();
        let mut look = |seconds, stands: Option<(i64, i64)>| {
            blocked
                .look(stands.map(|(from, to)| (at(from), at(to))), after(seconds))
                .map(|wait| {
                    let OpenTransaction {
                        offset,
                        since_ms,
                        hidden,
                    } = wait.shown;
                    (
                        offset,
                        since_ms - 1_800_000_000_000,
                        hidden,
                        wait.waited.as_secs(),
                    )
                })
        };
        assert_eq!(look(0, None), None);
        assert_eq!(look(5, Some((7, 9))), None);
        assert_eq!(look(14, Some((7, 12))), None);
        // Since it was first seen, with what has come behind it meanwhile.
        assert_eq!(look(15, Some((7, 12))), Some((7, 5_000, 5, 10)));
        assert_eq!(look(40, Some((7, 20))), Some((7, 5_000, 13, 35)));
        // It has ended, and the next one has its own time.
        assert_eq!(look(41, Some((10, 20))), None);
        assert_eq!(look(51, Some((10, 20))), Some((10, 41_000, 10, 10)));
        assert_eq!(look(52, None), None);
        assert_eq!(look(53, Some((10, 20))), None);
        assert_eq!(look(62, Some((10, 20))), None);
        assert_eq!(look(63, Some((10, 20))), Some((10, 53_000, 10, 10)));
    }
}
