//! Kafka as the operator needs it: who the cluster is, which topics it has, and making or removing those of an app.

mod client;
mod layout;
mod sealing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use async_trait::async_trait;
use thiserror::Error;
use turbine_crds::compiled::{CompiledKafka, KafkaSecretFile};
use turbine_protocol::{Category, Fault};

pub use client::LiveKafka;
pub use layout::{
    BrokerFacts, Grew, KafkaRights, LayoutQuestion, ReceiptFacts, SealDone, SealOrder,
};

/// How to reach an app's Kafka. Secrets stay in here and are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaAccess {
    pub kafka: CompiledKafka,
    pub secrets: Vec<(KafkaSecretFile, Vec<u8>)>,
}

impl fmt::Debug for KafkaAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaAccess")
            .field("bootstrap_servers", &self.kafka.bootstrap_servers)
            .finish_non_exhaustive()
    }
}

/// What the broker answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KafkaSeen {
    /// Identity of the cluster; two addresses of one cluster give one id.
    pub cluster_id: String,
    /// Partition counts of those topics that exist, of those asked for.
    pub counts: BTreeMap<String, i32>,
    /// How these keep their records.
    pub kept: BTreeMap<String, TopicKept>,
}

/// How a topic keeps its records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicKept {
    /// Copies of each partition; of the partition that has fewest.
    pub replication: u32,
    /// `None`: the app's user may not see the topic's settings.
    pub cleanup_policy: Option<String>,
}

/// A topic to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicWanted {
    pub name: String,
    pub partitions: i32,
    /// `None`: the broker's default.
    pub replication_factor: Option<i32>,
    pub config: BTreeMap<String, String>,
}

/// What came of the wish to make a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// This call made it.
    Now,
    /// It was there when the call came.
    Existed,
}

/// Why Kafka could not be asked, or did not do as asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct KafkaFault {
    pub reason: &'static str,
    /// What is wrong and what to do.
    pub message: String,
    pub category: Category,
    pub passes_by_itself: bool,
}

impl Fault for KafkaFault {
    fn category(&self) -> Category {
        self.category
    }

    fn reason(&self) -> &'static str {
        self.reason
    }

    fn passes_by_itself(&self) -> bool {
        self.passes_by_itself
    }
}

/// Every call ends within a deadline of its own, so that a dead broker blocks no other app.
#[async_trait]
pub trait KafkaView: Send + Sync + fmt::Debug {
    async fn look(
        &self,
        access: &KafkaAccess,
        topics: &BTreeSet<String>,
    ) -> Result<KafkaSeen, KafkaFault>;

    async fn create(
        &self,
        access: &KafkaAccess,
        topic: &TopicWanted,
    ) -> Result<Created, KafkaFault>;

    /// What a change of the layout rests on.
    async fn layout(
        &self,
        access: &KafkaAccess,
        question: &LayoutQuestion,
    ) -> Result<BrokerFacts, KafkaFault>;

    /// Grows a topic. Where no answer comes it may still be done.
    async fn grow(&self, access: &KafkaAccess, topic: &str, to: i32) -> Result<Grew, KafkaFault>;

    /// Ends a task's right to commit, at the offset that it committed last.
    async fn seal(&self, access: &KafkaAccess, order: &SealOrder) -> Result<SealDone, KafkaFault>;

    /// A topic that is gone already is no error.
    async fn delete(&self, access: &KafkaAccess, topic: &str) -> Result<(), KafkaFault>;
}
