//! Other clients' partitioners, and which of them misplaced keys look like.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use rstest::rstest;
use turbine_keygroups::{
    Lookalike, Partition, Partitioner, RawPartitionCount, Suspicion, partition_of,
};

fn raw(count: u32) -> RawPartitionCount {
    RawPartitionCount::try_from(count).unwrap()
}

fn of(client: Partitioner, key: &[u8], count: u32) -> Option<i32> {
    client.partition(key, raw(count)).map(Partition::get)
}

/// Columns: key; of 12: murmur2, CRC32 (none: at random), FNV-1a; of 12, what two wrong
/// treatments of murmur2's sign give: none at all, and the absolute value.
#[rstest]
#[case(b"21", 0, Some(4), 0, 8, 8)]
#[case(b"abc", 3, Some(6), 11, 3, 3)]
#[case(b"foobar", 6, Some(5), 0, 2, 2)]
#[case(b"42", 4, Some(8), 5, 4, 4)]
#[case(b"\"42\"", 0, Some(4), 5, 8, 8)]
#[case(b"42.0", 2, Some(8), 7, 10, 6)]
#[case(b"\x00\x00\x00\x2a", 0, Some(6), 3, 0, 0)]
#[case(b"\x00\x00\x00\x00\x00\x00\x00\x2a", 4, Some(7), 5, 4, 4)]
#[case(b"\x00\x00\x00\x01", 0, Some(2), 2, 8, 8)]
#[case(b"", 9, None, 3, 9, 9)]
#[case(b"\xff\xfe", 3, Some(6), 4, 3, 3)]
#[case(b"caf\xc3\xa9", 6, Some(5), 3, 2, 2)]
#[case(b"cafe\xcc\x81", 2, Some(10), 5, 2, 2)]
#[case(b"TT0124", 10, Some(3), 8, 6, 10)]
#[case(b"fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 10, Some(3), 11, 6, 10)]
#[case(b"3490358332", 0, Some(5), 11, 8, 8)]
#[case(b"842411034", 7, Some(0), 0, 7, 7)]
fn each_client_has_its_own_place_for_a_key(
    #[case] key: &[u8],
    #[case] murmur2: i32,
    #[case] crc32: Option<i32>,
    #[case] fnv1a: i32,
    #[case] unsigned: u32,
    #[case] absolute: u32,
) {
    assert_eq!(of(Partitioner::Murmur2, key, 12), Some(murmur2));
    assert_eq!(of(Partitioner::Crc32, key, 12), crc32);
    assert_eq!(of(Partitioner::Fnv1a, key, 12), Some(fnv1a));
    let hash = turbine_keygroups::murmur2(key);
    assert_eq!(hash % 12, unsigned);
    assert_eq!(hash.cast_signed().unsigned_abs() % 12, absolute);
}

/// Of 6 partitions: CRC32 and FNV-1a.
#[rstest]
#[case("AAPL", 0, 1)]
#[case("MSFT", 1, 3)]
#[case("GOOGL", 1, 5)]
#[case("AMZN", 4, 3)]
#[case("NVDA", 1, 0)]
#[case("META", 1, 4)]
#[case("TSLA", 3, 1)]
#[case("JPM", 3, 4)]
#[case("V", 4, 1)]
#[case("WMT", 0, 5)]
fn stock_symbols(#[case] key: &str, #[case] crc32: i32, #[case] fnv1a: i32) {
    assert_eq!(of(Partitioner::Crc32, key.as_bytes(), 6), Some(crc32));
    assert_eq!(of(Partitioner::Fnv1a, key.as_bytes(), 6), Some(fnv1a));
}

/// librdkafka's own unit test for FNV-1a, whose values are Go's; of the largest prime below 2^31,
/// and 15 for `TT0124`, of which CRC32 makes 9 (both from public threads).
#[test]
fn values_of_other_projects() {
    const PRIME: u32 = 0x7fff_ffff;
    for (key, hash) in [
        ("kafka", 0x0d33_c4e1),
        ("giberish123456789", 0x77a5_8295),
        ("1234", 0x023b_dd03),
        ("", 0x7ee3_623b),
    ] {
        assert_eq!(
            of(Partitioner::Fnv1a, key.as_bytes(), PRIME),
            Some(hash),
            "{key}"
        );
    }
    assert_eq!(of(Partitioner::Crc32, b"TT0124", 15), Some(9));
}

#[test]
fn the_smallest_fnv_hash_has_no_absolute_value_and_a_partition_all_the_same() {
    // Hashes to -2^31, whose magnitude is 8 modulo 12 and 0 modulo 16.
    assert_eq!(of(Partitioner::Fnv1a, b"1468509572224", 12), Some(8));
    assert_eq!(of(Partitioner::Fnv1a, b"1468509572224", 16), Some(0));
}

/// What is suspected if each of `keys` lies where `place` puts it.
fn suspected(
    count: u32,
    keys: impl Iterator<Item = String>,
    place: impl Fn(usize, &str) -> Partition,
) -> Option<Lookalike> {
    let mut suspicion = Suspicion::new(raw(count));
    for (at, key) in keys.enumerate() {
        let found = place(at, &key);
        if found != partition_of(key.as_bytes(), raw(count)) {
            suspicion.add(key.as_bytes(), found);
        }
    }
    suspicion.looks_like()
}

fn numbers(many: u32) -> impl Iterator<Item = String> {
    (0..many).map(|n| (n * 7919).to_string())
}

#[rstest]
#[case(2)]
#[case(6)]
#[case(12)]
#[case(960)]
fn misplaced_keys_look_like_the_client_that_placed_them(#[case] count: u32) {
    for client in [Partitioner::Crc32, Partitioner::Fnv1a] {
        let found = suspected(count, numbers(200), |_, key| {
            client.partition(key.as_bytes(), raw(count)).unwrap()
        });
        assert_eq!(found, Some(Lookalike::Client(client)));
    }
    let long = suspected(count, numbers(200), |_, key| {
        let number: i64 = key.parse().unwrap();
        partition_of(&number.to_be_bytes(), raw(count))
    });
    assert_eq!(long, Some(Lookalike::BinaryInteger(8)));
    let short = suspected(count, numbers(200), |_, key| {
        let number: i32 = key.parse().unwrap();
        partition_of(&number.to_be_bytes(), raw(count))
    });
    assert_eq!(short, Some(Lookalike::BinaryInteger(4)));
    let in_turn = suspected(count, numbers(200), |at, _| {
        i32::try_from(at % count as usize)
            .unwrap()
            .try_into()
            .unwrap()
    });
    assert_eq!(in_turn, Some(Lookalike::Unknown));
    let right = suspected(count, numbers(200), |_, key| {
        partition_of(key.as_bytes(), raw(count))
    });
    assert_eq!(right, None);
}

#[test]
fn records_from_before_a_growth_are_no_other_client() {
    for (before, after) in [(4, 6), (4, 8), (6, 12), (1, 12), (7, 8)] {
        let found = suspected(after, numbers(500), |_, key| {
            partition_of(key.as_bytes(), raw(before))
        });
        assert_eq!(
            found,
            Some(Lookalike::EarlierCount(before)),
            "{before} to {after}"
        );
    }
}

#[test]
fn a_few_keys_of_a_second_producer_do_not_hide_the_first_and_two_halves_are_nobody() {
    let mixed = |of_ten: usize| {
        suspected(12, numbers(2000), move |at, key| {
            if at % 10 < of_ten {
                partition_of(key.as_bytes(), raw(5))
            } else {
                Partitioner::Crc32
                    .partition(key.as_bytes(), raw(12))
                    .unwrap()
            }
        })
    };
    assert_eq!(mixed(1), Some(Lookalike::Client(Partitioner::Crc32)));
    assert_eq!(mixed(5), Some(Lookalike::Unknown));
}

#[test]
fn a_handful_of_keys_proves_nobody() {
    let found = suspected(12, numbers(3), |_, key| {
        Partitioner::Crc32
            .partition(key.as_bytes(), raw(12))
            .unwrap()
    });
    assert_eq!(found, Some(Lookalike::TooFewKeys));
}

#[test]
fn texts_that_only_look_like_numbers_are_no_binary_integers() {
    let padded = numbers(300).map(|number| format!("{number:0>9}"));
    let found = suspected(12, padded, |_, key| {
        let number: i64 = key.parse().unwrap();
        partition_of(&number.to_be_bytes(), raw(12))
    });
    assert_ne!(found, Some(Lookalike::BinaryInteger(8)));
}
