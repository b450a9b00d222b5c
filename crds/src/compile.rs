//! From a spec that broke no rule to what operator and workers run on.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::app::{
    AggregateSpec, CheckpointStoreSpec, CheckpointsSpec, IdlePolicy, InputSpec, KafkaSpec, LogEdge,
    LogFormat, LogLevel, OnDelete, OnError, OnNullKey, OnRecreate, PartitionKeySpec,
    ProcessingGuarantee, RescaleSpec, StartFrom, SubscriptionSpec, TimeUnit, TurbineApp,
    WindowSpec,
};
use crate::compiled::{
    AggregateFunction, CompiledAggregate, CompiledApp, CompiledCheckpointStore,
    CompiledCheckpoints, CompiledColumn, CompiledEventTime, CompiledKafka, CompiledOutput,
    CompiledPartitionKey, CompiledS3, CompiledStart, CompiledSubscription, CompiledTls,
    CompiledTopics, CompiledWindow, KafkaSecretFile,
};
use crate::defaults;
use crate::quantity::Quantity;
use crate::rules::FieldError;
use crate::text::DurationText;
use crate::validated::{
    AppName, DEFAULT_NAMESPACE, PodOverrides, Replicas, Rescale, SecretFile, ValidatedApp, Volume,
    VolumeSize, Worker,
};

type Compiled<T> = Result<T, Vec<FieldError>>;

fn broken(path: &str, message: impl ToString) -> Vec<FieldError> {
    vec![FieldError {
        path: path.to_owned(),
        message: message.to_string(),
    }]
}

/// Errors only where the rules let something through that they should have refused.
pub(crate) fn validated(
    app: &TurbineApp,
    template: Option<PodTemplateSpec>,
) -> Compiled<ValidatedApp> {
    let app = defaults::filled(app);
    let name = app.metadata.name.clone().unwrap_or_default();
    let spec = &app.spec;
    let app_id = app
        .app_id()
        .parse()
        .map_err(|error| broken("spec.appId", error))?;
    let replicas = u16::try_from(spec.replicas.unwrap_or(1))
        .map_err(|error| broken("spec.replicas", error))?;
    let worker = spec.worker.clone().unwrap_or_default();
    let volume = &spec.state.volume;
    let bytes = Quantity::parse(&volume.size)
        .ok()
        .and_then(Quantity::ceil)
        .ok_or_else(|| broken("spec.state.volume.size", "is beyond every volume; use less"))?;
    let topics = spec.topics.clone().unwrap_or_default();
    Ok(ValidatedApp {
        namespace: app
            .metadata
            .namespace
            .clone()
            .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        name: AppName(name),
        replicas: Replicas(replicas),
        suspended: spec.suspend.unwrap_or_default(),
        compiled: CompiledApp {
            app_id: app.app_id().to_owned(),
            kafka: kafka(&spec.kafka),
            log_level: worker.log_level.unwrap_or(LogLevel::Info),
            log_format: worker.log_format.unwrap_or(LogFormat::Text),
            subscriptions: spec
                .subscriptions
                .iter()
                .enumerate()
                .map(|(at, one)| subscription(&format!("spec.subscriptions[{at}]"), one))
                .collect::<Compiled<_>>()?,
            topics: CompiledTopics {
                replication_factor: topics.replication_factor,
                config: topics.config.unwrap_or_default(),
            },
            on_recreate: spec.state.on_recreate.unwrap_or_default(),
            checkpoints: checkpoints(spec.state.checkpoints.as_ref())?,
            allow_non_divisor_partitions: spec.allow_non_divisor_partitions.unwrap_or_default(),
        },
        app_id,
        worker: Worker {
            image: worker.image,
            resources: worker.resources.unwrap_or_default(),
        },
        volume: Volume {
            storage_class: volume.storage_class_name.clone(),
            size: VolumeSize {
                text: volume.size.clone(),
                bytes,
            },
            on_delete: volume.on_delete.unwrap_or(OnDelete::Retain),
            on_scale_down: volume.on_scale_down.unwrap_or(OnDelete::Retain),
        },
        on_recreate: spec.state.on_recreate.unwrap_or(OnRecreate::Adopt),
        topics_on_delete: topics.on_delete.unwrap_or(OnDelete::Retain),
        rescale: rescale(spec.rescale.as_ref())?,
        restart_nonce: spec.restart_nonce.clone(),
        pod_overrides: spec
            .pod_overrides
            .clone()
            .zip(template)
            .map(|(patch, template)| PodOverrides { patch, template }),
        secrets: secrets(&spec.kafka),
        checkpoint_secret: spec
            .state
            .checkpoints
            .as_ref()
            .and_then(|checkpoints| checkpoints.store.as_ref())
            .and_then(|store| store.s3.as_ref()?.credentials_secret.clone()),
    })
}

fn kafka(spec: &KafkaSpec) -> CompiledKafka {
    CompiledKafka {
        bootstrap_servers: spec.bootstrap_servers.clone(),
        tls: spec.tls.as_ref().map(|tls| CompiledTls {
            ca: tls.ca.is_some(),
            client_certificate: tls.certificate.is_some(),
        }),
        sasl: spec.sasl.as_ref().map(|sasl| sasl.mechanism),
        properties: spec.properties.clone().unwrap_or_default(),
    }
}

fn checkpoints(spec: Option<&CheckpointsSpec>) -> Compiled<CompiledCheckpoints> {
    let spec = spec.cloned().unwrap_or_default();
    let path = "spec.state.checkpoints";
    let default = CompiledCheckpoints::default();
    let retain = spec
        .retain
        .map_or(Ok(default.retain), u32::try_from)
        .map_err(|error| broken(&format!("{path}.retain"), error))?;
    Ok(CompiledCheckpoints {
        interval_ms: millis(&format!("{path}.interval"), spec.interval.as_ref())?,
        retain,
        store: spec.store.map(checkpoint_store).transpose()?,
    })
}

fn rescale(spec: Option<&RescaleSpec>) -> Compiled<Rescale> {
    let spec = spec.cloned().unwrap_or_default();
    let path = "spec.rescale";
    Ok(Rescale {
        producer_refresh_ms: millis(path, spec.producer_refresh.as_ref())?,
        order_grace_ms: millis(path, spec.order_grace.as_ref())?,
    })
}

fn checkpoint_store(store: CheckpointStoreSpec) -> Compiled<CompiledCheckpointStore> {
    match (store.s3, store.folder) {
        (Some(s3), None) => Ok(CompiledCheckpointStore::S3(CompiledS3 {
            credentials: s3.credentials_secret.is_some(),
            bucket: s3.bucket,
            region: s3.region.unwrap_or_default(),
            path_style: s3.path_style.unwrap_or_default(),
            endpoint: s3.endpoint,
            prefix: s3.prefix.unwrap_or_default(),
        })),
        (None, Some(folder)) => Ok(CompiledCheckpointStore::Folder(folder)),
        (Some(_), Some(_)) | (None, None) => Err(broken(
            "spec.state.checkpoints.store",
            "is neither a bucket nor a folder",
        )),
    }
}

fn secrets(kafka: &KafkaSpec) -> Vec<SecretFile> {
    let tls = kafka.tls.as_ref();
    let sasl = kafka.sasl.as_ref();
    [
        (KafkaSecretFile::Ca, tls.and_then(|tls| tls.ca.as_ref())),
        (
            KafkaSecretFile::Certificate,
            tls.and_then(|tls| tls.certificate.as_ref()),
        ),
        (KafkaSecretFile::Key, tls.and_then(|tls| tls.key.as_ref())),
        (KafkaSecretFile::Username, sasl.map(|sasl| &sasl.username)),
        (KafkaSecretFile::Password, sasl.map(|sasl| &sasl.password)),
    ]
    .into_iter()
    .filter_map(|(file, secret)| {
        secret.map(|secret| SecretFile {
            file,
            secret: secret.secret.clone(),
            key: secret.key.clone(),
        })
    })
    .collect()
}

fn millis(path: &str, text: Option<&DurationText>) -> Compiled<u64> {
    text.map_or(Ok(0), DurationText::millis)
        .map_err(|error| broken(path, error))
}

fn subscription(path: &str, spec: &SubscriptionSpec) -> Compiled<CompiledSubscription> {
    let input = &spec.input;
    let idle = input.idle.clone().unwrap_or_default();
    Ok(CompiledSubscription {
        name: spec.name.clone(),
        topic: input.topic.clone(),
        partitions: input.partitions,
        columns: columns(input),
        event_time: CompiledEventTime {
            column: input.event_time.field.clone(),
            unit: input.event_time.unit.unwrap_or(TimeUnit::Ms),
        },
        out_of_orderness_ms: millis(path, input.out_of_orderness.as_ref())?,
        max_future_ms: millis(path, input.max_future.as_ref())?,
        start_from: start(path, input.start_from.as_ref())?,
        on_retention_gap: input.on_retention_gap.unwrap_or_default(),
        on_error: input.on_error.unwrap_or(OnError::Fail),
        dlq: input.dlq.clone(),
        idle_timeout_ms: millis(path, idle.timeout.as_ref())?,
        idle_policy: idle.policy.unwrap_or(IdlePolicy::Coast),
        partition_key: match &spec.partition_key {
            PartitionKeySpec::Column(column) => CompiledPartitionKey::Columns(vec![column.clone()]),
            PartitionKeySpec::Columns(columns) => CompiledPartitionKey::Columns(columns.clone()),
            PartitionKeySpec::RecordKey(_) => CompiledPartitionKey::RecordKey,
        },
        partition_hash: spec.partition_hash,
        on_null_key: spec.on_null_key.unwrap_or(OnNullKey::Group),
        windows: spec
            .windows
            .iter()
            .map(|one| window(path, one))
            .collect::<Compiled<_>>()?,
        output: CompiledOutput {
            topic: spec.output.topic.clone(),
            partitions: spec.output.partitions,
            message_key: spec.output.message_key.clone(),
        },
        processing_guarantee: spec
            .processing_guarantee
            .unwrap_or(ProcessingGuarantee::AtLeastOnce),
        commit_interval_ms: millis(path, spec.commit_interval.as_ref())?,
        on_crash_recovery: spec.on_crash_recovery.unwrap_or_default(),
        // That it is not negative is one of the rules.
        halt_if_gap_exceeds: spec.halt_if_gap_exceeds.map(i64::unsigned_abs),
    })
}

fn columns(input: &InputSpec) -> Vec<CompiledColumn> {
    input
        .columns
        .iter()
        .map(|column| CompiledColumn {
            name: column.name.clone(),
            type_: column.type_,
        })
        .collect()
}

fn start(path: &str, start: Option<&StartFrom>) -> Compiled<CompiledStart> {
    match start {
        None | Some(StartFrom::Edge(LogEdge::Earliest)) => Ok(CompiledStart::Earliest),
        Some(StartFrom::Edge(LogEdge::Latest)) => Ok(CompiledStart::Latest),
        Some(StartFrom::Timestamp(start)) => start
            .timestamp
            .parse::<jiff::Timestamp>()
            .map(|timestamp| CompiledStart::Timestamp(timestamp.as_millisecond()))
            .map_err(|error| broken(path, error)),
    }
}

fn window(path: &str, spec: &WindowSpec) -> Compiled<CompiledWindow> {
    Ok(CompiledWindow {
        name: spec.name.clone(),
        size_ms: millis(path, Some(&spec.tumbling.size))?,
        keys: spec.keys.clone(),
        aggregates: spec
            .aggregates
            .iter()
            .map(|one| aggregate(path, one))
            .collect::<Compiled<_>>()?,
        allowed_lateness_ms: millis(path, spec.allowed_lateness.as_ref())?,
    })
}

fn aggregate(path: &str, spec: &AggregateSpec) -> Compiled<CompiledAggregate> {
    let (function, column) = match spec {
        AggregateSpec {
            count: Some(count), ..
        } => (AggregateFunction::Count, count.column.as_ref()),
        AggregateSpec {
            sum: Some(column), ..
        } => (AggregateFunction::Sum, Some(column)),
        AggregateSpec {
            min: Some(column), ..
        } => (AggregateFunction::Min, Some(column)),
        AggregateSpec {
            max: Some(column), ..
        } => (AggregateFunction::Max, Some(column)),
        AggregateSpec {
            mean: Some(column), ..
        } => (AggregateFunction::Mean, Some(column)),
        AggregateSpec {
            count: None,
            sum: None,
            min: None,
            max: None,
            mean: None,
            ..
        } => {
            return Err(broken(
                path,
                format!("aggregate `{}` has no function", spec.as_),
            ));
        }
    };
    Ok(CompiledAggregate {
        as_: spec.as_.clone(),
        function,
        column: column.cloned(),
    })
}
