//! Reading a segment: its records, where a torn end was, and what is damaged.

use super::record::{HEADER, Header, RECORD_MAGIC, SEGMENT_HEADER, segment_header};

/// A whole record of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) header: Header,
    /// Where its payload begins in the segment.
    pub(super) payload_at: u64,
    /// Damaged bytes lie between this record and the one before: what they held is not known.
    pub(super) after_damage: bool,
}

/// What a segment holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scan {
    pub(super) records: Vec<Found>,
    /// How far the segment is worth keeping: what lies behind was never durable.
    pub(super) good: u64,
    /// Where bytes lie that were durable once and are no records now.
    pub(super) damaged_at: Option<u64>,
}

/// Reads a segment. Bytes that are no record are a torn end, unless something later proves that
/// they were durable: a later record says so, or the segment is not the last one (`closed`), as a
/// segment is synced before the next is begun.
pub(super) fn scan(bytes: &[u8], number: u64, closed: bool) -> Scan {
    let mut scan = Scan::default();
    if bytes.get(..SEGMENT_HEADER) != Some(&segment_header(number)[..]) {
        if closed || records_behind(bytes, 0, 1).is_some() {
            scan.damaged_at = Some(0);
            scan.good = bytes.len() as u64;
        }
        return scan;
    }
    let mut at = SEGMENT_HEADER;
    let mut after_damage = false;
    while at < bytes.len() {
        if let Some((header, end)) = record_at(bytes, at) {
            scan.records.push(Found {
                header,
                payload_at: (at + HEADER) as u64,
                after_damage,
            });
            after_damage = false;
            at = end;
            continue;
        }
        let next = records_behind(bytes, at, if closed { 0 } else { at as u64 + 1 });
        match next {
            Some(next) => {
                scan.damaged_at.get_or_insert(at as u64);
                after_damage = true;
                at = next;
            }
            None => {
                if closed {
                    scan.damaged_at.get_or_insert(at as u64);
                    at = bytes.len();
                }
                break;
            }
        }
    }
    scan.good = at as u64;
    scan
}

/// The whole record at this place, and where it ends.
fn record_at(bytes: &[u8], at: usize) -> Option<(Header, usize)> {
    let header = Header::read(bytes.get(at..)?)?;
    let end = at
        .checked_add(HEADER)?
        .checked_add(usize::try_from(header.payload).ok()?)?;
    let payload = bytes.get(at + HEADER..end)?;
    (crc32c::crc32c(payload) == header.payload_checksum).then_some((header, end))
}

/// The first whole record behind `at`, if any record behind it says that at least `durable` bytes
/// were durable when it was appended.
fn records_behind(bytes: &[u8], at: usize, durable: u64) -> Option<usize> {
    let mut first = None;
    let mut at = at + 1;
    while let Some(offset) = bytes
        .get(at..)?
        .windows(RECORD_MAGIC.len())
        .position(|window| window == RECORD_MAGIC)
    {
        let place = at + offset;
        match record_at(bytes, place) {
            Some((header, end)) => {
                first.get_or_insert(place);
                if header.durable >= durable {
                    return first;
                }
                at = end;
            }
            None => at = place + 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use turbine_protocol::journal::{Record, RecordKind};

    use super::super::record::Life;
    use super::*;

    /// A segment of entries with these payloads; the `durable` of each is where the segment ended
    /// before it, if `synced`, else what it was at the start.
    fn segment(payloads: &[&[u8]], synced: bool) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = segment_header(3).to_vec();
        let mut starts = Vec::new();
        for (at, payload) in payloads.iter().enumerate() {
            starts.push(bytes.len());
            let header = Header {
                life: Life(9),
                record: Record {
                    kind: RecordKind::Entry,
                    number: (i64::try_from(at).unwrap() + 1).try_into().unwrap(),
                },
                payload: u32::try_from(payload.len()).unwrap(),
                payload_checksum: crc32c::crc32c(payload),
                durable: if synced {
                    bytes.len() as u64
                } else {
                    SEGMENT_HEADER as u64
                },
            };
            let mut head = [0; HEADER];
            header.write(&mut head);
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(payload);
        }
        starts.push(bytes.len());
        (bytes, starts)
    }

    fn numbers(scan: &Scan) -> Vec<i64> {
        scan.records
            .iter()
            .map(|found| found.header.record.number.get())
            .collect()
    }

    const PAYLOADS: [&[u8]; 4] = [b"one", b"", b"three TJr1 three", b"four"];

    #[test]
    fn a_torn_end_is_cut_where_the_last_whole_record_ends() {
        let (whole, starts) = segment(&PAYLOADS, true);
        for end in 0..=whole.len() {
            let found = scan(&whole[..end], 3, false);
            let records = starts[1..].iter().filter(|start| **start <= end).count();
            assert_eq!(numbers(&found).len(), records, "cut at {end}");
            assert_eq!(found.damaged_at, None, "cut at {end}");
            let good = if end < SEGMENT_HEADER {
                0
            } else {
                starts[records]
            };
            assert_eq!(found.good, good as u64, "cut at {end}");
        }
    }

    #[test]
    fn damage_before_what_was_durable_is_no_torn_end() {
        let (whole, starts) = segment(&PAYLOADS, true);
        for at in SEGMENT_HEADER..starts[3] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let found = scan(&bytes, 3, false);
            let hit = starts.iter().filter(|start| **start <= at).count() - 1;
            assert_eq!(found.damaged_at, Some(starts[hit] as u64), "byte {at}");
            let left: Vec<i64> = (1..=4)
                .filter(|n| *n != i64::try_from(hit).unwrap() + 1)
                .collect();
            assert_eq!(numbers(&found), left, "byte {at}");
            let marked: Vec<bool> = found.records.iter().map(|r| r.after_damage).collect();
            assert_eq!(marked.iter().filter(|m| **m).count(), 1);
            assert!(marked[hit]);
            assert_eq!(found.good, whole.len() as u64);
        }
    }

    #[test]
    fn pages_that_reached_the_disk_out_of_order_are_a_torn_end() {
        let (whole, starts) = segment(&PAYLOADS, false);
        for hit in 0..4 {
            let mut bytes = whole.clone();
            bytes[starts[hit]..starts[hit] + HEADER].fill(0);
            let found = scan(&bytes, 3, false);
            assert_eq!(found.damaged_at, None, "record {hit}");
            assert_eq!(numbers(&found).len(), hit);
            assert_eq!(found.good, starts[hit] as u64);
        }
    }

    #[test]
    fn a_closed_segment_has_no_torn_end_and_another_number_is_damage() {
        let (whole, starts) = segment(&PAYLOADS, true);
        let found = scan(&whole[..starts[4] - 1], 3, true);
        assert_eq!(found.damaged_at, Some(starts[3] as u64));
        assert_eq!(scan(&whole, 4, true).damaged_at, Some(0));
        assert_eq!(scan(&whole, 3, true).damaged_at, None);
    }
}
