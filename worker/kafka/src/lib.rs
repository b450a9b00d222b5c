//! Everything that speaks to the broker: settings, admin, batch reads, batch writes, commits of
//! group offsets.
//!
//! Calls block. Task threads call them directly; async code goes through a blocking thread.
//!
//! Topics are never created by the clients themselves, offsets are never stored or committed by
//! themselves, and no consumer is member of a group: which task reads what is decided elsewhere.

mod admin;
mod batch;
mod client;
mod consume;
mod courier;
mod dead_letter;
mod error;
mod ffi;
mod lifeline;
mod mock;
mod output;
mod ownership;
mod produce;
mod properties;
mod scan;
mod settings;
mod transaction;

pub use admin::{
    Admin, Broker, CommittedOffset, CountsByBroker, CreateOutcome, DeleteOutcome, GrowOutcome,
    MissingRight, NeededRights, NewTopic, Right, TopicLayout, TopicPresence,
};
pub use batch::{Headers, RecordBatch, Timestamp};
pub use client::LinkHealth;
pub use consume::PartitionReader;
pub use dead_letter::{
    DLQ_HEADER_PREFIX, DeadLetter, DeadLetterHeaders, Origin, Phase, without_ours,
};
pub use error::KafkaError;
pub use lifeline::Lifeline;
pub use mock::EmbeddedBroker;
pub use output::{OutputBatch, Parts, Rejected};
pub use produce::{Abandon, OutputProducer, OutputTopic};
pub use properties::{PropertyRefusal, check_properties};
pub use scan::{Seen, SeenHeaders, TopicScan};
pub use settings::{
    ClientCertificate, KafkaSettings, Mechanism, QueueBudget, Sasl, Secret, TRANSACTION_TIMEOUT_MS,
    Tls,
};
pub use transaction::{CommitOutcome, Transactions};
