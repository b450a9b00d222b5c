use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use turbine_crds::app::SaslMechanism;
use turbine_crds::compiled::KafkaSecretFile;
use turbine_kafka::{
    Admin, ClientCertificate, CreateOutcome, GrowOutcome, KafkaError, KafkaSettings, Mechanism,
    NewTopic, Sasl, Secret, Tls, TopicPresence,
};
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::{Category, Fault as _, TopicName};

use super::{
    BrokerFacts, Created, Grew, KafkaAccess, KafkaFault, KafkaSeen, KafkaView, LayoutQuestion,
    SealDone, SealOrder, TopicKept, TopicWanted, sealing,
};

/// Longest wait for one answer of a broker.
pub(super) const CALL: Duration = Duration::from_secs(5);
/// Longest wait until every broker knows a new topic.
const SPREAD: Duration = Duration::from_secs(20);
/// Longest wait for a turn at a cluster that other apps ask as well.
const TURN: Duration = Duration::from_secs(15);
/// Calls at one cluster at a time: a dead one must not hold all threads.
const AT_ONCE: usize = 4;
/// For so long a cluster that did not answer is not asked again, whoever wants to know.
const SILENCE: Duration = Duration::from_secs(3);
/// A client that nobody used for so long is closed.
const IDLE: Duration = Duration::from_mins(15);

/// The brokers, through one client per cluster and login.
#[derive(Debug, Default)]
pub struct LiveKafka {
    clients: Mutex<HashMap<[u8; 32], Arc<Client>>>,
}

#[derive(Debug)]
struct Client {
    admin: Mutex<Arc<Admin>>,
    turns: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: Option<Instant>,
    silent: Option<(Instant, KafkaFault)>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fault(error: &KafkaError) -> KafkaFault {
    KafkaFault {
        reason: error.reason(),
        message: error.to_string(),
        category: error.category(),
        passes_by_itself: error.passes_by_itself(),
    }
}

impl LiveKafka {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn client(&self, access: &KafkaAccess) -> Result<Arc<Client>, KafkaFault> {
        let key = fingerprint(access);
        let mut clients = lock(&self.clients);
        clients.retain(|of, client| {
            of == &key
                || lock(&client.state)
                    .used
                    .is_none_or(|at| at.elapsed() < IDLE)
        });
        if let Some(client) = clients.get(&key) {
            return Ok(Arc::clone(client));
        }
        let settings = settings(access)?;
        let admin = Admin::open(&settings).map_err(|error| fault(&error))?;
        let client = Arc::new(Client {
            admin: Mutex::new(Arc::new(admin)),
            turns: Semaphore::new(AT_ONCE),
            state: Mutex::default(),
        });
        clients.insert(key, Arc::clone(&client));
        Ok(client)
    }

    async fn call<T: Send + 'static>(
        &self,
        access: &KafkaAccess,
        call: impl FnOnce(&Admin) -> Result<T, KafkaError> + Send + 'static,
    ) -> Result<T, KafkaFault> {
        let client = self.client(access)?;
        let failed_last = {
            let mut state = lock(&client.state);
            state.used = Some(Instant::now());
            if let Some((at, fault)) = &state.silent
                && at.elapsed() < SILENCE
            {
                return Err(fault.clone());
            }
            state.silent.is_some()
        };
        let turn = tokio::time::timeout(TURN, client.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(KafkaFault {
                reason: "KafkaBusy",
                message: format!(
                    "the brokers at {} are slow to answer, other apps wait for them as well",
                    access.kafka.bootstrap_servers
                ),
                category: Category::Kafka,
                passes_by_itself: true,
            });
        };
        // A client that a broker's long pause has cut off may stay cut off (seen with TLS and SCRAM), so after a failure the next
        // question goes through a new one.
        let anew = failed_last.then(|| settings(access)).transpose()?;
        let held = Arc::clone(&client);
        let answer = tokio::task::spawn_blocking(move || {
            if let Some(settings) = anew {
                let fresh = Arc::new(Admin::open(&settings)?);
                let former = std::mem::replace(&mut *lock(&held.admin), fresh);
                drop(former);
            }
            let admin = Arc::clone(&lock(&held.admin));
            call(&admin)
        })
        .await;
        let result = match answer {
            Ok(answer) => answer.map_err(|error| fault(&error)),
            Err(error) => Err(KafkaFault {
                reason: "OperatorDefect",
                message: format!(
                    "a call to Kafka broke off ({error}): this is a defect of the operator"
                ),
                category: Category::Bug,
                passes_by_itself: true,
            }),
        };
        let mut state = lock(&client.state);
        state.silent = match &result {
            Err(fault) if fault.passes_by_itself => Some((Instant::now(), fault.clone())),
            Ok(_) | Err(_) => None,
        };
        result
    }
}

/// Tells clients apart by where they go and as whom; a secret with new content gets a new client.
fn fingerprint(access: &KafkaAccess) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut feed = |bytes: &[u8]| {
        hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(bytes);
    };
    feed(access.kafka.bootstrap_servers.as_bytes());
    feed(format!("{:?}{:?}", access.kafka.tls, access.kafka.sasl).as_bytes());
    for (name, value) in &access.kafka.properties {
        feed(name.as_bytes());
        feed(value.as_bytes());
    }
    for (file, content) in &access.secrets {
        feed(file.as_ref().as_bytes());
        feed(content);
    }
    hash.finalize().into()
}

fn settings(access: &KafkaAccess) -> Result<KafkaSettings, KafkaFault> {
    let text = |wanted: KafkaSecretFile| -> Result<Option<String>, KafkaFault> {
        let Some((_, content)) = access.secrets.iter().find(|(file, _)| *file == wanted) else {
            return Ok(None);
        };
        // A newline at the end is what editors and `echo` leave.
        std::str::from_utf8(content)
            .map(|text| Some(text.trim_end_matches(['\r', '\n']).to_owned()))
            .map_err(|_| KafkaFault {
                reason: "SecretUnreadable",
                message: format!(
                    "the Secret's content for {} is no text: correct it",
                    wanted.as_ref()
                ),
                category: Category::User,
                passes_by_itself: false,
            })
    };
    let tls = match access.kafka.tls {
        None => None,
        Some(_) => Some(Tls {
            ca: text(KafkaSecretFile::Ca)?,
            client: match (
                text(KafkaSecretFile::Certificate)?,
                text(KafkaSecretFile::Key)?,
            ) {
                (Some(certificate), Some(key)) => Some(ClientCertificate {
                    certificate,
                    key: Secret::new(key),
                }),
                (Some(_) | None, None) | (None, Some(_)) => None,
            },
        }),
    };
    let sasl = match access.kafka.sasl {
        None => None,
        Some(mechanism) => Some(Sasl {
            mechanism: match mechanism {
                SaslMechanism::Plain => Mechanism::Plain,
                SaslMechanism::ScramSha256 => Mechanism::ScramSha256,
                SaslMechanism::ScramSha512 => Mechanism::ScramSha512,
            },
            username: text(KafkaSecretFile::Username)?.unwrap_or_default(),
            password: Secret::new(text(KafkaSecretFile::Password)?.unwrap_or_default()),
        }),
    };
    KafkaSettings::new(
        access.kafka.bootstrap_servers.clone(),
        tls,
        sasl,
        access.kafka.properties.clone(),
    )
    .map_err(|error| fault(&error))
}

/// The right to see a topic's settings is not asked for: without it the policy stays unknown.
fn cleanup_policy(admin: &Admin, topic: &TopicName) -> Result<Option<String>, KafkaError> {
    match admin.topic_config(topic, CALL) {
        Ok(mut config) => Ok(config.remove("cleanup.policy")),
        Err(error) if error.is_without_answer() => Err(error),
        Err(error) => {
            tracing::debug!(%topic, %error, "how its records are cleaned up is not known");
            Ok(None)
        }
    }
}

fn topic_name(name: &str) -> Result<TopicName, KafkaFault> {
    name.parse().map_err(|error| KafkaFault {
        reason: "TopicNameRefused",
        message: format!("{error}"),
        category: Category::User,
        passes_by_itself: false,
    })
}

#[async_trait]
impl KafkaView for LiveKafka {
    async fn look(
        &self,
        access: &KafkaAccess,
        topics: &BTreeSet<String>,
    ) -> Result<KafkaSeen, KafkaFault> {
        let names = topics
            .iter()
            .map(|name| topic_name(name))
            .collect::<Result<Vec<_>, _>>()?;
        self.call(access, move |admin| {
            let cluster_id = admin.cluster_id(CALL)?;
            let mut counts = BTreeMap::new();
            let mut kept = BTreeMap::new();
            for name in names {
                if let TopicPresence::Present(layout) = admin.topic(&name, CALL)? {
                    let count = i32::try_from(layout.partitions.get()).unwrap_or(i32::MAX);
                    counts.insert(name.to_string(), count);
                    let how = TopicKept {
                        replication: layout.replication,
                        cleanup_policy: cleanup_policy(admin, &name)?,
                    };
                    kept.insert(name.to_string(), how);
                }
            }
            Ok(KafkaSeen {
                cluster_id,
                counts,
                kept,
            })
        })
        .await
    }

    async fn create(
        &self,
        access: &KafkaAccess,
        topic: &TopicWanted,
    ) -> Result<Created, KafkaFault> {
        let refused = |detail: String| KafkaFault {
            reason: "TopicRefused",
            message: format!("topic `{}` cannot be created: {detail}", topic.name),
            category: Category::User,
            passes_by_itself: false,
        };
        let partitions = RawPartitionCount::try_from(topic.partitions)
            .map_err(|error| refused(error.to_string()))?;
        let replication = topic
            .replication_factor
            .map(u32::try_from)
            .transpose()
            .map_err(|error| refused(error.to_string()))?;
        let wanted = NewTopic {
            name: topic_name(&topic.name)?,
            partitions,
            replication,
            config: topic.config.clone(),
        };
        self.call(access, move |admin| {
            let outcome = admin.create_topic(&wanted, CALL)?;
            match outcome {
                CreateOutcome::Created => {
                    // Read back from every broker: the next look may ask any of them.
                    admin.await_partition_count(
                        &wanted.name,
                        wanted.partitions,
                        Instant::now() + SPREAD,
                    )?;
                    Ok(Created::Now)
                }
                CreateOutcome::AlreadyThere => Ok(Created::Existed),
            }
        })
        .await
    }

    async fn layout(
        &self,
        access: &KafkaAccess,
        question: &LayoutQuestion,
    ) -> Result<BrokerFacts, KafkaFault> {
        let question = question.clone();
        self.call(access, move |admin| sealing::facts(admin, &question))
            .await
    }

    async fn grow(&self, access: &KafkaAccess, topic: &str, to: i32) -> Result<Grew, KafkaFault> {
        let name = topic_name(topic)?;
        let count = RawPartitionCount::try_from(to).map_err(|error| KafkaFault {
            reason: "TopicRefused",
            message: format!("topic `{topic}` cannot be grown: {error}"),
            category: Category::User,
            passes_by_itself: false,
        })?;
        self.call(access, move |admin| {
            admin
                .grow_topic(&name, count, CALL)
                .map(|outcome| match outcome {
                    GrowOutcome::Grown => Grew::Now,
                    GrowOutcome::HasIt => Grew::Before,
                })
        })
        .await
    }

    async fn seal(&self, access: &KafkaAccess, order: &SealOrder) -> Result<SealDone, KafkaFault> {
        let settings = settings(access)?;
        let order = order.clone();
        self.call(access, move |admin| sealing::seal(admin, &settings, &order))
            .await?
    }

    async fn delete(&self, access: &KafkaAccess, topic: &str) -> Result<(), KafkaFault> {
        let name = topic_name(topic)?;
        self.call(access, move |admin| {
            admin.delete_topic(&name, CALL).map(|_| ())
        })
        .await
    }
}
