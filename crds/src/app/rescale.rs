//! What a change of a partition count waits for.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{cel, limits};
use crate::text::DurationText;

/// What is known of the producers when a partition count changes.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RescaleSpec {
    /// After this time every producer has seen a new count (`metadata.max.age.ms`). Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::PRODUCER_REFRESH))]
    pub producer_refresh: Option<DurationText>,
    /// How long a producer tries a record again (`delivery.timeout.ms`): shorter may swap records of a key. Default: 120s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::ORDER_GRACE))]
    pub order_grace: Option<DurationText>,
}
