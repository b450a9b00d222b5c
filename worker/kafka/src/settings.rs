//! How clients reach the broker, and the settings under which they keep what we promise.

use std::collections::BTreeMap;
use std::fmt;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};

use crate::error::KafkaError;
use crate::properties::check_properties;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text from being printed.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Encryption of the connection; all parts in PEM form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Certificates that are trusted to sign a broker's; `None`: those of the system.
    pub ca: Option<String>,
    /// Our own certificate and its key, if brokers ask for one.
    pub client: Option<ClientCertificate>,
}

/// A certificate with its key, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, with its chain.
    pub certificate: String,
    /// The key, not encrypted.
    pub key: Secret,
}

/// How a login is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Name and password as they are; use with TLS only.
    Plain,
    /// Salted challenge and response with SHA-256.
    ScramSha256,
    /// Salted challenge and response with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// The mechanism's registered name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// A login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// How it is proven.
    pub mechanism: Mechanism,
    /// The user.
    pub username: String,
    /// Its password.
    pub password: Secret,
}

/// How to reach a Kafka cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    bootstrap_servers: String,
    tls: Option<Tls>,
    sasl: Option<Sasl>,
    properties: BTreeMap<String, String>,
}

/// Memory that one task's clients may hold in their queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBudget {
    read_bytes: usize,
    write_bytes: usize,
}

/// Below this a queue cannot hold one fetch of a usual size, and a task crawls.
const LEAST_QUEUE: usize = 1 << 20;
const MOST_QUEUE: usize = 64 << 20;
const LARGEST_FETCH: usize = 8 << 20;

/// The client's own default of a batch, of a record, and the largest record that it can be told to take, in bytes.
const CLIENT_BATCH: usize = 1_000_000;
const CLIENT_MESSAGE: usize = 1_000_000;
const CLIENT_LARGEST_MESSAGE: usize = 1_000_000_000;

/// What the client keeps about a queued record beside its bytes: an operation, a message and the
/// allocator's share, rounded up.
const RECORD_OVERHEAD: usize = 384;

/// Half of a queue's memory for the records' own bytes, half for what is kept about them: together
/// they hold for records of any size.
struct Bound {
    kbytes: usize,
    records: usize,
}

impl Bound {
    fn of(bytes: usize) -> Self {
        Self {
            kbytes: bytes / 2 / 1024,
            records: bytes / 2 / RECORD_OVERHEAD,
        }
    }
}

impl QueueBudget {
    /// Divides `total_bytes` among `tasks`: half for reading, half for writing, each at least
    /// 1 MiB (so many tasks on little memory hold more than `total_bytes`) and at most 64 MiB,
    /// since deeper queues are slower. The bytes are those that a queue really holds: records and
    /// what the client keeps about each.
    #[must_use]
    pub fn divided(total_bytes: usize, tasks: usize) -> Self {
        let each = (total_bytes / tasks.max(1) / 2).clamp(LEAST_QUEUE, MOST_QUEUE);
        Self {
            read_bytes: each,
            write_bytes: each,
        }
    }

    /// Bytes of records fetched and not yet handed out.
    #[must_use]
    pub fn read_bytes(self) -> usize {
        self.read_bytes
    }

    /// Bytes of records produced and not yet acknowledged.
    #[must_use]
    pub fn write_bytes(self) -> usize {
        self.write_bytes
    }
}

impl KafkaSettings {
    /// Settings with everything checked that can be checked without a broker.
    ///
    /// # Errors
    /// If no address is given, or `properties` holds one that is refused (see
    /// [`check_properties`]).
    pub fn new(
        bootstrap_servers: impl Into<String>,
        tls: Option<Tls>,
        sasl: Option<Sasl>,
        properties: BTreeMap<String, String>,
    ) -> Result<Self, KafkaError> {
        let bootstrap_servers = bootstrap_servers.into();
        if bootstrap_servers.trim().is_empty() {
            return Err(KafkaError::Settings {
                detail: "`kafka.bootstrapServers` is empty".to_owned(),
            });
        }
        let refusals = check_properties(&properties);
        if !refusals.is_empty() {
            let detail: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            return Err(KafkaError::Settings {
                detail: detail.join("; "),
            });
        }
        Ok(Self {
            bootstrap_servers,
            tls,
            sasl,
            properties,
        })
    }

    /// Settings for a broker that wants neither encryption nor a login.
    ///
    /// # Errors
    /// If no address is given.
    pub fn plaintext(bootstrap_servers: impl Into<String>) -> Result<Self, KafkaError> {
        Self::new(bootstrap_servers, None, None, BTreeMap::new())
    }

    /// The same, for a producer to topics that take batches of at most so many bytes: a batch of many small records is never
    /// one that its topic refuses, and a single record may be as large as the largest of them takes. What the user has set
    /// stays.
    #[must_use]
    pub fn writing_within(&self, limits: &[usize]) -> Self {
        let mut fitted = self.clone();
        let (Some(least), Some(most)) = (limits.iter().min(), limits.iter().max()) else {
            return fitted;
        };
        for (name, value) in [
            ("batch.size", (*least).clamp(1, CLIENT_BATCH)),
            (
                "message.max.bytes",
                (*most).clamp(CLIENT_MESSAGE, CLIENT_LARGEST_MESSAGE),
            ),
        ] {
            fitted
                .properties
                .entry(name.to_owned())
                .or_insert_with(|| value.to_string());
        }
        fitted
    }

    pub(crate) fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }

    /// The same cluster, asked through one address only.
    pub(crate) fn through(&self, address: String) -> Self {
        Self {
            bootstrap_servers: address,
            ..self.clone()
        }
    }

    /// The addresses asked first, separated by commas.
    #[must_use]
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    fn common(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Warning);
        // The user's go first, so that what a promise rests on cannot be changed even if the
        // deny-list had a hole.
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        // The cluster puts another broker in the place of one that says nothing within about 10 s. The default of 60 s would
        // keep us asking the silent one for as long as a transaction may last.
        self.default_to(&mut config, &["socket.timeout.ms"], "15000");
        config.set("bootstrap.servers", &self.bootstrap_servers);
        config.set("allow.auto.create.topics", "false");
        let protocol = match (&self.tls, &self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(tls) = &self.tls {
            if let Some(ca) = &tls.ca {
                config.set("ssl.ca.pem", ca);
            }
            if let Some(client) = &tls.client {
                config.set("ssl.certificate.pem", &client.certificate);
                config.set("ssl.key.pem", client.key.reveal());
            }
        }
        if let Some(sasl) = &self.sasl {
            config.set("sasl.mechanism", sasl.mechanism.as_str());
            config.set("sasl.username", &sasl.username);
            config.set("sasl.password", sasl.password.reveal());
        }
        config
    }

    /// Unless the user has set it, under any of the names that the client knows for it.
    fn default_to(&self, config: &mut ClientConfig, names: &[&str], value: &str) {
        if let Some(name) = names.first()
            && !names.iter().any(|name| self.properties.contains_key(*name))
        {
            config.set(*name, value);
        }
    }

    /// For metadata, watermarks and committed offsets. It reads the true end of a log, open
    /// transactions included.
    pub(crate) fn admin(&self) -> ClientConfig {
        let mut config = self.common();
        config.set("isolation.level", "read_uncommitted");
        config.set("enable.auto.commit", "false");
        config
    }

    /// For reading a group's offsets, waiting for pending transactions that would change them.
    pub(crate) fn group(&self, group: &str) -> ClientConfig {
        let mut config = self.common();
        config.set("group.id", group);
        config.set("isolation.level", "read_committed");
        config.set("enable.auto.commit", "false");
        config
    }

    /// What every reader of records has: nothing is committed or stored by the client, and its queue stays within its memory.
    fn reading(&self, group: &str, budget: QueueBudget) -> ClientConfig {
        let mut config = self.common();
        config.set("group.id", group);
        config.set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false");
        config.set("isolation.level", "read_committed");
        config.set("enable.partition.eof", "true");
        // As Kafka's own consumer does it; this client would take flipped bits for a record.
        config.set("check.crcs", "true");
        let bound = Bound::of(budget.read_bytes);
        config.set("queued.max.messages.kbytes", bound.kbytes.to_string());
        // Fetching stops at either bound.
        config.set("queued.min.messages", bound.records.to_string());
        // A fetch is taken in whole, and compressed records become several times as large.
        let fetch = (budget.read_bytes / 16).min(LARGEST_FETCH);
        config.set("fetch.message.max.bytes", fetch.to_string());
        // The default of a second stalls a full queue that long after it has room again.
        self.default_to(&mut config, &["fetch.queue.backoff.ms"], "5");
        self.default_to(&mut config, &["fetch.wait.max.ms"], "100");
        config
    }

    /// For a look at a topic's records. The client wants a group even where none is joined.
    pub(crate) fn scan(&self, budget: QueueBudget) -> ClientConfig {
        let mut config = self.reading("turbine-cli", budget);
        // Where retention was faster than we, what is left is looked at.
        config.set("auto.offset.reset", "earliest");
        config
    }

    pub(crate) fn reader(&self, group: &str, budget: QueueBudget) -> ClientConfig {
        let mut config = self.reading(group, budget);
        config.set("auto.offset.reset", "error");
        // Nobody is a member of the group, so nothing depends on how often we poll; the limit
        // would only stop fetching after a long restore.
        config.set("max.poll.interval.ms", "86400000");
        config
    }

    pub(crate) fn producer(&self, budget: QueueBudget) -> ClientConfig {
        let mut config = self.common();
        config.set("enable.idempotence", "true");
        config.set("acks", "all");
        // Success shows in an empty queue; a report per record would cost more than the record.
        config.set("delivery.report.only.error", "true");
        let bound = Bound::of(budget.write_bytes);
        config.set("queue.buffering.max.kbytes", bound.kbytes.to_string());
        config.set("queue.buffering.max.messages", bound.records.to_string());
        self.default_to(
            &mut config,
            &["compression.type", "compression.codec"],
            "lz4",
        );
        // A commit does not wait for it. While all requests that may be on their way are, the client's thread looks at every record
        // that has waited for longer than this, without a pause: with its default of 5 ms that was
        // about a tenth of a worker's processor time with a million results.
        self.default_to(&mut config, &["linger.ms", "queue.buffering.max.ms"], "20");
        self.default_to(
            &mut config,
            &["message.timeout.ms", "delivery.timeout.ms"],
            "120000",
        );
        config
    }
}

/// How long the broker leaves a transaction open whose producer says nothing, in milliseconds.
pub const TRANSACTION_TIMEOUT_MS: u64 = 60_000;

impl KafkaSettings {
    pub(crate) fn transactional_producer(&self, budget: QueueBudget, id: &str) -> ClientConfig {
        let mut config = self.producer(budget);
        config.set("transactional.id", id);
        config.set("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS.to_string());
        // No record may be tried for longer than its transaction lives.
        config.remove("delivery.timeout.ms");
        config.set("message.timeout.ms", TRANSACTION_TIMEOUT_MS.to_string());
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_secrets() -> KafkaSettings {
        KafkaSettings::new(
            "kafka:9092",
            Some(Tls {
                ca: None,
                client: Some(ClientCertificate {
                    certificate: "public".to_owned(),
                    key: Secret::new("hidden-key"),
                }),
            }),
            Some(Sasl {
                mechanism: Mechanism::ScramSha512,
                username: "app".to_owned(),
                password: Secret::new("hidden-password"),
            }),
            BTreeMap::new(),
        )
        .unwrap()
    }

    #[test]
    fn secrets_are_never_printed() {
        let text = format!("{:?}", with_secrets());
        assert!(text.contains("kafka:9092") && text.contains("SCRAM") || text.contains("Scram"));
        assert!(!text.contains("hidden"), "{text}");
    }

    #[test]
    fn tls_and_login_choose_the_protocol() {
        let config = with_secrets().admin();
        assert_eq!(config.get("security.protocol"), Some("sasl_ssl"));
        let plain = KafkaSettings::plaintext("kafka:9092").unwrap().admin();
        assert_eq!(plain.get("security.protocol"), Some("plaintext"));
    }

    #[test]
    fn an_empty_address_is_refused() {
        assert!(matches!(
            KafkaSettings::plaintext(" "),
            Err(KafkaError::Settings { .. })
        ));
    }

    #[test]
    fn a_users_choice_replaces_a_default_that_no_promise_rests_on() {
        let settings = KafkaSettings::new(
            "kafka:9092",
            None,
            None,
            BTreeMap::from([("compression.type".to_owned(), "zstd".to_owned())]),
        )
        .unwrap();
        let config = settings.producer(QueueBudget::divided(100 << 20, 4));
        assert_eq!(config.get("compression.type"), Some("zstd"));
        assert_eq!(config.get("acks"), Some("all"));
    }

    #[test]
    fn a_setting_under_another_of_its_names_is_not_set_twice() {
        for (given, value, ours) in [
            ("compression.codec", "gzip", "compression.type"),
            ("queue.buffering.max.ms", "7", "linger.ms"),
            ("delivery.timeout.ms", "30000", "message.timeout.ms"),
        ] {
            let properties = BTreeMap::from([(given.to_owned(), value.to_owned())]);
            let settings = KafkaSettings::new("kafka:9092", None, None, properties).unwrap();
            let config = settings.producer(QueueBudget::divided(100 << 20, 4));
            assert_eq!(config.get(given), Some(value));
            assert_eq!(config.get(ours), None);
        }
    }

    #[test]
    fn batches_fit_the_smallest_topic_and_records_the_largest() {
        let plain = KafkaSettings::plaintext("kafka:9092").unwrap();
        let config = |settings: &KafkaSettings| {
            let config = settings.producer(QueueBudget::divided(100 << 20, 4));
            let get = |name: &str| config.get(name).map(str::to_owned);
            (get("batch.size"), get("message.max.bytes"))
        };
        let text = |number: u32| Some(number.to_string());
        assert_eq!(config(&plain.writing_within(&[])), (None, None));
        let small = plain.writing_within(&[1_048_588, 20_000]);
        assert_eq!(config(&small), (text(20_000), text(1_048_588)));
        let large = plain.writing_within(&[20_000_000]);
        assert_eq!(config(&large), (text(1_000_000), text(20_000_000)));
        let properties = BTreeMap::from([("message.max.bytes".to_owned(), "5000".to_owned())]);
        let users = KafkaSettings::new("kafka:9092", None, None, properties).unwrap();
        assert_eq!(
            config(&users.writing_within(&[20_000])),
            (text(20_000), text(5_000))
        );
    }

    #[test]
    fn queues_share_the_budget_within_their_bounds() {
        assert_eq!(QueueBudget::divided(96 << 20, 12).read_bytes(), 4 << 20);
        assert_eq!(QueueBudget::divided(1 << 20, 36).write_bytes(), 1 << 20);
        assert_eq!(QueueBudget::divided(1 << 40, 0).write_bytes(), 64 << 20);
    }
}
