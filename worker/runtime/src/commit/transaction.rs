//! The commit exactly once.

use std::time::{Duration, Instant};

use turbine_kafka::{CommitOutcome, KafkaError, Transactions};
use turbine_protocol::transaction::{TransactionAct, TransactionEvent, TransactionStep};
use turbine_protocol::{CommittedReceipt, Fault as _};
use turbine_state::fault::{self, FaultPoint};

use super::{OFFSET_RETRY, outcome};
use crate::control::status::Step;
use crate::task::{Life, StopSignal, TaskError, receipt_of};

/// One call to commit waits for this long, so that the wait shows as alive.
const COMMIT_SLICE: Duration = Duration::from_secs(5);

/// After this a commit that is not answered is left to the receipt: a new producer asks anew who the coordinator is, and the
/// client does not send a commit twice.
const COMMIT_PATIENCE: Duration = Duration::from_secs(30);

/// Longest wait for an abort, which nothing depends on.
const ABORT_WAIT: Duration = Duration::from_secs(5);

impl Life<'_> {
    /// Outputs, dead letters, state and offset as one.
    pub(super) fn commit_exactly_once(
        &mut self,
        transactions: &Transactions,
        stop: &StopSignal,
    ) -> Result<(), TaskError> {
        use TransactionEvent as Event;
        self.pass_produced();
        let mut step = TransactionStep::Open;
        let mut failed = None;
        let mut asked = None;
        loop {
            let event = match step.act() {
                TransactionAct::Prepare => outcome(
                    self.write(|store, entry| store.prepare(entry)),
                    &mut failed,
                    Event::Prepared,
                    Event::PrepareFailed,
                ),
                TransactionAct::SendOffset => outcome(
                    self.send_offset(transactions),
                    &mut failed,
                    Event::OffsetSent,
                    Event::OffsetFailed,
                ),
                TransactionAct::Commit => {
                    self.cell.enter(Step::Acknowledging);
                    let asked = *asked.get_or_insert_with(Instant::now);
                    match transactions.commit(&self.producer, COMMIT_SLICE) {
                        CommitOutcome::Committed => {
                            fault::pass(FaultPoint::AfterCommit);
                            Event::Committed
                        }
                        CommitOutcome::Unknown(error) => {
                            tracing::warn!(
                                task = %self.cell.task(), %error, category = %error.category(),
                                "the commit is not answered and asked for again"
                            );
                            let error = TaskError::from(error);
                            self.cell.update(|status| status.halt = Some(error.halt()));
                            if stop.wait(OFFSET_RETRY) {
                                // The receipt decides at the next start.
                                return Err(error);
                            }
                            if asked.elapsed() < COMMIT_PATIENCE {
                                Event::CommitUnknown
                            } else {
                                failed = Some(error);
                                Event::CommitFailed
                            }
                        }
                        CommitOutcome::Failed(error) => {
                            // A record that was refused says more than the transaction that it broke.
                            failed = Some(self.why_not(error));
                            Event::CommitFailed
                        }
                    }
                }
                TransactionAct::MarkDone => {
                    self.cell.enter(Step::Committing);
                    outcome(
                        self.store.apply_prepared().map_err(TaskError::from),
                        &mut failed,
                        Event::MarkedDone,
                        Event::MarkFailed,
                    )
                }
                TransactionAct::Finished => break,
                TransactionAct::Rebuild => {
                    return Err(failed.unwrap_or_else(|| TaskError::Panicked {
                        message: "a transaction failed without a fault".to_owned(),
                    }));
                }
            };
            step = step.after(event)?;
        }
        self.offset_committed = self.setup.clock.monotonic();
        transactions.begin(&self.producer)?;
        Ok(())
    }

    fn why_not(&self, error: KafkaError) -> TaskError {
        match (&error, self.producer.check()) {
            (KafkaError::Fenced { .. }, _) | (_, Ok(())) => error.into(),
            (_, Err(first)) => first.into(),
        }
    }

    fn send_offset(&self, transactions: &Transactions) -> Result<(), TaskError> {
        self.cell.enter(Step::Committing);
        let Some(prepared) = self.store.prepared() else {
            return Err(TaskError::Panicked {
                message: "no entry is prepared".to_owned(),
            });
        };
        let committed = CommittedReceipt {
            offset: self.position,
            receipt: receipt_of(prepared, self.store.identity())?,
        };
        transactions
            .send_offset(&self.producer, &committed, self.setup.limits.broker_wait)
            .map_err(|error| self.why_not(error))?;
        fault::pass(FaultPoint::AfterOffsetsSent);
        Ok(())
    }

    /// This life is over: what it has written and not committed is aborted, so that readers of committed records do not wait
    /// for the next life or the broker to end it.
    pub(crate) fn give_up_transaction(&self) {
        let Some(transactions) = &self.transactions else {
            return;
        };
        match transactions.give_up(&self.producer, ABORT_WAIT) {
            Ok(_) => {}
            Err(error) => tracing::warn!(
                task = %self.cell.task(), %error, category = %error.category(),
                "the open transaction could not be aborted; the next start ends it"
            ),
        }
    }

    /// An empty transaction with the last receipt.
    pub(super) fn renew_by_transaction(
        &self,
        transactions: &Transactions,
        last: &CommittedReceipt,
    ) -> Result<(), TaskError> {
        transactions.send_offset(&self.producer, last, self.setup.limits.broker_wait)?;
        match transactions.commit(&self.producer, COMMIT_SLICE) {
            CommitOutcome::Committed => Ok(transactions.begin(&self.producer)?),
            CommitOutcome::Unknown(error) | CommitOutcome::Failed(error) => Err(error.into()),
        }
    }
}
