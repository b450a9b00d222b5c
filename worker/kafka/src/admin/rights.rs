//! Rights: whether all that a task will do is allowed, before it does any of it.

use std::fmt;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode as Code;
use turbine_protocol::{GroupId, TopicName};

use super::Admin;
use crate::client::Context;
use crate::error::{Doing, KafkaError, Resource};
use crate::ffi;

/// A right by Kafka's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// To read a topic, or to commit a group's offsets.
    Read,
    /// To write to a topic.
    Write,
    /// To grow a topic.
    Alter,
    /// To see a topic or a group at all; comes with either of the others.
    Describe,
}

impl Right {
    /// The protocol's number.
    fn code(self) -> u32 {
        match self {
            Self::Read => 3,
            Self::Write => 4,
            Self::Alter => 7,
            Self::Describe => 8,
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Alter => "Alter",
            Self::Describe => "Describe",
        })
    }
}

/// A right that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRight {
    /// Which.
    pub right: Right,
    /// On what, such as "topic `orders`".
    pub resource: String,
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.right, self.resource)
    }
}

/// All of them, in one line.
pub(crate) fn listed(missing: &[MissingRight]) -> String {
    let all: Vec<String> = missing.iter().map(ToString::to_string).collect();
    all.join(", ")
}

/// What a task will do at the broker.
#[derive(Debug, Clone, Copy)]
pub struct NeededRights<'a> {
    /// Topics that are read.
    pub read: &'a [&'a TopicName],
    /// Topics that are written.
    pub write: &'a [&'a TopicName],
    /// The group whose offsets are committed.
    pub group: &'a GroupId,
}

/// What is missing, of what the broker says is allowed. A broker that does not say is asked again by what is done later.
fn missing(
    resource: Resource<'_>,
    needed: &[Right],
    told: Result<ffi::Operations, Code>,
) -> Result<Vec<MissingRight>, Code> {
    let lacks = |rights: &[Right]| {
        rights
            .iter()
            .map(|right| MissingRight {
                right: *right,
                resource: resource.to_string(),
            })
            .collect()
    };
    match told {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(operations)) => {
            let absent: Vec<Right> = needed
                .iter()
                .filter(|right| !operations.contains(&right.code()))
                .copied()
                .collect();
            Ok(lacks(&absent))
        }
        // Not even to be seen: nothing of it is allowed.
        Err(Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed) => Ok(lacks(needed)),
        Err(code) => Err(code),
    }
}

/// Whether the broker says that a right is not there.
pub(super) fn lacking(
    resource: Resource<'_>,
    right: Right,
    told: Result<ffi::Operations, Code>,
) -> bool {
    missing(resource, &[right], told).is_ok_and(|missing| !missing.is_empty())
}

/// What the cluster id of a broker within a process begins with.
const EMBEDDED_CLUSTER: &str = "mockCluster";

impl Admin {
    /// Whether the broker is the one that the client library runs within a process. It has no users, and never answers
    /// questions about rights and settings.
    #[must_use]
    pub fn is_embedded(&self, timeout: Duration) -> bool {
        self.reader
            .client()
            .fetch_cluster_id(timeout)
            .is_some_and(|id| id.starts_with(EMBEDDED_CLUSTER))
    }

    /// Whether every topic is there and every right is.
    ///
    /// # Errors
    /// [`KafkaError::RightsMissing`] with all that are missing; [`KafkaError::TopicMissing`] with the first topic that does
    /// not exist, as far as may be seen; or if the broker does not answer.
    pub fn check_rights(
        &self,
        needed: NeededRights<'_>,
        timeout: Duration,
    ) -> Result<(), KafkaError> {
        let mut topics: Vec<(&TopicName, Vec<Right>)> = Vec::new();
        let wanted = needed
            .read
            .iter()
            .map(|topic| (*topic, Right::Read))
            .chain(needed.write.iter().map(|topic| (*topic, Right::Write)));
        for (topic, right) in wanted {
            match topics.iter_mut().find(|(known, _)| *known == topic) {
                Some((_, rights)) => rights.push(right),
                None => topics.push((topic, vec![right])),
            }
        }
        let names: Vec<&str> = topics.iter().map(|(topic, _)| topic.as_str()).collect();
        let doing = self.doing("describe the topics of", Resource::Cluster, timeout);
        let told = ffi::topic_operations(&self.reader, &names, timeout)
            .map_err(|code| self.explained(&doing, doing.code(code, &code.to_string())))?;
        let mut lacking = Vec::new();
        let mut failed = None;
        for (topic, rights) in &topics {
            let Some((_, told)) = told.iter().find(|(name, _)| name == topic.as_str()) else {
                continue;
            };
            let resource = Resource::Topic(topic);
            match missing(resource, rights, told.clone()) {
                Ok(found) => lacking.extend(found),
                Err(code) => {
                    let doing = self.doing("describe", resource, timeout);
                    failed = failed.or_else(|| Some(doing.code(code, &code.to_string())));
                }
            }
        }
        lacking.extend(self.missing_of_group(needed.group, timeout)?);
        match (lacking.is_empty(), failed) {
            (false, _) => Err(KafkaError::RightsMissing { missing: lacking }),
            (true, Some(error)) => Err(error),
            (true, None) => Ok(()),
        }
    }

    fn missing_of_group(
        &self,
        group: &GroupId,
        timeout: Duration,
    ) -> Result<Vec<MissingRight>, KafkaError> {
        let resource = Resource::Group(group.as_str());
        let doing: Doing<'_> = self.doing("describe", resource, timeout);
        let mut told = group_operations(&self.reader, group, timeout);
        if matches!(told, Err(Code::OperationTimedOut | Code::RequestTimedOut)) {
            // The client remembers the coordinator, and asks one that stands still again and again: nothing breaks their
            // connection. A new client asks who it is now.
            let fresh: BaseConsumer<Context> = self
                .settings
                .admin()
                .create_with_context(Context::default())
                .map_err(|error| doing.failed(&error))?;
            told = group_operations(&fresh, group, timeout);
        }
        match missing(resource, &[Right::Read], told) {
            Ok(found) => Ok(found),
            // A group that has no offsets yet; a broker too old for the question. The first commit asks for the same right.
            Err(
                Code::GroupIdNotFound
                | Code::UnsupportedVersion
                | Code::UnsupportedFeature
                | Code::CoordinatorNotAvailable
                | Code::CoordinatorLoadInProgress
                | Code::NotCoordinator,
            ) => Ok(Vec::new()),
            Err(code) => Err(self.explained(&doing, doing.code(code, &code.to_string()))),
        }
    }
}

fn group_operations(
    client: &BaseConsumer<Context>,
    group: &GroupId,
    timeout: Duration,
) -> Result<ffi::Operations, Code> {
    let told = ffi::group_operations(client, &[group.as_str()], timeout)?;
    told.into_iter().next().map_or(Ok(None), |(_, told)| told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(told: Result<ffi::Operations, Code>) -> Result<Vec<String>, Code> {
        let topic: TopicName = "orders".parse().unwrap();
        let rights = [Right::Read, Right::Write];
        let missing = missing(Resource::Topic(&topic), &rights, told)?;
        Ok(missing.iter().map(ToString::to_string).collect())
    }

    /// The numbers are those of Kafka's protocol: 3 read, 4 write, 8 describe.
    #[test]
    fn what_is_not_among_the_allowed_is_missing() {
        assert_eq!(found(Ok(Some(vec![3, 4, 8]))).unwrap(), [""; 0]);
        assert_eq!(
            found(Ok(Some(vec![3, 8]))).unwrap(),
            ["Write on topic `orders`"]
        );
        let both = ["Read on topic `orders`", "Write on topic `orders`"];
        assert_eq!(found(Ok(Some(vec![8]))).unwrap(), both);
        assert_eq!(found(Ok(Some(Vec::new()))).unwrap(), both);
        assert_eq!(found(Err(Code::TopicAuthorizationFailed)).unwrap(), both);
        // Not told is not missing, and a topic that does not exist is another matter.
        assert_eq!(found(Ok(None)).unwrap(), [""; 0]);
        let gone = Code::UnknownTopicOrPartition;
        assert_eq!(found(Err(gone)), Err(gone));
    }
}
