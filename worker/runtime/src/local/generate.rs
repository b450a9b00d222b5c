use std::time::{Duration, Instant};

use rand::Rng;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Map, Value, json};
use turbine_crds::app::{ColumnType, TimeUnit};
use turbine_crds::compiled::{CompiledPartitionKey, CompiledSubscription};
use turbine_kafka::{
    KafkaError, KafkaSettings, OutputBatch, OutputProducer, OutputTopic, QueueBudget,
};
use turbine_keygroups::{KeyValue, canonical_key, composite_key};
use turbine_protocol::names::NameError;
use turbine_protocol::{Category, Fault};

use super::patience::{Patience, waiting};
use crate::task::StopSignal;

/// How many different values each text column takes.
const KEYS: u32 = 20;
/// How often records are written.
const BEAT: Duration = Duration::from_millis(50);
const QUEUE_BYTES: usize = 16 << 20;

/// Writes sample records of a subscription's declared columns, with the time of the present, keyed
/// as the subscription wants them.
#[derive(Debug)]
pub struct Generator {
    subscription: CompiledSubscription,
    producer: OutputProducer,
    topic: OutputTopic,
    per_second: u32,
    random: SmallRng,
}

/// Why nothing can be generated.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// The topic's name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The broker.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

impl Fault for GeneratorError {
    fn category(&self) -> Category {
        match self {
            Self::Name(_) => Category::User,
            Self::Kafka(error) => error.category(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => "SpecInvalid",
            Self::Kafka(error) => error.reason(),
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            Self::Name(_) => false,
            Self::Kafka(error) => error.passes_by_itself(),
        }
    }
}

impl Generator {
    /// A generator of `per_second` records a second. Waits for a broker that is not ready.
    ///
    /// # Errors
    /// If the input can never be written.
    pub fn open(
        settings: &KafkaSettings,
        subscription: &CompiledSubscription,
        per_second: u32,
    ) -> Result<Self, GeneratorError> {
        let patience = Patience::default();
        let open = || {
            let producer = OutputProducer::open(settings, QueueBudget::divided(QUEUE_BYTES, 1))?;
            let topic = producer.topic(&subscription.topic.parse()?, patience.answer)?;
            Ok::<_, GeneratorError>((producer, topic))
        };
        let (producer, topic) = patience.persist(open, waiting)?;
        Ok(Self {
            subscription: subscription.clone(),
            producer,
            topic,
            per_second,
            random: SmallRng::seed_from_u64(42),
        })
    }

    /// Writes until told to stop.
    ///
    /// # Errors
    /// If the broker does not take a record.
    pub fn run(mut self, stop: &StopSignal) -> Result<(), GeneratorError> {
        let started = Instant::now();
        let mut written: u64 = 0;
        let mut batch = OutputBatch::new();
        while !stop.wait(BEAT) {
            let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let due = millis.saturating_mul(u64::from(self.per_second)) / 1_000;
            batch.clear();
            for _ in written..due {
                let record = self.record();
                let key = self.key(&record);
                batch.push(
                    key.as_deref(),
                    Some(Value::Object(record).to_string().as_bytes()),
                );
            }
            written = due;
            if let Some(rejected) = self
                .producer
                .produce(&self.topic, &batch)?
                .into_iter()
                .next()
            {
                return Err(rejected.reason.into());
            }
        }
        self.producer
            .flush_acked(Instant::now() + Duration::from_secs(5))?;
        Ok(())
    }

    fn record(&mut self) -> Map<String, Value> {
        let now = jiff::Timestamp::now();
        let time = &self.subscription.event_time;
        let random = &mut self.random;
        self.subscription
            .columns
            .iter()
            .map(|column| {
                let value = match (column.name == time.column, column.type_) {
                    (_, ColumnType::Timestamp) => json!(now.to_string()),
                    (true, _) => match time.unit {
                        TimeUnit::S => json!(now.as_second()),
                        TimeUnit::Ms => json!(now.as_millisecond()),
                        TimeUnit::Us => json!(now.as_microsecond()),
                        TimeUnit::Ns => {
                            json!(i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX))
                        }
                    },
                    (false, ColumnType::String) => {
                        json!(format!(
                            "{}-{:02}",
                            column.name,
                            random.random_range(1..=KEYS)
                        ))
                    }
                    (false, ColumnType::Int64) => json!(random.random_range(1..=100)),
                    (false, ColumnType::Float64) => {
                        json!(f64::from(random.random_range(0..10_000)) / 100.0)
                    }
                    (false, ColumnType::Bool) => json!(random.random_bool(0.5)),
                };
                (column.name.clone(), value)
            })
            .collect()
    }

    fn key(&mut self, record: &Map<String, Value>) -> Option<Vec<u8>> {
        let columns = match &self.subscription.partition_key {
            CompiledPartitionKey::Columns(columns) => columns,
            CompiledPartitionKey::RecordKey => {
                let key = format!("key-{:02}", self.random.random_range(1..=KEYS));
                return Some(key.into_bytes());
            }
        };
        let parts: Vec<KeyValue<'_>> = columns
            .iter()
            .map(|column| match record.get(column) {
                Some(Value::String(text)) => Some(KeyValue::Text(text)),
                Some(Value::Bool(value)) => Some(KeyValue::Bool(*value)),
                Some(number) => number.as_i64().map(KeyValue::Int64),
                None => None,
            })
            .collect::<Option<_>>()?;
        Some(match parts.as_slice() {
            [one] => canonical_key(*one),
            several => composite_key(several),
        })
    }
}
