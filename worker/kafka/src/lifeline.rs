//! A client that has lost sight of all brokers is told the bootstrap servers again.
//!
//! A broker that is about to stop, or has just started, may answer that the cluster has no brokers. librdkafka (2.10 to 2.13 at
//! least) then forgets all that it knew, its bootstrap servers included, and cancels its own return to them: it never asks anybody
//! again, and neither a read nor an error says so (confluentinc/librdkafka#5301). With one broker, and now and then with several, a
//! restart of the broker is enough.

use std::ffi::CString;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::client::Client;

use crate::client::lock;
use crate::ffi;

/// How often it is looked, and how long a client has to find a broker before it is told.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long it has at most, once it was told in vain: the client keeps each telling in a list of its own, so a long outage must
/// not add to it too often.
const LONGEST: Duration = Duration::from_secs(30);

/// Belongs to one client. Whoever calls that calls [`Lifeline::hold`] before: a client that is called again and again, and only
/// to commit offsets, loses sight like one that reads.
#[derive(Debug)]
pub struct Lifeline {
    bootstrap: CString,
    watch: Mutex<Watch>,
}

/// When the client is looked at next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Watch {
    /// It was not looked at.
    #[default]
    Begun,
    /// It knows brokers, whether they answer or not, and tries them by itself; or it is new and asks its bootstrap servers.
    Trusted { due: Instant },
    /// It was told.
    Told { due: Instant, pause: Duration },
}

/// What there is to do for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    Nothing,
    Tell,
    TellAgain,
}

impl Watch {
    fn is_due(self, now: Instant) -> bool {
        match self {
            Self::Begun => true,
            Self::Trusted { due } | Self::Told { due, .. } => now >= due,
        }
    }

    fn after(self, knows_brokers: bool, now: Instant) -> (Self, Duty) {
        let trusted = Self::Trusted {
            due: now + INTERVAL,
        };
        let told = |pause| Self::Told {
            due: now + pause,
            pause,
        };
        match (self, knows_brokers) {
            (_, true) | (Self::Begun, false) => (trusted, Duty::Nothing),
            // A new one as well: whether it has lost sight before the second look or has not got it cannot be told apart, and
            // servers that it has are left as they are.
            (Self::Trusted { .. }, false) => (told(INTERVAL), Duty::Tell),
            (Self::Told { pause, .. }, false) => (told((pause * 2).min(LONGEST)), Duty::TellAgain),
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
            watch: Mutex::default(),
        }
    }

    /// Looks after the client, at most every five seconds. Never waits.
    pub fn hold<C: ClientContext>(&self, client: &Client<C>, now: Instant) {
        let mut watch = lock(&self.watch);
        if !watch.is_due(now) {
            return;
        }
        let (after, duty) = watch.after(ffi::knows_brokers(client), now);
        *watch = after;
        match duty {
            Duty::Nothing => {}
            Duty::Tell => {
                ffi::add_brokers(client, &self.bootstrap);
                tracing::warn!(
                    bootstrap = %self.bootstrap.to_string_lossy(),
                    "a Kafka client knows no broker of the cluster; it asks the bootstrap servers again"
                );
            }
            Duty::TellAgain => {
                ffi::add_brokers(client, &self.bootstrap);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(knows_brokers: &[bool]) -> Vec<(Duty, u64)> {
        let mut now = Instant::now();
        let mut watch = Watch::default();
        let looks = knows_brokers.iter().map(|knows| {
            let began = now;
            while !watch.is_due(now) {
                now += Duration::from_secs(1);
            }
            let (after, duty) = watch.after(*knows, now);
            watch = after;
            (duty, (now - began).as_secs())
        });
        looks.collect()
    }

    #[test]
    fn who_knows_brokers_is_told_nothing() {
        assert_eq!(
            looks(&[true, true, true]),
            [(Duty::Nothing, 0), (Duty::Nothing, 5), (Duty::Nothing, 5)]
        );
    }

    #[test]
    fn a_new_client_has_five_seconds() {
        assert_eq!(
            looks(&[false, true, true]),
            [(Duty::Nothing, 0), (Duty::Nothing, 5), (Duty::Nothing, 5)]
        );
        assert_eq!(
            looks(&[false, false]),
            [(Duty::Nothing, 0), (Duty::Tell, 5)]
        );
    }

    #[test]
    fn who_lost_sight_is_told_at_the_next_look_and_then_ever_less_often() {
        assert_eq!(
            looks(&[true, false, false, false, false, false, true, false]),
            [
                (Duty::Nothing, 0),
                (Duty::Tell, 5),
                (Duty::TellAgain, 5),
                (Duty::TellAgain, 10),
                (Duty::TellAgain, 20),
                (Duty::TellAgain, 30),
                (Duty::Nothing, 30),
                (Duty::Tell, 5),
            ]
        );
    }
}
