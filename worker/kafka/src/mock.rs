//! A broker within the process, for trying things out and for tests.

use std::fmt;

use rdkafka::mocking::MockCluster;
use rdkafka_sys::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Answer};
use turbine_keygroups::RawPartitionCount;
use turbine_protocol::TopicName;

use crate::doing::{Doing, Resource};
use crate::error::KafkaError;
use crate::ffi::Mock;
use crate::settings::KafkaSettings;

/// A broker within the process. Other clients on the machine reach it at
/// [`EmbeddedBroker::bootstrap_servers`]. It forgets everything when it is dropped, and it stores
/// no offsets of transactions.
pub struct EmbeddedBroker {
    mock: Mock,
    bootstrap_servers: String,
}

impl fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBroker")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .finish_non_exhaustive()
    }
}

/// What an embedded broker can be told to refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A record that is written: it is larger than its topic takes.
    RecordTooLarge,
    /// A record that is written: its topic takes none like it.
    RecordInvalid,
    /// A record that is written: nobody says why.
    RecordNotWritten,
    /// Taking a transactional id over: there is no right to it.
    TakeOver,
    /// Reading on: the offset is not in the log.
    OffsetOutOfRange,
}

impl Refusal {
    fn answer(self) -> (Api, Answer) {
        match self {
            Self::RecordTooLarge => (Api::Produce, Answer::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE),
            Self::RecordInvalid => (Api::Produce, Answer::RD_KAFKA_RESP_ERR_INVALID_RECORD),
            Self::RecordNotWritten => (Api::Produce, Answer::RD_KAFKA_RESP_ERR_UNKNOWN),
            Self::TakeOver => (
                Api::InitProducerId,
                Answer::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ),
            Self::OffsetOutOfRange => (Api::Fetch, Answer::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE),
        }
    }
}

impl EmbeddedBroker {
    /// Starts a broker without topics on free local ports.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn start() -> Result<Self, KafkaError> {
        let cluster = MockCluster::new(1).map_err(|error| {
            Doing {
                what: "start the embedded broker",
                resource: Resource::Cluster,
                bootstrap: "this process",
                after: std::time::Duration::ZERO,
            }
            .failed(&error)
        })?;
        let bootstrap_servers = cluster.bootstrap_servers();
        Ok(Self {
            mock: Mock(cluster),
            bootstrap_servers,
        })
    }

    /// The address.
    #[must_use]
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// Settings that reach this broker.
    ///
    /// # Errors
    /// Never in practice: the address is not empty.
    pub fn settings(&self) -> Result<KafkaSettings, KafkaError> {
        KafkaSettings::plaintext(&self.bootstrap_servers)
    }

    /// Makes a topic. The embedded broker knows no admin requests, so topics come this way only.
    ///
    /// # Errors
    /// If it exists with another count.
    pub fn create_topic(
        &self,
        topic: &TopicName,
        partitions: RawPartitionCount,
    ) -> Result<(), KafkaError> {
        let doing = Doing {
            what: "create",
            resource: Resource::Topic(topic),
            bootstrap: &self.bootstrap_servers,
            after: std::time::Duration::ZERO,
        };
        let count = i32::try_from(partitions.get()).unwrap_or(i32::MAX);
        self.mock
            .0
            .create_topic(topic.as_str(), count, 1)
            .map_err(|error| doing.failed(&error))
    }

    /// Takes the broker away: connections break and new ones are refused.
    ///
    /// # Errors
    /// If the broker does not obey.
    pub fn go_down(&self) -> Result<(), KafkaError> {
        self.set_down(true)
    }

    /// Brings it back.
    ///
    /// # Errors
    /// If the broker does not obey.
    pub fn come_back(&self) -> Result<(), KafkaError> {
        self.set_down(false)
    }

    /// Refuses the next `requests` of this kind, whoever makes them.
    pub fn refuse(&self, what: Refusal, requests: usize) {
        let (api, answer) = what.answer();
        self.mock.0.request_errors(api, &vec![answer; requests]);
    }

    /// Refuses no more of what [`EmbeddedBroker::refuse`] has left.
    pub fn refuse_no_more(&self, what: Refusal) {
        self.mock.0.clear_request_errors(what.answer().0);
    }

    fn set_down(&self, down: bool) -> Result<(), KafkaError> {
        let cluster = &self.mock.0;
        let result = if down {
            cluster.broker_down(-1)
        } else {
            cluster.broker_up(-1)
        };
        result.map_err(|error| {
            Doing {
                what: "stop or start the embedded broker",
                resource: Resource::Cluster,
                bootstrap: &self.bootstrap_servers,
                after: std::time::Duration::ZERO,
            }
            .failed(&error)
        })
    }
}
