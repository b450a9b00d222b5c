//! What a transaction makes of each answer of a broker, against brokers within the process that are told to give it: it goes
//! on, or a new producer under the same id does, or the error says that a person has to act.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::{Duration, Instant};

use common::receipt;
use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::DefaultProducerContext;
use rdkafka_sys::types::RDKafkaApiKey as Api;
use rdkafka_sys::types::RDKafkaRespErr as Answer;
use rstest::rstest;
use turbine_kafka::{
    CommitOutcome, KafkaError, KafkaSettings, OutputBatch, OutputProducer, QueueBudget,
    Transactions,
};
use turbine_protocol::{Fault as _, GroupId, TopicName, TransactionalId};

const WAIT: Duration = Duration::from_secs(10);

struct Brokers(MockCluster<'static, DefaultProducerContext>);

impl Brokers {
    fn start() -> Self {
        let brokers = MockCluster::new(1).unwrap();
        for topic in ["in", "out"] {
            brokers.create_topic(topic, 1, 1).unwrap();
        }
        Self(brokers)
    }

    fn settings(&self) -> KafkaSettings {
        KafkaSettings::plaintext(self.0.bootstrap_servers()).unwrap()
    }

    fn answer(&self, api: Api, times: usize, answer: Answer) {
        self.0.request_errors(api, &vec![answer; times]);
    }
}

fn transactions() -> Transactions {
    let (app, subscription) = ("a".parse().unwrap(), "s".parse().unwrap());
    let partition = 0.try_into().unwrap();
    Transactions::of(
        TransactionalId::of(&app, &subscription, partition),
        GroupId::of(&app, &subscription),
        "in".parse().unwrap(),
        partition,
    )
}

/// A producer that owns the id, in a transaction that holds one record.
fn writing(brokers: &Brokers, transactions: &Transactions) -> OutputProducer {
    let mut producer = transactions
        .producer(&brokers.settings(), QueueBudget::divided(8 << 20, 1))
        .unwrap();
    transactions.take_over(&producer, WAIT).unwrap();
    transactions.begin(&producer).unwrap();
    let topic: TopicName = "out".parse().unwrap();
    let output = producer.topic(&topic, WAIT).unwrap();
    let mut batch = OutputBatch::new();
    batch.push(Some(b"k"), Some(b"v"));
    assert_eq!(producer.produce(&output, &batch).unwrap(), []);
    producer
}

/// Offset and commit, asked for again as the task does.
fn commit(transactions: &Transactions, producer: &OutputProducer) -> Result<(), KafkaError> {
    transactions.send_offset(producer, &receipt(), WAIT)?;
    for _ in 0..5 {
        match transactions.commit(producer, WAIT) {
            CommitOutcome::Committed => return Ok(()),
            CommitOutcome::Unknown(_) => {}
            CommitOutcome::Failed(error) => return Err(error),
        }
    }
    panic!("a commit without an end");
}

#[rstest]
#[case(
    Api::AddPartitionsToTxn,
    3,
    Answer::RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS
)]
#[case(Api::AddPartitionsToTxn, 1, Answer::RD_KAFKA_RESP_ERR_NOT_COORDINATOR)]
#[case(Api::AddPartitionsToTxn, 1, Answer::RD_KAFKA_RESP_ERR__TRANSPORT)]
#[case(
    Api::AddOffsetsToTxn,
    2,
    Answer::RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS
)]
#[case(Api::AddOffsetsToTxn, 1, Answer::RD_KAFKA_RESP_ERR_NOT_COORDINATOR)]
#[case(
    Api::AddOffsetsToTxn,
    1,
    Answer::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE
)]
#[case(Api::AddOffsetsToTxn, 1, Answer::RD_KAFKA_RESP_ERR__TRANSPORT)]
#[case(Api::TxnOffsetCommit, 1, Answer::RD_KAFKA_RESP_ERR_NOT_COORDINATOR)]
#[case(
    Api::TxnOffsetCommit,
    1,
    Answer::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS
)]
#[case(Api::TxnOffsetCommit, 1, Answer::RD_KAFKA_RESP_ERR__TRANSPORT)]
#[case(Api::EndTxn, 2, Answer::RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS)]
#[case(Api::EndTxn, 1, Answer::RD_KAFKA_RESP_ERR_NOT_COORDINATOR)]
#[case(Api::EndTxn, 1, Answer::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE)]
#[case(Api::EndTxn, 1, Answer::RD_KAFKA_RESP_ERR__TRANSPORT)]
#[case(Api::Produce, 2, Answer::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION)]
#[case(Api::Produce, 2, Answer::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS)]
#[case(Api::Produce, 1, Answer::RD_KAFKA_RESP_ERR__TRANSPORT)]
fn a_passing_answer_is_gone_through(
    #[case] api: Api,
    #[case] times: usize,
    #[case] answer: Answer,
) {
    let (brokers, transactions) = (Brokers::start(), transactions());
    let warm = writing(&brokers, &transactions);
    commit(&transactions, &warm).unwrap();
    drop(warm);
    let producer = {
        brokers.answer(api, times, answer);
        writing(&brokers, &transactions)
    };
    commit(&transactions, &producer).unwrap();
}

#[rstest]
#[case(
    Api::AddPartitionsToTxn,
    Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING
)]
#[case(Api::AddPartitionsToTxn, Answer::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE)]
#[case(Api::AddPartitionsToTxn, Answer::RD_KAFKA_RESP_ERR_UNKNOWN)]
#[case(
    Api::AddOffsetsToTxn,
    Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING
)]
#[case(Api::AddOffsetsToTxn, Answer::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE)]
#[case(Api::AddOffsetsToTxn, Answer::RD_KAFKA_RESP_ERR_UNKNOWN)]
#[case(
    Api::TxnOffsetCommit,
    Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING
)]
#[case(
    Api::TxnOffsetCommit,
    Answer::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED
)]
#[case(Api::TxnOffsetCommit, Answer::RD_KAFKA_RESP_ERR_UNKNOWN)]
#[case(Api::EndTxn, Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING)]
#[case(Api::EndTxn, Answer::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE)]
#[case(Api::EndTxn, Answer::RD_KAFKA_RESP_ERR_UNKNOWN)]
#[case(Api::Produce, Answer::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER)]
#[case(Api::Produce, Answer::RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID)]
#[case(Api::Produce, Answer::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE)]
fn any_other_answer_ends_the_producer_and_the_next_one_commits(
    #[case] api: Api,
    #[case] answer: Answer,
) {
    let (brokers, transactions) = (Brokers::start(), transactions());
    brokers.answer(api, 1, answer);
    let producer = writing(&brokers, &transactions);
    let error = commit(&transactions, &producer).unwrap_err();
    assert!(error.passes_by_itself(), "{error:?}");
    drop(producer);
    let producer = writing(&brokers, &transactions);
    commit(&transactions, &producer).unwrap();
}

#[rstest]
#[case(Api::AddPartitionsToTxn, Answer::RD_KAFKA_RESP_ERR_PRODUCER_FENCED)]
#[case(
    Api::AddPartitionsToTxn,
    Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH
)]
#[case(Api::AddOffsetsToTxn, Answer::RD_KAFKA_RESP_ERR_PRODUCER_FENCED)]
#[case(Api::AddOffsetsToTxn, Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH)]
#[case(Api::TxnOffsetCommit, Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH)]
#[case(Api::EndTxn, Answer::RD_KAFKA_RESP_ERR_PRODUCER_FENCED)]
#[case(Api::EndTxn, Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH)]
fn an_id_lost_in_a_young_transaction_was_taken_by_another_producer(
    #[case] api: Api,
    #[case] answer: Answer,
) {
    let (brokers, transactions) = (Brokers::start(), transactions());
    brokers.answer(api, 1, answer);
    let producer = writing(&brokers, &transactions);
    let error = commit(&transactions, &producer).unwrap_err();
    assert!(matches!(error, KafkaError::Fenced { .. }), "{error:?}");
    assert!(!error.passes_by_itself());
}

#[rstest]
#[case(
    Answer::RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT,
    "TransactionTimeoutRefused"
)]
#[case(
    Answer::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "KafkaRightMissing"
)]
fn an_id_that_is_not_given_to_us_says_what_to_change(#[case] answer: Answer, #[case] reason: &str) {
    let (brokers, transactions) = (Brokers::start(), transactions());
    let producer = transactions
        .producer(&brokers.settings(), QueueBudget::divided(8 << 20, 1))
        .unwrap();
    brokers.answer(Api::InitProducerId, 1, answer);
    let error = transactions.take_over(&producer, WAIT).unwrap_err();
    assert_eq!(error.reason(), reason, "{error:?}");
    assert!(error.passes_by_itself(), "it is asked for again");
}

#[rstest]
#[case(Answer::RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS)]
#[case(Answer::RD_KAFKA_RESP_ERR_NOT_COORDINATOR)]
#[case(Answer::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS)]
#[case(Answer::RD_KAFKA_RESP_ERR__TRANSPORT)]
fn taking_an_id_over_goes_through_a_passing_answer(#[case] answer: Answer) {
    let (brokers, transactions) = (Brokers::start(), transactions());
    brokers.answer(Api::InitProducerId, 1, answer);
    commit(&transactions, &writing(&brokers, &transactions)).unwrap();
}

/// The client itself would wait until the coordinator is back.
#[test]
fn a_group_coordinator_that_is_gone_holds_a_task_no_longer_than_it_wants() {
    let brokers = Brokers(MockCluster::new(2).unwrap());
    for topic in ["in", "out"] {
        brokers.0.create_topic(topic, 1, 2).unwrap();
        brokers.0.partition_leader(topic, 0, Some(1)).unwrap();
    }
    let transactions = transactions();
    let group = MockCoordinator::Group("turbine.a.s".to_owned());
    let id = MockCoordinator::Transaction("turbine.a.s.0".to_owned());
    brokers.0.coordinator(group, 2).unwrap();
    brokers.0.coordinator(id, 1).unwrap();
    let producer = writing(&brokers, &transactions);
    commit(&transactions, &producer).unwrap();
    transactions.begin(&producer).unwrap();
    brokers.0.broker_down(2).unwrap();
    let (began, patience) = (Instant::now(), Duration::from_secs(2));
    let error = transactions
        .send_offset(&producer, &receipt(), patience)
        .unwrap_err();
    assert!(error.passes_by_itself(), "{error:?}");
    assert!(began.elapsed() < WAIT, "{:?}", began.elapsed());
    drop(producer);
    assert!(began.elapsed() < WAIT, "{:?}", began.elapsed());
    brokers.0.broker_up(2).unwrap();
    commit(&transactions, &writing(&brokers, &transactions)).unwrap();
}

#[test]
fn what_was_written_is_aborted_unless_the_commit_was_called() {
    let (brokers, transactions) = (Brokers::start(), transactions());
    let producer = writing(&brokers, &transactions);
    assert_eq!(transactions.give_up(&producer, WAIT), Ok(true));
    drop(producer);

    let producer = writing(&brokers, &transactions);
    transactions
        .send_offset(&producer, &receipt(), WAIT)
        .unwrap();
    brokers.0.broker_down(-1).unwrap();
    assert!(matches!(
        transactions.commit(&producer, Duration::from_millis(200)),
        CommitOutcome::Unknown(_)
    ));
    assert_eq!(transactions.give_up(&producer, WAIT), Ok(false));
}
