//! The calls of librdkafka that the safe crate does not offer: batches without an allocation per
//! record, producing with a partition of our own choice, and commits with a time limit.
//!
//! This is the only place in the project where `unsafe` is allowed; each block says why it holds.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer, ProducerContext};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka_sys as sys;

fn millis(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

fn code(raw: sys::rd_kafka_resp_err_t) -> Result<(), Code> {
    match Code::from(raw) {
        Code::NoError => Ok(()),
        other => Err(other),
    }
}

/// The queue of one assigned partition, cut off from the consumer's common one so that records
/// come to us and everything else (logs, errors) to the consumer's poll.
#[derive(Debug)]
pub(crate) struct PartitionQueue(NonNull<sys::rd_kafka_queue_t>);

// SAFETY: librdkafka's queues are thread-safe handles ("The library is completely thread safe").
unsafe impl Send for PartitionQueue {}
// SAFETY: as above.
unsafe impl Sync for PartitionQueue {}

impl PartitionQueue {
    /// Must be dropped before the consumer; [`Message`]s taken from it too.
    pub(crate) fn split<C: ConsumerContext>(
        consumer: &BaseConsumer<C>,
        topic: &str,
        partition: i32,
    ) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the client pointer is live for as long as `consumer` is borrowed, the name is a
        // NUL-terminated text, and the returned handle is owned by us until `Drop`.
        let queue = unsafe {
            sys::rd_kafka_queue_get_partition(
                consumer.client().native_ptr(),
                topic.as_ptr(),
                partition,
            )
        };
        let queue = NonNull::new(queue)?;
        // SAFETY: `queue` is live; a null destination ends forwarding, as documented.
        unsafe { sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut()) };
        Some(Self(queue))
    }

    /// Appends up to `max` messages; waits until `max` are there or `wait` is over.
    pub(crate) fn consume(
        &self,
        wait: Duration,
        max: usize,
        into: &mut Vec<Message>,
    ) -> Result<usize, Code> {
        into.reserve(max);
        // SAFETY: `Message` is a transparent non-null pointer, so the spare capacity of at least
        // `max` elements is what the call expects; it fills the first `count` of them with owned
        // messages.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(
                self.0.as_ptr(),
                millis(wait),
                into.as_mut_ptr().add(into.len()).cast(),
                max,
            )
        };
        let Ok(count) = usize::try_from(count) else {
            // SAFETY: reads this thread's last error, no pointers involved.
            return Err(Code::from(unsafe { sys::rd_kafka_last_error() }));
        };
        // SAFETY: `count` (at most `max`) further elements were just initialised.
        unsafe { into.set_len(into.len() + count) };
        Ok(count)
    }
}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: we own this handle and it is not used afterwards.
        unsafe { sys::rd_kafka_queue_destroy(self.0.as_ptr()) };
    }
}

/// One fetched message, or an event of its partition; owned.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Message(NonNull<sys::rd_kafka_message_t>);

// SAFETY: a message is plain memory owned by its holder; its destruction is thread-safe. It is
// not `Sync`: headers are parsed into it at the first access.
unsafe impl Send for Message {}
impl Message {
    fn raw(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: the pointer came from librdkafka and stays valid until `Drop`.
        unsafe { self.0.as_ref() }
    }

    /// The event this is, if it is no record.
    pub(crate) fn event(&self) -> Option<Code> {
        code(self.raw().err).err()
    }

    /// What the client says about the event.
    pub(crate) fn event_text(&self) -> String {
        let text = self.value().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    pub(crate) fn offset(&self) -> i64 {
        self.raw().offset
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        let raw = self.raw();
        bytes(raw.key, raw.key_len)
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        let raw = self.raw();
        bytes(raw.payload, raw.len)
    }

    /// Milliseconds, and whether the broker set them; `None` if the record has no time.
    pub(crate) fn timestamp(&self) -> Option<(i64, bool)> {
        use sys::rd_kafka_timestamp_type_t as Kind;
        let mut kind = Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is live and `kind` is a valid place to write to.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.0.as_ptr(), &raw mut kind) };
        match kind {
            Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => None,
            Kind::RD_KAFKA_TIMESTAMP_CREATE_TIME => Some((time, false)),
            Kind::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => Some((time, true)),
        }
    }

    /// The header at `index`, in the record's order; parsed at the first call.
    pub(crate) fn header(&self, index: usize) -> Option<(&[u8], Option<&[u8]>)> {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is live. The first call parses the headers into the message; no
        // other thread is at it, as `Message` is not `Sync`.
        let found = unsafe { sys::rd_kafka_message_headers(self.0.as_ptr(), &raw mut headers) };
        if code(found).is_err() || headers.is_null() {
            return None;
        }
        let mut name: *const c_char = ptr::null();
        let mut value: *const c_void = ptr::null();
        let mut size = 0;
        // SAFETY: `headers` belongs to the live message; the three places are valid.
        let found = unsafe {
            sys::rd_kafka_header_get_all(
                headers,
                index,
                &raw mut name,
                &raw mut value,
                &raw mut size,
            )
        };
        if code(found).is_err() || name.is_null() {
            return None;
        }
        // SAFETY: librdkafka terminates names with NUL and keeps them with the message.
        let name = unsafe { std::ffi::CStr::from_ptr(name) }.to_bytes();
        Some((name, bytes(value, size)))
    }
}

fn bytes<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: librdkafka gives a start and a length of memory that lives as long as the message;
    // callers tie the result to a borrow of it.
    Some(unsafe { slice::from_raw_parts(start.cast(), length) })
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: we own the message and it is not used afterwards.
        unsafe { sys::rd_kafka_message_destroy(self.0.as_ptr()) };
    }
}

/// Low and high watermark as last seen by fetches; no call to the broker.
pub(crate) fn cached_watermarks<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partition: i32,
) -> Option<(i64, i64)> {
    let topic = CString::new(topic).ok()?;
    let (mut low, mut high) = (-1, -1);
    // SAFETY: the client is live, the name NUL-terminated, the two places valid.
    let found = unsafe {
        sys::rd_kafka_get_watermark_offsets(
            consumer.client().native_ptr(),
            topic.as_ptr(),
            partition,
            &raw mut low,
            &raw mut high,
        )
    };
    code(found).ok().map(|()| (low, high))
}

/// Commits offsets and waits at most `timeout`. `OperationTimedOut` means: it is not known.
pub(crate) fn commit<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    offsets: &TopicPartitionList,
    timeout: Duration,
) -> Result<(), Code> {
    let client = consumer.client().native_ptr();
    // SAFETY: the client is live; the queue is ours until it is destroyed below.
    let queue = unsafe { sys::rd_kafka_queue_new(client) };
    // SAFETY: all three are live; without a callback the result comes as an event on the queue.
    let asked =
        unsafe { sys::rd_kafka_commit_queue(client, offsets.ptr(), queue, None, ptr::null_mut()) };
    let result = code(asked).and_then(|()| {
        // SAFETY: the queue is live; the event is ours and destroyed below.
        let event = unsafe { sys::rd_kafka_queue_poll(queue, millis(timeout)) };
        if event.is_null() {
            return Err(Code::OperationTimedOut);
        }
        // SAFETY: `event` is live until it is destroyed, and the list it lends lives as long.
        unsafe {
            let result = code(sys::rd_kafka_event_error(event));
            let list = sys::rd_kafka_event_topic_partition_list(event);
            let result = result.and_then(|()| first_error(list));
            sys::rd_kafka_event_destroy(event);
            result
        }
    });
    // SAFETY: ours, and not used afterwards. A result that comes later finds no queue and is
    // dropped by librdkafka, which counts references.
    unsafe { sys::rd_kafka_queue_destroy(queue) };
    result
}

/// # Safety
/// `list` is null or a live list of librdkafka.
unsafe fn first_error(list: *const sys::rd_kafka_topic_partition_list_t) -> Result<(), Code> {
    if list.is_null() {
        return Ok(());
    }
    // SAFETY: by this function's contract; a list has `cnt` elements.
    let elements = unsafe {
        let count = usize::try_from((*list).cnt).unwrap_or(0);
        if count == 0 {
            return Ok(());
        }
        slice::from_raw_parts((*list).elems, count)
    };
    elements.iter().try_for_each(|element| code(element.err))
}

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

/// The mock cluster, to be held by any thread.
pub(crate) struct Mock(pub(crate) MockCluster<'static, DefaultProducerContext>);

// SAFETY: the cluster runs on librdkafka's own thread and is spoken to through its queue; the
// client it hangs on is held inside and dropped with it.
unsafe impl Send for Mock {}
// SAFETY: as above; every call goes through that queue.
unsafe impl Sync for Mock {}
