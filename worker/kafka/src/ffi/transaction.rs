//! Transactions: the calls whose answers say whether to try again, to abort or to give up, which the safe crate hides, and
//! whose flush it slows down to steps of 100 ms.

use std::ffi::{CStr, CString};
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka_sys as sys;

use super::millis;

/// The answer of a call that did not do what it was to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransactionError {
    pub(crate) code: Code,
    pub(crate) detail: String,
    /// The same call may be made again.
    pub(crate) retriable: bool,
}

fn answer(error: *mut sys::rd_kafka_error_t) -> Result<(), TransactionError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null error is ours; its text lives as long as it, and is copied before the error is destroyed. It is
    // not used afterwards.
    unsafe {
        let text = sys::rd_kafka_error_string(error);
        let detail = if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        };
        let found = TransactionError {
            code: Code::from(sys::rd_kafka_error_code(error)),
            detail,
            retriable: sys::rd_kafka_error_is_retriable(error) != 0,
        };
        sys::rd_kafka_error_destroy(error);
        Err(found)
    }
}

/// Takes the transactional id over and ends what an earlier life left open.
pub(crate) fn init<C: ProducerContext>(
    producer: &BaseProducer<C>,
    timeout: Duration,
) -> Result<(), TransactionError> {
    // SAFETY: the client is live for the call.
    answer(unsafe {
        sys::rd_kafka_init_transactions(producer.client().native_ptr(), millis(timeout))
    })
}

pub(crate) fn begin<C: ProducerContext>(
    producer: &BaseProducer<C>,
) -> Result<(), TransactionError> {
    // SAFETY: the client is live for the call.
    answer(unsafe { sys::rd_kafka_begin_transaction(producer.client().native_ptr()) })
}

/// Puts a group's offsets, with their metadata, into the transaction. The group has no members.
pub(crate) fn send_offsets<C: ProducerContext>(
    producer: &BaseProducer<C>,
    group: &str,
    offsets: &TopicPartitionList,
    timeout: Duration,
) -> Result<(), TransactionError> {
    let group = CString::new(group).map_err(|error| TransactionError {
        code: Code::InvalidArgument,
        detail: error.to_string(),
        retriable: false,
    })?;
    // SAFETY: the name is NUL-terminated and copied by the call; the result is ours until it is destroyed below.
    let metadata = unsafe { sys::rd_kafka_consumer_group_metadata_new(group.as_ptr()) };
    // SAFETY: client, list and metadata are live for the call, which changes none of them.
    let result = answer(unsafe {
        sys::rd_kafka_send_offsets_to_transaction(
            producer.client().native_ptr(),
            offsets.ptr(),
            metadata,
            millis(timeout),
        )
    });
    // SAFETY: ours, and not used afterwards.
    unsafe { sys::rd_kafka_consumer_group_metadata_destroy(metadata) };
    result
}

/// Flushes and commits. Another thread must be polling.
pub(crate) fn commit<C: ProducerContext>(
    producer: &BaseProducer<C>,
    timeout: Duration,
) -> Result<(), TransactionError> {
    // SAFETY: the client is live for the call.
    answer(unsafe {
        sys::rd_kafka_commit_transaction(producer.client().native_ptr(), millis(timeout))
    })
}

/// Aborts: what was produced and sent counts for nobody. Another thread must be polling.
pub(crate) fn abort<C: ProducerContext>(
    producer: &BaseProducer<C>,
    timeout: Duration,
) -> Result<(), TransactionError> {
    // SAFETY: the client is live for the call.
    answer(unsafe {
        sys::rd_kafka_abort_transaction(producer.client().native_ptr(), millis(timeout))
    })
}
