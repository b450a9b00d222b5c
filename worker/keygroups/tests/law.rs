//! The law of the 960 groups for every count, what a change of the count moves, and what proves
//! a placement. The right answers are counted out group by group here.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rstest::rstest;
use turbine_keygroups::{
    KeyGroup, Partition, PartitionCount, RawPartitionCount, Share, VALID_COUNTS, draws, group_of,
    groups_owned, keys_needed, movement, partition_of, ranges_owned, rank,
};

fn raw(count: u32) -> RawPartitionCount {
    RawPartitionCount::try_from(count).unwrap()
}

fn valid(count: u32) -> PartitionCount {
    PartitionCount::try_from(count).unwrap()
}

/// A key whose partition of `count` is not its group modulo `count`.
fn breaking_key(count: u32) -> Option<String> {
    (0..20_000_u32).map(|n| n.to_string()).find(|key| {
        let by_group = u32::from(group_of(key.as_bytes()).number()) % count;
        partition_of(key.as_bytes(), raw(count)).index() != by_group
    })
}

#[test]
fn every_count_up_to_1000_that_does_not_divide_960_is_broken_by_a_key_and_no_other_is() {
    let mut broken = 0;
    for count in 1..=1000 {
        let key = breaking_key(count);
        assert_eq!(key.is_none(), 960 % count == 0, "{count}: {key:?}");
        broken += u32::from(key.is_some());
    }
    assert_eq!(broken, 1000 - 28);
}

/// Columns: count, a key that breaks it, Kafka's partition, the group modulo the count.
#[rstest]
#[case(7, "21", 3, 6)]
#[case(50, "21", 40, 0)]
fn a_key_that_breaks_a_count(
    #[case] count: u32,
    #[case] key: &str,
    #[case] kafka: u32,
    #[case] by_group: u32,
) {
    assert_eq!(partition_of(key.as_bytes(), raw(count)).index(), kafka);
    assert_eq!(
        u32::from(group_of(key.as_bytes()).number()) % count,
        by_group
    );
}

fn counts() -> impl Strategy<Value = PartitionCount> {
    (0..VALID_COUNTS.len()).prop_map(|at| valid(VALID_COUNTS[at]))
}

proptest! {
    #[test]
    fn a_key_is_in_the_share_between_its_old_and_its_new_partition(
        key: Vec<u8>, from in counts(), to in counts(),
    ) {
        let (old, new) = (partition_of(&key, from), partition_of(&key, to));
        let of_it: Vec<Share> = movement(from, to)
            .filter(|share| share.groups().any(|group| group == group_of(&key)))
            .collect();
        prop_assert_eq!(of_it.len(), 1);
        prop_assert_eq!((of_it[0].from, of_it[0].to), (old, new));
    }

    #[test]
    fn no_key_breaks_a_valid_count(key: Vec<u8>, count in counts()) {
        let by_group = u32::from(group_of(&key).number()) % count.get();
        prop_assert_eq!(partition_of(&key, count).index(), by_group);
    }
}

#[test]
fn every_change_of_the_count_covers_all_groups_once_each_from_its_owner_to_its_owner() {
    for from in VALID_COUNTS {
        for to in VALID_COUNTS {
            let mut seen = BTreeSet::new();
            for share in movement(valid(from), valid(to)) {
                let groups: Vec<u32> = share.groups().map(|g| u32::from(g.number())).collect();
                assert_eq!(groups.len(), share.size() as usize);
                assert!(groups.is_sorted());
                for group in groups {
                    assert_eq!(group % from, share.from.index(), "{from} to {to}");
                    assert_eq!(group % to, share.to.index(), "{from} to {to}");
                    assert!(seen.insert(group), "{group} moves twice, {from} to {to}");
                }
            }
            assert_eq!(seen.len(), 960, "{from} to {to}");
        }
    }
}

#[test]
fn a_partition_draws_from_those_that_owned_what_it_owns() {
    for (from, to) in [
        (4, 8),
        (4, 6),
        (6, 4),
        (12, 12),
        (1, 960),
        (960, 1),
        (12, 80),
    ] {
        for new in Partition::all(valid(to)) {
            let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for group in (0..960).filter(|group| group % to == new.index()) {
                expected.entry(group % from).or_default().push(group);
            }
            let drawn: Vec<(u32, Vec<u32>)> = draws(new, valid(from), valid(to))
                .unwrap()
                .into_iter()
                .map(|share| {
                    let groups = share.groups().map(|g| u32::from(g.number()));
                    (share.from.index(), groups.collect())
                })
                .collect();
            assert_eq!(
                drawn,
                expected.into_iter().collect::<Vec<_>>(),
                "{from} to {to}"
            );
        }
    }
    let beyond = Partition::try_from(8).unwrap();
    assert!(draws(beyond, valid(4), valid(8)).is_err());
}

#[test]
fn a_doubling_draws_each_new_partition_from_one_old_one() {
    let sources = |new: i32| -> Vec<i32> {
        draws(new.try_into().unwrap(), valid(4), valid(8))
            .unwrap()
            .iter()
            .map(|share| share.from.get())
            .collect()
    };
    assert_eq!([0, 3, 4, 7].map(sources), [[0], [3], [0], [3]]);
    let from_4_to_6: Vec<i32> = draws(5.try_into().unwrap(), valid(4), valid(6))
        .unwrap()
        .iter()
        .map(|share| share.from.get())
        .collect();
    assert_eq!(from_4_to_6, [1, 3]);
}

#[test]
fn ranges_hold_what_a_partition_owns_and_are_as_few_as_can_be() {
    for count in VALID_COUNTS.map(valid) {
        for partition in Partition::all(count) {
            let owned: BTreeSet<u16> = groups_owned(partition, count).unwrap().map(rank).collect();
            let ranges = ranges_owned(partition, count).unwrap();
            let held: Vec<u16> = ranges
                .iter()
                .flat_map(|range| range.first()..=range.last())
                .collect();
            assert_eq!(held, owned.iter().copied().collect::<Vec<_>>(), "{count}");
            let gaps = ranges.windows(2).all(|w| w[0].last() + 1 < w[1].first());
            assert!(gaps, "{count}: {ranges:?}");
            let sum: u16 = ranges.iter().map(|range| range.size()).sum();
            assert_eq!(usize::from(sum), owned.len());
            if 64 % count.get() == 0 {
                assert_eq!(ranges.len(), 1, "{count}");
            }
        }
        let beyond = Partition::try_from(count.get().cast_signed()).unwrap();
        assert!(ranges_owned(beyond, count).is_err());
    }
}

#[test]
fn prefixes_of_a_range_hold_its_groups_and_no_others() {
    for partition in Partition::all(valid(12)) {
        for range in ranges_owned(partition, valid(12)).unwrap() {
            let (low, high) = range.prefixes();
            for group in KeyGroup::all() {
                let prefix = turbine_keygroups::Group::Keyed(group).prefix();
                let inside = (range.first()..=range.last()).contains(&rank(group));
                assert_eq!(low <= prefix && prefix < high, inside);
            }
            assert!(turbine_keygroups::Group::Null.prefix() >= high);
        }
    }
}

#[test]
fn shares_have_ranges_as_well() {
    for share in movement(valid(4), valid(8)) {
        assert_eq!(share.ranges().len(), 1, "a doubling moves one piece");
    }
    let ranks: usize = movement(valid(4), valid(6))
        .flat_map(Share::ranges)
        .map(|range| usize::from(range.size()))
        .sum();
    assert_eq!(ranks, 960);
}

/// ceil(40 / log2 N), by a calculator.
#[rstest]
#[case(1, None)]
#[case(2, Some(40))]
#[case(3, Some(26))]
#[case(4, Some(20))]
#[case(5, Some(18))]
#[case(6, Some(16))]
#[case(7, Some(15))]
#[case(8, Some(14))]
#[case(12, Some(12))]
#[case(16, Some(10))]
#[case(32, Some(8))]
#[case(60, Some(7))]
#[case(100, Some(7))]
#[case(960, Some(5))]
#[case(1024, Some(4))]
fn keys_that_prove_a_placement(#[case] count: u32, #[case] keys: Option<u32>) {
    assert_eq!(keys_needed(raw(count)), keys);
}
