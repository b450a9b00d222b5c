//! Producing in batches.

use std::ffi::{CString, c_int, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use rdkafka_sys as sys;

use super::{code, millis};

/// A topic as the producer knows it.
#[derive(Debug)]
pub(crate) struct TopicHandle(NonNull<sys::rd_kafka_topic_t>);

// SAFETY: topic handles are thread-safe and counted by reference.
unsafe impl Send for TopicHandle {}
// SAFETY: as above.
unsafe impl Sync for TopicHandle {}

impl TopicHandle {
    /// Must be dropped before the producer.
    pub(crate) fn new<C: ProducerContext>(producer: &BaseProducer<C>, topic: &str) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the client is live, the name NUL-terminated, null asks for the default
        // settings; the returned handle is ours until `Drop`.
        NonNull::new(unsafe {
            sys::rd_kafka_topic_new(
                producer.client().native_ptr(),
                topic.as_ptr(),
                ptr::null_mut(),
            )
        })
        .map(Self)
    }
}

impl Drop for TopicHandle {
    fn drop(&mut self) {
        // SAFETY: we own this handle and it is not used afterwards.
        unsafe { sys::rd_kafka_topic_destroy(self.0.as_ptr()) };
    }
}

/// Records to be produced, as librdkafka takes them; kept to be filled again.
#[derive(Debug, Default)]
pub(crate) struct ProduceBuffer(Vec<sys::rd_kafka_message_t>);

// SAFETY: between calls the buffer is empty, so no pointer in it is ever seen by another thread.
unsafe impl Send for ProduceBuffer {}

impl ProduceBuffer {
    /// Produces records, copied, each to its partition. Waits while the queue is full, so the
    /// order of what goes to one partition is kept; another thread must be polling. Calls `failed`
    /// with the index of each record that was not taken.
    pub(crate) fn produce<'a>(
        &mut self,
        topic: &TopicHandle,
        records: impl Iterator<Item = (i32, Option<&'a [u8]>, Option<&'a [u8]>)>,
        mut failed: impl FnMut(usize, Code),
    ) {
        fn parts(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
            bytes.map_or((ptr::null_mut(), 0), |bytes| {
                (bytes.as_ptr().cast_mut().cast(), bytes.len())
            })
        }
        self.0.extend(records.map(|(partition, key, value)| {
            let (payload, len) = parts(value);
            let (key, key_len) = parts(key);
            sys::rd_kafka_message_t {
                err: sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
                rkt: ptr::null_mut(),
                partition,
                payload,
                len,
                key,
                key_len,
                offset: 0,
                _private: ptr::null_mut(),
            }
        }));
        let flags =
            sys::RD_KAFKA_MSG_F_COPY | sys::RD_KAFKA_MSG_F_PARTITION | sys::RD_KAFKA_MSG_F_BLOCK;
        for (chunk_at, chunk) in self.0.chunks_mut(CHUNK).enumerate() {
            let count = c_int::try_from(chunk.len()).unwrap_or(c_int::MAX);
            // SAFETY: the topic is live; `chunk` holds `count` messages whose key and value
            // outlive the call (they are borrowed for `'a`) and are copied, not changed, by it.
            let taken = unsafe {
                sys::rd_kafka_produce_batch(
                    topic.0.as_ptr(),
                    UNASSIGNED,
                    flags,
                    chunk.as_mut_ptr(),
                    count,
                )
            };
            if taken != count {
                for (at, message) in chunk.iter().enumerate() {
                    if let Err(error) = code(message.err) {
                        failed(chunk_at * CHUNK + at, error);
                    }
                }
            }
        }
        self.0.clear();
    }
}

/// `RD_KAFKA_PARTITION_UA`; ignored, as each message carries its own partition.
const UNASSIGNED: i32 = -1;

/// Larger batches gain nothing.
const CHUNK: usize = 2000;

/// Produces one record with headers and, if given, a time. Waits while the queue is full.
pub(crate) fn produce_with_headers<'a, C: ProducerContext>(
    producer: &BaseProducer<C>,
    topic: &TopicHandle,
    partition: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    timestamp: Option<i64>,
) -> Result<(), Code> {
    use sys::rd_kafka_vtype_t as Kind;
    use sys::rd_kafka_vu_s__bindgen_ty_1 as Value;

    let memory = |bytes: Option<&[u8]>| {
        let (start, size) = bytes.map_or((ptr::null_mut(), 0), |bytes| {
            (bytes.as_ptr().cast_mut().cast(), bytes.len())
        });
        Value {
            mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: start, size },
        }
    };
    // SAFETY: makes an empty list, ours until librdkafka takes it over.
    let list = unsafe { sys::rd_kafka_headers_new(8) };
    let mut added = Ok(());
    for (name, value) in headers {
        let (start, size) = value.map_or((ptr::null(), 0), |value| {
            (value.as_ptr().cast::<c_void>(), value.len())
        });
        // SAFETY: the list is live; name and value are copied during the call. Lengths of slices
        // fit `isize` by Rust's own rule.
        let result = unsafe {
            sys::rd_kafka_header_add(
                list,
                name.as_ptr().cast(),
                name.len().cast_signed(),
                start,
                size.cast_signed(),
            )
        };
        added = added.and(code(result));
    }
    let flags = sys::RD_KAFKA_MSG_F_COPY | sys::RD_KAFKA_MSG_F_BLOCK;
    let mut arguments = vec![
        (
            Kind::RD_KAFKA_VTYPE_RKT,
            Value {
                rkt: topic.0.as_ptr(),
            },
        ),
        (Kind::RD_KAFKA_VTYPE_PARTITION, Value { i32_: partition }),
        (Kind::RD_KAFKA_VTYPE_MSGFLAGS, Value { i: flags }),
        (Kind::RD_KAFKA_VTYPE_KEY, memory(key)),
        (Kind::RD_KAFKA_VTYPE_VALUE, memory(value)),
        (Kind::RD_KAFKA_VTYPE_HEADERS, Value { headers: list }),
    ];
    if let Some(time) = timestamp {
        arguments.push((Kind::RD_KAFKA_VTYPE_TIMESTAMP, Value { i64_: time }));
    }
    let arguments: Vec<sys::rd_kafka_vu_t> = arguments
        .into_iter()
        .map(|(vtype, u)| sys::rd_kafka_vu_t { vtype, u })
        .collect();
    let result = added.and_then(|()| {
        // SAFETY: client, topic and arguments are live for the call; key and value are copied by
        // it; it takes the headers over only if it succeeds.
        let error = unsafe {
            sys::rd_kafka_produceva(
                producer.client().native_ptr(),
                arguments.as_ptr(),
                arguments.len(),
            )
        };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: a non-null error is ours; it is read once and destroyed.
        unsafe {
            let found = Code::from(sys::rd_kafka_error_code(error));
            sys::rd_kafka_error_destroy(error);
            Err(found)
        }
    });
    if result.is_err() {
        // SAFETY: nothing took the list over, so it is still ours.
        unsafe { sys::rd_kafka_headers_destroy(list) };
    }
    result
}

/// Waits until every produced record is acknowledged or has failed. Another thread must be
/// polling. False if `timeout` was over first.
pub(crate) fn flush<C: ProducerContext>(producer: &BaseProducer<C>, timeout: Duration) -> bool {
    // SAFETY: the client is live for the call.
    let result = unsafe { sys::rd_kafka_flush(producer.client().native_ptr(), millis(timeout)) };
    code(result).is_ok()
}

/// Records produced and not yet acknowledged or failed, and events not yet polled.
pub(crate) fn queued<C: ProducerContext>(producer: &BaseProducer<C>) -> usize {
    // SAFETY: the client is live for the call.
    let length = unsafe { sys::rd_kafka_outq_len(producer.client().native_ptr()) };
    usize::try_from(length).unwrap_or(0)
}
