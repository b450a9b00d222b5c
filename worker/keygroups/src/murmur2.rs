/// The seed of Kafka's default partitioner.
const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;
const R: u32 = 24;

/// The 32-bit murmur2 hash of `bytes`, bit for bit that of Kafka's Java client
/// (`org.apache.kafka.common.utils.Utils.murmur2`), as an unsigned number.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    // The Java client takes the length as a 32-bit int, so longer inputs wrap the same way here.
    #[allow(clippy::cast_possible_truncation)]
    let length = bytes.len() as u32;
    let mut h = SEED ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ (h >> 15)
}

/// [`murmur2`] with the sign bit cleared, which is what Kafka takes modulo the partition count.
///
/// Clearing the bit is not the absolute value: 2^31 is 8 modulo 12, so any other treatment of the
/// sign sends every second key elsewhere, and powers of two hide it.
#[must_use]
pub fn positive_hash(bytes: &[u8]) -> u32 {
    murmur2(bytes) & 0x7fff_ffff
}
