//! What a task's records prove, and what one misplaced key looks like.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use rstest::rstest;
use turbine_keygroups::{
    Evidence, Lookalike, MisplacedRecord, Partition, Partitioner, RawPartitionCount, Suspicion,
    Verdict, partition_of, who_places,
};

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

fn record(offset: i64) -> MisplacedRecord {
    MisplacedRecord {
        offset,
        key_hash: 7,
        belongs_to: 3.try_into().unwrap(),
        looks_like: "CRC32".to_owned(),
    }
}

#[test]
fn misplaced_stays_until_it_is_cleared_and_names_the_first_record() {
    let mut evidence = of_count(960);
    for hash in 0..5 {
        evidence.saw_right(hash);
    }
    assert_eq!(evidence.misplaced(), None);
    evidence.saw_misplaced(record(17));
    evidence.saw_misplaced(record(18));
    for hash in 0..100 {
        evidence.saw_right(hash);
    }
    assert_eq!(evidence.verdict(), Verdict::Misplaced);
    let text = serde_json::to_string(&evidence).unwrap();
    let mut evidence = serde_json::from_str::<Evidence>(&text)
        .unwrap()
        .under(raw(2));
    assert_eq!(evidence.verdict(), Verdict::Misplaced);
    evidence.looks_like("random".to_owned());
    let looks_like = "random".to_owned();
    assert_eq!(
        evidence.misplaced(),
        Some(&MisplacedRecord {
            looks_like,
            ..record(17)
        })
    );

    evidence.clear();
    assert_eq!(
        (evidence.verdict(), evidence.misplaced()),
        (Verdict::Unknown, None)
    );
    let mut evidence = evidence.under(raw(960));
    for hash in 0..5 {
        assert_eq!(evidence.verdict(), Verdict::Unknown);
        evidence.saw_right(hash);
    }
    assert_eq!(evidence.verdict(), Verdict::Verified);
}

/// A store of the version that kept the verdict alone.
#[test]
fn a_verdict_without_its_record_is_read() {
    let text = r#"{"verdict":"misplaced","count":4,"seen":[]}"#;
    let evidence: Evidence = serde_json::from_str(text).unwrap();
    assert_eq!(
        (evidence.verdict(), evidence.misplaced()),
        (Verdict::Misplaced, None)
    );
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

/// Keys that murmur2 puts elsewhere, in partition 0 of 12 all the same.
#[test]
fn random_keys_in_partition_0_alone_are_no_sign_of_one_partition() {
    let zero = Partition::try_from(0).unwrap();
    let keys = (0..200_u32)
        .map(|n| format!("key-{n}"))
        .filter(|key| partition_of(key.as_bytes(), raw(12)) != zero);
    let (mut topic, mut task) = (
        Suspicion::new(raw(12)),
        Suspicion::within_one_partition(raw(12)),
    );
    for key in keys {
        topic.add(key.as_bytes(), zero);
        task.add(key.as_bytes(), zero);
    }
    assert_eq!(topic.looks_like(), Some(Lookalike::EarlierCount(1)));
    assert_eq!(task.looks_like(), Some(Lookalike::Unknown));
}
