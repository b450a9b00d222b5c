//! Who owns a transactional id, and what an error of a transaction asks for.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

use rdkafka::error::RDKafkaErrorCode as Code;
use turbine_protocol::TransactionalId;

use crate::error::KafkaError;
use crate::settings::TRANSACTION_TIMEOUT_MS;

/// What an error of a transactional call asks for. There is no remedy that goes on with the producer as if nothing was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The same call again: it goes on where it was.
    Retry,
    /// Another producer: the transaction is aborted, or the receipt decides if its commit was called.
    Rebuild,
    /// The id was taken from us, by the broker after a time-out or by another producer.
    Lost,
    /// The broker's limit is below our time-out: a person changes one of them.
    TimeoutRefused,
}

impl Remedy {
    /// `retriable` is the client's own word that the same call can go on; the client alone knows in which state it is.
    pub(crate) fn of(code: Code, retriable: bool) -> Self {
        match (code, retriable) {
            // Since 2.5 brokers raise the epoch of a producer whose transaction they give up, so a time-out looks like
            // a newer producer.
            (Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch, _) => Self::Lost,
            (Code::InvalidTransactionTimeout, _) => Self::TimeoutRefused,
            (_, true) => Self::Retry,
            // Known ones (a producer id that has expired, a broken sequence, records that were not acknowledged, a
            // missing right) and unknown ones alike: whatever it was, a new producer begins at the last commit.
            (_, false) => Self::Rebuild,
        }
    }
}

/// A time by two clocks: that of a paused virtual machine stands still, that of the wall can be set.
#[derive(Debug, Clone, Copy)]
struct Moment {
    running: Instant,
    wall: SystemTime,
}

impl Moment {
    fn now() -> Self {
        Self {
            running: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    fn elapsed(self) -> Duration {
        self.running
            .elapsed()
            .max(self.wall.elapsed().unwrap_or_default())
    }
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// No record is in a transaction.
    Clean,
    /// The first record came at this time, before the broker heard of it.
    Writing(Moment),
    /// The commit was called. From here on only the broker knows.
    Committing(Moment),
}

/// A producer's claim to its transactional id, and how far its transaction came.
#[derive(Debug)]
pub(crate) struct Ownership {
    id: TransactionalId,
    phase: Cell<Phase>,
}

impl Ownership {
    pub(crate) fn new(id: TransactionalId) -> Self {
        Self {
            id,
            phase: Cell::new(Phase::Clean),
        }
    }

    /// A new transaction was begun.
    pub(crate) fn begins(&self) {
        self.phase.set(Phase::Clean);
    }

    /// A record or an offset goes into the transaction.
    pub(crate) fn writes(&self) {
        if matches!(self.phase.get(), Phase::Clean) {
            self.phase.set(Phase::Writing(Moment::now()));
        }
    }

    /// The commit is called.
    pub(crate) fn commits(&self) {
        self.phase.set(Phase::Committing(match self.phase.get() {
            Phase::Clean => Moment::now(),
            Phase::Writing(since) | Phase::Committing(since) => since,
        }));
    }

    /// Whether there is something to abort and aborting it is still ours to decide.
    pub(crate) fn may_abort(&self) -> bool {
        match self.phase.get() {
            Phase::Writing(_) => true,
            Phase::Clean | Phase::Committing(_) => false,
        }
    }

    /// Why the id is no longer ours. The broker gives a transaction up no sooner than its time is over, so a younger one
    /// was ended by another producer.
    pub(crate) fn lost(&self, detail: String) -> KafkaError {
        let open = match self.phase.get() {
            Phase::Clean => Duration::ZERO,
            Phase::Writing(since) | Phase::Committing(since) => since.elapsed(),
        };
        self.lost_after(open, detail)
    }

    fn lost_after(&self, open: Duration, detail: String) -> KafkaError {
        let allowed = Duration::from_millis(TRANSACTION_TIMEOUT_MS);
        let id = self.id.to_string();
        if open >= allowed {
            KafkaError::TransactionTimedOut { id, open, allowed }
        } else {
            KafkaError::Fenced { id, detail }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    // by the client's word
    #[case(Code::OperationTimedOut, true, Remedy::Retry)]
    #[case(Code::ConcurrentTransactions, true, Remedy::Retry)]
    #[case(Code::CoordinatorLoadInProgress, true, Remedy::Retry)]
    #[case(Code::CoordinatorNotAvailable, true, Remedy::Retry)]
    #[case(Code::NotCoordinator, true, Remedy::Retry)]
    #[case(Code::BrokerTransportFailure, true, Remedy::Retry)]
    // the same after the client has given the transaction up
    #[case(Code::OperationTimedOut, false, Remedy::Rebuild)]
    #[case(Code::BrokerTransportFailure, false, Remedy::Rebuild)]
    #[case(Code::ConcurrentTransactions, false, Remedy::Rebuild)]
    // the producer is of no use any more
    #[case(Code::UnknownProducerId, false, Remedy::Rebuild)]
    #[case(Code::InvalidProducerIdMapping, false, Remedy::Rebuild)]
    #[case(Code::OutOfOrderSequenceNumber, false, Remedy::Rebuild)]
    #[case(Code::InvalidTransactionalState, false, Remedy::Rebuild)]
    #[case(Code::Inconsistent, false, Remedy::Rebuild)]
    #[case(Code::State, false, Remedy::Rebuild)]
    #[case(Code::Fatal, false, Remedy::Rebuild)]
    #[case(Code::TransactionalIdAuthorizationFailed, false, Remedy::Rebuild)]
    // never met
    #[case(Code::Unknown, false, Remedy::Rebuild)]
    #[case(Code::Unknown, false, Remedy::Rebuild)]
    // whatever the client says of a call, an id that is lost is not tried again
    #[case(Code::Fenced, false, Remedy::Lost)]
    #[case(Code::ProducerFenced, true, Remedy::Lost)]
    #[case(Code::InvalidProducerEpoch, true, Remedy::Lost)]
    #[case(Code::InvalidTransactionTimeout, true, Remedy::TimeoutRefused)]
    fn every_error_is_retried_rebuilt_or_told(
        #[case] code: Code,
        #[case] retriable: bool,
        #[case] remedy: Remedy,
    ) {
        assert_eq!(Remedy::of(code, retriable), remedy);
    }

    fn ownership() -> Ownership {
        Ownership::new(TransactionalId::of(
            &"a".parse().unwrap(),
            &"s".parse().unwrap(),
            0.try_into().unwrap(),
        ))
    }

    #[test]
    fn a_transaction_older_than_its_time_was_given_up_and_a_younger_one_was_taken() {
        let of = ownership();
        let allowed = Duration::from_millis(TRANSACTION_TIMEOUT_MS);
        let short = allowed.saturating_sub(Duration::from_millis(1));
        assert!(matches!(
            of.lost_after(short, String::new()),
            KafkaError::Fenced { .. }
        ));
        assert!(matches!(
            of.lost_after(allowed, String::new()),
            KafkaError::TransactionTimedOut { .. }
        ));
        // Nothing is open, so nothing can have been given up.
        assert!(matches!(of.lost(String::new()), KafkaError::Fenced { .. }));
    }

    #[test]
    fn nothing_is_aborted_before_something_is_written_or_after_the_commit_was_called() {
        let of = ownership();
        assert!(!of.may_abort());
        of.writes();
        assert!(of.may_abort());
        of.commits();
        assert!(!of.may_abort());
        of.writes();
        assert!(!of.may_abort(), "a commit that was called stays called");
        of.begins();
        assert!(!of.may_abort());
    }
}
