//! Where keys lie.

/// Where Kafka's own clients put a key.
///
/// Written here once more, and held to Kafka's own values, so that the tests do not place keys by the code under test.
pub fn partition_of(key: &[u8], count: i32) -> i32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the hash takes the length modulo 2^32"
    )]
    let mut hash = 0x9747_b28c_u32 ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut k = word
            .iter()
            .rev()
            .fold(0_u32, |k, byte| k << 8 | u32::from(*byte));
        k = k.wrapping_mul(MULTIPLIER);
        k ^= k >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ k.wrapping_mul(MULTIPLIER);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest
            .iter()
            .rev()
            .fold(0_u32, |k, byte| k << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^= hash >> 15;
    (hash & 0x7fff_ffff).cast_signed() % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_placed_as_kafka_places_them() {
        // values of org.apache.kafka.common.utils.Utils.murmur2, from Kafka's own UtilsTest
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(
                partition_of(key.as_bytes(), i32::MAX),
                (hash & 0x7fff_ffff) % i32::MAX,
                "{key}"
            );
        }
    }
}
