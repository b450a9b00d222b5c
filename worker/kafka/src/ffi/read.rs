//! Reading a partition and committing its offset.

use std::ffi::{CString, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka_sys as sys;

use super::{code, millis};

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
        Borrowed(self.0, PhantomData).header(index)
    }
}

/// A message that somebody else owns. Like its owner it stays on its thread, as headers are parsed into it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Borrowed<'a>(NonNull<sys::rd_kafka_message_t>, PhantomData<&'a ()>);

impl<'a> Borrowed<'a> {
    pub(crate) fn of(message: &'a BorrowedMessage<'_>) -> Option<Self> {
        NonNull::new(message.ptr()).map(|message| Self(message, PhantomData))
    }

    /// The header at `index`, in the record's order; parsed at the first call. Its bytes are given as they are: the safe
    /// crate wants names to be UTF-8 and panics where one is not.
    pub(crate) fn header(self, index: usize) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is live for `'a`. The first call parses the headers into the message; no
        // other thread is at it, as neither `Message` nor this is `Sync`.
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
