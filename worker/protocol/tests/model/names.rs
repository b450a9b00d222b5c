//! The names and numbers that every world shares.

use std::sync::LazyLock;

use turbine_keygroups::{Partition, RawPartitionCount};
use turbine_protocol::{Lineage, StoreIdentity, Task, VolumeMarker};
use uuid::Uuid;

static TASK: LazyLock<Task> = LazyLock::new(|| Task {
    subscription: "s".parse().unwrap(),
    partition: Partition::try_from(0).unwrap(),
});

pub(crate) fn task() -> Task {
    TASK.clone()
}

pub(crate) fn lineage() -> Lineage {
    Lineage::new(Uuid::from_u128(1))
}

pub(crate) fn identity(epoch: u8) -> StoreIdentity {
    StoreIdentity::new(
        "a".parse().unwrap(),
        lineage(),
        &task(),
        i64::from(epoch).try_into().unwrap(),
        RawPartitionCount::try_from(12).unwrap(),
        "user".to_owned(),
    )
}

pub(crate) fn marker(layout: u8) -> VolumeMarker {
    VolumeMarker {
        app_id: "a".parse().unwrap(),
        lineage: lineage(),
        layout_epoch: i64::from(layout).try_into().unwrap(),
    }
}
