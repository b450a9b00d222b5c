//! `turbine-cli produce`: records to where murmur2 puts their keys.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use thiserror::Error;
use turbine_kafka::{OutputBatch, OutputProducer, OutputTopic, QueueBudget};
use turbine_keygroups::{PartitionCount, RawPartitionCount};
use turbine_protocol::TopicName;

use crate::Verdict;
use crate::broker::{BrokerError, Connection};
use crate::documents::label;
use crate::keys::KeyForm;
use crate::placement::Output;

mod lines;

use lines::{LineError, LineForm};

/// Memory for records that are not acknowledged yet.
const QUEUES: usize = 32 << 20;
const BATCH_RECORDS: usize = 10_000;
const BATCH_BYTES: usize = 1 << 20;
/// For the broker to acknowledge what it was given; a leader may have to be elected.
const LAST_FLUSH: Duration = Duration::from_mins(2);

#[derive(Debug, Args)]
pub(crate) struct ProduceArgs {
    #[command(flatten)]
    connection: Connection,
    /// Topic to write to; it must exist
    #[arg(long)]
    topic: String,
    /// Lines are JSON objects, written as they are; this field is the key: a string, an integer or a truth value
    #[arg(long, value_name = "NAME")]
    key_field: Option<String>,
    #[command(flatten)]
    form: KeyForm,
    /// File with one record per line; `-` is the standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Error)]
enum ProduceError {
    #[error("{place}: cannot be read: {error}; check the path and its rights")]
    Io { place: String, error: io::Error },
    #[error(
        "{place}: holds no record; write lines of key<TAB>value, or JSON objects with --key-field"
    )]
    Empty { place: String },
    #[error("{place} line {line}: {error} ({written} records in front of it were written)")]
    Line {
        place: String,
        line: u64,
        error: LineError,
        written: u64,
    },
    #[error("{place} line {line}: {error} ({written} other records were written)")]
    Refused {
        place: String,
        line: u64,
        error: BrokerError,
        written: u64,
    },
}

struct Writer<'a> {
    connection: &'a Connection,
    producer: OutputProducer,
    topic: OutputTopic,
    batch: OutputBatch,
    place: String,
    written: u64,
}

impl Writer<'_> {
    fn send(&mut self) -> anyhow::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let told = |error| self.connection.told(error);
        // A topic may grow while a long input is written.
        self.producer
            .refresh_counts([&self.topic], Instant::now(), self.connection.timeout())
            .map_err(told)?;
        let rejected = self
            .producer
            .produce(&self.topic, &self.batch)
            .map_err(told)?;
        let given = self.batch.len() as u64;
        self.batch.clear();
        let first_line = self.written + 1;
        self.written += given;
        let refused = rejected.len() as u64;
        match rejected.into_iter().next() {
            None => Ok(()),
            Some(one) => {
                self.producer
                    .flush_acked(Instant::now() + LAST_FLUSH)
                    .map_err(told)?;
                Err(ProduceError::Refused {
                    place: self.place.clone(),
                    line: first_line + one.index as u64,
                    error: told(one.reason),
                    written: self.written - refused,
                }
                .into())
            }
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.send()?;
        self.producer
            .flush_acked(Instant::now() + LAST_FLUSH)
            .map_err(|error| self.connection.told(error))?;
        Ok(())
    }

    /// Writes every line of `input`.
    fn copy(
        &mut self,
        input: &mut BufReader<Box<dyn io::Read>>,
        form: &LineForm,
    ) -> anyhow::Result<()> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = input
                .read_until(b'\n', &mut line)
                .map_err(|error| ProduceError::Io {
                    place: self.place.clone(),
                    error,
                });
            match read {
                Ok(0) if number == 1 => {
                    let place = self.place.clone();
                    return Err(ProduceError::Empty { place }.into());
                }
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    self.finish()?;
                    return Err(error.into());
                }
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            match form.parse(text.strip_suffix(b"\r").unwrap_or(text)) {
                Ok((key, value)) => self.batch.push(Some(&key), Some(value)),
                Err(error) => {
                    self.finish()?;
                    return Err(ProduceError::Line {
                        place: self.place.clone(),
                        line: number,
                        error,
                        written: self.written,
                    }
                    .into());
                }
            }
            // Nothing more is there at the moment: whoever types or follows a log sees the record come out now.
            let waiting = input.buffer().is_empty();
            if waiting || self.batch.len() >= BATCH_RECORDS || self.batch.bytes() >= BATCH_BYTES {
                self.send()?;
            }
        }
        self.finish()
    }
}

pub(crate) fn run(
    arguments: ProduceArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let ProduceArgs {
        connection,
        topic,
        key_field,
        form,
        file,
        output,
    } = arguments;
    let name: TopicName = topic.parse()?;
    let form = LineForm::new(key_field, form);
    let place = label(&file);
    let source: Box<dyn io::Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(&file).map_err(|error| ProduceError::Io {
            place: place.clone(),
            error,
        })?)
    };
    let settings = connection.settings()?;
    let told = |error| connection.told(error);
    let budget = QueueBudget::divided(2 * QUEUES, 1);
    let producer = OutputProducer::open(&settings, budget).map_err(told)?;
    let topic = producer.topic(&name, connection.timeout()).map_err(told)?;
    note_invalid(&topic, err)?;
    let mut writer = Writer {
        connection: &connection,
        producer,
        topic,
        batch: OutputBatch::new(),
        place,
        written: 0,
    };
    writer.copy(&mut BufReader::new(source), &form)?;
    let (written, partitions) = (writer.written, writer.topic.partitions());
    match output {
        Output::Text => writeln!(
            out,
            "{written} records written to topic `{name}`, by murmur2 to {partitions} partitions"
        )?,
        Output::Json => {
            let report = serde_json::json!({
                "topic": name.as_str(),
                "partitions": partitions,
                "records": written,
            });
            writeln!(out, "{report}")?;
        }
    }
    Ok(Verdict::Good)
}

fn note_invalid(topic: &OutputTopic, err: &mut impl Write) -> io::Result<()> {
    let count = RawPartitionCount::try_from(topic.partitions());
    if let Ok(Err(refused)) = count.map(PartitionCount::try_from) {
        writeln!(
            err,
            "note: topic `{}` has {refused}; Turbine refuses it for keyed state",
            topic.name()
        )?;
    }
    Ok(())
}
