//! Windows and their aggregates.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{cel, limits};
use crate::text::DurationText;

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[x_kube(
    validation = cel::results_are_no_keys(),
    validation = cel::results_are_no_bounds(),
    validation = cel::keys_are_no_bounds()
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WindowSpec {
    /// DNS label, unique in the subscription; the identity of the window's state.
    #[schemars(length(max = limits::LABEL_TEXT))]
    #[x_kube(validation = cel::label("window"))]
    pub name: String,
    pub tumbling: TumblingSpec,
    /// Columns that group the rows. Contains the partition key's columns; with `recordKey`, the record's key groups
    /// the rows before them.
    #[schemars(length(max = limits::KEYS), inner(length(min = 1, max = limits::COLUMN_NAME)))]
    #[x_kube(validation = cel::keys_once())]
    pub keys: Vec<String>,
    #[schemars(length(min = 1, max = limits::AGGREGATES))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["as".into()]))]
    pub aggregates: Vec<AggregateSpec>,
    /// How long a window stays open after its end, in event time. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = cel::duration_in(limits::LATENESS))]
    pub allowed_lateness: Option<DurationText>,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TumblingSpec {
    #[x_kube(validation = cel::duration_in(limits::WINDOW_SIZE))]
    pub size: DurationText,
}

/// One aggregate: exactly one of `count`, `sum`, `min`, `max`, `mean`, and the name of the result.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[x_kube(validation = cel::one_function())]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AggregateSpec {
    /// `{}` counts rows, `{column: c}` counts rows in which `c` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<CountSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub sum: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub min: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub max: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub mean: Option<String>,
    /// Name of the result field.
    #[schemars(length(min = 1, max = limits::COLUMN_NAME))]
    #[serde(rename = "as")]
    pub as_: String,
}

#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CountSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::COLUMN_NAME))]
    pub column: Option<String>,
}
