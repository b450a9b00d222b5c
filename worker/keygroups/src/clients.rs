//! How the clients that people use choose a key's partition.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::counts::RawPartitionCount;
use crate::ownership::{Partition, partition_of};

/// A way to choose the partition of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partitioner {
    /// Kafka's Java client and everything that follows it, Turbine included.
    Murmur2,
    /// librdkafka's default, `consistent_random`, and what is built on it (Python, Go, .NET).
    Crc32,
    /// sarama's default, and librdkafka's `fnv1a`.
    Fnv1a,
}

impl Partitioner {
    /// All of them; the right one first.
    pub const ALL: [Self; 3] = [Self::Murmur2, Self::Crc32, Self::Fnv1a];

    /// Where it puts a key; `None` where it throws dice, as librdkafka's default does for an
    /// empty key.
    #[must_use]
    pub fn partition(self, key: &[u8], count: impl Into<RawPartitionCount>) -> Option<Partition> {
        let count = count.into();
        match self {
            Self::Murmur2 => Some(partition_of(key, count)),
            Self::Crc32 if key.is_empty() => None,
            Self::Crc32 => Some(Partition::of_remainder(crc32(key) % count.get())),
            Self::Fnv1a => Some(Partition::of_remainder(
                // sarama takes the remainder of the signed hash and drops its sign: the same as
                // dropping the sign first, even for -2^31.
                fnv1a(key).cast_signed().unsigned_abs() % count.get(),
            )),
        }
    }

    /// Its name in short.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Murmur2 => "murmur2",
            Self::Crc32 => "CRC32",
            Self::Fnv1a => "FNV-1a",
        }
    }
}

impl fmt::Display for Partitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const CRC32_POLYNOMIAL: u32 = 0xedb8_8320;
const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// The CRC-32 of zip and Ethernet. Keys are short and this is asked about few of them, so it goes
/// bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = crc & 1;
            crc >>= 1;
            if carry == 1 {
                crc ^= CRC32_POLYNOMIAL;
            }
        }
    }
    !crc
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME)
    })
}

/// The binary forms of a key that is an integer in decimal: 8 bytes, and 4 if it fits. Big endian,
/// as Java's serializers write them.
pub(crate) fn binary_forms(key: &[u8]) -> (Option<[u8; 8]>, Option<[u8; 4]>) {
    let number: Option<i64> = std::str::from_utf8(key)
        .ok()
        .and_then(|text| text.parse().ok())
        // `007` and `+7` are texts, not what a number looks like.
        .filter(|number| crate::canonical_key(crate::KeyValue::Int64(*number)) == key);
    let short = number.and_then(|number| i32::try_from(number).ok());
    (number.map(i64::to_be_bytes), short.map(i32::to_be_bytes))
}
