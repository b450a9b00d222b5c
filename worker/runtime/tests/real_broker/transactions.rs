//! Transactions of others: under the task's own id, and in its input.

use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
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

    /// A producer of somebody else that has written to the input and does not end its transaction.
    fn leave_open(&self, value: &str) -> BaseProducer {
        let foreign: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.all.bootstrap_servers())
            .set("transactional.id", self.name("foreign"))
            .create()
            .unwrap();
        foreign.init_transactions(WAIT).unwrap();
        foreign.begin_transaction().unwrap();
        let topic = self.name("in");
        let record = BaseRecord::to(&topic).key("u").payload(value);
        foreign.send(record).map_err(|(error, _)| error).unwrap();
        foreign.flush(WAIT).unwrap();
        foreign
    }
}

impl Running {
    fn metric(&self, name: &str) -> i64 {
        let text = self.worker.metrics_text().unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name}{{")))
            .unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
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

#[test]
#[ignore = "needs a real broker at TURBINE_KAFKA_BOOTSTRAP"]
fn an_open_transaction_that_blocks_is_told_with_its_offset_until_it_ends() {
    let (bed, t0) = (Bed::new(), recent());
    for topic in ["in", "out", "dead"] {
        bed.create(topic);
    }
    bed.produce(&[good(t0), good(t0 + 1)]);
    let running = bed.start(|_| {});
    running.until_caught_up(2);
    let asked = jiff::Timestamp::now().as_millisecond();
    let foreign = bed.leave_open(&good(t0 + 2));
    bed.produce(&[good(t0 + 3)]);
    running.until("the task says what it waits for", |task| {
        task.open_transaction.is_some_and(|open| {
            // One record that is not committed, and one that is and lies behind it.
            (open.offset, open.hidden) == (2, 2) && open.since_ms >= asked
        })
    });
    running.until("it waits, runs, and has read all in front", |task| {
        task.state == TaskState::Running && task.position == Some(2) && task.records == 2
    });
    eventually("the metric has how long", || {
        match running.metric("turbine_open_transaction_seconds") {
            10.. => Ok(()),
            other => Err(format!("{other}")),
        }
    });

    foreign.abort_transaction(WAIT).unwrap();
    running.until("it is over", |task| task.open_transaction.is_none());
    running.until_caught_up(3);
    assert_eq!(running.metric("turbine_open_transaction_seconds"), 0);
    running.stop();
}
