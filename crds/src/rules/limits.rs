//! Bounds of lists, texts and numbers. The API server weighs each CEL rule by them before it takes the CRD.

/// Subscriptions of an app.
pub const SUBSCRIPTIONS: usize = 16;
/// Declared columns of an input.
pub const COLUMNS: usize = 64;
/// Windows of a subscription.
pub const WINDOWS: usize = 8;
/// Columns of a partition key or of a window's keys.
pub const KEYS: usize = 8;
/// Aggregates of a window.
pub const AGGREGATES: usize = 32;
/// Entries of `kafka.properties` and of `topics.config`.
pub const PROPERTIES: usize = 64;

/// Characters of a column's or a result's name.
pub const COLUMN_NAME: usize = 128;
/// Characters of the names of app, subscriptions and windows.
pub const LABEL: usize = turbine_protocol::names::MAX_LABEL;
/// Characters that the schema lets through in a label, so that the rule with the better words answers.
pub const LABEL_TEXT: usize = 63;
/// Characters of a topic's name.
pub const TOPIC: usize = turbine_protocol::names::MAX_TOPIC;
/// Characters of the name of a Secret or of its key.
pub const SECRET_NAME: usize = 253;
/// Characters of `kafka.bootstrapServers`.
pub const BOOTSTRAP: usize = 2048;
/// Characters of an image's name.
pub const IMAGE: usize = 512;
/// Characters of `restartNonce`.
pub const NONCE: usize = 256;
/// Characters of a quantity.
pub const QUANTITY: usize = 32;
/// Characters of a storage class's name.
pub const STORAGE_CLASS: usize = 253;
/// Characters of a setting's value.
pub const SETTING: usize = 2048;

/// Characters of a bucket's name.
pub const BUCKET: usize = 63;
/// Characters of a region's name.
pub const REGION: usize = 64;
/// Characters of an object store's address.
pub const ENDPOINT: usize = 512;
/// Characters of the prefix of objects.
pub const PREFIX: usize = 512;
/// A folder of checkpoints.
pub const FOLDER: usize = 512;
/// Checkpoints kept per task.
pub const RETAIN: std::ops::RangeInclusive<i32> = 2..=100;

/// Bytes of a memory limit: a worker without a task needs a third of that.
pub const MEMORY: u64 = 128 << 20;
/// Worker pods.
pub const REPLICAS: i32 = 1000;
/// Partitions of an input; more than one broker or one group could serve.
pub const PARTITIONS: i32 = 99_999;
/// Digits of [`PARTITIONS`].
pub const PARTITION_DIGITS: u32 = 5;
/// Partitions of an output that Turbine creates.
pub const OUTPUT_PARTITIONS: i32 = 100_000;
/// Copies of a topic that Turbine creates.
pub const REPLICATION: i32 = 100;

/// A range of durations, ends included.
#[derive(Debug, Clone, Copy)]
pub struct DurationRange {
    /// Least, as text and in milliseconds.
    pub min: (&'static str, u64),
    /// Greatest, as text and in milliseconds.
    pub max: (&'static str, u64),
}

const YEAR: (&str, u64) = ("366d", 366 * 86_400_000);
/// `tumbling.size`.
pub const WINDOW_SIZE: DurationRange = DurationRange {
    min: ("1ms", 1),
    max: YEAR,
};
/// `allowedLateness` and `outOfOrderness`.
pub const LATENESS: DurationRange = DurationRange {
    min: ("0s", 0),
    max: YEAR,
};
/// `maxFuture`.
pub const MAX_FUTURE: DurationRange = DurationRange {
    min: ("0s", 0),
    max: YEAR,
};
/// `idle.timeout`.
pub const IDLE_TIMEOUT: DurationRange = DurationRange {
    min: ("100ms", 100),
    max: ("1d", 86_400_000),
};
/// `commitInterval` with `processingGuarantee: exactlyOnce`, in milliseconds: half of what the broker waits for a transaction.
pub const LONGEST_TRANSACTION_MS: u64 = 30_000;
/// `commitInterval`.
pub const COMMIT_INTERVAL: DurationRange = DurationRange {
    min: ("10ms", 10),
    max: ("1h", 3_600_000),
};
/// `rescale.producerRefresh`.
pub const PRODUCER_REFRESH: DurationRange = DurationRange {
    min: ("1s", 1_000),
    max: ("1d", 86_400_000),
};
/// `rescale.orderGrace`.
pub const ORDER_GRACE: DurationRange = DurationRange {
    min: ("0s", 0),
    max: ("1h", 3_600_000),
};
/// `checkpoints.interval`.
pub const CHECKPOINT_INTERVAL: DurationRange = DurationRange {
    min: ("1s", 1_000),
    max: ("1d", 86_400_000),
};
