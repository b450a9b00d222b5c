use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use turbine_kafka::Abandon;

/// An order to stop, given once and never taken back.
#[derive(Debug, Default)]
pub struct StopSignal {
    given: Mutex<Option<Instant>>,
    changed: Condvar,
    abandon: Mutex<Option<Abandon>>,
}

impl StopSignal {
    /// Gives the order.
    pub fn give(&self) {
        self.given
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(Instant::now);
        self.changed.notify_all();
    }

    /// What frees the task if it waits for the broker too long after the order.
    pub fn arm(&self, abandon: Abandon) {
        *self.abandon.lock().unwrap_or_else(PoisonError::into_inner) = Some(abandon);
    }

    /// Gives up outputs that are not acknowledged. What they belong to is not committed, so the
    /// next start writes them again.
    pub fn abandon(&self) {
        if let Some(abandon) = self
            .abandon
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
        {
            abandon.abandon();
        }
    }

    /// Whether it was given.
    #[must_use]
    pub fn given(&self) -> bool {
        self.given_at().is_some()
    }

    /// When it was given.
    #[must_use]
    pub fn given_at(&self) -> Option<Instant> {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the order, at most `limit`; whether it was given.
    pub fn wait(&self, limit: Duration) -> bool {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let (given, _) = self
            .changed
            .wait_timeout_while(given, limit, |given| given.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        given.is_some()
    }
}
