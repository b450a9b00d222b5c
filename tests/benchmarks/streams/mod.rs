//! The worker and Kafka Streams drain the same topic, in turns: count and sum per key in windows of one minute.

mod answer;
mod calibrate;
mod latency;
mod leg;
mod ours;
mod report;

use std::fmt;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use turbine_tests::bed::Bed;
use turbine_tests::events::EventPlan;
use turbine_tests::kafka::Record;
use turbine_tests::process;
use turbine_tests::scenario::Topics;

use crate::machine::{describe, say};
use answer::Answer;
use leg::{Figures, Ground, Input, Leg};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A run of about two minutes that shows that everything works; its times say nothing
    #[arg(long)]
    quick: bool,
    #[arg(
        long,
        default_value_t = 5_000_000,
        default_value_if("quick", "true", "200000")
    )]
    records: u64,
    /// Numbers of keys; one topic each
    #[arg(long, value_delimiter = ',', default_value = "10000,1000000")]
    keys: Vec<u64>,
    #[arg(long, default_value_t = 12)]
    partitions: i32,
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "atLeastOnce,exactlyOnce"
    )]
    guarantees: Vec<Guarantee>,
    /// What to run: both, or one alone
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "turbine,kafka-streams"
    )]
    systems: Vec<System>,
    /// Rounds of ours, peer, peer, ours
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Rounds of at least once, exactly once, exactly once, at least once, all of ours
    #[arg(long, default_value_t = 1)]
    guarantee_rounds: u32,
    /// Commits of one record each on an idle broker; 0: none
    #[arg(long, default_value_t = 100, default_value_if("quick", "true", "10"))]
    commits: u32,
    /// For all legs; else 1,000 at least once and 100 exactly once
    #[arg(long)]
    commit_interval_ms: Option<u64>,
    /// Each event lies up to this long before its place; both systems wait for so long
    #[arg(long, default_value_t = 5_000)]
    disorder_ms: u64,
    /// Letters added to each record; 66 make it about 150 bytes long
    #[arg(long, default_value_t = 66)]
    padding: usize,
    /// What our worker sizes itself for, as by a container's limit; nothing enforces it here
    #[arg(long, default_value = "1Gi")]
    memory: String,
    /// The peer's heap, from its start
    #[arg(long, default_value = "1g")]
    heap: String,
    /// The peer's stream threads
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// The peer's cache in front of its stores
    #[arg(long, default_value_t = 64 << 20)]
    cache_bytes: u64,
    /// How the peer gives one result per window: by `suppress`, or by its strategy to emit on `close`
    #[arg(long, default_value = "suppress", value_parser = ["suppress", "close"])]
    emit: String,
    /// Options of the peer's virtual machine beside the heap
    #[arg(long, default_value = "-XX:+UseParallelGC", allow_hyphen_values = true)]
    jvm: String,
    /// A setting of Kafka Streams, NAME=VALUE; more than once for several
    #[arg(long)]
    peer_property: Vec<String>,
    /// Give up a leg after this many seconds
    #[arg(long, default_value_t = 1800)]
    deadline_s: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    #[value(name = "turbine")]
    Ours,
    #[value(name = "kafka-streams")]
    Peer,
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "Turbine",
            Self::Peer => "Kafka Streams",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Guarantee {
    #[value(name = "atLeastOnce")]
    AtLeastOnce,
    #[value(name = "exactlyOnce")]
    ExactlyOnce,
}

impl Guarantee {
    fn of_app(self) -> &'static str {
        match self {
            Self::AtLeastOnce => "atLeastOnce",
            Self::ExactlyOnce => "exactlyOnce",
        }
    }

    fn of_streams(self) -> &'static str {
        match self {
            Self::AtLeastOnce => "at_least_once",
            Self::ExactlyOnce => "exactly_once_v2",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLeastOnce => "at least once",
            Self::ExactlyOnce => "exactly once",
        })
    }
}

impl Options {
    /// The product's own defaults, unless another one was given.
    fn interval(&self, guarantee: Guarantee) -> u64 {
        self.commit_interval_ms.unwrap_or(match guarantee {
            Guarantee::AtLeastOnce => 1_000,
            Guarantee::ExactlyOnce => 100,
        })
    }

    /// Whether a leg counts.
    fn counts(&self, figures: &Figures) -> bool {
        self.quick || figures.is_steady()
    }

    fn leg(&self, system: System, guarantee: Guarantee) -> Leg {
        Leg {
            system,
            guarantee,
            commit_interval_ms: self.interval(guarantee),
        }
    }
}

pub(crate) async fn measure(options: &Options) -> Result<()> {
    let bed = Bed::from_env()?;
    describe(&bed.program("turbine-worker"))?;
    let java = process::attempt(Command::new("java").arg("-version"))?;
    say(&format!(
        "peer: {}, {}",
        version(&bed)?,
        java.stderr.lines().nth(1).unwrap_or("unknown Java")
    ))?;
    // first, while the broker has nothing to do from before
    if options.commits > 0 && options.systems.contains(&System::Ours) {
        latency::measure(&bed, options, Guarantee::ExactlyOnce).await?;
    }
    let mut legs = Vec::new();
    for keys in &options.keys {
        let topics = Topics::new(&bed, "bench");
        let input = load(&topics, options, *keys).await?;
        let ground = Ground {
            bed: &bed,
            topics: &topics,
            options,
            input: &input,
        };
        if options.systems.contains(&System::Peer) {
            let leg = options.leg(System::Peer, Guarantee::AtLeastOnce);
            let command = ground.peer(leg, "NAME", "OUTPUT", std::path::Path::new("FOLDER"))?;
            say(&format!("the peer's command: {command:?}"))?;
        }
        for guarantee in &options.guarantees {
            legs.extend(systems(&ground, *guarantee, *keys).await?);
        }
        if options.systems.contains(&System::Ours) && options.guarantees.len() > 1 {
            legs.extend(guarantees(&ground, *keys).await?);
        }
    }
    report::table(&legs, options)
}

/// The peer's version is in the name of its file.
fn version(bed: &Bed) -> Result<String> {
    for file in std::fs::read_dir(&bed.kafka_libs)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        if name.starts_with("kafka-streams-") {
            return Ok(name.trim_end_matches(".jar").to_owned());
        }
    }
    bail!("no Kafka Streams in {}", bed.kafka_libs.display())
}

async fn load(topics: &Topics, options: &Options, keys: u64) -> Result<Input> {
    let topic = topics.create("events", options.partitions).await?;
    let plan = EventPlan {
        records: options.records,
        keys,
        padding: options.padding,
        disorder_ms: i64::try_from(options.disorder_ms)?,
        // sums of millions of records in one window fit
        magnitude: 32,
        ..EventPlan::default()
    };
    let mut answer = Answer::default();
    let mut unreadable = None;
    let mut bytes = 0;
    let records = plan.events().map(|event| {
        bytes += event.value.len();
        if let Err(error) = answer.add(&event) {
            unreadable.get_or_insert(error);
        }
        Record::from(event)
    });
    let written = topics.kafka().produce_packed(&topic, records)?;
    unreadable.map_or(Ok(()), Err)?;
    ensure!(written == options.records, "{written} records were written");
    // closes every window, in both systems; its own stays open
    let closing = topics
        .kafka()
        .produce_closing(&topic, plan.end_ms() + 3_600_000)?;
    say(&format!(
        "{keys} keys: {written} records of {} bytes and {closing} closing ones in {} partitions, {} windows; up to {} ms out of order",
        bytes / usize::try_from(written)?.max(1),
        options.partitions,
        answer.windows(),
        options.disorder_ms,
    ))?;
    Ok(Input {
        topic,
        records: written + closing,
        answer,
    })
}

/// Ours and the peer, in turns.
async fn systems(
    ground: &Ground<'_>,
    guarantee: Guarantee,
    keys: u64,
) -> Result<Vec<(u64, Leg, Figures)>> {
    let options = ground.options;
    let legs = [System::Ours, System::Peer].map(|system| options.leg(system, guarantee));
    let what = format!("{guarantee}, {}/{}", System::Ours, System::Peer);
    in_turns(ground, keys, legs, options.rounds, &what).await
}

/// Both guarantees of ours, in turns, with the same commit interval.
async fn guarantees(ground: &Ground<'_>, keys: u64) -> Result<Vec<(u64, Leg, Figures)>> {
    let options = ground.options;
    let legs = [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce].map(|guarantee| Leg {
        commit_interval_ms: options.interval(Guarantee::AtLeastOnce),
        ..options.leg(System::Ours, guarantee)
    });
    let what = format!(
        "{}, at least once/exactly once with the same commit interval",
        System::Ours
    );
    in_turns(ground, keys, legs, options.guarantee_rounds, &what).await
}

/// Rounds of a, b, b, a, and the quotients of a by b. Legs of a system that was not asked for are left out.
async fn in_turns(
    ground: &Ground<'_>,
    keys: u64,
    [a, b]: [Leg; 2],
    rounds: u32,
    what: &str,
) -> Result<Vec<(u64, Leg, Figures)>> {
    let options = ground.options;
    let mut pairs = Vec::new();
    let mut all = Vec::new();
    for _ in 0..rounds {
        let mut figures = Vec::new();
        for leg in [a, b, b, a] {
            if options.systems.contains(&leg.system) {
                figures.push((leg, run(ground, leg, keys).await?));
            }
        }
        pairs.extend(report::in_pairs(&figures, a));
        all.extend(
            figures
                .into_iter()
                .map(|(leg, figures)| (keys, leg, figures)),
        );
    }
    report::compare(&format!("{keys} keys, {what}"), &pairs, options)?;
    Ok(all)
}

async fn run(ground: &Ground<'_>, leg: Leg, keys: u64) -> Result<Figures> {
    let figures = ground.run(leg).await?;
    say(&format!("{keys} keys, {leg}: {figures}"))?;
    Ok(figures)
}
