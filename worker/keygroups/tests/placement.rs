//! Placement against vectors from Kafka's own unit tests and public threads, and the law of the
//! 960 groups in both directions.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use rstest::rstest;
use turbine_keygroups::{
    Group, KeyGroup, Partition, PartitionCount, RawPartitionCount, VALID_COUNTS, divisor_refusal,
    group_of, groups_owned, murmur2, nearest_valid, partition_of, partition_of_hash, positive_hash,
    rank,
};

fn raw(count: u32) -> RawPartitionCount {
    RawPartitionCount::try_from(count).unwrap()
}

fn valid(count: u32) -> PartitionCount {
    PartitionCount::try_from(count).unwrap()
}

/// Columns: key, murmur2 as Java prints it, partition of 12, of 15, key group.
#[rstest]
#[case(b"21", -973_932_308, 0, 0, 300)]
#[case(b"abc", 479_470_107, 3, 12, 27)]
#[case(b"foobar", -790_332_482, 6, 6, 126)]
#[case(b"42", 417_700_972, 4, 7, 172)]
#[case(b"\"42\"", -970_110_212, 0, 6, 636)]
#[case(b"42.0", -1_025_286_378, 2, 5, 470)]
#[case(b"\x00\x00\x00\x2a", 1_606_757_304, 0, 9, 504)]
#[case(b"\x00\x00\x00\x00\x00\x00\x00\x2a", 506_863_552, 4, 7, 832)]
#[case(b"\x00\x00\x00\x01", -173_113_808, 0, 0, 240)]
#[case(b"", 275_646_681, 9, 6, 921)]
#[case(b"\xff\xfe", 1_717_632_651, 3, 6, 651)]
#[case(b"caf\xc3\xa9", -1_358_007_374, 6, 9, 114)]
#[case(b"cafe\xcc\x81", 510_794_570, 2, 5, 650)]
#[case(b"TT0124", -1_442_328_778, 10, 10, 310)]
#[case(b"fd7af248-ce5c-46a5-93d7-1c0c9005b99d", -147_180_742, 10, 1, 826)]
#[case(b"3490358332", i32::MIN, 0, 0, 0)]
#[case(b"842411034", i32::MAX, 7, 7, 127)]
fn keys_lie_where_kafkas_default_partitioner_puts_them(
    #[case] key: &[u8],
    #[case] hash: i32,
    #[case] of_12: i32,
    #[case] of_15: i32,
    #[case] group: u16,
) {
    assert_eq!(murmur2(key).cast_signed(), hash);
    assert_eq!(partition_of(key, raw(12)).get(), of_12);
    assert_eq!(partition_of(key, raw(15)).get(), of_15);
    assert_eq!(group_of(key).number(), group);
    assert_eq!(partition_of(key, raw(960)).get(), i32::from(group));
    for count in [3, 5, 12, 15, 960] {
        assert_eq!(
            group_of(key).owner(valid(count)),
            partition_of(key, raw(count))
        );
    }
}

#[rstest]
#[case("AAPL", 657, 3)]
#[case("MSFT", 642, 0)]
#[case("GOOGL", 421, 1)]
#[case("AMZN", 521, 5)]
#[case("NVDA", 317, 5)]
#[case("META", 684, 0)]
#[case("TSLA", 671, 5)]
#[case("JPM", 374, 2)]
#[case("V", 954, 0)]
#[case("WMT", 401, 5)]
fn stock_symbols_over_six_partitions(#[case] key: &str, #[case] group: u16, #[case] of_6: i32) {
    assert_eq!(group_of(key.as_bytes()).number(), group);
    assert_eq!(partition_of(key.as_bytes(), raw(6)).get(), of_6);
}

#[test]
fn groups_and_kafka_part_ways_where_the_count_does_not_divide_960() {
    // Key `21`: Kafka's partition, and what the group modulo the count would say.
    for (count, kafka, by_group) in [(7, 3, 6), (9, 3, 3), (50, 40, 0), (12, 0, 0)] {
        assert_eq!(partition_of(b"21", raw(count)).get(), kafka);
        assert_eq!(u32::from(group_of(b"21").number()) % count, by_group);
    }
    assert_eq!(
        partition_of(b"fd7af248-ce5c-46a5-93d7-1c0c9005b99d", raw(32)).get(),
        26
    );
}

#[test]
fn of_the_counts_up_to_1000_the_listed_28_are_valid_and_the_others_name_their_neighbours() {
    let divisors = [
        1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 32, 40, 48, 60, 64, 80, 96, 120, 160, 192,
        240, 320, 480, 960,
    ];
    assert_eq!(VALID_COUNTS, divisors);
    for count in 1..=1000 {
        let accepted = PartitionCount::try_from(count);
        assert_eq!(accepted.is_ok(), divisors.contains(&count), "{count}");
        let below = divisors.iter().copied().filter(|d| *d < count).max();
        let above = divisors.iter().copied().filter(|d| *d > count).min();
        assert_eq!(nearest_valid(count), (below, above), "{count}");
        if let Err(refused) = accepted {
            assert_eq!((refused.below, refused.above), (below, above));
        }
    }
}

#[rstest]
#[case(
    7,
    "7 partitions, which does not divide 960; the nearest valid counts are 6 and 8"
)]
#[case(
    9,
    "9 partitions, which does not divide 960; the nearest valid counts are 8 and 10"
)]
#[case(
    50,
    "50 partitions, which does not divide 960; the nearest valid counts are 48 and 60"
)]
#[case(
    100,
    "100 partitions, which does not divide 960; the nearest valid counts are 96 and 120"
)]
#[case(
    961,
    "961 partitions, which does not divide 960; the nearest valid count is 960"
)]
#[case(
    1920,
    "1920 partitions, which does not divide 960; the nearest valid count is 960"
)]
fn a_refusal_names_topic_count_and_neighbours(#[case] count: u32, #[case] words: &str) {
    let refusal = divisor_refusal("events", count);
    assert!(
        refusal.starts_with(&format!("topic `events` has {words};")),
        "{refusal}"
    );
    assert_eq!(
        PartitionCount::try_from(count).unwrap_err().to_string(),
        words
    );
}

#[rstest]
#[case(0)]
#[case(-1)]
#[case(i32::MIN)]
fn counts_below_one_are_no_counts(#[case] count: i32) {
    let words = format!("a partition count is at least 1, not {count}");
    assert_eq!(
        PartitionCount::try_from(count).unwrap_err().to_string(),
        words
    );
    assert_eq!(
        RawPartitionCount::try_from(count).unwrap_err().to_string(),
        words
    );
}

#[test]
fn serialised_counts_and_groups_are_plain_numbers_and_are_checked_when_read() {
    assert_eq!(serde_json::to_string(&valid(12)).unwrap(), "12");
    assert_eq!(
        serde_json::from_str::<PartitionCount>("12").unwrap(),
        valid(12)
    );
    let refused = serde_json::from_str::<PartitionCount>("7")
        .unwrap_err()
        .to_string();
    assert!(refused.contains("6 and 8"), "{refused}");
    assert!(serde_json::from_str::<KeyGroup>("960").is_err());
    assert!(serde_json::from_str::<Partition>("-1").is_err());
}

#[test]
fn every_group_has_one_owner() {
    for count in VALID_COUNTS.map(valid) {
        let mut seen = BTreeSet::new();
        for partition in 0..count.get().cast_signed() {
            let partition = Partition::try_from(partition).unwrap();
            for group in groups_owned(partition, count).unwrap() {
                assert_eq!(group.owner(count), partition);
                assert!(
                    seen.insert(group),
                    "group {group} has two owners of {count}"
                );
            }
        }
        assert_eq!(seen.len(), 960);
        let beyond = Partition::try_from(count.get().cast_signed()).unwrap();
        assert!(groups_owned(beyond, count).is_err());
    }
}

#[test]
fn an_invalid_count_sends_some_key_elsewhere_than_its_group() {
    for count in (1..=1000).filter(|count| PartitionCount::try_from(*count).is_err()) {
        let parts = (0..2000u32).any(|hash| {
            let by_group = u32::from(KeyGroup::of_hash(hash).number()) % count;
            partition_of_hash(hash, raw(count)).index() != by_group
        });
        assert!(parts, "{count}");
    }
}

proptest! {
    #[test]
    fn a_valid_count_sends_every_key_to_its_groups_owner(key: Vec<u8>, at in 0..28usize) {
        let count = valid(VALID_COUNTS[at]);
        prop_assert_eq!(group_of(&key).owner(count), partition_of(&key, count));
    }

    #[test]
    fn a_valid_count_fits_every_hash(hash in 0..=0x7fff_ffffu32, at in 0..28usize) {
        let count = valid(VALID_COUNTS[at]);
        prop_assert_eq!(KeyGroup::of_hash(hash).owner(count), partition_of_hash(hash, count));
    }

    #[test]
    fn hashes_have_their_sign_bit_cleared_and_nothing_else(key: Vec<u8>) {
        prop_assert_eq!(positive_hash(&key) & 0x8000_0000, 0);
        prop_assert_eq!(positive_hash(&key) | 0x8000_0000, murmur2(&key) | 0x8000_0000);
    }
}

#[test]
fn ranks_are_a_permutation_with_an_inverse_and_prefixes_name_their_group() {
    let ranks: BTreeSet<u16> = KeyGroup::all().map(rank).collect();
    assert_eq!(ranks, (0..960).collect());
    for group in KeyGroup::all() {
        assert_eq!(KeyGroup::at_rank(rank(group)).unwrap(), group);
        assert_eq!(
            Group::from_prefix(Group::Keyed(group).prefix()),
            Some(Group::Keyed(group))
        );
        assert_eq!(
            Group::Keyed(group).prefix(),
            (rank(group) * 64).to_be_bytes()
        );
        assert!(Group::Keyed(group).prefix() < Group::Null.prefix());
    }
    assert_eq!(Group::Null.prefix(), [0xf0, 0x00]);
    assert_eq!(Group::from_prefix([0xf0, 0x00]), Some(Group::Null));
    assert_eq!(Group::from_prefix([0x00, 0x01]), None);
    assert_eq!(Group::from_prefix([0xf0, 0x40]), None);
    assert!(KeyGroup::at_rank(960).is_err());
}

/// The most contiguous pieces of one old store that one new task takes.
fn pieces(from: u32, to: u32) -> usize {
    let mut most = 0;
    for old in 0..from {
        let mut groups: Vec<KeyGroup> = KeyGroup::all()
            .filter(|g| u32::from(g.number()) % from == old)
            .collect();
        groups.sort_by_key(|g| rank(*g));
        for new in 0..to {
            let taken: Vec<bool> = groups
                .iter()
                .map(|g| u32::from(g.number()) % to == new)
                .collect();
            let starts = taken.windows(2).filter(|w| !w[0] && w[1]).count();
            most = most.max(starts + usize::from(taken[0]));
        }
    }
    most
}

#[rstest]
#[case(1, 2, 1)]
#[case(4, 8, 1)]
#[case(8, 16, 1)]
#[case(12, 24, 1)]
#[case(12, 48, 1)]
#[case(12, 16, 1)]
#[case(4, 6, 11)]
#[case(12, 60, 16)]
fn a_doubling_moves_one_piece(#[case] from: u32, #[case] to: u32, #[case] expected: usize) {
    assert_eq!(pieces(from, to), expected);
}

#[test]
fn null_is_not_the_empty_key() {
    assert_eq!(Group::of(None), Group::Null);
    assert_eq!(Group::of(Some(b"")).number(), 921);
    assert_eq!(Group::Null.number(), 960);
}
