//! What became of the records that were written.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::{BaseProducer, Producer as _, PurgeConfig};

use super::OutputProducer;
use crate::client::{Context, LinkHealth};
use crate::doing::Resource;
use crate::error::KafkaError;
use crate::ffi;
use crate::ownership::Remedy;

/// Gives up what a producer has not written yet, from another thread: frees a call that waits for
/// room in the queue.
#[derive(Clone)]
pub struct Abandon(Arc<BaseProducer<Context>>);

impl fmt::Debug for Abandon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Abandon")
    }
}

impl Abandon {
    /// Fails everything that is not acknowledged yet.
    pub fn abandon(&self) {
        self.0.purge(PurgeConfig::default().queue().inflight());
    }
}

impl OutputProducer {
    /// The first failure since the producer was made, if there was one.
    ///
    /// # Errors
    /// If there was.
    pub fn check(&self) -> Result<(), KafkaError> {
        // First, since all that is under way fails with it.
        let fatal = self.producer.client().fatal_error();
        match (fatal, &self.transactional) {
            (Some((code, detail)), Some(transactional))
                if Remedy::of(code, false) == Remedy::Lost =>
            {
                Err(transactional.ownership.lost(detail))
            }
            (fatal, _) => match (self.producer.context().undelivered(), fatal) {
                (Some(error), _) => Err(error),
                // An idempotent producer asks for its number before it writes.
                (
                    None,
                    Some((
                        code @ (Code::ClusterAuthorizationFailed
                        | Code::TopicAuthorizationFailed
                        | Code::TransactionalIdAuthorizationFailed),
                        detail,
                    )),
                ) => Err(self
                    .doing("write to", Resource::Cluster, Duration::ZERO)
                    .code(code, &detail)),
                (None, Some((_, detail))) => Err(KafkaError::Fatal {
                    what: "write",
                    detail,
                }),
                (None, None) => Ok(()),
            },
        }
    }

    /// Returns once everything written is acknowledged by all replicas that have to.
    ///
    /// # Errors
    /// The first failure of any record since the producer was made, even if it was returned
    /// before. [`KafkaError::TimedOut`] if the deadline came first; what is not acknowledged then
    /// may still be written later.
    pub fn flush_acked(&self, deadline: Instant) -> Result<(), KafkaError> {
        let started = Instant::now();
        let timeout = deadline.saturating_duration_since(started);
        let flushed = ffi::flush(&self.producer, timeout);
        // With an empty queue every failure has been handed to the poller, which may still be at
        // it: an event leaves the queue's length only when it is destroyed.
        while flushed && ffi::queued(&self.producer) > 0 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        self.check()?;
        if flushed {
            self.producer.context().settled();
            Ok(())
        } else {
            Err(KafkaError::TimedOut {
                what: format!(
                    "{} outputs at {}: their acknowledgement",
                    ffi::queued(&self.producer),
                    self.bootstrap
                ),
                after: timeout,
            })
        }
    }

    /// Records written and not yet acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        ffi::queued(&self.producer)
    }

    /// The trouble on the way to the broker that the client is getting over, since the last flush.
    #[must_use]
    pub fn link(&self) -> Option<LinkHealth> {
        self.producer.context().trouble()
    }

    /// A handle by which another thread can free a call of this producer that waits.
    #[must_use]
    pub fn abandon_handle(&self) -> Abandon {
        Abandon(Arc::clone(&self.producer))
    }
}
