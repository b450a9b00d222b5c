//! Offsets of groups.

use std::time::Duration;

use futures::executor::block_on;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::topic_partition_list::{TopicPartitionList, TopicPartitionListElem};
use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{GroupId, Offset, TopicName};

use super::Admin;
use super::topics::{no_answer, options};
use crate::client::{AFTERWARDS, Context, serve};
use crate::doing::{Doing, Resource, offset, partition};
use crate::error::KafkaError;

/// A group's offset for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset of the record that is read next.
    pub offset: Offset,
    /// What was committed with it; a receipt, if we did it.
    pub metadata: String,
}

/// How long offsets are asked for that no transaction can hold back, to learn whether one does.
const WITHOUT_WAITING: Duration = Duration::from_secs(3);

/// What became of an order to delete something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone.
    Deleted,
    /// It was not there.
    NotThere,
}

/// Tells an offset from the marker that says there is none.
pub(crate) fn committed_of(
    doing: &Doing<'_>,
    element: &TopicPartitionListElem<'_>,
) -> Result<Option<CommittedOffset>, KafkaError> {
    element.error().map_err(|error| doing.failed(&error))?;
    match element.offset() {
        rdkafka::Offset::Offset(raw) => Ok(Some(CommittedOffset {
            offset: offset(doing.what, raw)?,
            metadata: element.metadata().to_owned(),
        })),
        // -1 from the broker and -1001 in the client both say that nothing is committed.
        rdkafka::Offset::Invalid | rdkafka::Offset::End => Ok(None),
        other => Err(KafkaError::Senseless {
            what: doing.what,
            detail: format!("{other:?}"),
        }),
    }
}

/// Asks by a client of its own: of a group, and of whether pending transactions are waited for, there is one in each.
fn ask_for(
    doing: &Doing<'_>,
    settings: &ClientConfig,
    list: TopicPartitionList,
    timeout: Duration,
) -> Result<TopicPartitionList, KafkaError> {
    let consumer: BaseConsumer<Context> = settings
        .create_with_context(Context::default())
        .map_err(|error| doing.failed(&error))?;
    consumer.committed_offsets(list, timeout).map_err(|error| {
        serve(&consumer, AFTERWARDS);
        consumer.context().explain(doing, doing.failed(&error))
    })
}

impl Admin {
    /// A group's offsets for every partition of a topic, by partition; `None` where nothing is
    /// committed. Waits for pending transactions that would change them.
    ///
    /// # Errors
    /// If the broker does not answer, or not for every partition; [`KafkaError::OffsetPending`] if it would, were it not for a
    /// transaction.
    pub fn committed(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partitions: RawPartitionCount,
        timeout: Duration,
    ) -> Result<Vec<Option<CommittedOffset>>, KafkaError> {
        let all = (0..partitions.get())
            .map(partition)
            .collect::<Result<Vec<_>, _>>()?;
        self.committed_of(group, topic, &all, timeout)
    }

    /// The same for one partition. Pending transactions of others are not waited for.
    ///
    /// # Errors
    /// As [`Admin::committed`].
    pub fn committed_at(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: Partition,
        timeout: Duration,
    ) -> Result<Option<CommittedOffset>, KafkaError> {
        let of = self.committed_of(group, topic, &[partition], timeout)?;
        Ok(of.into_iter().next().flatten())
    }

    fn committed_of(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partitions: &[Partition],
        timeout: Duration,
    ) -> Result<Vec<Option<CommittedOffset>>, KafkaError> {
        let doing = self.doing("read offsets of", Resource::Group(group.as_str()), timeout);
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(topic.as_str(), partition.get());
        }
        let settled = self.settings.group(group.as_str());
        let answer = match ask_for(&doing, &settled, list.clone(), timeout) {
            Err(error) if error.is_without_answer() => {
                let mut as_they_are = settled;
                as_they_are.set("isolation.level", "read_uncommitted");
                let shortly = timeout.min(WITHOUT_WAITING);
                match ask_for(&doing, &as_they_are, list, shortly) {
                    Ok(_) => Err(KafkaError::OffsetPending {
                        group: group.clone(),
                        topic: topic.clone(),
                        after: timeout,
                    }),
                    Err(_) => Err(error),
                }
            }
            answer => answer,
        }?;
        partitions
            .iter()
            .map(
                |partition| match answer.find_partition(topic.as_str(), partition.get()) {
                    Some(element) => committed_of(&doing, &element),
                    None => Err(no_answer(&doing)),
                },
            )
            .collect()
    }

    /// Deletes a group with its offsets.
    ///
    /// # Errors
    /// If somebody is a member of it, the broker refuses, or does not answer.
    pub fn delete_group(
        &self,
        group: &GroupId,
        timeout: Duration,
    ) -> Result<DeleteOutcome, KafkaError> {
        let doing = self.doing("delete", Resource::Group(group.as_str()), timeout);
        let answer = block_on(
            self.requests
                .delete_groups(&[group.as_str()], &options(timeout)),
        )
        .map_err(|error| self.explained(&doing, doing.failed(&error)))?;
        match answer.into_iter().next() {
            Some(Ok(_)) => Ok(DeleteOutcome::Deleted),
            Some(Err((_, Code::GroupIdNotFound))) => Ok(DeleteOutcome::NotThere),
            Some(Err((_, code))) => Err(doing.code(code, &code.to_string())),
            None => Err(no_answer(&doing)),
        }
    }
}
