use std::fmt;

use turbine_keygroups::{
    KeyValue, Lookalike, Partition, RawPartitionCount, canonical_key, partition_of, who_places,
};

/// A record whose partition key belongs to another partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misplaced {
    /// Canonical bytes of the partition key.
    pub key: Vec<u8>,
    /// Its murmur2 hash, the sign bit cleared.
    pub hash: u32,
    /// Where it belongs.
    pub owner: Partition,
    /// Where it lies.
    pub found: Partition,
    /// Partition count of the topic.
    pub count: RawPartitionCount,
    /// The record's own key, by which its producer chose the partition.
    pub record_key: Option<Vec<u8>>,
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hash,
            owner,
            found,
            count,
            ..
        } = self;
        write!(
            f,
            "the partition key (murmur2 hash {hash}) belongs to partition {owner} of {count}, the \
             record lies in {found}: {}",
            self.likely_cause()
        )
    }
}

impl Misplaced {
    /// Where a person should look first.
    pub(crate) fn likely_cause(&self) -> String {
        let Some(own) = self.record_key.as_deref() else {
            return "it has no key of its own, so its producer takes any partition; write the \
                    partition key as the record's key"
                .to_owned();
        };
        if own == self.key {
            let who: Vec<String> = who_places(&self.key, self.found, self.count)
                .iter()
                .map(Lookalike::to_string)
                .collect();
            return format!("it looks like {}", who.join("; or like "));
        }
        if let Some(bytes) = binary_form_of(own, &self.key) {
            return format!("it looks like {}", Lookalike::BinaryInteger(bytes));
        }
        let by_own_key = if partition_of(own, self.count) == self.found {
            "that is where murmur2 puts its own key, which is another than the partition key"
        } else {
            "its own key is another than the partition key"
        };
        format!("{by_own_key}; write the partition key as the record's key")
    }
}

/// How many bytes `own` has, if it is the integer in binary form that `key` is in decimal.
fn binary_form_of(own: &[u8], key: &[u8]) -> Option<u8> {
    let (bytes, number) = match own.len() {
        4 => (4, i64::from(i32::from_be_bytes(own.try_into().ok()?))),
        8 => (8, i64::from_be_bytes(own.try_into().ok()?)),
        _ => return None,
    };
    (canonical_key(KeyValue::Int64(number)) == key).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Places of 12, from vectors of the clients: `42` is 4 by murmur2, 8 by CRC32 and 5 by FNV-1a;
    /// `abc` is 3 and `foobar` 6 by murmur2.
    #[rstest]
    #[case(Some(&b"42"[..]), 8, "it looks like CRC32: librdkafka's default")]
    #[case(Some(&b"42"[..]), 5, "it looks like FNV-1a: sarama's default")]
    #[case(Some(&b"42"[..]), 11, "it looks like no hash of the key that is known")]
    #[case(Some(&b"\x00\x00\x00\x2a"[..]), 0, "integers in binary form (4 bytes)")]
    #[case(Some(&b"\x00\x00\x00\x00\x00\x00\x00\x2a"[..]), 5, "integers in binary form (8 bytes)")]
    #[case(Some(&b"abc"[..]), 3, "that is where murmur2 puts its own key")]
    #[case(Some(&b"foobar"[..]), 3, "its own key is another than the partition key")]
    #[case(None, 7, "it has no key of its own")]
    fn a_person_is_told_where_to_look(
        #[case] record_key: Option<&[u8]>,
        #[case] found: i32,
        #[case] words: &str,
    ) {
        let misplaced = Misplaced {
            key: b"42".to_vec(),
            hash: 1_027_372_012,
            owner: 4.try_into().unwrap(),
            found: found.try_into().unwrap(),
            count: 12_u32.try_into().unwrap(),
            record_key: record_key.map(<[u8]>::to_vec),
        };
        let text = misplaced.to_string();
        assert!(text.contains(words), "{text}");
        let place = format!("belongs to partition 4 of 12, the record lies in {found}: ");
        assert!(text.contains(&place), "{text}");
    }
}
