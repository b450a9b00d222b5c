//! What a worker says of its volume.

use std::process::Command;

use super::common::{Bed, app};
use super::{TOKEN, Worker};

#[test]
fn status_and_metrics_say_how_much_room_the_volume_has() {
    let bed = Bed::new(1);
    let worker = Worker::start(&bed, &app());
    let room = worker.status().volume.expect("it can be told");
    let told = Command::new("df")
        .args(["--block-size=1", "--output=size"])
        .arg(bed.path("state"))
        .output()
        .unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let size: u64 = told.lines().nth(1).unwrap().trim().parse().unwrap();
    assert_eq!(room.size_bytes, size);
    assert!((1..size).contains(&room.free_bytes), "{room:?}");

    let (_, metrics) = worker.call("GET", "/metrics", Some(TOKEN), None);
    for line in [
        format!("turbine_state_volume_size_bytes{{app=\"a\"}} {size}\n"),
        "turbine_state_volume_free_bytes{app=\"a\"} ".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}
