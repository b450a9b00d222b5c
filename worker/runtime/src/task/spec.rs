use thiserror::Error;
use turbine_crds::app::{ColumnType, IdlePolicy, OnError, OnNullKey};
use turbine_crds::compiled::{
    AggregateFunction, CompiledAggregate, CompiledPartitionKey, CompiledSubscription,
    CompiledWindow,
};
use turbine_engine as engine;

/// A compiled subscription that cannot be run. The rules of the resource refuse it earlier, so
/// only a compiled app of another version can bring it here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpecFault {
    /// A column that is used and not declared.
    #[error("subscription `{subscription}` uses column `{column}`, which it does not declare")]
    NoColumn {
        /// The subscription.
        subscription: String,
        /// The column.
        column: String,
    },
    /// An aggregate that needs a column and has none.
    #[error("aggregate `{aggregate}` of window `{window}` names no column")]
    NoInput {
        /// The window.
        window: String,
        /// The aggregate's result.
        aggregate: String,
    },
    /// An event time that is neither number nor timestamp.
    #[error(
        "subscription `{subscription}` takes its event time from `{column}`, which holds no times"
    )]
    NoEventTime {
        /// The subscription.
        subscription: String,
        /// The column.
        column: String,
    },
    /// What the engine says.
    #[error(transparent)]
    Engine(#[from] engine::SpecError),
}

/// The engine's spec of a subscription, for a task whose records lie as `placement` says.
///
/// # Errors
/// If the subscription cannot be run.
pub fn pipeline_spec(
    of: &CompiledSubscription,
    placement: engine::Placement,
) -> Result<engine::PipelineSpec, SpecFault> {
    let columns = of
        .columns
        .iter()
        .map(|column| engine::Column {
            name: column.name.clone(),
            kind: kind(column.type_),
        })
        .collect();
    let spec = engine::PipelineSpec {
        columns,
        partition_key: match &of.partition_key {
            CompiledPartitionKey::RecordKey => engine::PartitionKey::RecordKey,
            CompiledPartitionKey::Columns(names) => {
                engine::PartitionKey::Columns(indexes(of, names)?)
            }
        },
        on_null_key: match of.on_null_key {
            OnNullKey::Group => engine::OnNullKey::Group,
            OnNullKey::Dlq => engine::OnNullKey::Error,
            OnNullKey::Drop => engine::OnNullKey::Drop,
        },
        out_of_orderness_ms: of.out_of_orderness_ms,
        max_future_ms: of.max_future_ms,
        idle_timeout_ms: of.idle_timeout_ms,
        idle_policy: match of.idle_policy {
            IdlePolicy::Coast => engine::IdlePolicy::Coast,
            IdlePolicy::Hold => engine::IdlePolicy::Hold,
        },
        on_row_error: match of.on_error {
            OnError::Fail => engine::OnRowError::Stop,
            OnError::Skip | OnError::Dlq => engine::OnRowError::Continue,
        },
        placement: Some(placement),
        windows: of
            .windows
            .iter()
            .map(|window| self::window(of, window))
            .collect::<Result<_, _>>()?,
    };
    spec.validate()?;
    Ok(spec)
}

fn kind(of: ColumnType) -> engine::ColumnType {
    match of {
        ColumnType::Int64 | ColumnType::Timestamp => engine::ColumnType::Int64,
        ColumnType::Float64 => engine::ColumnType::Float64,
        ColumnType::String => engine::ColumnType::Text,
        ColumnType::Bool => engine::ColumnType::Bool,
    }
}

fn index(of: &CompiledSubscription, name: &str) -> Result<usize, SpecFault> {
    of.columns
        .iter()
        .position(|column| column.name == name)
        .ok_or_else(|| SpecFault::NoColumn {
            subscription: of.name.clone(),
            column: name.to_owned(),
        })
}

fn indexes(of: &CompiledSubscription, names: &[String]) -> Result<Vec<usize>, SpecFault> {
    names.iter().map(|name| index(of, name)).collect()
}

fn window(
    of: &CompiledSubscription,
    window: &CompiledWindow,
) -> Result<engine::WindowSpec, SpecFault> {
    Ok(engine::WindowSpec {
        name: window.name.clone(),
        kind: engine::WindowKind::Tumbling {
            size_ms: window.size_ms,
        },
        keys: indexes(of, &window.keys)?,
        aggregates: window
            .aggregates
            .iter()
            .map(|aggregate| {
                Ok(engine::AggregateSpec {
                    function: function(of, window, aggregate)?,
                    output: aggregate.as_.clone(),
                })
            })
            .collect::<Result<_, SpecFault>>()?,
        allowed_lateness_ms: window.allowed_lateness_ms,
    })
}

fn function(
    of: &CompiledSubscription,
    window: &CompiledWindow,
    aggregate: &CompiledAggregate,
) -> Result<engine::Aggregate, SpecFault> {
    let column = match &aggregate.column {
        Some(name) => Some(index(of, name)?),
        None => None,
    };
    let needed = || {
        column.ok_or_else(|| SpecFault::NoInput {
            window: window.name.clone(),
            aggregate: aggregate.as_.clone(),
        })
    };
    Ok(match aggregate.function {
        AggregateFunction::Count => {
            column.map_or(engine::Aggregate::CountRows, engine::Aggregate::Count)
        }
        AggregateFunction::Sum => engine::Aggregate::Sum(needed()?),
        AggregateFunction::Min => engine::Aggregate::Min(needed()?),
        AggregateFunction::Max => engine::Aggregate::Max(needed()?),
        AggregateFunction::Mean => engine::Aggregate::Mean(needed()?),
    })
}
