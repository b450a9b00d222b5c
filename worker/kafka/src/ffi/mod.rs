//! The calls of librdkafka that the safe crate does not offer: batches without an allocation per
//! record, producing with a partition of our own choice, commits with a time limit, and what a user may do.
//!
//! This is the only place in the project where `unsafe` is allowed; each block says why it holds.
#![allow(unsafe_code)]

mod brokers;
mod produce;
mod read;
mod rights;
mod transaction;

use std::ffi::c_int;
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka_sys as sys;

pub(crate) use brokers::{add_brokers, knows_brokers};
pub(crate) use produce::{ProduceBuffer, TopicHandle, flush, produce_with_headers, queued};
pub(crate) use read::{Borrowed, Message, PartitionQueue, cached_watermarks, commit};
pub(crate) use rights::{Operations, group_operations, topic_operations};
pub(crate) use transaction::{
    TransactionError, abort as abort_transaction, begin as begin_transaction,
    commit as commit_transaction, init as init_transactions, send_offsets,
};

fn millis(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

fn code(raw: sys::rd_kafka_resp_err_t) -> Result<(), Code> {
    match Code::from(raw) {
        Code::NoError => Ok(()),
        other => Err(other),
    }
}

/// The mock cluster, to be held by any thread.
pub(crate) struct Mock(pub(crate) MockCluster<'static, DefaultProducerContext>);

// SAFETY: the cluster runs on librdkafka's own thread and is spoken to through its queue; the
// client it hangs on is held inside and dropped with it.
unsafe impl Send for Mock {}
// SAFETY: as above; every call goes through that queue.
unsafe impl Sync for Mock {}
