//! The receipt of a task that stands still. The broker forgets the offsets of a group without members after days.

use std::sync::Arc;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::{Offset, TopicPartitionList};
use turbine_kafka::Admin;
use turbine_protocol::{GroupId, Receipt};
use turbine_runtime::worker::Drained;

use super::common::{Bed, MINUTE, T0, WAIT, app, clock, eventually, has_looked};

const DAY: i64 = 24 * 60 * MINUTE;

/// The group's offset with its metadata.
fn committed(bed: &Bed) -> (i64, String) {
    let group = GroupId::of(&"a".parse().unwrap(), &"s".parse().unwrap());
    let admin = Admin::open(&bed.broker.settings().unwrap()).unwrap();
    let (topic, partition) = ("in".parse().unwrap(), 0.try_into().unwrap());
    let committed = admin.committed_at(&group, &topic, partition, WAIT);
    let committed = committed.unwrap().unwrap();
    (committed.offset.get(), committed.metadata)
}

/// Puts another offset in the place of the receipt, so that it shows when that is committed anew.
fn set_by_hand(bed: &Bed) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bed.broker.bootstrap_servers())
        .set("group.id", "turbine.a.s")
        .create()
        .unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets
        .add_partition_offset("in", 0, Offset::Offset(0))
        .unwrap();
    consumer.commit(&offsets, CommitMode::Sync).unwrap();
    assert_eq!(committed(bed), (0, String::new()));
}

#[test]
fn an_idle_task_renews_its_receipt_once_a_day_and_when_it_stops() {
    let bed = Bed::new(1);
    let clock = clock();
    bed.produce_events(&[("a", 1, T0), ("a", 2, T0 + 1)]);
    let running = bed.start(&app(), Arc::clone(&clock) as _);
    running.until("the records are folded", |tasks| tasks[0].records == 2);
    clock.advance(1_000);
    running.until_caught_up(2);
    let receipt = committed(&bed);
    assert_eq!(receipt.0, 2);
    assert!(receipt.1.parse::<Receipt>().is_ok(), "{receipt:?}");

    for day in 1..=2 {
        set_by_hand(&bed);
        has_looked(&running.worker);
        clock.advance(DAY - 1);
        has_looked(&running.worker);
        assert_eq!(committed(&bed).0, 0, "day {day}: sooner than it is due");
        clock.advance(1);
        eventually("the receipt is renewed", || match committed(&bed) {
            renewed if renewed == receipt => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    set_by_hand(&bed);
    assert_eq!(running.stop(), Drained::Whole);
    assert_eq!(committed(&bed), receipt);
}
