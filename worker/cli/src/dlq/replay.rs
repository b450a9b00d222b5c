//! `turbine-cli dlq replay`.

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use turbine_kafka::{
    KafkaError, Origin, OutputProducer, OutputTopic, QueueBudget, Seen, without_ours,
};
use turbine_keygroups::Partition;
use turbine_protocol::{Offset, TopicName};

use super::filter::Wanted;
use super::plan::{Plan, Share, target};
use super::topic::{DeadLetterTopic, Next, Stretches};
use super::{DlqError, ReplayArgs, note_gone};
use crate::Verdict;
use crate::broker::Connection;
use crate::placement::Output;

/// Memory for records that are not acknowledged yet.
const QUEUES: usize = 32 << 20;
/// How much is written at most twice if it is broken off.
const CHUNK_RECORDS: usize = 1_000;
const CHUNK_BYTES: usize = 1 << 20;
/// For the broker to acknowledge what it was given; a leader may have to be elected.
const FLUSH: Duration = Duration::from_mins(2);

pub(super) fn run(
    arguments: ReplayArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let ReplayArgs {
        source,
        to,
        limit,
        dry_run,
        yes,
        output,
    } = arguments;
    if !dry_run && !yes && !io::stdin().is_terminal() {
        return Err(DlqError::NobodyToAsk.into());
    }
    let name: TopicName = source.topic.parse()?;
    let wanted = source.filter.at(Timestamp::now().as_millisecond());
    let topic = DeadLetterTopic::open(&source.connection, &name)?;
    let (stretches, gone) = topic.stretches(source.from.as_ref(), &wanted)?;
    note_gone(gone, &name, err)?;
    let choice = Choice {
        wanted: &wanted,
        to: to.as_ref(),
    };
    let plan = plan(&topic, &choice, &stretches, limit)?;
    let verdict = if plan.left_out() > 0 {
        Verdict::Bad
    } else {
        Verdict::Good
    };
    if dry_run || plan.records() == 0 {
        match output {
            Output::Json => writeln!(out, "{}", plan.json(&name, None))?,
            Output::Text => {
                plan.write(out)?;
                plan.write_extent(&name, out)?;
                writeln!(out, "{} records would be written", plan.records())?;
            }
        }
        return Ok(verdict);
    }
    if !yes {
        plan.write(err)?;
        confirm(plan.records(), err)?;
    }
    let (written, refused) = write(&topic, &source.connection, &choice, &plan)?;
    for (at, error) in refused.iter().take(1) {
        writeln!(
            err,
            "note: {} records were not taken, the first at {at}: {error}",
            refused.len()
        )?;
    }
    match output {
        Output::Json => writeln!(out, "{}", plan.json(&name, Some(written)))?,
        Output::Text => {
            plan.write(out)?;
            plan.write_extent(&name, out)?;
            writeln!(
                out,
                "{written} records written; the dead letters stay, go on behind them with --from {}",
                plan.next()
            )?;
        }
    }
    Ok(if refused.is_empty() {
        verdict
    } else {
        Verdict::Bad
    })
}

/// Which dead letters, and where to.
struct Choice<'a> {
    wanted: &'a Wanted,
    to: Option<&'a TopicName>,
}

/// Reads what is wanted and counts where it would go.
fn plan(
    topic: &DeadLetterTopic<'_>,
    choice: &Choice<'_>,
    stretches: &Stretches,
    limit: Option<u64>,
) -> anyhow::Result<Plan> {
    let mut plan = Plan::over(stretches);
    let mut failed = None;
    topic.read("looking at", stretches, |seen| {
        match count_in(&mut plan, topic, choice, &seen) {
            Err(error) => {
                failed = Some(error);
                Next::Enough
            }
            Ok(()) if limit.is_some_and(|limit| plan.records() >= limit) => Next::Enough,
            Ok(()) => Next::GoOn,
        }
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(plan),
    }
}

fn count_in(
    plan: &mut Plan,
    topic: &DeadLetterTopic<'_>,
    choice: &Choice<'_>,
    seen: &Seen<'_>,
) -> anyhow::Result<()> {
    plan.passed(seen.partition, seen.offset);
    let origin = Origin::of(seen.headers.clone());
    if !choice.wanted.fits(&origin, seen.time) {
        return Ok(());
    }
    match target(&origin, choice.to) {
        Err(why) => plan.leave_out(why),
        Ok(to) if to == topic.name => return Err(DlqError::Circle(to).into()),
        Ok(to) => {
            if !plan.targets.contains_key(&to) {
                let share = Share::new(topic.count_of(&to)?);
                plan.targets.insert(to.clone(), share);
            }
            if let Some(share) = plan.targets.get_mut(&to) {
                share.add(seen.key);
            }
            plan.chose(seen.partition, seen.offset);
        }
    }
    Ok(())
}

fn confirm(records: u64, err: &mut impl Write) -> anyhow::Result<()> {
    write!(err, "write these {records} records? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(DlqError::NotConfirmed.into()),
    }
}

/// Records that the target does not take, by their place in the dead-letter topic.
type Refused = Vec<(String, KafkaError)>;

struct Writer<'a> {
    connection: &'a Connection,
    producer: OutputProducer,
    targets: BTreeMap<TopicName, OutputTopic>,
    refused: Refused,
    written: u64,
    /// Written and not known to be acknowledged.
    pending: u64,
    pending_bytes: usize,
    passed: BTreeMap<Partition, Offset>,
    /// What lies before is acknowledged.
    reached: BTreeMap<Partition, Offset>,
}

impl Writer<'_> {
    fn take(&mut self, choice: &Choice<'_>, seen: &Seen<'_>) -> anyhow::Result<()> {
        let origin = Origin::of(seen.headers.clone());
        if choice.wanted.fits(&origin, seen.time)
            && let Ok(to) = target(&origin, choice.to)
            && let Some(topic) = self.targets.get(&to)
        {
            let headers = without_ours(seen.headers.clone());
            match self
                .producer
                .produce_record(topic, seen.key, seen.value, headers)
            {
                Ok(()) => {
                    self.pending += 1;
                    let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
                    self.pending_bytes += size(seen.key) + size(seen.value);
                }
                Err(error @ KafkaError::RecordTooLarge { .. }) => {
                    let at = format!("{}:{}", seen.partition.get(), seen.offset);
                    self.refused.push((at, error));
                }
                Err(error) => return Err(self.connection.told(error).into()),
            }
        }
        self.passed.insert(seen.partition, seen.offset.next());
        let full = self.pending >= CHUNK_RECORDS as u64 || self.pending_bytes >= CHUNK_BYTES;
        if full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.producer
            .flush_acked(Instant::now() + FLUSH)
            .map_err(|error| self.connection.told(error))?;
        self.written += std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        self.reached.clone_from(&self.passed);
        Ok(())
    }
}

fn write(
    topic: &DeadLetterTopic<'_>,
    connection: &Connection,
    choice: &Choice<'_>,
    plan: &Plan,
) -> anyhow::Result<(u64, Refused)> {
    let told = |error| connection.told(error);
    let budget = QueueBudget::divided(2 * QUEUES, 1);
    let producer = OutputProducer::open(&topic.settings, budget).map_err(told)?;
    let mut targets = BTreeMap::new();
    for name in plan.targets.keys() {
        let target = producer.topic(name, connection.timeout()).map_err(told)?;
        targets.insert(name.clone(), target);
    }
    let mut writer = Writer {
        connection,
        producer,
        targets,
        refused: Vec::new(),
        written: 0,
        pending: 0,
        pending_bytes: 0,
        passed: BTreeMap::new(),
        reached: BTreeMap::new(),
    };
    let interrupted = watch_for_interrupt()?;
    let mut failed = None;
    let read = topic.read("replaying", &plan.stretches(), |seen| {
        if let Err(error) = writer.take(choice, &seen) {
            failed = Some(error);
        }
        if failed.is_some() || interrupted.load(Ordering::Relaxed) {
            Next::Enough
        } else {
            Next::GoOn
        }
    });
    let done = match (failed, read) {
        (Some(error), _) => Err(error),
        // What was given to the client before reading failed is waited for all the same.
        (None, read) => writer.flush().and(read),
    };
    let next = plan.next_after(&writer.reached);
    let written = writer.written;
    match done {
        Err(error) => Err(DlqError::Broken {
            error,
            written,
            next,
        }
        .into()),
        Ok(()) if interrupted.load(Ordering::Relaxed) && next != plan.next() => {
            Err(DlqError::Interrupted { written, next }.into())
        }
        Ok(()) => Ok((written, writer.refused)),
    }
}

/// Set at the first Ctrl-C, so that it can be told where to go on; the second ends the program at once.
fn watch_for_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&interrupted);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    if seen.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                }
            });
        })?;
    Ok(interrupted)
}
