//! Asking what this user may do with topics and groups.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::slice;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;

use super::millis;

/// Kafka's codes of the operations that a user may do; `None` if the broker does not say.
pub(crate) type Operations = Option<Vec<u32>>;

/// Which question is asked.
#[derive(Debug, Clone, Copy)]
enum Question {
    Topics,
    Groups,
}

impl Question {
    fn operation(self) -> sys::rd_kafka_admin_op_t {
        match self {
            Self::Topics => sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            Self::Groups => sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
        }
    }
}

/// One name, and what may be done with it or why that is not known.
pub(crate) type Answer = (String, Result<Operations, Code>);

/// What the user may do with each of the topics, in their order of the answer; or why that is not known.
pub(crate) fn topic_operations<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    topics: &[&str],
    timeout: Duration,
) -> Result<Vec<Answer>, Code> {
    ask(client, Question::Topics, topics, timeout)
}

/// The same for groups.
pub(crate) fn group_operations<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    groups: &[&str],
    timeout: Duration,
) -> Result<Vec<Answer>, Code> {
    ask(client, Question::Groups, groups, timeout)
}

fn ask<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    question: Question,
    names: &[&str],
    timeout: Duration,
) -> Result<Vec<Answer>, Code> {
    let names: Vec<CString> = names
        .iter()
        .map(|name| CString::new(*name).map_err(|_| Code::InvalidArgument))
        .collect::<Result<_, _>>()?;
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let client = client.client().native_ptr();
    // SAFETY: the client is live; the options are ours until they are destroyed below.
    let options = unsafe { sys::rd_kafka_AdminOptions_new(client, question.operation()) };
    // SAFETY: the options are live; without a text for the error its length is 0. The returned error is null or ours.
    unsafe {
        sys::rd_kafka_AdminOptions_set_request_timeout(
            options,
            millis(timeout),
            ptr::null_mut(),
            0,
        );
        let refused = sys::rd_kafka_AdminOptions_set_include_authorized_operations(options, 1);
        if !refused.is_null() {
            sys::rd_kafka_error_destroy(refused);
        }
    }
    // SAFETY: the client is live; the queue is ours until it is destroyed below.
    let queue = unsafe { sys::rd_kafka_queue_new(client) };
    // SAFETY: client, options and queue are live; the names are NUL-terminated, as many as is said, and copied by the calls.
    unsafe {
        match question {
            Question::Topics => {
                let topics = sys::rd_kafka_TopicCollection_of_topic_names(
                    pointers.as_mut_ptr(),
                    pointers.len(),
                );
                sys::rd_kafka_DescribeTopics(client, topics, options, queue);
                sys::rd_kafka_TopicCollection_destroy(topics);
            }
            Question::Groups => sys::rd_kafka_DescribeConsumerGroups(
                client,
                pointers.as_mut_ptr(),
                pointers.len(),
                options,
                queue,
            ),
        }
        sys::rd_kafka_AdminOptions_destroy(options);
    }
    // The client ends the request at the timeout by itself; a moment more for its answer.
    let patience = timeout + Duration::from_secs(1);
    // SAFETY: the queue is live; the event is ours and destroyed below, after all that it lends was copied.
    let answer = unsafe {
        let event = sys::rd_kafka_queue_poll(queue, millis(patience));
        if event.is_null() {
            Err(Code::OperationTimedOut)
        } else {
            let answer = match Code::from(sys::rd_kafka_event_error(event)) {
                Code::NoError => Ok(match question {
                    Question::Topics => of_topics(event),
                    Question::Groups => of_groups(event),
                }),
                failed => Err(failed),
            };
            sys::rd_kafka_event_destroy(event);
            answer
        }
    };
    // SAFETY: ours, and not used afterwards; an answer that comes later finds no queue and is dropped.
    unsafe { sys::rd_kafka_queue_destroy(queue) };
    answer
}

/// # Safety
/// `event` is live.
unsafe fn of_topics(event: *mut sys::rd_kafka_event_t) -> Vec<(String, Result<Operations, Code>)> {
    // SAFETY: by this function's contract; an event of another kind yields null and no elements. What is lent lives as
    // long as the event.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return Vec::new();
        }
        let mut count = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        elements(topics, count)
            .iter()
            .map(|topic| {
                let mut count = 0;
                let operations =
                    sys::rd_kafka_TopicDescription_authorized_operations(*topic, &raw mut count);
                described(
                    sys::rd_kafka_TopicDescription_name(*topic),
                    sys::rd_kafka_TopicDescription_error(*topic),
                    operations,
                    count,
                )
            })
            .collect()
    }
}

/// # Safety
/// `event` is live.
unsafe fn of_groups(event: *mut sys::rd_kafka_event_t) -> Vec<(String, Result<Operations, Code>)> {
    // SAFETY: as in `of_topics`.
    unsafe {
        let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event);
        if result.is_null() {
            return Vec::new();
        }
        let mut count = 0;
        let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count);
        elements(groups, count)
            .iter()
            .map(|group| {
                let mut count = 0;
                let operations = sys::rd_kafka_ConsumerGroupDescription_authorized_operations(
                    *group,
                    &raw mut count,
                );
                described(
                    sys::rd_kafka_ConsumerGroupDescription_group_id(*group),
                    sys::rd_kafka_ConsumerGroupDescription_error(*group),
                    operations,
                    count,
                )
            })
            .collect()
    }
}

/// # Safety
/// `start` is null, or the start of `count` elements that live for `'a`.
unsafe fn elements<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { slice::from_raw_parts(start, count) }
}

/// # Safety
/// The name is NUL-terminated, the error null or live, and `operations` null or the start of `count` elements.
unsafe fn described(
    name: *const c_char,
    error: *const sys::rd_kafka_error_t,
    operations: *const sys::rd_kafka_AclOperation_t,
    count: usize,
) -> (String, Result<Operations, Code>) {
    // SAFETY: by this function's contract. Operations are read as the numbers that they are, so that one which this
    // program does not know is no value outside an enum.
    unsafe {
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        if !error.is_null() {
            let code = Code::from(sys::rd_kafka_error_code(error));
            if code != Code::NoError {
                return (name, Err(code));
            }
        }
        let told = !operations.is_null();
        let operations = elements(operations.cast::<u32>(), count).to_vec();
        (name, Ok(told.then_some(operations)))
    }
}
