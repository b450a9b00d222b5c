//! A client that has lost sight of all brokers is told the bootstrap servers again.
//!
//! A broker that is about to stop, or has just started, may answer that the cluster has no brokers. librdkafka (2.10 to 2.13 at
//! least) then forgets all that it knew, its bootstrap servers included, and cancels its own return to them: it never asks anybody
//! again, and neither a read nor an error says so (confluentinc/librdkafka#5301). With one broker, and now and then with several, a
//! restart of the broker is enough.

use std::ffi::CString;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::client::Client;

use crate::ffi;

/// How often it is looked, and how long a client has after it was told. The client keeps each telling in a list of its own, so
/// an outage must not add to it without end.
const INTERVAL: Duration = Duration::from_secs(5);

/// Belongs to one client; whoever serves that calls [`Lifeline::hold`] again and again.
#[derive(Debug)]
pub struct Lifeline {
    bootstrap: CString,
    looked: Option<Instant>,
    sight: Sight,
}

/// Whether the client knows of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// It asks its bootstrap servers for the first time, and goes on with that by itself.
    NotYet,
    /// It knows brokers, whether they answer or not, and tries them by itself.
    Brokers,
    /// It knew some and knows none.
    Lost,
}

impl Sight {
    fn after(self, knows_brokers: bool) -> Self {
        match (self, knows_brokers) {
            (_, true) => Self::Brokers,
            (Self::NotYet, false) => Self::NotYet,
            (Self::Brokers | Self::Lost, false) => Self::Lost,
        }
    }
}

impl Lifeline {
    /// `bootstrap` is the client's own setting.
    #[must_use]
    pub fn new(bootstrap: &str) -> Self {
        Self {
            // The client has taken the same text, so there is no NUL in it.
            bootstrap: CString::new(bootstrap).unwrap_or_default(),
            looked: None,
            sight: Sight::NotYet,
        }
    }

    /// Looks after the client, at most every five seconds once it knows brokers. Never waits.
    pub fn hold<C: ClientContext>(&mut self, client: &Client<C>, now: Instant) {
        let early = self
            .looked
            .is_some_and(|last| now.saturating_duration_since(last) < INTERVAL);
        if early && self.sight != Sight::NotYet {
            return;
        }
        self.looked = Some(now);
        self.sight = self.sight.after(ffi::knows_brokers(client));
        if self.sight == Sight::Lost {
            let servers = ffi::add_brokers(client, &self.bootstrap);
            tracing::warn!(
                bootstrap = %self.bootstrap.to_string_lossy(),
                servers,
                "the Kafka client was told that the cluster has no brokers; it asks the bootstrap servers again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sight::{self, Brokers, Lost, NotYet};
    use rstest::rstest;

    #[rstest]
    #[case(NotYet, false, NotYet)]
    #[case(NotYet, true, Brokers)]
    #[case(Brokers, true, Brokers)]
    #[case(Brokers, false, Lost)]
    #[case(Lost, false, Lost)]
    #[case(Lost, true, Brokers)]
    fn sight_is_lost_only_by_who_had_it(
        #[case] before: Sight,
        #[case] knows_brokers: bool,
        #[case] after: Sight,
    ) {
        assert_eq!(before.after(knows_brokers), after);
    }
}
