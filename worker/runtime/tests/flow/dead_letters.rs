//! Nothing but bad records.

use serde_json::json;
use turbine_kafka::Admin;
use turbine_protocol::GroupId;
use turbine_runtime::memory::Memory;
use turbine_runtime::worker::Drained;

use super::common::{Bed, WAIT, app, ticking};

#[test]
fn more_dead_letters_than_the_queue_holds_all_arrive_before_the_offset_is_committed() {
    let bed = Bed::new(1);
    let mut app = app();
    app["subscriptions"][0]["onError"] = json!("dlq");
    app["subscriptions"][0]["dlq"] = json!("dead");
    // Compressed they are little: the broker within the process keeps 5 MiB of a partition.
    let bad: Vec<Vec<u8>> = (0..400)
        .map(|at| format!("{at}{}", "x".repeat(30_000)).into_bytes())
        .collect();
    let mut config = bed.config(&app, ticking());
    config.memory = Memory::of(72 << 20);
    let queue = config.memory.queues(1).write_bytes();
    let bytes: usize = bad.iter().map(Vec::len).sum();
    assert!(bytes > 2 * queue, "{bytes} bytes fit a queue of {queue}");
    bed.produce(bad.iter().map(|value| (None, Some(&value[..]))));

    let running = bed.start_with(config);
    running.until("all is committed", |tasks| tasks[0].position == Some(400));
    assert_eq!(running.task(0).dead_letters, 400);
    let dead: Vec<_> = bed.read("dead").into_iter().map(|of| of.value).collect();
    assert_eq!(dead.len(), 400);
    assert!(dead.iter().flatten().eq(&bad));
    let admin = Admin::open(&bed.broker.settings().unwrap()).unwrap();
    let group = GroupId::of(&"a".parse().unwrap(), &"s".parse().unwrap());
    let (topic, partition) = ("in".parse().unwrap(), 0.try_into().unwrap());
    let committed = admin.committed_at(&group, &topic, partition, WAIT).unwrap();
    assert_eq!(committed.unwrap().offset.get(), 400);
    assert_eq!(running.stop(), Drained::Whole);
}
