//! A dead-letter topic as it is read: committed records only, as a member of no group, without a trace at the broker.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use turbine_kafka::{
    Admin, KafkaError, KafkaSettings, QueueBudget, Seen, TopicPresence, TopicScan,
};
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{LogBounds, TopicName};

use super::DlqError;
use super::filter::Wanted;
use super::positions::Positions;
use crate::broker::Connection;
use crate::progress::Progress;

/// Memory for records that were fetched and not looked at yet.
const QUEUES: usize = 32 << 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

pub(super) type Stretches = BTreeMap<Partition, LogBounds>;

pub(super) struct DeadLetterTopic<'a> {
    connection: &'a Connection,
    pub(super) settings: KafkaSettings,
    pub(super) admin: Admin,
    pub(super) name: TopicName,
    /// The logs, from the first record that is there to the end as it was when the topic was opened: what is
    /// dead-lettered again while it is replayed lies behind.
    logs: Stretches,
}

impl<'a> DeadLetterTopic<'a> {
    pub(super) fn open(connection: &'a Connection, name: &TopicName) -> anyhow::Result<Self> {
        let settings = connection.settings()?;
        let told = |error| connection.told(error);
        let timeout = connection.timeout();
        let admin = Admin::open(&settings).map_err(told)?;
        let layout = match admin.topic(name, timeout).map_err(told)? {
            TopicPresence::Present(layout) => layout,
            TopicPresence::Missing => {
                let topic = name.clone();
                return Err(told(KafkaError::TopicMissing { topic }).into());
            }
        };
        let logs = Partition::all(layout.partitions)
            .map(|partition| {
                let log = admin.watermarks(name, partition, timeout)?;
                Ok((partition, log))
            })
            .collect::<Result<_, KafkaError>>()
            .map_err(told)?;
        Ok(Self {
            connection,
            settings,
            admin,
            name: name.clone(),
            logs,
        })
    }

    /// How many partitions another topic has now.
    pub(super) fn count_of(&self, topic: &TopicName) -> anyhow::Result<RawPartitionCount> {
        let found = self.admin.topic(topic, self.connection.timeout());
        match found.map_err(|error| self.connection.told(error))? {
            TopicPresence::Present(layout) => Ok(layout.partitions),
            TopicPresence::Missing => Err(DlqError::NoTarget(topic.clone()).into()),
        }
    }

    /// The parts of the logs where something wanted may lie, and how many records in front of them are gone.
    pub(super) fn stretches(
        &self,
        from: Option<&Positions>,
        wanted: &Wanted,
    ) -> anyhow::Result<(Stretches, u64)> {
        if let Some(partition) = from.and_then(|from| from.unknown(&self.logs)) {
            return Err(DlqError::NoPartition {
                topic: self.name.clone(),
                partition: partition.get(),
                count: self.logs.len(),
            }
            .into());
        }
        let mut gone = 0;
        let mut stretches = Stretches::new();
        for (partition, log) in &self.logs {
            let (mut rest, missing) = match from {
                None => (*log, 0),
                Some(from) => from.rest(*partition, *log),
            };
            gone += missing;
            if let Some(since) = wanted.since()
                && rest.start() < rest.end()
            {
                let timeout = self.connection.timeout();
                let found = self
                    .admin
                    .offset_at(&self.name, *partition, since, timeout)
                    .map_err(|error| self.connection.told(error))?;
                // All records from then on lie at or behind the first of them.
                let start = found.unwrap_or(rest.end()).clamp(rest.start(), rest.end());
                rest = LogBounds::new(start, rest.end())?;
            }
            stretches.insert(*partition, rest);
        }
        Ok((stretches, gone))
    }

    /// Hands the records of the stretches to `take` until all are read or it has `enough`.
    pub(super) fn read(
        &self,
        what: &str,
        stretches: &Stretches,
        mut take: impl FnMut(Seen<'_>) -> Next,
    ) -> anyhow::Result<()> {
        let told = |error| self.connection.told(error);
        let timeout = self.connection.timeout();
        let budget = QueueBudget::divided(2 * QUEUES, 1);
        let mut scan =
            TopicScan::open(&self.settings, &self.name, stretches, budget).map_err(told)?;
        let total = stretches.values().map(|log| length(*log)).sum();
        let mut progress = Progress::of(format!("{what} {}", self.name), total, io::stderr());
        let mut heard = Instant::now();
        let mut next = Next::GoOn;
        while !scan.is_done() && next == Next::GoOn {
            let came = scan
                .read(BETWEEN_LOOKS, |record| {
                    if next == Next::GoOn {
                        next = take(record);
                    }
                })
                .map_err(told)?;
            progress.reached(scan.passed());
            if came {
                heard = Instant::now();
            } else if heard.elapsed() >= timeout {
                return Err(told(scan.silence(timeout)).into());
            }
        }
        Ok(())
    }
}

/// Whether more records are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Enough,
}

pub(super) fn length(log: LogBounds) -> u64 {
    log.end().since(log.start())
}
