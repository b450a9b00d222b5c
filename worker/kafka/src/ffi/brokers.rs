//! What a client knows of the cluster, and telling it more.

use std::ffi::CStr;

use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka_sys as sys;

/// Whether the last answer about the cluster named a broker: only then it names a controller. No call to the broker.
pub(crate) fn knows_brokers<C: ClientContext>(client: &Client<C>) -> bool {
    // SAFETY: the client is live; with a time of 0 the call returns what is cached.
    let controller = unsafe { sys::rd_kafka_controllerid(client.native_ptr(), 0) };
    controller >= 0
}

/// Adds bootstrap servers; those that the client has are left as they are.
pub(crate) fn add_brokers<C: ClientContext>(client: &Client<C>, servers: &CStr) {
    // The count that comes back tells nothing: servers that the client had are in it.
    // SAFETY: the client is live, the text NUL-terminated; it is copied.
    unsafe { sys::rd_kafka_brokers_add(client.native_ptr(), servers.as_ptr()) };
}
