//! Answers of the client and the broker in our own words.

use std::time::Duration;

use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode as Code};
use turbine_keygroups::Partition;
use turbine_protocol::{LogBounds, Offset, TopicName};

use crate::error::KafkaError;

/// What a call was about, so that the broker's code can be put into words.
#[derive(Debug, Clone)]
pub(crate) struct Doing<'a> {
    pub(crate) what: &'static str,
    pub(crate) resource: Resource<'a>,
    pub(crate) bootstrap: &'a str,
    pub(crate) after: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Resource<'a> {
    Cluster,
    Topic(&'a TopicName),
    Partition(&'a TopicName, i32),
    Group(&'a str),
    Transaction(&'a str),
}

impl std::fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster => f.write_str("the cluster"),
            Self::Topic(topic) | Self::Partition(topic, _) => write!(f, "topic `{topic}`"),
            Self::Group(group) => write!(f, "group `{group}`"),
            Self::Transaction(id) => write!(f, "transactional id `{id}`"),
        }
    }
}

impl Doing<'_> {
    pub(crate) fn failed(&self, error: &ClientError) -> KafkaError {
        match error {
            ClientError::ClientConfig(_, detail, name, value) => KafkaError::Settings {
                detail: format!("{name}={value}: {detail}"),
            },
            ClientError::ClientCreation(detail) => KafkaError::Settings {
                detail: detail.clone(),
            },
            other => match other.rdkafka_error_code() {
                Some(code) => self.code(code, &other.to_string()),
                None => self.code(Code::Unknown, &other.to_string()),
            },
        }
    }

    pub(crate) fn code(&self, code: Code, detail: &str) -> KafkaError {
        let detail = detail.to_owned();
        match code {
            Code::BrokerTransportFailure | Code::AllBrokersDown | Code::Resolve => {
                KafkaError::Unreachable {
                    bootstrap: self.bootstrap.to_owned(),
                    detail,
                }
            }
            Code::BadMessage => KafkaError::Unreachable {
                bootstrap: self.bootstrap.to_owned(),
                detail: "what answers there does not speak Kafka".to_owned(),
            },
            Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL => {
                KafkaError::Authentication { detail }
            }
            Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed => KafkaError::NotAllowed {
                operation: self.what,
                resource: self.resource.to_string(),
            },
            Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
                match self.resource {
                    Resource::Partition(topic, partition) if code == Code::UnknownPartition => {
                        KafkaError::PartitionMissing {
                            topic: topic.clone(),
                            partition,
                        }
                    }
                    Resource::Topic(topic) | Resource::Partition(topic, _) => {
                        KafkaError::TopicMissing {
                            topic: topic.clone(),
                        }
                    }
                    Resource::Cluster | Resource::Group(_) | Resource::Transaction(_) => {
                        self.other(code, detail)
                    }
                }
            }
            Code::InvalidTopic
            | Code::InvalidPartitions
            | Code::InvalidReplicationFactor
            | Code::InvalidReplicaAssignment
            | Code::InvalidConfig
            | Code::PolicyViolation => match self.resource {
                Resource::Topic(topic) | Resource::Partition(topic, _) => {
                    KafkaError::TopicRefused {
                        topic: topic.clone(),
                        detail,
                    }
                }
                Resource::Cluster | Resource::Group(_) | Resource::Transaction(_) => {
                    self.other(code, detail)
                }
            },
            Code::OperationTimedOut | Code::RequestTimedOut => KafkaError::TimedOut {
                what: format!("to {} {}", self.what, self.resource),
                after: self.after,
            },
            Code::Fatal | Code::Fenced | Code::InconsistentGroupProtocol => KafkaError::Fatal {
                what: self.what,
                detail,
            },
            code => self.other(code, detail),
        }
    }

    fn other(&self, code: Code, detail: String) -> KafkaError {
        KafkaError::Other {
            what: self.what,
            code,
            detail,
        }
    }
}

pub(crate) fn offset(what: &'static str, raw: i64) -> Result<Offset, KafkaError> {
    Offset::try_from(raw).map_err(|error| KafkaError::Senseless {
        what,
        detail: error.to_string(),
    })
}

pub(crate) fn bounds(low: i64, high: i64) -> Result<LogBounds, KafkaError> {
    let what = "the watermarks";
    LogBounds::new(offset(what, low)?, offset(what, high)?).map_err(|error| KafkaError::Senseless {
        what,
        detail: error.to_string(),
    })
}

pub(crate) fn partition(number: u32) -> Result<Partition, KafkaError> {
    i32::try_from(number)
        .ok()
        .and_then(|number| Partition::try_from(number).ok())
        .ok_or_else(|| KafkaError::Senseless {
            what: "the partition count",
            detail: format!("{number} is beyond Kafka's range"),
        })
}
