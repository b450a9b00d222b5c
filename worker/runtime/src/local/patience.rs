//! A start that waits for its broker: what is started together on one machine comes up in any order, and brokers restart.

use std::time::Duration;

use backon::{BlockingRetryable as _, ExponentialBuilder};
use turbine_protocol::Fault;

/// How long a start waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Longest wait for an answer of the broker to one question.
    pub answer: Duration,
    /// Wait before the first new try; it doubles up to `most`.
    pub first: Duration,
    /// Longest wait before a new try.
    pub most: Duration,
}

impl Default for Patience {
    /// Tries as far apart as those of a task.
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(15),
            first: Duration::from_secs(1),
            most: Duration::from_mins(1),
        }
    }
}

impl Patience {
    /// Does `act` again and again, for as long as what it fails by passes by itself. `told` hears of each such fault, and
    /// for how long it is waited then.
    ///
    /// # Errors
    /// The first fault that does not pass by itself.
    pub fn persist<T, E: Fault>(
        self,
        act: impl FnMut() -> Result<T, E>,
        told: impl FnMut(&E, Duration),
    ) -> Result<T, E> {
        let delays = ExponentialBuilder::new()
            .with_factor(2.0)
            .with_min_delay(self.first)
            .with_max_delay(self.most)
            .without_max_times();
        act.retry(delays)
            .sleep(std::thread::sleep)
            .when(Fault::passes_by_itself)
            .notify(told)
            .call()
    }
}

/// Says what is waited for.
pub fn waiting<E: Fault>(error: &E, wait: Duration) {
    tracing::warn!(
        %error, category = %error.category(), reason = error.reason(), ?wait,
        "the start waits and tries again"
    );
}

#[cfg(test)]
mod tests {
    use turbine_kafka::KafkaError;

    use super::*;

    fn unreachable() -> KafkaError {
        KafkaError::Unreachable {
            bootstrap: "kafka:9999".to_owned(),
            detail: String::new(),
        }
    }

    #[test]
    fn what_passes_by_itself_is_tried_until_it_has_with_a_growing_wait_up_to_a_limit() {
        let patience = Patience {
            first: Duration::from_millis(1),
            most: Duration::from_millis(8),
            ..Patience::default()
        };
        let mut left = 6;
        let mut waits = Vec::new();
        let ended = patience.persist(
            || {
                left -= 1;
                if left == 0 {
                    Ok("there")
                } else {
                    Err(unreachable())
                }
            },
            |_, wait| waits.push(wait),
        );
        assert_eq!(ended, Ok("there"));
        assert_eq!(waits, [1, 2, 4, 8, 8].map(Duration::from_millis));
    }

    #[test]
    fn what_does_not_pass_by_itself_is_not_tried_again() {
        let refused = KafkaError::Settings {
            detail: "no such property".to_owned(),
        };
        let mut tries = 0;
        let ended = Patience::default().persist(
            || {
                tries += 1;
                Err::<(), _>(refused.clone())
            },
            |error, _| panic!("waits for {error}"),
        );
        assert_eq!((ended, tries), (Err(refused), 1));
    }
}
