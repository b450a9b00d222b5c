//! What a change of the layout asks of the brokers.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use turbine_protocol::layout::Task;
use turbine_protocol::{AppId, GroupId, TopicName, TransactionalId};

/// What is to be known before a step of a change of the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutQuestion {
    pub app_id: AppId,
    /// Input topics of the subscriptions that run.
    pub topics: BTreeSet<TopicName>,
    /// Topics whose ends are asked for: reading those of all partitions takes a call for each.
    pub ends_of: BTreeSet<TopicName>,
    /// Tasks whose receipts are asked for, with the topic that each reads.
    pub receipts_of: BTreeMap<Task, TopicName>,
    /// Whether to ask about rights and retention.
    pub before_growth: bool,
}

/// A task whose right to commit is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealOrder {
    pub app_id: AppId,
    pub task: Task,
    pub topic: TopicName,
    /// The plan's epoch.
    pub epoch: i64,
}

impl SealOrder {
    pub(super) fn group(&self) -> GroupId {
        GroupId::of(&self.app_id, &self.task.subscription)
    }

    pub(super) fn transactional_id(&self) -> TransactionalId {
        TransactionalId::of(&self.app_id, &self.task.subscription, self.task.partition)
    }
}

/// What became of an order to seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealDone {
    /// The receipt carries this epoch now.
    Sealed,
    /// It carried this epoch before.
    Before,
    /// It carries a later one: this operator was deposed.
    TooLate { found: i64 },
}

/// What became of an order to grow a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grew {
    Now,
    Before,
}

/// What the brokers answered, in the order in which they were asked: the ends first, then the counts. So a
/// count that is still the old one proves that the ends were read before any growth.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerFacts {
    /// High watermark of each partition, by topic.
    pub ends: BTreeMap<String, Vec<i64>>,
    /// When they were asked for, before the first answer.
    pub ends_asked_at: Option<Timestamp>,
    /// Partition counts as each broker has them, by topic. Asked after the ends.
    pub counts: Vec<BTreeMap<String, i32>>,
    /// Brokers that did not answer.
    pub silent: u32,
    /// Committed receipts, by task, read when no transaction of the task was open.
    pub receipts: BTreeMap<Task, ReceiptFacts>,
    pub rights: KafkaRights,
    /// Milliseconds for which topics keep records; a topic without a bound is not in here.
    pub retention_ms: BTreeMap<String, u64>,
    /// When topics were last grown outside of the plan on record, if that is known.
    pub grown_at: BTreeMap<String, Timestamp>,
}

impl BrokerFacts {
    /// Whether every broker answered, and each of them this count.
    #[must_use]
    pub fn all_answer(&self, topic: &str, count: i32) -> bool {
        self.silent == 0
            && !self.counts.is_empty()
            && self.counts.iter().all(|of| of.get(topic) == Some(&count))
    }

    /// Whether a broker answered this count.
    #[must_use]
    pub fn any_answers(&self, topic: &str, count: i32) -> bool {
        self.counts.iter().any(|of| of.get(topic) == Some(&count))
    }

    /// The highest count that a broker answered: topics only grow.
    #[must_use]
    pub fn count(&self, topic: &str) -> Option<i32> {
        self.counts
            .iter()
            .filter_map(|of| of.get(topic))
            .max()
            .copied()
    }

    /// A count that is none of the two.
    #[must_use]
    pub fn third(&self, topic: &str, from: i32, to: i32) -> Option<i32> {
        self.counts
            .iter()
            .filter_map(|of| of.get(topic).copied())
            .find(|count| ![from, to].contains(count))
    }
}

/// What the operator's user may do at the brokers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KafkaRights {
    /// Topics that it may not alter.
    pub no_alter: BTreeSet<String>,
    /// Tasks whose transactional id it may not initialise.
    pub no_seal: BTreeSet<Task>,
}

/// The receipt in the committed offset of a task's own partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReceiptFacts {
    /// Its store epoch; of a sealed receipt, the epoch of the plan that sealed it.
    pub epoch: i64,
    pub sealed: bool,
    /// Number of the commit.
    pub number: i64,
    pub offset: i64,
}
