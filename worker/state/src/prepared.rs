//! An entry that is durable and does not count yet: its progress, and its changes in one run of bytes.
//!
//! Per change: length of the key (4 bytes, big endian), the key, `0` for a deletion or `1`, length of the value (4 bytes, big
//! endian) and the value for a put.

use turbine_protocol::Change;

use crate::task_state::Progress;

const DELETE: u8 = 0;
const PUT: u8 = 1;

/// A prepared entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// What the store's progress is if it counts.
    pub(crate) progress: Progress,
    /// The changes, encoded.
    pub(crate) changes: Vec<u8>,
}

/// Encodes changes; none if one is larger than its length can say.
pub(crate) fn encode(changes: &[Change<'_>]) -> Option<Vec<u8>> {
    let sized = |bytes: &[u8], out: &mut Vec<u8>| {
        let length = u32::try_from(bytes.len()).ok()?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(bytes);
        Some(())
    };
    let bytes = changes
        .iter()
        .map(|change| change.key.len() + change.value.map_or(0, <[u8]>::len) + 9)
        .sum();
    let mut out = Vec::with_capacity(bytes);
    for change in changes {
        sized(change.key, &mut out)?;
        match change.value {
            None => out.push(DELETE),
            Some(value) => {
                out.push(PUT);
                sized(value, &mut out)?;
            }
        }
    }
    Some(out)
}

/// Shows each change; none if the bytes are no run of changes.
pub(crate) fn decode<'a>(
    encoded: &'a [u8],
    mut visit: impl FnMut(&'a [u8], Option<&'a [u8]>),
) -> Option<()> {
    fn sized<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (bytes, tail) = tail.split_at_checked(length)?;
        *rest = tail;
        Some(bytes)
    }
    let mut rest = encoded;
    while !rest.is_empty() {
        let key = sized(&mut rest)?;
        let (kind, tail) = rest.split_first()?;
        rest = tail;
        match *kind {
            DELETE => visit(key, None),
            PUT => visit(key, Some(sized(&mut rest)?)),
            _ => return None,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_back_and_a_cut_run_is_none() {
        let changes = [
            Change {
                key: b"",
                value: Some(b""),
            },
            Change {
                key: b"abc",
                value: Some(b"\x00\x01"),
            },
            Change {
                key: b"gone",
                value: None,
            },
        ];
        let encoded = encode(&changes).unwrap();
        let mut read = Vec::new();
        decode(&encoded, |key, value| read.push((key, value))).unwrap();
        let written: Vec<_> = changes
            .iter()
            .map(|change| (change.key, change.value))
            .collect();
        assert_eq!(read, written);
        assert_eq!(decode(&[], |_, _| panic!("nothing is there")), Some(()));
        // A run that was cut between two changes is one of fewer changes; the checksum of its entry tells.
        for end in (0..encoded.len()).filter(|end| ![0, 9, 23].contains(end)) {
            assert_eq!(decode(&encoded[..end], |_, _| {}), None, "cut at {end}");
        }
    }
}
