//! Calls of the client that may outlast the time they were given.
//!
//! librdkafka's `send_offsets_to_transaction` waits without a limit for a group coordinator whose connection is gone: it looks
//! again only when some broker's connection changes its state. So a thread of its own makes the call, and whoever asked waits
//! no longer than they want.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::producer::BaseProducer;

use crate::client::Context;
use crate::error::KafkaError;

type Client = BaseProducer<Context>;
type Call = Box<dyn FnOnce(&Client) + Send>;

/// Makes one call after the other.
pub(crate) struct Courier {
    calls: Option<Sender<Call>>,
    thread: Option<JoinHandle<()>>,
    /// A call has outlasted its time. The client waits for it, and so would every other call.
    stuck: Cell<bool>,
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courier")
            .field("stuck", &self.stuck)
            .finish_non_exhaustive()
    }
}

impl Courier {
    pub(crate) fn start(client: Arc<Client>) -> Result<Self, KafkaError> {
        let (calls, inbox) = channel::<Call>();
        let thread = std::thread::Builder::new()
            .name("kafka-txn".to_owned())
            .spawn(move || {
                for call in inbox {
                    call(&client);
                }
            })
            .map_err(|error| KafkaError::Settings {
                detail: format!("no thread for transactions: {error}"),
            })?;
        Ok(Self {
            calls: Some(calls),
            thread: Some(thread),
            stuck: Cell::new(false),
        })
    }

    /// What the call answers; none if it does not within `limit`, or an earlier one has not.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        limit: Duration,
        call: impl FnOnce(&Client) -> T + Send + 'static,
    ) -> Option<T> {
        if self.stuck.get() {
            return None;
        }
        let (answer, answered) = channel();
        let call: Call = Box::new(move |client| {
            // Who asked may have stopped waiting.
            let _ = answer.send(call(client));
        });
        let told = self
            .calls
            .as_ref()
            .is_some_and(|calls| calls.send(call).is_ok());
        let answer = if told {
            answered.recv_timeout(limit).ok()
        } else {
            None
        };
        self.stuck.set(answer.is_none());
        answer
    }

    pub(crate) fn stuck(&self) -> bool {
        self.stuck.get()
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.calls = None;
        // One that is stuck keeps its client until the client lets it go: memory in use must not be freed. By then another
        // producer has the id, so whatever it sends is refused.
        if let Some(thread) = self.thread.take()
            && !self.stuck.get()
            && thread.join().is_err()
        {
            tracing::error!("the thread that made calls of transactions panicked");
        }
    }
}
