//! The calls behind a change of the layout. They block.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use turbine_kafka::{
    Admin, CommitOutcome, CommittedOffset, KafkaError, KafkaSettings, QueueBudget, TopicPresence,
    Transactions,
};
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::epochs::LayoutEpoch;
use turbine_protocol::rescale::seal::{GroupReceipt, SealedReceipt, Sealing, seal as judge};
use turbine_protocol::{Category, GroupId, Offset, SubscriptionName, TopicName};

use super::KafkaFault;
use super::client::CALL;
use super::layout::{BrokerFacts, LayoutQuestion, ReceiptFacts, SealDone, SealOrder};

/// Longest wait for all brokers together to answer a count.
const ALL_BROKERS: Duration = Duration::from_secs(10);
/// Taking an id over ends the transaction that its task left open, and that may take a moment.
const TAKE_OVER: Duration = Duration::from_secs(20);
/// Tries of a commit of which nothing is known.
const COMMIT_TRIES: usize = 3;
/// The least that a producer can be given: it writes no records.
const QUEUE_BYTES: usize = 0;

/// Asks what the question names: receipts and ends first, counts last.
pub(super) fn facts(admin: &Admin, question: &LayoutQuestion) -> Result<BrokerFacts, KafkaError> {
    let receipts = receipts(admin, question)?;
    let ends_asked_at = Timestamp::now();
    let mut ends = BTreeMap::new();
    for topic in &question.ends_of {
        if let TopicPresence::Present(layout) = admin.topic(topic, CALL)? {
            ends.insert(topic.to_string(), ends_of(admin, topic, layout.partitions)?);
        }
    }
    let topics: Vec<TopicName> = question.topics.iter().cloned().collect();
    let mut facts = BrokerFacts {
        ends,
        ends_asked_at: Some(ends_asked_at),
        receipts,
        ..BrokerFacts::default()
    };
    if question.before_growth {
        for topic in admin.not_alterable(&topics, CALL)? {
            facts.rights.no_alter.insert(topic.to_string());
        }
        for topic in &topics {
            if let Some(kept) = retention_ms(admin, topic)? {
                facts.retention_ms.insert(topic.to_string(), kept);
            }
        }
    }
    let counts = admin.counts_by_broker(&topics, ALL_BROKERS)?;
    facts.silent = counts.silent;
    facts.counts = counts
        .answers
        .into_iter()
        .map(|answer| {
            let counts = answer.into_iter().map(|(topic, count)| {
                (
                    topic.to_string(),
                    i32::try_from(count.get()).unwrap_or(i32::MAX),
                )
            });
            counts.collect()
        })
        .collect();
    Ok(facts)
}

fn ends_of(
    admin: &Admin,
    topic: &TopicName,
    count: RawPartitionCount,
) -> Result<Vec<i64>, KafkaError> {
    (0..count.get())
        .filter_map(|partition| Partition::try_from(i32::try_from(partition).ok()?).ok())
        .map(|partition| {
            let bounds = admin.watermarks(topic, partition, CALL)?;
            Ok(bounds.end().get())
        })
        .collect()
}

/// How long a topic keeps records; none if for ever, or if settings may not be seen.
fn retention_ms(admin: &Admin, topic: &TopicName) -> Result<Option<u64>, KafkaError> {
    let config = match admin.topic_config(topic, CALL) {
        Ok(config) => config,
        Err(error) if error.is_without_answer() => return Err(error),
        Err(error) => {
            tracing::debug!(%topic, %error, "how long its records are kept is not known");
            return Ok(None);
        }
    };
    let deletes = config
        .get("cleanup.policy")
        .is_none_or(|policy| policy.split(',').any(|of| of.trim() == "delete"));
    let kept = config.get("retention.ms");
    // -1 is for ever.
    Ok(kept.filter(|_| deletes).and_then(|text| text.parse().ok()))
}

fn receipts(
    admin: &Admin,
    question: &LayoutQuestion,
) -> Result<BTreeMap<turbine_protocol::Task, ReceiptFacts>, KafkaError> {
    let groups: BTreeSet<(&SubscriptionName, &TopicName)> = question
        .receipts_of
        .iter()
        .map(|(task, topic)| (&task.subscription, topic))
        .collect();
    let mut found = BTreeMap::new();
    for (subscription, topic) in groups {
        let TopicPresence::Present(layout) = admin.topic(topic, CALL)? else {
            continue;
        };
        let group = GroupId::of(&question.app_id, subscription);
        // An offset that waits for a transaction is not known yet; the others are.
        let all = match admin.committed(&group, topic, layout.partitions, CALL) {
            Ok(all) => all,
            Err(KafkaError::OffsetPending { .. }) => {
                one_by_one(admin, &group, topic, layout.partitions)?
            }
            Err(error) => return Err(error),
        };
        for (partition, committed) in (0..).zip(all) {
            let task = question.receipts_of.keys().find(|task| {
                task.subscription == *subscription && i32::from(task.partition) == partition
            });
            if let (Some(task), Some(facts)) = (task, committed.as_ref().and_then(read)) {
                found.insert(task.clone(), facts);
            }
        }
    }
    Ok(found)
}

fn one_by_one(
    admin: &Admin,
    group: &GroupId,
    topic: &TopicName,
    count: RawPartitionCount,
) -> Result<Vec<Option<CommittedOffset>>, KafkaError> {
    (0..count.get())
        .filter_map(|partition| Partition::try_from(i32::try_from(partition).ok()?).ok())
        .map(
            |partition| match admin.committed_at(group, topic, partition, CALL) {
                Err(KafkaError::OffsetPending { .. }) => Ok(None),
                answer => answer,
            },
        )
        .collect()
}

/// Metadata that is no receipt is somebody else's, and says nothing.
fn read(committed: &CommittedOffset) -> Option<ReceiptFacts> {
    let receipt: GroupReceipt = committed.metadata.parse().ok()?;
    let (epoch, sealed, last) = match receipt {
        GroupReceipt::Open(last) => (last.store_epoch.layout().get(), false, last),
        GroupReceipt::Sealed(SealedReceipt { sealed_by, last }) => (sealed_by.get(), true, last),
    };
    Some(ReceiptFacts {
        epoch,
        sealed,
        number: last.number.get(),
        offset: committed.offset.get(),
    })
}

fn not_sealed(order: &SealOrder, reason: &'static str, why: String) -> KafkaFault {
    KafkaFault {
        reason,
        message: format!("task {} cannot be fenced: {why}", order.task),
        category: Category::Kafka,
        passes_by_itself: true,
    }
}

/// Takes a task's transactional id over and commits its last receipt sealed.
///
/// # Errors
/// The outer: the broker did not answer or refused. The inner: what it answered is no receipt of a task.
pub(super) fn seal(
    admin: &Admin,
    settings: &KafkaSettings,
    order: &SealOrder,
) -> Result<Result<SealDone, KafkaFault>, KafkaError> {
    let epoch = match LayoutEpoch::try_from(order.epoch) {
        Ok(epoch) => epoch,
        Err(error) => return Ok(Err(not_sealed(order, "OperatorDefect", error.to_string()))),
    };
    let look = || -> Result<Result<(Offset, Sealing), KafkaFault>, KafkaError> {
        let found = admin.committed_at(&order.group(), &order.topic, order.task.partition, CALL)?;
        let Some(found) = found else {
            let why = "the group has no offset of its partition; start the app's workers once before its layout is changed";
            return Ok(Err(not_sealed(order, "ReceiptMissing", why.to_owned())));
        };
        Ok(match found.metadata.parse::<GroupReceipt>() {
            Ok(receipt) => Ok((found.offset, judge(receipt, epoch))),
            Err(error) => Err(not_sealed(order, "ReceiptUnreadable", error.to_string())),
        })
    };
    // Whoever was deposed does not even take the id.
    match look() {
        Ok(Ok((_, Sealing::Done))) => return Ok(Ok(SealDone::Before)),
        Ok(Ok((_, Sealing::TooLate { found }))) => {
            return Ok(Ok(SealDone::TooLate { found: found.get() }));
        }
        Ok(Ok((_, Sealing::Commit(_)))) => {}
        Ok(Err(fault)) => return Ok(Err(fault)),
        // The transaction that a task left open holds its offset back; taking the id over ends it.
        Err(KafkaError::OffsetPending { .. }) => {}
        Err(error) => return Err(error),
    }
    let transactions = Transactions::of(
        order.transactional_id(),
        order.group(),
        order.topic.clone(),
        order.task.partition,
    );
    let producer = transactions.producer(settings, QueueBudget::divided(QUEUE_BYTES, 1))?;
    transactions.take_over(&producer, TAKE_OVER)?;
    let (offset, sealed) = match look()? {
        Ok((offset, Sealing::Commit(sealed))) => (offset, sealed),
        Ok((_, Sealing::Done)) => return Ok(Ok(SealDone::Before)),
        Ok((_, Sealing::TooLate { found })) => {
            return Ok(Ok(SealDone::TooLate { found: found.get() }));
        }
        Err(fault) => return Ok(Err(fault)),
    };
    transactions.begin(&producer)?;
    transactions.send_seal(&producer, offset, &sealed, CALL)?;
    let mut last = None;
    for _ in 0..COMMIT_TRIES {
        match transactions.commit(&producer, CALL) {
            CommitOutcome::Committed => return Ok(Ok(SealDone::Sealed)),
            CommitOutcome::Unknown(error) => last = Some(error),
            CommitOutcome::Failed(error) => {
                last = Some(error);
                break;
            }
        }
    }
    // Whether it was committed the next look at the receipt tells.
    let why = last.map_or_else(|| "no answer".to_owned(), |error| error.to_string());
    Ok(Err(not_sealed(order, "SealUnknown", why)))
}
