//! What is refused before anything irreversible, for the condition `RescaleBlocked`: each names what, the value and the way out.

use thiserror::Error;

/// Why a rescale does not begin. The running app is not touched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
pub enum Refusal {
    #[error("{}", turbine_keygroups::divisor_refusal(.topic, *.count))]
    CountNotDivisor { topic: String, count: u32 },
    #[error(
        "topic `{topic}` has {real} partitions and input.partitions asks for {asked}: a topic cannot shrink, ask for {real} or more"
    )]
    CountNotLarger {
        topic: String,
        asked: i32,
        real: i32,
    },
    #[error(
        "subscriptions {one} and {other} read topic `{topic}` and ask for {asked_by_one} and {asked_by_other} partitions: write the \
         same count in both, they change together"
    )]
    CountsDiffer {
        topic: String,
        one: String,
        asked_by_one: i32,
        other: String,
        asked_by_other: i32,
    },
    #[error(
        "topic `{topic}` was grown by another hand to {real} partitions, the state is laid out for {laid}, and input.partitions asks for \
         {asked}: ask for {real} first, and for {asked} once that has settled"
    )]
    GrownOtherwise {
        topic: String,
        laid: i32,
        real: i32,
        asked: i32,
    },
    #[error(
        "state is laid out for the {laid} partitions of topic `{topic}`, which does not divide 960, and such state moves only to a valid count: \
         set spec.replicas back to {replicas}, or ask for a valid input.partitions as well"
    )]
    LayoutNotDivisor {
        topic: String,
        laid: i32,
        replicas: i32,
    },
    #[error(
        "subscription {subscription} left the spec and its state lies on pods that would go: put it back until this has settled, or set \
         spec.replicas back to {replicas}"
    )]
    StateLeftBehind { subscription: String, replicas: i32 },
    #[error(
        "topic `{topic}` does not exist: create it again with {laid} partitions, or delete the subscription"
    )]
    TopicGone { topic: String, laid: i32 },
    #[error(
        "subscription {subscription} has no partitionKey: what it keeps cannot follow its records. Leave its input.partitions out"
    )]
    Unkeyed { subscription: String },
    #[error(
        "subscription {subscription} does not say by which hash its producers place records: declare partitionHash: murmur2 if they do"
    )]
    HashUndeclared { subscription: String },
    #[error(
        "task {task} found records that murmur2 places elsewhere: correct the producer, then `turbine-cli placement clear`"
    )]
    Misplaced { task: String },
    #[error("the plan of epoch {epoch} is at {step}: this one begins once that has settled")]
    EarlierPlan { epoch: i64, step: String },
    #[error(
        "topic `{topic}` was grown {ago_ms} ms ago by another hand, and producers may use the former count for {refresh_ms} ms \
         (spec.rescale.producerRefresh): it begins by itself then"
    )]
    RecentGrowth {
        topic: String,
        ago_ms: u64,
        refresh_ms: u64,
    },
    #[error(
        "the volume of pod {pod} has {free} bytes free and {needed} are to be moved there: raise spec.state.volume.size"
    )]
    DiskShort { pod: i32, free: u64, needed: u64 },
    #[error("the worker of pod {pod} cannot say how much of its volume is free: see its log")]
    DiskUnknown { pod: i32 },
    #[error(
        "the app's user may not alter topic `{topic}`: grant it ALTER on the topic, or grow the topic by hand"
    )]
    NoRightToGrow { topic: String },
    #[error(
        "the app's user may not initialise the transactional id of task {task}: grant it WRITE and DESCRIBE on transactional ids with the prefix `turbine.`"
    )]
    NoRightToSeal { task: String },
    #[error(
        "task {task} cannot be asked ({why}): a task that does not hold its frontier could close windows too early. It begins once the pod answers"
    )]
    TaskSilent { task: String, why: String },
    #[error(
        "topic `{topic}` keeps records for {retention_ms} ms and they wait for up to {needed_ms} ms (producerRefresh and orderGrace): \
         raise its retention.ms, or lower spec.rescale.producerRefresh if every producer refreshes sooner"
    )]
    RetentionShort {
        topic: String,
        retention_ms: u64,
        needed_ms: u64,
    },
    #[error("Kafka cannot be asked ({why}): it begins by itself once it can")]
    BrokerUnreachable { why: String },
    #[error("spec.suspend is true: state moves between workers that run, set it to false")]
    Suspended,
}

impl Refusal {
    /// Constant in CamelCase.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::CountNotDivisor { .. } => "PartitionCountNotDivisor",
            Self::LayoutNotDivisor { .. } => "PartitionCountNotDivisor",
            Self::CountNotLarger { .. } => "PartitionCountNotLarger",
            Self::CountsDiffer { .. } => "PartitionCountsDiffer",
            Self::GrownOtherwise { .. } => "TopicGrownOtherwise",
            Self::StateLeftBehind { .. } => "StateLeftBehind",
            Self::TopicGone { .. } => "InputTopicMissing",
            Self::Unkeyed { .. } => "Unkeyed",
            Self::HashUndeclared { .. } => "PartitionHashUndeclared",
            Self::Misplaced { .. } => "Misplaced",
            Self::EarlierPlan { .. } => "EarlierRescale",
            Self::RecentGrowth { .. } => "RecentGrowth",
            Self::DiskShort { .. } => "DiskShort",
            Self::DiskUnknown { .. } => "DiskUnknown",
            Self::NoRightToGrow { .. } | Self::NoRightToSeal { .. } => "NotAuthorized",
            Self::TaskSilent { .. } => "TaskSilent",
            Self::RetentionShort { .. } => "RetentionShort",
            Self::BrokerUnreachable { .. } => "KafkaUnreachable",
            Self::Suspended => "Suspended",
        }
    }

    /// Whether the same request may be taken later without anybody changing something.
    #[must_use]
    pub fn passes_by_itself(&self) -> bool {
        match self {
            Self::EarlierPlan { .. }
            | Self::RecentGrowth { .. }
            | Self::TaskSilent { .. }
            | Self::DiskUnknown { .. }
            | Self::BrokerUnreachable { .. } => true,
            Self::CountNotDivisor { .. }
            | Self::CountNotLarger { .. }
            | Self::CountsDiffer { .. }
            | Self::GrownOtherwise { .. }
            | Self::LayoutNotDivisor { .. }
            | Self::StateLeftBehind { .. }
            | Self::TopicGone { .. }
            | Self::Unkeyed { .. }
            | Self::HashUndeclared { .. }
            | Self::Misplaced { .. }
            | Self::DiskShort { .. }
            | Self::NoRightToGrow { .. }
            | Self::NoRightToSeal { .. }
            | Self::RetentionShort { .. }
            | Self::Suspended => false,
        }
    }
}

pub(super) fn list(refusals: &[Refusal]) -> String {
    let texts: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// What a rescale may cost, said before and refused by nobody.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Warning {
    #[error(
        "the frontiers of subscription {subscription} lie {spread_ms} ms apart and outOfOrderness is {out_of_orderness_ms} ms: partitions are \
         mixed, so rows may be late that were not before. Let it catch up first, or raise outOfOrderness"
    )]
    SpreadOfFrontiers {
        subscription: String,
        spread_ms: u64,
        out_of_orderness_ms: u64,
    },
}
