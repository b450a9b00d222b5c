//! Volumes that run full.

use serde_json::json;
use turbine_crds::control::VolumeRoom;

use super::running;
use super::world::{Memories, NAMESPACE};
use crate::app::pass;
use crate::cluster::Kind;

const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;

fn leave(world: &Memories, pod: &str, free_bytes: u64) {
    world.with(|state| {
        state.workers.get_mut(pod).unwrap().volume = Some(VolumeRoom {
            free_bytes,
            size_bytes: 10 * GI,
        });
    });
}

#[tokio::test]
async fn a_volume_that_is_almost_full_degrades_the_app_in_words_that_stay_and_stops_nothing() {
    let world = running().await;
    leave(&world, "a-0", 5 * GI);
    leave(&world, "a-1", 900 * MI);
    world.settle("a").await;
    let (is, reason, message) = world.condition("a", "Degraded");
    assert_eq!((is.as_str(), reason.as_str()), ("True", "VolumeAlmostFull"));
    assert!(
        message.contains("a-1 has less than 1 GiB of 10 GiB free; raise `spec.state.volume.size`"),
        "{message}"
    );
    assert!(!message.contains("a-0"), "{message}");
    assert!(world.is_ready("a"));

    leave(&world, "a-1", 700 * MI);
    let writes = world.with(|state| state.writes.len());
    world.settle("a").await;
    assert_eq!(world.condition("a", "Degraded").2, message);
    assert_eq!(
        world.with(|state| state.writes.len()),
        writes,
        "a few bytes less are no news"
    );
    leave(&world, "a-1", 3 * MI);
    world.settle("a").await;
    let message = world.condition("a", "Degraded").2;
    assert!(
        message.contains("a-1 has less than 4 MiB of 10 GiB free"),
        "{message}"
    );
    leave(&world, "a-1", 2 * GI);
    world.settle("a").await;
    assert_eq!(world.condition("a", "Degraded").0, "False");
}

/// Whoever has done what the message asks for is told what is waited for.
#[tokio::test]
async fn a_full_volume_that_was_told_to_grow_is_told_as_one_that_has_not_yet() {
    let world = running().await;
    leave(&world, "a-1", 0);
    world.with(|state| {
        state.change(Kind::PersistentVolumeClaim, "state-a-1", |claim| {
            claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "512Mi"}});
        });
    });
    // Without the controllers of this world, which would let it grow at once.
    pass(&world.operator(), NAMESPACE, "a").await.unwrap();
    let (_, reason, message) = world.condition("a", "Degraded");
    assert_eq!(reason, "VolumeAlmostFull");
    assert!(
        message.contains("told to grow and have not yet: state-a-1"),
        "{message}"
    );
    assert!(!message.contains("raise"), "{message}");
}

/// A settled app is asked about nothing but its workers for a while.
#[tokio::test]
async fn a_volume_that_runs_full_wakes_a_settled_app() {
    let world = running().await;
    leave(&world, "a-0", 5 * GI);
    let watch = world.settle("a").await.watch.unwrap();
    leave(&world, "a-0", 4 * GI);
    assert!(watch.still_holds(&world.operator()).await);
    leave(&world, "a-0", 900 * MI);
    assert!(!watch.still_holds(&world.operator()).await);
}
