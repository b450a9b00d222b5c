//! `turbine-cli placement verify`: reading a topic without a trace.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use turbine_kafka::{Admin, KafkaError, QueueBudget, TopicPresence, TopicScan};
use turbine_keygroups::Partition;
use turbine_protocol::{LogBounds, Offset, TopicName};

use super::tally::Tally;
use crate::broker::{BrokerError, Connection};
use crate::progress::Progress;

/// Memory for records that were fetched and not looked at yet.
const QUEUES: usize = 64 << 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// How much of a topic is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    All,
    /// At least one record of each partition that has any.
    Newest(u64),
}

/// A topic as it was read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) topic: TopicName,
    pub(super) tally: Tally,
    /// Offsets from the beginnings of the logs to their ends.
    pub(super) held: u64,
}

#[cfg(test)]
impl Found {
    /// Records by partition and key, as if they were read from `events`.
    pub(super) fn of(count: u32, records: &[(i32, Option<&[u8]>)]) -> Self {
        let mut tally = Tally::new(count.try_into().unwrap());
        for (offset, (partition, key)) in (0..).zip(records) {
            tally.add(Partition::try_from(*partition).unwrap(), offset, *key);
        }
        Self {
            topic: "events".parse().unwrap(),
            tally,
            held: records.len() as u64,
        }
    }
}

/// The part of each log that is read.
fn stretches(
    logs: &BTreeMap<Partition, LogBounds>,
    extent: Extent,
) -> BTreeMap<Partition, LogBounds> {
    let Extent::Newest(records) = extent else {
        return logs.clone();
    };
    // The shortest logs first: what they do not need of their share goes to the others.
    let mut by_length: Vec<(Partition, LogBounds)> = logs
        .iter()
        .map(|(partition, log)| (*partition, *log))
        .collect();
    by_length.sort_by_key(|(_, log)| length(*log));
    let (mut left, mut logs_left) = (records, by_length.len() as u64);
    by_length
        .into_iter()
        .map(|(partition, log)| {
            let share = (left / logs_left.max(1)).max(1).min(length(log));
            left = left.saturating_sub(share);
            logs_left -= 1;
            (partition, newest(log, share))
        })
        .collect()
}

fn length(log: LogBounds) -> u64 {
    log.end().since(log.start())
}

fn newest(log: LogBounds, records: u64) -> LogBounds {
    i64::try_from(records)
        .ok()
        .and_then(|records| Offset::try_from(log.end().get() - records).ok())
        .and_then(|start| LogBounds::new(start.max(log.start()), log.end()).ok())
        .unwrap_or(log)
}

pub(super) fn read(connection: &Connection, topic: &str, extent: Extent) -> anyhow::Result<Found> {
    let topic: TopicName = topic.parse()?;
    let settings = connection.settings()?;
    let told = |error: KafkaError| -> BrokerError { connection.told(error) };
    let timeout = connection.timeout();

    let admin = Admin::open(&settings).map_err(told)?;
    let layout = match admin.topic(&topic, timeout).map_err(told)? {
        TopicPresence::Present(layout) => layout,
        TopicPresence::Missing => {
            let topic = topic.clone();
            return Err(told(KafkaError::TopicMissing { topic }).into());
        }
    };
    let mut logs = BTreeMap::new();
    for partition in Partition::all(layout.partitions) {
        let log = admin.watermarks(&topic, partition, timeout).map_err(told)?;
        logs.insert(partition, log);
    }
    let stretches = stretches(&logs, extent);
    let mut tally = Tally::new(layout.partitions);
    let budget = QueueBudget::divided(2 * QUEUES, 1);
    let mut scan = TopicScan::open(&settings, &topic, &stretches, budget).map_err(told)?;
    let mut progress = Progress::of(
        format!("reading {topic}"),
        stretches.values().map(|log| length(*log)).sum(),
        io::stderr(),
    );
    let mut heard = Instant::now();
    while !scan.is_done() {
        let came = scan
            .read(BETWEEN_LOOKS, |record| {
                tally.add(record.partition, record.offset.get(), record.key);
            })
            .map_err(told)?;
        progress.reached(scan.passed());
        if came {
            heard = Instant::now();
        } else if heard.elapsed() >= timeout {
            return Err(told(scan.silence(timeout)).into());
        }
    }
    Ok(Found {
        topic,
        tally,
        held: logs.values().map(|log| length(*log)).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(bounds: &[(i64, i64)]) -> BTreeMap<Partition, LogBounds> {
        (0..)
            .zip(bounds)
            .map(|(at, (start, end))| {
                let start = Offset::try_from(*start).unwrap();
                let end = Offset::try_from(*end).unwrap();
                (
                    Partition::try_from(at).unwrap(),
                    LogBounds::new(start, end).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_sample_is_the_newest_records_shared_out() {
        let all = logs(&[(0, 1000), (500, 510), (7, 7), (0, 2000)]);
        // 10 of the second, none of the third, and half of the other 90 each.
        assert_eq!(
            stretches(&all, Extent::Newest(100)),
            logs(&[(955, 1000), (500, 510), (7, 7), (1955, 2000)])
        );
        assert_eq!(stretches(&all, Extent::Newest(1_000_000)), all);
        assert_eq!(stretches(&all, Extent::All), all);
    }

    #[test]
    fn a_small_sample_looks_at_every_partition() {
        let all = logs(&[(0, 10), (0, 10), (0, 10)]);
        assert_eq!(
            stretches(&all, Extent::Newest(1)),
            logs(&[(9, 10), (9, 10), (9, 10)])
        );
    }
}
