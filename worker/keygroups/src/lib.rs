//! Where a key lives: Kafka's murmur2, the 960 key groups, the partition counts that fit them,
//! the byte form a key has before it is hashed, and what records prove about who placed them.
//!
//! # The law
//!
//! Partition `p` of `N` owns the key groups `p, p + N, p + 2N, ...`. If `N` divides 960, then for
//! every hash `h` it holds that `(h % 960) % N == h % N`: the owner of a key's group is the
//! partition that Kafka's default partitioner picks, and state can follow keys through every
//! change of the count. If `N` does not divide 960 the two part ways for some key. The 28 counts
//! that divide 960 are [`VALID_COUNTS`]; [`PartitionCount`] can hold no other.
//!
//! # Changing the count
//!
//! [`movement`] says which groups go from which partition of an old count to which of a new one,
//! [`ranges_owned`] which pieces of the stored order a partition owns.
//!
//! # Keys are bytes
//!
//! Hashes are taken over bytes, nothing is normalised (`café` composed and decomposed are two
//! keys). How a typed value becomes bytes is said once, in [`canonical`]. A null key is not an
//! empty key: the empty key is in group 921 like any other key of that hash, a null key is in
//! [`Group::Null`], which every partition has for itself.

pub mod canonical;
mod clients;
mod counts;
mod evidence;
mod groups;
mod movement;
mod murmur2;
mod ownership;
mod placement;

pub use canonical::{KeyValue, canonical_key, composite_key};
pub use clients::Partitioner;
pub use counts::{
    InvalidPartitionCount, PartitionCount, RawPartitionCount, VALID_COUNTS, divisor_refusal,
    divisor_warning, nearest_valid, no_partition_refusal,
};
pub use evidence::{Lookalike, Suspicion, keys_needed};
pub use groups::{GROUP_COUNT, Group, InvalidKeyGroup, KeyGroup, group_of, rank};
pub use movement::{Share, draws, movement};
pub use murmur2::{murmur2, positive_hash};
pub use ownership::{
    NotAPartition, NotARankRange, Partition, RankRange, groups_owned, partition_of,
    partition_of_hash, ranges_owned,
};
pub use placement::{Evidence, MisplacedRecord, Verdict, who_places};
