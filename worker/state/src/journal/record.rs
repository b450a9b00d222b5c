//! The form of a record, and of what a segment begins with.
//!
//! A record is a header of 48 bytes and a payload. Numbers are big endian.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | `TJr1` |
//! | 4 | CRC-32C of the rest of the header |
//! | 4 | kind: 1 entry, 2 prepared, 3 done, 4 cancelled, 5 carried |
//! | 4 | length of the payload |
//! | 8 | life of the store |
//! | 8 | number of the entry |
//! | 8 | how much of the segment was durable when this was appended |
//! | 4 | CRC-32C of the payload: an entry's checksum |
//! | 4 | zero |
//!
//! The payload of an entry is its stored form; that of other kinds is empty.

use turbine_protocol::EntryNumber;
use turbine_protocol::journal::{Record, RecordKind};

/// Which store a record belongs to: a random number given to each store when it is made, so that
/// the records of one that was discarded never reach its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Life(pub(crate) u64);

pub(super) const HEADER: usize = 48;
pub(super) const RECORD_MAGIC: [u8; 4] = *b"TJr1";
const SEGMENT_MAGIC: [u8; 8] = *b"TURBJRN1";
/// Length of what a segment begins with: a magic and its own number.
pub(super) const SEGMENT_HEADER: usize = 20;

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) life: Life,
    pub(super) record: Record,
    pub(super) payload: u32,
    pub(super) payload_checksum: u32,
    /// Bytes of the segment that were durable when the record was appended: what is damaged before
    /// that was whole once, and is no torn end.
    pub(super) durable: u64,
}

fn kind_number(kind: RecordKind) -> u32 {
    match kind {
        RecordKind::Entry => 1,
        RecordKind::Prepared => 2,
        RecordKind::Done => 3,
        RecordKind::Cancelled => 4,
        RecordKind::Carried => 5,
    }
}

fn kind_of(number: u32) -> Option<RecordKind> {
    [
        RecordKind::Entry,
        RecordKind::Prepared,
        RecordKind::Done,
        RecordKind::Cancelled,
        RecordKind::Carried,
    ]
    .into_iter()
    .find(|kind| kind_number(*kind) == number)
}

impl Header {
    /// Writes the header over the first bytes of `out`, which are its place.
    pub(super) fn write(&self, out: &mut [u8; HEADER]) {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&RECORD_MAGIC);
        put(&[0; 4]);
        put(&kind_number(self.record.kind).to_be_bytes());
        put(&self.payload.to_be_bytes());
        put(&self.life.0.to_be_bytes());
        put(&self.record.number.get().to_be_bytes());
        put(&self.durable.to_be_bytes());
        put(&self.payload_checksum.to_be_bytes());
        put(&[0; 4]);
        let checksum = crc32c::crc32c(&out[8..]);
        out[4..8].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The header at the front of `bytes`; none if there is no whole and intact one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_be_bytes(*header.get(at..)?.first_chunk::<4>()?))
        };
        let long = |at: usize| -> Option<u64> {
            Some(u64::from_be_bytes(*header.get(at..)?.first_chunk::<8>()?))
        };
        if header[..4] != RECORD_MAGIC || word(4)? != crc32c::crc32c(&header[8..]) {
            return None;
        }
        Some(Self {
            record: Record {
                kind: kind_of(word(8)?)?,
                number: EntryNumber::try_from(long(24)?.cast_signed()).ok()?,
            },
            payload: word(12)?,
            life: Life(long(16)?),
            durable: long(32)?,
            payload_checksum: word(40)?,
        })
    }
}

/// What a segment of this number begins with.
pub(super) fn segment_header(number: u64) -> [u8; SEGMENT_HEADER] {
    let mut header = [0; SEGMENT_HEADER];
    header[..8].copy_from_slice(&SEGMENT_MAGIC);
    header[8..16].copy_from_slice(&number.to_be_bytes());
    let checksum = crc32c::crc32c(&header[..16]);
    header[16..].copy_from_slice(&checksum.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_no_changed_byte_passes() {
        for kind in [
            RecordKind::Entry,
            RecordKind::Prepared,
            RecordKind::Done,
            RecordKind::Cancelled,
            RecordKind::Carried,
        ] {
            let header = Header {
                life: Life(0x0123_4567_89ab_cdef),
                record: Record {
                    kind,
                    number: 77.try_into().unwrap(),
                },
                payload: 1_000,
                payload_checksum: 0xdead_beef,
                durable: 4_096,
            };
            let mut bytes = [0; HEADER];
            header.write(&mut bytes);
            assert_eq!(Header::read(&bytes), Some(header));
            for at in 0..HEADER {
                let mut other = bytes;
                other[at] ^= 0x10;
                assert_eq!(Header::read(&other), None, "byte {at}");
            }
            assert_eq!(Header::read(&bytes[..HEADER - 1]), None);
        }
    }
}
