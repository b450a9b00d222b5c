//! Records in the wrong partition, and topics that grow.

use std::collections::BTreeSet;
use std::fmt;

use turbine_crds::app::PartitionHash;
use turbine_crds::compiled::CompiledSubscription;
use turbine_crds::control::TaskPlacement;
use turbine_engine::{Placement, PlacementCheck, RowFault};
use turbine_kafka::RecordBatch as Records;
use turbine_keygroups::{
    Lookalike, MisplacedRecord, Partition, RawPartitionCount, Suspicion, Verdict,
};
use turbine_protocol::Offset;

use super::error::TaskError;
use super::life::Life;
use super::look::{look, refused};
use super::setup::TaskSetup;
use super::stop::StopSignal;
use crate::control::assignment::count_refusal;
use crate::control::status::Step;
use crate::decode::{Misplaced, RecordFault};

/// Where the records of a task have to lie.
pub(super) fn placement(setup: &TaskSetup) -> Placement {
    Placement {
        partition: setup.plan.task.partition,
        count: setup.plan.partitions,
        check: if declared(&setup.subscription) {
            PlacementCheck::Enforce
        } else {
            PlacementCheck::Observe
        },
    }
}

pub(super) fn declared(subscription: &CompiledSubscription) -> bool {
    matches!(subscription.partition_hash, Some(PartitionHash::Murmur2))
}

/// A topic that has more partitions than the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    /// The input.
    pub topic: String,
    /// The task's partition.
    pub partition: Partition,
    /// Count of the layout.
    pub before: RawPartitionCount,
    /// Count at the broker.
    pub now: RawPartitionCount,
    /// The record in front of which the task stops, if one showed the growth.
    pub at: Option<Offset>,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            topic,
            partition,
            before,
            now,
            at,
        } = self;
        write!(
            f,
            "topic `{topic}` grew from {before} to {now} partitions while state is laid out for \
             {before}: keys have moved to other partitions. {topic}/{partition} stands "
        )?;
        match at {
            Some(at) => write!(
                f,
                "at offset {at}, in front of the first record that shows it, and everything \
                 before is committed"
            ),
            None => f.write_str("at its last commit"),
        }?;
        f.write_str(
            "; no record of the new placement touched state, and event time is held. Kafka takes \
             no partition back, and this version does not move state to another count. To go on, \
             give the subscription a new name and a `startFrom` after the growth (it begins \
             without state), or have the records written to a new topic of the count that you want",
        )?;
        match count_refusal(topic, *now) {
            Some(refusal) => write!(f, "; besides, {refusal}"),
            None => Ok(()),
        }
    }
}

/// A count that is not that of the layout.
pub(super) fn count_changed(
    setup: &TaskSetup,
    topic: &str,
    found: RawPartitionCount,
    at: Option<Offset>,
) -> TaskError {
    let expected = setup.plan.partitions;
    if found > expected {
        TaskError::TopicGrown(Growth {
            topic: topic.to_owned(),
            partition: setup.plan.task.partition,
            before: expected,
            now: found,
            at,
        })
    } else {
        TaskError::CountDiffers {
            topic: topic.to_owned(),
            expected: expected.get(),
            found: found.get(),
        }
    }
}

/// Misplaced keys of one life, for telling which client it was.
#[derive(Debug)]
pub(crate) struct Suspects {
    seen: BTreeSet<u32>,
    suspicion: Suspicion,
}

/// More keys would not tell more.
const MOST_SUSPECTS: usize = 100;

impl Suspects {
    fn new(count: RawPartitionCount) -> Self {
        Self {
            seen: BTreeSet::new(),
            suspicion: Suspicion::within_one_partition(count),
        }
    }

    /// What the keys look like, as soon as there are enough to tell. A record whose own key is
    /// another than its partition key was placed by that one, whatever the client.
    fn add(&mut self, misplaced: &Misplaced) -> Option<Lookalike> {
        if misplaced.record_key.as_ref() != Some(&misplaced.key)
            || self.seen.len() >= MOST_SUSPECTS
            || !self.seen.insert(misplaced.hash)
        {
            return None;
        }
        self.suspicion.add(&misplaced.key, misplaced.found);
        self.suspicion
            .looks_like()
            .filter(|client| *client != Lookalike::TooFewKeys)
    }
}

impl Life<'_> {
    /// Looks through the store for those who asked, and forgets the verdict if they say so.
    ///
    /// # Errors
    /// If a commit fails. A store that cannot be looked through is the askers' trouble alone.
    pub(super) fn answer_asks(&mut self, stop: &StopSignal) -> Result<(), TaskError> {
        for ask in self.cell.take_asks() {
            if self.open.is_some() {
                self.look_for_growth()?;
                self.commit(stop)?;
            }
            // What is looked through are the store's files.
            self.save()?;
            let mut found = self.look();
            if !ask.dry_run && found.refused.is_none() {
                self.pipeline.clear_verdict();
                self.suspects = None;
                self.touched(0);
                self.commit(stop)?;
                found.cleared = true;
                tracing::info!(
                    task = %self.cell.task(), verdict = %found.verdict, panes = found.panes,
                    foreign_panes = found.foreign_panes, "the placement verdict was cleared"
                );
                self.publish();
            }
            // Who asked may have gone.
            let _ = ask.answer.send(found);
        }
        Ok(())
    }

    fn look(&self) -> TaskPlacement {
        self.cell.enter(Step::Looking);
        let looked = look(&*self.store, &self.owners, &mut |_| {
            self.cell.enter(Step::Looking);
        });
        let found = looked.unwrap_or_else(|error| {
            let task = self.cell.task();
            let (subscription, partition) = (task.subscription.as_str(), task.partition.get());
            refused(subscription, partition, error.to_string())
        });
        TaskPlacement {
            verdict: self.pipeline.verdict(),
            misplaced_first: self.pipeline.first_misplaced().cloned(),
            ..found
        }
    }

    /// Asks whether the topic still has the count that the task's state is laid out for, before a
    /// record is called misplaced: the first record of a new placement looks the same.
    pub(super) fn confirm_count(&self, at: Offset) -> Result<(), TaskError> {
        let setup = self.setup;
        let now = setup.clock.monotonic();
        match setup
            .counts
            .fresh(&self.topic, now, setup.limits.broker_wait)
        {
            Ok(count) if count == setup.plan.partitions => Ok(()),
            Ok(count) => Err(count_changed(setup, self.topic.as_str(), count, Some(at))),
            Err(source) => Err(TaskError::CountUnknown {
                topic: self.topic.to_string(),
                partition: setup.plan.task.partition.get(),
                offset: at,
                source: Box::new(source),
            }),
        }
    }

    /// Whether the topic has grown. Where it grew to a multiple of its count no record of an old
    /// partition ever shows it, while the keys that left it go on elsewhere: event time must not
    /// go on here without them, so what is not committed is done again by whoever has them all.
    ///
    /// # Errors
    /// If it has.
    pub(crate) fn look_for_growth(&self) -> Result<(), TaskError> {
        let setup = self.setup;
        if !declared(&setup.subscription) {
            return Ok(());
        }
        let now = setup.clock.monotonic();
        match setup
            .counts
            .recent(&self.topic, now, setup.limits.broker_wait)
        {
            Some(count) if count != setup.plan.partitions => {
                Err(count_changed(setup, self.topic.as_str(), count, None))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The topic has not grown, so a record that lies wrong was put there by its producer.
    pub(super) fn condemn(&mut self, at: Offset, misplaced: &Misplaced) {
        if self.pipeline.verdict() == Verdict::Misplaced {
            return;
        }
        tracing::warn!(
            task = %self.cell.task(), topic = %self.topic, offset = %at, fault = %misplaced,
            "records lie in the wrong partition"
        );
        self.pipeline.condemn(MisplacedRecord {
            offset: at.get(),
            key_hash: misplaced.hash,
            belongs_to: misplaced.owner,
            looks_like: misplaced.likely_cause(),
        });
        // The verdict is state: it is committed though no record may be.
        self.touched(0);
    }

    /// One key more to tell the client by.
    pub(super) fn suspect(&mut self, misplaced: &Misplaced) {
        let count = self.setup.plan.partitions;
        let suspects = self.suspects.get_or_insert_with(|| Suspects::new(count));
        let Some(client) = suspects.add(misplaced) else {
            return;
        };
        let looks_like = format!("it looks like {client}");
        if self
            .pipeline
            .first_misplaced()
            .is_some_and(|first| first.looks_like != looks_like)
        {
            self.pipeline.misplaced_look_like(looks_like);
            self.touched(0);
        }
    }

    /// Rows that lie wrong were folded, since nobody declared the hash. Once the count is known to
    /// be the same, that is a verdict; until then each batch with such rows asks again.
    pub(super) fn observed(&mut self, rows: u64, at: Offset, misplaced: &Misplaced) {
        self.count_misplaced(rows);
        if self.pipeline.verdict() != Verdict::Misplaced && self.confirm_count(at).is_ok() {
            self.condemn(at, misplaced);
        }
        self.suspect(misplaced);
    }

    pub(super) fn count_misplaced(&self, records: u64) {
        if records > 0 {
            self.metrics.misplaced.inc_by(records);
            self.cell.update(|status| status.misplaced += records);
        }
    }

    /// The fault of a record in the words that users see.
    pub(super) fn record_fault(
        &self,
        records: &Records,
        record: usize,
        fault: RowFault,
    ) -> RecordFault {
        match fault {
            RowFault::Misplaced { key, hash, owner } => RecordFault::Misplaced(Misplaced {
                key,
                hash,
                owner,
                found: self.setup.plan.task.partition,
                count: self.setup.plan.partitions,
                record_key: records.key(record).map(<[u8]>::to_vec),
            }),
            other => other.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(6, Some(17), "events/2 stands at offset 17, in front of", false)]
    #[case(8, None, "events/2 stands at its last commit", false)]
    #[case(7, None, "the nearest valid counts are 6 and 8", true)]
    fn a_growth_says_what_happened_and_what_to_do(
        #[case] now: u32,
        #[case] at: Option<i64>,
        #[case] words: &str,
        #[case] invalid: bool,
    ) {
        let text = Growth {
            topic: "events".to_owned(),
            partition: 2.try_into().unwrap(),
            before: 4_u32.try_into().unwrap(),
            now: now.try_into().unwrap(),
            at: at.map(|at| at.try_into().unwrap()),
        }
        .to_string();
        let begin = format!("topic `events` grew from 4 to {now} partitions");
        assert!(text.starts_with(&begin), "{text}");
        for words in [words, "event time is held", "a new name"] {
            assert!(text.contains(words), "{words} is not in: {text}");
        }
        assert_eq!(text.contains("960"), invalid, "{text}");
    }
}
