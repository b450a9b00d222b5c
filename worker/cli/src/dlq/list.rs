//! `turbine-cli dlq list`.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;

use jiff::Timestamp;
use serde_json::Value;
use turbine_kafka::Origin;
use turbine_keygroups::Partition;
use turbine_protocol::{LogBounds, Offset, TopicName};

use super::filter::Wanted;
use super::letter::Letter;
use super::positions::Positions;
use super::topic::{DeadLetterTopic, Next, Stretches};
use super::{ListArgs, note_gone};
use crate::Verdict;
use crate::placement::Output;
use crate::table::Table;

/// Bytes of keys and values in a table.
const CELL: usize = 60;
/// How many offsets of a partition are read at first to find the newest, and by how much the next look is longer.
const FIRST_LOOK: u64 = 1_000;
const LONGER: u64 = 8;

/// Letters of each partition, in their order.
type Kept = BTreeMap<Partition, VecDeque<Letter>>;

pub(super) fn run(
    arguments: ListArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let ListArgs {
        source,
        limit,
        max_bytes,
        output,
    } = arguments;
    let limit = usize::try_from(limit)?;
    let name: TopicName = source.topic.parse()?;
    let wanted = source.filter.at(Timestamp::now().as_millisecond());
    let topic = DeadLetterTopic::open(&source.connection, &name)?;
    let (stretches, gone) = topic.stretches(source.from.as_ref(), &wanted)?;
    note_gone(gone, &name, err)?;
    let (letters, next) = if source.from.is_some() {
        first(&topic, &wanted, &stretches, limit)?
    } else {
        (newest(&topic, &wanted, &stretches, limit)?, None)
    };
    match output {
        Output::Json => {
            let most = max_bytes.unwrap_or(usize::MAX);
            let all: Vec<Value> = letters.iter().map(|letter| letter.json(most)).collect();
            serde_json::to_writer_pretty(&mut *out, &all)?;
            writeln!(out)?;
        }
        Output::Text => write(&name, &letters, max_bytes.unwrap_or(CELL), next, out)?,
    }
    Ok(Verdict::Good)
}

fn write(
    topic: &TopicName,
    letters: &[Letter],
    most: usize,
    next: Option<Positions>,
    out: &mut impl Write,
) -> std::io::Result<()> {
    if letters.is_empty() {
        return writeln!(out, "topic `{topic}` has no such dead letter");
    }
    let mut table = Table::of_text(&[
        "at",
        "written",
        "from",
        "subscription",
        "phase",
        "key",
        "value",
        "reason",
    ]);
    for letter in letters {
        table.row(letter.cells(most));
    }
    table.write(out)?;
    if let Some(next) = next {
        writeln!(out, "\nmore follow: --from {next}")?;
    }
    Ok(())
}

fn oldest_first(kept: Kept) -> Vec<Letter> {
    let mut letters: Vec<Letter> = kept.into_values().flatten().collect();
    letters.sort_by_key(Letter::order);
    letters
}

/// The newest `limit` that are wanted. A partition is read backwards, look by look, until it has given as many or ends.
fn newest(
    topic: &DeadLetterTopic<'_>,
    wanted: &Wanted,
    stretches: &Stretches,
    limit: usize,
) -> anyhow::Result<Vec<Letter>> {
    let mut kept = Kept::new();
    let mut open: BTreeMap<Partition, LogBounds> = stretches.clone();
    let mut look = FIRST_LOOK.max(limit as u64);
    while !open.is_empty() {
        let (now, rest) = last_of(&open, look)?;
        let mut found = Kept::new();
        topic.read("reading", &now, |seen| {
            let origin = Origin::of(seen.headers.clone());
            if wanted.fits(&origin, seen.time) {
                let of = found.entry(seen.partition).or_default();
                of.push_back(Letter::of(&seen, origin));
                if of.len() > limit {
                    of.pop_front();
                }
            }
            Next::GoOn
        })?;
        for (partition, mut older) in found {
            let of = kept.entry(partition).or_default();
            older.append(of);
            older.drain(..older.len().saturating_sub(limit));
            *of = older;
        }
        let short = |partition: &Partition| kept.get(partition).map_or(0, VecDeque::len) < limit;
        open = rest
            .into_iter()
            .filter(|(partition, log)| log.start() < log.end() && short(partition))
            .collect();
        look = look.saturating_mul(LONGER);
    }
    let mut letters = oldest_first(kept);
    letters.drain(..letters.len().saturating_sub(limit));
    Ok(letters)
}

/// The last `look` offsets of each, and what lies before them.
fn last_of(open: &Stretches, look: u64) -> anyhow::Result<(Stretches, Stretches)> {
    let (mut now, mut rest) = (Stretches::new(), Stretches::new());
    for (partition, log) in open {
        let at = log.end().get() - i64::try_from(look).unwrap_or(i64::MAX);
        let middle = Offset::try_from(at.max(log.start().get()))?;
        now.insert(*partition, LogBounds::new(middle, log.end())?);
        rest.insert(*partition, LogBounds::new(log.start(), middle)?);
    }
    Ok((now, rest))
}

/// The first `limit` that are wanted, and where those that follow begin.
fn first(
    topic: &DeadLetterTopic<'_>,
    wanted: &Wanted,
    stretches: &Stretches,
    limit: usize,
) -> anyhow::Result<(Vec<Letter>, Option<Positions>)> {
    let mut kept = Kept::new();
    // The first offset of each partition that was not looked at, and whether something wanted lies there or behind.
    let mut next: BTreeMap<Partition, Offset> = stretches
        .iter()
        .map(|(partition, log)| (*partition, log.start()))
        .collect();
    let mut full: BTreeMap<Partition, bool> = BTreeMap::new();
    topic.read("reading", stretches, |seen| {
        if full.contains_key(&seen.partition) {
            return Next::GoOn;
        }
        let origin = Origin::of(seen.headers.clone());
        if wanted.fits(&origin, seen.time) {
            let of = kept.entry(seen.partition).or_default();
            if of.len() == limit {
                full.insert(seen.partition, true);
                return if full.len() == stretches.len() {
                    Next::Enough
                } else {
                    Next::GoOn
                };
            }
            of.push_back(Letter::of(&seen, origin));
        }
        next.insert(seen.partition, seen.offset.next());
        Next::GoOn
    })?;
    let mut letters = oldest_first(kept);
    let behind = letters.split_off(letters.len().min(limit));
    for letter in &behind {
        if let Some(at) = next.get_mut(&letter.partition) {
            *at = (*at).min(letter.offset);
        }
    }
    let more = !behind.is_empty() || !full.is_empty();
    Ok((letters, more.then_some(Positions::By(next))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_backwards_leave_nothing_out_and_read_nothing_twice() {
        let log = |start: i64, end: i64| {
            LogBounds::new(start.try_into().unwrap(), end.try_into().unwrap()).unwrap()
        };
        let partition = |number: i32| Partition::try_from(number).unwrap();
        let mut open = Stretches::from([(partition(0), log(3, 25)), (partition(1), log(0, 4))]);
        let mut read: Vec<(i32, i64, i64)> = Vec::new();
        for look in [10, 20] {
            let (now, rest) = last_of(&open, look).unwrap();
            read.extend(
                now.iter()
                    .map(|(partition, log)| (partition.get(), log.start().get(), log.end().get())),
            );
            open = rest;
        }
        assert_eq!(read, [(0, 15, 25), (1, 0, 4), (0, 3, 15), (1, 0, 0)]);
        assert!(open.values().all(|log| log.start() == log.end()));
    }
}
