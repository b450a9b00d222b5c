use std::io::Write;
use std::time::Duration;

use turbine_crds::compiled::CompiledApp;
use turbine_kafka::{
    Admin, KafkaError, KafkaSettings, PartitionReader, QueueBudget, TopicPresence,
};
use turbine_keygroups::Partition;
use turbine_protocol::names::NameError;
use turbine_protocol::{AppId, Category, Fault, GroupId, SubscriptionName, TopicName};

use super::patience::{Patience, waiting};
use crate::task::StopSignal;

const BEAT: Duration = Duration::from_millis(100);
const QUEUE_BYTES: usize = 32 << 20;

/// Why results cannot be printed.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// A name in the app.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The broker.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// The output.
    #[error("results cannot be printed: {0}")]
    Io(#[from] std::io::Error),
}

impl Fault for PrintError {
    fn category(&self) -> Category {
        match self {
            Self::Name(_) | Self::Io(_) => Category::User,
            Self::Kafka(error) => error.category(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => "SpecInvalid",
            Self::Kafka(error) => error.reason(),
            Self::Io(_) => "ResultsNotPrinted",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            Self::Name(_) | Self::Io(_) => false,
            Self::Kafka(error) => error.passes_by_itself(),
        }
    }
}

/// Writes the value of every new record of the app's outputs as a line, until told to stop.
/// `ready` is called once nothing that comes from then on will be missed. Waits for a broker that is not ready before that.
///
/// # Errors
/// If an output cannot be read or a line cannot be written.
pub fn print_results(
    settings: &KafkaSettings,
    app: &CompiledApp,
    stop: &StopSignal,
    out: &mut dyn Write,
    ready: impl FnOnce(),
) -> Result<(), PrintError> {
    let patience = Patience::default();
    let mut readers = patience.persist(|| open(settings, app, patience.answer), waiting)?;
    ready();
    // Once more after the order, so that the last results are shown as well.
    let mut last = false;
    while !last {
        last = stop.wait(BEAT);
        for reader in &mut readers {
            loop {
                let records = reader.read(1_000, Duration::ZERO)?;
                if records.is_empty() {
                    break;
                }
                for value in (0..records.len()).filter_map(|at| records.value(at)) {
                    out.write_all(value)?;
                    out.write_all(b"\n")?;
                }
            }
        }
        out.flush()?;
    }
    Ok(())
}

fn open(
    settings: &KafkaSettings,
    app: &CompiledApp,
    wait: Duration,
) -> Result<Vec<PartitionReader>, PrintError> {
    let admin = Admin::open(settings)?;
    let app_id: AppId = app.app_id.parse()?;
    let mut topics: Vec<(TopicName, SubscriptionName)> = Vec::new();
    for subscription in &app.subscriptions {
        let topic: TopicName = subscription.output.topic.parse()?;
        if topics.iter().all(|(known, _)| *known != topic) {
            topics.push((topic, subscription.name.parse()?));
        }
    }
    let mut readers = Vec::new();
    for (topic, subscription) in &topics {
        let TopicPresence::Present(layout) = admin.topic(topic, wait)? else {
            return Err(KafkaError::TopicMissing {
                topic: topic.clone(),
            }
            .into());
        };
        let group = GroupId::of(&app_id, subscription);
        let count = layout.partitions.get();
        for number in 0..count {
            let Some(partition) = i32::try_from(number)
                .ok()
                .and_then(|number| Partition::try_from(number).ok())
            else {
                continue;
            };
            let end = admin.watermarks(topic, partition, wait)?.end();
            let budget = QueueBudget::divided(QUEUE_BYTES, usize::try_from(count).unwrap_or(1));
            readers.push(PartitionReader::open(
                settings, &group, topic, partition, end, budget,
            )?);
        }
    }
    Ok(readers)
}
