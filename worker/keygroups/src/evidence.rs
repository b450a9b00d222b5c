//! What records prove about the client that placed them.

use std::fmt;

use crate::clients::{Partitioner, binary_forms};
use crate::counts::RawPartitionCount;
use crate::murmur2::positive_hash;
use crate::ownership::{Partition, partition_of, partition_of_hash};

/// How many distinct keys have to lie where murmur2 puts them until chance is ruled out:
/// `ceil(40 / log2 N)` for `N` partitions, which leaves chance one in 2^40. `None` for one
/// partition, where every key is right and nothing is proved.
#[must_use]
pub fn keys_needed(count: impl Into<RawPartitionCount>) -> Option<u32> {
    keys_for(count.into(), CERTAIN_BITS)
}

const CERTAIN_BITS: u32 = 40;
/// A guess at a client chooses the best of up to a thousand hypotheses and is no verdict.
const GUESS_BITS: u32 = 20;

/// The least `k` with `count^k >= 2^bits`, in whole numbers: logarithms of floats round.
fn keys_for(count: RawPartitionCount, bits: u32) -> Option<u32> {
    if count.get() < 2 {
        return None;
    }
    let (mut keys, mut chances) = (0, 1_u128);
    while chances < 1 << bits {
        chances *= u128::from(count.get());
        keys += 1;
    }
    Some(keys)
}

/// What misplaced keys look like. A guess, to tell a person where to look first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookalike {
    /// A client with another hash.
    Client(Partitioner),
    /// murmur2 over the integer in binary form, of so many bytes, where the key is its decimal
    /// text: a Java client with a serializer of integers.
    BinaryInteger(u8),
    /// murmur2 at this count: the topic had so many partitions when the records were written.
    EarlierCount(u32),
    /// No hash that is known: partitions chosen at random, in turn, or by the producer's own rule.
    Unknown,
    /// Too few keys to tell.
    TooFewKeys,
}

impl fmt::Display for Lookalike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(Partitioner::Murmur2) => f.write_str("murmur2: Kafka's default"),
            Self::Client(Partitioner::Crc32) => f.write_str(
                "CRC32: librdkafka's default; set `partitioner=murmur2_random` in the producer",
            ),
            Self::Client(Partitioner::Fnv1a) => f.write_str(
                "FNV-1a: sarama's default or librdkafka's `fnv1a`; choose the murmur2 partitioner in the producer",
            ),
            Self::BinaryInteger(bytes) => write!(
                f,
                "murmur2 over integers in binary form ({bytes} bytes), where the key is decimal text: write keys as text in the producer"
            ),
            Self::EarlierCount(1) => {
                f.write_str("one partition for all keys: written before the topic grew, or to a fixed partition")
            }
            Self::EarlierCount(count) => write!(
                f,
                "murmur2 at {count} partitions: written before the topic grew, or by a producer that has not seen it grow"
            ),
            Self::Unknown => f.write_str(
                "no hash of the key that is known: partitions chosen at random, in turn, or by the producer's own rule",
            ),
            Self::TooFewKeys => f.write_str("too few keys to tell"),
        }
    }
}

/// Counts that a topic may have had before are tried up to this many.
const EARLIER_COUNTS: u32 = 960;
/// Keys that are compared with every earlier count; more would not change what is seen.
const KEYS_COMPARED: u64 = 10_000;
/// Of ten misplaced keys a lookalike explains so many: a second producer may be at work.
const EXPLAINS_OF_TEN: u64 = 9;

/// Distinct misplaced keys, and which clients would have put them where they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspicion {
    count: RawPartitionCount,
    keys: u64,
    clients: [u64; Partitioner::ALL.len()],
    binary: [u64; 2],
    compared: u64,
    earlier: Vec<u64>,
    /// The keys are of one partition: that they lie together says nothing.
    within_one: bool,
}

impl Suspicion {
    /// Nothing seen yet on a topic of `count` partitions.
    #[must_use]
    pub fn new(count: RawPartitionCount) -> Self {
        let earlier = (count.get() - 1).min(EARLIER_COUNTS);
        Self {
            count,
            keys: 0,
            clients: [0; Partitioner::ALL.len()],
            binary: [0; 2],
            compared: 0,
            earlier: vec![0; earlier as usize],
            within_one: false,
        }
    }

    /// The same for keys of one partition only. That all of them lie in it is then no sign of a time with one partition.
    #[must_use]
    pub fn within_one_partition(count: RawPartitionCount) -> Self {
        Self {
            within_one: true,
            ..Self::new(count)
        }
    }

    /// Adds a key that lies in `found`, where murmur2 does not put it. To be called once per key
    /// and partition: records of one key prove no more than one.
    pub fn add(&mut self, key: &[u8], found: Partition) {
        self.keys += 1;
        for (client, fits) in Partitioner::ALL.into_iter().zip(&mut self.clients) {
            *fits += u64::from(client.partition(key, self.count) == Some(found));
        }
        let (long, short) = binary_forms(key);
        let fits = |form: Option<&[u8]>| {
            u64::from(form.is_some_and(|form| partition_of(form, self.count) == found))
        };
        self.binary[0] += fits(long.as_ref().map(<[u8; 8]>::as_slice));
        self.binary[1] += fits(short.as_ref().map(<[u8; 4]>::as_slice));
        if self.compared < KEYS_COMPARED {
            self.compared += 1;
            let hash = positive_hash(key);
            for (earlier, fits) in (1_u32..).zip(&mut self.earlier) {
                let earlier = RawPartitionCount::try_from(earlier);
                *fits += u64::from(
                    earlier.is_ok_and(|earlier| partition_of_hash(hash, earlier) == found),
                );
            }
        }
    }

    /// How many distinct misplaced keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// How many of them a client would have put where they lie.
    #[must_use]
    pub fn explained_by(&self, client: Partitioner) -> u64 {
        Partitioner::ALL
            .into_iter()
            .zip(self.clients)
            .find_map(|(each, fits)| (each == client).then_some(fits))
            .unwrap_or(0)
    }

    /// What the keys look like; `None` without any.
    #[must_use]
    pub fn looks_like(&self) -> Option<Lookalike> {
        if self.keys == 0 {
            return None;
        }
        // On one partition nothing can be misplaced.
        let enough = u64::from(keys_for(self.count, GUESS_BITS)?);
        let explains = |fits: u64, of: u64| fits >= enough && fits * 10 >= of * EXPLAINS_OF_TEN;
        let known = [
            (
                Lookalike::Client(Partitioner::Crc32),
                self.explained_by(Partitioner::Crc32),
            ),
            (
                Lookalike::Client(Partitioner::Fnv1a),
                self.explained_by(Partitioner::Fnv1a),
            ),
            (Lookalike::BinaryInteger(8), self.binary[0]),
            (Lookalike::BinaryInteger(4), self.binary[1]),
        ];
        let earlier = (1_u32..)
            .zip(&self.earlier)
            .map(|(count, fits)| (Lookalike::EarlierCount(count), *fits))
            .filter(|(_, fits)| explains(*fits, self.compared))
            .filter(|(earlier, _)| !(self.within_one && *earlier == Lookalike::EarlierCount(1)));
        let best = known
            .into_iter()
            .filter(|(_, fits)| explains(*fits, self.keys))
            .chain(earlier)
            // Of equals the first.
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        Some(match best {
            Some((lookalike, _)) => lookalike,
            None if self.keys >= enough => Lookalike::Unknown,
            None => Lookalike::TooFewKeys,
        })
    }
}
