//! librdkafka properties that a user may not set, and why.

/// Properties that are refused for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denial {
    /// Why, and what to do instead.
    pub reason: &'static str,
    /// The properties.
    pub names: &'static [&'static str],
}

/// Ending of the properties that take a function, which no text can give.
pub const CALLBACK_SUFFIX: &str = "_cb";
/// Why [`CALLBACK_SUFFIX`] is refused, and others that no part of Turbine reads.
pub const UNUSED: &str = "nothing reads it, so it would have no effect";

/// Every property that is refused by name.
pub const DENIALS: &[Denial] = &[
    Denial {
        reason: "set it as `kafka.bootstrapServers`",
        names: &["bootstrap.servers", "metadata.broker.list"],
    },
    Denial {
        reason: "set it by `kafka.tls` and `kafka.sasl`, which take secrets by reference",
        names: &[
            "security.protocol",
            "sasl.mechanism",
            "sasl.mechanisms",
            "sasl.username",
            "sasl.password",
            "ssl.ca.location",
            "ssl.ca.pem",
            "ssl.certificate.location",
            "ssl.certificate.pem",
            "ssl.key.location",
            "ssl.key.pem",
            "ssl.key.password",
            "ssl.keystore.location",
            "ssl.keystore.password",
            "enable.ssl.certificate.verification",
        ],
    },
    Denial {
        reason: "logins are PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, set by `kafka.sasl`",
        names: &[
            "enable.sasl.oauthbearer.unsecure.jwt",
            "sasl.kerberos.keytab",
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.principal",
            "sasl.kerberos.service.name",
            "sasl.oauthbearer.assertion.algorithm",
            "sasl.oauthbearer.assertion.claim.aud",
            "sasl.oauthbearer.assertion.claim.exp.seconds",
            "sasl.oauthbearer.assertion.claim.iss",
            "sasl.oauthbearer.assertion.claim.jti.include",
            "sasl.oauthbearer.assertion.claim.nbf.seconds",
            "sasl.oauthbearer.assertion.claim.sub",
            "sasl.oauthbearer.assertion.file",
            "sasl.oauthbearer.assertion.jwt.template.file",
            "sasl.oauthbearer.assertion.private.key.file",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.private.key.pem",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.client.id",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.extensions",
            "sasl.oauthbearer.grant.type",
            "sasl.oauthbearer.metadata.authentication.type",
            "sasl.oauthbearer.method",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.token.endpoint.url",
        ],
    },
    Denial {
        reason: "the broker says what it can; guessed from an old version, it has neither transactions nor offsets with metadata",
        names: &[
            "api.version.request",
            "api.version.fallback.ms",
            "broker.version.fallback",
        ],
    },
    Denial {
        reason: "no consumer is a member of a group: tasks come from the assignment",
        names: &[
            "group.id",
            "group.instance.id",
            "group.protocol",
            "group.protocol.type",
            "group.remote.assignor",
            "partition.assignment.strategy",
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "max.poll.interval.ms",
        ],
    },
    Denial {
        reason: "offsets are committed with the state they belong to, never by the client",
        names: &[
            "enable.auto.commit",
            "auto.commit.enable",
            "auto.commit.interval.ms",
            "enable.auto.offset.store",
            "offset.store.method",
            "offset.store.path",
            "offset.store.sync.interval.ms",
        ],
    },
    Denial {
        reason: "a position that is not in the log stops the task; where an app begins is `input.startFrom`",
        names: &["auto.offset.reset"],
    },
    Denial {
        reason: "inputs are read committed, with their ends reported: delivery rests on it",
        names: &["isolation.level", "enable.partition.eof"],
    },
    Denial {
        reason: "checksums of records are always checked: flipped bits would be taken for a record",
        names: &["check.crcs"],
    },
    Denial {
        reason: "outputs are acknowledged by all replicas, in order and once: delivery rests on it",
        names: &[
            "acks",
            "request.required.acks",
            "enable.idempotence",
            "enable.gapless.guarantee",
            "max.in.flight",
            "max.in.flight.requests.per.connection",
            "retries",
            "message.send.max.retries",
            "queuing.strategy",
            "transactional.id",
            "transaction.timeout.ms",
            "delivery.report.only.error",
        ],
    },
    Denial {
        reason: "outputs are placed by murmur2, as every Kafka client expects of keyed state",
        names: &[
            "partitioner",
            "sticky.partitioning.linger.ms",
            "msg_order_cmp",
        ],
    },
    Denial {
        reason: "topics are created by the operator, never by a client",
        names: &["allow.auto.create.topics"],
    },
    Denial {
        reason: "queues are sized from the container's memory and the number of tasks",
        names: &[
            "queue.buffering.max.kbytes",
            "queue.buffering.max.messages",
            "queued.max.messages.kbytes",
            "fetch.message.max.bytes",
            "queued.min.messages",
            "max.partition.fetch.bytes",
        ],
    },
    Denial {
        reason: "it loads code or replaces the broker",
        names: &[
            "plugin.library.paths",
            "ssl.engine.location",
            "test.mock.num.brokers",
            "test.mock.broker.rtt",
        ],
    },
    Denial {
        reason: UNUSED,
        names: &[
            "statistics.interval.ms",
            "consume.callback.max.messages",
            "log.queue",
            "log_level",
            "builtin.features",
            "opaque",
            "default_topic_conf",
        ],
    },
];

/// What is refused beside a subscription that is exactly once: there no record is tried for longer than its transaction lives,
/// whatever these say.
pub const BESIDE_TRANSACTIONS: Denial = Denial {
    reason: "exactly once, a record is tried for as long as its transaction lives, so it would have no effect; leave it out, or \
             use processingGuarantee: atLeastOnce for every subscription",
    names: &["delivery.timeout.ms", "message.timeout.ms"],
};

/// Why a property is refused; none if it is not.
#[must_use]
pub fn denial(name: &str) -> Option<&'static str> {
    DENIALS
        .iter()
        .find(|denial| denial.names.contains(&name))
        .map(|denial| denial.reason)
        .or_else(|| name.ends_with(CALLBACK_SUFFIX).then_some(UNUSED))
}

/// The refusal of a property, in the same words at admission, in the tools and in the client.
#[must_use]
pub fn property_refusal(name: &str, reason: &str) -> String {
    format!("kafka.properties `{name}` is refused: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_refused_for_one_reason_only() {
        let mut names: Vec<_> = DENIALS
            .iter()
            .chain([&BESIDE_TRANSACTIONS])
            .flat_map(|denial| denial.names)
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn what_breaks_a_promise_is_refused_and_what_is_harmless_is_not() {
        for name in [
            "acks",
            "group.id",
            "isolation.level",
            "check.crcs",
            "sasl.password",
            "sasl.oauthbearer.method",
            "sasl.kerberos.keytab",
            "api.version.request",
            "rebalance_cb",
        ] {
            assert!(denial(name).is_some(), "{name}");
        }
        for name in [
            "linger.ms",
            "client.id",
            "compression.type",
            "socket.keepalive.enable",
        ] {
            assert_eq!(denial(name), None, "{name}");
        }
    }
}
