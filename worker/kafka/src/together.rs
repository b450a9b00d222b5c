//! Whether the properties that a user has set go together, and with ours: the client says so only when it is made.

use rdkafka::config::{ClientConfig, FromClientConfig as _};
use rdkafka::consumer::BaseConsumer;
use rdkafka::producer::BaseProducer;

use crate::error::KafkaError;
use crate::settings::{KafkaSettings, QueueBudget, TRANSACTION_TIMEOUT_MS};

/// Stand for an app's own names, which no check of the client looks at.
const NOBODY: &str = "turbine.check.nobody";

impl KafkaSettings {
    /// Makes each client that a worker would, without an address, and lets go of it: no broker is asked. Nothing is made
    /// if the user has set nothing: ours go together.
    ///
    /// `transactions`: a subscription writes by transactions.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] with the client's words about the first that it does not make.
    pub fn check_together(&self, transactions: bool) -> Result<(), KafkaError> {
        if !self.has_properties() {
            return Ok(());
        }
        let budget = QueueBudget::divided(0, 1);
        let refused = |detail: String| KafkaError::Settings {
            detail: format!("kafka.properties do not go together: {detail}"),
        };
        for config in [
            self.admin(),
            self.group(NOBODY),
            self.reader(NOBODY, budget),
        ] {
            BaseConsumer::from_config(&nowhere(config))
                .map_err(|error| refused(error.to_string()))?;
        }
        let (producer, own) = if transactions {
            let own = format!(
                "; exactly once, `message.timeout.ms` and `transaction.timeout.ms` are {TRANSACTION_TIMEOUT_MS}"
            );
            (self.transactional_producer(budget, NOBODY), own)
        } else {
            (self.producer(budget), String::new())
        };
        BaseProducer::from_config(&nowhere(producer))
            .map(drop)
            .map_err(|error| refused(format!("{error}{own}")))
    }
}

fn nowhere(mut config: ClientConfig) -> ClientConfig {
    config.remove("bootstrap.servers");
    config
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;

    use super::*;

    fn check(transactions: bool, properties: &[(&str, &str)]) -> Result<(), KafkaError> {
        let properties = properties
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>();
        KafkaSettings::new("no.such.host:1", None, None, properties)
            .unwrap()
            .check_together(transactions)
    }

    #[rstest]
    #[case(true, &[("linger.ms", "100000")], "linger.ms")]
    #[case(true, &[("socket.timeout.ms", "300000")], "transaction.timeout.ms")]
    #[case(false, &[("linger.ms", "130000")], "message.timeout.ms")]
    #[case(false, &[("message.timeout.ms", "4000"), ("linger.ms", "4000")], "linger.ms")]
    #[case(false, &[("reconnect.backoff.ms", "20000")], "reconnect.backoff.max.ms")]
    #[case(false, &[("fetch.max.bytes", "100")], "fetch.max.bytes")]
    fn what_no_client_is_made_of_is_refused_with_its_names(
        #[case] transactions: bool,
        #[case] properties: &[(&str, &str)],
        #[case] word: &str,
    ) {
        let refusal = check(transactions, properties).unwrap_err().to_string();
        assert!(refusal.contains(word), "{refusal}");
    }

    #[rstest]
    #[case(true, &[])]
    #[case(true, &[("linger.ms", "50")])]
    #[case(false, &[("linger.ms", "100000")])]
    #[case(false, &[("message.timeout.ms", "300000"), ("socket.timeout.ms", "60000")])]
    fn what_clients_are_made_of_is_taken(
        #[case] transactions: bool,
        #[case] properties: &[(&str, &str)],
    ) {
        check(transactions, properties).unwrap();
    }
}
