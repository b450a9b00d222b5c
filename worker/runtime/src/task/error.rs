use std::path::Path;

use arrow_schema::ArrowError;
use thiserror::Error;
use turbine_crds::control::TaskHalt;
use turbine_engine::{PipelineError, RestoreError};
use turbine_kafka::KafkaError;
use turbine_protocol::commit::NoSuchEdge;
use turbine_protocol::names::NameError;
use turbine_protocol::start::StartRefusal;
use turbine_protocol::transaction::NoSuchTransactionEdge;
use turbine_protocol::{Category, Fault, Offset};
use turbine_state::StateError;
use turbine_state::checkpoint::CheckpointError;

use super::placement::Growth;
use super::spec::SpecFault;
use crate::decode::RecordFault;
use crate::memory::MemoryTooSmall;
use crate::sink::EncodeError;

/// Why a task does not go on.
#[derive(Debug, Error)]
pub enum TaskError {
    /// A record that cannot be used, where such records stop the task.
    #[error(
        "{topic}/{partition} at offset {offset}: {fault}; everything in front of it is committed. \
         Correct the producer and move on with `onError: skip` or `onError: dlq`"
    )]
    BadRecord {
        /// The input.
        topic: String,
        /// Its partition.
        partition: i32,
        /// The record.
        offset: Offset,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// A result that its topic does not take.
    #[error("a result cannot be written: {0}")]
    Result(KafkaError),
    /// The worker has more tasks than its memory holds.
    #[error(transparent)]
    Memory(#[from] MemoryTooSmall),
    /// The input's count cannot carry keyed state.
    #[error("{0}")]
    Count(String),
    /// The store was made from another topic.
    #[error(
        "the state is that of topic `{found}`, and the subscription reads `{expected}`: positions of one topic mean nothing in another; put the topic back, or give the subscription another name"
    )]
    OtherTopic {
        /// The topic in the store.
        found: String,
        /// The topic of the subscription.
        expected: String,
    },
    /// A record in the wrong partition, where such records stop the task.
    #[error(
        "{topic}/{partition} at offset {offset}: {fault}. It touched no state, and everything in \
         front of it is committed. Correct the producer and move on with `onError: skip` or \
         `onError: dlq`"
    )]
    Misplaced {
        /// The input.
        topic: String,
        /// Its partition.
        partition: i32,
        /// The record.
        offset: Offset,
        /// Where it belongs.
        fault: RecordFault,
    },
    /// The input has more partitions than the layout.
    #[error("{0}")]
    TopicGrown(Growth),
    /// A record lies wrong by the known count, and nobody says whether that still holds.
    #[error(
        "{topic}/{partition} at offset {offset}: the record belongs to another partition, unless \
         the topic has grown, and its partition count cannot be read: {source}. The task waits in \
         front of the record and asks again"
    )]
    CountUnknown {
        /// The input.
        topic: String,
        /// Its partition.
        partition: i32,
        /// The record.
        offset: Offset,
        /// The broker's words.
        source: Box<KafkaError>,
    },
    /// The input has fewer partitions than the layout.
    #[error(
        "topic `{topic}` has {found} partitions, the layout has {expected}: it was deleted and \
         made anew, or this is another cluster; nothing is read. Give the subscription a new name \
         to begin without state"
    )]
    CountDiffers {
        /// The input.
        topic: String,
        /// Count of the layout.
        expected: u32,
        /// Count at the broker.
        found: u32,
    },
    /// The broker.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// Somebody else has the transactional id.
    #[error("{error}; {holder}")]
    Fenced {
        /// The client's words.
        error: KafkaError,
        /// What is known of whoever has it.
        holder: String,
    },
    /// Retention was faster, where that is accepted.
    #[error(
        "{0}; the task starts again, at the first record that is there (`input.onRetentionGap: accept`)"
    )]
    Outrun(KafkaError),
    /// The volume.
    #[error(transparent)]
    State(#[from] StateError),
    /// The place of checkpoints, where state is to be brought back from it.
    #[error(
        "the volume has no store of this task that can be used, and the checkpoints cannot give one: {0}. It is not begun \
         without state"
    )]
    Checkpoint(CheckpointError),
    /// The rules of a start.
    #[error(transparent)]
    Refused(#[from] StartRefusal),
    /// The subscription.
    #[error(transparent)]
    Spec(#[from] SpecFault),
    /// A name in the compiled app.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Stored panes.
    #[error(transparent)]
    Restore(#[from] RestoreError<StateError>),
    /// The pipeline.
    #[error(transparent)]
    Batch(#[from] PipelineError<StateError>),
    /// Dead letters are asked for without a topic for them.
    #[error("subscription `{subscription}` writes dead letters and names no `dlq` topic")]
    NoDeadLetterTopic {
        /// The subscription.
        subscription: String,
    },
    /// Rows that Arrow refuses.
    #[error("a batch could not be built: {0}; this is a fault of the worker")]
    Arrow(#[from] ArrowError),
    /// Results that cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Clocks that cannot be stored or read.
    #[error("the stored clocks cannot be {what}: {source}")]
    Clocks {
        /// `read` or `written`.
        what: &'static str,
        /// The parser's words.
        source: serde_json::Error,
    },
    /// A commit out of order.
    #[error(transparent)]
    Edge(#[from] NoSuchEdge),
    /// A transaction out of order.
    #[error(transparent)]
    TransactionEdge(#[from] NoSuchTransactionEdge),
    /// The task's code failed.
    #[error("the task panicked: {message}; this is a fault of the worker, please report it")]
    Panicked {
        /// Words of the panic.
        message: String,
    },
}

impl TaskError {
    /// Whether the task ended in front of something in its input, with nothing in doubt of what it had done.
    #[must_use]
    pub fn leaves_state_in_order(&self) -> bool {
        match self {
            Self::BadRecord { .. }
            | Self::Misplaced { .. }
            | Self::TopicGrown(_)
            | Self::CountDiffers { .. }
            | Self::Kafka(KafkaError::OffsetOutOfRange { .. }) => true,
            Self::Kafka(_)
            | Self::Fenced { .. }
            | Self::Result(_)
            | Self::Memory(_)
            | Self::Count(_)
            | Self::OtherTopic { .. }
            | Self::CountUnknown { .. }
            | Self::Outrun(_)
            | Self::State(_)
            | Self::Checkpoint(_)
            | Self::Refused(_)
            | Self::Spec(_)
            | Self::Name(_)
            | Self::Restore(_)
            | Self::Batch(_)
            | Self::NoDeadLetterTopic { .. }
            | Self::Clocks { .. }
            | Self::Arrow(_)
            | Self::Encode(_)
            | Self::Edge(_)
            | Self::TransactionEdge(_)
            | Self::Panicked { .. } => false,
        }
    }

    /// Whether a record stopped the task that ran until then, in its input or on its way out: nothing is wrong with its store
    /// and its broker, so the receipt can say at once what counts of the last commit, and the task be stopped in order.
    #[must_use]
    pub fn can_be_settled(&self) -> bool {
        matches!(
            self,
            Self::BadRecord { .. }
                | Self::Misplaced { .. }
                | Self::TopicGrown(_)
                | Self::Result(_)
                | Self::Kafka(KafkaError::RecordTooLarge { .. } | KafkaError::RecordInvalid { .. })
        )
    }

    /// Whether the process has to end: nothing in it knows any more what is durable.
    #[must_use]
    pub fn ends_process(&self) -> bool {
        matches!(
            self,
            Self::State(StateError::SyncFailed { .. })
                | Self::Batch(PipelineError::Store(StateError::SyncFailed { .. }))
                | Self::Restore(RestoreError::Store(StateError::SyncFailed { .. }))
        )
    }

    /// The file or folder that was found damaged, if that is the fault.
    #[must_use]
    pub fn damage(&self) -> Option<&Path> {
        match self {
            Self::State(StateError::Damaged { path, .. })
            | Self::Batch(PipelineError::Store(StateError::Damaged { path, .. }))
            | Self::Restore(RestoreError::Store(StateError::Damaged { path, .. })) => Some(path),
            _ => None,
        }
    }

    /// What status shows.
    #[must_use]
    pub fn halt(&self) -> TaskHalt {
        let offset = match self {
            Self::BadRecord { offset, .. }
            | Self::Misplaced { offset, .. }
            | Self::CountUnknown { offset, .. }
            | Self::TopicGrown(Growth {
                at: Some(offset), ..
            }) => Some(offset.get()),
            _ => None,
        };
        TaskHalt {
            reason: self.reason().to_owned(),
            message: self.to_string(),
            person_must_act: !self.passes_by_itself(),
            offset,
        }
    }
}

fn of_engine(category: turbine_engine::Category) -> Category {
    match category {
        turbine_engine::Category::User => Category::User,
        turbine_engine::Category::Storage => Category::Storage,
        turbine_engine::Category::Bug => Category::Bug,
    }
}

impl Fault for TaskError {
    fn category(&self) -> Category {
        match self {
            Self::BadRecord { .. }
            | Self::Misplaced { .. }
            | Self::Count(_)
            | Self::Memory(_)
            | Self::Spec(_)
            | Self::Name(_)
            | Self::NoDeadLetterTopic { .. } => Category::User,
            Self::CountDiffers { .. } | Self::TopicGrown(_) => Category::Kafka,
            Self::OtherTopic { .. } => Category::User,
            Self::Result(error)
            | Self::Kafka(error)
            | Self::Fenced { error, .. }
            | Self::Outrun(error) => error.category(),
            Self::CountUnknown { source, .. } => source.category(),
            Self::State(error) => error.category(),
            Self::Checkpoint(error) => error.category(),
            Self::Refused(error) => error.category(),
            Self::Restore(error) => of_engine(error.category()),
            Self::Batch(error) => of_engine(error.category()),
            Self::Clocks { .. } => Category::Storage,
            Self::Arrow(_)
            | Self::Encode(_)
            | Self::Edge(_)
            | Self::TransactionEdge(_)
            | Self::Panicked { .. } => Category::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::BadRecord { .. } => "BadRecord",
            Self::Misplaced { .. } => "Misplaced",
            Self::TopicGrown(_) => "TopicGrown",
            Self::CountUnknown { .. } => "PartitionCountUnknown",
            Self::Result(_) => "ResultRefused",
            Self::Count(_) => "PartitionCountInvalid",
            Self::Memory(_) => "MemoryTooSmall",
            Self::CountDiffers { .. } => "PartitionCountChanged",
            Self::OtherTopic { .. } => "StateOfOtherTopic",
            Self::Kafka(error) | Self::Fenced { error, .. } | Self::Outrun(error) => error.reason(),
            Self::State(error)
            | Self::Batch(PipelineError::Store(error))
            | Self::Restore(RestoreError::Store(error)) => error.reason(),
            Self::Checkpoint(error) => error.reason(),
            Self::Refused(error) => error.reason(),
            Self::Spec(_) | Self::Name(_) => "SpecInvalid",
            Self::NoDeadLetterTopic { .. } => "NoDeadLetterTopic",
            Self::Restore(_) => "StateNotUsable",
            Self::Batch(_) => "PipelineFailed",
            Self::Clocks { .. } => "StateDamaged",
            Self::Arrow(_) | Self::Encode(_) | Self::Edge(_) | Self::TransactionEdge(_) => {
                "WorkerFault"
            }
            Self::Panicked { .. } => "Panicked",
        }
    }

    fn passes_by_itself(&self) -> bool {
        match self {
            Self::Kafka(error) | Self::Fenced { error, .. } => error.passes_by_itself(),
            Self::State(error)
            | Self::Batch(PipelineError::Store(error))
            | Self::Restore(RestoreError::Store(error)) => error.passes_by_itself(),
            Self::Checkpoint(error) => error.passes_by_itself(),
            Self::Refused(error) => error.passes_by_itself(),
            // The start says what is there.
            Self::CountUnknown { .. } | Self::Outrun(_) => true,
            // What made it panic may have been passing; the supervisor counts.
            Self::Panicked { .. } => true,
            Self::BadRecord { .. }
            | Self::Misplaced { .. }
            | Self::TopicGrown(_)
            | Self::Result(_)
            | Self::Count(_)
            | Self::Memory(_)
            | Self::CountDiffers { .. }
            | Self::OtherTopic { .. }
            | Self::Spec(_)
            | Self::Name(_)
            | Self::NoDeadLetterTopic { .. }
            | Self::Restore(_)
            | Self::Batch(_)
            | Self::Clocks { .. }
            | Self::Arrow(_)
            | Self::Encode(_)
            | Self::Edge(_)
            | Self::TransactionEdge(_) => false,
        }
    }
}
