//! murmur2 of 100,000 keys against one number that Kafka's own Java code gave. `./run test` runs this in both profiles of the
//! compiler: with overflow checks and without optimisation, and as it is shipped.

use turbine_keygroups::murmur2;

/// What `tests/reference/Digest.java` prints; an end-to-end test holds it to that program.
const DIGEST: &str = include_str!("murmur2.digest");

/// As `tests/reference/Digest.java` makes them.
#[test]
fn a_hundred_thousand_keys_hash_as_in_java_whatever_the_profile() {
    let mut state = 1_u64;
    let mut step = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let mut digest = 0_i64;
    for _ in 0..100_000 {
        let length = (step() >> 33) % 65;
        let key: Vec<u8> = (0..length).map(|_| step().to_be_bytes()[0]).collect();
        digest = digest
            .wrapping_mul(31)
            .wrapping_add(i64::from(murmur2(&key).cast_signed()));
    }
    assert_eq!(digest.to_string(), DIGEST.trim());
}
