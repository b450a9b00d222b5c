//! Which librdkafka properties a user may set, and why not the others.

use std::collections::BTreeMap;

use rdkafka::config::ClientConfig;
use thiserror::Error;
use turbine_protocol::client_properties::{denial, property_refusal};

/// A property that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", property_refusal(name, reason))]
pub struct PropertyRefusal {
    /// The property.
    pub name: String,
    /// Why, and what to do instead.
    pub reason: String,
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
    #[case("check.crcs", "false", "always checked")]
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
