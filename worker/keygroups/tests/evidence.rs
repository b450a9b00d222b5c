//! What a task's records prove, and what one misplaced key looks like.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use rstest::rstest;
use turbine_keygroups::{Evidence, Lookalike, Partitioner, RawPartitionCount, Verdict, who_places};

fn raw(count: u32) -> RawPartitionCount {
    RawPartitionCount::try_from(count).unwrap()
}

fn of_count(count: u32) -> Evidence {
    Evidence::default().under(raw(count))
}

/// `ceil(40 / log2 N)`, by hand.
#[rstest]
#[case(2, 40)]
#[case(4, 20)]
#[case(12, 12)]
#[case(960, 5)]
fn one_key_fewer_than_needed_leaves_it_unknown(#[case] count: u32, #[case] needed: u32) {
    let mut evidence = of_count(count);
    for hash in 1..needed {
        evidence.saw_right(hash);
        evidence.saw_right(hash);
    }
    assert_eq!(evidence.verdict(), Verdict::Unknown);
    evidence.saw_right(needed);
    assert_eq!(evidence.verdict(), Verdict::Verified);
}

#[test]
fn one_partition_proves_nothing_and_keeps_nothing() {
    let mut evidence = of_count(1);
    for hash in 0..10_000 {
        evidence.saw_right(hash);
    }
    assert_eq!(evidence, of_count(1));
    assert_eq!(evidence.verdict(), Verdict::Unknown);
}

#[test]
fn misplaced_is_final_and_verified_is_not() {
    let mut evidence = of_count(960);
    for hash in 0..5 {
        evidence.saw_right(hash);
    }
    evidence.saw_misplaced();
    for hash in 0..100 {
        evidence.saw_right(hash);
    }
    assert_eq!(evidence.verdict(), Verdict::Misplaced);
    assert_eq!(evidence.under(raw(2)).verdict(), Verdict::Misplaced);
}

#[test]
fn right_places_at_another_count_prove_nothing() {
    let mut evidence = of_count(960);
    for hash in 0..5 {
        evidence.saw_right(hash);
    }
    assert_eq!(
        evidence.clone().under(raw(960)).verdict(),
        Verdict::Verified
    );
    assert_eq!(evidence.under(raw(4)), of_count(4));
}

#[test]
fn it_goes_on_where_it_was_stored() {
    let mut evidence = of_count(960);
    for hash in 0..4 {
        evidence.saw_right(hash);
    }
    let text = serde_json::to_string(&evidence).unwrap();
    assert_eq!(
        text,
        r#"{"verdict":"unknown","count":960,"seen":[0,1,2,3]}"#
    );
    let mut evidence: Evidence = serde_json::from_str(&text).unwrap();
    evidence.saw_right(4);
    assert_eq!(evidence.verdict(), Verdict::Verified);
    assert_eq!(
        serde_json::from_str::<Evidence>("{}").unwrap(),
        Evidence::default()
    );
}

/// Places of 12 as in the table of `clients.rs`; murmur2 puts `42` into 4 and `abc` into 3.
#[rstest]
#[case(b"42", 8, &[Lookalike::Client(Partitioner::Crc32)])]
#[case(b"42", 5, &[Lookalike::Client(Partitioner::Fnv1a)])]
#[case(b"42", 0, &[Lookalike::BinaryInteger(4)])]
#[case(b"42", 11, &[Lookalike::Unknown])]
#[case(b"abc", 6, &[Lookalike::Client(Partitioner::Crc32)])]
#[case(b"abc", 11, &[Lookalike::Client(Partitioner::Fnv1a)])]
#[case(b"abc", 0, &[Lookalike::Unknown])]
#[case(b"\xff\xfe", 4, &[Lookalike::Client(Partitioner::Fnv1a)])]
#[case(b"", 3, &[Lookalike::Client(Partitioner::Fnv1a)])]
fn a_misplaced_key_tells_who_would_place_it_so(
    #[case] key: &[u8],
    #[case] found: i32,
    #[case] who: &[Lookalike],
) {
    assert_eq!(who_places(key, found.try_into().unwrap(), raw(12)), who);
}
