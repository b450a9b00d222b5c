//! What the records of a topic prove, counted one by one.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use serde::Serialize;
use turbine_keygroups::{
    GROUP_COUNT, KeyGroup, Lookalike, Partition, PartitionCount, Partitioner, RawPartitionCount,
    Suspicion, group_of, keys_needed, partition_of, positive_hash,
};

use crate::keys::readable;

/// Distinct keys are told apart up to this many: memory stays small whatever the topic.
const KEYS: usize = 1_000_000;
const EXAMPLES: usize = 10;
/// Of ten distinct keys so many look like integers in binary form before it is said.
const BINARY_OF_TEN: u64 = 9;

/// Keys and records in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Load {
    pub(super) keys: u64,
    pub(super) records: u64,
}

/// A record that lies elsewhere than murmur2 puts its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Example {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) key: String,
    /// murmur2 of the key, its sign bit cleared.
    pub(super) key_hash: u32,
    /// Where murmur2 puts it.
    pub(super) belongs_to: i32,
}

/// What is known of a topic's placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Proved,
    Refuted,
    Undecided(Undecided),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecided {
    NoKeys,
    OnePartition,
    TooFewKeys { needed: u32 },
}

/// Hashes in place of keys and of keys with their partitions. Of a million, two are the same with a chance of one in
/// 37 million.
type Hashes = HashSet<u64>;

#[derive(Debug)]
pub(super) struct Tally {
    count: RawPartitionCount,
    hasher: BuildHasherDefault<DefaultHasher>,
    keys: Hashes,
    places: Hashes,
    full: bool,
    records: u64,
    without_key: u64,
    in_place: Load,
    elsewhere: u64,
    binary: u64,
    explained: [u64; Partitioner::ALL.len()],
    suspicion: Suspicion,
    partitions: Vec<Load>,
    groups: Vec<Load>,
    examples: Vec<Example>,
}

impl Tally {
    pub(super) fn new(count: RawPartitionCount) -> Self {
        Self {
            count,
            hasher: BuildHasherDefault::default(),
            keys: Hashes::new(),
            places: Hashes::new(),
            full: false,
            records: 0,
            without_key: 0,
            in_place: Load::default(),
            elsewhere: 0,
            binary: 0,
            explained: [0; Partitioner::ALL.len()],
            suspicion: Suspicion::new(count),
            partitions: vec![Load::default(); count.get() as usize],
            groups: vec![Load::default(); usize::from(GROUP_COUNT)],
            examples: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, partition: Partition, offset: i64, key: Option<&[u8]>) {
        self.records += 1;
        let at = partition.index() as usize;
        if let Some(load) = self.partitions.get_mut(at) {
            load.records += 1;
        }
        // Records without a key go anywhere and prove nothing.
        let Some(key) = key else {
            self.without_key += 1;
            return;
        };
        let group = usize::from(group_of(key).number());
        if let Some(load) = self.groups.get_mut(group) {
            load.records += 1;
        }
        let belongs_to = partition_of(key, self.count);
        let in_place = belongs_to == partition;
        if in_place {
            self.in_place.records += 1;
        } else {
            self.elsewhere += 1;
            if self.has_room_for_example(partition) {
                self.examples.push(Example {
                    partition: partition.get(),
                    offset,
                    key: readable(key),
                    key_hash: positive_hash(key),
                    belongs_to: belongs_to.get(),
                });
            }
        }
        self.full |= self.keys.len() >= KEYS || self.places.len() >= KEYS;
        if self.full {
            return;
        }
        if self.keys.insert(self.hasher.hash_one(key)) {
            self.binary += u64::from(is_binary_integer(key));
            if let Some(load) = self.groups.get_mut(group) {
                load.keys += 1;
            }
        }
        if self.places.insert(self.hasher.hash_one((key, partition))) {
            if let Some(load) = self.partitions.get_mut(at) {
                load.keys += 1;
            }
            for (client, explained) in Partitioner::ALL.into_iter().zip(&mut self.explained) {
                *explained += u64::from(client.partition(key, self.count) == Some(partition));
            }
            if in_place {
                self.in_place.keys += 1;
            } else {
                self.suspicion.add(key, partition);
            }
        }
    }

    /// Examples of all partitions say more than ten of the first.
    fn has_room_for_example(&self, partition: Partition) -> bool {
        let share = EXAMPLES.div_ceil(self.partitions.len().clamp(1, EXAMPLES));
        let of_it = |example: &&Example| example.partition == partition.get();
        self.examples.len() < EXAMPLES && self.examples.iter().filter(of_it).count() < share
    }

    pub(super) fn placement(&self) -> Placement {
        if self.elsewhere > 0 {
            return Placement::Refuted;
        }
        if self.records == self.without_key {
            return Placement::Undecided(Undecided::NoKeys);
        }
        match keys_needed(self.count) {
            None => Placement::Undecided(Undecided::OnePartition),
            Some(needed) if self.in_place.keys < u64::from(needed) => {
                Placement::Undecided(Undecided::TooFewKeys { needed })
            }
            Some(_) => Placement::Proved,
        }
    }

    pub(super) fn count(&self) -> RawPartitionCount {
        self.count
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn without_key(&self) -> u64 {
        self.without_key
    }

    /// Distinct keys; at least so many if [`Tally::is_full`].
    pub(super) fn keys(&self) -> u64 {
        self.keys.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Records with a key that lie where murmur2 puts it.
    pub(super) fn records_in_place(&self) -> u64 {
        self.in_place.records
    }

    /// Distinct keys by the partition they lie in: a key in two partitions counts twice.
    pub(super) fn places(&self) -> u64 {
        self.places.len() as u64
    }

    /// How many of them a client would have put there.
    pub(super) fn explained(&self) -> [(Partitioner, u64); Partitioner::ALL.len()] {
        let mut at = self.explained.into_iter();
        Partitioner::ALL.map(|client| (client, at.next().unwrap_or(0)))
    }

    pub(super) fn rest_looks_like(&self) -> Option<Lookalike> {
        self.suspicion.looks_like()
    }

    /// Whether the keys are integers in binary form, by the look of them.
    pub(super) fn has_binary_integers(&self) -> bool {
        self.binary > 0 && self.binary * 10 >= self.keys() * BINARY_OF_TEN
    }

    pub(super) fn examples(&self) -> &[Example] {
        &self.examples
    }

    /// By partition, as the records lie.
    pub(super) fn partitions(&self) -> &[Load] {
        &self.partitions
    }

    /// The key groups that have records.
    pub(super) fn groups(&self) -> impl Iterator<Item = (KeyGroup, Load)> {
        KeyGroup::all()
            .zip(self.groups.iter().copied())
            .filter(|(_, load)| load.records > 0)
    }

    /// By partition, if the records with a key lay where murmur2 puts them at another count.
    pub(super) fn planned(&self, plan: PartitionCount) -> Vec<Load> {
        let mut partitions = vec![Load::default(); plan.get() as usize];
        for (group, load) in self.groups() {
            if let Some(sum) = partitions.get_mut(group.owner(plan).index() as usize) {
                sum.keys += load.keys;
                sum.records += load.records;
            }
        }
        partitions
    }
}

/// Whether bytes are a small integer as Java's serializers write it, and no text.
fn is_binary_integer(key: &[u8]) -> bool {
    matches!(
        key,
        [0, 0, 0, _, _, _, _, _] | [0xff, 0xff, 0xff, _, _, _, _, _] | [0 | 0xff, _, _, _]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(count: u32) -> RawPartitionCount {
        count.try_into().unwrap()
    }

    /// Keys `0`, `1`, ... where `place` puts them.
    fn tally(of: u32, keys: u32, place: impl Fn(&[u8]) -> Option<Partition>) -> Tally {
        let mut tally = Tally::new(count(of));
        for at in 0..keys {
            let key = at.to_string().into_bytes();
            tally.add(place(&key).unwrap(), i64::from(at), Some(&key));
        }
        tally
    }

    fn right(of: u32, keys: u32) -> Tally {
        tally(of, keys, |key| Some(partition_of(key, count(of))))
    }

    #[test]
    fn one_key_fewer_than_needed_proves_nothing() {
        for (of, needed) in [(2, 40), (4, 20), (12, 12), (960, 5)] {
            assert_eq!(right(of, needed).placement(), Placement::Proved, "{of}");
            assert_eq!(
                right(of, needed - 1).placement(),
                Placement::Undecided(Undecided::TooFewKeys { needed }),
                "{of}"
            );
        }
        assert_eq!(
            right(1, 10_000).placement(),
            Placement::Undecided(Undecided::OnePartition)
        );
    }

    #[test]
    fn one_key_again_and_again_is_one_key() {
        let mut tally = Tally::new(count(12));
        for offset in 0..1000 {
            tally.add(Partition::try_from(3).unwrap(), offset, Some(b"abc"));
        }
        assert_eq!((tally.keys(), tally.records()), (1, 1000));
        assert!(matches!(tally.placement(), Placement::Undecided(_)));
    }

    #[test]
    fn null_is_no_evidence_and_no_key() {
        let mut tally = right(12, 100);
        let before = tally.keys();
        for partition in Partition::all(count(12)) {
            tally.add(partition, 0, None);
        }
        assert_eq!(tally.placement(), Placement::Proved);
        assert_eq!((tally.keys(), tally.without_key()), (before, 12));
        let mut nothing = Tally::new(count(12));
        nothing.add(Partition::try_from(0).unwrap(), 0, None);
        assert_eq!(nothing.placement(), Placement::Undecided(Undecided::NoKeys));
    }

    #[test]
    fn one_record_elsewhere_refutes_a_thousand() {
        let mut tally = right(12, 1000);
        // Key `42` belongs to partition 4 of 12, group 172; its hash is 417700972.
        tally.add(Partition::try_from(5).unwrap(), 77, Some(b"42"));
        assert_eq!(tally.placement(), Placement::Refuted);
        assert_eq!(
            tally.examples(),
            [Example {
                partition: 5,
                offset: 77,
                key: "42".to_owned(),
                key_hash: 417_700_972,
                belongs_to: 4,
            }]
        );
        assert_eq!(tally.rest_looks_like(), Some(Lookalike::TooFewKeys));
    }

    #[test]
    fn another_client_is_named_and_the_shares_are_those_of_the_keys() {
        let crc32 = tally(6, 1000, |key| Partitioner::Crc32.partition(key, count(6)));
        assert_eq!(crc32.placement(), Placement::Refuted);
        assert_eq!(
            crc32.rest_looks_like(),
            Some(Lookalike::Client(Partitioner::Crc32))
        );
        let [(_, murmur2), (_, by_crc32), _] = crc32.explained();
        assert_eq!((by_crc32, crc32.places()), (1000, 1000));
        // One in six is where murmur2 puts it by chance.
        assert!((100..250).contains(&murmur2), "{murmur2}");
    }

    #[test]
    fn examples_come_from_all_partitions() {
        let crc32 = tally(6, 1000, |key| Partitioner::Crc32.partition(key, count(6)));
        let of = |partition: i32| {
            let examples = crc32.examples().iter();
            examples
                .filter(|example| example.partition == partition)
                .count()
        };
        assert_eq!((0..6).map(of).sum::<usize>(), 10);
        assert!((0..6).all(|partition| of(partition) <= 2));
    }

    #[test]
    fn a_plan_spreads_what_the_groups_hold() {
        let tally = right(6, 1000);
        let planned = tally.planned(12_u32.try_into().unwrap());
        let now = tally.partitions();
        for at in 0..6 {
            assert_eq!(planned[at].keys + planned[at + 6].keys, now[at].keys);
            assert_eq!(
                planned[at].records + planned[at + 6].records,
                now[at].records
            );
        }
    }

    #[test]
    fn binary_integers_are_noticed_and_texts_are_not() {
        let mut tally = Tally::new(count(12));
        for number in 0..100_i64 {
            let key = number.to_be_bytes();
            tally.add(partition_of(&key, count(12)), 0, Some(&key));
        }
        assert!(tally.has_binary_integers());
        assert!(!right(12, 100).has_binary_integers());
    }
}
