//! How many partitions a topic has now. One that grew has new places for its keys, and nothing but
//! a question finds that out where no record of an old partition shows it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turbine_kafka::{Admin, KafkaError, TopicPresence};
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::TopicName;

/// Tasks of one topic share an answer for this long.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// A question that holds up a task and can wait for its next turn is given up after this.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// Says how many partitions a topic has.
pub trait PartitionCounts: Send + Sync + fmt::Debug {
    /// The count, asked now.
    ///
    /// # Errors
    /// If the topic is not there, or nobody answers.
    fn count(&self, topic: &TopicName, wait: Duration) -> Result<RawPartitionCount, KafkaError>;
}

impl PartitionCounts for Admin {
    fn count(&self, topic: &TopicName, wait: Duration) -> Result<RawPartitionCount, KafkaError> {
        match self.topic(topic, wait)? {
            TopicPresence::Present(layout) => Ok(layout.partitions),
            TopicPresence::Missing => Err(KafkaError::TopicMissing {
                topic: topic.clone(),
            }),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Duration,
    answer: Option<RawPartitionCount>,
}

/// The counts of topics, as all tasks of a worker ask for them.
#[derive(Debug)]
pub struct CountWatch {
    source: Arc<dyn PartitionCounts>,
    asked: Mutex<BTreeMap<TopicName, Asked>>,
}

impl CountWatch {
    /// Nothing asked yet.
    #[must_use]
    pub fn new(source: Arc<dyn PartitionCounts>) -> Self {
        Self {
            source,
            asked: Mutex::new(BTreeMap::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TopicName, Asked>> {
        // Whole between any two statements that hold it.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The count, asked now.
    ///
    /// # Errors
    /// If the topic is not there, or nobody answers in time.
    pub fn fresh(
        &self,
        topic: &TopicName,
        now: Duration,
        wait: Duration,
    ) -> Result<RawPartitionCount, KafkaError> {
        let count = self.source.count(topic, wait)?;
        let answer = Some(count);
        self.lock().insert(topic.clone(), Asked { at: now, answer });
        Ok(count)
    }

    /// The count by an answer that is hardly older than a second; none if there is no answer. At
    /// `now`, by a clock that never goes back.
    #[must_use]
    pub fn recent(
        &self,
        topic: &TopicName,
        now: Duration,
        wait: Duration,
    ) -> Option<RawPartitionCount> {
        let before = {
            let mut asked = self.lock();
            let known = asked.get(topic).copied();
            if let Some(known) = known
                && now < known.at + SHARED_FOR
            {
                return known.answer;
            }
            // Taken before it is asked, so that other tasks do not ask the same meanwhile.
            let answer = known.and_then(|known| known.answer);
            asked.insert(topic.clone(), Asked { at: now, answer });
            answer
        };
        match self.fresh(topic, now, wait.min(SHORT_WAIT)) {
            Ok(count) => Some(count),
            Err(error) => {
                tracing::debug!(%topic, %error, "the partition count could not be read");
                before
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Says one answer after the other; none: nobody answers.
    #[derive(Debug)]
    struct Answers(Mutex<VecDeque<Option<u32>>>);

    impl PartitionCounts for Answers {
        fn count(&self, topic: &TopicName, _: Duration) -> Result<RawPartitionCount, KafkaError> {
            match self.0.lock().unwrap().pop_front().unwrap() {
                Some(count) => Ok(count.try_into().unwrap()),
                None => Err(KafkaError::TopicMissing {
                    topic: topic.clone(),
                }),
            }
        }
    }

    #[test]
    fn one_question_a_second_and_topic_and_a_lost_answer_is_no_answer() {
        let answers = [Some(4), Some(4), None, Some(8), Some(9)];
        let watch = CountWatch::new(Arc::new(Answers(Mutex::new(answers.into()))));
        let topic: TopicName = "in".parse().unwrap();
        let at = |ms| {
            watch
                .recent(&topic, Duration::from_millis(ms), SHORT_WAIT)
                .map(RawPartitionCount::get)
        };
        let answers: Vec<Option<u32>> = [0, 1, 999, 1_000, 2_000, 2_999, 3_000, 3_500]
            .into_iter()
            .map(at)
            .collect();
        // Asked at 0, 1000, 2000 (no answer) and 3000.
        let expected = [4, 4, 4, 4, 4, 4, 8, 8].map(Some);
        assert_eq!(answers, expected);
        let fresh = watch
            .fresh(&topic, Duration::from_millis(3_600), SHORT_WAIT)
            .unwrap();
        assert_eq!(fresh.get(), 9);
        assert_eq!(at(4_000), Some(9), "shared as well");
    }
}
