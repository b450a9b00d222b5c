//! What a replay would write, and where it ends.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use turbine_kafka::Origin;
use turbine_keygroups::{Partition, RawPartitionCount, partition_of};
use turbine_protocol::{LogBounds, Offset, TopicName};

use super::positions::Positions;
use super::topic::Stretches;
use crate::table::Table;

/// Why a dead letter cannot be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// Its value was too large for the dead-letter topic.
    NoValue,
    /// It does not say where it came from, or by a name that no topic has.
    NoSource,
}

/// Where a dead letter goes.
pub(super) fn target(origin: &Origin, to: Option<&TopicName>) -> Result<TopicName, LeftOut> {
    if origin.value_dropped.is_some() {
        return Err(LeftOut::NoValue);
    }
    match to {
        Some(to) => Ok(to.clone()),
        None => origin
            .topic
            .as_ref()
            .and_then(|topic| topic.parse().ok())
            .ok_or(LeftOut::NoSource),
    }
}

/// Records for one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    count: RawPartitionCount,
    by_partition: BTreeMap<Partition, u64>,
    without_key: u64,
}

impl Share {
    pub(super) fn new(count: RawPartitionCount) -> Self {
        Self {
            count,
            by_partition: BTreeMap::new(),
            without_key: 0,
        }
    }

    pub(super) fn add(&mut self, key: Option<&[u8]>) {
        match key {
            None => self.without_key += 1,
            Some(key) => {
                *self
                    .by_partition
                    .entry(partition_of(key, self.count))
                    .or_default() += 1
            }
        }
    }

    fn records(&self) -> u64 {
        self.by_partition.values().sum::<u64>() + self.without_key
    }
}

/// First and last offset of what was chosen in one partition of the dead-letter topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    first: Offset,
    last: Offset,
}

/// What a replay writes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) targets: BTreeMap<TopicName, Share>,
    pub(super) without_value: u64,
    pub(super) without_source: u64,
    chosen: BTreeMap<Partition, Span>,
    /// Where what was not looked at begins.
    next: BTreeMap<Partition, Offset>,
}

impl Plan {
    pub(super) fn over(stretches: &Stretches) -> Self {
        let next = stretches
            .iter()
            .map(|(partition, log)| (*partition, log.start()))
            .collect();
        Self {
            next,
            ..Self::default()
        }
    }

    pub(super) fn passed(&mut self, partition: Partition, offset: Offset) {
        self.next.insert(partition, offset.next());
    }

    pub(super) fn chose(&mut self, partition: Partition, offset: Offset) {
        let span = Span {
            first: offset,
            last: offset,
        };
        self.chosen.entry(partition).or_insert(span).last = offset;
    }

    pub(super) fn leave_out(&mut self, why: LeftOut) {
        match why {
            LeftOut::NoValue => self.without_value += 1,
            LeftOut::NoSource => self.without_source += 1,
        }
    }

    pub(super) fn records(&self) -> u64 {
        self.targets.values().map(Share::records).sum()
    }

    pub(super) fn left_out(&self) -> u64 {
        self.without_value + self.without_source
    }

    /// From the first to the last that was chosen.
    pub(super) fn stretches(&self) -> Stretches {
        self.chosen
            .iter()
            .filter_map(|(partition, span)| {
                let log = LogBounds::new(span.first, span.last.next()).ok()?;
                Some((*partition, log))
            })
            .collect()
    }

    pub(super) fn next(&self) -> Positions {
        Positions::By(self.next.clone())
    }

    /// Where to go on if, of what was chosen, the offsets below `reached` are done.
    pub(super) fn next_after(&self, reached: &BTreeMap<Partition, Offset>) -> Positions {
        let mut next = self.next.clone();
        for (partition, span) in &self.chosen {
            let done = reached.get(partition).copied().unwrap_or(span.first);
            if done <= span.last {
                next.insert(*partition, done);
            }
        }
        Positions::By(next)
    }

    /// The table of what goes where.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new(&["to topic", "partition", "records"]);
        for (topic, share) in &self.targets {
            for (partition, records) in &share.by_partition {
                table.row([
                    topic.to_string(),
                    partition.get().to_string(),
                    records.to_string(),
                ]);
            }
            if share.without_key > 0 {
                table.row([
                    topic.to_string(),
                    "no key".to_owned(),
                    share.without_key.to_string(),
                ]);
            }
        }
        if !self.targets.is_empty() {
            table.write(out)?;
        }
        self.write_left_out(out)
    }

    fn write_left_out(&self, out: &mut impl Write) -> io::Result<()> {
        if self.without_value > 0 {
            writeln!(
                out,
                "left out: {} whose value was too large for the dead-letter topic; take them from their source by offset (dlq list)",
                self.without_value
            )?;
        }
        if self.without_source > 0 {
            writeln!(
                out,
                "left out: {} that do not say which topic they came from; name one with --to",
                self.without_source
            )?;
        }
        Ok(())
    }

    /// Where in the dead-letter topic the chosen ones lie.
    pub(super) fn write_extent(&self, topic: &TopicName, out: &mut impl Write) -> io::Result<()> {
        for (partition, span) in &self.chosen {
            writeln!(
                out,
                "of {topic}/{}: first offset {}, last offset {}",
                partition.get(),
                span.first,
                span.last
            )?;
        }
        Ok(())
    }

    pub(super) fn json(&self, topic: &TopicName, written: Option<u64>) -> Value {
        let targets: Vec<Value> = self
            .targets
            .iter()
            .map(|(topic, share)| {
                let partitions: Vec<Value> = share
                    .by_partition
                    .iter()
                    .map(|(partition, records)| json!({"partition": partition.get(), "records": records}))
                    .collect();
                json!({
                    "topic": topic.as_str(),
                    "records": share.records(),
                    "withoutKey": share.without_key,
                    "perPartition": partitions,
                })
            })
            .collect();
        let chosen: Vec<Value> = self
            .chosen
            .iter()
            .map(|(partition, span)| {
                json!({"partition": partition.get(), "firstOffset": span.first.get(), "lastOffset": span.last.get()})
            })
            .collect();
        json!({
            "topic": topic.as_str(),
            "dryRun": written.is_none(),
            "records": self.records(),
            "written": written,
            "leftOut": {"withoutValue": self.without_value, "withoutSource": self.without_source},
            "targets": targets,
            "chosen": chosen,
            "next": self.next().to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: i32) -> Partition {
        number.try_into().unwrap()
    }

    fn offset(number: i64) -> Offset {
        number.try_into().unwrap()
    }

    fn log(start: i64, end: i64) -> LogBounds {
        LogBounds::new(offset(start), offset(end)).unwrap()
    }

    #[test]
    fn a_letter_goes_where_it_came_from_or_where_it_is_told_to() {
        let from = |topic: &str| Origin {
            topic: Some(topic.to_owned()),
            ..Origin::default()
        };
        let to: TopicName = "repair".parse().unwrap();
        assert_eq!(target(&from("in"), None).unwrap().as_str(), "in");
        assert_eq!(target(&from("in"), Some(&to)).unwrap(), to);
        assert_eq!(target(&Origin::default(), None), Err(LeftOut::NoSource));
        assert_eq!(target(&from("no topic"), None), Err(LeftOut::NoSource));
        assert_eq!(target(&Origin::default(), Some(&to)).unwrap(), to);
        let empty = Origin {
            value_dropped: Some(1),
            ..from("in")
        };
        assert_eq!(target(&empty, Some(&to)), Err(LeftOut::NoValue));
    }

    /// Partitions of 12 by the public vectors: `21` lies in 0, `abc` in 3, the empty key in 9.
    #[test]
    fn records_are_counted_where_murmur2_puts_them() {
        let mut plan = Plan::over(&Stretches::from([(partition(0), log(0, 10))]));
        let mut share = Share::new(12.try_into().unwrap());
        for key in [Some(&b"21"[..]), Some(b"21"), Some(b"abc"), Some(b""), None] {
            share.add(key);
        }
        plan.targets.insert("in".parse().unwrap(), share);
        plan.leave_out(LeftOut::NoValue);
        assert_eq!((plan.records(), plan.left_out()), (5, 1));
        let mut out = Vec::new();
        plan.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .take(5)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["in", "0", "2"]);
        assert_eq!(lines[2], ["in", "3", "1"]);
        assert_eq!(lines[3], ["in", "9", "1"]);
        assert_eq!(lines[4], ["in", "no", "key", "1"]);
        assert!(
            text.contains("left out: 1 whose value was too large"),
            "{text}"
        );
    }

    #[test]
    fn going_on_repeats_what_was_not_reached_and_no_more() {
        let stretches = Stretches::from([(partition(0), log(0, 10)), (partition(1), log(5, 9))]);
        let mut plan = Plan::over(&stretches);
        assert_eq!(plan.next().to_string(), "0:0,1:5");
        for at in 0..8 {
            plan.passed(partition(0), offset(at));
        }
        plan.chose(partition(0), offset(2));
        plan.chose(partition(0), offset(6));
        plan.passed(partition(1), offset(5));
        assert_eq!(plan.next().to_string(), "0:8,1:6");
        assert_eq!(
            plan.stretches(),
            Stretches::from([(partition(0), log(2, 7))])
        );
        let after = |reached: &[(i32, i64)]| {
            let reached = reached
                .iter()
                .map(|(at, next)| (partition(*at), offset(*next)))
                .collect();
            plan.next_after(&reached).to_string()
        };
        assert_eq!(after(&[]), "0:2,1:6");
        assert_eq!(after(&[(0, 6)]), "0:6,1:6");
        assert_eq!(after(&[(0, 7)]), "0:8,1:6");
    }
}
