//! What a store says it is, and in what it may differ from what an assignment expects.

use std::fmt;

use serde::{Deserialize, Serialize};
use turbine_keygroups::{GROUP_COUNT, Partition, RawPartitionCount};

use crate::epochs::{LayoutEpoch, Lineage, StoreEpoch};
use crate::layout::Task;
use crate::names::{AppId, SubscriptionName};

/// Version of the stored form that this program writes. It takes no other.
pub const FORMAT_VERSION: u32 = 2;

/// Version of the stored form of a store that was made of several by a change of the partition count. It is only read
/// right by whoever reads the records of where its parts came from, so no program that does not takes it.
pub const MOVED_FORMAT_VERSION: u32 = 3;

/// What a store says it is. Written once, when the store is made, and compared whole at every
/// open: a store that is not what the assignment says is refused, never adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreIdentity {
    /// The app at the broker.
    pub app_id: AppId,
    /// Which life of the app.
    pub lineage: Lineage,
    /// The subscription.
    pub subscription: SubscriptionName,
    /// The task's partition.
    pub partition: Partition,
    /// The layout epoch in which the store was made.
    pub store_epoch: StoreEpoch,
    /// How many partitions the input has under this store.
    pub partitions: RawPartitionCount,
    /// Into how many groups keys are divided.
    pub key_groups: u16,
    /// What keys are made of: the columns' names joined by `,`, or `<recordKey>`.
    pub key: String,
    /// Version of the stored form.
    pub format: u32,
}

impl StoreIdentity {
    /// The identity of a store made by this program.
    #[must_use]
    pub fn new(
        app_id: AppId,
        lineage: Lineage,
        task: &Task,
        store_epoch: StoreEpoch,
        partitions: RawPartitionCount,
        key: String,
    ) -> Self {
        Self {
            app_id,
            lineage,
            subscription: task.subscription.clone(),
            partition: task.partition,
            store_epoch,
            partitions,
            key_groups: GROUP_COUNT,
            key,
            format: FORMAT_VERSION,
        }
    }

    /// The identity of a store that a change of the partition count makes for a task of the same subscription.
    #[must_use]
    pub fn moved(
        &self,
        partition: Partition,
        store_epoch: StoreEpoch,
        partitions: RawPartitionCount,
    ) -> Self {
        Self {
            partition,
            store_epoch,
            partitions,
            format: MOVED_FORMAT_VERSION,
            ..self.clone()
        }
    }

    /// The task whose state this is.
    #[must_use]
    pub fn task(&self) -> Task {
        Task {
            subscription: self.subscription.clone(),
            partition: self.partition,
        }
    }

    /// In what `self`, as found, differs from what is expected; empty if in nothing.
    #[must_use]
    pub fn differences(&self, expected: &Self) -> Vec<Difference> {
        // Taken apart by name so that a field added later cannot be forgotten here.
        let Self {
            app_id,
            lineage,
            subscription,
            partition,
            store_epoch,
            partitions,
            key_groups,
            key,
            format,
        } = self;
        let mut differences = Vec::new();
        let mut compare = |field, found: String, expected: String| {
            if found != expected {
                differences.push(Difference {
                    field,
                    found,
                    expected,
                });
            }
        };
        compare("format", format.to_string(), expected.format.to_string());
        compare("appId", app_id.to_string(), expected.app_id.to_string());
        compare("lineage", lineage.to_string(), expected.lineage.to_string());
        compare(
            "subscription",
            subscription.to_string(),
            expected.subscription.to_string(),
        );
        compare(
            "partition",
            partition.get().to_string(),
            expected.partition.get().to_string(),
        );
        compare(
            "storeEpoch",
            store_epoch.to_string(),
            expected.store_epoch.to_string(),
        );
        compare(
            "partitions",
            partitions.get().to_string(),
            expected.partitions.get().to_string(),
        );
        compare(
            "keyGroups",
            key_groups.to_string(),
            expected.key_groups.to_string(),
        );
        compare("key", key.clone(), expected.key.clone());
        differences
    }
}

/// One field in which a store is not what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The field's name in [`StoreIdentity`], in camelCase.
    pub field: &'static str,
    /// What the store says.
    pub found: String,
    /// What the assignment says.
    pub expected: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is `{}`, expected `{}`",
            self.field, self.found, self.expected
        )
    }
}

/// Differences as one text, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences(pub Vec<Difference>);

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, difference) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            difference.fmt(f)?;
        }
        Ok(())
    }
}

/// What a volume says about itself, in a file at its root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeMarker {
    /// The app whose state lies on the volume.
    pub app_id: AppId,
    /// Which life of the app.
    pub lineage: Lineage,
    /// The highest layout epoch that ran on the volume.
    pub layout_epoch: LayoutEpoch,
}
