//! Transactions of others: under the task's own id, and in its input.

use turbine_kafka::{CommitOutcome, Transactions};
use turbine_protocol::{CommittedReceipt, EntryChecksum, Frontier, Receipt, TransactionalId};

use super::*;

const STRANGER: &str = "0c1d2e3f-4a5b-4c6d-8e7f-90a1b2c3d4e5";

impl Bed {
    /// Somebody takes the id of the task over and commits an offset with this receipt.
    fn commit_under_its_id(&self, receipt: Receipt) {
        let (app, subscription) = (self.app_id().parse().unwrap(), "s".parse().unwrap());
        let partition = 0.try_into().unwrap();
        let transactions = Transactions::of(
            TransactionalId::of(&app, &subscription, partition),
            GroupId::of(&app, &subscription),
            self.name("in").parse().unwrap(),
            partition,
        );
        let budget = QueueBudget::divided(64 << 20, 1);
        let producer = transactions.producer(&self.all, budget).unwrap();
        transactions.take_over(&producer, WAIT).unwrap();
        transactions.begin(&producer).unwrap();
        let committed = CommittedReceipt {
            offset: 1.try_into().unwrap(),
            receipt,
        };
        transactions
            .send_offset(&producer, &committed, WAIT)
            .unwrap();
        let outcome = transactions.commit(&producer, WAIT);
        assert_eq!(outcome, CommitOutcome::Committed);
    }
}

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn a_fenced_task_says_whose_commits_stand_under_its_id() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    bed.produce(&[good(t0), good(t0 + MINUTE)]);
    let running =
        bed.start(|app| app["subscriptions"][0]["processingGuarantee"] = json!("exactlyOnce"));
    running.until_caught_up(2);
    bed.commit_under_its_id(Receipt {
        lineage: STRANGER.parse().unwrap(),
        store_epoch: 9.try_into().unwrap(),
        number: 41.try_into().unwrap(),
        checksum: EntryChecksum(7),
        frontier: Frontier(None),
        retrace: None,
    });
    bed.produce(&[good(t0 + 2 * MINUTE)]);
    let words = [
        format!("is of lineage {STRANGER}, store epoch 9, entry 41"),
        format!("where ours is lineage {LINEAGE}, store epoch 1"),
        "another app with the same `appId`, has the id".to_owned(),
    ];
    running.until_halted("Fenced", &words, &[]);
    // It is over, and takes nothing back.
    running.until("the halt stands", |task| {
        task.state == TaskState::Halted
            && task.halt.as_ref().is_some_and(|halt| halt.person_must_act)
    });
    running.stop();
}
