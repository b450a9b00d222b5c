//! What a task had seen of event time, and by when: by this a partition in which nothing arrives can vouch for a time.

use std::collections::{BTreeMap, VecDeque};

use turbine_keygroups::Partition;

use super::time::{Millis, Moment, Waits};
use crate::offset::Offset;

/// How many steps of what was seen are kept: one is enough for each part of this of the longest wait.
const STEPS: u64 = 64;

/// The highest event time seen, by the moment it was seen.
///
/// Steps that are close together are told as one, at the later moment: what was seen is never said to have been seen earlier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    steps: VecDeque<(Moment, i64)>,
    reach: Millis,
}

impl Seen {
    /// Remembers as far back as the longer of the waits.
    #[must_use]
    pub fn new(waits: Waits) -> Self {
        Self {
            steps: VecDeque::new(),
            reach: waits.order_grace.max(waits.metadata_grace),
        }
    }

    /// This event time was seen.
    pub fn see(&mut self, event_time: i64, now: Moment) {
        if self.highest().is_some_and(|highest| highest >= event_time) {
            return;
        }
        let close = Millis(self.reach.0 / STEPS);
        let before = self.steps.len().checked_sub(2).map(|at| self.steps[at].0);
        match (self.steps.back_mut(), before) {
            (Some(last), Some(before)) if now.since(before) < close => *last = (now, event_time),
            _ => self.steps.push_back((now, event_time)),
        }
        let forgotten = now.before(self.reach);
        while self
            .steps
            .get(1)
            .is_some_and(|(moment, _)| *moment < forgotten)
        {
            self.steps.pop_front();
        }
    }

    /// The highest of all.
    #[must_use]
    pub fn highest(&self) -> Option<i64> {
        self.steps.back().map(|(_, event_time)| *event_time)
    }

    /// The highest that was seen at a moment or before; at least what is still remembered.
    #[must_use]
    pub fn by(&self, moment: Moment) -> Option<i64> {
        let mut steps = self.steps.iter().rev();
        steps
            .find(|(seen, _)| *seen <= moment)
            .map(|(_, event_time)| *event_time)
    }
}

/// A question for the ends of partitions, or for their count, made before it is sent. What it can prove was fixed by when it was
/// asked: an answer says nothing about what happened on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    asked_at: Moment,
    by_ends: Option<i64>,
    by_count: Option<i64>,
}

impl Question {
    pub(crate) fn new(seen: &Seen, waits: Waits, now: Moment) -> Self {
        Self {
            asked_at: now,
            by_ends: seen.by(now.before(waits.order_grace)),
            by_count: seen.by(now.before(waits.metadata_grace)),
        }
    }

    /// When it was asked.
    #[must_use]
    pub fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// What a partition vouches for that was read to the end which answers this: a record behind that end was given to its
    /// producer less than `orderGrace` before the question, so after all of this had been given to theirs.
    #[must_use]
    pub fn vouched_by_end(&self) -> Option<i64> {
        self.by_ends
    }

    /// What partitions that do not exist vouch for if the known count answers this.
    #[must_use]
    pub fn vouched_by_count(&self) -> Option<i64> {
        self.by_count
    }
}

/// Answers to a [`Question`]: the **high watermark** of each partition. The last stable offset is none: behind it lie records of
/// open transactions, which nobody can see and which are older than what was seen.
pub type Ends = BTreeMap<Partition, Offset>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WAITS: Waits = Waits {
        order_grace: Millis(640),
        producer_refresh: Millis(5000),
        metadata_grace: Millis(100),
    };

    proptest! {
        #[test]
        fn what_is_said_to_be_seen_was_seen_and_little_is_forgotten(
            rows in prop::collection::vec((0..30_i64, 0..1000_i64), 1..300),
            back in 0..640_u64,
        ) {
            let mut seen = Seen::new(WAITS);
            let mut now = Moment(0);
            let mut all = Vec::new();
            for (pause, event_time) in rows {
                now = Moment(now.0 + pause);
                seen.see(event_time, now);
                all.push((now, event_time));
            }
            let by = |moment: Moment| all.iter().filter(|(m, _)| *m <= moment).map(|(_, t)| *t).max();
            let moment = now.before(Millis(back));
            let said = seen.by(moment);
            prop_assert!(said <= by(moment));
            prop_assert!(said >= by(moment.before(Millis(20))) || moment.before(Millis(20)) < now.before(Millis(640)));
            prop_assert_eq!(seen.highest(), by(now));
            prop_assert!(seen.steps.len() <= 140);
        }
    }

    #[test]
    fn a_question_proves_what_was_seen_a_grace_before_it_was_asked() {
        let mut seen = Seen::new(WAITS);
        seen.see(5, Moment(1000));
        seen.see(6, Moment(1200));
        let question = Question::new(&seen, WAITS, Moment(1640));
        assert_eq!(question.vouched_by_end(), Some(5));
        assert_eq!(question.vouched_by_count(), Some(6));
        let question = Question::new(&seen, WAITS, Moment(1639));
        assert_eq!(question.vouched_by_end(), None);
    }
}
