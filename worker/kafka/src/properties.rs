//! Which librdkafka properties a user may set, and why not the others.

use std::collections::BTreeMap;

use rdkafka::config::ClientConfig;
use thiserror::Error;

/// A property that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("kafka.properties `{name}` is refused: {reason}")]
pub struct PropertyRefusal {
    /// The property.
    pub name: String,
    /// Why, and what to do instead.
    pub reason: String,
}

const ADDRESS: &str = "set it as `kafka.bootstrapServers`";
const SECURITY: &str = "set it by `kafka.tls` and `kafka.sasl`, which take secrets by reference";
const GROUP: &str = "no consumer is a member of a group: tasks come from the assignment";
const OFFSETS: &str = "offsets are committed with the state they belong to, never by the client";
const START: &str =
    "a position that is not in the log stops the task; where an app begins is `input.startFrom`";
const READ: &str = "inputs are read committed, with their ends reported: delivery rests on it";
const WRITE: &str =
    "outputs are acknowledged by all replicas, in order and once: delivery rests on it";
const PLACE: &str = "outputs are placed by murmur2, as every Kafka client expects of keyed state";
const TOPICS: &str = "topics are created by the operator, never by a client";
const MEMORY: &str = "queues are sized from the container's memory and the number of tasks";
const CODE: &str = "it loads code or replaces the broker";
const UNUSED: &str = "nothing reads it, so it would have no effect";

const DENIED: &[(&str, &str)] = &[
    ("bootstrap.servers", ADDRESS),
    ("metadata.broker.list", ADDRESS),
    ("security.protocol", SECURITY),
    ("sasl.mechanism", SECURITY),
    ("sasl.mechanisms", SECURITY),
    ("sasl.username", SECURITY),
    ("sasl.password", SECURITY),
    ("sasl.oauthbearer.client.secret", SECURITY),
    ("ssl.ca.location", SECURITY),
    ("ssl.ca.pem", SECURITY),
    ("ssl.certificate.location", SECURITY),
    ("ssl.certificate.pem", SECURITY),
    ("ssl.key.location", SECURITY),
    ("ssl.key.pem", SECURITY),
    ("ssl.key.password", SECURITY),
    ("ssl.keystore.location", SECURITY),
    ("ssl.keystore.password", SECURITY),
    ("enable.ssl.certificate.verification", SECURITY),
    ("group.id", GROUP),
    ("group.instance.id", GROUP),
    ("group.protocol", GROUP),
    ("group.protocol.type", GROUP),
    ("group.remote.assignor", GROUP),
    ("partition.assignment.strategy", GROUP),
    ("session.timeout.ms", GROUP),
    ("heartbeat.interval.ms", GROUP),
    ("max.poll.interval.ms", GROUP),
    ("enable.auto.commit", OFFSETS),
    ("auto.commit.enable", OFFSETS),
    ("auto.commit.interval.ms", OFFSETS),
    ("enable.auto.offset.store", OFFSETS),
    ("offset.store.method", OFFSETS),
    ("offset.store.path", OFFSETS),
    ("offset.store.sync.interval.ms", OFFSETS),
    ("auto.offset.reset", START),
    ("isolation.level", READ),
    ("enable.partition.eof", READ),
    ("acks", WRITE),
    ("request.required.acks", WRITE),
    ("enable.idempotence", WRITE),
    ("enable.gapless.guarantee", WRITE),
    ("max.in.flight", WRITE),
    ("max.in.flight.requests.per.connection", WRITE),
    ("retries", WRITE),
    ("message.send.max.retries", WRITE),
    ("queuing.strategy", WRITE),
    ("transactional.id", WRITE),
    ("delivery.report.only.error", WRITE),
    ("partitioner", PLACE),
    ("sticky.partitioning.linger.ms", PLACE),
    ("msg_order_cmp", PLACE),
    ("allow.auto.create.topics", TOPICS),
    ("queue.buffering.max.kbytes", MEMORY),
    ("queue.buffering.max.messages", MEMORY),
    ("queued.max.messages.kbytes", MEMORY),
    ("fetch.message.max.bytes", MEMORY),
    ("max.partition.fetch.bytes", MEMORY),
    ("plugin.library.paths", CODE),
    ("ssl.engine.location", CODE),
    ("test.mock.num.brokers", CODE),
    ("test.mock.broker.rtt", CODE),
    ("statistics.interval.ms", UNUSED),
    ("consume.callback.max.messages", UNUSED),
    ("log.queue", UNUSED),
    ("log_level", UNUSED),
    ("builtin.features", UNUSED),
    ("opaque", UNUSED),
    ("default_topic_conf", UNUSED),
];

fn denial(name: &str) -> Option<&'static str> {
    DENIED
        .iter()
        .find(|(denied, _)| *denied == name)
        .map(|(_, reason)| *reason)
        .or_else(|| name.ends_with("_cb").then_some(UNUSED))
}

/// Every property that is not taken, with the reason: those that would break a promise, and those
/// that the client does not know or whose value it does not take.
#[must_use]
pub fn check_properties(properties: &BTreeMap<String, String>) -> Vec<PropertyRefusal> {
    properties
        .iter()
        .filter_map(|(name, value)| {
            let reason = match denial(name) {
                Some(reason) => reason.to_owned(),
                None => ClientConfig::new()
                    .set(name, value)
                    .create_native_config()
                    .err()?
                    .to_string(),
            };
            Some(PropertyRefusal {
                name: name.clone(),
                reason,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn check(name: &str, value: &str) -> Vec<PropertyRefusal> {
        check_properties(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[rstest]
    #[case("enable.auto.commit", "false", "never by the client")]
    #[case("acks", "1", "delivery rests on it")]
    #[case("group.id", "mine", "assignment")]
    #[case("sasl.password", "x", "kafka.sasl")]
    #[case("rebalance_cb", "x", "no effect")]
    #[case("no.such.property", "x", "No such configuration property")]
    #[case("linger.ms", "soon", "Invalid value")]
    fn what_breaks_a_promise_or_has_no_effect_is_refused(
        #[case] name: &str,
        #[case] value: &str,
        #[case] word: &str,
    ) {
        let refusals = check(name, value);
        assert_eq!(refusals.len(), 1);
        assert_eq!(refusals[0].name, name);
        assert!(refusals[0].reason.contains(word), "{}", refusals[0].reason);
    }

    #[rstest]
    #[case("linger.ms", "20")]
    #[case("client.id", "fraud")]
    #[case("socket.keepalive.enable", "true")]
    #[case("message.max.bytes", "2000000")]
    fn what_is_harmless_is_taken(#[case] name: &str, #[case] value: &str) {
        assert_eq!(check(name, value), []);
    }

    #[test]
    fn all_refusals_come_at_once() {
        let properties =
            ["acks", "group.id", "linger.ms"].map(|name| (name.to_owned(), "1".to_owned()));
        let names: Vec<String> = check_properties(&BTreeMap::from(properties))
            .into_iter()
            .map(|refusal| refusal.name)
            .collect();
        assert_eq!(names, ["acks", "group.id"]);
    }
}
